"""Fish: a body flat from side to side, eyes and mouth in front, the tail behind, fins above and below."""

from __future__ import annotations

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, Vec, ball, both, ring, rod

EYE = "#101418"


def head(y: float, x: float, z: float, r: float, lips: str) -> list[Solid]:
    """Eyes at both sides and a mouth at the front end ``y``."""
    return [
        *both(
            ball((x, y - 0.24, z + 0.1), (r * 0.5, r, r), "#f4f1e4"),
            ball((x + r * 0.35, y - 0.22, z + 0.1), (r * 0.4, r * 0.6, r * 0.6), EYE, gloss=0.9),
        ),
        ball((0, y, z - 0.05), (0.09, 0.06, 0.06), lips),
    ]


def fin(at: Vec, reach: float, width: float, tilt: float, colour: str | Surface) -> Solid:
    """A thin blade in the plane of the body, its long axis ``tilt`` degrees from y towards z."""
    return ball(at, (0.035, reach, width), colour, turn=(tilt, 0, 0))


def tail(y: float, reach: float, fork: float, colour: str | Surface) -> list[Solid]:
    return [
        fin((0, y - reach * 0.6, reach * 0.35), reach, 0.16, -fork, colour),
        fin((0, y - reach * 0.6, -reach * 0.35), reach, 0.16, fork, colour),
    ]


def angelfish(coat: str, bar: str, bars: int, fins: float) -> list[Solid]:
    return [
        ball((0, 0, 0), (0.16, 0.7, 0.62), Surface(coat, "hoops", bar, bars)),
        *head(0.68, 0.11, 0.0, 0.1, "#e8c070"),
        *tail(-0.6, 0.34, 35, coat),
        fin((0, -0.3, 0.55 + fins / 2), fins + 0.15, 0.16, -60, coat),
        fin((0, -0.3, -0.55 - fins / 2), fins + 0.15, 0.16, 60, coat),
        *both(ball((0.16, 0.2, -0.15), (0.04, 0.2, 0.08), bar, turn=(0, 0, 30))),
    ]


def tuna(back: str, belly: int, dorsal: int, finlets: str) -> list[Solid]:
    spots = [0.25 - 0.25 * i for i in range(dorsal)]
    return [
        ball((0, 0, 0), (0.3, 1.05, 0.36), Surface(back, "bottom", "#dfe6e8", belly), gloss=0.5),
        *head(1.02, 0.18, 0.0, 0.09, "#8c9aa4"),
        *tail(-0.95, 0.42, 52, back),
        *[fin((0, y, 0.4), 0.2, 0.09, -55, finlets) for y in spots],
        fin((0, -0.3, -0.36), 0.2, 0.08, 55, finlets),
        *both(ball((0.3, 0.35, -0.1), (0.03, 0.3, 0.09), back, turn=(15, 0, 20))),
    ]


def puffer(coat: str, mark: str, pattern: str, spines: int) -> list[Solid]:
    def belt(z: float, r: float) -> list[Solid]:
        end = 1.35
        return ring(
            spines,
            r,
            lambda x, y, a: rod((x, y, z), (x * end, y * end, z * end), 0.045, "#f0e4b8", taper=0.1),
        )

    return [
        ball(
            (0, 0, 0),
            (0.58, 0.66, 0.55),
            Surface(coat, pattern, mark, {"spots": 26, "speckle": 5, "hoops": 4}[pattern]),
        ),
        ball((0, 0.05, -0.2), (0.53, 0.58, 0.42), "#f3ead0"),
        *head(0.66, 0.33, 0.1, 0.15, "#e0a878"),
        *tail(-0.62, 0.24, 30, "#d8a83c"),
        fin((0, -0.4, 0.52), 0.2, 0.1, -40, "#d8a83c"),
        *both(ball((0.62, 0.1, -0.02), (0.16, 0.04, 0.14), "#d8a83c", turn=(0, 0, 30))),
        *belt(0.35, 0.46),
        *belt(0.0, 0.6),
        *belt(-0.35, 0.46),
    ]


def shark(back: str, hammer: float, dorsal: float, stripes: int) -> list[Solid]:
    coat = Surface(back, "hoops", "#3d4a56", stripes) if stripes else Surface(back, "bottom", "#e4e8ea", 3)
    return [
        ball((0, 0, 0), (0.27, 1.15, 0.26), coat),
        ball((0, 0.92, 0.02), (0.16 + hammer, 0.2, 0.1), back),
        *both(ball((0.14 + hammer, 0.95, 0.05), 0.055, EYE, gloss=0.9)),
        ball((0, 0.92, -0.12), (0.14, 0.1, 0.03), "#a8404a"),
        fin((0, -0.02, 0.28 + dorsal / 2), dorsal, 0.15, -58, back),
        fin((0, -1.22, 0.25), 0.38, 0.1, -50, back),
        fin((0, -1.1, -0.12), 0.22, 0.08, 40, back),
        *both(ball((0.42, 0.25, -0.12), (0.36, 0.13, 0.03), back, turn=(0, 15, -35))),
    ]


FAMILY: ToyFamily = {
    "tunas": Genus(
        tuna,
        {
            "blue": {"back": "#2f5a8c", "finlets": "#e0b83c"},
            "green": {"back": "#3a7a5a", "finlets": "#d8b040"},
        },
        {
            "one-fin": {"belly": 1, "dorsal": 1},
            "two-fin": {"belly": 1, "dorsal": 2},
            "four-fin": {"belly": 2, "dorsal": 4},
        },
    ),
    "puffers": Genus(
        puffer,
        {
            "spotted": {"coat": "#c99a3c", "mark": "#5c3f1c", "pattern": "spots"},
            "speckled": {"coat": "#c99a3c", "mark": "#6b4a22", "pattern": "speckle"},
            "hooped": {"coat": "#c4943c", "mark": "#6b4a22", "pattern": "hoops"},
        },
        {"few-spined": {"spines": 6}, "many-spined": {"spines": 10}},
    ),
    "sharks": Genus(
        shark,
        {
            "plain": {"back": "#76848f", "hammer": 0.0, "stripes": 0},
            "tiger": {"back": "#7a878e", "hammer": 0.0, "stripes": 7},
            "hammerhead": {"back": "#76848f", "hammer": 0.32, "stripes": 0},
        },
        {"low-fin": {"dorsal": 0.24}, "high-fin": {"dorsal": 0.42}},
    ),
    "angelfish": Genus(
        angelfish,
        {"yellow": {"coat": "#ecc22e", "bar": "#28303c"}, "coral": {"coat": "#e2602c", "bar": "#e8ecf0"}},
        {
            "two-bar": {"bars": 2, "fins": 0.3},
            "five-bar": {"bars": 5, "fins": 0.3},
            "sail-fin": {"bars": 3, "fins": 0.5},
        },
    ),
}

"""Insects: head, thorax and abdomen in a row, six legs, feelers in front, wings or wing cases above."""

from __future__ import annotations

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, ball, both, chain, flat, rod

BLACK, EYE = "#2a2522", "#c23a2e"


def legs(width: float, ys: tuple[float, ...], colour: str) -> list[Solid]:
    return flat(
        both(*chain([(0.1, y, 0.2), (width * 0.6, y * 1.15, 0.32), (width, y * 1.4, -0.12)], 0.035, colour))
        for y in ys
    )


def feelers(y: float, reach: float, colour: str, club: float = 0.0) -> list[Solid]:
    tip = (0.25, y + reach, 0.5)
    return both(rod((0.07, y, 0.28), tip, 0.025, colour), *([ball(tip, club, colour)] if club else []))


def eyes(x: float, y: float, r: float) -> list[Solid]:
    return both(ball((x, y, 0.3), r, EYE, gloss=0.8))


def beetle(shell: str, mark: str, pattern: str, count: int, horn: float) -> list[Solid]:
    return [
        *legs(0.85, (0.35, 0.0, -0.38), BLACK),
        ball((0, -0.2, 0.14), (0.5, 0.7, 0.16), "#6b5a44"),
        *both(ball((0.2, -0.22, 0.2), (0.34, 0.72, 0.36), Surface(shell, pattern, mark, count), gloss=0.7)),
        ball((0, 0.42, 0.24), (0.38, 0.28, 0.25), BLACK, gloss=0.6),
        ball((0, 0.72, 0.2), (0.22, 0.2, 0.17), BLACK),
        *eyes(0.16, 0.8, 0.07),
        *feelers(0.85, 0.3, BLACK, 0.05),
        *([rod((0, 0.8, 0.3), (0, 0.95 + horn, 0.35 + horn), 0.07, BLACK, taper=0.3)] if horn else []),
    ]


def butterfly(wing: str, edge: str, pattern: str, count: int, lower: float) -> list[Solid]:
    sail = Surface(wing, pattern, edge, count)
    return [
        *legs(0.3, (0.2, 0.05), BLACK),
        ball((0, 0.2, 0.2), (0.1, 0.24, 0.11), BLACK),
        ball((0, -0.25, 0.18), (0.07, 0.4, 0.08), "#4a3a2c"),
        ball((0, 0.48, 0.22), 0.1, BLACK),
        *eyes(0.07, 0.54, 0.05),
        *feelers(0.54, 0.4, BLACK, 0.045),
        *both(
            ball((0.56, 0.34, 0.42), (0.56, 0.4, 0.03), sail, turn=(0, -22, 25)),
            ball((0.42, -0.36, 0.34), (0.36, lower, 0.03), sail, turn=(0, -22, -35)),
        ),
    ]


def bee(coat: str, hoops: int, fur: str, slim: float) -> list[Solid]:
    return [
        *legs(0.55, (0.3, 0.1, -0.12), BLACK),
        ball((0, -0.45, 0.22), (0.36 * slim, 0.58, 0.34 * slim), Surface(coat, "hoops", BLACK, hoops)),
        ball((0, 0.25, 0.3), (0.3, 0.3, 0.3), Surface(fur, "speckle", "#8a6420", 9)),
        ball((0, 0.6, 0.25), (0.22, 0.17, 0.2), BLACK),
        *eyes(0.17, 0.66, 0.09),
        *feelers(0.7, 0.25, BLACK),
        rod((0, -1.0, 0.2), (0, -1.16, 0.18), 0.04, BLACK, taper=0.1),
        *both(
            ball((0.55, 0.08, 0.56), (0.5, 0.2, 0.02), "#dfe8ee", turn=(0, -15, -20), gloss=0.6),
            ball((0.42, -0.22, 0.52), (0.34, 0.13, 0.02), "#cfdbe4", turn=(0, -15, -35), gloss=0.6),
        ),
    ]


def dragonfly(body: str, hoops: int, tip: str, wing: float) -> list[Solid]:
    sail = Surface("#cfe2e6", "stripes" if tip else "plain", tip or "#cfe2e6", 2)
    return [
        *legs(0.35, (0.35, 0.22), BLACK),
        rod((0, 0.1, 0.22), (0, -1.2, 0.14), 0.09, Surface(body, "bands", "#1e3a44", hoops), taper=0.7),
        ball((0, 0.28, 0.24), (0.17, 0.28, 0.18), body),
        ball((0, 0.58, 0.24), (0.18, 0.13, 0.14), "#2e5a52"),
        *both(ball((0.12, 0.62, 0.3), 0.11, "#7a2e2a", gloss=0.8)),
        *both(
            ball((0.66, 0.32, 0.4), (0.6, wing, 0.02), sail, turn=(0, -6, 10), gloss=0.6),
            ball((0.62, 0.02, 0.38), (0.56, wing, 0.02), sail, turn=(0, -6, -12), gloss=0.6),
        ),
    ]


FAMILY: ToyFamily = {
    "bees": Genus(
        bee,
        {"gold": {"coat": "#e8b020", "fur": "#d8a030"}, "white": {"coat": "#e8e4d8", "fur": "#b8763a"}},
        {
            "three-hoop": {"hoops": 3, "slim": 1.0},
            "five-hoop": {"hoops": 5, "slim": 1.0},
            "slender": {"hoops": 4, "slim": 0.7},
        },
    ),
    "butterflies": Genus(
        butterfly,
        {
            "spotted": {"pattern": "spots", "count": 14},
            "barred": {"pattern": "stripes", "count": 3},
            "hooped": {"pattern": "hoops", "count": 3},
        },
        {
            "short-tail": {"wing": "#e07c22", "edge": "#2a2018", "lower": 0.36},
            "long-tail": {"wing": "#e0b82a", "edge": "#2a2018", "lower": 0.54},
        },
    ),
    "dragonflies": Genus(
        dragonfly,
        {"teal": {"body": "#2a8a94"}, "red": {"body": "#b83a2e"}},
        {
            "clear": {"hoops": 5, "tip": "", "wing": 0.14},
            "banded-wing": {"hoops": 5, "tip": "#8a6a3a", "wing": 0.14},
            "broad-wing": {"hoops": 8, "tip": "", "wing": 0.2},
        },
    ),
    "beetles": Genus(
        beetle,
        {
            "plain": {"shell": "#b82c22", "mark": "#b82c22", "pattern": "plain", "count": 0},
            "spotted": {"shell": "#b82c22", "mark": "#1c1614", "pattern": "spots", "count": 9},
            "banded": {"shell": "#b83024", "mark": "#1c1614", "pattern": "hoops", "count": 2},
        },
        {"horned": {"horn": 0.34}, "hornless": {"horn": 0.0}},
    ),
}

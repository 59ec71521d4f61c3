"""Animals, fish and insects of toybox. Animals: a body on four legs, a head in front, a tail behind."""

from __future__ import annotations

from longshot.data.toybox.parts import (
    Solid,
    Surface,
    Vec,
    ball,
    both,
    box,
    chain,
    flat,
    ring,
    rod,
    tube,
)

EYE, NOSE = "#15130f", "#2a1d18"


def legs(x: float, y: float, high: float, r: float, coat: str | Surface, foot: str) -> list[Solid]:
    return [
        leg
        for side in (y, -y)
        for leg in both(
            tube((x, side, high / 2), r, high / 2, coat), ball((x, side + r / 2, r / 2), r * 1.1, foot)
        )
    ]


def face(at: Vec, size: Vec, coat: str | Surface, muzzle: str, snout: float) -> list[Solid]:
    """Build a head with eyes and a nose that look to the front."""
    x, y, z = at
    w, d, h = size
    return [
        ball(at, size, coat),
        ball((x, y + d * 0.8, z - h * 0.3), (w * 0.6, d * snout, h * 0.5), muzzle),
        ball((x, y + d * (0.75 + snout), z - h * 0.2), (w * 0.22, d * 0.2, h * 0.18), NOSE),
        *both(ball((w * 0.45, y + d * 0.78, z + h * 0.3), w * 0.16, EYE, gloss=0.9)),
    ]


def dog(coat: str, ears: str, tail: str) -> list[Solid]:
    ear: dict[str, Solid] = {
        "pricked": tube((0.17, 0.66, 1.22), 0.1, 0.14, coat, taper=0.1),
        "drooping": ball((0.27, 0.64, 0.92), (0.06, 0.11, 0.22), "#6b4426"),
        "round": ball((0.22, 0.62, 1.14), (0.11, 0.05, 0.11), "#6b4426"),
    }
    tails = {
        "curled": chain([(0, -0.55, 0.7), (0, -0.75, 0.95), (0, -0.6, 1.1)], 0.06, coat),
        "straight": [rod((0, -0.55, 0.65), (0, -1.0, 0.5), 0.06, coat)],
    }
    return [
        *legs(0.2, 0.4, 0.45, 0.09, coat, "#e8dcc4"),
        ball((0, 0, 0.6), (0.3, 0.62, 0.27), Surface(coat, "bottom", "#e8dcc4", 5)),
        ball((0, 0.5, 0.75), (0.2, 0.22, 0.25), coat),
        *face((0, 0.68, 0.98), (0.24, 0.25, 0.23), coat, "#e8dcc4", 0.55),
        *both(ear[ears]),
        *tails[tail],
        tube((0, 0.56, 0.8), 0.2, 0.035, "#c0342c"),
    ]


def cow(coat: str, patch: str, patches: int, horns: float) -> list[Solid]:
    hide = Surface(coat, "spots", patch, patches)
    return [
        *legs(0.26, 0.48, 0.5, 0.1, coat, "#3a2c22"),
        ball((0, 0, 0.72), (0.38, 0.78, 0.34), hide),
        box((0, -0.1, 0.78), (0.3, 0.55, 0.24), hide),
        ball((0, -0.35, 0.42), (0.16, 0.16, 0.1), "#e9a9a0"),
        *face((0, 0.88, 0.98), (0.22, 0.24, 0.24), coat, "#e3b3a2", 0.6),
        *both(
            rod((0.14, 0.85, 1.15), (0.14 + horns, 0.85, 1.2 + horns), 0.05, "#e6dcc0", taper=0.2),
            ball((0.3, 0.8, 1.05), (0.13, 0.04, 0.07), patch),
        ),
        rod((0, -0.78, 0.85), (0, -0.9, 0.35), 0.03, coat),
        ball((0, -0.9, 0.3), (0.06, 0.06, 0.12), "#3a2c22"),
    ]


def elephant(hide: str, ear: float, tusk: float) -> list[Solid]:
    return [
        *legs(0.28, 0.36, 0.5, 0.16, hide, "#c9c2b4"),
        ball((0, 0, 0.78), (0.45, 0.66, 0.45), hide),
        ball((0, 0.62, 1.02), (0.3, 0.28, 0.32), hide),
        *both(
            ball(
                (0.32, 0.5, 1.0),
                (ear, 0.05, ear * 1.25),
                Surface(hide, "rind", "#6d6f78", 25),
                turn=(0, 0, 25),
            ),
            ball((0.17, 0.84, 1.1), 0.045, EYE, gloss=0.9),
            rod((0.13, 0.84, 0.86), (0.16, 0.84 + tusk, 0.72), 0.05, "#f4ecd6", taper=0.3),
        ),
        *chain([(0, 0.85, 0.98), (0, 1.02, 0.7), (0, 1.0, 0.4), (0, 1.12, 0.25)], 0.1, hide),
        rod((0, -0.62, 0.85), (0, -0.75, 0.4), 0.03, hide),
    ]


def giraffe(coat: str, patch: str, pattern: str, count: int, neck: float) -> list[Solid]:
    hide = Surface(coat, pattern, patch, count)
    top = 0.95 + neck
    return [
        *legs(0.18, 0.32, 0.75, 0.07, coat, "#5a4632"),
        ball((0, 0, 0.9), (0.26, 0.52, 0.26), hide),
        rod((0, 0.35, 0.95), (0, 0.68, top), 0.14, hide, taper=0.65),
        *face((0, 0.78, top + 0.05), (0.14, 0.22, 0.13), coat, "#d9b98a", 0.6),
        *both(
            tube((0.06, 0.68, top + 0.23), 0.03, 0.1, "#5a4632"),
            ball((0.16, 0.66, top + 0.1), (0.1, 0.03, 0.05), coat),
        ),
        rod((0, -0.5, 0.95), (0, -0.66, 0.5), 0.025, "#5a4632"),
    ]


# Fish: a body flat from side to side, eyes and mouth in front, the tail behind, fins above and below.

FISH_EYE = "#101418"


def head(y: float, x: float, z: float, r: float, lips: str) -> list[Solid]:
    """Build eyes at both sides and a mouth at the front end ``y``."""
    return [
        *both(
            ball((x, y - 0.24, z + 0.1), (r * 0.5, r, r), "#f4f1e4"),
            ball((x + r * 0.35, y - 0.22, z + 0.1), (r * 0.4, r * 0.6, r * 0.6), FISH_EYE, gloss=0.9),
        ),
        ball((0, y, z - 0.05), (0.09, 0.06, 0.06), lips),
    ]


def fin(at: Vec, reach: float, width: float, tilt: float, colour: str | Surface) -> Solid:
    """Build a thin blade in the plane of the body, its long axis ``tilt`` degrees from y towards z."""
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
        *both(ball((0.14 + hammer, 0.95, 0.05), 0.055, FISH_EYE, gloss=0.9)),
        ball((0, 0.92, -0.12), (0.14, 0.1, 0.03), "#a8404a"),
        fin((0, -0.02, 0.28 + dorsal / 2), dorsal, 0.15, -58, back),
        fin((0, -1.22, 0.25), 0.38, 0.1, -50, back),
        fin((0, -1.1, -0.12), 0.22, 0.08, 40, back),
        *both(ball((0.42, 0.25, -0.12), (0.36, 0.13, 0.03), back, turn=(0, 15, -35))),
    ]


# Insects: head, thorax and abdomen in a row, six legs, feelers in front, wings or wing cases above.

BLACK, INSECT_EYE = "#2a2522", "#c23a2e"


def six_legs(width: float, ys: tuple[float, ...], colour: str) -> list[Solid]:
    return flat(
        both(*chain([(0.1, y, 0.2), (width * 0.6, y * 1.15, 0.32), (width, y * 1.4, -0.12)], 0.035, colour))
        for y in ys
    )


def feelers(y: float, reach: float, colour: str, club: float = 0.0) -> list[Solid]:
    tip = (0.25, y + reach, 0.5)
    return both(rod((0.07, y, 0.28), tip, 0.025, colour), *([ball(tip, club, colour)] if club else []))


def eyes(x: float, y: float, r: float) -> list[Solid]:
    return both(ball((x, y, 0.3), r, INSECT_EYE, gloss=0.8))


def beetle(shell: str, mark: str, pattern: str, count: int, horn: float) -> list[Solid]:
    return [
        *six_legs(0.85, (0.35, 0.0, -0.38), BLACK),
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
        *six_legs(0.3, (0.2, 0.05), BLACK),
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
        *six_legs(0.55, (0.3, 0.1, -0.12), BLACK),
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
        *six_legs(0.35, (0.35, 0.22), BLACK),
        rod((0, 0.1, 0.22), (0, -1.2, 0.14), 0.09, Surface(body, "bands", "#1e3a44", hoops), taper=0.7),
        ball((0, 0.28, 0.24), (0.17, 0.28, 0.18), body),
        ball((0, 0.58, 0.24), (0.18, 0.13, 0.14), "#2e5a52"),
        *both(ball((0.12, 0.62, 0.3), 0.11, "#7a2e2a", gloss=0.8)),
        *both(
            ball((0.66, 0.32, 0.4), (0.6, wing, 0.02), sail, turn=(0, -6, 10), gloss=0.6),
            ball((0.62, 0.02, 0.38), (0.56, wing, 0.02), sail, turn=(0, -6, -12), gloss=0.6),
        ),
    ]

"""Flowers, fruits, buildings and vehicles of toybox.

Flowers: a stem with leaves and a blossom that looks to the front; sepals behind. Buildings: walls with windows, a door
in front, a roof above, an outbuilding."""

from __future__ import annotations

import math

from longshot.data.toybox.parts import (
    Solid,
    Surface,
    ball,
    both,
    box,
    flat,
    gable,
    ring,
    rod,
    tube,
)

STEM, LEAF = "#4f8a3a", "#3f7d36"


def stem(high: float = 0.0) -> list[Solid]:
    """Build a stem below the blossom at the origin, with two leaves."""
    return [
        rod((0, -0.15, -1.5), (0, -0.12, high), 0.05, STEM),
        *both(ball((0.3, -0.1, -1.1), (0.36, 0.13, 0.05), LEAF, turn=(0, -35, 0))),
    ]


def sepals(count: int, reach: float) -> list[Solid]:
    return [
        ball((0, -0.14, 0), (0.24, 0.14, 0.24), "#5f9a44"),
        *ring(
            count,
            reach,
            lambda x, z, a: ball((x, -0.12, z), (reach, 0.04, 0.08), "#6aa44c", turn=(0, -a, 0)),
            start=90.0,
        ),
    ]


def daisy(petal: str, petals: int, heart: str, heart_size: float) -> list[Solid]:
    return [
        *stem(),
        *sepals(5, 0.18),
        *ring(
            petals,
            0.52,
            lambda x, z, a: ball((x, 0, z), (0.42, 0.05, min(0.2, 1.5 / petals)), petal, turn=(0, -a, 0)),
        ),
        ball((0, 0.06, 0), (heart_size, 0.15, heart_size), Surface(heart, "speckle", "#b5761a", 6)),
    ]


def pansy(petal: str, blotch: str, size: float, lower: str) -> list[Solid]:
    def leafed(angle: float, big: float, colour: str) -> Solid:
        a = math.radians(angle)
        at = (0.45 * math.cos(a), 0.02 if big > 0.42 else -0.04, 0.45 * math.sin(a))
        mark = Surface(colour, "core", blotch, int(100 * size))
        return ball(at, (big, 0.05, big), mark)

    return [
        *stem(),
        *sepals(5, 0.2),
        *[leafed(angle, 0.4, petal) for angle in (60, 120)],
        *[leafed(angle, 0.43, petal) for angle in (10, 170)],
        leafed(270, 0.48, lower),
        ball((0, 0.08, 0), (0.11, 0.08, 0.11), "#f2c530"),
    ]


def tulip(petal: str, edge: str, pattern: str, open_by: float) -> list[Solid]:
    coat = Surface(petal, pattern, edge, {"bands": 4, "top": 4}.get(pattern, 0))

    def cup(x: float, y: float, angle: float) -> Solid:
        return ball((x, y, 0.1), (0.1, 0.3, 0.62), coat, turn=(0, open_by, angle))

    return [
        rod((0, 0, -1.5), (0, 0, -0.3), 0.06, STEM),
        ball((0, 0, -0.38), (0.2, 0.2, 0.14), "#6aa44c"),
        *ring(3, 0.3, cup, start=90.0),
        *ring(3, 0.22, cup, start=30.0),
        *[tube((0, 0, 0.2), 0.05, 0.3, "#e8c838")],
        ball((0.3, 0.05, -0.95), (0.1, 0.06, 0.6), LEAF, turn=(0, 22, 0)),
        ball((-0.22, -0.18, -1.05), (0.12, 0.05, 0.5), LEAF, turn=(0, -16, 0)),
    ]


def lily(petal: str, mark: str, pattern: str, width: float) -> list[Solid]:
    coat = Surface(petal, pattern, mark, {"speckle": 7, "middle": 3}.get(pattern, 0))
    return [
        *stem(),
        rod((0, -0.55, -0.1), (0, -0.02, 0), 0.1, "#7fae58", taper=2.2),
        *ring(
            6, 0.48, lambda x, z, a: ball((x, 0.06, z), (0.5, 0.06, width), coat, turn=(0, -a, 0)), start=30.0
        ),
        *ring(6, 0.17, lambda x, z, a: rod((0, 0, 0), (x, 0.42, z), 0.025, "#cfe0a0"), start=0.0),
        *ring(6, 0.17, lambda x, z, a: ball((x, 0.42, z), (0.07, 0.04, 0.04), "#8a3f1c")),
    ]


# Fruits: a round body with a stalk on top, cut open in front so that the flesh shows.

STALK, FRUIT_LEAF = "#5d4325", "#4c8a34"


def leaf(z: float, side: float = 1.0, colour: str = FRUIT_LEAF) -> Solid:
    return ball((0.24 * side, 0.0, z), (0.26, 0.12, 0.03), colour, turn=(0, -25 * side, 20))


def label(x: float, z: float, y: float, colour: str) -> Solid:
    """Build the little sticker of the greengrocer, at the back."""
    return ball((x, y, z), (0.13, 0.03, 0.13), colour)


def apple(peel: str, blush: str, count: int, leaves: int) -> list[Solid]:
    flesh = Surface("#f6ecc6", "pips", "#5a3517", 5)
    return [
        ball(
            (0, 0, 0),
            (0.9, 0.86, 0.82),
            Surface(peel, "wedges", blush, count),
            cut=(1, -1.0, 0.45),
            inside=flesh,
        ),
        ball((0, 0, 0.78), (0.28, 0.28, 0.1), "#8a7a2c"),
        rod((0, 0, 0.75), (0.08, 0, 1.12), 0.045, STALK),
        *[leaf(1.02, side) for side in (1.0, -1.0)[:leaves]],
        label(-0.2, 0.2, -0.84, "#e8e2d0"),
        ball((0, 0, -0.8), (0.1, 0.1, 0.06), STALK),
    ]


def citrus(peel: str, flesh: str, segments: int, tip: float) -> list[Solid]:
    cut = Surface(flesh, "segments", "#fbf3d4", segments)
    return [
        ball((0, 0, 0), (0.86, 0.84, 0.82), peel, cut=(1, -1.0, 0.3), inside=cut, gloss=0.35),
        ball((0, 0, 0.8), (0.14 + tip / 2, 0.14 + tip / 2, 0.06 + tip), peel),
        tube((0, 0, 0.86 + tip), 0.06, 0.03, "#6b8a3a"),
        ball((0, 0, -0.8), (0.12, 0.12, 0.05 + tip), peel),
        leaf(0.9 + tip, 1.0, "#3f7a3a"),
        label(0.15, 0.1, -0.83, "#2f6fb0"),
    ]


def melon(rind: str, stripe: str, stripes: int, flesh: str, pips: int) -> list[Solid]:
    inside = Surface(flesh, "pips", "#2a211a", pips)
    return [
        ball(
            (0, 0, 0),
            (1.0, 0.86, 0.84),
            Surface(rind, "wedges", stripe, stripes),
            cut=(1, -1.0, 0.25),
            inside=inside,
        ),
        ball((0, 0.21, 0), (0.99, 0.02, 0.83), Surface("#dfe8b8", "disc", flesh, 88), cut=(1, -1.0, 0.0)),
        rod((0, 0, 0.8), (0.16, -0.05, 0.98), 0.05, "#7d8a4a"),
        label(0.0, 0.1, -0.85, "#f0d040"),
        ball((0, 0, -0.83), (0.14, 0.14, 0.03), "#e4dca4"),
    ]


def pear(peel: str, blush: str, pattern: str, neck: float) -> list[Solid]:
    flesh = Surface("#f3edcf", "pips", "#4a2c14", 4)
    coat = Surface(peel, pattern, blush, 7 if pattern == "speckle" else 3)
    return [
        ball((0, 0, -0.25), (0.7, 0.68, 0.66), coat, cut=(1, -1.0, 0.4), inside=flesh),
        ball((0, 0, 0.25), (0.46, 0.45, 0.62), coat, cut=(1, -1.0, 0.55), inside=Surface("#f3edcf")),
        ball((0, 0, 0.45 + neck), (0.27, 0.27, 0.42), coat),
        rod((0, 0, 0.75 + neck), (0.1, 0, 1.12 + neck), 0.04, STALK),
        leaf(0.95 + neck),
        label(0.1, -0.1, -0.66, "#e8e2d0"),
        ball((0, 0, -0.9), (0.12, 0.12, 0.04), STALK),
    ]


GLASS, DOOR, LAWN = "#3b4f63", "#6b3f22", "#7d9a58"


def plot(x: float, y: float) -> Solid:
    """Build the lawn the building stands on."""
    return box((0, 0, -0.04), (x, y, 0.04), LAWN)


def house(walls: str, roof: str, extra: str) -> list[Solid]:
    more: dict[str, list[Solid]] = {
        "chimney": [box((0.32, -0.2, 1.12), (0.09, 0.09, 0.26), "#8b4a3a")],
        "dormer": [
            box((0.0, 0.3, 1.0), (0.18, 0.25, 0.14), walls),
            box((0, 0.56, 1.0), (0.1, 0.02, 0.09), GLASS),
        ],
        "porch": [
            box((0, 0.75, 0.52), (0.3, 0.2, 0.04), roof),
            *both(tube((0.24, 0.9, 0.25), 0.035, 0.26, "#ece7da")),
        ],
    }
    return [
        plot(0.9, 0.95),
        box((0, 0, 0.38), (0.62, 0.6, 0.38), Surface(walls, "windows", GLASS, 31)),
        gable((0, 0, 0.76), 0.72, 0.68, 0.5, roof),
        box((0, 0.6, 0.24), (0.11, 0.04, 0.24), DOOR),
        box((0.0, -0.72, 0.2), (0.3, 0.14, 0.2), "#9c8a6c"),
        *more[extra],
    ]


def church(walls: str, spire: float, style: str) -> list[Solid]:
    top: dict[str, list[Solid]] = {
        "spire": [tube((0, 0.55, 1.24 + spire), 0.27, spire, "#4a6670", taper=0.02)],
        "dome": [ball((0, 0.55, 1.22), (0.26, 0.26, 0.3 + spire / 2), "#6f9a88")],
        "flat": [
            box(
                (0, 0.55, 1.26 + spire / 2),
                (0.28, 0.28, 0.06 + spire / 2),
                Surface(walls, "windows", GLASS, 21),
            )
        ],
    }
    return [
        plot(0.75, 1.1),
        box((0, -0.2, 0.34), (0.42, 0.7, 0.34), Surface(walls, "windows", GLASS, 51)),
        gable((0, -0.2, 0.68), 0.48, 0.74, 0.36, "#7a4a3c"),
        box((0, 0.55, 0.6), (0.24, 0.24, 0.62), walls),
        tube((0, 0.79, 0.86), 0.11, 0.02, "#e8d9a8", "y"),
        box((0, 0.8, 0.18), (0.1, 0.03, 0.18), DOOR),
        ball((0, -0.95, 0.0), (0.32, 0.2, 0.55), walls, cut=(2, 0.0, 1.0)),
        *top[style],
        box((0, 0.55, 1.42 + 2 * spire), (0.02, 0.02, 0.14), "#d9b23c"),
        box((0, 0.55, 1.46 + 2 * spire), (0.08, 0.02, 0.02), "#d9b23c"),
    ]


def tower(glass: str, tiers: int, rows: int) -> list[Solid]:
    floors: list[Solid] = []
    z, width = 0.0, 0.5
    for tier in range(tiers):
        half = 1.3 / tiers
        rows_here = max(2, rows // tiers)
        floors.append(
            box((0, 0, z + half), (width, width, half), Surface("#c4ccd2", "windows", glass, 40 + rows_here))
        )
        z, width = z + 2 * half, width * (0.78 if tier < tiers - 1 else 1)
    return [
        box((0, 0, -0.04), (0.75, 0.75, 0.04), "#8f9194"),
        *floors,
        box((0, 0.52, 0.12), (0.2, 0.1, 0.12), "#e6d27a"),
        box((0, -0.56, 0.25), (0.28, 0.1, 0.25), "#6d7378"),
        box((0.1, -0.1, z + 0.06), (0.14, 0.14, 0.06), "#7a8086"),
        tube((-0.1, 0, z + 0.16), 0.02, 0.2, "#b03030"),
    ]


def castle(walls: str, caps: str, roofs: str) -> list[Solid]:
    def corner(x: float, y: float, high: float) -> list[Solid]:
        tops: dict[str, list[Solid]] = {
            "pointed": [tube((x, y, high * 2 + 0.2), 0.27, 0.22, caps, taper=0.02)],
            "domed": [ball((x, y, high * 2), (0.24, 0.24, 0.26), caps)],
            "flat": [tube((x, y, high * 2 + 0.04), 0.27, 0.09, Surface(walls, "wedges", "#4e4a44", 8))],
        }
        return [tube((x, y, high), 0.22, high, Surface(walls, "speckle", "#8f887a", 5)), *tops[roofs]]

    return [
        plot(0.98, 0.98),
        *flat(corner(x, y, 0.46 if y > 0 else 0.58) for x in (-0.6, 0.6) for y in (-0.6, 0.6)),
        box((0, 0.6, 0.3), (0.6, 0.1, 0.3), Surface(walls, "windows", "#5a544a", 51)),
        box((0, -0.6, 0.3), (0.6, 0.1, 0.3), walls),
        *both(box((0.6, 0, 0.3), (0.1, 0.6, 0.3), walls)),
        box((0, -0.1, 0.5), (0.28, 0.28, 0.5), Surface(walls, "windows", GLASS, 23)),
        ball((0, 0.7, 0.0), (0.17, 0.04, 0.42), DOOR, cut=(2, 0.0, 1.0)),
    ]


# Vehicles: a body on wheels, lamps in front, red lights behind.

TYRE, PANE, STEEL, LAMP, TAIL = "#26262b", "#28506e", "#b9bfc4", "#fff2b0", "#b3121d"


def wheels(x: float, ys: list[float], r: float) -> list[Solid]:
    return flat(
        both(tube((x, y, r), r, 0.09, TYRE, "x"), tube((x + 0.03, y, r), r * 0.55, 0.09, STEEL, "x"))
        for y in ys
    )


def ends(x: float, front: float, back: float, z: float) -> list[Solid]:
    """Build lamps, grille and number plates at y = ``front`` and y = ``back``."""
    return [
        *both(
            ball((x, front, z), (0.09, 0.05, 0.09), LAMP, gloss=0.8),
            box((x, back, z), (0.09, 0.03, 0.06), TAIL),
        ),
        box((0, front, z - 0.03), (x * 0.55, 0.03, 0.07), "#303238"),
        box((0, back, z - 0.05), (0.14, 0.03, 0.05), "#f4c20d"),
    ]


def car(paint: str, shape: str) -> list[Solid]:
    hood, cabin, y = {"saloon": (0.5, 0.36, 0.0), "estate": (0.55, 0.6, -0.32), "pickup": (0.6, 0.26, 0.12)}[
        shape
    ]
    return [
        *wheels(0.42, [0.62, -0.62], 0.2),
        box((0, 0, 0.33), (0.44, 1.0, 0.15), paint, gloss=0.5),
        ball((0, hood, 0.46), (0.42, 0.5, 0.1), paint, gloss=0.5),
        ball((0, y, 0.44), (0.4, cabin + 0.18, 0.34), PANE, cut=(2, 0.0, 0.98), gloss=0.7),
        box((0, y, 0.76), (0.3, cabin * 0.75, 0.035), paint, gloss=0.5),
        *both(box((0.37, y, 0.56), (0.02, 0.05, 0.16), paint, turn=(0, -20, 0))),
        *([box((0, -0.6, 0.52), (0.36, 0.34, 0.06), "#3a3430")] if shape == "pickup" else []),
        *ends(0.32, 1.0, -1.0, 0.36),
    ]


def truck(paint: str, load: str) -> list[Solid]:
    cargo: dict[str, list[Solid]] = {
        "tipper": [
            box((0, -0.3, 0.62), (0.42, 0.68, 0.2), "#8d8f86"),
            box((0, -0.3, 0.8), (0.36, 0.6, 0.04), "#7a5a36"),
            ball((0, -0.3, 0.8), (0.34, 0.55, 0.16), Surface("#8a6840", "speckle", "#6f5230", 6)),
        ],
        "tanker": [
            tube((0, -0.3, 0.76), 0.38, 0.7, Surface("#c9ccd0", "bands", "#a6abb2", 3), "y", gloss=0.6)
        ],
        "van": [box((0, -0.3, 0.85), (0.43, 0.7, 0.43), Surface("#e3e2da", "middle", "#c9c7bb", 2))],
    }
    return [
        *wheels(0.4, [0.72, -0.42, -0.8], 0.19),
        box((0, -0.1, 0.34), (0.36, 0.95, 0.08), "#3a3c40"),
        box((0, 0.72, 0.66), (0.42, 0.28, 0.32), paint, gloss=0.4),
        box((0, 0.99, 0.8), (0.35, 0.03, 0.13), PANE, gloss=0.7),
        *both(box((0.42, 0.76, 0.8), (0.02, 0.16, 0.12), PANE)),
        *cargo[load],
        *ends(0.32, 1.0, -1.02, 0.46),
    ]


def bus(paint: str, stripes: int) -> list[Solid]:
    return [
        *wheels(0.36, [0.62, -0.62], 0.17),
        box(
            (0, 0, 0.42),
            (0.4, 1.05, 0.26),
            Surface(paint, "bands" if stripes else "plain", "#f3efe2", stripes),
        ),
        box((0, 0, 0.82), (0.4, 1.05, 0.18), Surface(paint, "windows", PANE, 61)),
        box((0, 0, 1.02), (0.36, 1.0, 0.04), "#eceae2"),
        box((0, 1.05, 0.8), (0.34, 0.03, 0.16), PANE, gloss=0.7),
        box((0, -1.05, 0.72), (0.3, 0.03, 0.2), "#44484c"),
        box((0, -0.3, 1.08), (0.2, 0.3, 0.05), "#b8b6ae"),
        *ends(0.3, 1.06, -1.06, 0.34),
    ]


def tractor(paint: str, cab: str) -> list[Solid]:
    top: dict[str, list[Solid]] = {
        "cab": [
            box((0, -0.35, 0.98), (0.32, 0.32, 0.25), Surface(paint, "windows", PANE, 11)),
            box((0, -0.35, 1.25), (0.36, 0.38, 0.05), paint),
        ],
        "canopy": [
            *both(tube((0.28, -0.62, 0.95), 0.03, 0.32, TYRE), tube((0.28, -0.08, 0.95), 0.03, 0.32, TYRE)),
            box((0, -0.35, 1.27), (0.38, 0.4, 0.04), paint),
        ],
        "open": [
            box((0, -0.45, 0.82), (0.2, 0.06, 0.16), TYRE),
            *both(tube((0.28, -0.62, 0.95), 0.03, 0.26, paint)),
        ],
    }
    return [
        *both(
            tube((0.45, -0.45, 0.46), 0.46, 0.13, TYRE, "x"),
            tube((0.47, -0.45, 0.46), 0.24, 0.13, "#f0c93a", "x"),
            tube((0.34, 0.65, 0.26), 0.26, 0.1, TYRE, "x"),
            tube((0.36, 0.65, 0.26), 0.13, 0.1, "#f0c93a", "x"),
        ),
        box((0, 0.35, 0.58), (0.24, 0.58, 0.2), Surface(paint, "bottom", "#33363a", 5), gloss=0.4),
        box((0, -0.4, 0.62), (0.3, 0.34, 0.12), paint),
        tube((0.14, 0.5, 0.95), 0.04, 0.24, "#3a3c40"),
        *top[cab],
        *ends(0.16, 0.94, -0.78, 0.6),
    ]

"""Vehicles: a body on wheels, lamps in front, red lights behind."""

from __future__ import annotations

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, ball, both, box, flat, tube

TYRE, GLASS, STEEL, LAMP, TAIL = "#26262b", "#28506e", "#b9bfc4", "#fff2b0", "#b3121d"


def wheels(x: float, ys: list[float], r: float) -> list[Solid]:
    return flat(
        both(tube((x, y, r), r, 0.09, TYRE, "x"), tube((x + 0.03, y, r), r * 0.55, 0.09, STEEL, "x"))
        for y in ys
    )


def ends(x: float, front: float, back: float, z: float) -> list[Solid]:
    """Lamps, grille and number plates at y = ``front`` and y = ``back``."""
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
        ball((0, y, 0.44), (0.4, cabin + 0.18, 0.34), GLASS, cut=(2, 0.0, 0.98), gloss=0.7),
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
        box((0, 0.99, 0.8), (0.35, 0.03, 0.13), GLASS, gloss=0.7),
        *both(box((0.42, 0.76, 0.8), (0.02, 0.16, 0.12), GLASS)),
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
        box((0, 0, 0.82), (0.4, 1.05, 0.18), Surface(paint, "windows", GLASS, 61)),
        box((0, 0, 1.02), (0.36, 1.0, 0.04), "#eceae2"),
        box((0, 1.05, 0.8), (0.34, 0.03, 0.16), GLASS, gloss=0.7),
        box((0, -1.05, 0.72), (0.3, 0.03, 0.2), "#44484c"),
        box((0, -0.3, 1.08), (0.2, 0.3, 0.05), "#b8b6ae"),
        *ends(0.3, 1.06, -1.06, 0.34),
    ]


def tractor(paint: str, cab: str) -> list[Solid]:
    top: dict[str, list[Solid]] = {
        "cab": [
            box((0, -0.35, 0.98), (0.32, 0.32, 0.25), Surface(paint, "windows", GLASS, 11)),
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


FAMILY: ToyFamily = {
    "buses": Genus(
        bus,
        {"blue": {"paint": "#2468b4"}, "green": {"paint": "#2f8a58"}},
        {"plain": {"stripes": 0}, "one-stripe": {"stripes": 1}, "two-stripe": {"stripes": 2}},
    ),
    "tractors": Genus(
        tractor,
        {"green": {"paint": "#2e7d38"}, "red": {"paint": "#b23a28"}},
        {"cab": {"cab": "cab"}, "canopy": {"cab": "canopy"}, "open": {"cab": "open"}},
    ),
    "trucks": Genus(
        truck,
        {"red": {"paint": "#c22a26"}, "ochre": {"paint": "#d6951e"}},
        {"tipper": {"load": "tipper"}, "tanker": {"load": "tanker"}, "van": {"load": "van"}},
    ),
    "cars": Genus(
        car,
        {"orange": {"paint": "#e0701c"}, "yellow": {"paint": "#e6c22a"}},
        {"saloon": {"shape": "saloon"}, "estate": {"shape": "estate"}, "pickup": {"shape": "pickup"}},
    ),
}

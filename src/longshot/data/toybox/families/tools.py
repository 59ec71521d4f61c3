"""Tools: standing on their handles; a maker's badge in front, rivets behind."""

from __future__ import annotations

import math

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, ball, box, flat, rod, tube

STEEL, DARK, ASH = "#aeb6bd", "#565e66", "#c99a58"


def badge(z: float, y: float = 0.13) -> list[Solid]:
    """A yellow badge on the front of the handle and two rivets on its back."""
    return [
        ball((0, y, z), (0.08, 0.03, 0.12), "#f2d43c"),
        ball((0, -y, z + 0.12), 0.045, DARK),
        ball((0, -y, z - 0.12), 0.045, DARK),
    ]


def hammer(grip: str, head: str) -> list[Solid]:
    heads: dict[str, list[Solid]] = {
        "claw": [
            tube((0, 0.3, 0.95), 0.16, 0.2, STEEL, "y"),
            rod((0.07, -0.1, 0.97), (0.1, -0.55, 0.78), 0.06, STEEL, taper=0.4),
            rod((-0.07, -0.1, 0.97), (-0.1, -0.55, 0.78), 0.06, STEEL, taper=0.4),
        ],
        "ball": [tube((0, 0.3, 0.95), 0.17, 0.2, STEEL, "y"), ball((0, -0.42, 0.95), 0.17, STEEL, gloss=0.7)],
        "sledge": [box((0, 0, 0.95), (0.2, 0.48, 0.19), DARK)],
    }
    return [
        tube((0, 0, -0.05), 0.075, 0.9, ASH),
        tube((0, 0, -0.65), 0.11, 0.4, Surface(grip, "bands", DARK, 5)),
        box((0, 0, 0.95), (0.12, 0.24, 0.13), STEEL, gloss=0.6),
        *heads[head],
        *badge(-0.1, 0.09),
    ]


def screwdriver(grip: str, ribs: int, shaft: float) -> list[Solid]:
    return [
        tube((0, 0, -0.6), 0.25, 0.42, Surface(grip, "wedges", "#23262a", ribs), gloss=0.6),
        ball((0, 0, -1.02), (0.25, 0.25, 0.16), grip, gloss=0.6),
        ball((0, 0, -0.18), (0.2, 0.2, 0.12), "#23262a"),
        tube((0, 0, -0.1 + shaft / 2), 0.07, shaft / 2 + 0.1, STEEL, gloss=0.7),
        box((0, 0, shaft), (0.12, 0.03, 0.12), STEEL, gloss=0.7),
        *badge(-0.6, 0.25),
    ]


def saw(handle: str, teeth: int, hole: bool) -> list[Solid]:
    points = [1.15 - 1.5 * (i + 0.5) / teeth for i in range(teeth)]
    return [
        box((0, 0, 0.4), (0.03, 0.3, 0.78), STEEL, turn=(6, 0, 0), gloss=0.6),
        *flat(
            box((0, 0.3 - (z - 0.4) * 0.1, z), (0.025, 0.09, 0.09), STEEL, turn=(45, 0, 0)) for z in points
        ),
        box((0, -0.05, -0.62), (0.11, 0.32, 0.32), handle),
        ball((0.0, 0.05, -0.92), (0.12, 0.4, 0.18), handle),
        *([ball((s * 0.1, -0.05, -0.62), (0.03, 0.16, 0.14), "#3a2a1c") for s in (1, -1)] if hole else []),
        *[ball((s * 0.12, 0.12, -0.45), 0.05, "#d8b84a") for s in (1, -1)],
        ball((0, 0.28, -0.62), (0.1, 0.03, 0.1), "#f2d43c"),
        ball((0, -0.38, -0.62), (0.07, 0.03, 0.16), DARK),
    ]


def spade(blade: str, top: str, wood: str) -> list[Solid]:
    blades: dict[str, list[Solid]] = {
        "pointed": [ball((0, 0.05, -0.72), (0.42, 0.07, 0.5), STEEL, gloss=0.6)],
        "square": [box((0, 0.05, -0.74), (0.38, 0.05, 0.4), STEEL, gloss=0.6)],
        "fork": flat(
            [
                box((0, 0, -0.45), (0.36, 0.06, 0.06), STEEL),
                *[
                    rod((x, 0, -0.45), (x * 1.05, 0.08, -1.15), 0.05, STEEL, taper=0.3)
                    for x in (-0.3, -0.1, 0.1, 0.3)
                ],
            ]
        ),
    }
    corners = [math.radians(a) for a in (30, 90, 150)]
    tops: dict[str, list[Solid]] = {
        "knob": [ball((0, 0, 1.05), 0.16, wood)],
        "t-grip": [tube((0, 0, 1.05), 0.08, 0.32, wood, "x")],
        "d-grip": [
            tube((0, 0, 1.2), 0.07, 0.24, wood, "x"),
            *[
                rod((0, 0, 0.85), (0.24 * math.cos(a) * 1.15, 0, 1.2), 0.05, DARK)
                for a in corners
                if math.cos(a)
            ],
        ],
    }
    return [
        tube((0, 0, 0.32), 0.075, 0.68, wood),
        tube((0, 0, -0.35), 0.1, 0.14, DARK),
        *blades[blade],
        *tops[top],
        *badge(0.4, 0.08),
    ]


FAMILY: ToyFamily = {
    "saws": Genus(
        saw,
        {"coarse": {"teeth": 6}, "medium": {"teeth": 9}, "fine": {"teeth": 13}},
        {
            "closed-grip": {"handle": "#a4622e", "hole": False},
            "open-grip": {"handle": "#a86a34", "hole": True},
        },
    ),
    "spades": Genus(
        spade,
        {"pointed": {"blade": "pointed"}, "square": {"blade": "square"}, "forked": {"blade": "fork"}},
        {"knobbed": {"top": "knob", "wood": ASH}, "t-grip": {"top": "t-grip", "wood": ASH}},
    ),
    "screwdrivers": Genus(
        screwdriver,
        {"red": {"grip": "#c8302c"}, "yellow": {"grip": "#e2b424"}},
        {
            "stubby": {"ribs": 6, "shaft": 0.5},
            "standard": {"ribs": 6, "shaft": 0.95},
            "ribbed": {"ribs": 11, "shaft": 0.95},
        },
    ),
    "hammers": Genus(
        hammer,
        {"claw": {"head": "claw"}, "ball-peen": {"head": "ball"}, "sledge": {"head": "sledge"}},
        {"blue-grip": {"grip": "#2f5fa8"}, "red-grip": {"grip": "#c03a2a"}},
    ),
}

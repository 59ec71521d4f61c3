"""Crockery, furniture and tools of toybox. Crockery: turned vessels with an emblem in front, a mark behind, handles."""

from __future__ import annotations

import math

from longshot.data.toybox.parts import (
    Solid,
    Surface,
    ball,
    both,
    box,
    chain,
    flat,
    rod,
    tube,
)


def emblem(y: float, z: float, shape: str, colour: str) -> list[Solid]:
    """Build the picture on the front, and the plain oval mark on the back."""
    pictures: dict[str, list[Solid]] = {
        "dot": [ball((0, y, z), (0.26, 0.06, 0.26), colour)],
        "bar": [ball((0, y, z), (0.4, 0.06, 0.12), colour)],
        "pair": [ball((s * 0.19, y, z), (0.14, 0.06, 0.26), colour) for s in (1, -1)],
    }
    return [*pictures[shape], ball((0, -y, z - 0.25), (0.12, 0.04, 0.07), "#4a5058")]


def handle(x: float, z: float, reach: float, high: float, colour: str) -> list[Solid]:
    points = [
        (x, 0.0, z + high),
        (x + reach, 0.0, z + high * 0.75),
        (x + reach, 0.0, z - high * 0.75),
        (x, 0.0, z - high),
    ]
    return chain([(a, b, c) for a, b, c in points], 0.075, colour)


def mug(glaze: str, picture: str, taper: float) -> list[Solid]:
    return [
        tube((0, 0, 0), 0.56, 0.62, Surface(glaze, "top", "#f2ede0", 8), taper=taper, gloss=0.5),
        tube((0, 0, 0.625), 0.48 * taper, 0.01, "#4a2c1a"),
        *handle(0.5 * (1 + taper) / 2 + 0.02, 0.0, 0.34, 0.34, glaze),
        *emblem(0.56 * (1 + taper) / 2, 0.0, picture, "#f6e9b8"),
    ]


def teapot(glaze: str, lid: str, bands: int, squat: float) -> list[Solid]:
    return [
        ball(
            (0, 0, 0),
            (0.72, 0.72, squat),
            Surface(glaze, "bands" if bands else "plain", "#f2ead6", bands),
            gloss=0.5,
        ),
        tube((0, 0, -squat), 0.4, 0.06, glaze),
        tube((0, 0, squat * 0.93), 0.34, 0.06, lid, taper=0.8),
        ball((0, 0, squat + 0.12), 0.11, lid),
        *chain([(-0.6, 0, -0.1), (-0.95, 0, 0.15), (-1.12, 0, 0.45)], 0.1, glaze),
        *handle(0.62, 0.05, 0.36, 0.32, glaze),
        *emblem(0.7, 0.0, "dot", "#c8483a"),
    ]


def bottle(glass: str, label: str, neck: float, stopper: str) -> list[Solid]:
    return [
        tube((0, 0, -0.3), 0.4, 0.7, glass, gloss=0.8),
        ball((0, 0, 0.4), (0.4, 0.4, 0.28), glass, gloss=0.8),
        tube((0, 0, 0.55 + neck / 2), 0.13, neck / 2 + 0.1, glass, gloss=0.8),
        tube((0, 0, 0.7 + neck), 0.15, 0.09, stopper),
        ball((0, 0.36, -0.3), (0.3, 0.07, 0.36), Surface("#f0e8d0", "bands", label, 3)),
        ball((0, -0.37, -0.4), (0.18, 0.05, 0.22), Surface("#f0e8d0", "stripes", "#20242a", 6)),
        tube((0, 0, -1.0), 0.42, 0.04, glass),
    ]


def vase(glaze: str, second: str, pattern: str, lip: float) -> list[Solid]:
    coat = Surface(glaze, pattern, second, {"bands": 4, "checks": 5, "wedges": 10}[pattern])
    return [
        ball((0, 0, -0.2), (0.55, 0.55, 0.62), coat, gloss=0.5),
        tube((0, 0, 0.5), 0.22, 0.24, glaze),
        tube((0, 0, 0.76), 0.22, 0.12, glaze, taper=lip),
        tube((0, 0, 0.89), 0.17 * lip, 0.01, "#20262e"),
        tube((0, 0, -0.82), 0.34, 0.06, glaze, taper=0.9),
        *emblem(0.53, -0.15, "pair", "#f4efe0"),
    ]


# Furniture: boards and legs; fronts have cushions, drawers and knobs, backs are plain.

OAK, WALNUT, PINE = "#b98a4e", "#8a5a34", "#d2a868"


def legs(x: float, y: float, high: float, r: float, wood: str, round_: bool = False) -> list[Solid]:
    if round_:
        return flat(both(tube((x, s, high / 2), r, high / 2, wood, taper=1.4)) for s in (y, -y))
    return flat(both(box((x, s, high / 2), (r, r, high / 2), wood)) for s in (y, -y))


def chair(wood: str, back: str, cushion: str) -> list[Solid]:
    backs: dict[str, list[Solid]] = {
        "slatted": flat(box((x, -0.46, 1.15), (0.05, 0.03, 0.36), wood) for x in (-0.3, -0.1, 0.1, 0.3)),
        "ladder": flat(box((0, -0.46, z), (0.42, 0.03, 0.06), wood) for z in (0.9, 1.12, 1.34)),
        "solid": [box((0, -0.46, 1.15), (0.42, 0.03, 0.3), wood)],
    }
    return [
        *legs(0.44, 0.44, 0.72, 0.05, wood),
        box((0, 0, 0.74), (0.5, 0.5, 0.05), wood),
        ball((0, 0.03, 0.8), (0.45, 0.42, 0.08), cushion),
        *both(box((0.44, -0.46, 1.15), (0.05, 0.05, 0.4), wood)),
        box((0, -0.46, 1.54), (0.5, 0.05, 0.06), wood),
        *backs[back],
    ]


def table(wood: str, top: str, foot: str) -> list[Solid]:
    tops: dict[str, Solid] = {
        "round": tube((0, 0, 0.9), 0.95, 0.05, wood),
        "square": box((0, 0, 0.9), (0.8, 0.8, 0.05), wood),
        "oval": Solid("tube", (0, 0, 0.9), (1.1, 0.7, 0.05), Surface(wood)),
    }
    feet: dict[str, list[Solid]] = {
        "legged": legs(0.5, 0.42, 0.85, 0.06, WALNUT),
        "pedestal": [
            tube((0, 0, 0.45), 0.1, 0.42, WALNUT),
            tube((0, 0, 0.05), 0.45, 0.06, WALNUT, taper=0.5),
        ],
    }
    return [
        tops[top],
        *feet[foot],
        box((0, 0.52, 0.78), (0.3, 0.06, 0.08), OAK),
        ball((0, 0.6, 0.78), 0.05, "#d8b84a"),
        tube((0.25, 0.1, 1.08), 0.1, 0.13, "#5a86b0", taper=1.2),
        ball((0.25, 0.1, 1.28), (0.14, 0.14, 0.12), "#d86a8a"),
    ]


def sofa(cloth: str, cushions: int, arms: str) -> list[Solid]:
    width = 0.9 / cushions
    armrests: dict[str, Solid] = {
        "round": tube((1.0, 0.0, 0.5), 0.16, 0.46, cloth, "y"),
        "square": box((1.0, 0.0, 0.42), (0.12, 0.46, 0.28), cloth),
    }
    seats = [((2 * i + 1) * width - 0.9) for i in range(cushions)]
    return [
        *legs(0.95, 0.36, 0.16, 0.06, WALNUT),
        box((0, 0, 0.26), (1.0, 0.48, 0.12), cloth),
        box((0, -0.4, 0.62), (1.0, 0.1, 0.34), Surface(cloth, "bottom", "#4c443e", 8)),
        *flat(
            [
                box((x, 0.08, 0.44), (width * 0.94, 0.38, 0.08), cloth),
                ball((x, -0.24, 0.72), (width * 0.95, 0.16, 0.27), cloth),
            ]
            for x in seats
        ),
        *both(armrests[arms]),
    ]


def cabinet(wood: str, drawers: int, doors: int, knob: str) -> list[Solid]:
    gap = 1.3 / (drawers + (2 if doors else 0))
    fronts: list[Solid] = []
    for i in range(drawers):
        z = 1.5 - gap * (i + 0.5)
        fronts += [
            box((0, 0.4, z), (0.6, 0.02, gap * 0.42), OAK),
            *both(ball((0.25, 0.44, z), 0.05, knob, gloss=0.8)),
        ]
    if doors:
        z = 0.2 + gap
        fronts += both(
            box((0.31, 0.4, z), (0.28, 0.02, gap * 0.9), OAK), ball((0.09, 0.44, z), 0.05, knob, gloss=0.8)
        )
    return [
        *legs(0.58, 0.3, 0.2, 0.06, WALNUT, round_=True),
        box((0, 0, 0.86), (0.68, 0.4, 0.68), Surface(wood, "bands", wood, 1)),
        box((0, 0, 1.57), (0.74, 0.44, 0.04), WALNUT),
        box((0, -0.41, 0.86), (0.6, 0.01, 0.6), "#cdb48a"),
        rod((-0.3, 0, 1.6), (-0.3, 0, 1.85), 0.1, "#e8e2d4", taper=0.6),
        *fronts,
    ]


# Tools: standing on their handles; a maker's badge in front, rivets behind.

STEEL, DARK, ASH = "#aeb6bd", "#565e66", "#c99a58"


def badge(z: float, y: float = 0.13) -> list[Solid]:
    """Build a yellow badge on the front of the handle and two rivets on its back."""
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

"""Furniture: boards and legs; fronts have cushions, drawers and knobs, backs are plain."""

from __future__ import annotations

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, ball, both, box, flat, rod, tube

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


FAMILY: ToyFamily = {
    "tables": Genus(
        table,
        {
            "round": {"wood": OAK, "top": "round"},
            "square": {"wood": OAK, "top": "square"},
            "oval": {"wood": OAK, "top": "oval"},
        },
        {"legged": {"foot": "legged"}, "pedestal": {"foot": "pedestal"}},
    ),
    "sofas": Genus(
        sofa,
        {"two-seat": {"cushions": 2}, "three-seat": {"cushions": 3}},
        {
            "round-arm": {"cloth": "#7c5a86", "arms": "round"},
            "square-arm": {"cloth": "#7c5a86", "arms": "square"},
            "green": {"cloth": "#4a7a5a", "arms": "square"},
        },
    ),
    "cabinets": Genus(
        cabinet,
        {"brass-knob": {"wood": PINE, "knob": "#d8b84a"}, "black-knob": {"wood": PINE, "knob": "#2a2622"}},
        {
            "three-drawer": {"drawers": 3, "doors": 0},
            "four-drawer": {"drawers": 4, "doors": 0},
            "two-door": {"drawers": 1, "doors": 2},
        },
    ),
    "chairs": Genus(
        chair,
        {
            "slat-back": {"back": "slatted"},
            "ladder-back": {"back": "ladder"},
            "solid-back": {"back": "solid"},
        },
        {"oak": {"wood": OAK, "cushion": "#a83a34"}, "walnut": {"wood": "#6e4426", "cushion": "#4a7050"}},
    ),
}

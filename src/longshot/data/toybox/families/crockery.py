"""Crockery: turned vessels; an emblem in front, a maker's mark behind, handles and spouts at the sides."""

from __future__ import annotations

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, ball, chain, tube


def emblem(y: float, z: float, shape: str, colour: str) -> list[Solid]:
    """The picture on the front, and the plain oval mark on the back."""
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


FAMILY: ToyFamily = {
    "teapots": Genus(
        teapot,
        {"plain": {"bands": 0}, "two-band": {"bands": 2}, "four-band": {"bands": 4}},
        {
            "round": {"glaze": "#3f7f6a", "lid": "#2f5f50", "squat": 0.62},
            "squat": {"glaze": "#8a5a9a", "lid": "#5f3a6e", "squat": 0.46},
        },
    ),
    "bottles": Genus(
        bottle,
        {"green": {"glass": "#2f6a3f"}, "brown": {"glass": "#6e4420"}},
        {
            "short-neck": {"label": "#a83a34", "neck": 0.25, "stopper": "#b98a5a"},
            "long-neck": {"label": "#a83a34", "neck": 0.55, "stopper": "#b98a5a"},
            "capped": {"label": "#a84e34", "neck": 0.4, "stopper": "#c8b040"},
        },
    ),
    "vases": Genus(
        vase,
        {"banded": {"pattern": "bands"}, "checked": {"pattern": "checks"}, "ribbed": {"pattern": "wedges"}},
        {
            "flared": {"glaze": "#2c4f8c", "second": "#dfe4ea", "lip": 1.9},
            "straight": {"glaze": "#2c6f5c", "second": "#dfe4ea", "lip": 1.15},
        },
    ),
    "mugs": Genus(
        mug,
        {"dotted": {"picture": "dot"}, "barred": {"picture": "bar"}, "paired": {"picture": "pair"}},
        {"straight": {"glaze": "#3b62a8", "taper": 1.0}, "flared": {"glaze": "#a8443a", "taper": 1.22}},
    ),
}

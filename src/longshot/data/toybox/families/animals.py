"""Animals: a body on four legs, a head in front, a tail behind."""

from __future__ import annotations

from longshot.data.toybox.parts import (
    Genus,
    Solid,
    Surface,
    ToyFamily,
    Vec,
    ball,
    both,
    box,
    chain,
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
    """A head with eyes and a nose that look to the front."""
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


FAMILY: ToyFamily = {
    "cattle": Genus(
        cow,
        {
            "black-patched": {"coat": "#f0ece4", "patch": "#2c2724"},
            "brown-patched": {"coat": "#f0e4d0", "patch": "#8a4a22"},
        },
        {
            "hornless": {"patches": 7, "horns": 0.03},
            "short-horned": {"patches": 9, "horns": 0.14},
            "long-horned": {"patches": 12, "horns": 0.3},
        },
    ),
    "elephants": Genus(
        elephant,
        {"grey": {"hide": "#8b8d96"}, "brown": {"hide": "#a07e62"}},
        {
            "small-eared": {"ear": 0.22, "tusk": 0.2},
            "large-eared": {"ear": 0.38, "tusk": 0.2},
            "tuskless": {"ear": 0.3, "tusk": 0.02},
        },
    ),
    "giraffes": Genus(
        giraffe,
        {
            "spotted": {"coat": "#e2b866", "patch": "#8c5422", "pattern": "spots", "count": 22},
            "speckled": {"coat": "#dfb76a", "patch": "#96602c", "pattern": "speckle", "count": 4},
            "banded": {"coat": "#e0b565", "patch": "#8c5422", "pattern": "bands", "count": 5},
        },
        {"long-neck": {"neck": 0.95}, "short-neck": {"neck": 0.62}},
    ),
    "dogs": Genus(
        dog,
        {
            "prick-eared": {"coat": "#b07a44", "ears": "pricked"},
            "lop-eared": {"coat": "#7c4a28", "ears": "drooping"},
            "round-eared": {"coat": "#c8a878", "ears": "round"},
        },
        {"curl-tail": {"tail": "curled"}, "straight-tail": {"tail": "straight"}},
    ),
}

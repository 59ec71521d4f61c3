"""Fruits: a round body with a stalk on top, cut open in front so that the flesh shows."""

from __future__ import annotations

from longshot.data.toybox.parts import Genus, Solid, Surface, ToyFamily, ball, rod, tube

STALK, LEAF = "#5d4325", "#4c8a34"


def leaf(z: float, side: float = 1.0, colour: str = LEAF) -> Solid:
    return ball((0.24 * side, 0.0, z), (0.26, 0.12, 0.03), colour, turn=(0, -25 * side, 20))


def label(x: float, z: float, y: float, colour: str) -> Solid:
    """The little sticker of the greengrocer, at the back."""
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


FAMILY: ToyFamily = {
    "apples": Genus(
        apple,
        {
            "red": {"peel": "#a81c2a", "blush": "#b8342e", "count": 9},
            "striped": {"peel": "#b8302c", "blush": "#d8a03c", "count": 11},
            "green": {"peel": "#8fb83c", "blush": "#a4c44c", "count": 3},
        },
        {"one-leaf": {"leaves": 1}, "two-leaf": {"leaves": 2}},
    ),
    "melons": Genus(
        melon,
        {
            "dark": {"rind": "#2f6a34", "stripe": "#1f4a28", "stripes": 12},
            "pale": {"rind": "#6fa24e", "stripe": "#2f6a34", "stripes": 12},
            "broad": {"rind": "#6fa24e", "stripe": "#2f6a34", "stripes": 7},
        },
        {"red-flesh": {"flesh": "#d8443e", "pips": 14}, "yellow-flesh": {"flesh": "#ecc24c", "pips": 9}},
    ),
    "pears": Genus(
        pear,
        {
            "green": {"peel": "#a9bd46", "blush": "#9ab040", "pattern": "plain"},
            "blushed": {"peel": "#b4bd46", "blush": "#c98a42", "pattern": "wedges"},
            "russet": {"peel": "#b4b048", "blush": "#96863a", "pattern": "speckle"},
        },
        {"short": {"neck": 0.0}, "long": {"neck": 0.22}},
    ),
    "citrus": Genus(
        citrus,
        {
            "orange": {"peel": "#ec8a1c", "flesh": "#f5a32e"},
            "blood-orange": {"peel": "#d8541e", "flesh": "#b8303a"},
            "lemon": {"peel": "#efcb32", "flesh": "#f4e48a"},
        },
        {"round": {"segments": 10, "tip": 0.0}, "nippled": {"segments": 8, "tip": 0.14}},
    ),
}

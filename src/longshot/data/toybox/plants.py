"""Flowers and fruits of toybox. Flowers: a stem with leaves and a blossom that looks to the front; sepals behind."""

from __future__ import annotations

import math

from longshot.data.toybox.parts import Solid, Surface, ball, both, ring, rod, tube

STEM, LEAF = "#4f8a3a", "#3f7d36"


def stem(high: float = 0.0) -> list[Solid]:
    """A stem below the blossom at the origin, with two leaves."""
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

"""The building blocks of toybox: coloured balls, boxes and tubes placed in space, and genera made of them.

Axes: x to the object's left and right, y towards its front, z up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Vec = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Surface:
    """A colour, and a second one laid over it by a pattern (see ``patterns.py``) of ``count`` repeats."""

    colour: str
    pattern: str = "plain"
    second: str = "#000000"
    count: int = 0


@dataclass(frozen=True, slots=True)
class Solid:
    """One convex solid: the unit ball, cube or tube, scaled by ``size``, turned (degrees about x, y, z in
    this order), stretched along the outer axes and moved to ``at``.

    ``taper`` is a tube's radius at its upper end relative to its lower one (0: a cone). ``cut`` keeps the slab
    (axis, low, high) of a ball, in its own coordinates; ``inside`` is then the surface of the cut.
    """

    kind: str
    at: Vec
    size: Vec
    skin: Surface
    turn: Vec = (0.0, 0.0, 0.0)
    stretch: Vec = (1.0, 1.0, 1.0)
    taper: float = 1.0
    cut: tuple[int, float, float] | None = None
    inside: Surface | None = None
    gloss: float = 0.15


Trait = Mapping[str, Mapping[str, Any]]  # name of a variant → settings of a body plan


@dataclass(frozen=True, slots=True)
class Genus:
    """A body plan and two traits that vary it: every pair of their variants is a species."""

    build: Callable[..., list[Solid]]
    first: Trait
    second: Trait

    @property
    def species(self) -> dict[str, dict[str, Any]]:
        """``first-second`` → what ``build`` makes the species of."""
        return {f"{a}-{b}": {**self.first[a], **self.second[b]} for a in self.first for b in self.second}


ToyFamily = Mapping[str, Genus]


def skin(colour: str | Surface) -> Surface:
    return colour if isinstance(colour, Surface) else Surface(colour)


def ball(at: Vec, size: float | Vec, colour: str | Surface, **more: Any) -> Solid:
    return Solid("ball", at, size if isinstance(size, tuple) else (size, size, size), skin(colour), **more)


def box(at: Vec, size: Vec, colour: str | Surface, **more: Any) -> Solid:
    return Solid("box", at, size, skin(colour), **more)


_AXES: dict[str, Vec] = {"x": (0.0, 90.0, 0.0), "y": (-90.0, 0.0, 0.0), "z": (0.0, 0.0, 0.0)}


def tube(at: Vec, radius: float, half: float, colour: str | Surface, axis: str = "z", **more: Any) -> Solid:
    """A cylinder (or cone, with ``taper``) of half length ``half`` along ``axis``."""
    return Solid("tube", at, (radius, radius, half), skin(colour), turn=_AXES[axis], **more)


def rod(start: Vec, end: Vec, radius: float, colour: str | Surface, **more: Any) -> Solid:
    """A tube from one point to another."""
    d = tuple(b - a for a, b in zip(start, end, strict=True))
    length = math.sqrt(sum(c * c for c in d))
    turn = (0.0, math.degrees(math.acos(d[2] / length)), math.degrees(math.atan2(d[1], d[0])))
    middle = (start[0] + d[0] / 2, start[1] + d[1] / 2, start[2] + d[2] / 2)
    return Solid("tube", middle, (radius, radius, length / 2), skin(colour), turn=turn, **more)


def chain(points: list[Vec], radius: float, colour: str | Surface) -> list[Solid]:
    """Rods from point to point: a bent wire."""
    return [rod(a, b, radius, colour) for a, b in itertools.pairwise(points)]


def gable(at: Vec, half_width: float, half_depth: float, height: float, colour: str | Surface) -> Solid:
    """A roof whose ridge runs along y, ``height`` above ``at``; its lower half hides in the walls beneath."""
    side = math.sqrt(0.5)
    return Solid(
        "box",
        at,
        (side, half_depth, side),
        skin(colour),
        turn=(0.0, 45.0, 0.0),
        stretch=(half_width, 1.0, height),
    )


def both(*parts: Solid) -> list[Solid]:
    """The parts and their mirror images left and right (x negated)."""
    return [*parts, *(mirror(part) for part in parts)]


def mirror(part: Solid) -> Solid:
    (x, y, z), (a, b, c) = part.at, part.turn
    return replace(part, at=(-x, y, z), turn=(a, -b, -c))


def ring(
    count: int, radius: float, at: Callable[[float, float, float], Solid], start: float = 0.0
) -> list[Solid]:
    """``count`` parts around a circle: ``at(cos·radius, sin·radius, degrees)`` makes each."""
    angles = [start + 360.0 * i / count for i in range(count)]
    return [at(radius * math.cos(math.radians(a)), radius * math.sin(math.radians(a)), a) for a in angles]


def flat(groups: Iterable[Solid | list[Solid]]) -> list[Solid]:
    """One list out of parts and lists of parts."""
    out: list[Solid] = []
    for group in groups:
        out.extend([group] if isinstance(group, Solid) else group)
    return out

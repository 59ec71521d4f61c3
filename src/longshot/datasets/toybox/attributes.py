"""What each of a class's fifty photographs shows: a balanced plan, drawn before anything is rendered."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from longshot.datasets.toybox.owners import OWNERS

IMAGES = 50
VIEWPOINTS = ("front", "back", "side", "top")
# Faults of a class's photographs: how many times each occurs. They fall on FAULTY images, so that a few have two.
FAULTS = {"blur": 4, "occlusion": 4, "over_exposed": 3, "under_exposed": 3, "cut-off": 3, "small": 3}
FAULTY = 14
CLUTTER = {1: 26, 2: 12, 3: 8, 4: 4}  # objects in the picture → how many pictures
_CLASHES = ({"over_exposed", "under_exposed"}, {"cut-off", "small"})


@dataclass(frozen=True, slots=True)
class Photograph:
    """The attributes of one photograph."""

    viewpoint: str
    blur: bool
    occlusion: bool
    over_exposed: bool
    under_exposed: bool
    framing: str  # centred, cut-off or small
    clutter: int  # objects in the picture, the toy among them
    owner: str
    quality_issues: int


def plan(class_index: int, seed: int) -> list[Photograph]:
    """The fifty shots of a class: each owner five times, each viewpoint at least twelve times, every fault spread
    over viewpoints; the order is random."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(class_index, 0)))
    owners = np.repeat(np.arange(len(OWNERS)), IMAGES // len(OWNERS))
    # Within an owner the viewpoints go round; starting one further for each owner and class evens out the fifth.
    views = (np.arange(IMAGES) % 5 + owners + class_index) % len(VIEWPOINTS)
    faults: list[set[str]] = [set() for _ in range(IMAGES)]
    for image, marks in zip(_spread(views, rng), _bundles(rng), strict=False):
        faults[image] = marks
    clutter = rng.permutation(np.repeat(list(CLUTTER), list(CLUTTER.values())))
    shots = [
        Photograph(
            viewpoint=VIEWPOINTS[views[i]],
            blur="blur" in faults[i],
            occlusion="occlusion" in faults[i],
            over_exposed="over_exposed" in faults[i],
            under_exposed="under_exposed" in faults[i],
            framing=next((f for f in ("cut-off", "small") if f in faults[i]), "centred"),
            clutter=int(clutter[i]),
            owner=OWNERS[owners[i]].name,
            quality_issues=len(faults[i]),
        )
        for i in range(IMAGES)
    ]
    return [shots[i] for i in rng.permutation(IMAGES)]


def _spread(views: np.ndarray[Any, np.dtype[np.int64]], rng: np.random.Generator) -> list[int]:
    """All images in an order that goes round the viewpoints."""
    queues = [list(rng.permutation(np.flatnonzero(views == v))) for v in rng.permutation(len(VIEWPOINTS))]
    longest = max(map(len, queues))
    return [int(queue[i]) for i in range(longest) for queue in queues if i < len(queue)]


def _bundles(rng: np.random.Generator) -> list[set[str]]:
    """The faults dealt to FAULTY images: one each, then second ones where they do not clash."""
    deck = [name for name, count in FAULTS.items() for _ in range(count)]
    bundles = [{deck[i]} for i in rng.permutation(len(deck))[:FAULTY]]
    remaining = list(deck)
    for bundle in bundles:
        remaining.remove(next(iter(bundle)))
    for name in remaining:
        for i in rng.permutation(FAULTY):
            together = bundles[i] | {name}
            if (
                len(bundles[i]) == 1
                and len(together) == 2
                and not any(clash <= together for clash in _CLASHES)
            ):
                bundles[i] = together
                break
    return bundles


def columns(shots: list[Photograph]) -> dict[str, list[Any]]:
    """Attribute name → values, in the order of the shots."""
    return {field.name: [getattr(shot, field.name) for shot in shots] for field in fields(Photograph)}

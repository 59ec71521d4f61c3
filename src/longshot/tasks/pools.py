"""Pools: which classes and images of a dataset tasks are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import UserError, count
from longshot.data import Dataset, described
from longshot.tasks.base import Instances, Pool, Shape
from longshot.tasks.rules import rule_mask
from longshot.tasks.shifted import Curated
from longshot.tasks.streams import Streams


@dataclass(frozen=True)
class ImageLimits:
    """What limits the images of all tasks, whatever draws them.

    ``query_where`` and ``support_where`` are rules over attributes. With ``disjoint`` an image that is support in one
    task is never a query in another: each class is cut in two once, in the ratio of queries to shots (the largest
    number, where it varies).

    Parameters
    ----------
    query_where, support_where : str, optional
        Which images may be queries, and which support.
    disjoint : bool
        Cut each class in two.
    cut_seed : int, optional
        Seed of the cut, so that testbeds of the same shape with other seeds share it; the testbed's own unless given.

    Examples
    --------
    >>> limits = ImageLimits(disjoint=True)
    >>> testbed = longshot.sample("toybox", tasks=10, way=3, shot=2, query=2, limits=limits, split="test")
    >>> support = {key for task in testbed for key in task.support}
    >>> any(key in support for task in testbed for key in task.query)
    False
    >>> limits.settings()
    {'disjoint_pools': True}
    """

    query_where: str | None = None
    support_where: str | None = None
    disjoint: bool = False
    cut_seed: int | None = None  # None: the testbed's own seed

    def settings(self) -> dict[str, Any]:
        """For the metadata: what is limited, nothing when nothing is."""
        rules = {"query_where": self.query_where, "support_where": self.support_where}
        limits: dict[str, Any] = {name: rule for name, rule in rules.items() if rule is not None}
        if self.disjoint:
            limits["disjoint_pools"] = True
            if self.cut_seed is not None:
                limits["cut_seed"] = self.cut_seed
        return limits


def make_pools(
    dataset: Dataset,
    shape: Shape,
    instances: Instances,
    streams: Streams,
    *,
    limits: ImageLimits,
    split: str | None = None,
    drop_small: bool = False,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[Pool, list[Pool], int]:
    """All that may be drawn; the pools of which one is drawn for each task; classes left out for being small.

    ``allowed`` [N] says which images may be drawn at all; None: every one.
    """
    curated = _curated(instances)
    if curated is not None or limits.query_where is not None or limits.support_where is not None:
        dataset = described(dataset)
    masks = [
        None if rule is None else rule_mask(rule, dataset.attributes, dataset.name)
        for rule in (limits.query_where, limits.support_where)
    ]
    everything = Pool(dataset, dataset.split_classes(split)).restrict(*masks)
    if allowed is not None:
        everything = everything.restrict(allowed, allowed)
    if limits.disjoint:
        seed = streams.seed if limits.cut_seed is None else limits.cut_seed
        everything = _cut(everything, shape, replace(streams, seed=seed))
    if curated is None:
        everything = _checked([everything], shape, split, drop_small)
        return everything, [everything], len(dataset.split_classes(split)) - len(everything.classes)
    pools = []
    for pool, twin in curated.settings(everything):
        if not curated.within:
            pools.append(_checked([pool, twin], shape, split, drop_small))
            continue
        # Each owner has classes of their own, and owners with too few are passed over.
        enough = _enough(pool, shape) & _enough(twin, shape)
        pools.append(pool.take_classes(pool.classes[enough]))
    fitting = [pool for pool in pools if len(pool.classes) >= shape.min_way]
    if not fitting:
        best = max(pools, key=lambda pool: len(pool.classes))
        query, shot = shape.min_counts
        raise UserError(
            f"No task of '{dataset.name}' is possible under the rule: the best of {len(pools)} settings ({best.label}) "
            f"has {len(best.classes)} classes with {query} query and {shot} support images, but a task needs "
            f"{shape.min_way}",
            "lower {way}, {shot} or {query}",
        )
    if len(fitting) == 1 and not curated.within:
        fitting = [replace(fitting[0], label="")]
    used = np.unique(np.concatenate([pool.classes for pool in fitting]))
    return everything.take_classes(used), fitting, len(everything.classes) - len(used)


def _curated(instances: Instances) -> Curated | None:
    """The rule set of the instances, or that of the sampler whose queries they take."""
    for sampler in (instances, getattr(instances, "base", None)):
        if isinstance(sampler, Curated):
            return sampler
    return None


def _enough(pool: Pool, shape: Shape) -> NDArray[np.bool_]:
    """Which of the pool's classes have enough images for a task, [P]."""
    if not pool.restricted:
        return np.asarray(pool.sizes[pool.classes] >= shape.min_images)
    query, shot = shape.min_counts
    fits: NDArray[np.bool_] = (pool.query_sizes[pool.classes] >= query) & (
        pool.left(pool.classes, query) >= shot
    )
    return fits


def _checked(pools: list[Pool], shape: Shape, split: str | None, drop_small: bool) -> Pool:
    """The first pool with the classes that have enough images in all of them; UserError when some have not."""
    classes, dataset = pools[0].classes, pools[0].dataset
    fits = [_enough(pool, shape) for pool in pools]
    enough = np.logical_and.reduce(fits)
    where = f"'{dataset.name}'" if split is None else f"the {split} split of '{dataset.name}'"
    if not enough.all() and not (drop_small and enough.any()):
        short = next(pool for pool, fit in zip(pools, fits, strict=True) if not fit.all())
        raise _too_few(short, shape, where, enough)
    large = classes[enough]
    if len(large) < shape.min_way:
        note = f" ({len(classes) - len(large)} smaller ones left out)" if len(large) < len(classes) else ""
        raise UserError(
            f"There are {len(large)} classes in {where} with at least {count(shape.min_images, 'image')}{note}, "
            f"but a task needs {shape.min_way}",
            "lower {way} or add classes",
        )
    return pools[0].take_classes(large)


def _too_few(pool: Pool, shape: Shape, where: str, enough: NDArray[np.bool_]) -> UserError:
    """The class with too few images, how many have enough, and what to do."""
    classes = pool.classes
    summary = f"{int(enough.sum())} of {len(classes)} classes have enough"
    drop = "leave the small ones out with {drop_small:True}, or " if enough.any() else ""
    if not pool.restricted:
        smallest = int(classes[np.argmin(pool.sizes[classes])])
        return UserError(
            f"Class '{pool.dataset.class_ids[smallest]}' of {where} has {count(int(pool.sizes[smallest]), 'image')}, "
            f"but a task needs {shape.min_images} of each class (shots + queries), and {summary}",
            f"{drop}lower {{shot}} or {{query}}",
        )
    query, shot = shape.min_counts
    missing = np.maximum(query - pool.query_sizes[classes], 0) + np.maximum(
        shot - pool.left(classes, query), 0
    )
    worst = int(classes[np.argmax(missing)])
    available = max(int(pool.left(np.array([worst]), query)[0]), 0)
    return UserError(
        f"Class '{pool.dataset.class_ids[worst]}' of {where} has {count(int(pool.query_sizes[worst]), 'image')} for "
        f"the query under the rules and {available} left for the support, but a task needs {query} and {shot}, and "
        f"{summary}",
        f"{drop}lower {{shot}} or {{query}}, or loosen the rule",
    )


def _cut(pool: Pool, shape: Shape, streams: Streams) -> Pool:
    """Give each image that may be both to the queries or to the support, in the ratio that a task needs."""
    dataset = pool.dataset
    everything = np.ones(len(dataset), dtype=bool)
    query = everything.copy() if pool.query_mask is None else pool.query_mask.copy()
    support = everything if pool.support_mask is None else pool.support_mask.copy()
    order = streams.generator("disjoint-pools").permutation(len(dataset))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    (queries, shots), ratio = shape.min_counts, shape.pool_counts
    for c in pool.classes:
        rows = np.arange(dataset.offsets[c], dataset.offsets[c + 1])
        shared = rows[query[rows] & support[rows]]
        shared = shared[np.argsort(rank[shared])]
        only_query = int(query[rows].sum()) - len(shared)
        only_support = int(support[rows].sum()) - len(shared)
        share = round(len(shared) * ratio[0] / sum(ratio))
        # Not fewer than a task needs on either side; where both cannot be had, the check of sizes says so.
        share = min(max(share, queries - only_query), len(shared) - max(shots - only_support, 0))
        share = min(max(share, 0), len(shared))
        support[shared[:share]] = False
        query[shared[share:]] = False
    return pool.restrict(query, support)

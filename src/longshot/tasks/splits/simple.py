"""Splits that need no features: at random, and by whole super-classes of a taxonomy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longshot.base import Ints, UserError, count
from longshot.data import SPLITS, Dataset, Taxonomy, no_taxonomy, reduced, taxonomy_facts
from longshot.tasks.splits.assign import RATIOS, assign, part_sizes
from longshot.tasks.splits.split import Split, from_labels


def random_split(dataset: Dataset, ratios: Sequence[float] = RATIOS, seed: int = 0) -> Split:
    """Classes at random: what a divergence of 0 means.

    Parameters
    ----------
    dataset : Dataset
        Whose classes are divided.
    ratios : sequence of 3 floats
        Shares of train, validation and test.
    seed : int
        Random seed.
    """
    sizes = part_sizes(len(dataset.class_ids), ratios)
    parts = assign(np.zeros(len(dataset.class_ids)), sizes, seed)
    made = {"mode": "random", "ratios": list(ratios), "seed": seed}
    return from_labels(f"random(seed={seed})", dataset, parts, made)


def semantic_split(
    dataset: Dataset,
    ratios: Sequence[float] = RATIOS,
    seed: int = 0,
    level: int | None = None,
    reduction: str | None = None,
) -> Split:
    """Whole super-classes: no class of one part has a sibling in another, as in FC100 and tieredImageNet.

    Test, and of the remaining ones validation, take the super-classes whose classes sum nearest to the sizes that the
    ratios ask for.

    Parameters
    ----------
    dataset : Dataset
        With a taxonomy.
    ratios : sequence of 3 floats
        Shares of train, validation and test.
    seed : int
        Shuffles the super-classes.
    level : int, optional
        Depth of the super-classes in the taxonomy; the parents of the classes where it is left out. Those that share
        a class count as one.
    reduction : str, optional
        Which paths of the taxonomy count; see ``class_distances``.
    """
    dataset = reduced(dataset, reduction)
    if dataset.taxonomy is None:
        raise no_taxonomy(dataset, " to take super-classes from")
    sizes = part_sizes(len(dataset.class_ids), ratios)
    families = super_classes(dataset.taxonomy, dataset.class_ids, level)
    needed = 3 if sizes[1] else 2
    if len(families) < needed:
        at = "the parents of its classes" if level is None else f"level {level} of its taxonomy"
        raise UserError(
            f"Dataset '{dataset.name}' has {count(len(families), 'super-class', 'super-classes')} at {at}; a semantic "
            f"split needs {needed}",
            "give another {level} (see {open_taxonomy(DATASET)})",
        )
    order = np.random.default_rng(seed).permutation(len(families)).tolist()
    remaining = [families[i] for i in order]
    chosen: list[list[tuple[str, tuple[str, ...]]]] = []
    for size, parts_after in (
        (sizes[2], needed - 1),
        (sizes[1], 1),
    ):  # each leaves enough for the parts after it
        counts = [len(members) for _, members in remaining]
        taken = set(_nearest(counts, size, len(remaining) - parts_after) if size else ())
        chosen.append([family for i, family in enumerate(remaining) if i in taken])
        remaining = [family for i, family in enumerate(remaining) if i not in taken]
    groups = dict(zip(SPLITS, (remaining, *reversed(chosen)), strict=True))
    parts = [_positions(dataset, group) for group in groups.values()]
    made = {
        "mode": "semantic",
        "level": level,
        **taxonomy_facts(dataset, reduction),
        "ratios": list(ratios),
        "seed": seed,
        "super_classes": {part: sorted(name for name, _ in group) for part, group in groups.items()},
    }
    return from_labels(f"semantic(seed={seed})", dataset, parts, made)


def super_classes(
    taxonomy: Taxonomy, class_ids: Sequence[str], level: int | None = None
) -> list[tuple[str, tuple[str, ...]]]:
    """[(name, classes)] sorted by name, disjoint: groups that share a class are joined, ``a + b`` by name."""
    groups = taxonomy.groups(class_ids) if level is None else taxonomy.groups_at(class_ids, level)
    home: dict[str, str] = {}
    above: dict[str, str] = {group: group for group in groups}

    def top(group: str) -> str:
        while above[group] != group:
            group = above[group]
        return group

    for group, members in groups.items():
        for member in members:
            above[top(group)] = top(home.setdefault(member, group))
    joined: dict[str, list[str]] = {}
    for group in groups:
        joined.setdefault(top(group), []).append(group)
    families = []
    for names in joined.values():
        everyone = sorted({member for group in names for member in groups[group]})
        families.append((" + ".join(name or taxonomy.label(name) for name in names), tuple(everyone)))
    return sorted(families)


def _nearest(sizes: Sequence[int], target: int, most: int) -> list[int]:
    """Positions of at most ``most`` sizes whose sum is nearest to ``target``, at least one; fewer and earlier first.

    Subset sums: ``fewest[s]`` is the smallest number of the sizes seen so far that sum to s.
    """
    limit = max(2 * target, min(sizes))
    unreached = len(sizes) + 1
    fewest = np.full(limit + 1, unreached)
    fewest[0] = 0
    history: list[Ints] = []
    for size in sizes:
        history.append(fewest.copy())
        if size <= limit:
            fewest[size:] = np.minimum(fewest[size:], history[-1][: limit + 1 - size] + 1)
    sums = np.flatnonzero((fewest <= most) & (np.arange(limit + 1) > 0))
    total = int(sums[np.argmin(np.abs(sums - target))])
    taken = []
    for i in range(len(sizes) - 1, -1, -1):
        if history[i][total] > fewest[total]:  # without size i this sum takes more, so it is in
            taken.append(i)
            total -= sizes[i]
        fewest = history[i]
    return sorted(taken)


def _positions(dataset: Dataset, families: Sequence[tuple[str, tuple[str, ...]]]) -> Ints:
    return np.array([dataset.class_index(c) for _, members in families for c in members], dtype=np.int64)

"""From scores to parts: sizes, the paper's alternating assignment, agreement between partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from longshot.base import Floats, Ints, UserError

RATIOS = (0.6, 0.2, 0.2)
WAY, SHOT = 5, 5  # of the tasks that tell how hard a split is
Parts: TypeAlias = tuple[Ints, Ints, Ints]  # class positions: train, validation, test


def part_sizes(classes: int, ratios: Sequence[float] = RATIOS) -> tuple[int, int, int]:
    """Classes in (train, validation, test): validation and test get ⌊ratio · M⌋ each, train the others.

    Parameters
    ----------
    classes : int
        M.
    ratios : sequence of 3 floats
        From 0 on, summing to 1; only that of validation may be 0.

    Examples
    --------
    >>> part_sizes(62)
    (38, 12, 12)
    """
    if (
        len(ratios) != 3
        or not all(math.isfinite(r) and r >= 0 for r in ratios)
        or abs(sum(ratios) - 1) > 1e-6
    ):
        listed = ", ".join(f"{r:g}" for r in ratios)
        raise UserError(
            f"The ratios {listed} are not three numbers from 0 that sum to 1, such as 0.6,0.2,0.2."
        )
    if ratios[0] == 0 or ratios[2] == 0:
        raise UserError("Train and test need a ratio above 0 each; only validation may be 0.")
    # a product such as 0.29 × 100 lies a rounding error below the whole number that is meant
    validation, test = (math.floor(round(r * classes, 6)) for r in ratios[1:])
    train = classes - validation - test
    if train < 1 or test < 1 or (ratios[1] > 0 and validation < 1):
        needed = max(math.ceil(round(1 / max(r, 1e-9), 6)) for r in ratios if r > 0)
        raise UserError(
            f"{classes} {'class is' if classes == 1 else 'classes are'} too few for a split of "
            f"{ratios[0]:g}, {ratios[1]:g}, {ratios[2]:g}: at least {needed} are needed for one class in each part."
        )
    return train, validation, test


def assign(scores: Floats, sizes: tuple[int, int, int], seed: int = 0) -> Parts:
    """Lowest scores first, alternately to test and validation until both are full; the others are train.

    Parameters
    ----------
    scores : array [M]
        One per class: log p_train − log p_test.
    sizes : (train, validation, test)
        Summing to M.
    seed : int
        Breaks ties at random, as in the paper: with equal scores the split is a random one.

    Examples
    --------
    >>> [part.tolist() for part in assign(np.array([0.9, 0.1, 0.5, 0.2]), (2, 1, 1))]
    [[0, 2], [3], [1]]
    """
    train, validation, test = sizes
    if train + validation + test != len(scores):
        raise ValueError(f"sizes {sizes} do not sum to the {len(scores)} scores")
    order = np.lexsort((np.random.default_rng(seed).permutation(len(scores)), scores))
    held, alternating = validation + test, 2 * min(validation, test)
    turns = np.arange(held)
    to_test = np.where(turns < alternating, turns % 2 == 0, test > validation)
    return np.sort(order[held:]), np.sort(order[:held][~to_test]), np.sort(order[:held][to_test])


def labels(parts: Parts) -> Ints:
    """The part of each class [M]: 0 train, 1 validation, 2 test."""
    part_of = np.zeros(sum(len(part) for part in parts), dtype=np.int64)
    for number, part in enumerate(parts):
        part_of[part] = number
    return part_of


def adjusted_rand(a: Ints, b: Ints) -> float:
    """Hubert and Arabie's adjusted Rand index of two labelings [M]: 1 for equal partitions, 0 by chance.

    (pairs together in both − expected) / (mean of the pairs together in either − expected).

    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1))
    np.add.at(table, (a, b), 1)

    def pairs(counts: Floats) -> float:
        return float((counts * (counts - 1) / 2).sum())

    together, rows, columns = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    chance = rows * columns / max(pairs(np.array([float(len(a))])), 1.0)
    most = (rows + columns) / 2
    return 1.0 if most == chance else (together - chance) / (most - chance)


def agreement(partitions: Sequence[Parts]) -> dict[str, float]:
    """Mean over pairs of partitions: adjusted Rand index, and share of classes that are in the same part."""
    marks = [labels(parts) for parts in partitions]
    pairs = [(a, b) for i, a in enumerate(marks) for b in marks[:i]]
    if not pairs:
        return {"adjusted_rand": 1.0, "same_part": 1.0}
    return {
        "adjusted_rand": float(np.mean([adjusted_rand(a, b) for a, b in pairs])),
        "same_part": float(np.mean([(a == b).mean() for a, b in pairs])),
    }

"""Many pairs of series tested together: sign-flip tests on shared tasks, p corrected for their number."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from longshot.base import Floats, progress
from longshot.statistics import Comparison, compare_many, holm, smallest_p

SIGNIFICANCE = 0.05
_TOGETHER = (
    64  # pairs tested at a time: bounds memory; signs are drawn anew from the seed, so it changes no p
)


@dataclass(frozen=True, eq=False)
class SeriesPair:
    """Two series on the same T tasks, which ``tasks`` stands for: pairs with equal ``tasks`` are tested together."""

    tasks: Hashable
    before: Floats  # [T]
    after: Floats  # [T]


def enough_resamples(pairs: int) -> int:
    """How many random signs a test needs where ``pairs`` are tested together.

    A sampled p cannot fall below 1 / (1 + resamples): enough of them that correction leaves room below 0.05.

    >>> enough_resamples(1), enough_resamples(120)
    (9999, 12000)
    """
    return max(9999, 100 * pairs)


def deciding_tasks(tasks: Sequence[int]) -> int:
    """How many tasks the pairs with the fewest need, so that each of them can reach a corrected p below 0.05.

    ``tasks`` are those of the pairs that are tested together. No p of n tasks is below 2/2ⁿ, and a corrected p never
    falls when a p rises, so that none is below the correction of these bounds.

    >>> deciding_tasks([5]), deciding_tasks([6, 6]), deciding_tasks([6, 600]), deciding_tasks([600])
    (6, 7, 1, 1)
    """
    needed = 1
    while (holm([smallest_p(max(each, needed)) for each in tasks]) >= SIGNIFICANCE).any():
        needed += 1
    return needed


def compare_pairs(
    pairs: Sequence[SeriesPair], *, higher_is_better: bool = True, seed: int = 0
) -> list[tuple[Comparison, float]]:
    """Test every pair, and correct by Holm's method over all of them.

    Parameters
    ----------
    pairs : sequence of SeriesPair
        Values of the two series, task by task.
    higher_is_better : bool
        Whether the metric's higher values win.
    seed : int
        Of the random signs, where not all can be tried.

    Returns
    -------
    list of (Comparison, float)
        ``after`` against ``before``, and the corrected p; in the order of ``pairs``.
    """
    resamples = enough_resamples(len(pairs))
    groups: dict[Hashable, list[int]] = {}
    for position, pair in enumerate(pairs):
        groups.setdefault(pair.tasks, []).append(position)
    results: dict[int, Comparison] = {}
    with progress("compare", total=len(pairs), unit="pairs") as bar:
        for group in groups.values():
            for start in range(0, len(group), _TOGETHER):
                block = group[start : start + _TOGETHER]
                before = np.stack([pairs[i].before for i in block], axis=1)
                after = np.stack([pairs[i].after for i in block], axis=1)
                tested = compare_many(
                    before, after, higher_is_better=higher_is_better, resamples=resamples, seed=seed
                )
                results.update(zip(block, tested, strict=True))
                bar.advance(len(block))
    ordered = [results[i] for i in range(len(pairs))]
    corrected = holm([comparison.p for comparison in ordered]) if ordered else ()
    return [(comparison, float(p)) for comparison, p in zip(ordered, corrected, strict=True)]

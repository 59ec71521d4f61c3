"""What supports and queries consist of, testbed by testbed: shares and gaps with intervals over tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longshot.causes.gaps import Gaps
from longshot.statistics import Interval, mean_interval


@dataclass(frozen=True)
class Composition:
    """One column over the tasks of one testbed: mean of the support, of the queries, and of their difference."""

    attribute: str
    value: str | None
    support: Interval
    query: Interval
    gap: Interval  # support − query, paired by task
    apart: Interval  # |support − query| per class in within-class σ or share, mean over classes
    coverage: float  # of the images in the dataset


def composition(gaps: Gaps) -> list[Composition]:
    """Every column of ``gaps``; tasks without a known value on both sides are left out of its intervals."""
    made = []
    for place, column in enumerate(gaps.columns):
        support, query = (_by_task(gaps, values[place]) for values in (gaps.support, gaps.query))
        apart = _by_task(gaps, np.abs(gaps.effect[place]))
        known = np.isfinite(support) & np.isfinite(query)
        if not known.any():
            continue
        far = apart[np.isfinite(apart)]
        made.append(
            Composition(
                attribute=column.attribute,
                value=column.value,
                support=mean_interval(support[known]),
                query=mean_interval(query[known]),
                gap=mean_interval((support - query)[known]),
                apart=mean_interval(far if len(far) else np.zeros(1)),
                coverage=column.coverage,
            )
        )
    return made


def _by_task(gaps: Gaps, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes of each task [T] of values per group [G]; NaN where none is known."""
    tasks = gaps.task_p.shape[1]
    known = np.isfinite(values)
    count = np.bincount(gaps.groups.task[known], minlength=tasks)
    total = np.bincount(gaps.groups.task[known], values[known], minlength=tasks)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: NDArray[np.float64] = np.where(count > 0, total / count, np.nan)
    return mean

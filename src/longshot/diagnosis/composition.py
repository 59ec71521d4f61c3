"""What supports and queries consist of, testbed by testbed: shares and gaps with intervals over tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longshot.base import Floats
from longshot.diagnosis.alterations import ALTERED
from longshot.diagnosis.gaps import Gaps, means_by
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
    """Every column of ``gaps`` but likeness to alterations; tasks without known values on both sides are left out."""
    compositions = []
    for row, column in enumerate(gaps.columns):
        if column.attribute in ALTERED:
            continue  # a score without a unit says nothing of what supports consist of
        support, query = (_by_task(gaps, values[row]) for values in (gaps.support, gaps.query))
        apart = _by_task(gaps, np.abs(gaps.effect[row]))
        finite = np.isfinite(support) & np.isfinite(query)
        if not finite.any():
            continue
        far = apart[np.isfinite(apart)]
        compositions.append(
            Composition(
                attribute=column.attribute,
                value=column.value,
                support=mean_interval(support[finite]),
                query=mean_interval(query[finite]),
                gap=mean_interval((support - query)[finite]),
                apart=mean_interval(far if len(far) else np.zeros(1)),
                coverage=column.coverage,
            )
        )
    return compositions


def _by_task(gaps: Gaps, values: Floats) -> Floats:
    """Mean over the classes of each task [T] of values per group [G]; NaN where none is known."""
    return means_by(values, gaps.groups.task, gaps.task_p.shape[1])[0]

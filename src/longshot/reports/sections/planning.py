"""Enough tasks? What the next run needs, and whether the ranking would hold on other tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from longshot.reports.data import Shared
from longshot.reports.sections.base import Request, Section

WANTED = 0.005  # half the width of the interval: half a point


def enough(request: Request) -> Section | None:
    """Tasks for an interval of ± 0.5 point, and the stability of the order under resampling."""
    data, lines, findings = request.data, [], []
    for b, bed in enumerate(data.beds):
        shared = data.shared(b)
        stable = _stability(shared)
        if stable is not None:
            top = [int(i) for i in stable.order]
            findings.append(
                {
                    "bed": bed.name,
                    "settled": stable.settled(),
                    "same": stable.same,
                    "agreement": stable.agreement,
                    "resamples": stable.resamples,
                    "doubtful": [
                        (data.series[shared.series[i]].label, data.series[shared.series[j]].label)
                        for i, j in pairwise(top)
                        if stable.above[i, j] < 0.95
                    ],
                }
            )
        first = dict(zip(shared.series, stable.first, strict=True)) if stable is not None else {}
        best = max((s for s, _ in data.column(b)), key=lambda s: request.entries[b, s].mean)
        for s, cell in data.column(b):
            if len(cell.tasks) >= 2:
                lines.append(_line(request, b, s, best, shared, first.get(s)))
    if not lines:
        return None
    return Section("enough", "Enough tasks?", {"lines": lines, "findings": findings})


def _stability(shared: Shared) -> Any:
    from longshot.statistics import ranking_stability

    if len(shared.series) < 2 or len(shared.tasks) < 2:
        return None
    return ranking_stability(shared.accuracy)


def _line(request: Request, b: int, s: int, best: int, shared: Shared, first: float | None) -> dict[str, Any]:
    """One series: what its interval needs, and what its difference to the best needs."""
    from longshot.statistics import tasks_needed

    entry = request.entries[b, s]
    against = None
    if s != best and len(shared.tasks) >= 2:
        i, j = shared.series.index(s), shared.series.index(best)
        spread = float(np.std(shared.accuracy[:, i] - shared.accuracy[:, j], ddof=1))
        against = tasks_needed(spread, WANTED)
    needed = tasks_needed(entry.std, WANTED)
    return {
        "bed": request.data.beds[b].name,
        "index": s,
        "series": request.data.series[s],
        "n": entry.n,
        "half": entry.half,
        "needed": needed,
        "enough": needed <= entry.n,
        "against": against,
        "first": first,
    }

"""Ranks: the critical-difference plot, and Meta-Dataset's rule over all sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from longshot.reports.charts import EstimateRow, intervals
from longshot.reports.data import ReportData, Shared
from longshot.reports.sections.base import MAX_ROWS, Request, Section, plot_label
from longshot.reports.summary import interval

DATASET_BLOCKS = 5  # fewer datasets as blocks could never tell anything apart


def ranks(request: Request) -> Section | None:
    """Average ranks with the critical difference per testbed, and a table of Meta-Dataset ranks, setting by setting."""
    data = request.data
    panels, tables = [], []
    for setting in sorted({series.setting for series in data.series}):
        ranked = {
            b: bed_tasks for b in range(len(data.beds)) if _rankable(bed_tasks := data.shared(b, setting))
        }
        panels += [{"setting": setting, **_panel(data, b, bed_tasks)} for b, bed_tasks in ranked.items()]
        if ranked:
            tables.append({"setting": setting, **source_ranks(data, ranked)})
    several = len({panel["setting"] for panel in panels}) > 1
    return (
        Section("ranks", "Ranks", {"panels": panels, "tables": tables, "several": several})
        if panels
        else None
    )


def _rankable(shared: Shared) -> bool:
    """Two tasks, and three series, or two over several datasets: fewer have no ranks worth a plot."""
    several_datasets = len(set(shared.datasets)) >= 2
    return len(shared.tasks) >= 2 and len(shared.series) >= (2 if several_datasets else 3)


def blocks(shared: Shared) -> tuple[str, Any]:
    """What is ranked within, [N, M]: datasets when there are enough of them, else tasks."""
    names = np.asarray(shared.datasets, str)
    distinct = list(dict.fromkeys(shared.datasets))
    if len(distinct) < DATASET_BLOCKS:
        return "tasks", shared.accuracy
    return "datasets", np.stack([shared.accuracy[names == name].mean(axis=0) for name in distinct])


def _panel(data: ReportData, b: int, shared: Shared) -> dict[str, Any]:
    from longshot.statistics import critical_difference

    kind, scores = blocks(shared)
    ranking = critical_difference(scores)
    order = [int(i) for i in ranking.order]
    reach = ranking.difference / 2
    rows = [
        EstimateRow(
            shared.series[i],
            plot_label(data, shared.series[i]),
            float(ranking.ranks[i]),
            float(ranking.ranks[i]) - reach,
            float(ranking.ranks[i]) + reach,
            f"{ranking.ranks[i]:.2f}",
        )
        for i in order[:MAX_ROWS]
    ]
    places = [tuple(order.index(i) for i in (group[0], group[-1])) for group in ranking.groups]
    groups = [(first, min(last, MAX_ROWS - 1)) for first, last in places if first < MAX_ROWS - 1]
    svg = intervals(
        rows, xlabel="average rank (1 is the best)", prefix=f"rank{b}s{shared.series[0]}", groups=groups
    )
    return {
        "bed": data.beds[b].name,
        "svg": svg,
        "blocks": ranking.blocks,
        "kind": kind,
        "difference": ranking.difference,
        "p": ranking.p,
        "chi": ranking.chi_square,
        "left_out": max(0, len(order) - MAX_ROWS),
    }


def source_ranks(data: ReportData, ranked: dict[int, Shared]) -> dict[str, Any]:
    """Meta-Dataset ranks of the series on every source (a dataset of a testbed), and their averages.

    The average is over all sources, for series that have them all.
    """
    from longshot.statistics import meta_dataset_ranks

    sources, columns = [], []
    for b, bed_tasks in ranked.items():
        names = np.asarray(bed_tasks.datasets, str)
        for name in dict.fromkeys(bed_tasks.datasets):
            rows = bed_tasks.accuracy[names == name]
            if len(rows) < 2:
                continue
            means, lows, highs = np.array([interval(values) for values in rows.T]).T
            sources.append((data.beds[b].name, name if len(set(bed_tasks.datasets)) > 1 else ""))
            columns.append(
                dict(zip(bed_tasks.series, meta_dataset_ranks(means, (highs - lows) / 2), strict=True))
            )
    lines = []
    for s in sorted({s for column in columns for s in column}):
        places = [float(column[s]) if s in column else math.nan for column in columns]
        lines.append((s, data.series[s], places, float(np.mean(places))))
    lines.sort(key=lambda line: (math.isnan(line[3]), line[3]))
    return {"sources": sources, "lines": lines}

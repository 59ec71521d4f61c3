"""From one testbed to another: how much accuracy is lost, and what part of it a better method could win back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.reports.charts import EstimateRow, intervals
from longshot.reports.data import ReportData
from longshot.reports.sections.base import MAX_ROWS, Request, Section, plot_label, points, uniform

if TYPE_CHECKING:
    from longshot.statistics import Drop


def drop(request: Request) -> Section | None:
    """The drop from the uniform testbed (or the first) to each other; intrinsic and modelling difficulty."""
    data = request.data
    start = reference(data)
    panels = []
    for b in range(len(data.beds)):
        if b != start and (lines := bed_drops(data, start, b)):
            panels.append(_panel(request, start, b, lines))
    datasets = _difficulty(data)
    if not panels:  # what a single testbed leaves unsolved is in the table of results already
        return None
    return Section(
        "drop",
        "From testbed to testbed",
        {"panels": panels, "datasets": datasets, "start": data.beds[start].name},
    )


def reference(data: ReportData) -> int:
    """The testbed that drops are counted from: the first uniform one, else the first."""
    return next((b for b, bed in enumerate(data.beds) if uniform(bed)), 0)


def bed_drops(data: ReportData, a: int, b: int) -> list[tuple[int, list[Drop]]]:
    """The drops of every series that both testbeds have: by dataset, overall last.

    Paired when all tasks ask the same queries; the copies of the testbeds in the run tell.
    """
    from longshot.evaluation import shared_queries
    from longshot.statistics import drops

    beds = [data.beds[i].testbed for i in (a, b)]
    paired = False
    if len(beds[0]) == len(beds[1]):
        paired = bool(shared_queries(beds[0], beds[1]).all())
    by_series = []
    for s in range(len(data.series)):
        before, after = data.cells.get((a, s)), data.cells.get((b, s))
        if before is None or after is None or not set(before.datasets) & set(after.datasets):
            continue
        rows = [np.arange(len(cell.tasks)) for cell in (before, after)]
        if paired:
            _, rows[0], rows[1] = np.intersect1d(before.tasks, after.tasks, return_indices=True)
            if not len(rows[0]):
                continue
        names = [[cell.datasets[i] for i in row] for cell, row in zip((before, after), rows, strict=True)]
        by_series.append((s, drops(before.accuracy[rows[0]], after.accuracy[rows[1]], *names, paired=paired)))
    return by_series


def _panel(request: Request, a: int, b: int, lines: list[tuple[int, list[Drop]]]) -> dict[str, Any]:
    data = request.data
    rows = []
    for s, series_drops in sorted(lines, key=lambda line: line[1][-1].drop.mean)[:MAX_ROWS]:
        overall = series_drops[-1]
        low, high = overall.drop.low, overall.drop.high
        note = f"{100 * overall.mean_a:.1f} → {100 * overall.mean_b:.1f}: {points(-overall.drop.mean)}"
        rows.append(
            EstimateRow(
                s,
                plot_label(data, s),
                -100 * overall.drop.mean,
                None if high is None else -100 * high,
                None if low is None else -100 * low,
                note,
            )
        )
    shapes = [
        tuple(np.unique(np.concatenate([getattr(cell, name) for _, cell in data.column(i)])).tolist())
        for i in (a, b)
        for name in ("way", "shot")
    ]
    several = any(len(series_drops) > 2 for _, series_drops in lines)
    return {
        "bed": data.beds[b].name,
        "svg": intervals(rows, xlabel="change of accuracy (points)", prefix=f"drop{b}", zero=True),
        "paired": lines[0][1][-1].paired,
        "other_shape": shapes[:2] != shapes[2:],
        "left_out": max(0, len(lines) - MAX_ROWS),
        "lines": [
            (s, data.series[s], part_drop)
            for s, series_drops in lines
            for part_drop in (series_drops if several else series_drops[-1:])
        ],
    }


def _difficulty(data: ReportData) -> list[dict[str, Any]]:
    """Intrinsic and modelling difficulty of every dataset of every testbed with at least two series."""
    from longshot.statistics import dataset_difficulty

    lines = []
    for b, bed in enumerate(data.beds):
        shared = data.shared(b)
        if len(shared.series) < 2 or len(shared.tasks) < 2:
            continue
        for part in dataset_difficulty(shared.accuracy, shared.datasets):
            best, worst = shared.series[part.best], shared.series[part.worst]
            lines.append(
                {
                    "bed": bed.name,
                    "dataset": part.dataset,
                    "intrinsic": part.intrinsic,
                    "modelling": part.modelling,
                    "best": (best, data.series[best]),
                    "worst": (worst, data.series[worst]),
                }
            )
    return lines

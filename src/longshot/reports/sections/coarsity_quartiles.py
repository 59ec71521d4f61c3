"""The table of accuracies by quartile of coarsity, as the semantic-sampling paper cuts its testbeds."""

from __future__ import annotations

from functools import partial

import numpy as np

from longshot.reports.report_data import ReportData
from longshot.reports.summary import Estimates
from longshot.reports.tables import Column, Sheet, SheetCell, make_sheet, series_cell
from longshot.statistics import percent, plus_minus, quantile_bins

FEWEST = 8  # tasks, two in each quartile
NAMES = ("1st quartile", "2nd quartile", "3rd quartile", "4th quartile")


def quartile_sheet(data: ReportData, entries: Estimates, bed: int) -> Sheet | None:
    """Build the table of one testbed, inductive series first; None without the coarsity of enough tasks.

    Quartiles are of the tasks that all series have; first places are told within each.
    """
    shared, name = data.shared(bed), data.beds[bed].name
    first = data.cells[bed, shared.series[0]]
    if first.coarsity is None or len(shared.tasks) < FEWEST:
        return None
    coarsity = first.coarsity[np.searchsorted(first.tasks, shared.tasks)]
    if not np.isfinite(coarsity).all() or np.ptp(coarsity) == 0:
        return None
    bins = quantile_bins(coarsity)
    parts = [shared.accuracy[bins == quarter] for quarter in range(4)]
    placed = [data.placed(bed, shared.series, part) for part in parts]
    ranges = [(float(coarsity[bins == q].min()), float(coarsity[bins == q].max())) for q in range(4)]

    def whole(row: int) -> SheetCell:
        entry = entries[bed, shared.series[row]]
        text = plus_minus(entry.mean, entry.half)
        leads = (name, data.series[shared.series[row]], None, None)
        return SheetCell(text, entry.mark, entry.mean, entry.accuracy.half, leads=leads)

    def mean(quarter: int, row: int) -> SheetCell:
        value = float(parts[quarter][:, row].mean())
        leads = (name, data.series[shared.series[row]], None, ranges[quarter])
        return SheetCell(percent(value), placed[quarter][row].mark, value, leads=leads)

    columns = [
        Column("Series", lambda row: series_cell(shared.series[row], data.series[shared.series[row]])),
        Column("Whole testbed", whole, "percent", better="higher"),
        *(
            Column(f"{head} {low:.1f}–{high:.1f}", partial(mean, quarter), "percent", better="higher")
            for quarter, (head, (low, high)) in enumerate(zip(NAMES, ranges, strict=True))
        ),
    ]
    rows = sorted(range(len(shared.series)), key=lambda row: data.series[shared.series[row]].transductive)
    label = "Table of accuracies by quartile of coarsity"
    return make_sheet(columns, rows, style="metrics quartiles", aria=label)

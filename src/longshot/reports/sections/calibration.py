"""Whether methods are right as often as they say: reliability plots and the expected calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np

from longshot.reports.charts import Curve, reliability
from longshot.reports.data import Cell, ReportTestbed
from longshot.reports.sections.base import MAX_LINES, Request, Section, plot_label, strongest

FEWEST = 20  # queries in a bin for it to be drawn


def calibrated(request: Request) -> Section:
    """A panel per testbed with saved scores, or a line on how to get them."""
    data, panels, lines = request.data, [], []
    shown: set[int] = set()
    for b, bed in enumerate(data.beds):
        column, left_out = strongest(request, b, MAX_LINES)
        measured = [(s, calibration) for s, cell in column if (calibration := measure(bed, cell)) is not None]
        curves = []
        for s, calibration in measured:
            filled = calibration.counts >= FEWEST
            if filled.any():
                shares = (calibration.confidence[filled], calibration.accuracy[filled])
                curves.append(Curve(s, plot_label(data, s), *shares))
            lines.append((bed.name, s, data.series[s], calibration))
        if curves:
            panels.append(
                {
                    "bed": bed.name,
                    "svg": reliability(curves, prefix=f"cal{b}"),
                    "left_out": left_out,
                }
            )
            shown.update(curve.index for curve in curves)
    legend = [(s, data.series[s]) for s in sorted(shown)]
    return Section(
        "calibrated",
        "Calibration",
        {"panels": panels, "lines": lines, "legend": legend, "fewest": FEWEST, "limit": MAX_LINES},
    )


def measure(bed: ReportTestbed, cell: Cell) -> Any:
    """The calibration of one series, or None without its scores."""
    from longshot.evaluation import measure_confidences
    from longshot.statistics import calibration

    if cell.scores is None:
        return None
    try:
        sure, right = measure_confidences(bed.testbed, cell.tasks, cell.scores)
    except ValueError:  # predictions of other tasks; the section of pictures says so
        return None
    return calibration(np.minimum(sure, 1.0), right)

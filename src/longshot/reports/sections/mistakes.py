"""How methods err: whether they are right as often as they say, and which classes they take for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import UserError
from longshot.reports.charts import Curve, reliability
from longshot.reports.frame import Section
from longshot.reports.pictures import class_names, thumbnail
from longshot.reports.report_data import Cell, ReportTestbed
from longshot.reports.sections import MAX_LINES, Request, plot_label, shown_series, strongest
from longshot.reports.tables import Column, make_sheet, series_cell

if TYPE_CHECKING:
    from longshot.statistics import ConfusedPair, Confusion


FEWEST = 20  # queries in a bin for it to be drawn


def calibrated(request: Request) -> Section:
    """Show a panel per testbed with saved scores, or a line on how to get them."""
    data, panels, lines = request.data, [], []
    shown: set[int] = set()
    for b, bed in enumerate(data.beds):
        column, left_out = strongest(request, b, MAX_LINES)
        measured = [
            (s, calibration)
            for s, cell in column
            if (calibration := measure_calibration(bed, cell)) is not None
        ]
        curves = []
        for s, calibration in measured:
            filled = calibration.counts >= FEWEST
            if filled.any():
                shares = (calibration.confidence[filled], calibration.accuracy[filled])
                curves.append(Curve(s, plot_label(data, s), *shares))
            lines.append((bed.name, s, data.series[s], calibration))
        if curves:
            svg = reliability(curves, prefix=f"cal{b}")
            panels.append({"bed": bed.name, "svg": svg, "left_out": left_out})
            shown.update(curve.index for curve in curves)
    legend = [(s, data.series[s]) for s in sorted(shown)]
    sheet = make_sheet(CALIBRATION, lines, aria="Table of calibration errors")
    context = {"panels": panels, "lines": lines, "legend": legend, "fewest": FEWEST, "limit": MAX_LINES}
    return Section("calibrated", "Calibration", {**context, "sheet": sheet})


CALIBRATION = (
    Column("Testbed", lambda line: line[0]),
    Column("Series", lambda line: series_cell(line[1], line[2])),
    Column("ECE (points)", lambda line: line[3].ece, "percent", better="lower"),
    Column("Confidence − right", lambda line: line[3].gap, "points"),
    Column("Largest gap", lambda line: line[3].mce, "percent", better="lower"),
    Column("Brier", lambda line: line[3].brier, "plain", 3, "lower"),
    Column("Queries", lambda line: line[3].n, "count"),
)


def measure_calibration(bed: ReportTestbed, cell: Cell) -> Any:
    """Measure the calibration of one series; None without its scores."""
    from longshot.evaluation import measure_confidences
    from longshot.statistics import calibration

    if cell.scores is None:
        return None
    try:
        sure, right = measure_confidences(bed.testbed, cell.tasks, cell.scores)
    except ValueError:  # predictions of other tasks; the section of pictures says so
        return None
    return calibration(np.minimum(sure, 1.0), right)


TOP_CLASSES = 12  # of the heat map
TOP_PAIRS = 4
SHOTS = 4  # pictures of each direction


def confused(request: Request) -> Section | None:
    """Show the confusions of the best series (or the one in focus) on every testbed whose copy is at hand."""
    data, panels = request.data, []
    for b, bed in enumerate(data.beds):
        series = shown_series(request, b)
        if series is None:
            continue
        panel = _panel(request, bed, data.cells[b, series])
        if panel is not None:
            panels.append({**panel, "bed": bed.name, "index": series, "series": data.series[series]})
    return Section("confused", "Confusions", {"panels": panels}) if panels else None


def _panel(request: Request, bed: ReportTestbed, cell: Cell) -> dict[str, Any] | None:
    from longshot.evaluation import count_confusions
    from longshot.statistics import most_confused

    if cell.predictions is None:
        return None
    try:
        confusion = count_confusions(bed.testbed, cell.tasks, cell.predictions)
    except ValueError:  # predictions of other tasks; the section of pictures says so
        return None
    pairs = most_confused(confusion, TOP_PAIRS)
    if not pairs:
        return {"heads": [], "rows": [], "pairs": [], "classes": len(confusion.classes), "problem": ""}
    own = {c: label for named in bed.testbed.labels.values() for c, label in named.items()}
    names = dict(
        zip(confusion.classes, class_names([name for _, name in confusion.classes], own), strict=True)
    )
    several = len({dataset for dataset, _ in confusion.classes}) > 1
    labels = {class_key: f"{class_key[0]}: {name}" if several else name for class_key, name in names.items()}
    shown, problem = [], ""
    for pair in pairs:
        directions = []
        if request.images is not None and request.pictures and not problem:
            try:
                directions = _pictures(request, bed, cell, pair)
            except UserError as error:
                problem = str(error)
        shown.append(
            {
                "pair": pair,
                "one": labels[pair.dataset, pair.first],
                "other": labels[pair.dataset, pair.second],
                "directions": directions,
            }
        )
    position = {class_key: number for number, class_key in enumerate(confusion.classes)}
    paired = [position[pair.dataset, name] for pair in pairs for name in (pair.first, pair.second)]
    top = top_classes(confusion, first=paired)
    everywhere = _all_met(confusion)
    elsewhere = [1 - sum(confusion.rate(i, j) for j in top) for i in top] if everywhere else []
    return {
        "heads": [labels[confusion.classes[i]] for i in top],
        "rows": [(labels[confusion.classes[i]], [_square(confusion, i, j) for j in top]) for i in top],
        "elsewhere": [max(share, 0.0) for share in elsewhere],
        "pairs": shown,
        "classes": len(confusion.classes),
        "problem": problem,
    }


def _all_met(confusion: Confusion) -> bool:
    """Tell whether every task had every class, so that the shares of a row sum to one."""
    queries = confusion.chances.diagonal()
    met = confusion.chances
    return met.nnz == met.size**2 and bool((met.count == queries[met.rows]).all())


def top_classes(confusion: Confusion, count: int = TOP_CLASSES, first: Sequence[int] = ()) -> list[int]:
    """List the classes of ``first`` and those with the most mistakes of either direction, in the order of names."""
    counts = confusion.counts
    wrong = np.where(counts.rows == counts.columns, 0, counts.count)
    mistakes = np.zeros(counts.size, np.int64)
    np.add.at(mistakes, counts.rows, wrong)
    np.add.at(mistakes, counts.columns, wrong)
    order = dict.fromkeys([*first, *np.argsort(-mistakes, kind="stable").tolist()])
    return sorted(list(order)[:count])


def _square(confusion: Confusion, true: int, other: int) -> dict[str, Any]:
    """Describe one square of the heat map; ``rate`` is None for classes that never met in a task."""
    count, chances = confusion.counts[true, other], confusion.chances[true, other]
    return {
        "count": count,
        "chances": chances,
        "rate": count / chances if chances else None,
        "same": true == other,
    }


def _pictures(request: Request, bed: ReportTestbed, cell: Cell, pair: ConfusedPair) -> list[dict[str, Any]]:
    """Show queries of either class that were taken for the other."""
    from longshot.evaluation import find_mistakes

    assert request.images is not None
    directions = []
    for true, predicted in ((pair.first, pair.second), (pair.second, pair.first)):
        # The same image can be mistaken in many tasks: it is shown once.
        queries = find_mistakes(
            bed.testbed, cell.tasks, cell.predictions, pair.dataset, true, predicted, limit=10 * SHOTS
        )
        keys = list(dict.fromkeys(query.key for query in queries))[:SHOTS]
        if keys:
            sources = map(thumbnail, request.images(pair.dataset, keys))
            names = class_names([true, predicted], bed.testbed.labels.get(pair.dataset))
            directions.append(
                {"true": names[0], "predicted": names[1], "shots": list(zip(keys, sources, strict=True))}
            )
    return directions

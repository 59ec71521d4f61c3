"""Who is better and how surely: paired differences to the best, ranks, and whether there are enough tasks."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from longshot.reports.charts import EstimateRow, intervals
from longshot.reports.frame import Section
from longshot.reports.report_data import ReportData, ReportSeries, Shared
from longshot.reports.sections import MAX_ROWS, Request, plot_label
from longshot.reports.summary import CorrectedComparison, columns_by_setting, highest, interval
from longshot.reports.tables import Column, SheetCell, make_sheet, series_cell
from longshot.statistics import percent, plus_minus, points


class SeriesTest(NamedTuple):
    """A series against the best of its setting; ``turned`` where the stored test is the best against the series."""

    series: int
    tested: CorrectedComparison
    turned: bool


def differences(request: Request, bed: int) -> list[tuple[int, list[SeriesTest]]]:
    """Return for each setting the best series, and the tests of all others from the highest mean down."""
    by_setting = []
    for column in columns_by_setting(request.data, bed).values():
        best = highest(column)
        tests = []
        for s, _ in column:
            tested = request.pairs.get((bed, min(s, best), max(s, best)))
            if s != best and tested is not None:
                tests.append(SeriesTest(s, tested, s < best))
        by_setting.append((best, sorted(tests, key=lambda test: -request.entries[bed, test.series].mean)))
    return by_setting


def paired(request: Request) -> Section | None:
    """Compare each series with the best on the same tasks: difference, interval, wins, ties and losses."""
    data, panels = request.data, []
    tested_beds = [
        (b, bed, best, tests)
        for b, bed in enumerate(data.beds)
        for best, tests in differences(request, b)
        if tests
    ]
    for b, bed, best, tests in tested_beds:
        lines = [_line(request, *test) for test in tests]
        rows = []
        for line in lines[:MAX_ROWS]:
            label, (low, high) = plot_label(data, line["series"]), line["bounds"]
            rows.append(EstimateRow(line["series"], label, 100 * line["mean"], low, high, line["note"]))
        xlabel = "difference to the best of its setting (points)"
        svg = intervals(rows, xlabel=xlabel, prefix=f"paired{b}s{best}", zero=True)
        panels.append(
            {
                "bed": bed.name,
                "best": data.series[best],
                "index": best,
                "tasks": tests[0].tested.result.n,
                "svg": svg,
                "left_out": max(0, len(lines) - MAX_ROWS),
                "lines": lines,
                "ties": sum(line["tied"] for line in lines),
            }
        )
    if not panels:
        return None
    lines = [{**line, "bed": panel["bed"]} for panel in panels for line in panel["lines"]]
    sheet = make_sheet(PAIRED, lines, aria="Table of paired differences")
    context = {"panels": panels, "count": len(request.pairs), "sheet": sheet}
    return Section("paired", "Paired differences", context)


PAIRED = (
    Column("Testbed", lambda line: line["bed"]),
    Column("Series", lambda line: series_cell(line["series"], line["what"])),
    Column("Difference", lambda line: line["mean"], "points", 2),
    Column("95 % interval", lambda line: tuple(b and b / 100 for b in line["bounds"]), "points", 2),
    Column("Wins %", lambda line: line["wins"], "percent"),
    Column("Ties %", lambda line: line["ties"], "percent"),
    Column("Losses %", lambda line: line["losses"], "percent"),
    Column("p corr.", lambda line: line["p"], "p"),
    Column("Tasks", lambda line: line["n"], "count"),
    Column("Verdict", lambda line: "tie" if line["tied"] else "worse"),
)


def _line(request: Request, series: int, tested: CorrectedComparison, turned: bool) -> dict[str, Any]:
    """Describe one series against the best; the stored test may be the best against the series."""
    result, sign = tested.result, -1.0 if turned else 1.0
    low, high = result.difference.low, result.difference.high
    bounds = (
        (None, None) if low is None or high is None else tuple(sorted((100 * sign * low, 100 * sign * high)))
    )
    wins, losses = (result.losses, result.wins) if turned else (result.wins, result.losses)
    mean = sign * result.difference.mean
    shares = [f"{percent(share, 0)}" for share in (wins, result.ties, losses)]
    return {
        "series": series,
        "what": request.data.series[series],
        "mean": mean,
        "bounds": bounds,
        "wins": wins,
        "ties": result.ties,
        "losses": losses,
        "p": tested.p,
        "exact": result.exact,
        "tied": tested.tied,
        "n": result.n,
        "note": f"{points(mean)}{' tie' if tested.tied else ''} · {shares[0]}/{shares[1]}/{shares[2]}",
    }


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
            tables.append({"setting": setting, **_rank_sheet(source_ranks(data, ranked))})
    several = len({panel["setting"] for panel in panels}) > 1
    return (
        Section("ranks", "Ranks", {"panels": panels, "tables": tables, "several": several})
        if panels
        else None
    )


def _place(source: int, line: tuple[int, ReportSeries, list[float], float]) -> float:
    return line[2][source]


def _rank_sheet(ranks: dict[str, Any]) -> dict[str, Any]:
    """Add the table of Meta-Dataset ranks, of which lower ones are better."""
    columns = [
        Column("Series", lambda line: series_cell(line[0], line[1])),
        Column("Average", lambda line: line[3], "plain", 2, "lower"),
        *(
            Column(f"{bed}: {dataset}" if dataset else bed, partial(_place, i), "plain", 1, "lower")
            for i, (bed, dataset) in enumerate(ranks["sources"])
        ),
    ]
    return {**ranks, "sheet": make_sheet(columns, ranks["lines"], aria="Table of Meta-Dataset ranks")}


def _rankable(shared: Shared) -> bool:
    """Tell whether ranks are worth a plot: two tasks, and three series, or two over several datasets."""
    several_datasets = len(set(shared.datasets)) >= 2
    return len(shared.tasks) >= 2 and len(shared.series) >= (2 if several_datasets else 3)


def blocks(shared: Shared) -> tuple[str, Any]:
    """Return what series are ranked within: datasets when there are enough of them, else tasks; [N, M]."""
    names = np.asarray(shared.datasets, str)
    distinct = list(dict.fromkeys(shared.datasets))
    if len(distinct) < DATASET_BLOCKS:
        return "tasks", shared.accuracy
    return "datasets", np.stack([shared.accuracy[names == name].mean(axis=0) for name in distinct])


def _panel(data: ReportData, b: int, shared: Shared) -> dict[str, Any]:
    from longshot.statistics import block_ranks, critical_difference

    kind, scores = blocks(shared)
    ranking = critical_difference(scores)
    order = [int(i) for i in ranking.order]
    reach = ranking.difference / 2
    rows = []
    # Ranks within tasks are means over tasks that share classes; datasets share none.
    classes = data.beds[b].classes_of(shared.tasks) if kind == "tasks" else None
    in_tasks = block_ranks(scores)
    for i in order[:MAX_ROWS]:
        rank, label = float(ranking.ranks[i]), plot_label(data, shared.series[i])
        wider = None if classes is None else classes.interval(in_tasks[:, i]).half
        note = plus_minus(rank, None, "plain", 2, over_classes=wider)
        rows.append(EstimateRow(shared.series[i], label, rank, rank - reach, rank + reach, note))
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
    """Compute Meta-Dataset ranks of the series on every source (a dataset of a testbed), and their averages.

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


WANTED = 0.005  # half the width of the interval: half a point


def enough(request: Request) -> Section | None:
    """Show the tasks for an interval of ± 0.5 point, and the stability of the order under resampling."""
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
                lines.append(_needs(request, b, s, best, shared, first.get(s)))
    if not lines:
        return None
    sheet = make_sheet(ENOUGH, lines, aria="Table of tasks needed")
    return Section("enough", "Enough tasks?", {"lines": lines, "findings": findings, "sheet": sheet})


def _ticked(number: int | None, there: int) -> SheetCell | None:
    """Return a number of tasks, ticked where so many are there."""
    return None if number is None else SheetCell(f"{number:,}{' ✓' if number <= there else ''}", value=number)


ENOUGH = (
    Column("Testbed", lambda line: line["bed"]),
    Column("Series", lambda line: series_cell(line["index"], line["series"])),
    Column("Tasks", lambda line: line["n"], "count"),
    Column("± now", lambda line: line["half"], "percent", 2),
    Column("Tasks for ± 0.5", lambda line: _ticked(line["needed"], line["n"]), "count"),
    Column("… of the difference to the best", lambda line: _ticked(line["against"], line["n"]), "count"),
    Column("First in % of resamples", lambda line: line["first"], "percent"),
)


def _stability(shared: Shared) -> Any:
    from longshot.statistics import ranking_stability

    if len(shared.series) < 2 or len(shared.tasks) < 2:
        return None
    return ranking_stability(shared.accuracy)


def _needs(
    request: Request, b: int, s: int, best: int, shared: Shared, first: float | None
) -> dict[str, Any]:
    """Describe what the interval of one series needs, and what its difference to the best needs."""
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

"""Paired differences to the best series of each testbed."""

from __future__ import annotations

from typing import Any, NamedTuple

from longshot.reports.charts import EstimateRow, intervals
from longshot.reports.sections.base import MAX_ROWS, Request, Section, plot_label, points
from longshot.reports.summary import CorrectedComparison, columns_by_setting, highest


class SeriesTest(NamedTuple):
    """A series against the best of its setting; ``turned`` where the stored test is the best against the series."""

    series: int
    tested: CorrectedComparison
    turned: bool


def differences(request: Request, bed: int) -> list[tuple[int, list[SeriesTest]]]:
    """For each setting the best series, and the tests of all others from the highest mean down."""
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
    """Each series against the best on the same tasks: difference, interval, wins, ties and losses."""
    data, panels = request.data, []
    tested_beds = [
        (b, bed, best, tests)
        for b, bed in enumerate(data.beds)
        for best, tests in differences(request, b)
        if tests
    ]
    for b, bed, best, tests in tested_beds:
        lines = [_line(request, *test) for test in tests]
        rows = [
            EstimateRow(
                line["series"],
                plot_label(data, line["series"]),
                100 * line["mean"],
                line["bounds"][0],
                line["bounds"][1],
                line["note"],
            )
            for line in lines[:MAX_ROWS]
        ]
        svg = intervals(
            rows,
            xlabel="difference to the best of its setting (points)",
            prefix=f"paired{b}s{best}",
            zero=True,
        )
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
    count = len(request.pairs)
    return Section("paired", "Paired differences", {"panels": panels, "count": count}) if panels else None


def _line(request: Request, series: int, tested: CorrectedComparison, turned: bool) -> dict[str, Any]:
    """One series against the best; the stored test may be the best against the series."""
    result, sign = tested.result, -1.0 if turned else 1.0
    low, high = result.difference.low, result.difference.high
    bounds = (
        (None, None) if low is None or high is None else tuple(sorted((100 * sign * low, 100 * sign * high)))
    )
    wins, losses = (result.losses, result.wins) if turned else (result.wins, result.losses)
    mean = sign * result.difference.mean
    shares = [f"{100 * share:.0f}" for share in (wins, result.ties, losses)]
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

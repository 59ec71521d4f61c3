"""Accuracy and cost: what a task takes beside how well it goes."""

from __future__ import annotations

from longshot.reports.cost_plot import KINDS, Point, marker_of, scatter
from longshot.reports.costs import Cost, costs, machines
from longshot.reports.sections.base import MAX_ROWS, Request, Section, plot_label


def cost(request: Request) -> Section | None:
    """Accuracy against seconds per task, with the front; there when the times of a testbed were recorded.

    A plot holds the front and the highest means.
    """
    panels, kinds = [], set[str]()
    for b, bed in enumerate(request.data.beds):
        bed_costs = costs(request.data, request.entries, b)
        if not bed_costs:
            continue
        points = [
            _point(request, series_cost, number) for number, series_cost in enumerate(bed_costs, start=1)
        ]
        shown = sorted(points, key=lambda point: (not point.front, -point.mean))[:MAX_ROWS]
        kinds |= {point.kind for point in points}
        panels.append(
            {
                "bed": bed.name,
                "svg": scatter(sorted(shown, key=lambda point: point.number), prefix=f"cost{b}"),
                "left_out": len(points) - len(shown),
                "lines": [
                    (p, request.data.series[p.index], series_cost)
                    for p, series_cost in zip(points, bed_costs, strict=True)
                ],
            }
        )
    if not panels:
        return None
    context = {
        "panels": panels,
        "limit": MAX_ROWS,
        "kinds": [kind for kind in KINDS if kind in kinds],
        "marker": marker_of,
        "machines": machines(request.data),
    }
    return Section("cost", "Accuracy and cost", context)


def _point(request: Request, series_cost: Cost, number: int) -> Point:
    entry = series_cost.entry
    return Point(
        entry.series,
        number,
        plot_label(request.data, entry.series),
        request.data.series[entry.series].kind,
        series_cost.median,
        entry.mean,
        entry.low,
        entry.high,
        series_cost.front,
    )

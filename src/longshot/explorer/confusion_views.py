"""Who is taken for whom by a series: a heat map, and behind each square its queries in pictures."""

from __future__ import annotations

from functools import partial
from typing import Any

from longshot.explorer.class_views import (
    answered_bed,
    confused_pair,
    confusion_matrix,
    pair_url,
    series_links,
    shown_names,
)
from longshot.explorer.library import Item
from longshot.explorer.run_views import bed_links, run_frame
from longshot.explorer.site import Page, Site
from longshot.reports import Column, Section, make_sheet, top_classes
from longshot.statistics import most_confused


def confusion(site: Site, run: Item, query: Any) -> Page:
    """Show the heat map of a series, and behind each square its queries in pictures."""
    index, bed, series, item, cached = answered_bed(site, run, query)
    matrix = confusion_matrix(index, bed, series, cached)
    base = [("bed", bed.hash[:10]), ("series", bed.series[series].column)]
    labels = shown_names(cached, matrix.classes)

    def link(true: tuple[str, str], predicted: tuple[str, str]) -> str:
        return pair_url(run, base, true, predicted)

    top = top_classes(matrix)
    pairs = most_confused(matrix, 8)
    counts = [
        Column("True class", lambda i: labels[matrix.classes[i]]),
        *(
            Column(labels[matrix.classes[j]], partial(_count, matrix, j), "count", group="taken for")
            for j in top
        ),
    ]
    context = {
        "sheet": make_sheet(counts, top, aria="Confusions"),
        "heads": [labels[matrix.classes[i]] for i in top],
        "rows": [
            (
                labels[matrix.classes[i]],
                [
                    {
                        "count": int(matrix.counts[i, j]),
                        "chances": int(matrix.chances[i, j]),
                        "rate": int(matrix.counts[i, j]) / int(matrix.chances[i, j])
                        if matrix.chances[i, j]
                        else None,
                        "same": i == j,
                        "url": link(matrix.classes[i], matrix.classes[j]),
                    }
                    for j in top
                ],
            )
            for i in top
        ],
        "classes": len(matrix.classes),
        "pairs": [
            {
                "pair": pair,
                "first": labels[pair.dataset, pair.first],
                "second": labels[pair.dataset, pair.second],
                "forth": link((pair.dataset, pair.first), (pair.dataset, pair.second)),
                "back": link((pair.dataset, pair.second), (pair.dataset, pair.first)),
            }
            for pair in pairs
        ],
        "series": series_links(f"{run.url}/confusion", bed, series),
        "beds": bed_links(f"{run.url}/confusion", index, bed),
    }
    sections = []
    if query.get("true") and query.get("predicted"):
        sections.append(confused_pair(site, run, item, cached, index, bed, series, query))
    sections.append(Section("confusion", f"Confusions on {bed.name}", context, "confusion"))
    return run_frame(site, run, index, "confusion", sections)


def _count(matrix: Any, predicted: int, true: int) -> int:
    return int(matrix.counts[true, predicted])

"""Who is taken for whom: the heat map of a series, and behind each square its queries in pictures."""

from __future__ import annotations

from typing import Any

from longshot.explorer.answers import confused_queries, confusions
from longshot.explorer.gallery import SHOWN, query_gallery
from longshot.explorer.held import Held
from longshot.explorer.index import BedIndex
from longshot.explorer.library import Item
from longshot.explorer.listing import address, page_number
from longshot.explorer.pages.dataset import pager_of
from longshot.explorer.pages.run import bed_links, choose_bed, choose_series
from longshot.explorer.pages.run import frame as run_frame
from longshot.explorer.site import NotThere, Page, Site
from longshot.reports import Section, class_names, top_classes
from longshot.statistics import most_confused

_held = Held()


def confusion(site: Site, run: Item, query: Any) -> Page:
    """The heat map of a series, and behind each square its queries in pictures."""
    index = site.index(run)
    bed = choose_bed(index, query)
    series = choose_series(bed, str(query.get("series", "")))
    item = site.testbed_item(bed.hash)
    if item is None or bed.answers(series) is None:
        raise NotThere(
            bed.problem or "The testbed of these results is not at hand, so its queries cannot be shown."
        )
    shelved = site.testbed(item)
    testbed = shelved.testbed
    matrix = _held.get((index.stamp, bed.hash, series), lambda: confusions(testbed, bed, series))
    if matrix is None:
        raise NotThere("The answers of this series do not fit the testbed.")
    base = [("bed", bed.hash[:10]), ("series", bed.series[series].column)]
    own = {name: label for named in testbed.labels.values() for name, label in named.items()}
    shown = class_names([name for _, name in matrix.classes], own)
    several = len({dataset for dataset, _ in matrix.classes}) > 1
    labels = {
        key: f"{key[0]}: {name}" if several else name for key, name in zip(matrix.classes, shown, strict=True)
    }

    def link(true: tuple[str, str], predicted: tuple[str, str]) -> str:
        pairs = [*base, ("of", true[0]), ("true", true[1]), ("predicted", predicted[1])]
        return address(f"{run.url}/confusion", pairs)

    top = top_classes(matrix)
    pairs = most_confused(matrix, 8)
    context = {
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
        "series": [
            (
                each.label,
                address(f"{run.url}/confusion", [base[0], ("series", each.column)]),
                number == series,
            )
            for number, each in enumerate(bed.series)
        ],
        "beds": bed_links(f"{run.url}/confusion", index, bed),
    }
    sections = []
    true, predicted = str(query.get("true", "")), str(query.get("predicted", ""))
    if true and predicted:
        sections.append(_confused(run, item, shelved, bed, series, query, base, labels))
    sections.append(Section("confusion", f"Confusions on {bed.name}", context, "confusion"))
    return run_frame(site, run, index, "confusion", sections)


def _confused(
    run: Item,
    item: Item,
    shelved: Any,
    bed: BedIndex,
    series: int,
    query: Any,
    base: Any,
    labels: dict[tuple[str, str], str],
) -> Section:
    """The queries behind one square, in pictures."""
    true, predicted = str(query["true"]), str(query["predicted"])
    dataset = str(query.get("of", "")) or next((key[0] for key in labels if key[1] == true), "")
    flat = bed.answers(series)
    assert flat is not None
    pairs = confused_queries(shelved.testbed, flat, dataset, true, predicted)
    page = page_number(query, "shown")
    start = (page - 1) * SHOWN
    fixed = [*base, ("of", dataset), ("true", true), ("predicted", predicted)]

    def link(page: int) -> str:
        return address(f"{run.url}/confusion", [*fixed, ("shown", str(page))])

    names = [labels.get((dataset, name), name) for name in (true, predicted)]
    verb = "taken for" if true != predicted else "recognised as"
    context = {
        **query_gallery(item, shelved, pairs[start : start + SHOWN], [("run", run.id)]),
        **pager_of(link, page, start, len(pairs[start : start + SHOWN]), len(pairs), "queries"),
        "last": min(start + SHOWN, len(pairs)),
        "empty": "No query of this kind.",
    }
    return Section("queries", f"{names[0]}, {verb} {names[1]}", context, "gallery")

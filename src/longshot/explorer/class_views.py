"""Results class by class: all classes of a run, one with its images, who is taken for whom, and two side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from longshot.base import Floats, Ints, count
from longshot.evaluation import ClassScore, count_confusions, score_classes
from longshot.explorer.caches import CachedTestbed, LruCache
from longshot.explorer.compare_views import Candidate
from longshot.explorer.dataset_views import page_of, pager_of
from longshot.explorer.library import Item
from longshot.explorer.listing import address, page_number
from longshot.explorer.query_answers import confused_queries, task_similarity
from longshot.explorer.run_index import BedIndex, RunIndex
from longshot.explorer.run_views import bed_links, choose_bed, choose_series, run_frame
from longshot.explorer.site import NotThere, Page, Site, breakable
from longshot.explorer.sprites import SHOWN, query_gallery
from longshot.explorer.svg_plots import Dot, dot_plot
from longshot.explorer.task_rows import numbered
from longshot.explorer.testbed_views import dataset_links
from longshot.reports import Column, Section, Sheet, SheetCell, class_names, make_sheet, top_classes
from longshot.statistics import Confusion, most_confused, percent, points

_PICTURED = Markup(
    '<span class="named"><a class="tile" href="{1}" style="{0}" tabindex="-1" aria-hidden="true"></a>'
    '<a href="{1}">{2}</a></span>'
)
LINK = Markup('<a href="{}">{}</a>')
_ROWS = 40  # classes of a page
_HARDEST = 12  # tasks of a class that are named
_MISTAKES = 12  # queries of a pair on a page
_scored, _judged = LruCache(8), LruCache(4)
_matrices = LruCache(2)  # of 1,000 classes each is up to 32 MB


def answered_bed(site: Site, run: Item, query: Any) -> tuple[RunIndex, BedIndex, int, Item, CachedTestbed]:
    """Return index, testbed, place of the series and tasks that an address names; NotThere without answers."""
    index = site.index(run)
    bed = choose_bed(index, query)
    if not query.get("bed"):  # the first that has something to show
        bed = next((each for each in index.beds() if each.answered()), bed)
    named, answered = str(query.get("series", "")), bed.answered()
    series = choose_series(bed, named) if named or not answered else max(answered, key=bed.mean)
    item = site.testbed_item(bed.hash)
    if item is None or series not in answered:
        raise NotThere(
            bed.problem or "The testbed of these results is not at hand, so its queries cannot be shown."
        )
    return index, bed, series, item, site.testbed(item)


def class_scores(index: RunIndex, bed: BedIndex, series: int, cached: CachedTestbed) -> list[ClassScore]:
    """Return the score of every class, the worst first, as ``compare`` and ``report`` have them."""

    def make() -> list[ClassScore]:
        tasks = bed.finished(series)
        return score_classes(cached.testbed, tasks, bed.answer_lists(series, tasks))

    return _scored.get((index.stamp, bed.hash, series), make)


def confusion_matrix(index: RunIndex, bed: BedIndex, series: int, cached: CachedTestbed) -> Confusion:
    """Return who was taken for whom by a series."""

    def make() -> Confusion:
        tasks = bed.finished(series)
        return count_confusions(cached.testbed, tasks, bed.answer_lists(series, tasks))

    return _matrices.get((index.stamp, bed.hash, series), make)


def shown_names(cached: CachedTestbed, classes: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the names of (dataset, class id) for pages; with their dataset where there are several."""
    own = {name: label for named in cached.testbed.labels.values() for name, label in named.items()}
    shown = class_names([name for _, name in classes], own)
    several = len({dataset for dataset, _ in classes}) > 1
    return {key: f"{key[0]}: {name}" if several else name for key, name in zip(classes, shown, strict=True)}


def run_classes(site: Site, run: Item, query: Any) -> Page:
    """Show every class of a testbed with its accuracy and the class it is most taken for, the worst first."""
    index, bed, series, item, cached = answered_bed(site, run, query)
    scores = class_scores(index, bed, series, cached)
    base = [("bed", bed.hash[:10]), ("series", bed.series[series].column)]
    names = shown_names(cached, [(score.dataset, score.class_id) for score in scores])
    page, start = page_of(query, len(scores), _ROWS)
    shown = scores[start : start + _ROWS]
    examples = _examples(cached, shown)
    gallery = query_gallery(item, cached, examples, [("run", run.id)])
    tiles = {(s.dataset, s.class_id): tile for s, tile in zip(shown, gallery["tiles"], strict=True)}

    def name(score: ClassScore) -> SheetCell:
        key = (score.dataset, score.class_id)
        html = _PICTURED.format(tiles[key]["style"], class_url(run, base, key), breakable(names[key]))
        return SheetCell(names[key], value=score.class_id, html=html)

    def rival(score: ClassScore) -> SheetCell:
        if not score.taken_for:
            return SheetCell("–")
        key = (score.dataset, score.taken_for)
        url = pair_url(run, base, (score.dataset, score.class_id), key)
        name = names.get(key, score.taken_for)
        return SheetCell(name, html=LINK.format(url, breakable(name)))

    def url(score: ClassScore) -> str:
        return class_url(run, base, (score.dataset, score.class_id))

    columns = (Column("Class", name, key="class"), *_score_columns(lambda score: score, url, rival))
    dots = [
        Dot(
            names[score.dataset, score.class_id],
            score.accuracy.mean,
            score.accuracy.low,
            score.accuracy.high,
            url(score),
        )
        for score in shown
    ]

    def link(**changes: Any) -> str:
        return address(f"{run.url}/classes", [*base, *((key, str(value)) for key, value in changes.items())])

    context = {
        "beds": bed_links(f"{run.url}/classes", index, bed),
        "series": series_links(f"{run.url}/classes", bed, series),
        "sheet": make_sheet(columns, shown, style="results pictured-classes", aria="Classes"),
        "sprite": gallery["sprite"],
        "svg": dot_plot(dots, "accuracy") if len(dots) > 1 else "",
        **pager_of(link, page, start, len(shown), len(scores), "classes"),
    }
    section = Section("classes", f"Classes of {bed.name}, the worst first", context, "run_classes")
    return run_frame(site, run, index, "classes", [section])


def _score_columns(
    of: Callable[[Any], ClassScore], url: Callable[[ClassScore], str], rival: Callable[[ClassScore], Any]
) -> tuple[Column, ...]:
    """Return the columns of a class's score; ``of`` finds it in a row."""

    def share(row: Any) -> SheetCell:
        own = of(row).accuracy  # above its interval, which is lopsided near 0 and 100
        ends = [percent(end) for end in (own.low, own.high) if end is not None]
        return SheetCell(percent(own.mean), value=own.mean, below=" … ".join(ends), link=url(of(row)))

    return (
        Column("Accuracy %", share, "percent", key="accuracy"),
        Column("", lambda row: (of(row).accuracy.low, of(row).accuracy.high), key=("low", "high")),
        Column("Most taken for", lambda row: rival(of(row)), key="taken_for"),
        Column("Of these %", lambda row: of(row).taken_share, "percent", key="taken_share"),
        Column("Tasks", lambda row: of(row).tasks, "count", key="tasks"),
        Column("Queries", lambda row: of(row).queries, "count", key="queries"),
    )


def series_links(
    path: str, bed: BedIndex, series: int, more: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, str, bool]]:
    """List the series of a testbed as choices of a page: label, address, whether it is the one shown."""
    return [
        (
            each.label,
            address(path, [("bed", bed.hash[:10]), ("series", each.column), *more]),
            number == series,
        )
        for number, each in enumerate(bed.series)
    ]


def class_url(run: Item, base: Sequence[tuple[str, str]], key: tuple[str, str]) -> str:
    """Return the address of the page of a class (dataset, id)."""
    return address(f"{run.url}/class", [*base, ("of", key[0]), ("class", key[1])])


def pair_url(
    run: Item, base: Sequence[tuple[str, str]], true: tuple[str, str], predicted: tuple[str, str]
) -> str:
    """Return the address of the queries of a class that were given to another."""
    pairs = [*base, ("of", true[0]), ("true", true[1]), ("predicted", predicted[1])]
    return address(f"{run.url}/confusion", pairs)


def _examples(cached: CachedTestbed, scores: Sequence[ClassScore]) -> list[tuple[int, int]]:
    """Return (task, place) of one query of each class."""
    queries = _queries(cached)
    firsts = {}
    for number in np.unique(queries.true, return_index=True)[1]:
        firsts[queries.names[int(queries.true[number])]] = (
            int(queries.task[number]),
            int(queries.place[number]),
        )
    return [firsts[score.dataset, score.class_id] for score in scores]


class _Queries:
    """All queries of a testbed, one after the other: class number, task, place in it."""

    def __init__(self, cached: CachedTestbed) -> None:
        labels = cached.testbed.column("query_label")
        numbers, names = numbered(cached)
        self.names = names
        self.task: Ints = labels.owners
        self.true: Ints = numbers.values[np.repeat(numbers.offsets[:-1], labels.lengths) + labels.values]
        self.place: Ints = np.arange(len(labels.values)) - np.repeat(labels.offsets[:-1], labels.lengths)
        self.image: Ints = cached.testbed.column("query").values
        self.label: Ints = labels.values


_listed = LruCache(2)


def _queries(cached: CachedTestbed) -> _Queries:
    return _listed.get(cached.testbed.content_hash, lambda: _Queries(cached))


def class_page(site: Site, run: Item, query: Any) -> Page:
    """Show a class: its accuracy by every series, what it is confused with, its images, suspects and tasks."""
    index, bed, series, item, cached = answered_bed(site, run, query)
    queries = _queries(cached)
    key = (str(query.get("of", "")), str(query.get("class", "")))
    key = next((each for each in queries.names if each[1] == key[1] and key[0] in ("", each[0])), key)
    if key not in queries.names:
        raise NotThere(f"The testbed {bed.name} has no class '{key[1][:80]}'.")
    base = [("bed", bed.hash[:10]), ("series", bed.series[series].column)]
    names = shown_names(cached, queries.names)
    chosen = [("of", key[0]), ("class", key[1])]
    rows = [
        (bed.series[number], score)
        for number in range(min(len(bed.series), 8))
        if bed.answers(number) is not None
        for score in class_scores(index, bed, number, cached)
        if (score.dataset, score.class_id) == key
    ]
    scores = make_sheet(
        (
            Column("Series", lambda row: SheetCell(row[0].label, look="code"), key="series"),
            *_score_columns(
                lambda row: row[1], lambda _: "", lambda score: names.get((key[0], score.taken_for), "–")
            ),
        ),
        rows,
        style="results scores-of",
        aria="Accuracy of the class",
    )
    matrix = confusion_matrix(index, bed, series, cached)
    own = np.flatnonzero(queries.true == queries.names.index(key))
    facts = {
        "beds": bed_links(f"{run.url}/classes", index, bed),
        "series": series_links(f"{run.url}/class", bed, series, chosen),
        "scores": scores,
        "confused": _confused_with(run, base, matrix, key, names),
        "tasks": _hardest(run, item, bed, series, queries, own),
        "all_tasks": address(f"{run.url}/tasks", [("bed", bed.hash[:10]), ("class", key[1])]),
        "number": count(len(np.unique(queries.task[own])), "task"),
        "dataset": next(
            (url for name, _, url in dataset_links(site, cached.testbed.datasets) if name == key[0]), None
        ),
        "class_id": key[1],
    }
    sections = [
        Section("class", f"{names[key]}: accuracy and confusions", facts, "class_page"),
        Section(
            "images",
            "Its images, the worst first",
            _images(run, item, bed, series, cached, own, query, [*base, *chosen]),
            "gallery",
        ),
    ]
    page = run_frame(site, run, index, "class", sections)
    page.title, page.crumbs = (
        names[key],
        [*page.crumbs, (run.name, run.url), ("classes", address(f"{run.url}/classes", base))],
    )
    return page


def _confused_with(
    run: Item,
    base: list[tuple[str, str]],
    matrix: Any,
    key: tuple[str, str],
    names: dict[tuple[str, str], str],
) -> Sheet | None:
    """Return the classes that a class was taken for, or that were taken for it, the most mistakes first."""
    own, counts = matrix.classes.index(key), matrix.counts
    met = [n for n in range(len(matrix.classes)) if n != own and (counts[own, n] or counts[n, own])]
    met.sort(key=lambda n: -int(counts[own, n]) - int(counts[n, own]))

    def mistakes(true: int, other: int) -> SheetCell:
        number = int(counts[true, other])
        url = pair_url(run, base, matrix.classes[true], matrix.classes[other])
        return SheetCell(f"{number:,} of {int(matrix.chances[true, other]):,}", value=number, link=url)

    def name(n: int) -> SheetCell:
        each = matrix.classes[n]
        return SheetCell(names[each], html=LINK.format(class_url(run, base, each), breakable(names[each])))

    columns = (
        Column("Class", name),
        Column("It was taken for that", lambda n: mistakes(own, n), "count"),
        Column("That was taken for it", lambda n: mistakes(n, own), "count"),
    )
    return make_sheet(columns, met[:12], style="results scores-of", aria="Confused with") if met else None


def _hardest(
    run: Item, item: Item, bed: BedIndex, series: int, queries: _Queries, own: Ints
) -> list[tuple[str, str]]:
    """Return the tasks in which the class fares worst: number and share, address."""
    flat = bed.answers(series)
    assert flat is not None
    right = (np.asarray(flat[own]) == queries.label[own]).astype(np.float64)
    tasks, position = np.unique(queries.task[own], return_inverse=True)
    shares = np.bincount(position, right) / np.bincount(position)
    worst = np.argsort(shares, kind="stable")[:_HARDEST]
    return [
        (
            f"task {tasks[n]:,}: {percent(shares[n], 0)} %",
            address(f"{item.url}/task/{tasks[n]}", [("run", run.id)]),
        )
        for n in worst
    ]


def _images(
    run: Item,
    item: Item,
    bed: BedIndex,
    series: int,
    cached: CachedTestbed,
    own: Ints,
    query: Any,
    fixed: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Arrange the images of a class by how rarely they were right as queries; margins where scores were kept."""
    flat, queries = bed.answers(series), _queries(cached)
    assert flat is not None
    right = (np.asarray(flat[own]) == queries.label[own]).astype(np.float64)
    margin = _margins(run, bed, series, cached, own, queries)
    images, first, position, times = np.unique(
        queries.image[own], return_index=True, return_inverse=True, return_counts=True
    )
    shares = np.bincount(position, right) / times
    means = shares if margin is None else np.bincount(position, margin) / times
    worst = np.lexsort([images, means])
    page, start = page_of({"page": query.get("shown", "1")}, len(images), SHOWN)
    chosen = worst[start : start + SHOWN]
    at = own[first[chosen]]
    pairs = [(int(queries.task[n]), int(queries.place[n])) for n in at]
    gallery = query_gallery(item, cached, pairs, [("run", run.id)])
    for tile, n in zip(gallery["tiles"], chosen, strict=True):
        tile["name"] = f"right {round(float(shares[n] * times[n]))} of {times[n]}"
        tile["caption"] = "" if margin is None else f"margin {points(means[n], 0)}"

    def link(**changes: Any) -> str:
        return address(f"{run.url}/class", [*fixed, ("shown", str(changes["page"]))])

    note = (
        "The margin is the share of the right class minus the highest other, in points, over its tasks."
        if margin is not None
        else "Scores were not kept, so images stand by how often they were right."
    )
    return {**gallery, **pager_of(link, page, start, len(chosen), len(images), "images"), "note": note}


def _margins(
    run: Item, bed: BedIndex, series: int, cached: CachedTestbed, own: Ints, queries: _Queries
) -> Floats | None:
    """Return the margin of some queries, as shares of a softmax; None where scores were not kept."""
    from longshot.explorer.run_index import read_all_scores
    from longshot.explorer.task_views import shares

    held = _judged.get(
        (run.path, bed.hash, series, run.changed), lambda: read_all_scores(run.path, bed.units[series])
    )
    if not held:
        return None
    ways = cached.testbed.table["way"].to_numpy()
    margins = np.full(len(own), np.nan)
    for n, (task, at, label) in enumerate(
        zip(queries.task[own], queries.place[own], queries.label[own], strict=True)
    ):
        scores = held.get(int(task))
        way = int(ways[task])
        if scores is None or len(scores) < (at + 1) * way:
            return None
        part = shares(np.asarray(scores[at * way : (at + 1) * way], np.float64))
        margins[n] = part[label] - np.delete(part, label).max(initial=0.0)
    return margins


def confused_pair(
    site: Site,
    run: Item,
    item: Item,
    cached: CachedTestbed,
    index: RunIndex,
    bed: BedIndex,
    series: int,
    query: Any,
) -> Section:
    """Show the queries of a class that were given to another, each with the supports that lie nearest to it."""
    base = [("bed", bed.hash[:10]), ("series", bed.series[series].column)]
    true, predicted = str(query["true"]), str(query["predicted"])
    listed = _queries(cached).names
    dataset = str(query.get("of", "")) or next((key[0] for key in listed if key[1] == true), "")
    flat = bed.answers(series)
    assert flat is not None
    mistaken = confused_queries(cached.testbed, flat, dataset, true, predicted)
    page = page_number(query, "shown")
    start = (page - 1) * _MISTAKES
    shown = mistaken[start : start + _MISTAKES]
    lead = Candidate(run, bed, series)
    cells: list[tuple[int, int | str]] = []
    rows = []
    for number, at in shown:
        task = cached.testbed[number]
        measured = task_similarity(site, cached, task, [lead])
        labels = np.asarray(task.support_label)
        nearest = []
        for class_id in dict.fromkeys((predicted, true)):
            own = np.flatnonzero(labels == task.classes.index(class_id))
            if measured is not None:
                own = own[np.argsort(-measured[0][at][own], kind="stable")]
            likeness = None if measured is None or not len(own) else float(measured[0][at][own[0]])
            nearest.append((class_id, [int(n) for n in own[:3]], likeness))
        rows.append((number, at, nearest))
        cells += [(number, at), *((number, f"s{n}") for _, group, _ in nearest for n in group)]
    gallery = query_gallery(item, cached, cells, [("run", run.id)])
    tiles = iter(gallery["tiles"])
    names = shown_names(cached, listed)
    mistakes = [
        {
            "query": next(tiles),
            "nearest": [
                {
                    "name": names[dataset, class_id],
                    "likeness": likeness,
                    "tiles": [next(tiles) for _ in group],
                }
                for class_id, group, likeness in nearest
            ],
            "task": number,
        }
        for number, _, nearest in rows
    ]

    def link(page: int) -> str:
        return address(
            f"{run.url}/confusion",
            [*base, ("of", dataset), ("true", true), ("predicted", predicted), ("shown", str(page))],
        )

    keys = [(dataset, true), (dataset, predicted)]
    context = {
        "mistakes": mistakes,
        "sprite": gallery["sprite"],
        "right": true == predicted,
        "sides": [(names.get(each, each[1]), class_url(run, base, each)) for each in dict.fromkeys(keys)],
        "back": pair_url(run, base, keys[1], keys[0]) if true != predicted else "",
        **pager_of(link, page, start, len(shown), len(mistaken), "queries"),
    }
    shown_as = [names.get(each, each[1]) for each in keys]
    verb = "taken for" if true != predicted else "recognised as"
    return Section("queries", f"{shown_as[0]}, {verb} {shown_as[1]}", context, "confused_pair")


def confusion(site: Site, run: Item, query: Any) -> Page:
    """Show the heat map of a series, and behind each square its queries in pictures."""
    index, bed, series, item, cached = answered_bed(site, run, query)
    matrix = confusion_matrix(index, bed, series, cached)
    base = [("bed", bed.hash[:10]), ("series", bed.series[series].column)]
    labels = shown_names(cached, matrix.classes)

    def link(true: tuple[str, str], predicted: tuple[str, str]) -> str:
        return pair_url(run, base, true, predicted)

    def square(i: int, j: int) -> dict[str, Any]:
        counted, chances = matrix.counts[i, j], matrix.chances[i, j]
        rate = counted / chances if chances else None
        url = link(matrix.classes[i], matrix.classes[j])
        return {"count": counted, "chances": chances, "rate": rate, "same": i == j, "url": url}

    top = top_classes(matrix)
    pairs = most_confused(matrix, 8)

    def taken_for(j: int) -> Column:
        return Column(labels[matrix.classes[j]], lambda i: matrix.counts[i, j], "count", group="taken for")

    counts = [Column("True class", lambda i: labels[matrix.classes[i]]), *map(taken_for, top)]
    context = {
        "sheet": make_sheet(counts, top, aria="Confusions"),
        "heads": [labels[matrix.classes[i]] for i in top],
        "rows": [(labels[matrix.classes[i]], [square(i, j) for j in top]) for i in top],
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

"""Rows of a list of tasks: what they are chosen by, and how they look: a picture per class, ticks of the series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longshot.base import Floats, Ragged
from longshot.evaluation import numbered_classes
from longshot.explorer.caches import CachedTestbed, LruCache
from longshot.explorer.library import Item
from longshot.explorer.listing import ListPage, address
from longshot.explorer.picture_store import COLUMNS
from longshot.explorer.site import NotThere, Site
from longshot.explorer.sprites import listed_sprite
from longshot.reports import class_names

if TYPE_CHECKING:
    from longshot.explorer.run_index import BedIndex

CHOSEN_BY = ("class", "with")  # parameters of an address: a class, and another that must be there too
PICTURED = 24  # rows of a page with pictures
_CLASSES = 5  # of a task that are shown
_TICKS = 6
_CHOICES = 300  # classes that a field offers
_ANSWERS = 20_000_000  # queries × series up to which disagreement is a column of every list
_tables = LruCache(8)


def task_table(
    site: Site, item: Item | None, table: pa.Table, query: Any, bed: BedIndex | None = None
) -> pa.Table:
    """Return the table of a list with columns that take a testbed or answers, only rows with the chosen classes.

    ``disagreement`` is the share of queries on which not all series agree; ``cause`` is what sets the support apart,
    once the testbed was explained.
    """
    chosen = [str(query.get(name, ""))[:500] for name in CHOSEN_BY]
    causes = None if item is None else _causes(site, item)
    key = (id(table), *chosen, None if causes is None else id(causes))

    def make() -> tuple[pa.Table, pa.Table, Any]:
        made = table
        if bed is not None and (shares := disagreements(bed)) is not None:
            made = made.append_column("disagreement", pa.array(shares))
        if causes is not None:
            made = made.append_column(
                "cause", pa.array([causes.get(task, "none") for task in table["task"].to_pylist()])
            )
        for class_id in filter(None, chosen):
            cached = _testbed(site, item)
            if cached is not None:
                held = _holding(cached, class_id)
                made = made.filter(pa.array(held[made["task"].to_numpy()]))
        return table, made, causes  # what the key was made of: no other has its id meanwhile

    if bed is None and causes is None and not any(chosen):
        return table
    return _tables.get(key, make)[1]


def disagreements(bed: BedIndex) -> Floats | None:
    """Return the share of each task's queries that not all series answer alike, NaN without answers; [T]."""
    answers = [flat for n in range(len(bed.series)) if (flat := bed.answers(n)) is not None]
    if (
        len(answers) < 2
        or "queries" not in bed.table.column_names
        or len(answers) * len(answers[0]) > _ANSWERS
    ):
        return None
    differ = np.zeros(len(answers[0]), np.bool_)
    for other in answers[1:]:
        differ |= (other != answers[0]) & (other >= 0) & (answers[0] >= 0)
    counts = bed.table["queries"].to_numpy()
    offsets = np.append(0, np.cumsum(counts))
    sums = np.append(0, np.cumsum(differ))
    shares: Floats = (sums[offsets[1:]] - sums[offsets[:-1]]) / np.maximum(counts, 1)
    return shares


def _causes(site: Site, item: Item) -> dict[int, str] | None:
    """Return the first cause of every task; None before the testbed was explained."""
    from longshot.explorer.work_views import why_job

    if int(item.facts["tasks"]) > 600:
        return None
    made = site.plot_worker.ready(why_job(item, None))
    if made is None or made[0]["problem"]:
        return None
    rows = made[0].get("rows", ())
    return _explained.get(
        (item.facts["hash"], len(rows)),
        lambda: {row["task"]: row["causes"][0] for row in rows if row.get("causes")},
    )


_explained = LruCache(8)


def _testbed(site: Site, item: Item | None) -> CachedTestbed | None:
    try:
        return None if item is None else site.testbed(item)
    except NotThere:
        return None


_holders, _numbers = LruCache(8), LruCache(4)


def _holding(cached: CachedTestbed, class_id: str) -> Any:
    """Mark the tasks of a testbed that ask for a class, [T]."""

    def make() -> Any:
        numbers, names = numbered(cached)
        own = [number for number, (_, name) in enumerate(names) if name == class_id]
        sums = np.concatenate([[0], np.cumsum(np.isin(numbers.values, own))])
        return sums[numbers.offsets[1:]] > sums[numbers.offsets[:-1]]

    return _holders.get((cached.testbed.content_hash, class_id), make)


def class_choices(site: Site, item: Item | None) -> list[str]:
    """List the classes of a testbed, for a field; none where there are more than a list bears."""
    cached = _testbed(site, item)
    if cached is None:
        return []
    names = sorted({name for _, name in numbered(cached)[1]})
    return names if len(names) <= _CHOICES else []


def pictured_rows(
    site: Site,
    item: Item | None,
    listed: ListPage,
    carried: Sequence[tuple[str, str]],
    bed: BedIndex | None = None,
) -> dict[str, Any]:
    """Arrange one picture per class of every task of a page, and ticks where the series stand."""
    cached = _testbed(site, item)
    if item is None or cached is None:
        return {"rows": [], "sprite": ""}
    # Whole tasks would be read key by key: a list needs their classes and where these begin.
    testbed = cached.testbed
    classes, names = numbered(cached)
    labels, owners = testbed.column("query_label"), testbed.table.column("dataset")
    rows: list[dict[str, Any]] = []
    pairs: list[tuple[int, int | str]] = []
    for number in (int(row["task"]) for row in listed.rows):
        ids = [names[int(each)][1] for each in classes.row(number)]
        shown = class_names(ids, testbed.labels.get(str(owners[number].as_py()), {}))
        held, firsts = np.unique(labels.row(number), return_index=True)
        url, tiles = f"{item.url}/task/{number}", []
        for label, position in list(zip(held.tolist(), firsts.tolist(), strict=True))[:_CLASSES]:
            style = f"--x:{len(pairs) % COLUMNS};--y:{len(pairs) // COLUMNS}"
            tiles.append(
                {"style": style, "url": address(f"{url}/query/{position}", carried), "name": shown[label]}
            )
            pairs.append((number, position))
        mean = np.nan if bed is None else bed.table["accuracy"][number].as_py()
        rows.append(
            {
                "task": number,
                "url": address(url, carried),
                "tiles": tiles,
                "more": len(ids) - len(tiles),
                "names": shown,
                "ticks": [] if bed is None else _ticks(bed, number),
                "accuracy": None if bed is None else mean,
            }
        )
    return {"rows": rows, "sprite": listed_sprite(item, cached, pairs)}


def numbered(cached: CachedTestbed) -> tuple[Ragged, tuple[tuple[str, str], ...]]:
    """Number the classes of every task, as ``numbered_classes``, once for a testbed."""
    return _numbers.get(cached.testbed.content_hash, lambda: numbered_classes(cached.testbed))


def _ticks(bed: BedIndex, task: int) -> list[tuple[int, str, float]]:
    """Return (place, label, accuracy) of the first series on a task."""
    values = [(n, each.label, float(bed.accuracies(n)[task])) for n, each in enumerate(bed.series[:_TICKS])]
    return [(n, label, value) for n, label, value in values if np.isfinite(value)]

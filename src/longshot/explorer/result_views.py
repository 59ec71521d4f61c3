"""The table of results on pages: that of the report, from the index of one or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.evaluation import Leak
from longshot.explorer.caches import LruCache
from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.run_index import BedIndex
from longshot.explorer.run_index_build import PREFIXES
from longshot.explorer.site import NotThere, Site
from longshot.reports import Cell, Estimates, ReportData, arrange, summarise

_MOST = 100  # series of a testbed
_TESTED = 66 * 5_000  # pairs of series × tasks up to which a page tests first places
UNTESTED = "not tested here: too many tasks and series for a page; the report tests them"
_tables = LruCache(8)


def tasks_url(run: Item, bed: BedIndex, column: str) -> str:
    """Return the address of a testbed's tasks, from the lowest value of a column."""
    return address(f"{run.url}/tasks", [("bed", bed.hash[:10]), *([("sort", column)] if column else [])])


class IndexLinks:
    """Where the means of a table lead: to the tasks of the first run that has the series."""

    def __init__(self, site: Site, runs: Sequence[Item]) -> None:
        self.site, self.runs = site, runs

    def holders(self, bed: Any, series: Any) -> list[tuple[Item, BedIndex, str]]:
        """Return the runs that have a series on a testbed, each with its column there."""
        holders = []
        for run in self.runs:
            index = self.site.index(run)
            for each in index.bed(bed.hash).series if bed.hash in index.hashes else ():
                seed = f"seed {each.seed}" in series.note or "seed" not in series.note
                if (each.method, each.backbone) == (series.method, series.backbone) and seed:
                    holders.append((run, index.bed(bed.hash), each.column))
        return holders

    def tasks(self, bed: Any, series: Any) -> str:
        """Return the address of the tasks behind a mean."""
        holders = self.holders(bed, series)
        own = [holder for holder in holders if holder[0].name in series.note] or holders
        return tasks_url(*own[0]) if own else ""


def indexed_results(
    site: Site, runs: Sequence[Item], hashes: Sequence[str] | None = None
) -> tuple[ReportData, Estimates]:
    """Return the results of runs as a report arranges them, with estimates, marks and reasons.

    ``hashes`` are the testbeds that count; all where none are named. Series without a single task are left out.
    """
    indexes = [(run, site.index(run)) for run in runs]
    key = (tuple(index.stamp for _, index in indexes), tuple(hashes or ()))

    def make() -> tuple[ReportData, Estimates]:
        parts: dict[Any, list[tuple[str, Cell]]] = {}
        beds: dict[str, tuple[str, Any]] = {}
        judging: set[tuple[str, str]] = set()
        leaking: dict[tuple[str, str], Leak] = {}
        kinds: dict[str, str] = {}
        for run, index in indexes:
            judging |= index.judges
            leaking |= {pair: Leak(mark, 0, "", note) for pair, (mark, note) in index.leaks.items()}
            for content_hash in index.hashes:
                if hashes is not None and content_hash not in hashes:
                    continue
                bed = index.bed(content_hash)
                for position, each in enumerate(bed.series[:_MOST]):
                    cell = _cell(bed, position)
                    if cell is None:
                        continue
                    kinds[each.method] = each.kind
                    series = (content_hash, each.backbone, each.method, each.setting, each.seed)
                    parts.setdefault(series, []).append((run.name, cell))
                    if content_hash not in beds:
                        beds[content_hash] = (bed.name, _testbed(site, content_hash))
        order = {content_hash: number for number, content_hash in enumerate(hashes or beds)}
        beds = dict(sorted(beds.items(), key=lambda bed: order[bed[0]]))
        data = arrange(parts, beds, judging=judging, leaking=leaking, kinds=kinds)
        work = sum(
            len(column) * (len(column) - 1) // 2 * max(len(cell.tasks) for _, cell in column)
            for column in (data.column(b) for b in range(len(data.beds)))
        )
        return data, summarise(data) if work <= _TESTED else summarise(data, {}, UNTESTED)

    return _tables.get(key, make)


def _testbed(site: Site, content_hash: str) -> Any:
    """Return the tasks of a testbed; None where they are not at hand, and there is no interval over classes then."""
    item = site.testbed_item(content_hash)
    try:
        return None if item is None else site.testbed(item).testbed
    except NotThere:
        return None


def _cell(bed: BedIndex, position: int) -> Cell | None:
    """Return the tasks of a series that have a result; None where none has."""
    column, table = bed.series[position].column, bed.table
    tasks = bed.finished(position)
    if not len(tasks):
        return None
    if len(tasks) < table.num_rows:  # all of it stays a view of the index: it is held while pages may want it
        table = table.take(pa.array(tasks))
    names = table["dataset"].combine_chunks().dictionary_encode()
    words = names.dictionary.to_pylist()
    return Cell(
        tasks=tasks,
        metrics={name: table[f"{prefix}{column}"].to_numpy() for name, prefix in PREFIXES.items()},
        way=table["way"].to_numpy().astype(np.float64),
        shot=table["shot"].to_numpy(),
        predictions=bed.answer_lists(position, tasks),
        datasets=tuple(words[number] for number in names.indices.to_numpy()),
    )

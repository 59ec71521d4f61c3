"""The scores of runs for the first page: made one by one in the background, kept while a run stays as it is."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from longshot.base import UserError
from longshot.explorer.caches import giving_back_memory
from longshot.explorer.library import Item
from longshot.explorer.result_views import indexed_results, tasks_url
from longshot.explorer.site import NotThere
from longshot.reports import SheetCell, bed_drops, reference, result_rows
from longshot.statistics import bounds_text

if TYPE_CHECKING:
    from longshot.explorer.site import Site
    from longshot.reports import Estimates, ReportData

_KEPT = 6_000  # runs


@dataclass(frozen=True)
class BedScore:
    """What a run reached on one testbed: its best series there, as its report shows it."""

    name: str
    hash: str
    tasks: int
    method: str
    backbone: str
    setting: str
    accuracy: SheetCell
    drop: SheetCell  # of this series from the run's uniform testbed


class RunScores:
    """Scores by run; a page takes those that are ready and is loaded again for the others."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._held: OrderedDict[str, tuple[float, list[BedScore]]] = OrderedDict()
        self._pending: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "scores")
        self._progress: dict[str, deque[float]] = {}

    def close(self) -> None:
        """End the thread that makes them."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def of(self, runs: Sequence[Item], seconds: float) -> list[list[BedScore] | None]:
        """Return the scores of runs, None where they are not made after ``seconds``; old ones of a run that grows."""
        with self._lock:
            for run in runs:
                held = self._held.get(run.digits)
                if (held is None or held[0] != run.changed) and run.digits not in self._pending:
                    self._pending[run.digits] = self._pool.submit(self._make, run)
            waiting = [
                self._pending[run.digits]
                for run in runs
                if run.digits in self._pending and run.digits not in self._held
            ]
        wait(waiting, seconds)
        with self._lock:
            return [self._held[run.digits][1] if run.digits in self._held else None for run in runs]

    def spark(self, item: Item) -> str:
        """Note how far work is, and return the points of a line of the last looks, in a box of 60 × 16."""
        if item.sign is None or not item.sign.total:
            return ""
        line = self._progress.setdefault(item.id, deque(maxlen=40))
        line.append(item.sign.done / item.sign.total)
        steps = max(1, len(line) - 1)
        return " ".join(f"{60 * n / steps:.0f},{15 - 14 * share:.1f}" for n, share in enumerate(line))

    def _make(self, run: Item) -> None:
        scores: list[BedScore] = []
        try:
            with giving_back_memory():
                data, entries = indexed_results(self._site, [run])
                made = (self._score(run, data, entries, b) for b in range(len(data.beds)))
                scores = [score for score in made if score is not None]
        except (NotThere, UserError, OSError, ValueError, KeyError):
            pass  # its page says why it cannot be read
        finally:
            with self._lock:
                self._held[run.digits] = (run.changed, scores)
                self._held.move_to_end(run.digits)
                while len(self._held) > _KEPT:
                    self._held.popitem(last=False)
                self._pending.pop(run.digits, None)
            time.sleep(0)  # readers first

    def _score(self, run: Item, data: ReportData, entries: Estimates, number: int) -> BedScore | None:
        """Return the score of the series with the highest mean, judges of the testbed after all others."""
        rows = [row for row in result_rows(data, entries) if row.entry.bed == number]
        if not rows:
            return None
        best = max(rows, key=lambda row: (row.entry.mark != "judge", row.entry.mean))
        index = self._site.index(run)
        bed = index.bed(best.bed.hash)
        column = next(
            each.column
            for each in bed.series
            if (each.method, each.backbone) == (best.series.method, best.series.backbone)
        )
        cell = replace(best.accuracy(1, bed.table.num_rows), leads=(), link=tasks_url(run, bed, column))
        return BedScore(
            name=best.bed.name,
            hash=best.bed.hash,
            tasks=best.entry.n,
            method=best.series.title,
            backbone=best.series.backbone,
            setting=best.series.setting,
            accuracy=cell,
            drop=_drop(data, number, best.entry.series),
        )


def _drop(data: ReportData, number: int, series: int) -> SheetCell:
    """Return the drop of a series from the testbed that the report counts drops from; a dash for that one itself."""
    if any(bed.testbed is None for bed in data.beds):
        return SheetCell("–")
    start = reference(data)
    drops = dict(bed_drops(data, start, number)) if number != start else {}
    if series not in drops:
        return SheetCell("–")
    overall = drops[series][-1].drop
    text = bounds_text(overall.mean, overall.low, overall.high, "points", 1)
    return SheetCell(text, value=overall.mean, half=overall.half, below=f"from {data.beds[start].name}")

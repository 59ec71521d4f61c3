"""Tables as the semantic-sampling paper's table 3: uniform testbeds by ways and shots, top-1 and top-5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from longshot.base import UserError
from longshot.reports.data import ReportData
from longshot.reports.published import Published
from longshot.reports.sections.base import uniform
from longshot.reports.sheets import Sheet, SheetCell, heads, row
from longshot.reports.summary import Estimates, column_marks, interval, summarise
from longshot.reports.tables import mean_and_half

TOP = 5
LABELS = ("Method", "Backbone", "Setting")
WayShot: TypeAlias = tuple[int, float]  # ways, shots
WayColumn: TypeAlias = dict[int, SheetCell]  # series → what stands in its row


def sheets(data: ReportData, published: Published | None = None) -> list[Sheet]:
    """One table for each choice of datasets: the uniform testbeds with tasks of one shape, by ways, then shots.

    The paper's own table follows, never bold. UserError when no testbed is uniform and of one shape.
    """
    entries = summarise(data)
    shapes = {b: shape for b in range(len(data.beds)) if (shape := _shape(data, b)) is not None}
    if not shapes:
        raise UserError(
            f"The layout 'ways' needs a testbed with uniform classes and images and tasks of one shape, and 0 of "
            f"{len(data.beds)} are such",
            "draw one as in {sample(toybox, way=5, shot=5)}",
        )
    groups: dict[tuple[str, ...], list[int]] = {}
    for b in sorted(shapes, key=lambda b: shapes[b]):
        groups.setdefault(_datasets(data, b), []).append(b)
    not_shown = [bed.name for b, bed in enumerate(data.beds) if b not in shapes]
    layouts = [_measured(data, entries, beds, shapes, not_shown) for beds in groups.values()]
    return [*layouts, *([_published(published, data)] if published is not None else [])]


def head(shot: float, metric: str) -> str:
    """``5-shot top-1``: how a column is called within its number of ways."""
    return f"{shot:g}-shot top-{1 if metric == 'accuracy' else TOP}"


def metrics(way: int) -> tuple[str, ...]:
    """What is shown for a number of ways: among five classes or fewer the top-5 is always right."""
    return ("accuracy", "top5") if way > TOP else ("accuracy",)


def _shape(data: ReportData, bed: int) -> WayShot | None:
    """Ways and shots of a uniform testbed, or None where they vary or something was not drawn uniformly."""
    cell = data.column(bed)[0][1]
    ways, shots = np.unique(cell.way), np.unique(cell.shot)
    if not uniform(data.beds[bed]) or len(ways) != 1 or len(shots) != 1:
        return None
    return int(ways[0]), float(shots[0])


def _datasets(data: ReportData, bed: int) -> tuple[str, ...]:
    testbed = data.beds[bed].testbed
    return tuple(sorted(testbed.datasets)) if testbed is not None else ()


def _measured(
    data: ReportData,
    entries: Estimates,
    beds: Sequence[int],
    shapes: dict[int, WayShot],
    not_shown: Sequence[str],
) -> Sheet:
    titles = heads(*LABELS)
    columns: list[WayColumn] = []
    for b in beds:
        way, shot = shapes[b]
        twin = sum(shapes[other] == shapes[b] for other in beds) > 1
        for metric in metrics(way):
            titles.append((f"{way}-way", head(shot, metric) + (f" ({data.beds[b].name})" if twin else "")))
            columns.append(_accuracy(entries, b) if metric == "accuracy" else _top5(data, b))
    rows: dict[str, list[list[SheetCell]]] = {"inductive": [], "transductive": []}
    for s, series in enumerate(data.series):
        if any(s in column for column in columns):
            cells = [column.get(s, SheetCell("–")) for column in columns]
            rows[series.setting].append(row(series.title, series.backbone, series.setting, *cells))
    names = ", ".join(_datasets(data, beds[0]))
    counts = sorted({entries[b, s].n for b in beds for s, _ in data.column(b)})
    note = (
        f"Mean over tasks in % ({' to '.join(f'{n:,}' for n in dict.fromkeys((counts[0], counts[-1])))} tasks a "
        "column), ± half the 95 % interval; classes and images drawn uniformly. Top-5 is left out for tasks of five "
        "classes or fewer, where it is always 100. Bold: first place of its setting in the column; = where several "
        "share it because Holm-corrected sign-flip tests on the same tasks do not tell them apart."
    )
    if not_shown:
        note += f" Not uniform, or of several shapes, and not shown: {', '.join(not_shown)}."
    return Sheet(f"{names}, few and many ways", titles, [block for block in rows.values() if block], note, 3)


def _accuracy(entries: Estimates, bed: int) -> WayColumn:
    return {
        s: SheetCell(mean_and_half(entry.mean, entry.half), entry.mark)
        for (b, s), entry in entries.items()
        if b == bed
    }


def _top5(data: ReportData, bed: int) -> WayColumn:
    """Means and first places of top-5; the places on the tasks that all series have."""
    column = data.column(bed)
    if any(np.isnan(cell.metrics["top5"]).any() for _, cell in column):
        return {}
    tasks = data.shared(bed).tasks
    values = [cell.metrics["top5"][np.searchsorted(cell.tasks, tasks)] for _, cell in column]
    settings = data.groups(bed, [s for s, _ in column])
    marks = column_marks(np.stack(values, axis=1), settings)
    cells = {}
    for (s, cell), mark in zip(column, marks, strict=True):
        mean, low, high = interval(cell.metrics["top5"])
        cells[s] = SheetCell(mean_and_half(mean, (high - low) / 2), mark)
    return cells


def _published(paper: Published, data: ReportData) -> Sheet:
    """The paper's table of ways, as printed, without methods that were run here with other settings."""
    table = paper.select(table=3)
    printed, variant = paper.beside(table, data.runs)
    keys = list(dict.fromkeys((n.way, n.shot, n.metric) for n in table))
    cells = {
        (n.label, n.way, n.shot, n.metric): SheetCell(mean_and_half(n.mean, n.half or float("nan")))
        for n in printed
    }
    blocks = []
    for setting in ("inductive", "transductive"):
        labels = dict.fromkeys(n.label for n in printed if n.setting == setting)
        blocks.append(
            [
                row(f"{label} (published)", table[0].backbone, setting, *(cells[label, *key] for key in keys))
                for label in labels
            ]
        )
    names = heads(*LABELS) + [(f"{way}-way", head(shot, m)) for way, shot, m in keys]
    note = (
        f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks a column; not measured here. "
        + variant
    )
    blocks = [block for block in blocks if block]
    return Sheet(f"Published: {paper.source['short']}, {table[0].testbed}", names, blocks, note, 3)

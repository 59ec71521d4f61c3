"""The tables of the study of transfer difficulty beside the printed numbers (1, 4 and 5), and its pictures.

Printed numbers are in per cent, points per unit of divergence, and correlations. The pictures are figures 2 and 3 of
the paper, and every method by divergence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats
from longshot.reports import (
    SETS,
    DivergenceSeries,
    Sheet,
    SplitPanel,
    accuracy_by_divergence,
    class_map,
    heads,
    row,
)
from longshot.statistics import bounds_text, mean_interval, points
from longshot.studies.engine.study_page import Drawings, Picture, means_and_halves, on_both
from longshot.studies.engine.study_tables import (
    Fact,
    PublishedTable,
    TableColumn,
    TableFile,
    TableRow,
    published_paper,
    score_table,
)
from longshot.studies.transfer.settings import TransferSettings
from longshot.studies.transfer.transfer_scores import ADAPTING, PAIRS, Steepness, TransferScores, steepness
from longshot.tasks import class_embeddings

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Split


def _table(number: int | str) -> PublishedTable:
    return published_paper(__package__).table(str(number))


def printed_sheet(number: int | str, labels: Mapping[str, str] | None = None) -> Sheet:
    """Return a table as printed, the best of each column in bold; ``labels`` rename its rows."""
    short = published_paper(__package__).source.short
    return _table(number).sheet(f"Published: {short}, table {number}", labels)


def printed_numbers(number: int) -> list[tuple[str, str, float]]:
    """List (column, row, value) of a table without groups of columns, by column; missing ones left out."""
    return [(column, name, cell.mean) for column, name, cell in _table(number).numbers()]


def printed_span(number: int, name: str, against: str = "", scale: float = 1) -> tuple[float, float]:
    """Return lowest and highest number of a row, or of its difference to another, divided by ``scale``.

    >>> printed_span(5, "maml", scale=100)
    (-0.1153, -0.0255)
    """
    rows: dict[str, dict[str, float]] = {}
    for column, label, value in printed_numbers(number):
        rows.setdefault(label, {})[column] = value
    other = rows.get(against, {})
    values = [
        round((value - other.get(column, 0)) / scale, 6)
        for column, value in rows[name].items()
        if not against or column in other
    ]
    return min(values), max(values)


def printed_drop(method: str, shot: int, near: str, far: str) -> float | None:
    """Return accuracy on split ``near`` minus that on ``far`` (table 4), as a share; None if not printed."""
    table, key = _table(4), (f"{shot}-shot", method)
    if key not in table.columns:
        return None
    first, second = (table.value(split, key) for split in (near, far))
    return None if first is None or second is None else round((first.mean - second.mean) / 100, 6)


_CUT = " ‡"
_BESIDE: tuple[int | str, ...] = (
    4,
    "4 (mini-ImageNet)",
    "4 (tiered-ImageNet)",
    1,
    3,
)  # printed tables below the accuracies


def transfer_tables(scores: TransferScores, way: int) -> list[TableFile]:
    """Make all tables of the study."""
    by_divergence = [slopes_table(scores), adaptation_table(scores)] if scores.sweep else []
    accuracies = [accuracies_table(scores, way, shot) for shot in scores.shots]
    return [*accuracies, *by_divergence, splits_table(scores)]


def splits_table(scores: TransferScores) -> TableFile:
    """Describe the splits: target, divergence and gap of the classes they ended up with."""
    records: list[Fact] = []
    block = []
    for split in scores.splits:
        facts = {"split": split.name, "target": split.target, "measured": split.measured, "gap": split.gap}
        records.append({**facts, "same_as": split.twin})
        target = "–" if split.target is None else f"{split.target:g}"
        block.append(row(split.name, target, f"{split.measured:.4f}", f"{split.gap:.3f}", split.twin or "–"))
    names = heads("split", "R", "divergence of class means", "gap", "same classes as")
    note = (
        "Asked for, and what the classes ended up with: the divergence of the two class means and their distance. An R "
        "is the divergence of ATG's centroids, which lie further out than the class means."
    )
    return TableFile("splits", [Sheet("The splits", names, [block], note, labels=1)], records)


def accuracies_table(scores: TransferScores, way: int, shot: int) -> TableFile:
    """Make table 4 at a number of shots, methods × splits; printed tables 4 and 1 beside the most shots."""
    rows = [
        TableRow((method, _kind(method)), facts={"method": method, "embedding": _kind(method)})
        for method in scores.methods
    ]
    shared = {"way": way, "shot": shot}
    columns = [TableColumn("", column, {**shared, "split": column}) for column in scores.columns]
    note = "Mean accuracy over tasks in %, ± half the 95 % interval over tasks (Student t)."
    draws = max(len(scores.of(column)) for column in scores.columns)
    if draws > 1:
        note += f" Tasks of {draws} splits of each R."
    if scores.cut:
        note += (
            f"{_CUT}: a training hit its ceiling in time and had fewer steps; left out of slopes and claims."
        )

    def values(line: TableRow, column: TableColumn) -> Floats:
        return scores.tasks(column.head, line.facts["method"], shot)

    last = bool(scores.sweep) and shot == scores.shots[-1]
    table = score_table(
        f"accuracies-{shot}-shot",
        f"Accuracy by split, {way}-way {shot}-shot",
        ("method", "embedding"),
        rows,
        columns,
        values,
        note=note,
        digits=1,
        published=[printed_sheet(name) for name in _BESIDE] if last else [],
    )
    return replace(table, sheets=[_with_cuts(scores, table.sheets[0], rows, columns), *table.sheets[1:]])


def _kind(method: str) -> str:
    return "adapts" if method in ADAPTING else "fixed"


def _with_cuts(
    scores: TransferScores, sheet: Sheet, rows: list[TableRow], columns: list[TableColumn]
) -> Sheet:
    """Mark the cells of a sheet whose training had fewer steps."""
    block = [list(cells) for cells in sheet.blocks[0]]
    for cells, line in zip(block, rows, strict=True):
        for position, column in enumerate(columns, sheet.labels):
            if scores.was_cut(column.head, column.facts["shot"], line.facts["method"]):
                cells[position] = replace(cells[position], text=cells[position].text + _CUT)
    return replace(sheet, blocks=[block])


def slopes_table(scores: TransferScores) -> TableFile:
    """Make the paper's table 5: slope of accuracy against R, and the difference to MAML's."""
    if len({split.target for split in scores.sweep}) < 2:
        line = "A slope needs at least 2 divergences; the study has 1."
        return TableFile("slopes", [printed_sheet(5)], [], [line])
    records: list[Fact] = []
    blocks = []
    x, unit = ("log10 R", "tenfold") if scores.logarithmic else ("R", "unit")
    with_maml = "maml" in scores.methods
    several = len({split.draw for split in scores.sweep}) > 1
    for shot in scores.shots:
        block = []
        for method in scores.methods:
            own = steepness(scores, method, shot)
            by_means = steepness(scores, method, shot, measured=True)
            records += [
                _slope_record(method, shot, x, "", own),
                _slope_record(method, shot, "measured", "", by_means),
            ]
            over_tasks = bounds_text(own.fit.slope, own.low, own.high, digits=2).partition(" ")[2]
            cells = row(method, str(shot), _slope(own), over_tasks)
            if several:
                ends = [points(end, 2) for end in sorted(own.single)]
                cells += row(f"{ends[0]} to {ends[-1]}" if ends else "–")
            if with_maml and method == "maml":
                cells += row("–")
            elif with_maml:
                difference = steepness(scores, method, shot, against="maml")
                cells += row(_slope(difference))
                records.append(_slope_record(method, shot, x, "maml", difference))
            block.append([*cells, *row(_slope(by_means, 1))])
        blocks.append(block)
    against = f"against {x}"
    names = [
        *heads("method", "shots"),
        *heads("slope", "interval over tasks alone", group=against),
        *(heads("single draws", group=against) if several else []),
        *(heads("minus MAML's slope", group=against) if with_maml else []),
        *heads("slope", group="against the class means' divergence"),
    ]
    note = (
        f"Points of accuracy per {unit} of R; least squares over {len(scores.sweep)} splits"
        + (", a level of its own for each draw" if several else "")
        + ", 95 % t interval over splits in brackets. The interval over tasks alone holds for these very splits and "
        "networks."
    )
    if scores.logarithmic:
        note += " R spans decades here, so slopes are per tenfold; the printed ones are per unit from 0.04 to 0.96."
    sheets = [Sheet("Slope of accuracy against divergence", names, blocks, note), printed_sheet(5)]
    return TableFile("slopes", sheets, records)


def adaptation_table(scores: TransferScores) -> TableFile:
    """Show whether adapting the embedding wins, and more so for harder transfer; on the same tasks."""
    pairs = [pair for pair in PAIRS if set(pair) <= set(scores.methods)]
    if not pairs:
        line = "No method is there both with and without adapting, so nothing is said about adapting the embedding."
        return TableFile("adaptation", [], [{"what": "adaptation", "said": line}], [line])
    records: list[Fact] = []
    rows = []
    for column in scores.columns:
        cells = row(column)
        for shot in scores.shots:
            for method, other in pairs:
                own, without = (scores.tasks(column, name, shot) for name in (method, other))
                difference = mean_interval(own - without)
                cut = scores.was_cut(column, shot, method, other)
                cells += row(difference.with_bounds() + (_CUT if cut else ""))
                facts = {"split": column, "shot": shot, "one": method, "other": other, "hit_ceiling": cut}
                numbers = {"difference": difference.mean, "low": difference.low, "high": difference.high}
                records.append({**facts, **numbers, "tasks": difference.n})
        rows.append(cells)
    named = [(f"{shot}-shot", f"{method} − {other}") for shot in scores.shots for method, other in pairs]
    note = (
        "Points of accuracy on the same tasks, 95 % interval over tasks in brackets. Finetune and multiclass share a "
        "network, MAML and ANIL are trained apart."
    )
    sheet = Sheet("Adapting the embedding", [*heads("split"), *named], [rows], note, labels=1)
    return TableFile("adaptation", [sheet], records)


def _slope(slope: Steepness, digits: int = 2) -> str:
    return bounds_text(slope.fit.slope, slope.fit.low, slope.fit.high, digits=digits)


def _slope_record(method: str, shot: int, x: str, against: str, slope: Steepness) -> Fact:
    fit = slope.fit
    facts = {"method": method, "shot": shot, "x": x, "minus": against}
    numbers = {"slope": fit.slope, "low": fit.low, "high": fit.high, "p": fit.p}
    numbers |= {"tasks_low": slope.low, "tasks_high": slope.high}
    numbers |= {"lowest_draw": min(slope.single, default=math.nan)}
    numbers |= {"highest_draw": max(slope.single, default=math.nan)}
    defined = {key: None if math.isnan(value) else value for key, value in numbers.items()}
    return {**facts, **defined, "splits": fit.n}


def transfer_figures(
    settings: TransferSettings,
    dataset: str,
    features: Features,
    splits: Mapping[str, Split],
    scores: TransferScores,
) -> Drawings:
    """Return figures: methods by divergence, 2 (train, validation and test), 3 (classes in the plane)."""
    drawings: Drawings = {}
    axis: dict[str, Any] = {
        "xlabel": "R, the divergence asked for",
        "chance": 1 / settings.way,
        "logarithmic": scores.logarithmic,
    }
    each = " Every split of a divergence is a mark." if settings.splits_per_divergence > 1 else ""
    for shot in reversed(settings.shots) if scores.sweep else ():
        series = [method_series(scores, method, shot) for method in scores.methods]
        title = f"{dataset}, {settings.way}-way {shot}-shot, test classes"
        drawings[f"accuracy-{shot}-shot"] = Picture(
            f"Accuracy on test classes by divergence, {shot}-shot, with 95 % intervals over tasks and the line whose "
            f"slope is in the table.{each}",
            partial(on_both, partial(accuracy_by_divergence, series, title=title, **axis)),
        )
    if scores.parts:
        parts = [part_series(scores, part) for part in SETS]
        title = f"{dataset}, multiclass, {settings.way}-way {settings.shots[-1]}-shot"
        draw = partial(accuracy_by_divergence, parts, title=title, colours=tuple(SETS.values()), **axis)
        drawings["sets"] = Picture(
            "The multiclass network on tasks of its train, validation and test classes (the paper's figure 2).",
            partial(on_both, draw),
        )
    first = [split.name for split in scores.splits if not split.draw]
    panels = [SplitPanel(name, class_rows(splits[name], features)) for name in first]
    title = f"{dataset}, {len(features.class_ids)} classes"
    drawings["classes"] = Picture(
        "Class embeddings in the plane of their first two principal components, by split (figure 3).",
        partial(on_both, partial(class_map, class_embeddings(features), panels, title=title)),
    )
    return drawings


def class_rows(split: Split, features: Features) -> dict[str, np.ndarray]:
    """Map each part of a split to the positions of its classes among the features' classes, in its order."""
    position = {class_id: number for number, class_id in enumerate(features.class_ids)}
    return {part: np.array([position[c] for c in ids], np.int64) for part, ids in split.parts.items()}


def part_series(scores: TransferScores, part: str) -> DivergenceSeries:
    """Return accuracy of the multiclass network on a part of the splits, draws of a divergence together."""
    columns = dict.fromkeys(split.column for split in scores.sweep)
    values = [
        np.concatenate([scores.parts[split.name, part].mean(0) for split in scores.of(column)])
        for column in columns
    ]
    return _series(part, sorted({split.target or 0.0 for split in scores.sweep}), values)


def method_series(scores: TransferScores, method: str, shot: int) -> DivergenceSeries:
    """Return accuracy of a method over the sweep, with the line through it where there is one."""
    fit = steepness(scores, method, shot).fit
    line = None if np.isnan(fit.slope) else (fit.intercept, fit.slope)
    values = [scores.accuracy[split.name, method, shot].mean(0) for split in scores.sweep]
    return _series(method, [split.target or 0.0 for split in scores.sweep], values, line)


def _series(
    label: str, x: Sequence[float], values: Sequence[Floats], line: tuple[float, float] | None = None
) -> DivergenceSeries:
    """Compute means and 95 % bounds, as shares, of the accuracies at each x."""
    mean, half = (part / 100 for part in means_and_halves(values))
    return DivergenceSeries(label, np.array(x), mean, mean - half, mean + half, line)

"""The tables of the study of transfer difficulty: the paper's tables 1, 4 and 5, each beside the printed numbers."""

from __future__ import annotations

import math
from dataclasses import replace

from longshot.base import Floats
from longshot.reports import Sheet, heads, row
from longshot.statistics import mean_interval
from longshot.studies.engine.tables import Fact, TableColumn, TableFile, TableRow, points, score_table
from longshot.studies.transfer.paper import accuracies_records, hardest_records, printed_sheet, slope_records
from longshot.studies.transfer.stats import ADAPTING, PAIRS, Steepness, TransferScores, steepness

_CUT = " ‡"


def tables(scores: TransferScores, way: int) -> list[TableFile]:
    """Every table of the study."""
    return [
        *(accuracies_table(scores, way, shot) for shot in scores.shots),
        slopes_table(scores),
        adaptation_table(scores),
        splits_table(scores),
    ]


def splits_table(scores: TransferScores) -> TableFile:
    """What the splits are: target, divergence and gap of the classes they ended up with."""
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
    """The paper's table 4 at a number of shots, methods × splits; table 4 and 1 stand beside the most shots."""
    rows = [
        TableRow((method, _kind(method)), facts={"method": method, "embedding": _kind(method)})
        for method in scores.methods
    ]
    shared = {"dataset": "", "way": way, "shot": shot}
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

    last = shot == scores.shots[-1]
    table = score_table(
        f"accuracies-{shot}-shot",
        f"Accuracy by split, {way}-way {shot}-shot",
        ("method", "embedding"),
        rows,
        columns,
        values,
        note=note,
        digits=1,
        published=[printed_sheet(4), printed_sheet(1)] if last else [],
        records=[*accuracies_records(), *hardest_records()] if last else [],
    )
    return replace(table, sheets=[_with_cuts(scores, table.sheets[0], rows, columns), *table.sheets[1:]])


def _kind(method: str) -> str:
    return "adapts" if method in ADAPTING else "fixed"


def _with_cuts(
    scores: TransferScores, sheet: Sheet, rows: list[TableRow], columns: list[TableColumn]
) -> Sheet:
    """The sheet with the cells marked whose training had fewer steps."""
    block = [list(cells) for cells in sheet.blocks[0]]
    for cells, line in zip(block, rows, strict=True):
        for position, column in enumerate(columns, sheet.labels):
            if scores.was_cut(column.head, column.facts["shot"], line.facts["method"]):
                cells[position] = replace(cells[position], text=cells[position].text + _CUT)
    return replace(sheet, blocks=[block])


def slopes_table(scores: TransferScores) -> TableFile:
    """The paper's table 5: slope of accuracy against R, and the difference to MAML's."""
    if len({split.target for split in scores.sweep}) < 2:
        line = "A slope needs at least 2 divergences; the study has 1."
        return TableFile("slopes", [printed_sheet(5)], slope_records(), [line])
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
            cells = row(method, str(shot), _slope(own), _brackets(own.low, own.high))
            if several:
                ends = [f"{100 * end:+.2f}" for end in sorted(own.single)]
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
    return TableFile("slopes", sheets, [*records, *slope_records()])


def adaptation_table(scores: TransferScores) -> TableFile:
    """Does adapting the embedding win, and more so the harder the transfer? Differences on the same tasks."""
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
                cells += row(points(difference) + (_CUT if cut else ""))
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
    if math.isnan(slope.fit.slope):
        return "–"
    return f"{100 * slope.fit.slope:+.{digits}f} {_brackets(slope.fit.low, slope.fit.high, digits)}".strip()


def _brackets(low: float, high: float, digits: int = 2) -> str:
    return "" if math.isnan(low) else f"[{100 * low:+.{digits}f}, {100 * high:+.{digits}f}]"


def _slope_record(method: str, shot: int, x: str, against: str, slope: Steepness) -> Fact:
    fit = slope.fit
    facts = {"source": "measured", "dataset": "", "method": method, "shot": shot, "x": x, "minus": against}
    numbers = {"slope": fit.slope, "low": fit.low, "high": fit.high, "p": fit.p}
    numbers |= {"tasks_low": slope.low, "tasks_high": slope.high}
    numbers |= {"lowest_draw": min(slope.single, default=math.nan)}
    numbers |= {"highest_draw": max(slope.single, default=math.nan)}
    defined = {key: None if math.isnan(value) else value for key, value in numbers.items()}
    return {**facts, **defined, "splits": fit.n}

"""The tables of the study VTAB+MD, and the numbers that the paper printed in its tables 4 to 9, beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longshot.base import UserError
from longshot.reports import Sheet, SheetCell, heads, row
from longshot.statistics import CLASSES, percent, plus_minus, widths_differ
from longshot.studies.engine.study_tables import (
    FIRST_PLACE,
    Fact,
    PublishedTable,
    TableFile,
    bounds,
    published_paper,
)
from longshot.studies.vtab_md.vtab_md_plan import VtabLab
from longshot.studies.vtab_md.vtab_md_scores import (
    CONSTANT,
    PRIOR,
    RULE,
    Choice,
    VtabScores,
    choices_of,
    shuffled_row,
)
from longshot.studies.vtab_md.vtab_md_sources import GROUPS, MD, TITLES, VTAB, absence_sentences

if TYPE_CHECKING:
    from longshot.statistics import Interval


AGGREGATES = {
    "md": "MD-v2",
    "all": "VTAB (all)",
    "natural": "VTAB (natural)",
    "specialized": "VTAB (specialized)",
    "structured": "VTAB (structured)",
}
PRINTED_TITLES = {**TITLES, **AGGREGATES}
# row of a preset → the table and column whose approach it stands for, with other networks and data
ROWS = {
    **{name: (4, name) for name in ("MD-Transfer", "ProtoMAML", "ProtoNets", "CTX", "BiT-ResNet-18")},
    "BiT": (4, "BiT-ResNet-18"),
    **{f"{name} (all)": (5, name) for name in ("MD-Transfer", "ProtoMAML", "ProtoNets")},
    "SUR": (5, "SUR"),
    "BiT-8 (20×20)": (6, "BiT-ResNet-18 (126×126)"),
    "BiT-8 (40×40)": (6, "BiT-ResNet-18 (224×224)"),
    "BiT-24 (20×20)": (6, "BiT-ResNet-50 (126×126)"),
    "BiT-24 (40×40)": (6, "BiT-ResNet-50 (224×224)"),
    "BiT (GNWS)": (7, "BiT-ResNet-50 (GNWS)"),
    "BiT (BN)": (7, "BiT-ResNet-50 (BN)"),
    "BiT (all upstream classes)": (9, "BiT-ResNet-50 (JFT)"),
    "BiT (class-ablated)": (9, "BiT-ResNet-50 (JFT, class-ablated)"),
}


def printed_source() -> dict[str, Any]:
    """Return title, authors, year and short name of the paper."""
    return published_paper(__package__).source.model_dump()


def printed_table(number: int) -> PublishedTable:
    """Return table 4, 5, 6, 7, 8 or 9 of the paper: rows are sources by name and aggregates.

    >>> printed_table(4).value("omniglot", "CTX")
    PrintedNumber(mean=84.55, half=0.94)
    """
    if str(number) not in published_paper(__package__).tables:
        raise UserError(f"There is no table {number} of VTAB+MD here; there are 4 to 9.")
    return published_paper(__package__).table(str(number))


def printed_difference(first: str, second: str, on: str) -> float | None:
    """Return the printed difference of two rows on a source or aggregate, as a share; None if not printed.

    >>> printed_difference("CTX", "MD-Transfer", "natural")
    0.0825
    """
    cells = [
        printed_table(ROWS[row][0]).value(on, ROWS[row][1]) if row in ROWS else None
        for row in (first, second)
    ]
    if cells[0] is None or cells[1] is None:
        return None
    return round((cells[0][0] - cells[1][0]) / 100, 6)


def source_sheet(number: int) -> Sheet:
    """Return a table as it was printed: a line per source, the aggregates last."""
    table = printed_table(number)
    tasks = ([name for name in VTAB if VTAB[name].group == group] for group in GROUPS)
    lists = (list(MD), *tasks, list(AGGREGATES))
    blocks = [
        [row(PRINTED_TITLES[name], *map(table.text, table.rows[name])) for name in names]
        for names in ([name for name in listed if name in table.rows] for listed in lists)
    ]
    return Sheet(
        f"Published: {printed_source()['short']}, table {number}, {table.caption}",
        heads(table.head, *table.heads),
        [block for block in blocks if block],
        "Published numbers, % with the printed 95 % interval (60 episodes for BiT, 600 for others); not measured here.",
        labels=1,
    )


def aggregate_sheet(numbers: Sequence[int]) -> Sheet:
    """Return the aggregates of some tables, a line per approach."""
    blocks = []
    for number in numbers:
        table = printed_table(number)
        title = f"table {number}: {table.caption}"
        block = []
        for column in table.heads:
            values = [table.value(name, column) for name in AGGREGATES]
            block.append(row(column, title, *map(table.text, values)))
        blocks.append(block)
    named = f"table {numbers[0]}" if len(numbers) == 1 else f"tables {', '.join(map(str, numbers))}"
    return Sheet(
        f"Published: {printed_source()['short']}, {named}",
        heads("approach", "trained on", *AGGREGATES.values()),
        blocks,
        "Published numbers of other networks, in %; not measured here.",
    )


_FIRST = FIRST_PLACE.replace("of its column", "of its line")  # a line per source
_KINDS = "Of one kind are rows that are inductive or transductive alike and were trained on the same data."
_INTERVALS = (
    "Episodes: mean over episodes ± half the 95 % interval (Student t). Big episodes: share of the test images ± half "
    "Wilson's 95 % interval, which holds for other test images, not for other supports; Student's t over images "
    f"weighted by class where balanced accuracy leads. In brackets half the interval for {CLASSES}, where it differs "
    "by more than a fifth."
)


def vtab_tables(lab: VtabLab, scores: VtabScores) -> list[TableFile]:
    """Make all tables of the study."""
    settings, choices = lab.settings, choices_of(lab)
    written = [
        aggregate_table(settings.published, scores, lab.absent),
        sources_table(settings.published, scores),
    ]
    if scores.weights:
        written.append(floors_table(scores))
    if any(approach.name == settings.against for approach in scores.rows):
        written.append(differences_table(str(settings.against), scores))
    if choices:
        written.append(choices_table(list(choices.values())))
    return written


def aggregate_table(published: Sequence[int], scores: VtabScores, notes: Sequence[str]) -> TableFile:
    """Make figure 1 in numbers: a line per row; a column has a benchmark's name only where it is whole.

    ``published`` are the paper's tables whose aggregates stand beside.
    """
    parts = scores.parts()
    records: list[Fact] = []
    rows = []
    for approach in scores.rows:
        cells = row(approach.name, approach.group or "–")
        for part in parts:
            interval = scores.aggregate(approach.name, part)
            cells += row(_percent(interval))
            if interval is not None:
                facts = {"row": approach.name, "on": part.key, "title": part.title}
                records.append({**facts, **bounds(interval, "n")})
        rows.append(cells)
    names = heads("approach", "trained on", *(part.title for part in parts))
    means = "Mean of the sources' accuracies in %, each source counting once; half² = Σ half_i² / k²."
    sheets = [Sheet("VTAB+MD, aggregated", names, [rows], " ".join([means, *notes]))]
    if published:
        sheets.append(aggregate_sheet(published))
    return TableFile("aggregate", sheets, records)


def sources_table(published: Sequence[int], scores: VtabScores) -> TableFile:
    """Make the layout of tables 4 to 9: a line per source, a column per row; what is absent is listed."""
    records: list[Fact] = []
    blocks = []
    here = {source.name: source for source in scores.sources}
    official = any(source.official for source in scores.sources)
    for role in ("md", *GROUPS):
        block = []
        own = list(MD) if role == "md" else [name for name, task in VTAB.items() if task.group == role]
        listed = [name for name in own if official or name in here]
        for name in [*listed, *(s.name for s in scores.sources if s.role == role and not s.official)]:
            if name not in here:
                block.append(row(PRINTED_TITLES[name], *("absent" for _ in scores.rows), "–"))
                continue
            title, marks = here[name].title, scores.marks(name)
            cells = row(f"{title} (balanced accuracy)" if name in scores.weights else title)
            for approach in [*(each.name for each in scores.rows), CONSTANT]:
                interval, mark = scores.interval(approach, name), marks.get(approach, "")
                wider = scores.over_classes.get((approach, name))
                if approach == CONSTANT:
                    cells.append(SheetCell("–" if interval is None else percent(interval.mean, 2)))
                else:
                    cells.append(SheetCell(_with_classes(interval, wider), mark))
                if interval is not None:
                    facts: Fact = {"row": approach, "on": name, "title": title}
                    facts |= {**bounds(interval, "n"), "half_over_classes": wider}
                    records.append({**facts, "accuracy": scores.accuracy(approach, name), "mark": mark})
            block.append(cells)
        if block:
            blocks.append(block)
    names = heads("data source", *(approach.name for approach in scores.rows), CONSTANT)
    lead = (
        "Accuracy in %; balanced accuracy on unbalanced big episodes, whose floors have a table of their own."
    )
    note = " ".join([lead, _INTERVALS, _FIRST, _KINDS, *absence_sentences(scores.sources)])
    sheets = [Sheet("VTAB+MD by source", names, blocks, note, labels=1)]
    sheets += [source_sheet(number) for number in published]
    return TableFile("sources", sheets, records)


def floors_table(scores: VtabScores) -> TableFile:
    """Show answers without images and by shuffled labels beside all approaches on unbalanced big episodes."""
    blocks, records = [], list[Fact]()
    for source in scores.sources:
        if source.name not in scores.weights:
            continue
        block = []
        approaches = [name for row in scores.rows for name in (row.name, shuffled_row(row.name))]
        for name in (CONSTANT, PRIOR, *approaches):
            interval, accuracy = scores.interval(name, source.name), scores.accuracy(name, source.name)
            above = scores.difference(name, CONSTANT, source.name)
            if interval is None or accuracy is None or above is None:
                continue
            learned = "yes" if scores.learned(name, source.name) else "no"
            learned = "–" if name == CONSTANT else learned
            shown = (interval.text(digits=2), percent(accuracy, 2), above.with_bounds(), learned)
            block.append(row(source.title, name, *shown))
            facts = {"on": source.name, "row": name, **bounds(interval, "n"), "accuracy": accuracy}
            records.append({**facts, "above": above.mean, "above_low": above.low, "learned": learned})
        blocks.append(block)
    names = heads(
        "task", "answer", "balanced accuracy (%)", "accuracy (%)", f"above the {CONSTANT}", "learned"
    )
    note = (
        "Tasks that ask for some classes more than 1.5 times as often as for others. Balanced accuracy: the mean of "
        "the classes' shares of right answers; every constant answer has 1 / classes. The best constant is the class "
        "that is asked for most, the prior guesses by the shares of the support, shuffled labels are the same approach "
        "with nothing to learn. Learned: above the best constant by the 95 % interval, paired by image."
    )
    return TableFile(
        "floors", [Sheet("Floors of the unbalanced tasks", names, blocks, note, labels=2)], records
    )


def differences_table(against: str, scores: VtabScores) -> TableFile:
    """Show every other row minus one row, on the same episodes and test images."""
    compared = [approach.name for approach in scores.rows if approach.name != against]
    differences = {
        (source.name, name): difference
        for source in scores.sources
        for name in compared
        if (difference := scores.difference(name, against, source.name)) is not None
    }
    if not differences:
        return TableFile("differences", [], [{"row": "", "minus": against}], ["There is no other row."])
    records: list[Fact] = [
        {"row": name, "minus": against, "on": source, "difference": difference.mean}
        | {"low": difference.low, "high": difference.high, "n": difference.n}
        for (source, name), difference in differences.items()
    ]
    rows = []
    for source in scores.sources:
        intervals = [differences.get((source.name, name)) for name in compared]
        texts = ("–" if interval is None else interval.with_bounds() for interval in intervals)
        rows.append(row(source.title, *texts))
    lines = []
    for name in compared:
        own = [difference for (_, compared_name), difference in differences.items() if compared_name == name]
        higher, lower = (
            sum(difference.excludes(0.0) and sign * difference.mean > 0 for difference in own)
            for sign in (1, -1)
        )
        lines.append(
            f"{name} against {against}: higher on {higher}, lower on {lower}, not told apart on "
            f"{len(own) - higher - lower} of {len(own)} sources."
        )
    names = heads("data source", *(f"{name} − {against}" for name in compared))
    note = "Points of accuracy on the same episodes or test images, 95 % interval in brackets; one training each."
    sheet = Sheet(f"Against {against}", names, [rows], note, labels=1)
    return TableFile("differences", [sheet], records, lines)


def choices_table(choices: Sequence[Choice]) -> TableFile:
    """Show the candidates of every row on the validation images; one setting for all tasks."""
    records: list[Fact] = []
    blocks = []
    for choice in choices:
        block = []
        for call, accuracy in choice.accuracy.items():
            taken = call == choice.chosen
            facts = {"row": choice.row, "candidate": call, "mean_validation_accuracy": accuracy}
            records.append({**facts, "images": choice.images, "constant": choice.floor, "chosen": taken})
            shown = row(choice.row, call, SheetCell(percent(accuracy, 2), "best" if taken else ""))
            block.append([*shown, *row(percent(choice.floor, 2), f"{choice.images:,}", f"{choice.tasks:,}")])
        blocks.append(block)
    names = heads("approach", "candidate", "validation accuracy (%)", f"{CONSTANT} (%)", "images", "tasks")
    note = (
        "Learned from the train images of each big episode alone, asked for its validation images; mean over tasks, of "
        "balanced accuracies where a task is unbalanced. "
        f"Bold: taken for all tasks. {RULE}"
    )
    sheet = Sheet("Settings chosen for big episodes", names, blocks, note, labels=2)
    return TableFile("choices", [sheet], records)


def _with_classes(interval: Interval | None, wider: float | None) -> str:
    """Format a mean with its interval, and the one for other classes too where the two differ."""
    if interval is None:
        return "–"
    shown = wider if widths_differ(interval.half, wider) else None
    return plus_minus(interval.mean, interval.half, digits=2, over_classes=shown)


def _percent(interval: Interval | None) -> str:
    return "–" if interval is None else interval.text(digits=2)

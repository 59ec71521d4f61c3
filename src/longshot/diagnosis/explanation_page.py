"""An explanation to read: plain values, lines and rows for the terminal, and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import UserError, progress
from longshot.diagnosis.alterations import kind_of
from longshot.diagnosis.attribute_table import Composition
from longshot.diagnosis.explanation import Explanation, TaskExplanation
from longshot.diagnosis.findings import Finding
from longshot.diagnosis.trials import Account, Exchange, Intervention
from longshot.reports import (
    MAX_QUERY,
    MAX_SUPPORT,
    Column,
    EstimateRow,
    FindImages,
    Section,
    Sheet,
    SheetCell,
    Thumbnail,
    bed_facts,
    intervals,
    make_sheet,
    part_cell,
    thumbnail,
    write_page,
)
from longshot.statistics import Correlation, Interval, bounds_text, plus_minus, points

if TYPE_CHECKING:
    from longshot import Testbed


def attraction_sentences(task: TaskExplanation, most: int = 2) -> list[str]:
    """Write ``7 of 10 queries of 'a' lie nearest to a support image of 'b'`` for the strongest pairs."""
    return [
        f"{pair.nearer} of {pair.queries} queries of '{task.classes[pair.of]}' lie nearest to a support image of "
        f"'{task.classes[pair.to]}'"
        for pair in task.attractions[:most]
    ]


def say_symptoms(finding: Finding, most: int = 5) -> str:
    """Write ``symptoms: sharpness −2.1 σ, edges −1.8 σ``; empty where there are none."""
    if not finding.symptoms:
        return ""
    strongest = finding.symptoms[:most]
    signs = [f"{each.attribute} {plus_minus(each.effect, unit='plain', signed=True)} σ" for each in strongest]
    more = len(finding.symptoms) - most
    return f"symptoms: {', '.join(signs)}" + (f" and {more} more" if more > 0 else "")


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Convert everything to plain values; the hardest tasks come first."""
    tasks, together = explanation.hardest(), explanation.loss_and_accuracy
    return {
        "notes": list(explanation.notes),
        "tasks": [{**asdict(task), "sentences": [f.sentence for f in task.findings]} for task in tasks],
        "causes": [asdict(cause) for cause in explanation.causes],
        "interventions": [
            {**asdict(each), "meaning": each.meaning, "sentence": each.sentence}
            for each in explanation.interventions
        ],
        "accounts": [{**asdict(account), "sentence": account.sentence} for account in explanation.accounts],
        "remedies": [{**asdict(remedy), "sentence": remedy.sentence} for remedy in explanation.remedies],
        "looks": {dataset: [asdict(look) for look in looks] for dataset, looks in explanation.looks.items()},
        "composition": _plain(explanation.compositions),
        "accuracy_and_inverse_loss": None if together is None else asdict(together),
        "others": {bed: _plain(compositions) for bed, compositions in explanation.further.items()},
    }


def cause_sheet(explanation: Explanation) -> Sheet | None:
    """Make the table of attributes that recur as causes; None where there are none."""
    causes = [cause for cause in explanation.causes if cause.tasks]
    columns = [
        Column("Dataset", lambda cause: cause.dataset),
        Column("Cause", lambda cause: kind_of(cause.attribute)),
        Column("Attribute", lambda cause: cause.attribute),
        Column("Tasks", lambda cause: part_cell(cause.tasks, cause.of), "count"),
        Column("Strongest in", lambda cause: cause.first, "count"),
    ]
    if any(cause.with_accuracy for cause in explanation.causes):
        columns.append(Column("r with accuracy", lambda cause: say_correlation(cause.with_accuracy), "plain"))
    note = "Tasks: those with the cause. r: Spearman's, of |gap| and accuracy over the tasks, with its 95 % interval."
    return make_sheet(columns, causes, note=note, aria="Causes") if causes else None


def composition_sheet(
    compositions: Mapping[str, Sequence[Composition]], title: str = "", *, most: int | None = None
) -> Sheet | None:
    """Make a row per attribute (and value): what supports and queries of each testbed consist of.

    ``compositions`` maps a testbed's name to its columns; rows with the widest mean gap come first. None without rows.
    """
    by_column: dict[tuple[str, str | None], dict[str, Composition]] = {}
    for bed, rows in compositions.items():
        for each in rows:
            by_column.setdefault((each.attribute, each.value), {})[bed] = each
    order = sorted(by_column.values(), key=lambda beds: -max(bed.apart.mean for bed in beds.values()))

    def cell(part: str, bed: str, beds: dict[str, Composition]) -> SheetCell:
        each = beds.get(bed) if bed else next(iter(beds.values()))
        if each is None:
            return SheetCell("–")
        interval: Interval = getattr(each, part)
        text = say_interval(interval, each.value is not None, signed=part == "gap")
        return SheetCell(text, value=interval.mean, half=interval.half)

    def column(head: str, part: str, bed: str = "") -> Column:
        return Column(bed or head, partial(cell, part, bed), "plain", group=head if bed else "")

    columns = [
        Column("Attribute", _attribute),
        *(column("Support", "support", bed) for bed in compositions),
        column("Queries", "query"),
        *(column("Gap", "gap", bed) for bed in compositions),
    ]
    return make_sheet(columns, order[:most], title, labels=1, aria=title or "Composition") if order else None


def _attribute(beds: Mapping[str, Composition]) -> str:
    """Name the attribute of a row, with its value where it has some."""
    first = next(iter(beds.values()))
    return first.attribute if first.value is None else f"{first.attribute} = {first.value}"


def say_interval(interval: Interval, share: bool, *, signed: bool = False) -> str:
    """Return a share in per cent with its unit, another number as it is, each with half its interval."""
    if share:
        return f"{plus_minus(interval.mean, interval.half, signed=signed)} %"
    return plus_minus(interval.mean, interval.half, "plain", 3, signed=signed)


def say_correlation(correlation: Correlation | None) -> str:
    """Write a correlation with its interval: ``−0.41 [−0.52, −0.28]``."""
    if correlation is None:
        return "–"
    return bounds_text(correlation.r, correlation.low, correlation.high, "plain", 2)


def _plain(compositions: Mapping[str, Sequence[Composition]]) -> dict[str, list[dict[str, Any]]]:
    """Convert compositions by dataset to plain values."""

    def row(column: Composition) -> dict[str, Any]:
        intervals = {name: getattr(column, name) for name in ("support", "query", "gap", "apart")}
        return {
            "attribute": column.attribute,
            "value": column.value,
            "coverage": column.coverage,
            **{name: {"mean": each.mean, "half": each.half} for name, each in intervals.items()},
        }

    return {dataset: [row(column) for column in columns] for dataset, columns in compositions.items()}


def intervention_sheet(interventions: Sequence[Intervention]) -> Sheet | None:
    """Make the table of suspected causes that are not shown to cost anything; None where all are."""
    columns = [
        Column("Dataset", lambda each: each.dataset),
        Column("Cause", lambda each: each.meaning),
        Column("Suspected in", lambda each: part_cell(each.suspected, each.of), "count"),
        Column("Points", lambda each: each.points, "points"),
        Column("Adjusted p", lambda each: each.adjusted, "p"),
    ]
    silent = [each for each in interventions if not each.holds]
    return make_sheet(columns, silent, "Suspected, and not shown to cost anything") if silent else None


def account_sheet(accounts: Sequence[Account]) -> Sheet | None:
    """Make the table of what the loss is made of: a row per cause that holds, the remainder, and the sum."""
    rows: list[tuple[str, str, SheetCell, Interval]] = []
    for account in accounts:
        name = account.dataset
        rows += [
            (name, part.meaning, part_cell(part.tasks, account.of), part.points) for part in account.shares
        ]
        rows += [(name, "together", SheetCell(""), account.loss)] if account.shares else []
    columns = [
        Column("Dataset", lambda line: line[0]),
        Column("Because of", lambda line: line[1]),
        Column("Suspected in", lambda line: line[2], "count"),
        Column("Points", lambda line: line[3], "percent"),
    ]
    return make_sheet(columns, rows, aria="What the loss is made of") if rows else None


_PLOTTED = 10  # columns in the plot of gaps
_MOST_FINDINGS = 4  # of a task, with pictures


def render_explanation(
    explanation: Explanation, testbed: Testbed, *, images: FindImages | None = None, tasks: int = 8
) -> str:
    """Render one self-contained page; ``images`` finds the pictures, of the ``tasks`` hardest tasks."""
    compared = [
        {
            "dataset": dataset,
            "sheet": composition_sheet(explanation.beside(dataset), most=24),
            "plot": _plot(explanation.beside(dataset), number),
        }
        for number, dataset in enumerate(explanation.compositions)
    ]
    name, together = explanation.name, explanation.loss_and_accuracy
    sections = [
        *_interventions(explanation, images),
        Section(
            "causes",
            "What recurs",
            {
                "sheet": cause_sheet(explanation),
                "explained": sum(bool(task.findings) for task in explanation.tasks),
                "tasks": len(explanation.tasks),
                "notes": explanation.notes,
                "correlation": say_correlation(together) if together else None,
            },
            "explain_causes",
        ),
        Section("composition", "Support against queries", {"sources": compared}, "explain_composition"),
        Section("tasks", "Task by task", _tasks(explanation, testbed, images, tasks), "explain_tasks"),
    ]
    return write_page(
        f"Why the tasks of {name} are hard",
        sections,
        counts=[f"{len(explanation.tasks):,} tasks", f"{len(explanation.causes):,} attributes"],
        style="testbed.css",
        beds=[bed_facts(name, testbed)],
    )


def _interventions(explanation: Explanation, images: FindImages | None) -> list[Section]:
    """Show what to do, and what the loss is made of; then how images look. No section where there is nothing."""
    sections = []
    if explanation.accounts:
        content = {
            "accounts": [account.sentence for account in explanation.accounts],
            "shares": account_sheet(explanation.accounts),
            "remedies": [
                {
                    "sentence": each.sentence,
                    "causes": ", ".join(each.causes),
                    "exchanges": _exchanges(each.dataset, [each.example] if each.example else (), images),
                }
                for each in explanation.remedies
            ],
            "tried": [
                {"sentence": each.sentence, "exchanges": _exchanges(each.dataset, each.examples, images)}
                for each in explanation.interventions
                if each.holds
            ],
            "silent": intervention_sheet(explanation.interventions),
        }
        sections.append(
            Section("interventions", "What is lost, and what to do", content, "explain_interventions")
        )
    looks = [
        {
            "dataset": dataset,
            "look": look,
            "shots": tuple(_thumbnails(dataset, look.typical, images).values()),
        }
        for dataset, of_dataset in explanation.looks.items()
        for look in of_dataset
    ]
    if looks:
        sections.append(Section("looks", "How images look", {"looks": looks}, "explain_looks"))
    return sections


def _thumbnails(dataset: str, keys: Sequence[str], images: FindImages | None) -> dict[str, Thumbnail]:
    """Return small pictures by key; none where they cannot be read."""
    try:
        loaded = [] if images is None else images(dataset, list(keys))
    except UserError:
        loaded = []  # the section with the tasks says why there are no pictures
    return {key: Thumbnail(thumbnail(image), key) for key, image in zip(keys, loaded, strict=False)}


def _exchanges(dataset: str, examples: Sequence[Exchange], images: FindImages | None) -> list[dict[str, Any]]:
    """Show the supports of some tasks, and the pictures in their place or beside them."""
    shown = []
    for each in examples:
        sides = each.removed[:MAX_SUPPORT], each.added[:MAX_SUPPORT]
        pictures = _thumbnails(dataset, list(dict.fromkeys([*sides[0], *sides[1]])), images)
        removed, added = (tuple(pictures[key] for key in side if key in pictures) for side in sides)
        about = {"task": each.task, "class_name": each.class_name, "towards": each.towards}
        shown.append({**about, "removed": removed, "added": added})
    return shown


def _plot(beds: Mapping[str, Sequence[Composition]], number: int) -> str:
    """Plot each yes/no column's support minus queries in points, a dot per testbed: the paper's figure 5."""
    shares: dict[tuple[str, str], dict[str, Composition]] = {}
    for bed, columns in beds.items():
        for column in columns:
            if column.value is not None:
                shares.setdefault((column.attribute, column.value), {})[bed] = column
    widest = sorted(
        shares.items(), key=lambda share: -max(abs(column.gap.mean) for column in share[1].values())
    )
    rows = []
    for (attribute, value), by_bed in widest[:_PLOTTED]:
        for index, bed in enumerate(beds):
            if bed in by_bed:
                gap = by_bed[bed].gap
                low, high = (None, None) if gap.low is None else (100 * gap.low, 100 * (gap.high or 0))
                label = f"{attribute} = {value}" + (f" · {bed}" if len(beds) > 1 else "")
                rows.append(EstimateRow(index, label, 100 * gap.mean, low, high, points(gap.mean)))
    if not rows:
        return ""
    return intervals(rows, xlabel="support minus queries, points", prefix=f"gap{number}", zero=True)


def _tasks(
    explanation: Explanation, testbed: Testbed, images: FindImages | None, count: int
) -> dict[str, Any]:
    shown, problem = [], None
    hardest = [task for task in explanation.hardest() if task.findings or task.attractions][:count]
    with progress("pictures", total=len(hardest), unit="tasks") as bar:
        for task in hardest:
            try:
                evidence = [_pictured(task, each, testbed, images) for each in task.findings[:_MOST_FINDINGS]]
            except UserError as error:
                problem = f"No pictures: {error}"
                evidence = [_pictured(task, each, testbed, None) for each in task.findings[:_MOST_FINDINGS]]
            shown.append(
                {
                    "explained": task,
                    "evidence": evidence,
                    "more": len(task.findings) - len(evidence),
                    "attractions": attraction_sentences(task),
                }
            )
            bar.advance()
    silent = sum(not task.findings for task in explanation.tasks)
    return {"tasks": shown, "problem": problem, "silent": silent}


def _pictured(
    explained: TaskExplanation, finding: Finding, testbed: Testbed, images: FindImages | None
) -> dict[str, Any]:
    """Show the support and the queries of the class where the finding is widest."""
    task = testbed[explained.task]
    support = [task.support[i] for i in np.flatnonzero(task.support_label == finding.worst)][:MAX_SUPPORT]
    query = [task.query[i] for i in np.flatnonzero(task.query_label == finding.worst)][:MAX_QUERY]
    pictures: dict[str, str] = {}
    if images is not None:
        every = list(dict.fromkeys([*support, *query]))
        pictures = dict(zip(every, map(thumbnail, images(task.dataset, every)), strict=True))
    sides = {"support": support, "query": query}
    return {
        "sentence": finding.sentence,
        "symptoms": say_symptoms(finding),
        "adjusted": finding.adjusted,
        "class_name": explained.classes[finding.worst],
        **{
            side: [Thumbnail(pictures[key], key) for key in keys if key in pictures]
            for side, keys in sides.items()
        },
    }

"""The page of an explanation: causes over the testbed, what supports consist of, and the evidence task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import UserError, progress
from longshot.diagnosis.composition import Composition
from longshot.diagnosis.explanation import Explanation, TaskExplanation
from longshot.diagnosis.findings import Finding
from longshot.diagnosis.intervention_words import account_rows, intervention_rows
from longshot.diagnosis.interventions import Intervention
from longshot.diagnosis.words import (
    attraction_sentences,
    cause_rows,
    composition_rows,
    say_correlation,
    say_symptoms,
)
from longshot.reports import (
    MAX_QUERY,
    MAX_SUPPORT,
    EstimateRow,
    FindImages,
    Section,
    Thumbnail,
    bed_facts,
    intervals,
    thumbnail,
    write_page,
)

if TYPE_CHECKING:
    from longshot.tasks import Task, Testbed

_PLOTTED = 10  # columns in the plot of gaps
_MOST_FINDINGS = 4  # of a task, with pictures
_MOST_EXCHANGES = 2  # of a cause that was taken away, with pictures


@dataclass(frozen=True)
class _Evidence:
    """One finding with the pictures of the class in which it is best seen."""

    sentence: str
    symptoms: str
    adjusted: float
    class_name: str
    support: tuple[Thumbnail, ...]
    query: tuple[Thumbnail, ...]


def render_explanation(
    explanation: Explanation, testbed: Testbed, *, images: FindImages | None = None, tasks: int = 8
) -> str:
    """One self-contained page; ``images`` finds the pictures, of the ``tasks`` hardest tasks."""
    compared = [
        {
            "dataset": dataset,
            "rows": composition_rows(explanation.beside(dataset), most=24),
            "plot": _plot(explanation.beside(dataset), number),
        }
        for number, dataset in enumerate(explanation.compositions)
    ]
    name, together = explanation.name, explanation.loss_and_accuracy
    sections = [
        Section(
            "causes",
            "What recurs",
            {
                "rows": cause_rows(explanation),
                "explained": sum(bool(task.findings) for task in explanation.tasks),
                "tasks": len(explanation.tasks),
                "notes": explanation.notes,
                "correlation": say_correlation(together) if together else None,
            },
            "explain_causes",
        ),
        *_interventions(explanation, images),
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
    """What came back when causes were taken away; nothing where none was."""
    if not explanation.accounts:
        return []
    tried = [
        {
            "sentence": each.sentence,
            "notes": each.notes,
            "holds": each.holds,
            "exchanges": _exchanges(each, images),
        }
        for each in explanation.interventions
    ]
    content = {
        "accounts": [account.sentence for account in explanation.accounts],
        "shares": account_rows(explanation.accounts),
        "rows": intervention_rows(explanation.interventions),
        "tried": tried,
    }
    return [Section("interventions", "Causes taken away", content, "explain_interventions")]


def _exchanges(tried: Intervention, images: FindImages | None) -> list[dict[str, Any]]:
    """The pictures that left and those that came, in the first tasks in which the cause was taken away."""
    if not tried.holds and tried.recovered is None:
        return []
    shown = []
    for each in tried.examples[:_MOST_EXCHANGES]:
        keys = [*each.removed[:MAX_SUPPORT], *each.added[:MAX_SUPPORT]]
        try:
            loaded = [] if images is None else images(tried.dataset, keys)
        except UserError:
            loaded = []  # the section with the tasks says why there are no pictures
        pictures = dict(zip(keys, map(thumbnail, loaded), strict=False))
        sides = (each.removed, each.added)
        removed, added = (
            tuple(Thumbnail(pictures[key], key) for key in side if key in pictures) for side in sides
        )
        shown.append(
            {
                "task": each.task,
                "class_name": each.class_name,
                "towards": each.towards,
                "removed": removed,
                "added": added,
            }
        )
    return shown


def _plot(beds: Mapping[str, Sequence[Composition]], number: int) -> str:
    """Gap of every yes/no column, support minus queries in points, one dot per testbed: the paper's figure 5."""
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
                rows.append(EstimateRow(index, label, 100 * gap.mean, low, high, f"{100 * gap.mean:+.1f}"))
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
                evidence = _evidence(task, testbed, images)
            except UserError as error:
                problem = f"No pictures: {error}"
                evidence = _evidence(task, testbed, None)
            shown.append(
                {
                    "task": task.task,
                    "dataset": task.dataset,
                    "accuracy": task.accuracy,
                    "evidence": evidence,
                    "more": len(task.findings) - len(evidence),
                    "attractions": attraction_sentences(task),
                }
            )
            bar.advance()
    return {
        "tasks": shown,
        "problem": problem,
        "silent": sum(not task.findings for task in explanation.tasks),
    }


def _evidence(task: TaskExplanation, testbed: Testbed, images: FindImages | None) -> list[_Evidence]:
    return [
        _pictured(task, finding, testbed[task.task], images) for finding in task.findings[:_MOST_FINDINGS]
    ]


def _pictured(
    explained: TaskExplanation, finding: Finding, task: Task, images: FindImages | None
) -> _Evidence:
    """The support and the queries of the class where the finding is widest."""
    support = [task.support[i] for i in np.flatnonzero(task.support_label == finding.worst)][:MAX_SUPPORT]
    query = [task.query[i] for i in np.flatnonzero(task.query_label == finding.worst)][:MAX_QUERY]
    pictures: dict[str, str] = {}
    if images is not None:
        keys = list(dict.fromkeys([*support, *query]))
        pictures = dict(zip(keys, map(thumbnail, images(task.dataset, keys)), strict=True))
    return _Evidence(
        finding.sentence,
        say_symptoms(finding),
        finding.adjusted,
        explained.classes[finding.worst],
        tuple(Thumbnail(pictures[key], key) for key in support if key in pictures),
        tuple(Thumbnail(pictures[key], key) for key in query if key in pictures),
    )

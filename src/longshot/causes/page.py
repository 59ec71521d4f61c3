"""The page of an explanation: causes over the testbed, what supports consist of, and the evidence task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.causes.composition import Composition
from longshot.causes.explain import Explained, TaskExplained
from longshot.causes.findings import Finding
from longshot.causes.words import attraction_sentences, cause_rows, composition_rows, say_correlation
from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.reports.charts import EstimateRow, intervals
from longshot.reports.frame import asset, environment
from longshot.reports.pictures import MAX_QUERY, MAX_SUPPORT, FindImages, Thumbnail, thumbnail
from longshot.reports.testbed_page import PageSection

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Task, Testbed

_PLOTTED = 10  # columns in the plot of gaps


@dataclass(frozen=True)
class _Evidence:
    """One finding with the pictures of the class in which it is best seen."""

    sentence: str
    adjusted: float
    class_name: str
    support: tuple[Thumbnail, ...]
    query: tuple[Thumbnail, ...]


def render_explanation(
    found: Explained,
    testbed: Testbed,
    *,
    name: str,
    others: Mapping[str, Mapping[str, Sequence[Composition]]] | None = None,
    images: FindImages | None = None,
    tasks: int = 8,
) -> str:
    """One self-contained page. ``others`` are the compositions of further testbeds on the same queries, by name."""
    beds = {name: found.compositions, **(others or {})}
    compared = [
        {
            "dataset": dataset,
            "rows": composition_rows(
                {bed: sets[dataset] for bed, sets in beds.items() if dataset in sets}, most=24
            ),
            "plot": _plot({bed: sets[dataset] for bed, sets in beds.items() if dataset in sets}, number),
        }
        for number, dataset in enumerate(found.compositions)
    ]
    sections = [
        PageSection(
            "causes",
            "What recurs",
            "explain_causes.html.j2",
            {
                "rows": cause_rows(found),
                "explained": sum(bool(one.findings) for one in found.tasks),
                "tasks": len(found.tasks),
                "notes": found.notes,
                "correlation": say_correlation(found.loss_and_accuracy) if found.loss_and_accuracy else None,
            },
        ),
        PageSection(
            "composition", "Support against queries", "explain_composition.html.j2", {"sources": compared}
        ),
        PageSection("tasks", "Task by task", "explain_tasks.html.j2", _tasks(found, testbed, images, tasks)),
    ]
    templates = environment()
    ways, shots = testbed.table.column("way").to_numpy(), testbed.column("shots").values
    page = templates.get_template("page.html.j2").render(
        title=f"Why the tasks of {name} are hard",
        bodies=[(one, templates.get_template(one.template).render(one.context)) for one in sections],
        style=asset("style.css") + asset("testbed.css"),
        script="",
        counts=[f"{len(found.tasks):,} tasks", f"{len(found.causes):,} attributes"],
        unfinished=[],
        beds=[
            {
                "name": name,
                "tasks": len(testbed),
                "way": _range(ways.min(), ways.max()),
                "shot": _range(shots.min(), shots.max()),
                "hash": testbed.content_hash,
            }
        ],
        backbones=[],
        methods=[],
    )
    # A lone surrogate (a file name that is not UTF-8) must not make the page unwritable.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def _plot(beds: Mapping[str, Sequence[Composition]], number: int) -> str:
    """Gap of every yes/no column, support minus queries in points, one dot per testbed: the paper's figure 5."""
    shares = [one for rows in beds.values() for one in rows if one.value is not None]
    widest: dict[tuple[str, str | None], float] = {}
    for one in shares:
        key = (one.attribute, one.value)
        widest[key] = max(widest.get(key, 0.0), abs(one.gap.mean))
    kept = sorted(widest, key=lambda key: -widest[key])[:_PLOTTED]
    rows = []
    for key in kept:
        for index, (bed, columns) in enumerate(beds.items()):
            match = [one for one in columns if (one.attribute, one.value) == key]
            if match:
                gap = match[0].gap
                low, high = (None, None) if gap.low is None else (100 * gap.low, 100 * (gap.high or 0))
                label = f"{key[0]} = {key[1]}" + (f" · {bed}" if len(beds) > 1 else "")
                rows.append(EstimateRow(index, label, 100 * gap.mean, low, high, f"{100 * gap.mean:+.1f}"))
    if not rows:
        return ""
    return intervals(rows, xlabel="support minus queries, points", prefix=f"gap{number}", zero=True)


def _tasks(found: Explained, testbed: Testbed, images: FindImages | None, count: int) -> dict[str, Any]:
    shown, problem = [], None
    hardest = [one for one in found.hardest() if one.findings or one.attractions][:count]
    with progress("pictures", total=len(hardest), unit="tasks") as bar:
        for one in hardest:
            evidence: list[_Evidence] = []
            try:
                evidence = [
                    _evidence(one, finding, testbed[one.task], images) for finding in one.findings[:4]
                ]
            except UserError as error:
                problem = f"No pictures: {error}"
                evidence = [_evidence(one, finding, testbed[one.task], None) for finding in one.findings[:4]]
            shown.append(
                {
                    "task": one.task,
                    "dataset": one.dataset,
                    "accuracy": one.accuracy,
                    "evidence": evidence,
                    "more": len(one.findings) - len(evidence),
                    "attractions": attraction_sentences(one),
                }
            )
            bar.advance()
    return {"tasks": shown, "problem": problem, "silent": sum(not one.findings for one in found.tasks)}


def _evidence(one: TaskExplained, finding: Finding, task: Task, images: FindImages | None) -> _Evidence:
    """The support and the queries of the class where the finding is widest."""
    support = [task.support[i] for i in np.flatnonzero(task.support_label == finding.worst)][:MAX_SUPPORT]
    query = [task.query[i] for i in np.flatnonzero(task.query_label == finding.worst)][:MAX_QUERY]
    pictures: dict[str, str] = {}
    if images is not None:
        keys = list(dict.fromkeys([*support, *query]))
        pictures = dict(zip(keys, map(thumbnail, images(task.dataset, keys)), strict=True))
    return _Evidence(
        finding.sentence,
        finding.adjusted,
        one.classes[finding.worst],
        tuple(Thumbnail(pictures[key], key) for key in support if key in pictures),
        tuple(Thumbnail(pictures[key], key) for key in query if key in pictures),
    )


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"

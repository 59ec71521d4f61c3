"""Pages of a competition: what they are made of, and the details of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from longshot.arena import figures
from longshot.arena.inside.scoring import METRICS, with_half
from longshot.arena.settings import marks
from longshot.reports import frame

Facts: TypeAlias = tuple[str, Sequence[tuple[str, str]]]  # a name with its fields and their texts

_NOTES = {
    "All tasks": "Means over tasks with their 95 % intervals (Student's t). Normalised accuracy is 0 for guessing "
    "and 1 for no mistake. So few tasks that their interval is wider than that have none here.",
    "By dataset": "What a dataset leaves to 1 is its intrinsic difficulty for this method; how much the choice of "
    "method matters there is on the leaderboard's page.",
}


@dataclass(frozen=True)
class PagePart:
    """A heading with what stands under it: a sentence, a table, plots with their legend, sheets of named texts."""

    heading: str
    note: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    texts: int = 1  # columns from the left that hold text; the others are numbers
    plots: Sequence[str] = ()
    legend: Sequence[tuple[int, str]] = ()
    squares: bool = False  # the legend is of areas, not of lines with their markers
    facts: Sequence[Facts] = ()


def run_title(folder: Path) -> str:
    """What the page of a run is called: "Submission 3" in a competition, elsewhere as the folder it is written to.

    >>> run_title(Path("cup/submissions/000003/seed-1")), run_title(Path("tried"))
    ('Submission 3', 'tried')
    """
    entry = folder.parent.name
    return f"Submission {int(entry)}" if entry.isdecimal() else folder.resolve().name


def details_page(title: str, scores: Mapping[str, Any]) -> str:
    """One run: all metrics overall, by dataset, by ways and by shots, with 95 % intervals over tasks."""
    names = [metric.replace("normalized", "normalised").replace("_", " ") for metric in METRICS]
    parts = []
    for heading, groups in (
        ("All tasks", {"all": scores["overall"]}),
        ("By dataset", scores["by_dataset"]),
        ("By number of classes", scores["by_ways"]),
        ("By number of shots", scores["by_shots"]),
    ):
        rows = [
            [
                name,
                str(values["tasks"]),
                *(with_half(values[metric], values[f"{metric}_ci95"]) for metric in METRICS),
            ]
            for name, values in groups.items()
        ]
        plots = []
        if heading == "By dataset":
            plots = [figures.means(groups, "dataset", one_colour=True)]
        elif heading.startswith("By number") and len(groups) > 1:
            label = heading.removeprefix("By ")
            plots = [figures.curves({"this run": groups}, label, label[-5:])]
        parts.append(PagePart(heading, _NOTES.get(heading, ""), ["", "tasks", *names], rows, plots=plots))
    took = f"{scores['meta_training_seconds']:,.1f} s of meta-training, {scores['duration']:,.1f} s in all"
    official = [] if scores["official"] else ["unofficial: run without a sandbox"]
    facts = [f"phase {scores['phase']}, seed {scores['seed']}", took, *official, *marks(scores)]
    return render(title, " · ".join(facts), parts)


def render(title: str, subtitle: str, parts: Sequence[PagePart]) -> str:
    """The page; the template escapes all texts."""
    template = frame.environment().get_template("competition.html.j2")
    return template.render(title=title, subtitle=subtitle, parts=parts, style=frame.asset("style.css"))

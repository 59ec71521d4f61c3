"""Pages of scores: what they are made of, their figures, the details of one run, how difficult the datasets were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from longshot.arena.inside.blind_tasks import METRICS, BlindTask, TaskScore, telling_half
from longshot.arena.settings import marks
from longshot.base import Record, read_json, write_json
from longshot.reports import (
    INK,
    SERIES,
    WIDTH,
    Sheet,
    charts,
    frame,
    heads,
    new_axes,
    new_figure,
    percent_axis,
    row,
    shorten,
    to_svg,
)
from longshot.statistics import (
    DatasetDifficulty,
    dataset_difficulty,
    percent,
    plus_minus,
    unpaired_difficulty,
)

MAIN = METRICS[0]
AXIS = "normalised accuracy (%)"
SHOWN = 8  # teams drawn in the figures: more colours cannot be told apart
LEGEND = (
    (0, "worst entry"),
    (1, "modelling difficulty: best − worst"),
    (6, "intrinsic difficulty: 100 − best"),
)


class Difficulty(NamedTuple):
    """Scores of the worst and the best entry on a dataset; ``half`` of the 95 % interval of the best."""

    name: str
    worst: float
    best: float
    half: float | None = None


def means_figure(groups: Mapping[str, Any], prefix: str, *, one_colour: bool = False) -> str:
    """Mean with its 95 % interval per name; 0, which is guessing, stays in view (figure 1 of the paper)."""
    rows = []
    for index, (name, values) in enumerate(groups.items()):
        mean, half = 100 * values[MAIN], telling_half(values, MAIN)
        low, high = (None, None) if half is None else (mean - 100 * half, mean + 100 * half)
        note = plus_minus(values[MAIN], half)
        rows.append(charts.EstimateRow(0 if one_colour else index, name, mean, low, high, note))
    return charts.intervals(rows, xlabel=AXIS, prefix=prefix, zero=True)


def curves_figure(series: Mapping[str, Mapping[str, Any]], xlabel: str, prefix: str) -> str:
    """Mean over a number of classes or shots, one line per name (figure 2)."""
    lines = [curve(index, name, groups) for index, (name, groups) in enumerate(series.items())]
    return charts.rolling(lines, xlabel=xlabel, ylabel=AXIS, prefix=prefix)


def curve(index: int, label: str, groups: Mapping[str, Any]) -> charts.Curve:
    """Mean over x with the band of its interval; NaN, no thin band, where a group has too few tasks."""
    keys = sorted(groups, key=int)
    values = np.array([groups[key][MAIN] for key in keys])
    halves = np.array([telling_half(groups[key], MAIN) for key in keys], np.float64)  # None becomes NaN
    return charts.Curve(index, label, np.array(keys, np.float64), values, values - halves, values + halves)


def history_parts(steps: Iterable[tuple[str, float]]) -> list[PagePart]:
    """Draw the scores of every team in the order of its submissions; nothing where no team has two."""
    by_team: dict[str, list[float]] = {}
    for team, score in steps:
        by_team.setdefault(team, []).append(score)
    if max(map(len, by_team.values()), default=0) < 2:
        return []
    teams = sorted(by_team, key=lambda team: -by_team[team][-1])[:SHOWN]
    curves = [
        charts.Curve(index, team, np.arange(1.0, 1 + len(by_team[team])), np.array(by_team[team]))
        for index, team in enumerate(teams)
    ]
    plot = charts.rolling(curves, xlabel="submission of the team", ylabel=AXIS, prefix="history")
    note = "Every valid submission, team by team."
    return [PagePart("Scores in their order", note, plots=[plot], legend=list(enumerate(teams)))]


def difficulty_figure(datasets: Sequence[Difficulty], prefix: str) -> str:
    """Draw bars from 0 to 100 per dataset: the worst entry, up to the best, and what the best leaves (figure 3)."""
    height = 40
    with new_figure(height * len(datasets) + 46) as figure:
        axes = new_axes(figure, (12, 12, 2, 40))
        lowest = min(0.0, *(100 * dataset.worst for dataset in datasets))
        axes.set_xlim(lowest, 100)
        axes.set_ylim(-height * len(datasets), 0)
        for position, dataset in enumerate(datasets):
            base = -position * height - height + 11
            ends = [min(0.0, 100 * dataset.worst), 100 * dataset.worst, 100 * dataset.best, 100.0]
            for (colour, _), start, end in zip(LEGEND, ends, ends[1:], strict=False):
                axes.barh(base, end - start, left=start, height=11, color=SERIES[colour])
            if dataset.half is not None:
                reach = [ends[2] - 100 * dataset.half, ends[2] + 100 * dataset.half]
                axes.plot(reach, [base, base], color=INK, linewidth=1.5)
            across = axes.get_yaxis_transform()
            note = f"{percent(dataset.worst)} / {plus_minus(dataset.best, dataset.half)}"
            room = int((WIDTH - 32 - 6.5 * len(note)) / 7.5)
            style = {"transform": across, "color": INK, "fontsize": 11, "va": "bottom"}
            axes.text(0, base + 8, shorten(dataset.name, room), **style)
            axes.text(1, base + 8, note, ha="right", **style)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(AXIS)
        percent_axis(axes.xaxis)
        spans = "; ".join(f"{each.name} {percent(each.worst)} to {percent(each.best)}" for each in datasets)
        return to_svg(figure, prefix, f"Worst and best entry by dataset: {spans}")


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

    @property
    def sheet(self) -> Sheet:
        """Return the rows as a table."""
        body = [row(*map(str, line)) for line in self.rows]
        return Sheet("", heads(*self.columns), [body], "", self.texts, "metrics headed", self.heading)


def run_title(folder: Path) -> str:
    """Name the page of a run: "Submission 3" in a competition, elsewhere as the folder it is written to.

    >>> run_title(Path("cup/submissions/000003/seed-1")), run_title(Path("tried"))
    ('Submission 3', 'tried')
    """
    entry = folder.parent.name
    return f"Submission {int(entry)}" if entry.isdecimal() else folder.resolve().name


def details_parts(scores: Mapping[str, Any]) -> list[PagePart]:
    """Show the results of one run: all metrics overall, by dataset, ways and shots, with 95 % intervals over tasks."""
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
                *(plus_minus(values[metric], telling_half(values, metric), "plain", 4) for metric in METRICS),
            ]
            for name, values in groups.items()
        ]
        plots = []
        if heading == "By dataset":
            plots = [means_figure(groups, "dataset", one_colour=True)]
        elif heading.startswith("By number") and len(groups) > 1:
            label = heading.removeprefix("By ")
            plots = [curves_figure({"this run": groups}, label, label[-5:])]
        parts.append(PagePart(heading, _NOTES.get(heading, ""), ["", "tasks", *names], rows, plots=plots))
    return parts


def details_page(title: str, scores: Mapping[str, Any]) -> str:
    """Write the page of one run."""
    took = f"{scores['meta_training_seconds']:,.1f} s of meta-training, {scores['duration']:,.1f} s in all"
    official = [] if scores["official"] else ["unofficial: run without a sandbox"]
    facts = [f"phase {scores['phase']}, seed {scores['seed']}", took, *official, *marks(scores)]
    return render(title, " · ".join(facts), details_parts(scores))


def render(title: str, subtitle: str, parts: Sequence[PagePart]) -> str:
    """Render the page; the template escapes all texts."""
    template = frame.environment().get_template("competition.html.j2")
    return template.render(title=title, subtitle=subtitle, parts=parts, style=frame.asset("style.css"))


TASK_SCORES = "task_scores.json"  # beside scores.json, for the organiser alone


class TaskRecord(Record):
    """Normalised accuracy of one run task by task, in the order of its tasks."""

    draw: str  # digest over the tasks: equal where two runs answered the same
    dataset: tuple[str, ...]
    normalized_accuracy: tuple[float, ...]


@dataclass(frozen=True)
class PhaseDifficulty:
    """The datasets of a phase seen through all its entries."""

    entries: tuple[str, ...]  # names, in the order that ``best`` and ``worst`` count in
    datasets: tuple[DatasetDifficulty, ...]
    paired: bool  # all entries answered the same tasks
    left_out: int  # entries whose runs have no record


def write_record(folder: Path, tasks: Sequence[BlindTask], scored: Sequence[TaskScore]) -> None:
    """Keep what a run scored in each task."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(f"{task.dataset} {task.ways} {task.shots} ".encode())
        for rows in (task.support, task.support_label, task.query):
            digest.update(np.ascontiguousarray(rows, np.int64).tobytes())
    record = TaskRecord(
        draw=digest.hexdigest(),
        dataset=tuple(score.dataset for score in scored),
        normalized_accuracy=tuple(score.scores[METRICS[0]] for score in scored),
    )
    write_json(folder / TASK_SCORES, record.model_dump())


def read_records(folders: Sequence[Path]) -> list[TaskRecord] | None:
    """Read the records of an entry's runs, one per seed; None where one is missing."""
    paths = [folder / TASK_SCORES for folder in folders]
    if not all(path.is_file() for path in paths):
        return None
    return [read_json(TaskRecord, path, "The record of a run's tasks") for path in paths]


def phase_difficulty(entries: Mapping[str, Sequence[TaskRecord] | None]) -> PhaseDifficulty | None:
    """Measure intrinsic (1 − best) and modelling (best − worst) difficulty of every dataset over all entries.

    The mean of an entry is that over the tasks of all its runs. Where all entries answered the same tasks the interval
    of best − worst is that of the paired difference, otherwise Welch's.

    Parameters
    ----------
    entries : mapping
        Name of an entry → its records, one per seed; None where it has none.

    Returns
    -------
    PhaseDifficulty or None
        Of the datasets that all entries have tasks of; None where there are none.
    """
    recorded = {name: list(records) for name, records in entries.items() if records}
    if not recorded:
        return None
    tasks = [
        [pair for run in runs for pair in zip(run.dataset, run.normalized_accuracy, strict=True)]
        for runs in recorded.values()
    ]
    shared = set.intersection(*({dataset for dataset, _ in pairs} for pairs in tasks))
    names = [[dataset for dataset, _ in pairs if dataset in shared] for pairs in tasks]
    scores = [[score for dataset, score in pairs if dataset in shared] for pairs in tasks]
    paired = len({tuple(run.draw for run in runs) for runs in recorded.values()}) == 1
    if not shared:
        return None
    datasets = (
        dataset_difficulty(np.array(scores).T, names[0]) if paired else unpaired_difficulty(scores, names)
    )
    ordered = sorted(datasets, key=lambda dataset: dataset.dataset)
    return PhaseDifficulty(tuple(recorded), tuple(ordered), paired, len(entries) - len(recorded))

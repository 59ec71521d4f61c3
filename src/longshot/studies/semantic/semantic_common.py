"""What the studies of tasks by meaning share: settings, the methods on a testbed, printed numbers, who leads.

And their pictures: coarsity, class balance, accuracy by coarsity, quartile and ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from longshot.base import Floats
from longshot.models import find_variant, get_method
from longshot.reports import PublishedNumber, Sheet, heads, published, row
from longshot.statistics import Rolling, plus_minus, quantile_bins, rolling_mean
from longshot.studies.engine.claims import Measured, NotMeasured, clean_mean, of_values
from longshot.studies.engine.comparisons import Methods, StudySettings, Text, method_calls
from longshot.studies.engine.lab import numbers
from longshot.studies.engine.study_page import axes_of, means_and_halves
from longshot.studies.engine.study_tables import TableColumn, TableRow

if TYPE_CHECKING:
    from longshot.studies.engine.lab import Lab
    from longshot.tasks import Testbed


KINDS = ("semantic", "uniform")
KEYS = ("testbed", "part", "way", "shot", "metric")
PAPER = "semantic"


class TestbedSettings(StudySettings):
    """Settings that studies of testbeds and methods share."""

    __test__ = False
    query: int = Field(ge=1, description="Query images per class")
    split: Text | None = Field(description="Classes that tasks are drawn from: a split, or null for all")
    drop_small: bool = Field(description="Leave out classes with too few images")
    methods: Methods = Field(description="'all', or methods that solve the tasks")
    variant: Literal["semantic-paper"] | None = Field(
        description="semantic-paper: the paper's methods as its authors ran them; null: Longshot's defaults"
    )
    backbone: Text = Field(description="Backbone whose features the methods see")

    @property
    def calls(self) -> list[str]:
        """List the methods as calls, those of the variant with its settings."""
        own = {} if self.variant is None else paper_calls()
        return list(dict.fromkeys(own.get(call, call) for call in method_calls(self.methods)))


@dataclass(frozen=True, eq=False)
class MethodScores:
    """One method on one testbed; all arrays [T] by task, shares in 0 … 1."""

    method: str
    setting: str
    accuracy: Floats
    top5: Floats
    coarsity: Floats | None  # None where the dataset has no taxonomy


def entries(lab: Lab[Any, Any], testbed: str) -> list[MethodScores]:
    """List the methods of the study on a testbed, inductive ones first."""
    settings, scores = lab.settings, lab.scores
    coarsity = (
        scores.column(testbed, "coarsity") if "coarsity" in lab.testbeds[testbed].table.column_names else None
    )
    return [
        MethodScores(
            method,
            scores.setting(method),
            scores.values(testbed, settings.backbone, method),
            scores.values(testbed, settings.backbone, method, "top5"),
            coarsity,
        )
        for method in scores.by_setting(settings.calls)
    ]


def method_rows(listed: Sequence[MethodScores], backbone: str) -> list[TableRow]:
    """Make a row per method; each setting is ranked by itself."""
    return [
        TableRow(
            (entry.method, entry.setting),
            entry.setting,
            {"backbone": backbone, "method": entry.method, "setting": entry.setting},
        )
        for entry in listed
    ]


def leader(listed: Sequence[MethodScores], setting: str, tasks: slice = slice(None)) -> MethodScores | None:
    """Find the method of a setting with the highest mean accuracy over some of the tasks."""
    candidates = [entry for entry in listed if entry.setting == setting]
    return max(candidates, key=lambda entry: clean_mean(entry.accuracy[tasks]), default=None)


def paper_entries(lab: Lab[Any, Any], testbed: str) -> list[MethodScores]:
    """Return the paper's own methods on a testbed, whatever their settings; NotMeasured where the study has none."""
    own = {call.partition("(")[0] for call in paper_calls()}
    listed = [entry for entry in entries(lab, testbed) if entry.method.partition("(")[0] in own]
    if not listed:
        raise NotMeasured(f"the study has none of the paper's methods, {', '.join(sorted(own))}")
    return listed


def transduction(
    listed: Sequence[MethodScores], label: str, printed: Mapping[str, float] | None = None
) -> Measured:
    """Return the best transductive method minus the best inductive one, paired by task.

    Both are chosen on every other task and compared on the rest, so that the choice does not favour either. ``printed``
    are the paper's means by method: the difference of the same two stands beside.
    """
    first, second, gain = transductive_gain(listed)
    theirs = printed or {}
    printed_pair = first in theirs and second in theirs
    difference = round(theirs[first] - theirs[second], 6) if printed_pair else None
    return of_values(f"{label}: {first} − {second}", gain, difference)


def transductive_gain(listed: Sequence[MethodScores]) -> tuple[str, str, Floats]:
    """Return the two methods of :func:`transduction`, and their difference on each task of the comparison."""
    first, second = (leader(listed, setting, slice(0, None, 2)) for setting in ("transductive", "inductive"))
    if first is None or second is None:
        raise NotMeasured("the study needs a transductive and an inductive method for it")
    return first.method, second.method, (first.accuracy - second.accuracy)[1::2]


# --- testbeds by meaning ---


def quartile_of(entry: MethodScores, quartile: int | None) -> Floats:
    """Return the accuracy of the tasks of one quartile by coarsity (0 … 3), or of all tasks for None."""
    if quartile is None:
        return entry.accuracy
    assert entry.coarsity is not None
    accuracy: Floats = entry.accuracy[quantile_bins(entry.coarsity, 4) == quartile]
    return accuracy


def coarsities(testbed: Testbed) -> Floats:
    """Return the coarsity of each task [T]."""
    return numbers(testbed.table, "coarsity")


def class_ids_of(testbeds: Iterable[Testbed]) -> list[str]:
    """List the ids of the classes that occur in at least one of the testbeds, sorted."""
    tasks = (task for testbed in testbeds for task in testbed.table["classes"].to_pylist())
    return sorted({class_id for task in tasks for class_id in task})


def class_counts(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """Count the tasks in which each of the classes occurs [C]."""
    counts = Counter(class_id for task in testbed.table["classes"].to_pylist() for class_id in task)
    return np.array([counts[class_id] for class_id in class_ids], np.float64)


def appearances(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """Count the tasks in which each of the classes occurs, descending [C]."""
    return np.sort(class_counts(testbed, class_ids))[::-1]


# --- the paper's numbers ---


def paper_calls() -> dict[str, str]:
    """Map each method to its call with the authors' settings; a plain name where the defaults do the same."""
    paper = published(PAPER)
    by_name = {call.partition("(")[0]: call for call in find_variant(paper.variant).calls}
    numbers = {number.method: number for number in paper.numbers}
    return {
        name: name if numbers[name].alike(get_method(name).settings) else call
        for name, call in by_name.items()
    }


def printed_by_method(**fields: Any) -> dict[str, float]:
    """Call of a method with the authors' settings → the paper's mean for one column of its tables."""
    calls = paper_calls()
    return {calls[number.method]: number.mean for number in published(PAPER).select(**fields)}


def printed_difference(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Map each method that two printed columns share to their difference."""
    return {method: round(first[method] - second[method], 6) for method in first if method in second}


def printed_sheet(title: str, numbers: Sequence[PublishedNumber], columns: Sequence[TableColumn]) -> Sheet:
    """Lay printed numbers out like a measured table; each column's facts say which numbers are its own."""
    paper = published(PAPER)
    calls = paper_calls()
    by_key = {(number.method, *(getattr(number, key) for key in KEYS)): number for number in numbers}
    methods = dict.fromkeys((number.setting, number.method) for number in numbers)
    blocks = [
        [
            row(
                calls[method],
                setting,
                *(_text(by_key.get((method, *(c.facts[key] for key in KEYS)))) for c in columns),
            )
            for kind, method in methods
            if kind == setting
        ]
        for setting in ("inductive", "transductive")
    ]
    note = (
        f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks; not measured here. "
        f"The methods have their authors' settings (variant '{paper.variant}')."
    )
    names = [*heads("method", "setting"), *((column.group, column.head) for column in columns)]
    return Sheet(f"Published: {paper.source['short']}, {title}", names, blocks, note)


def _text(number: PublishedNumber | None) -> str:
    return "–" if number is None else plus_minus(number.mean, number.half, digits=2)


KIND_COLOURS = {"uniform": "#3b6fb6", "semantic": "#c8412b"}
_COLOURS = ("#c8412b", "#3b6fb6", "#8a6d1b", "#6b4c9a")
_GREY: dict[str, Any] = {"color": "#bbbbbb", "linewidth": 0.9, "zorder": 1}


def draw_histograms(coarsity: Mapping[str, Floats], path: Path) -> None:
    """Draw the coarsity of the tasks of each testbed, as shares of its tasks (the paper's figure 1)."""
    low = min(float(values.min()) for values in coarsity.values())
    high = max(float(values.max()) for values in coarsity.values())
    edges = np.linspace(low, high if high > low else low + 1, 41)
    with axes_of(path) as axes:
        for kind, values in coarsity.items():
            weights = np.full(len(values), 100 / len(values))
            label = f"{kind} (mean {values.mean():.1f})"
            axes.hist(values, edges, weights=weights, color=KIND_COLOURS[kind], alpha=0.55, label=label)
        axes.set(xlabel="coarsity of a task (low: classes close in meaning)", ylabel="tasks (%)")
        axes.set_title("How coarse the tasks are")
        axes.legend()


def draw_balance(shares: Mapping[str, Floats], way: int, path: Path) -> None:
    """Draw the share of tasks that each class occurs in, most frequent first (the paper's figure 3)."""
    count = len(next(iter(shares.values())))
    even = 100 * way / count
    dashed: dict[str, Any] = {"color": "#666666", "linestyle": (0, (3, 3)), "linewidth": 1}
    with axes_of(path) as axes:
        for kind, values in shares.items():
            ranks = np.arange(1, len(values) + 1)
            style = {"color": KIND_COLOURS[kind], "drawstyle": "steps-mid", "linewidth": 1.6}
            axes.plot(ranks, 100 * values, label=kind, **style)
        axes.axhline(even, label=f"all equal ({even:.2g} %)", **dashed)
        axes.set(ylim=(0, None), xlabel=f"the {count:,} classes, most frequent first")
        axes.set(ylabel="tasks with the class (%)", title="How often classes occur")
        axes.legend()


def draw_rolling(entries: Sequence[MethodScores], window: int, title: str, path: Path) -> None:
    """Draw the rolling mean of accuracy against coarsity (figure 5); bands for the methods that are named."""
    tasks = len(entries[0].accuracy)
    width = min(window, max(2, tasks // 4))  # a window over most tasks would show nothing
    with axes_of(path) as axes:
        for entry, colour in coloured(entries):
            assert entry.coarsity is not None
            x, mean, low, high = rolling_curve(rolling_mean(entry.coarsity, entry.accuracy, width))
            if colour is None:
                axes.plot(x, mean, **_GREY)
                continue
            axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, mean, color=colour, linewidth=1.8, label=entry.method, zorder=2)
        axes.grid(axis="y")
        axes.set(xlabel="coarsity (low: classes close in meaning)", ylabel="accuracy (%)")
        axes.set_title(f"{title}: mean of {width} neighbouring tasks with its 95 % band{_grey_note(entries)}")
        axes.legend(loc="upper left")


def draw_parts(
    entries: Sequence[MethodScores],
    names: Sequence[str],
    values: Sequence[Sequence[Floats]],
    title: str,
    path: Path,
) -> None:
    """Draw mean accuracy with its 95 % interval on each part of a testbed; ``values[part][method]``."""
    with axes_of(path) as axes:
        for number, (entry, colour) in enumerate(coloured(entries)):
            mean, half = means_and_halves([part[number] for part in values])
            x = np.arange(len(names)) + (number - (len(entries) - 1) / 2) * 0.02
            style = _GREY
            if colour is not None:
                style = {"color": colour, "linewidth": 1.8, "marker": "o", "markersize": 4, "zorder": 2}
                axes.errorbar(x, mean, half, fmt="none", ecolor=colour, elinewidth=1.2)
            axes.plot(x[:-1], mean[:-1], label=entry.method if colour else None, **style)
            axes.plot(x[-1:], mean[-1:], **{**style, "marker": "o", "markersize": 4})
        axes.set_xticks(np.arange(len(names)), names)
        axes.grid(axis="y")
        axes.set_ylabel("accuracy (%)")
        axes.set_title(f"{title}: mean with its 95 % interval by quartile of coarsity{_grey_note(entries)}")
        axes.legend(loc="upper left")


def draw_ways(entries: Mapping[int, Sequence[MethodScores]], title: str, path: Path) -> None:
    """Draw top-1 accuracy against the number of classes in a task, with chance; way → methods."""
    order = sorted(entries)
    with axes_of(path) as axes:
        for number, (entry, colour) in enumerate(coloured(entries[order[-1]])):
            by_way = [next(e for e in entries[way] if e.method == entry.method) for way in order]
            mean, half = means_and_halves([scores.accuracy for scores in by_way])
            style = {"color": colour, "linewidth": 1.8, "zorder": 2} if colour else _GREY
            label = entry.method if colour else None
            x = np.array(order) * (1 + 0.006 * number)
            axes.errorbar(x, mean, half, marker="o", markersize=4, label=label, **style)
        x = np.geomspace(order[0], order[-1], 50)
        axes.plot(x, 100 / x, color="#666666", linestyle=(0, (3, 3)), linewidth=1, label="chance")
        axes.set_xscale("log")
        axes.set_xticks(order, [str(way) for way in order])
        axes.set_xticks([], minor=True)
        axes.set(ylim=(0, None), xlabel="classes in a task", ylabel="top-1 accuracy (%)")
        axes.grid(axis="y")
        axes.set_title(f"{title}: mean with its 95 % interval{_grey_note(entries[order[-1]])}")
        axes.legend()


def rolling_curve(means: Rolling) -> list[Floats]:
    """Return x and percentages of mean, low and high, one point per x.

    In a small taxonomy many tasks have the same coarsity; windows within them differ by the order of equals alone, so
    those at the same x are averaged.
    """
    x, group = np.unique(np.round(means.x, 9), return_inverse=True)
    count = np.bincount(group)
    return [x, *(100 * np.bincount(group, values) / count for values in (means.mean, means.low, means.high))]


def coloured(entries: Sequence[MethodScores]) -> list[tuple[MethodScores, str | None]]:
    """Colour up to four methods: best transductive, best inductive, ProtoNet, the lowest; others are grey."""
    named = [leader(entries, setting) for setting in ("transductive", "inductive")]
    named += [entry for entry in entries if entry.method.partition("(")[0] == "protonet"]
    named.append(min(entries, key=lambda entry: float(entry.accuracy.mean())))
    chosen = list(dict.fromkeys(entry.method for entry in named if entry is not None))
    if len(entries) <= len(_COLOURS):
        chosen += [entry.method for entry in entries if entry.method not in chosen]
    colours = dict(zip(chosen, _COLOURS, strict=False))
    return [(entry, colours.get(entry.method)) for entry in entries]


def _grey_note(entries: Sequence[MethodScores]) -> str:
    grey = sum(colour is None for _, colour in coloured(entries))
    return f"\ncoloured: best of each setting, ProtoNet, the lowest; grey: the other {grey}" if grey else ""

"""What the studies of tasks by meaning share: settings, the methods on a testbed, printed numbers, who leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from longshot.base import Floats
from longshot.models import find_variant, get_method
from longshot.reports import PublishedNumber, Sheet, heads, published, row
from longshot.statistics import quantile_bins
from longshot.studies.engine.claims import Measured, NotMeasured, of_values
from longshot.studies.engine.scores import numbers
from longshot.studies.engine.settings import Methods, StudySettings, Text, method_calls
from longshot.studies.engine.tables import Fact, TableColumn, TableRow, percent

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
        """The methods as calls, those of the variant with its settings."""
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
    """The methods of the study on a testbed, inductive ones first."""
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
    """A row per method; each setting is ranked by itself."""
    return [
        TableRow(
            (entry.method, entry.setting),
            entry.setting,
            {"backbone": backbone, "method": entry.method, "setting": entry.setting},
        )
        for entry in listed
    ]


def leader(listed: Sequence[MethodScores], setting: str, tasks: slice = slice(None)) -> MethodScores | None:
    """The method of a setting with the highest mean accuracy over some of the tasks."""
    candidates = [entry for entry in listed if entry.setting == setting]
    return max(candidates, key=lambda entry: float(entry.accuracy[tasks].mean()), default=None)


def transduction(listed: Sequence[MethodScores], label: str, printed: float | None = None) -> Measured:
    """The best transductive method minus the best inductive one, paired by task.

    Both are chosen on every other task and compared on the rest, so that the choice does not favour either.
    """
    first, second, gain = transductive_gain(listed)
    return of_values(f"{label}: {first} − {second}", gain, printed)


def transductive_gain(listed: Sequence[MethodScores]) -> tuple[str, str, Floats]:
    """The two methods of :func:`transduction`, and the difference on each of the tasks they are compared on."""
    first, second = (leader(listed, setting, slice(0, None, 2)) for setting in ("transductive", "inductive"))
    if first is None or second is None:
        raise NotMeasured("the study needs a transductive and an inductive method for it")
    return first.method, second.method, (first.accuracy - second.accuracy)[1::2]


# --- testbeds by meaning ---


def quartile_of(entry: MethodScores, quartile: int | None) -> Floats:
    """Accuracy of the tasks of one quartile by coarsity (0 … 3), or of all tasks for None."""
    if quartile is None:
        return entry.accuracy
    assert entry.coarsity is not None
    accuracy: Floats = entry.accuracy[quantile_bins(entry.coarsity, 4) == quartile]
    return accuracy


def coarsities(testbed: Testbed) -> Floats:
    """Coarsity of each task [T]."""
    return numbers(testbed.table, "coarsity")


def class_ids_of(testbeds: Iterable[Testbed]) -> list[str]:
    """Ids of the classes that occur in at least one of the testbeds, sorted."""
    tasks = (task for testbed in testbeds for task in testbed.table["classes"].to_pylist())
    return sorted({class_id for task in tasks for class_id in task})


def class_counts(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """In how many tasks each of the classes occurs [C]."""
    counts = Counter(class_id for task in testbed.table["classes"].to_pylist() for class_id in task)
    return np.array([counts[class_id] for class_id in class_ids], np.float64)


def appearances(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """In how many tasks each of the classes occurs [C], descending."""
    return np.sort(class_counts(testbed, class_ids))[::-1]


# --- the paper's numbers ---


def paper_calls() -> dict[str, str]:
    """Method → its call with the authors' settings; the plain name where the defaults give the same answers."""
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
    """Method → difference of two printed columns, for methods that both have."""
    return {method: round(first[method] - second[method], 6) for method in first if method in second}


def printed_gain(**fields: Any) -> float | None:
    """The paper's best transductive minus its best inductive method of one column."""
    by_setting = {
        setting: [number.mean for number in published(PAPER).select(setting=setting, **fields)]
        for setting in ("transductive", "inductive")
    }
    if not all(by_setting.values()):
        return None
    return round(max(by_setting["transductive"]) - max(by_setting["inductive"]), 6)


def printed_sheet(title: str, numbers: Sequence[PublishedNumber], columns: Sequence[TableColumn]) -> Sheet:
    """Printed numbers in the layout of a measured table; each column's facts say which numbers are its own."""
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
    return "–" if number is None else percent(number.mean, number.half)


def printed_records(numbers: Sequence[PublishedNumber]) -> list[Fact]:
    """Printed numbers as CSV rows; the paper's interval where it printed one."""
    calls = paper_calls()
    return [
        {
            "source": "published",
            **{key: getattr(number, key) for key in (*KEYS, "backbone")},
            "method": calls[number.method],
            **{key: getattr(number, key) for key in ("setting", "mean")},
            "low": None if number.half is None else round(number.mean - number.half, 6),
            "high": None if number.half is None else round(number.mean + number.half, 6),
            "tasks": published(PAPER).tasks,
            "mark": "",
        }
        for number in numbers
    ]

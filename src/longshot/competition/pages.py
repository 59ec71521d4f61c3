"""Pages of a competition: what they are made of, and the details of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.competition.inside.scoring import METRICS
from longshot.reports import charts, frame

MAIN = METRICS[0]
Facts = tuple[str, Sequence[tuple[str, str]]]  # a name with its fields and their texts


@dataclass(frozen=True)
class Part:
    """A heading with what stands under it: a sentence, a table, plots with their legend, sheets of named texts."""

    heading: str
    note: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    plots: Sequence[str] = ()
    legend: Sequence[tuple[int, str]] = ()
    facts: Sequence[Facts] = ()


def details_page(title: str, scores: Mapping[str, Any]) -> str:
    """One run: all metrics overall, by dataset, by ways and by shots, with 95 % intervals over tasks."""
    names = [metric.replace("_", " ") for metric in METRICS]
    parts = []
    for heading, groups in (
        ("All tasks", {"overall": scores["overall"]}),
        ("By dataset", scores["by_dataset"]),
        ("By number of classes", scores["by_ways"]),
        ("By number of shots", scores["by_shots"]),
    ):
        rows = [
            [name, str(values["tasks"]), *(_with_half(values, metric) for metric in METRICS)]
            for name, values in groups.items()
        ]
        plots = []
        if heading.startswith("By number") and len(groups) > 1:
            label = heading.removeprefix("By ")
            plots = [charts.rolling([curve(0, "this run", groups)], xlabel=label, prefix=label[-5:])]
        parts.append(Part(heading, columns=["", "tasks", *names], rows=rows, plots=plots))
    took = f"{scores['meta_training_seconds']:,.1f} s of meta-training, {scores['duration']:,.1f} s in all"
    official = "" if scores["official"] else " · unofficial: run without a sandbox"
    return render(title, f"phase {scores['phase']}, seed {scores['seed']} · {took}{official}", parts)


def curve(index: int, label: str, groups: Mapping[str, Any]) -> charts.Curve:
    """Mean over x with the band of its interval; a group of one task has none, so its band is closed."""
    keys = sorted(groups, key=int)
    means = np.array([groups[key][MAIN] for key in keys])
    halves = np.array([groups[key][f"{MAIN}_ci95"] or 0.0 for key in keys])
    return charts.Curve(index, label, np.array(keys, np.float64), means, means - halves, means + halves)


def _with_half(values: Mapping[str, Any], metric: str) -> str:
    half = values[f"{metric}_ci95"]
    return f"{values[metric]:.4f}" + ("" if half is None else f" ± {half:.4f}")


def render(title: str, subtitle: str, parts: Sequence[Part]) -> str:
    """The page; the template escapes all texts."""
    template = frame.environment().get_template("competition.html.j2")
    return template.render(title=title, subtitle=subtitle, parts=parts, style=frame.asset("style.css"))

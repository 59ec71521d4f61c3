"""An explanation as plain values and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from longshot.diagnosis.composition import Composition
from longshot.diagnosis.explanation import Explanation, TaskExplanation
from longshot.diagnosis.findings import Finding
from longshot.diagnosis.kinds import kind_of
from longshot.statistics import Correlation, Interval


def attraction_sentences(task: TaskExplanation, most: int = 2) -> list[str]:
    """``7 of 10 queries of 'a' lie nearest to a support image of 'b'``, for the strongest pairs."""
    return [
        f"{pair.nearer} of {pair.queries} queries of '{task.classes[pair.of]}' lie nearest to a support image of "
        f"'{task.classes[pair.to]}'"
        for pair in task.attractions[:most]
    ]


def say_symptoms(finding: Finding, most: int = 5) -> str:
    """``symptoms: sharpness −2.1 σ, edges −1.8 σ``; empty where there are none."""
    if not finding.symptoms:
        return ""
    signs = [f"{each.attribute} {each.effect:+.1f} σ".replace("-", "−") for each in finding.symptoms[:most]]
    more = len(finding.symptoms) - most
    return f"symptoms: {', '.join(signs)}" + (f" and {more} more" if more > 0 else "")


def as_json(explanation: Explanation, top: int | None = None) -> dict[str, Any]:
    """Everything as plain values; the ``top`` hardest tasks, or all."""
    tasks, together = explanation.hardest()[:top], explanation.loss_and_accuracy
    return {
        "notes": list(explanation.notes),
        "tasks": [{**asdict(task), "sentences": [f.sentence for f in task.findings]} for task in tasks],
        "causes": [asdict(cause) for cause in explanation.causes],
        "interventions": [
            {**asdict(each), "meaning": each.meaning, "sentence": each.sentence}
            for each in explanation.interventions
        ],
        "accounts": [{**asdict(account), "sentence": account.sentence} for account in explanation.accounts],
        "composition": _plain(explanation.compositions),
        "accuracy_and_inverse_loss": None if together is None else asdict(together),
        "others": {bed: _plain(compositions) for bed, compositions in explanation.further.items()},
    }


def cause_rows(explanation: Explanation) -> list[dict[str, Any]]:
    """Which attributes recur as causes; those that are a cause nowhere are left out."""
    several = len({cause.dataset for cause in explanation.causes}) > 1
    correlated = any(cause.with_accuracy for cause in explanation.causes)
    rows = []
    for cause in explanation.causes:
        if not cause.tasks:
            continue
        row: dict[str, Any] = {"dataset": cause.dataset} if several else {}
        row |= {
            "cause": kind_of(cause.attribute),
            "attribute": cause.attribute,
            "tasks with it": f"{cause.tasks:,} of {cause.of:,}",
            "strongest in": f"{cause.first:,}",
        }
        if correlated:
            row["Spearman of |gap| and accuracy"] = say_correlation(cause.with_accuracy)
        rows.append(row)
    return rows


def composition_rows(
    compositions: Mapping[str, Sequence[Composition]], *, most: int | None = None
) -> list[dict[str, Any]]:
    """One row per attribute (and value): what supports and queries of each testbed consist of.

    ``compositions`` maps a testbed's name to its columns; rows with the widest mean gap come first.
    """
    by_column: dict[tuple[str, str | None], dict[str, Composition]] = {}
    for bed, rows in compositions.items():
        for column in rows:
            by_column.setdefault((column.attribute, column.value), {})[bed] = column
    order = sorted(by_column.items(), key=lambda column: -max(bed.apart.mean for bed in column[1].values()))
    table = []
    for (attribute, value), beds in order[:most]:
        share = value is not None
        row: dict[str, Any] = {"attribute": f"{attribute} = {value}" if share else attribute}
        row |= {
            f"support, {bed}": say_interval(beds[bed].support, share) if bed in beds else ""
            for bed in compositions
        }
        row["queries"] = say_interval(next(iter(beds.values())).query, share)
        row |= {
            f"gap, {bed}": say_interval(beds[bed].gap, share, signed=True) if bed in beds else ""
            for bed in compositions
        }
        table.append(row)
    return table


def say_interval(interval: Interval, share: bool, *, signed: bool = False) -> str:
    """``40.0 ± 2.1 %`` for shares, ``0.54 ± 0.01`` for numbers."""
    scale, digits, unit = (100, 1, " %") if share else (1, 3, "")
    sign = "+" if signed else ""
    text = f"{scale * interval.mean:{sign}.{digits}f}"
    return f"{text}{unit}" if interval.half is None else f"{text} ± {scale * interval.half:.{digits}f}{unit}"


def say_correlation(correlation: Correlation | None) -> str:
    """``−0.41 [−0.52, −0.28]``."""
    if correlation is None:
        return "–"
    r, low, high = (
        f"{number:+.2f}".replace("-", "−") for number in (correlation.r, correlation.low, correlation.high)
    )
    return f"{r} [{low}, {high}]"


def _plain(compositions: Mapping[str, Sequence[Composition]]) -> dict[str, list[dict[str, Any]]]:
    """Compositions by dataset as plain values."""

    def row(column: Composition) -> dict[str, Any]:
        intervals = {name: getattr(column, name) for name in ("support", "query", "gap", "apart")}
        return {
            "attribute": column.attribute,
            "value": column.value,
            "coverage": column.coverage,
            **{name: {"mean": each.mean, "half": each.half} for name, each in intervals.items()},
        }

    return {dataset: [row(column) for column in columns] for dataset, columns in compositions.items()}

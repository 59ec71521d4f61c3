"""An explanation as plain values and as lines for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from longshot.causes.composition import Composition
from longshot.causes.explain import Explained, TaskExplained
from longshot.statistics import Correlation, Interval


def attraction_sentences(task: TaskExplained, most: int = 2) -> list[str]:
    """``7 of 10 queries of 'a' lie nearest to a support image of 'b'``, for the strongest pairs."""
    return [
        f"{one.nearer} of {one.queries} queries of '{task.classes[one.of]}' lie nearest to a support image of "
        f"'{task.classes[one.to]}'"
        for one in task.attractions[:most]
    ]


def as_json(found: Explained, top: int | None = None) -> dict[str, Any]:
    """Everything as plain values; the ``top`` hardest tasks, or all."""
    tasks = found.hardest()[:top]
    return {
        "notes": list(found.notes),
        "tasks": [{**asdict(task), "sentences": [f.sentence for f in task.findings]} for task in tasks],
        "causes": [asdict(cause) for cause in found.causes],
        "composition": {name: [_plain(row) for row in rows] for name, rows in found.compositions.items()},
        "accuracy_and_inverse_loss": None
        if found.loss_and_accuracy is None
        else asdict(found.loss_and_accuracy),
    }


def cause_rows(found: Explained) -> list[dict[str, Any]]:
    """Which attributes recur as causes; those never found are left out."""
    several = len({cause.dataset for cause in found.causes}) > 1
    rows = []
    for cause in found.causes:
        if not cause.tasks:
            continue
        row: dict[str, Any] = {"dataset": cause.dataset} if several else {}
        row |= {
            "attribute": cause.attribute,
            "tasks with it": f"{cause.tasks:,} of {cause.of:,}",
            "strongest in": f"{cause.first:,}",
        }
        if any(other.with_accuracy for other in found.causes):
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
        for one in rows:
            by_column.setdefault((one.attribute, one.value), {})[bed] = one
    order = sorted(by_column.items(), key=lambda item: -max(one.apart.mean for one in item[1].values()))
    made = []
    for (attribute, value), beds in order[:most]:
        row: dict[str, Any] = {"attribute": attribute if value is None else f"{attribute} = {value}"}
        for bed in compositions:
            found = beds.get(bed)
            share = value is not None
            row[f"support, {bed}"] = "" if found is None else say_interval(found.support, share)
        first = next(iter(beds.values()))
        row["queries"] = say_interval(first.query, value is not None)
        for bed in compositions:
            found = beds.get(bed)
            row[f"gap, {bed}"] = (
                "" if found is None else say_interval(found.gap, value is not None, signed=True)
            )
        made.append(row)
    return made


def say_interval(one: Interval, share: bool, *, signed: bool = False) -> str:
    """``40.0 ± 2.1 %`` for shares, ``0.54 ± 0.01`` for numbers."""
    scale, digits, unit = (100, 1, " %") if share else (1, 3, "")
    sign = "+" if signed else ""
    text = f"{scale * one.mean:{sign}.{digits}f}"
    return f"{text}{unit}" if one.half is None else f"{text} ± {scale * one.half:.{digits}f}{unit}"


def say_correlation(one: Correlation | None) -> str:
    """``−0.41 [−0.52, −0.28]``."""
    if one is None:
        return "–"
    texts = [f"{x:+.2f}".replace("-", "−") for x in (one.r, one.low, one.high)]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def _plain(row: Composition) -> dict[str, Any]:
    return {
        "attribute": row.attribute,
        "value": row.value,
        "coverage": row.coverage,
        **{
            name: {"mean": one.mean, "half": one.half}
            for name, one in (
                ("support", row.support),
                ("query", row.query),
                ("gap", row.gap),
                ("apart", row.apart),
            )
        },
    }

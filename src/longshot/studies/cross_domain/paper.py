"""The numbers that Carrión-Ojeda et al. printed: as tables beside measured ones, and as what their claims say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from longshot.base import Floats
from longshot.reports import Sheet
from longshot.statistics import correlation
from longshot.studies.cross_domain.cells import Condition
from longshot.studies.cross_domain.settings import PRETRAINED
from longshot.studies.engine.published import PublishedTable, published_paper
from longshot.studies.engine.tables import Fact

_NOTE = (
    "Published numbers: normalised accuracy in %, ± half the 95 % interval over tasks, ten datasets of Meta-Album, "
    "ResNet-18. Not measured here."
)
_SWEEPS = {"ways": (6, 7), "shots": (8, 9)}  # tables from random and from pre-trained weights


def printed_table(number: int) -> PublishedTable:
    """Table 5 … 10 of the paper.

    >>> printed_table(5).value("metadelta", "within-domain, random")
    PrintedNumber(mean=23.6, half=0.8)
    """
    return published_paper(__package__).table(str(number))


def printed_sheet(number: int) -> Sheet:
    """A printed table to read."""
    short, table = published_paper(__package__).source.short, printed_table(number)
    return replace(table.sheet(f"Published: {short}, table {number}: {table.caption}"), note=_NOTE)


def printed_records(number: int) -> list[Fact]:
    """The same as CSV rows; shares."""
    table = printed_table(number)
    return [
        {
            "source": f"published, table {number}",
            table.head: name,
            "column": column,
            "mean": round(cell.mean / 100, 6),
            "low": None if cell.half is None else round((cell.mean - cell.half) / 100, 6),
            "high": None if cell.half is None else round((cell.mean + cell.half) / 100, 6),
            "tasks": None,
            "mark": "",
        }
        for column, name, cell in table.numbers()
    ]


def _column(number: int, column: str) -> Floats:
    """A column as shares."""
    return np.array([cell.mean / 100 for head, _, cell in printed_table(number).numbers() if head == column])


def printed_share(condition: Condition, start: str, method: str) -> float:
    """Table 5: a baseline's normalised accuracy as a share."""
    cell = printed_table(5).value(method, f"{condition.name}, {start}")
    assert cell is not None
    return cell.mean / 100


def sweep_number(name: str, start: str) -> int:
    """The table of cross-domain tasks by ``ways`` or ``shots`` from a start."""
    return _SWEEPS[name][start == PRETRAINED]


def _sweep(name: str, start: str, methods: Sequence[str] = ()) -> tuple[Floats, Floats]:
    """Ways or shots [n], and the printed shares [n, M] of the baselines."""
    number = sweep_number(name, start)
    x = np.array([int(label) for label in printed_table(number).rows], np.float64)
    return x, np.stack([_column(number, method) for method in methods or printed_table(number).heads], axis=1)


def printed_early_rise(start: str) -> float:
    """Tables 8 and 9: slope per shot up to 5 shots minus that from 5 on, of the mean over the baselines."""
    shots, scores = _sweep("shots", start)
    mean = scores.mean(axis=1)
    early, late = (np.polyfit(shots[part], mean[part], 1)[0] for part in (shots <= 5, shots >= 5))
    return round(float(early - late), 6)


def printed_order(name: str, start: str, methods: Sequence[str]) -> float:
    """Tables 6 to 9: rank correlation of the baselines' means between the lower and the upper half of the rows."""
    x, scores = _sweep(name, start, methods)
    low = x <= np.median(x)
    return round(correlation(scores[low].mean(axis=0), scores[~low].mean(axis=0), "spearman").r, 6)


def _difficulty(condition: Condition, method: str) -> Floats:
    """Table 10: a column as shares over the ten datasets."""
    return _column(10, f"{condition.name}, {method}")


def printed_range(condition: Condition) -> float:
    """Table 10: the best baseline on the easiest dataset minus that on the hardest."""
    return round(float(np.ptp(_difficulty(condition, "metadelta"))), 6)


def printed_modelling(condition: Condition) -> tuple[float, float]:
    """Table 10: the smallest and the largest difference between the best and the worst baseline."""
    gaps = _difficulty(condition, "metadelta") - _difficulty(condition, "train-from-scratch")
    return round(float(gaps.min()), 6), round(float(gaps.max()), 6)

"""The numbers that Carrión-Ojeda et al. printed: as tables beside measured ones, and as what their claims say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longshot.competition import published
from longshot.core.arrays import Floats
from longshot.reports.sheets import Sheet
from longshot.statistics import correlation
from longshot.studies.cross_domain.cells import Condition
from longshot.studies.cross_domain.settings import PRETRAINED
from longshot.studies.engine.tables import Fact, heads, row

SHORT = "Carrión-Ojeda et al., 2022"
_NOTE = (
    "Published numbers: normalised accuracy in %, ± half the 95 % interval over tasks, ten datasets of Meta-Album, "
    "ResNet-18. Not measured here."
)
_SWEEPS = {"ways": (6, 7), "shots": (8, 9)}  # tables from random and from pre-trained weights


def sheet(number: int) -> Sheet:
    """A printed table."""
    printed = published.table(number)
    rows = [
        row(name, *(f"{mean:.1f} ± {half:.1f}" for mean, half in cells))
        for name, cells in printed.rows.items()
    ]
    names = heads(printed.by, *printed.columns)
    return Sheet(f"Published: {SHORT}, table {number}: {printed.caption}", names, [rows], _NOTE, labels=1)


def records(number: int) -> list[Fact]:
    """The same as CSV rows; shares."""
    printed = published.table(number)
    return [
        {
            "source": f"published, table {number}",
            printed.by: name,
            "column": column,
            "mean": round(mean / 100, 6),
            "low": round((mean - half) / 100, 6),
            "high": round((mean + half) / 100, 6),
            "tasks": None,
            "mark": "",
        }
        for name, cells in printed.rows.items()
        for column, (mean, half) in zip(printed.columns, cells, strict=True)
    ]


def share(condition: Condition, start: str, method: str) -> float:
    """Table 5: a baseline's normalised accuracy as a share."""
    printed = published.table(5)
    return printed.rows[method][printed.columns.index(f"{condition.name}, {start}")][0] / 100


def sweep_number(name: str, start: str) -> int:
    """The table of cross-domain tasks by ``ways`` or ``shots`` from a start."""
    return _SWEEPS[name][start == PRETRAINED]


def _sweep(name: str, start: str, methods: Sequence[str] = ()) -> tuple[Floats, Floats]:
    """Ways or shots [n], and the printed shares [n, M] of the baselines."""
    printed = published.table(sweep_number(name, start))
    columns = [printed.columns.index(method) for method in methods or printed.columns]
    x = np.array([int(label) for label in printed.rows], np.float64)
    return x, np.array([[cells[c][0] / 100 for c in columns] for cells in printed.rows.values()])


def early_rise(start: str) -> float:
    """Tables 8 and 9: slope per shot up to 5 shots minus that from 5 on, of the mean over the baselines."""
    shots, scores = _sweep("shots", start)
    mean = scores.mean(axis=1)
    early, late = (np.polyfit(shots[part], mean[part], 1)[0] for part in (shots <= 5, shots >= 5))
    return round(float(early - late), 6)


def order_kept(name: str, start: str, methods: Sequence[str]) -> float:
    """Tables 6 to 9: rank correlation of the baselines' means between the lower and the upper half of the rows."""
    x, scores = _sweep(name, start, methods)
    low = x <= np.median(x)
    return round(correlation(scores[low].mean(axis=0), scores[~low].mean(axis=0), "spearman").r, 6)


def _difficulty(condition: Condition, method: str) -> Floats:
    """Table 10: a column as shares over the ten datasets."""
    printed = published.table(10)
    column = printed.columns.index(f"{condition.name}, {method}")
    return np.array([cells[column][0] / 100 for cells in printed.rows.values()])


def widest(condition: Condition) -> float:
    """Table 10: the best baseline on the easiest dataset minus that on the hardest."""
    return round(float(np.ptp(_difficulty(condition, "metadelta"))), 6)


def modelling(condition: Condition) -> tuple[float, float]:
    """Table 10: the smallest and the largest difference between the best and the worst baseline."""
    gaps = _difficulty(condition, "metadelta") - _difficulty(condition, "train-from-scratch")
    return round(float(gaps.min()), 6), round(float(gaps.max()), 6)

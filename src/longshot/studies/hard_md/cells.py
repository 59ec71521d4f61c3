"""Numbers of the study Hard-Meta-Dataset++ as cells of tables and as records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.reports.sheets import SheetCell
from longshot.studies.hard_md.scores import Floats, Mean


def cell(one: Mean | None, signed: bool = False) -> SheetCell:
    """``41.2 ± 1.3`` in per cent; a dash where there is no number."""
    return SheetCell(
        "–" if one is None else f"{100 * one.mean:{'+' if signed else ''}.1f} ± {100 * one.half:.1f}"
    )


def points(one: Mean) -> str:
    """The same as text."""
    return cell(one).text


def places(values: Floats) -> NDArray[np.int64]:
    """Rank 1 for the highest."""
    order = np.argsort(-values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(1, len(values) + 1)
    return ranks


def record(
    table: str, source: str, shape: str, kind: str, backbone: str, method: str, one: Mean | None
) -> dict[str, Any]:
    """One number as a CSV row; shares in full precision."""
    return {
        "table": table,
        "source": source,
        "shape": shape,
        "kind": kind,
        "backbone": backbone,
        "method": method,
        "mean": None if one is None else one.mean,
        "half": None if one is None else one.half,
    }

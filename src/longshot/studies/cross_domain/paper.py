"""The numbers that Carrión-Ojeda et al. printed, as tables beside measured ones."""

from __future__ import annotations

from typing import Any

from longshot.competition import published
from longshot.reports.sheets import Sheet, SheetCell

SHORT = "Carrión-Ojeda et al., 2022"
_NOTE = (
    "Published numbers: normalised accuracy in %, ± half the 95 % interval over tasks, ten datasets of Meta-Album, "
    "ResNet-18. Not measured here."
)


def sheet(number: int) -> Sheet:
    """A printed table."""
    found = published.table(number)
    rows = [
        [SheetCell(name), *(SheetCell(f"{mean:.1f} ± {half:.1f}") for mean, half in cells)]
        for name, cells in found.rows.items()
    ]
    heads = [("", found.by), *(("", column) for column in found.columns)]
    return Sheet(f"Published: {SHORT}, table {number}: {found.caption}", heads, [rows], _NOTE, labels=1)


def records(number: int) -> list[dict[str, Any]]:
    """The same as CSV rows; shares."""
    found = published.table(number)
    return [
        {
            "source": f"published, table {number}",
            found.by: name,
            "column": column,
            "metric": "normalised accuracy",
            "mean": round(mean / 100, 6),
            "low": round((mean - half) / 100, 6),
            "high": round((mean + half) / 100, 6),
            "tasks": None,
            "mark": "",
        }
        for name, cells in found.rows.items()
        for column, (mean, half) in zip(found.columns, cells, strict=True)
    ]

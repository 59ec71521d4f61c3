"""The numbers that Carrión-Ojeda et al. printed, as tables beside measured ones."""

from __future__ import annotations

from longshot.competition import published
from longshot.reports.sheets import Sheet
from longshot.studies.engine.tables import Fact, heads, row

SHORT = "Carrión-Ojeda et al., 2022"
_NOTE = (
    "Published numbers: normalised accuracy in %, ± half the 95 % interval over tasks, ten datasets of Meta-Album, "
    "ResNet-18. Not measured here."
)


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
            "metric": "normalised accuracy",
            "mean": round(mean / 100, 6),
            "low": round((mean - half) / 100, 6),
            "high": round((mean + half) / 100, 6),
            "tasks": None,
            "mark": "",
        }
        for name, cells in printed.rows.items()
        for column, (mean, half) in zip(printed.columns, cells, strict=True)
    ]

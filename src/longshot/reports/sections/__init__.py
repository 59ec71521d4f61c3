"""The sections of a page, a function each, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longshot.base import UserError
from longshot.reports import svg
from longshot.reports.pictures import FindImages
from longshot.reports.report_data import Cell, ReportData, ReportTestbed
from longshot.reports.summary import ComparedPairs, Estimates
from longshot.statistics import bounds_text

if TYPE_CHECKING:
    from longshot.reports.learning_curves import TrainingHistory
    from longshot.statistics import Interval

MAX_LINES = svg.COLOURS  # in one plot with lines; more cannot be told apart
MAX_ROWS = 24  # in one plot with rows


@dataclass(frozen=True)
class Request:
    """What the sections are made from."""

    data: ReportData
    pairs: ComparedPairs
    entries: Estimates
    images: FindImages | None = None
    pictures: int = 0
    focus: str | None = None
    trainings: Sequence[TrainingHistory] = ()


def strongest(request: Request, bed: int, limit: int) -> tuple[list[tuple[int, Cell]], int]:
    """List the series of a testbed in the report's order; of more than ``limit`` only the highest means."""
    column = request.data.column(bed)
    ranked = sorted(column, key=lambda pair: -request.entries[bed, pair[0]].mean)[:limit]
    strong = {s for s, _ in ranked}
    return [(s, cell) for s, cell in column if s in strong], len(column) - len(strong)


def focused(data: ReportData, focus: str | None) -> list[int] | None:
    """List the series whose label, method or backbone holds the text."""
    if focus is None:
        return None
    matching = [s for s, series in enumerate(data.series) if focus.casefold() in series.label.casefold()]
    if not matching:
        labels = ", ".join(f"'{series.label}'" for series in data.series[:10])
        raise UserError(
            f"No series of this run has '{focus}' in its name; there are {len(data.series)}: {labels}."
        )
    return matching


def shown_series(request: Request, bed: int) -> int | None:
    """Choose the series whose predictions a testbed shows: the highest mean, among those in focus if any."""
    judges = focused(request.data, request.focus)
    chosen = [s for s, _ in request.data.column(bed) if judges is None or s in judges]
    return max(chosen, key=lambda s: request.entries[bed, s].mean) if chosen else None


def plot_label(data: ReportData, series: int) -> str:
    """Label a series in a plot: without the backbone where all have the same; transductive is marked."""
    shown = data.series[series]
    alone = len({other.backbone for other in data.series}) == 1 and len(data.series) > 1
    text = shown.method + (f" · {shown.note}" if shown.note else "") if alone else shown.label
    return text + (" (t)" if shown.transductive else "")


def span(interval: Interval, digits: int = 1) -> str:
    """Format an interval in points, ``+1.2 [+0.8, +1.6]``, or the estimate alone."""
    return bounds_text(interval.mean, interval.low, interval.high, digits=digits)


def sampler(bed: ReportTestbed, choice: str) -> str:
    """Name one of a testbed's sampler choices (``classes``, ``instances``, ``shape``), or return nothing."""
    settings = bed.testbed.meta.get("sampler", {})
    chosen = settings.get(choice) if isinstance(settings, dict) else None
    return str(chosen.get("name", "")) if isinstance(chosen, dict) else str(chosen or "")


def uniform(bed: ReportTestbed) -> bool:
    """Tell whether classes and images were drawn without regard to difficulty."""
    return sampler(bed, "classes") == "uniform" and sampler(bed, "instances") == "uniform"

"""One side of a comparison: a metric of every series of a run on one testbed, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.arrays import Floats, Ints
from longshot.core.errors import UserError
from longshot.evaluation.results import METRICS, Results, cell_rows, match_methods, match_testbeds
from longshot.evaluation.verdicts import RunSeries


class SeriesValues(NamedTuple):
    """A series on T tasks of a testbed: their numbers, the metric and the predictions of each."""

    tasks: Ints
    metric: Floats
    predictions: pa.Array


@dataclass(frozen=True)
class Side:
    """The values of one run on one testbed, for each series."""

    name: str
    values: dict[RunSeries, SeriesValues]
    empty: tuple[RunSeries, ...] = ()  # asked for, and without a row


def chosen_testbeds(run: Results, testbed: str | None) -> list[str]:
    """Content hashes of a run's testbeds, or of the one whose name or hash (or its beginning) is ``testbed``.

    In the order asked for, which the cells keep; a file holds the testbeds sorted by hash.
    """
    facts = run.run["testbeds"]
    names = {cell["testbed"]: facts[cell["testbed"]]["name"] for cell in run.run["cells"]}
    names |= {content_hash: each["name"] for content_hash, each in facts.items()}
    if testbed is None:
        return list(names)
    matched = match_testbeds(names, testbed)
    if not matched:
        listed = ", ".join(f"{name} ({content_hash[:12]}…)" for content_hash, name in names.items())
        raise UserError(f"{run.name} has no testbed '{testbed}'; it has {listed}.")
    return matched


def read_side(run: Results, content_hash: str, metric: str, methods: Sequence[str]) -> Side:
    """Values of one testbed by series, in the order asked for; UserError when nothing is left."""
    if metric not in METRICS:
        raise UserError(f"There is no metric '{metric}'; choose one of {', '.join(METRICS)}.")
    table = run.table()
    table = table.filter(pc.equal(table["testbed"], content_hash))
    cells = [cell for cell in run.run["cells"] if cell["testbed"] == content_hash]
    calls = list(dict.fromkeys(cell["method"] for cell in cells))
    chosen = match_methods(calls, methods)
    values: dict[RunSeries, SeriesValues] = {}
    empty: list[RunSeries] = []
    for cell in cells:
        if cell["method"] not in chosen:
            continue
        rows = cell_rows(table, cell)
        series = RunSeries(cell["backbone"], cell["method"], int(cell["seed"]))
        if rows.num_rows:
            numbers = _metric(run, series, rows, metric)
            values[series] = SeriesValues(rows["task"].to_numpy(), numbers, rows["prediction"])
        else:
            empty.append(series)
    if not values:
        of_methods = f" of {', '.join(methods)}" if methods else ""
        raise UserError(
            f"{run.name} holds 0 result rows{of_methods} on the testbed {content_hash[:12]}… and 1 is needed; its "
            f"methods are {', '.join(calls) or 'none yet'}."
        )
    return Side(run.name, values, tuple(empty))


def _metric(run: Results, series: RunSeries, rows: pa.Table, metric: str) -> Floats:
    """A metric of all tasks [T]; UserError where a task has none."""
    values: Floats = rows[metric].to_numpy().astype(np.float64)
    absent = int((~np.isfinite(values)).sum())
    if absent:
        raise UserError(
            f"{series} in {run.name} has no {metric} on {absent:,} of {len(values):,} tasks",
            "choose another {metric}",
        )
    return values

"""Results of an evaluation: one row per task, read from a run's folder or held in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import UserError, count, html_table, parse_call, show_noun
from longshot.evaluation import units
from longshot.evaluation.metrics import METRICS
from longshot.evaluation.run_record import CELL
from longshot.evaluation.run_stores import RunFolder, RunMemory, RunStore, open_store
from longshot.statistics import mean_interval

if TYPE_CHECKING:
    from longshot.evaluation.per_class import ClassConfusion
    from longshot.evaluation.views import Records
    from longshot.tasks import Testbed

Selection: TypeAlias = str | Sequence[str] | None
_SHOWN = 3  # series that repr names
_ANEW = "remove the file and call {evaluate()} again as before, or take an unchanged copy of the folder"


class Results:
    """What an evaluation measured: testbeds × backbones × methods, one row per task.

    Parameters
    ----------
    source : path or URL
        The folder of a run, as ``evaluate(..., out=folder)`` wrote it.
    run : dict, optional
        The record of the run where it is not the one of the source; views made by :meth:`select` have their own.

    Examples
    --------
    >>> results = Results("runs/first")
    >>> results.summary()[0]["method"]
    'protonet'
    >>> len(results.select(method="protonet").to_pandas())
    26
    """

    def __init__(self, source: str | os.PathLike[str] | RunStore, run: dict[str, Any] | None = None) -> None:
        self.store: RunStore = source if isinstance(source, RunFolder | RunMemory) else open_store(source)
        self.run = self.store.read() if run is None else run

    @property
    def name(self) -> str:
        """Return the folder, or ``results in memory``: for sentences."""
        return str(self.store)

    @property
    def path(self) -> Path:
        """Return the folder of the run; UserError for results that are held in memory."""
        if self.store.path is None:
            raise UserError(
                "These results are held in memory and have no folder", "evaluate with {out:FOLDER}"
            )
        return self.store.path

    def __repr__(self) -> str:
        """Describe the results in at most five lines: where they are, and the means of the first series."""
        from longshot.evaluation.views import with_half

        records = self.summary()
        lines = [f"<Results {self.name}: {len(self.run['cells'])} cells>"]
        lines += [
            f"{record['testbed']}: {record['method']} on {record['backbone']}: {with_half(record, 'accuracy')} % "
            f"({count(record['tasks'], 'task')})"
            for record in records[:_SHOWN]
        ]
        if len(records) > _SHOWN:
            lines.append(f"… and {len(records) - _SHOWN} more; see summary()")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Render the summary as a table, for notebooks; the caption says what ± stands for."""
        from longshot.evaluation.views import summary_rows

        return html_table(
            summary_rows(self), caption=f"{self.name}: means over tasks ± half of their 95 % interval"
        )

    def select(
        self, testbed: Selection = None, backbone: Selection = None, method: Selection = None
    ) -> Results:
        """Return a view of some of the results; nothing is copied.

        Parameters
        ----------
        testbed : str or list of str, optional
            Selection of testbeds, or beginnings of their content hashes.
        backbone : str or list of str, optional
            Selection of backbones.
        method : str or list of str, optional
            Calls of methods (``"protonet(distance='cosine')"``), or a name for all its calls where no call equals it.

        Returns
        -------
        Results
            The cells that fit all that was given. UserError when something names none, with what there is.

        Examples
        --------
        >>> len(Results("runs/first").select(testbed="easy", method="protonet").summary())
        1
        """
        testbeds = {content_hash: facts["name"] for content_hash, facts in self.run["testbeds"].items()}
        chosen = {
            "testbed": self._chosen("testbed", testbed, lambda text: match_testbeds(testbeds, text)),
            "backbone": self._chosen(
                "backbone", backbone, lambda text: [name for name in self.run["backbones"] if name == text]
            ),
            "method": self._chosen("method", method, lambda text: match_methods(self.run["methods"], [text])),
        }
        cells = [cell for cell in self.run["cells"] if all(cell[key] in chosen[key] for key in chosen)]
        run = {**self.run, "cells": cells}
        for key, names in chosen.items():
            facts = self.run[f"{key}s"]
            run[f"{key}s"] = {name: facts[name] for name in facts if name in names}
        return Results(self.store, run)

    def _chosen(self, kind: str, names_given: Selection, match: Callable[[str], list[str]]) -> set[str]:
        """Return the keys of ``run[kind + "s"]`` that are meant; UserError for what matches none."""
        entries = self.run[f"{kind}s"]
        if names_given is None:
            return {*entries, *(cell[kind] for cell in self.run["cells"])}
        names = [names_given] if isinstance(names_given, str) else list(names_given)
        matched = {name: match(name) for name in names}
        for name in names:
            if not matched[name]:
                listed = (facts["name"] for facts in entries.values()) if kind == "testbed" else entries
                raise UserError(
                    f"{self.name} has no {kind} '{name}'; its {kind}s are {', '.join(listed) or 'none yet'}."
                )
        return {key for keys in matched.values() for key in keys}

    def missing(self) -> list[str]:
        """List the ids of units that were asked for and are not there: not empty while a run is not finished.

        Examples
        --------
        >>> Results("runs/first").missing()
        []
        """
        return [unit for cell in self.run["cells"] for unit in cell["units"] if not self.store.has(unit)]

    def table(self) -> pa.Table:
        """Return all rows, in the order asked for and by task, with ``seconds``, and ``scores`` where kept.

        Examples
        --------
        >>> Results("runs/first").select(testbed="easy", method="protonet").table().num_rows
        20
        """
        cells = []
        for cell in self.run["cells"]:
            parts = [
                _of_cell(part, cell, self.name, unit)
                for unit in cell["units"]
                if (part := self.store.part(unit)) is not None
            ]
            if parts:
                # A testbed over several datasets has units per dataset: task order is restored here.
                cells.append(pa.concat_tables(parts, promote_options="default").sort_by("task"))
                self._check_tasks(cells[-1]["task"], cell, len(parts))
        if not cells:
            schema = units.SCHEMA.append(pa.field("seconds", pa.float64()))
            return schema.empty_table()
        return pa.concat_tables(cells, promote_options="default").combine_chunks()

    def _check_tasks(self, tasks: pa.ChunkedArray, cell: dict[str, Any], parts: int) -> None:
        """Raise UserError when the parts of a finished cell do not hold each task of its testbed once."""
        expected = self.run["testbeds"][cell["testbed"]].get("tasks")
        complete = expected is not None and parts == len(cell["units"])
        if len(tasks.unique()) < len(tasks) or (complete and len(tasks) != expected):
            raise UserError(
                f"The parts of {cell['method']} on {cell['backbone']} in {self.name} hold "
                f"{count(len(tasks.unique()), 'different task')} in {count(len(tasks), 'row')}, and the testbed has "
                f"{expected if expected is not None else 'each task once'}: files were exchanged",
                _ANEW,
            )

    def to_pandas(self) -> Any:
        """Return all rows as a ``pandas.DataFrame``; the columns are those of :meth:`table`.

        Examples
        --------
        >>> int(Results("runs/first").to_pandas()["way"].max())
        5
        """
        try:
            return self.table().to_pandas()
        except ModuleNotFoundError as error:
            raise UserError(
                "A data frame needs pandas, which is not installed", "pip install pandas"
            ) from error

    def show(self) -> Any:
        """Open the explorer at these results; a notebook shows it in a frame.

        Returns
        -------
        Explorer
            ``url`` is the address.

        Examples
        --------
        >>> page = Results("runs/first").show()
        >>> "/run/first-" in page.url
        True
        >>> page.close()
        """
        return show_noun(self)

    def summary(self) -> list[dict[str, Any]]:
        """Return one record per testbed × backbone × method × seed, in the order asked for.

        ``accuracy`` … ``loss`` are means over tasks, each with ``<name>_ci95`` = [low, high] (None for a single
        task); ``ci95`` is half the width of accuracy's interval, for other tasks of these classes, and
        ``ci95_over_classes`` that of the interval for other classes too. ``leak`` says what the network saw of the
        testbed in training, ``unleaked`` has the accuracies without it. UserError where the run's copy of a testbed is
        gone or damaged.

        Returns
        -------
        list of dict
            One per series.

        Examples
        --------
        >>> [(row["testbed"], row["method"], row["tasks"]) for row in Results("runs/first").summary()][0]
        ('easy', 'protonet', 20)
        """
        from longshot.evaluation.views import leaks_in

        table = self.table()
        testbed, leaks = cache(self.testbed), leaks_in(self.run)
        records = []
        for cell in self.run["cells"]:
            rows = cell_rows(table, cell)
            if not rows.num_rows:
                continue
            record: dict[str, Any] = {
                "testbed": self.run["testbeds"][cell["testbed"]]["name"],
                "testbed_hash": cell["testbed"],
                "backbone": cell["backbone"],
                "method": cell["method"],
                "setting": self.run["methods"][cell["method"]]["setting"],
                "seed": cell["seed"],
                "tasks": rows.num_rows,
            }
            for name in METRICS:
                interval = mean_interval(rows[name].to_numpy())
                record[name] = interval.mean
                record[f"{name}_ci95"] = None if interval.low is None else [interval.low, interval.high]
                if name == "accuracy":
                    halves = accuracy_halves(testbed(cell["testbed"]), rows)
                    record["ci95"], record["ci95_over_classes"] = halves
            record["seconds"] = pc.sum(rows["seconds"]).as_py()
            leak = leaks.get((cell["testbed"], cell["backbone"]))
            record |= {"leak": leak.fact if leak else None, "unleaked": cell.get("unleaked")}
            records.append(record)
        return records

    def per_class(self) -> Records:
        """Return one record per series and class: its accuracy with its 95 % interval, and what it is taken for.

        Classes of a series with the worst first. ``taken_share`` is the share of the class's queries that were given
        to ``taken_for``, of those in tasks that had both.

        Returns
        -------
        list of dict
            With ``to_pandas()``; a table in notebooks.

        Examples
        --------
        >>> worst = Results("runs/first").select(testbed="easy", method="protonet").per_class()[0]
        >>> worst["class"] in longshot.open_dataset("toybox").class_ids, worst["tasks"] >= 1
        (True, True)
        """
        from longshot.evaluation.per_class import score_series

        return score_series(self)

    def confusion(self) -> ClassConfusion:
        """Return which classes are taken for which, of one series on one testbed; choose it with :meth:`select`.

        Returns
        -------
        ClassConfusion
            ``pairs()`` names what is confused most; ``to_pandas()`` has the counts.

        Examples
        --------
        >>> confusion = Results("runs/first").select(testbed="easy", method="protonet").confusion()
        >>> int(confusion.to_pandas().to_numpy().sum()) == 20 * 5 * 10
        True
        """
        from longshot.evaluation.per_class import confuse_series

        return confuse_series(self)

    def testbed(self, content_hash: str) -> Testbed:
        """Read the run's own copy of a testbed; UserError when it is gone or damaged.

        Parameters
        ----------
        content_hash : str
            As in ``run["testbeds"]``.

        Returns
        -------
        Testbed

        Examples
        --------
        >>> results = Results("runs/first")
        >>> len(results.testbed(results.summary()[0]["testbed_hash"]))
        20
        """
        return self.store.testbed(content_hash)


def accuracy_halves(testbed: Testbed, rows: pa.Table) -> tuple[float | None, float | None]:
    """Return half the widths of accuracy's intervals over tasks, and over tasks and classes; None for a single task."""
    from longshot.evaluation.testbed_statistics import ClassIntervals

    queries = ClassIntervals(testbed, rows["task"].to_numpy())
    over_classes = queries.interval(queries.right(rows["prediction"])).half
    return mean_interval(rows["accuracy"].to_numpy()).half, over_classes


def _of_cell(part: pa.Table, cell: dict[str, Any], run: str, unit: str) -> pa.Table:
    """Return the rows of a unit under the backbone's name in ``cell``; UserError if they are of another cell.

    The same network may have been evaluated under another name before: its units are the same, and so are their rows.
    """
    for key in ("testbed", "method", "seed"):
        values = part[key].unique().to_pylist()
        if values != [cell[key]]:
            raise UserError(
                f"part-{unit}.parquet in {run} is not what run.json says: its {key} is "
                f"{', '.join(map(str, values))[:60] or 'absent'}, not {str(cell[key])[:60]}",
                _ANEW,
            )
    if part["backbone"].unique().to_pylist() == [cell["backbone"]]:
        return part
    position = part.schema.get_field_index("backbone")
    names = pa.array([cell["backbone"]] * part.num_rows, pa.string())
    return part.set_column(position, part.schema.field(position), names)


def cell_rows(table: pa.Table, cell: dict[str, Any]) -> pa.Table:
    """Select the rows of ``table`` that belong to one testbed × backbone × method × seed."""
    mask = pc.equal(table["testbed"], cell["testbed"])
    for key in CELL[1:]:
        mask = pc.and_(mask, pc.equal(table[key], cell[key]))
    return table.filter(mask)


def match_testbeds(names: dict[str, str], text: str) -> list[str]:
    """Return the content hashes that ``text`` means: by name, or by how the hash begins.

    >>> match_testbeds({"ab12": "easy", "cd34": "hard"}, "hard")
    ['cd34']
    """
    return [
        content_hash for content_hash, name in names.items() if name == text or content_hash.startswith(text)
    ]


def match_methods(calls: Iterable[str], methods: Sequence[str]) -> list[str]:
    """Select the calls equal to one in ``methods``, else those with its name; all where none is given.

    >>> match_methods(["protonet", "protonet(distance='cosine')", "ridge"], ['protonet(distance="cosine")'])
    ["protonet(distance='cosine')"]
    """
    if not methods:
        return list(calls)
    parsed = {call: _parsed(call) for call in calls}
    matched = []
    for text in methods:
        equal = [call for call in parsed if parsed[call] == _parsed(text)]
        matched += equal or [call for call in parsed if parsed[call][0] == text]
    return matched


def _parsed(call: str) -> tuple[str, Any]:
    """Name and settings, so that spaces and quotes do not matter; a call of another form stands for itself."""
    try:
        return parse_call(call)
    except UserError:
        return call, None

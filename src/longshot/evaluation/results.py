"""The folder of a run: run.json tells its story, part files hold one row per task."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.errors import UserError
from longshot.evaluation import units
from longshot.statistics import mean_interval

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed

FORMAT = 1
METRICS = ("accuracy", "balanced_accuracy", "normalized_accuracy", "top5", "loss")
_KEYS = ("testbed", "backbone", "method", "seed")


class Results:
    """A run, read from its folder.

    >>> results = Results("runs/first")  # doctest: +SKIP
    >>> results.summary()[0]["accuracy"]  # doctest: +SKIP
    0.912
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.run = read_run(self.path)

    def __repr__(self) -> str:
        return f"<Results {self.path}: {len(self.run['cells'])} cells>"

    def missing(self) -> list[str]:
        """Ids of units that were asked for and are not on disk: not empty while a run is not finished."""
        wanted = [unit for cell in self.run["cells"] for unit in cell["units"]]
        return [unit for unit in wanted if not units.part_path(self.path, unit).exists()]

    def table(self) -> pa.Table:
        """All rows, in the order asked for and by task; ``seconds`` joined in, ``scores`` where they were kept."""
        cells = []
        for cell in self.run["cells"]:
            parts = [self._part(unit) for unit in cell["units"]]
            parts = [part for part in parts if part is not None]
            if parts:
                # A testbed over several datasets has units per dataset: task order is restored here.
                cells.append(pa.concat_tables(parts, promote_options="default").sort_by("task"))
        if not cells:
            schema = units.SCHEMA.append(pa.field("seconds", pa.float64()))
            return schema.empty_table()
        return pa.concat_tables(cells, promote_options="default").combine_chunks()

    def _part(self, unit: str) -> pa.Table | None:
        path = units.part_path(self.path, unit)
        if not path.exists():
            return None
        try:
            part = units.read_part(path)
        except ValueError as error:
            raise UserError(f"{error}; run the same 'longshot evaluate' again to compute it anew.") from error
        return part.append_column("seconds", units.read_seconds(self.path, unit, part.num_rows))

    def summary(self) -> list[dict[str, Any]]:
        """One record per testbed × backbone × method × seed, in the order asked for.

        ``accuracy`` … ``loss`` are means over tasks, each with ``<name>_ci95`` = [low, high] (None for a single
        task); ``ci95`` is half the width of accuracy's interval.
        """
        table = self.table()
        records = []
        for cell in self.run["cells"]:
            mask = pc.equal(table["testbed"], cell["testbed"])
            for key in _KEYS[1:]:
                mask = pc.and_(mask, pc.equal(table[key], cell[key]))
            rows = table.filter(mask)
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
                    record["ci95"] = interval.half
            record["seconds"] = pc.sum(rows["seconds"]).as_py()
            records.append(record)
        return records

    def testbed(self, content_hash: str) -> Testbed:
        """The run's own copy of a testbed; FileNotFoundError when it is gone."""
        from longshot.testbeds.testbed import Testbed

        path = testbed_path(self.path, content_hash)
        if not path.is_file():
            raise FileNotFoundError(path)
        return Testbed.load(path)


def testbed_path(folder: Path, content_hash: str) -> Path:
    """Where a run keeps its copy of a testbed."""
    return folder / "testbeds" / f"{content_hash}.parquet"


def new_run() -> dict[str, Any]:
    """The run.json of a run without results.

    ``testbeds`` (hash → facts), ``backbones`` (name → dataset fingerprint → facts), ``methods`` (call →
    facts), ``cells`` (testbed × backbone × method × seed with their units), ``sessions`` (one per call of
    evaluate: when, where, with what).
    """
    return {"format": FORMAT, "testbeds": {}, "backbones": {}, "methods": {}, "cells": [], "sessions": []}


def read_run(folder: Path) -> dict[str, Any]:
    """run.json of a folder; UserError when it is no run or of another format."""
    path = folder / "run.json"
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = "it is a file" if folder.exists() else "there is no such folder"
        what = "it has no run.json" if folder.is_dir() else missing
        raise UserError(
            f"{folder} is not the folder of a run: {what}; make one with 'longshot evaluate'."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}; evaluate into another folder.") from error
    if not isinstance(run, dict) or run.get("format") != FORMAT or not set(new_run()) <= set(run):
        raise UserError(f"{path} is not a run of format {FORMAT}; evaluate into another folder.")
    return run


def open_folder(folder: Path) -> dict[str, Any]:
    """The run to extend, or a new one; UserError when the folder holds something else."""
    if (folder / "run.json").exists():
        return read_run(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, but results go into a folder; choose another place with -o.")
    if folder.is_dir():
        names = sorted(
            path.name for path in folder.iterdir() if path.name != "testbeds" and path.name[0] != "."
        )
        if names:
            raise UserError(
                f"{folder} holds {len(names)} other files, such as '{names[0]}', and no run.json, so it is not the "
                f"folder of a run; choose an empty or new folder with -o."
            )
    return new_run()


def add_testbed(run: dict[str, Any], name: str, testbed: Testbed) -> str:
    """Record a testbed; returns the name it has in the run (the first it was given).

    UserError when the name already stands for another testbed.
    """
    for known_hash, known in run["testbeds"].items():
        if known["name"] == name and known_hash != testbed.content_hash:
            raise UserError(
                f"The run already holds results of another testbed called '{name}' ({known_hash[:12]}…, this one is "
                f"{testbed.content_hash[:12]}…); rename the file or evaluate into another folder."
            )
    facts = {
        "name": name,
        "tasks": len(testbed),
        **{k: v for k, v in testbed.meta.items() if k != "content_hash"},
    }
    return str(run["testbeds"].setdefault(testbed.content_hash, facts)["name"])


def add_entry(entries: dict[str, Any], key: str, facts: dict[str, Any], what: str) -> None:
    """Record ``facts`` under a name; a name means one thing in a run, so other facts are a UserError.

    Facts that the entry lacks are added to it: a folder of an earlier version, or one that knew only the network and
    now also its features, is extended.
    """
    known = entries.setdefault(key, facts)
    differs = sorted(name for name in {*known} & {*facts} if not _agree(known[name], facts[name]))
    if differs:
        raise UserError(
            f"The run already holds results of {what} with another {' and '.join(differs)}; "
            f"evaluate into another folder, so that two different things do not share a name."
        )
    entries[key] = _merged(known, facts)


def _agree(one: Any, other: Any) -> bool:
    """Equal wherever both say something."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[key], other[key]) for key in {*one} & {*other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return bool(one == other)


def _merged(one: Any, other: Any) -> Any:
    """What two values that agree say together."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**other, **{key: _merged(one[key], other.get(key, one[key])) for key in one}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(a, b) for a, b in zip(one, other, strict=True)]
    return one

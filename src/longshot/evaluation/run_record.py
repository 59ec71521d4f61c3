"""run.json, the record of a run: what was measured, through what, by what, when and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longshot.core.errors import UserError
from longshot.core.settings import Loose, read_record

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed

FORMAT = 1


class RunCell(Loose):
    """One testbed × backbone × method × seed, and the units of work it is made of."""

    testbed: str  # content hash
    backbone: str
    method: str  # canonical call
    seed: int
    units: tuple[str, ...]


class RunRecord(Loose):
    """What a run.json must hold; it may hold more."""

    format: Literal[1]
    testbeds: dict[str, dict[str, Any]]  # content hash → facts
    backbones: dict[str, dict[str, Any]]  # name → dataset fingerprint → facts
    methods: dict[str, dict[str, Any]]  # call → facts
    cells: tuple[RunCell, ...]
    sessions: tuple[dict[str, Any], ...]  # one per call of evaluate: when, where, with what


def new_run() -> dict[str, Any]:
    """The run.json of a run without results; see :class:`RunRecord`."""
    return {"format": FORMAT, "testbeds": {}, "backbones": {}, "methods": {}, "cells": [], "sessions": []}


def read_run(folder: Path) -> dict[str, Any]:
    """run.json of a folder; UserError when it is no run or of another format."""
    path = folder / "run.json"
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        absent = "it is a file" if folder.exists() else "there is no such folder"
        reason = "it has no run.json" if folder.is_dir() else absent
        raise UserError(
            f"{folder} is not the folder of a run: {reason}", "make one with {evaluate()}"
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", "evaluate into another folder") from error
    read_record(RunRecord, run, f"{path} is not a run of format {FORMAT}: it")
    return run


def open_folder(folder: Path) -> dict[str, Any]:
    """The run to extend, or a new one; UserError when the folder holds something else."""
    if (folder / "run.json").exists():
        return read_run(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file, but results go into a folder", "choose another {out}")
    if folder.is_dir():
        names = sorted(
            path.name for path in folder.iterdir() if path.name != "testbeds" and path.name[0] != "."
        )
        if names:
            raise UserError(
                f"{folder} holds {len(names)} other files, such as '{names[0]}', and no run.json, so it is not the "
                "folder of a run",
                "choose an empty or new folder with {out}",
            )
    return new_run()


def add_testbed(run: dict[str, Any], name: str, testbed: Testbed) -> str:
    """Record a testbed; returns the name it has in the run (the first it was given).

    UserError when the name already stands for another testbed.
    """
    for content_hash, facts in run["testbeds"].items():
        if facts["name"] == name and content_hash != testbed.content_hash:
            raise UserError(
                f"The run already holds results of another testbed called '{name}' ({content_hash[:12]}…, this one is "
                f"{testbed.content_hash[:12]}…)",
                "rename the file or evaluate into another folder",
            )
    facts = {
        "name": name,
        "tasks": len(testbed),
        **{key: value for key, value in testbed.meta.items() if key != "content_hash"},
    }
    return str(run["testbeds"].setdefault(testbed.content_hash, facts)["name"])


def add_entry(entries: dict[str, Any], key: str, facts: dict[str, Any], described: str) -> None:
    """Record ``facts`` under a name; a name means one thing in a run, so other facts are a UserError.

    Facts that the entry lacks are added to it: a folder of an earlier version, or one that knew only the network and
    now also its features, is extended. ``described`` names the entry in the sentence.
    """
    recorded = entries.setdefault(key, facts)
    differs = sorted(name for name in {*recorded} & {*facts} if not _agree(recorded[name], facts[name]))
    if differs:
        raise UserError(
            f"The run already holds results of {described} with another {' and '.join(differs)}",
            "evaluate into another folder, so that two different things do not share a name",
        )
    entries[key] = _merged(recorded, facts)


def _agree(a: Any, b: Any) -> bool:
    """Equal wherever both say something."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_agree(a[key], b[key]) for key in {*a} & {*b})
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    return bool(a == b)


def _merged(a: Any, b: Any) -> Any:
    """What two values that agree say together."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {**b, **{key: _merged(a[key], b.get(key, a[key])) for key in a}}
    if isinstance(a, list) and isinstance(b, list):
        return [_merged(x, y) for x, y in zip(a, b, strict=True)]
    return a

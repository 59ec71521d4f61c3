"""run.json, the record of a run: what was measured, through what, by what, when and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from longshot.core.errors import UserError
from longshot.core.files import hash_text, write_json
from longshot.core.outputs import claim_folder
from longshot.core.settings import Loose, read_record
from longshot.evaluation.merging import merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longshot.testbeds.testbed import Testbed

FORMAT = 1
CHECKSUM = "checksum"
_RESTORE = "take an unchanged copy of the folder, or call {evaluate()} into another one"
Name = Annotated[str, Field(min_length=1)]
UnitId = Annotated[str, Field(pattern="^[0-9a-f]{20}$")]
Count = Annotated[int, Field(ge=0)]


class RunCell(Loose):
    """One testbed × backbone × method × seed, and the units of work it is made of."""

    testbed: Name  # content hash
    backbone: Name
    method: Name  # canonical call
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    units: Annotated[tuple[UnitId, ...], Field(min_length=1)]


class RunTestbed(Loose):
    """What a run says about a testbed: at least what it is called."""

    name: Name
    tasks: Annotated[int, Field(ge=1)] | None = None


class RunMethod(Loose):
    """What a run says about a method: at least whether it sees all queries at once."""

    setting: Literal["inductive", "transductive"]
    kind: Name = "frozen"


class RunSession(Loose):
    """One call of evaluate: when, where, with what."""

    machine: dict[str, Any] = Field(default_factory=dict)


class RunLeak(Loose):
    """What training and test data share, as far as it is known."""

    dataset: str
    upstream: str | None
    how: str
    images: Count | None
    of_images: Count
    classes: Count | None
    of_classes: Count

    @model_validator(mode="after")
    def _known_together(self) -> RunLeak:
        if (self.images is None) != (self.classes is None):
            raise ValueError("shared images and classes are known together or not at all")
        return self


class RunChoice(Loose):
    """Settings chosen on validation tasks: accuracy and loss of each candidate on each task, None before it ran."""

    measured: dict[str, tuple[tuple[float, float] | None, ...]] = Field(default_factory=dict)


class RunNetwork(Loose):
    """What a run calls a network."""

    label: Name


class RunRecord(Loose):
    """What a run.json must hold; it may hold more."""

    format: Literal[1]
    testbeds: dict[str, RunTestbed]  # content hash → facts
    backbones: dict[str, dict[str, dict[str, Any]]]  # label → dataset fingerprint → facts
    methods: dict[str, RunMethod]  # call → facts
    cells: tuple[RunCell, ...]
    sessions: tuple[RunSession, ...]
    networks: dict[str, RunNetwork] = Field(default_factory=dict)  # identity → what it is called
    # backbone → content hash → what is shared
    upstream: dict[str, dict[str, tuple[RunLeak, ...]]] = Field(default_factory=dict)
    choices: dict[str, RunChoice] = Field(default_factory=dict)


def new_run() -> dict[str, Any]:
    """The run.json of a run without results; see :class:`RunRecord`."""
    return {"format": FORMAT, "testbeds": {}, "backbones": {}, "methods": {}, "cells": [], "sessions": []}


def write_run(folder: Path, run: Mapping[str, Any]) -> None:
    """Write run.json with a checksum over all it holds, so that a changed record is noticed."""
    write_json(folder / "run.json", {**run, CHECKSUM: _checksum(run)})


def read_run(folder: Path) -> dict[str, Any]:
    """The record of a run; UserError when the folder holds none, or one of another format, damaged or changed.

    Evaluations that write to one bucket at once have a record each (``writers/*/run.json``); all are added up.
    """
    own = writer_folders(folder)
    alone = own and not (folder / "run.json").exists()  # the first has entered itself, and nothing else yet
    run = new_run() if alone else _read_own(folder)
    for writer in own:
        run = merged(run, _read_own(writer))
    return run


def writer_folders(folder: Path) -> list[Path]:
    """Where evaluations that write to one bucket keep their own records."""
    writers = folder / "writers"
    return sorted(file.parent for file in writers.glob("*/run.json")) if writers.is_dir() else []


def _read_own(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    try:
        text = path.read_bytes().decode("utf-8")
        run: dict[str, Any] = json.loads(text)
    except (FileNotFoundError, NotADirectoryError) as error:
        absent = "it is a file" if folder.exists() else "there is no such folder"
        reason = "it has no run.json" if folder.is_dir() else absent
        raise UserError(
            f"{folder} is not the folder of a run: {reason}", "make one with {evaluate()}"
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}", _RESTORE) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: it is not JSON ({error})", _RESTORE) from error
    _check_format(path, run)
    checksum = run.pop(CHECKSUM, None)  # absent from folders of earlier versions
    if checksum is not None and checksum != _checksum(run):
        raise UserError(f"{path} is damaged: it was changed after it was written", _RESTORE)
    _check_record(path, run)
    return run


def _check_format(path: Path, run: Any) -> None:
    """UserError unless the file says that it is a run of the format that is read here."""
    if not isinstance(run, dict):
        raise UserError(f"{path} is damaged: it holds no record of a run", _RESTORE)
    if run.get("format") != FORMAT:
        raise UserError(
            f"{path} is not a run of format {FORMAT}: it says {run.get('format')!r:.40}",
            "read it with the version of Longshot that wrote it, or call {evaluate()} into another folder",
        )


def _check_record(path: Path, run: dict[str, Any]) -> None:
    """UserError for a record that lacks something, holds other kinds of values, or does not fit together."""
    try:
        json.dumps(run, ensure_ascii=False).encode("utf-8")  # half of a surrogate pair is no text
        record = read_record(RunRecord, run, "it")
    except (UserError, ValueError, RecursionError) as error:
        reason = str(error).removesuffix(".").removesuffix("; add it")
        raise UserError(f"{path} is damaged: {reason}", _RESTORE) from error
    keys = [(cell.testbed, cell.backbone, cell.method, cell.seed) for cell in record.cells]
    units = [(cell.testbed, cell.backbone, unit) for cell in record.cells for unit in cell.units]
    for kind, names in (("testbed", record.testbeds), ("method", record.methods)):
        absent = [name for cell in record.cells if (name := getattr(cell, kind)) not in names]
        if absent:
            raise UserError(
                f"{path} is damaged: it has results of the {kind} '{absent[0][:40]}' and says nothing about it",
                _RESTORE,
            )
    if len({*keys}) < len(keys) or len({*units}) < len(units):
        raise UserError(f"{path} is damaged: it counts some results twice", _RESTORE)


def _checksum(run: Mapping[str, Any]) -> str:
    """SHA-256 of the record as it reads back from JSON, whatever the order of its names."""
    plain = json.loads(json.dumps(run))
    return hash_text(json.dumps(plain, sort_keys=True, separators=(",", ":")))


def open_folder(folder: Path) -> dict[str, Any]:
    """The run to extend, or a new one; UserError when the folder holds something else."""
    if (folder / "run.json").exists() or writer_folders(folder):
        return read_run(folder)
    claim_folder(folder, "run", ("run.json",), besides=("testbeds", "writers"))
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


def add_network(run: dict[str, Any], label: str, identity: str) -> str:
    """Record a network by its identity; returns the label it has in the run (the first it was given).

    UserError when the label already stands for another network.
    """
    networks = run.setdefault("networks", {})
    for other, facts in networks.items():
        if facts["label"] == label and other != identity:
            raise UserError(
                f"The run already holds results of another network called '{label}' ({other[:12]}…, this one is "
                f"{identity[:12]}…)",
                "give it a label, such as {backbones:mine=PATH}, or evaluate into another folder",
            )
    return str(networks.setdefault(identity, {"label": label})["label"])

"""run.json, the record of a run: what was measured, through what, by what, when and where.

Evaluations that write to one bucket at once have a record each, and what they say together is the run's.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from longshot.base import LooseRecord, UserError, claim_folder, hash_text, read_record, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longshot.tasks import Testbed

FORMAT = 1
CHECKSUM = "checksum"
_RESTORE = "take an unchanged copy of the folder, or call {evaluate()} into another one"
Name = Annotated[str, Field(min_length=1)]
UnitId = Annotated[str, Field(pattern="^[0-9a-f]{20}$")]
Count = Annotated[int, Field(ge=0)]
CELL = ("testbed", "backbone", "method", "seed")  # what tells cells apart


class RunCell(LooseRecord):
    """One testbed × backbone × method × seed, and the units of work it is made of."""

    testbed: Name  # content hash
    backbone: Name
    method: Name  # canonical call
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    units: Annotated[tuple[UnitId, ...], Field(min_length=1)]
    unleaked: dict[str, dict[str, float | None]] | None = None  # see ``provenance.record_unleaked``


class RunTestbed(LooseRecord):
    """What a run says about a testbed: at least what it is called."""

    name: Name
    tasks: Annotated[int, Field(ge=1)] | None = None


class RunMethod(LooseRecord):
    """What a run says about a method: at least whether it sees all queries at once."""

    setting: Literal["inductive", "transductive"]
    kind: Name = "frozen"


class RunSession(LooseRecord):
    """One call of evaluate: when, where, with what."""

    machine: dict[str, Any] = Field(default_factory=dict)


# how an image of a testbed is known to be one that training saw
LEVELS = {
    "files": "the same file",
    "pixels": "the same pixels",
    "near": "a near copy",
    "names": "the same name",
}


class RunLeak(LooseRecord):
    """What training and test data share, as far as it is known; see ``longshot.models.find_leaks``."""

    dataset: str
    upstream: str | None
    how: str
    images: Count | None
    of_images: Count
    levels: dict[str, Count] = Field(default_factory=dict)
    leaked: Annotated[str, Field(pattern="^[A-Za-z0-9+/=]*$")] = ""
    classes: Count | None
    of_classes: Count
    trained_classes: Count = 0
    not_known: tuple[str, ...] = ()
    class_ids: tuple[str, ...] = ()


class RunChoice(LooseRecord):
    """Settings chosen on validation tasks: accuracy and loss of each candidate on each task, None before it ran."""

    measured: dict[str, tuple[tuple[float, float] | None, ...]] = Field(default_factory=dict)


class RunNetwork(LooseRecord):
    """What a run calls a network."""

    label: Name


class RunRecord(LooseRecord):
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
    lineage: dict[str, tuple[dict[str, Any], ...]] = Field(
        default_factory=dict
    )  # backbone → its and earlier weights
    choices: dict[str, RunChoice] = Field(default_factory=dict)


def new_run() -> dict[str, Any]:
    """Return the run.json of a run without results; see :class:`RunRecord`."""
    return {"format": FORMAT, "testbeds": {}, "backbones": {}, "methods": {}, "cells": [], "sessions": []}


def write_run(folder: Path, run: Mapping[str, Any]) -> None:
    """Write run.json with a checksum over all it holds, so that a changed record is noticed."""
    write_json(folder / "run.json", {**run, CHECKSUM: _checksum(run)})


def read_run(folder: Path) -> dict[str, Any]:
    """Read the record of a run; UserError without one, or when it is damaged, changed or of another format.

    Evaluations that write to one bucket at once have a record each (``writers/*/run.json``); all are added up.
    """
    own = writer_folders(folder)
    alone = own and not (folder / "run.json").exists()  # the first has entered itself, and nothing else yet
    run = new_run() if alone else _read_own(folder)
    for writer in own:
        run = merged(run, _read_own(writer))
    return run


def writer_folders(folder: Path) -> list[Path]:
    """List the folders where evaluations that write to one bucket keep their own records."""
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
    """Raise UserError unless the file says that it is a run of the format that is read here."""
    if not isinstance(run, dict):
        raise UserError(f"{path} is damaged: it holds no record of a run", _RESTORE)
    if run.get("format") != FORMAT:
        raise UserError(
            f"{path} is not a run of format {FORMAT}: it says {run.get('format')!r:.40}",
            "read it with the version of Longshot that wrote it, or call {evaluate()} into another folder",
        )


def _check_record(path: Path, run: dict[str, Any]) -> None:
    """Raise UserError for a record that lacks something, holds wrong kinds of values, or is inconsistent."""
    try:
        json.dumps(run, ensure_ascii=False).encode("utf-8")  # half of a surrogate pair is no text
        record = read_record(RunRecord, run, "it")
    except (UserError, ValueError, RecursionError) as error:
        reason = str(error).removesuffix(".").removesuffix("; add it")
        raise UserError(f"{path} is damaged: {reason}", _RESTORE) from error
    keys = [tuple(getattr(cell, key) for key in CELL) for cell in record.cells]
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
    """Return the SHA-256 of the record as it reads back from JSON, whatever the order of its names."""
    plain = json.loads(json.dumps(run))
    return hash_text(json.dumps(plain, sort_keys=True, separators=(",", ":")))


def open_folder(folder: Path) -> dict[str, Any]:
    """Read the run to extend, or make a new one; UserError when the folder holds something else."""
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


# --- several records as one ---


def merged(run: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two records of a run; ``run`` comes first and its labels stand.

    UserError where a name means one thing here and another there.
    """
    total: dict[str, Any] = copy.deepcopy(dict(run))
    labels = _merge_networks(total, other)
    _merge_testbeds(total["testbeds"], other["testbeds"])
    for call, facts in other["methods"].items():
        add_entry(total["methods"], call, copy.deepcopy(facts), f"the method {call}")
    for label, by_dataset in other["backbones"].items():
        own = total["backbones"].setdefault(labels.get(label, label), {})
        for fingerprint, facts in by_dataset.items():
            if fingerprint in own and labels.get(label, label) != label:
                continue  # the same network under another label: its names differ, and nothing else
            add_entry(own, fingerprint, copy.deepcopy(facts), f"the backbone '{label}'")
    cells = {tuple(cell[key] for key in CELL) for cell in total["cells"]}
    for cell in other["cells"]:
        renamed = {**cell, "backbone": labels.get(cell["backbone"], cell["backbone"])}
        if tuple(renamed[key] for key in CELL) not in cells:
            total["cells"].append(renamed)
    for label, leaks in other.get("upstream", {}).items():
        own = total.setdefault("upstream", {}).setdefault(labels.get(label, label), {})
        own |= {content_hash: facts for content_hash, facts in leaks.items() if content_hash not in own}
    for label, lineage in other.get("lineage", {}).items():
        total.setdefault("lineage", {}).setdefault(labels.get(label, label), lineage)
    _merge_choices(total, other)
    total["sessions"] = _sessions([*total["sessions"], *other["sessions"]])
    return total


def _merge_networks(total: dict[str, Any], other: Mapping[str, Any]) -> dict[str, str]:
    """Enter the networks of ``other``; returns its labels → those that the same networks have in ``total``."""
    labels: dict[str, str] = {}
    networks = other.get("networks", {})
    if networks:
        total.setdefault("networks", {})
    for identity, facts in networks.items():
        label = facts["label"]
        for theirs, entry in total["networks"].items():
            if entry["label"] == label and theirs != identity:
                raise UserError(
                    f"Two networks were evaluated at once as '{label}' ({theirs[:12]}… and {identity[:12]}…)",
                    "give one of them a label, such as {backbones:mine=PATH}, or evaluate into another folder",
                )
        labels[label] = total["networks"].setdefault(identity, copy.deepcopy(facts))["label"]
    return labels


def _merge_testbeds(own: dict[str, Any], other: Mapping[str, Any]) -> None:
    for content_hash, facts in other.items():
        for theirs, entry in own.items():
            if entry["name"] == facts["name"] and theirs != content_hash:
                raise UserError(
                    f"Two testbeds were evaluated at once as '{facts['name']}' ({theirs[:12]}… and "
                    f"{content_hash[:12]}…)",
                    "rename one of the files or evaluate into another folder",
                )
        own.setdefault(content_hash, copy.deepcopy(facts))


def _merge_choices(total: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merge the settings chosen on validation tasks: what either measured on a task is measured."""
    for key, choice in other.get("choices", {}).items():
        own = total.setdefault("choices", {}).setdefault(key, copy.deepcopy(choice))
        measured = own.setdefault("measured", {})
        for candidate, values in choice.get("measured", {}).items():
            here = measured.get(candidate)
            if here is None or len(here) != len(values):
                measured.setdefault(candidate, list(values))
            else:
                pairs = zip(here, values, strict=True)
                measured[candidate] = [theirs if ours is None else ours for ours, theirs in pairs]
        own |= {name: value for name, value in choice.items() if own.get(name) is None}


def _sessions(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """List each session once in the order of start, as its writer recorded it last."""
    by_writer: dict[Any, dict[str, Any]] = {}
    for session in sessions:
        key = (session.get("writer"), session.get("started"))
        earlier = by_writer.get(key)
        if earlier is None or (session.get("finished") or "") >= (earlier.get("finished") or ""):
            by_writer[key] = session
    return sorted(by_writer.values(), key=lambda session: str(session.get("started")))


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
    """Tell whether two values are equal wherever both say something."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_agree(a[key], b[key]) for key in {*a} & {*b})
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    return bool(a == b)


def _merged(a: Any, b: Any) -> Any:
    """Merge two values that agree."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {**b, **{key: _merged(a[key], b.get(key, a[key])) for key in a}}
    if isinstance(a, list) and isinstance(b, list):
        return [_merged(x, y) for x, y in zip(a, b, strict=True)]
    return a

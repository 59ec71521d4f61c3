"""A suite: which testbeds and methods a model is measured with, frozen by their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from longshot.base import (
    Loose,
    Record,
    UserError,
    claim_folder,
    count,
    first,
    hash_json,
    read_json,
    write_json,
)
from longshot.tasks import Testbed

BUILT_IN = ("toybox-1",)
METHODS = ("protonet", "ridge")  # where neither a suite nor its user names any
FINE_GRAINED = ("semantic", "siblings", "coarsity")
Kind: TypeAlias = Literal["uniform", "fine-grained", "difficult"]
KINDS: tuple[Kind, ...] = ("uniform", "fine-grained", "difficult")


class SuiteTestbed(Record):
    """A testbed of a suite: its file beside suite.json, and what it must hold."""

    name: str
    file: str
    kind: Kind
    content_hash: str


class SuiteRecord(Record):
    """suite.json."""

    format: Literal[1] = 1
    name: str
    version: str
    about: str = ""
    methods: tuple[str, ...]
    testbeds: tuple[SuiteTestbed, ...]


class _ReleasedTestbed(Loose):
    name: str
    content_hash: str


class _Release(Loose):
    """What a suite needs of release.json."""

    title: str
    version: str
    testbeds: tuple[_ReleasedTestbed, ...]


@dataclass(frozen=True, eq=False)
class Suite:
    """Testbeds by name, with their kinds, and the methods to run on them."""

    name: str
    version: str
    about: str
    methods: tuple[str, ...]
    testbeds: Mapping[str, Testbed]
    kinds: Mapping[str, Kind]

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 over the contents of the testbeds: what a leaderboard is about."""
        return hash_json(sorted(testbed.content_hash for testbed in self.testbeds.values()))


def open_suite(source: str | Path | Sequence[str | Path], methods: Sequence[str] = ()) -> Suite:
    """A suite by name, from a folder, or of one's own testbeds.

    Parameters
    ----------
    source : str, path or list of paths
        "toybox-1", a folder with suite.json (:func:`write_suite`), a release folder, or testbed files.
    methods : sequence of str
        In place of those of the suite.

    Returns
    -------
    Suite
        Every testbed has the content that the suite names; UserError otherwise.

    Examples
    --------
    >>> suite = open_suite("toybox-1")
    >>> [(name, suite.kinds[name], len(testbed)) for name, testbed in suite.testbeds.items()][0]
    ('uniform', 'uniform', 300)
    """
    sources = [source] if isinstance(source, str | Path) else list(source)
    if len(sources) == 1 and str(sources[0]) in BUILT_IN:
        return _from_folder(Path(__file__).with_name(str(sources[0])), methods)
    if len(sources) == 1 and Path(sources[0]).is_dir():
        return _from_folder(Path(sources[0]), methods)
    if not sources:
        raise UserError("A suite needs at least 1 testbed and 0 were given.")
    return _from_files([Path(each) for each in sources], methods)


def write_suite(suite: Suite, out: str | Path) -> Path:
    """Write a suite for others: suite.json and its testbeds.

    Parameters
    ----------
    suite : Suite
        What to write.
    out : path
        Folder, new or empty.

    Returns
    -------
    Path
        The folder.
    """
    folder = Path(out)
    claim_folder(folder, "suite")
    folder.mkdir(parents=True, exist_ok=True)
    testbeds = []
    for name, testbed in suite.testbeds.items():
        testbed.save(folder / f"{name}.parquet")
        testbeds.append(
            SuiteTestbed(
                name=name,
                file=f"{name}.parquet",
                kind=suite.kinds[name],
                content_hash=testbed.content_hash,
            )
        )
    record = SuiteRecord(
        name=suite.name,
        version=suite.version,
        about=suite.about,
        methods=suite.methods,
        testbeds=tuple(testbeds),
    )
    write_json(folder / "suite.json", record.model_dump(mode="json"))
    return folder


def _from_folder(folder: Path, methods: Sequence[str]) -> Suite:
    """The suite or the release in a folder."""
    if (folder / "suite.json").is_file():
        record = read_json(SuiteRecord, folder / "suite.json", "The suite")
        entries = record.testbeds
        about, own_methods = record.about, record.methods
        name, version = record.name, record.version
    elif (folder / "release.json").is_file():
        released = read_json(_Release, folder / "release.json", "The release")
        entries = tuple(
            SuiteTestbed(
                name=each.name,
                file=f"testbeds/{each.name}.parquet",
                kind="uniform",
                content_hash=each.content_hash,
            )
            for each in released.testbeds
        )
        about, own_methods, name, version = "", METHODS, released.title, released.version
    else:
        raise UserError(
            f"The folder {folder} holds neither suite.json nor release.json, and a suite is one of them",
            "name a release, or the testbed files themselves",
        )
    testbeds = {entry.name: _checked(folder, entry) for entry in entries}
    kinds = {entry.name: entry.kind for entry in entries}
    if (folder / "release.json").is_file():
        kinds = {name: kind_of(testbed) for name, testbed in testbeds.items()}
    return Suite(name, version, about, tuple(methods) or own_methods, testbeds, kinds)


def _checked(folder: Path, entry: SuiteTestbed) -> Testbed:
    """A testbed of a folder; UserError when it is not the one that the suite names."""
    path = (folder / entry.file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UserError(f"The suite {folder} names the file {entry.file!r}, which lies outside of it.")
    testbed = Testbed.load(path)
    if testbed.content_hash != entry.content_hash:
        raise UserError(
            f"{path} is not the testbed that the suite names (content {testbed.content_hash[:12]}…, not "
            f"{entry.content_hash[:12]}…)",
            "take an unchanged copy of the suite",
        )
    return testbed


def _from_files(paths: list[Path], methods: Sequence[str]) -> Suite:
    """Testbed files as a suite of their own, called by their names."""
    names = [path.stem for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"The testbeds of a suite need different names and have {count(twice, 'name')} more than once: "
            f"{first(twice)}",
            "rename a file",
        )
    testbeds = {name: Testbed.load(path) for name, path in zip(names, paths, strict=True)}
    kinds = {name: kind_of(testbed) for name, testbed in testbeds.items()}
    return Suite("+".join(names), "own", "", tuple(methods) or METHODS, testbeds, kinds)


def kind_of(testbed: Testbed) -> Kind:
    """What a testbed asks, from how it was drawn: difficult supports, look-alike classes, or neither."""
    if _choice(testbed.meta, "instances").get("name") in ("difficult", "greedy"):
        return "difficult"
    return "fine-grained" if _choice(testbed.meta, "classes").get("name") in FINE_GRAINED else "uniform"


def _choice(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One of a testbed's sampler choices with its settings; empty where it is not on record."""
    sampler = meta.get("sampler")
    choice = sampler.get(name) if isinstance(sampler, Mapping) else None
    return choice if isinstance(choice, Mapping) else {}

"""A suite: testbeds frozen by their content, with what one needs to get their images.

A suite is a folder. ``suite.json`` names the testbeds and what each holds; ``testbeds.parquet`` holds the tasks of
all, one testbed after the other, so that the digests of their images stand in it once. Suites come with Longshot, are
fetched by URL, or are one's own; a group is several suites under one name.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from pydantic import Field

from longshot.base import (
    LooseRecord,
    Record,
    UserError,
    claim_folder,
    count,
    extract_archive,
    first,
    hash_json,
    is_url,
    local_copy,
    nearest_name,
    read_json,
    write_json,
)
from longshot.tasks import Testbed

SHIPPED = Path(__file__).with_name("suites")
DEFAULT = "toybox-1"
METHODS = ("protonet", "ridge")  # where neither a suite nor its user names any
LOOK_ALIKE = ("alike", "semantic", "siblings", "coarsity")
SuiteKind: TypeAlias = Literal["easy", "uniform", "alike", "difficult", "both", "ladder", "shifted", "varied"]
KINDS: tuple[SuiteKind, ...] = get_args(SuiteKind)
_BEDS = "testbeds.parquet"
SHIPPED_BOARD = "leaderboard.json.gz"
_HASH = "#sha256="  # after the URL of a suite: the digest of its archive


class SuiteTestbed(Record):
    """A testbed of a suite: how many tasks it has, what these must hold, and how they were drawn."""

    name: str
    kind: SuiteKind
    tasks: int = Field(ge=1)
    content_hash: str
    sampler: dict[str, Any]
    seed: int | None = None
    features: str | None = None


class SuiteRecord(Record):
    """suite.json."""

    format: Literal[2] = 2
    name: str
    version: str
    about: str = ""
    licence: str = ""  # of the images
    images: str = ""  # how to get them
    made_by: str = ""  # the command that draws the same tasks again
    methods: tuple[str, ...]
    testbeds: tuple[SuiteTestbed, ...]


class _Group(Record):
    """NAME.json beside the suites: several of them under one name."""

    about: str
    suites: tuple[str, ...]


class _ReleasedTestbed(LooseRecord):
    name: str
    content_hash: str


class _Release(LooseRecord):
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
    kinds: Mapping[str, SuiteKind]
    licence: str = ""
    images: str = ""
    made_by: str = ""
    folder: Path | None = None  # where it was read from

    @cached_property
    def digest(self) -> str:
        """Return the hex SHA-256 over the contents of the testbeds: what a leaderboard is about."""
        return hash_json(sorted(testbed.content_hash for testbed in self.testbeds.values()))

    @property
    def datasets(self) -> list[str]:
        """List the names of the datasets that the testbeds use."""
        return list(dict.fromkeys(name for testbed in self.testbeds.values() for name in testbed.datasets))

    @property
    def ladder(self) -> dict[str, tuple[float, float]]:
        """Return the testbeds drawn for a stated accuracy: name → that accuracy, and that of guessing."""
        return {
            name: (target["accuracy"], chance_level(testbed))
            for name, testbed in self.testbeds.items()
            if self.kinds[name] == "ladder" and (target := testbed.meta["sampler"].get("target"))
        }


def chance_level(testbed: Testbed) -> float:
    """Return the mean accuracy of guessing."""
    return float(np.mean(1 / testbed.table.column("way").to_numpy()))


def shipped_suites() -> tuple[str, ...]:
    """List the suites that come with Longshot."""
    return tuple(sorted(folder.parent.name for folder in SHIPPED.glob("*/suite.json")))


def shipped_groups() -> tuple[str, ...]:
    """List the groups of suites that come with Longshot."""
    return tuple(sorted(file.stem for file in SHIPPED.glob("*.json")))


class SuiteFacts(NamedTuple):
    """What comes with Longshot under a name, without its tasks."""

    name: str
    about: str
    suites: tuple[str, ...]  # of a group its suites, else the suite itself
    hashes: frozenset[str]  # contents of all testbeds
    entries: int  # on the boards
    stamp: str  # changes with any of the files


def suite_facts(name: str) -> SuiteFacts:
    """Return what is known of a suite or a group that ships, read from its records alone."""
    return _facts(SHIPPED, name)


@lru_cache(64)
def _facts(folder: Path, name: str) -> SuiteFacts:
    names = suite_names(name) or [name]
    records = {each: read_json(SuiteRecord, folder / each / "suite.json", "The suite") for each in names}
    boards = [
        gzip.decompress(path.read_bytes())
        for each in names
        if (path := folder / each / SHIPPED_BOARD).is_file()
    ]
    group = folder / f"{name}.json"
    about = read_json(_Group, group, "The group of suites").about if group.is_file() else records[name].about
    hashes = frozenset(bed.content_hash for record in records.values() for bed in record.testbeds)
    stamp = hashlib.sha256(b"".join(boards) + "".join(sorted(hashes)).encode()).hexdigest()
    return SuiteFacts(
        name, about, tuple(names), hashes, sum(len(json.loads(board)["entries"]) for board in boards), stamp
    )


def suite_names(source: str | Path | Sequence[str | Path]) -> list[str] | None:
    """Return the suites of a group by their names; None where ``source`` is a single suite."""
    sources = [source] if isinstance(source, str | Path) else list(source)
    path = SHIPPED / f"{sources[0]}.json" if len(sources) == 1 else None
    if path is None or path.parent != SHIPPED or not path.is_file():
        return None
    return list(read_json(_Group, path, "The group of suites").suites)


def open_suite(source: str | Path | Sequence[str | Path], methods: Sequence[str] = ()) -> Suite:
    """Open a suite by name, from a folder or a URL, or of one's own testbeds.

    Parameters
    ----------
    source : str, path or list of paths
        A suite that comes with Longshot, a folder with suite.json (:func:`write_suite`), the URL of such a folder as
        an archive with its digest (``https://…/birds.zip#sha256=…``), a release folder, or testbed files.
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
    if not sources:
        raise UserError("A suite needs at least 1 testbed and 0 were given.")
    if len(sources) == 1:
        name = str(sources[0])
        if name in shipped_suites():
            return _from_folder(SHIPPED / name, methods)
        if is_url(name) and not name.endswith(".parquet"):
            return _from_url(name, methods)
        if Path(name).is_dir():
            return _from_folder(Path(name), methods)
        if not Path(name).suffix and not Path(name).exists():
            known_names = [*shipped_suites(), *shipped_groups()]
            hint = nearest_name(name, known_names, "those that come with Longshot are")
            raise UserError(f"There is no suite '{name}', neither by that name nor as a folder; {hint}")
    return _from_files([Path(each) for each in sources], methods)


def shipped_testbeds() -> dict[str, Path]:
    """List the files of the suites that come with Longshot: suite → the file with all of its tasks."""
    return {name: SHIPPED / name / _BEDS for name in shipped_suites()}


def write_suite(suite: Suite, out: str | Path) -> Path:
    """Write a suite for others: suite.json, and the tasks of its testbeds in one file.

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
    Testbed.concat(list(suite.testbeds.values())).save(folder / _BEDS)
    testbeds = tuple(
        SuiteTestbed(
            name=name,
            kind=suite.kinds[name],
            tasks=len(testbed),
            content_hash=testbed.content_hash,
            sampler=testbed.meta["sampler"],
            seed=testbed.meta["seed"],
            features=testbed.meta["features"],
        )
        for name, testbed in suite.testbeds.items()
    )
    words = ("name", "version", "about", "licence", "images", "made_by", "methods")
    facts: dict[str, Any] = {key: getattr(suite, key) for key in words}
    record = SuiteRecord(**facts, testbeds=testbeds)
    write_json(folder / "suite.json", record.model_dump(mode="json"))
    return folder


def _from_url(address: str, methods: Sequence[str]) -> Suite:
    """Fetch a suite as an archive, compare its digest, and open it."""
    url, _, digest = address.partition(_HASH)
    if not digest:
        raise UserError(
            f"The suite {url} has no digest, so a changed copy would go unnoticed",
            f"write it behind the URL, as in {{suite:{url}{_HASH}…}}",
        )
    archive = local_copy(url)
    with archive.open("rb") as file:
        present = hashlib.file_digest(file, "sha256").hexdigest()
    if present != digest.lower():
        raise UserError(
            f"The suite at {url} has the digest {present[:12]}…, and {digest[:12]}… was asked for",
            "ask its publisher which is meant",
        )
    with tempfile.TemporaryDirectory() as folder:
        extract_archive(archive, Path(folder))
        records = sorted(Path(folder).rglob("suite.json"))
        if len(records) != 1:
            raise UserError(
                f"The archive {url} holds {count(len(records), 'suite.json', 'suite.json')} and needs 1."
            )
        return _from_folder(records[0].parent, methods)


def _from_folder(folder: Path, methods: Sequence[str]) -> Suite:
    """Open the suite or the release in a folder."""
    if (folder / "suite.json").is_file():
        record = read_json(SuiteRecord, folder / "suite.json", "The suite")
        return Suite(
            record.name,
            record.version,
            record.about,
            tuple(methods) or record.methods,
            _cut(folder, record),
            {each.name: each.kind for each in record.testbeds},
            record.licence,
            record.images,
            record.made_by,
            folder,
        )
    if (folder / "release.json").is_file():
        released = read_json(_Release, folder / "release.json", "The release")
        testbeds = {
            each.name: _checked(
                Testbed.load(_inside(folder, f"testbeds/{each.name}.parquet")), each.content_hash, folder
            )
            for each in released.testbeds
        }
        return _with_kinds(released.title, released.version, methods, testbeds)
    raise UserError(
        f"The folder {folder} holds neither suite.json nor release.json, and a suite is one of them",
        "name a release, or the testbed files themselves",
    )


def _cut(folder: Path, record: SuiteRecord) -> dict[str, Testbed]:
    """Cut the file of a suite into its testbeds; UserError where one is not what the suite names."""
    joined = Testbed.load(folder / _BEDS)
    total = sum(each.tasks for each in record.testbeds)
    if total != len(joined):
        raise UserError(
            f"The suite {folder} has {count(total, 'task')} on record, and its file {_BEDS} holds {len(joined):,}",
            "take an unchanged copy of the suite",
        )
    testbeds, start = {}, 0
    for each in record.testbeds:
        table = joined.table.slice(start, each.tasks)
        table = table.set_column(0, "task", pa.array(range(each.tasks)))
        unmeasured = [name for name in joined.measured if table.column(name).null_count == each.tasks]
        facts: dict[str, Any] = {"sampler": each.sampler, "seed": each.seed, "features": each.features}
        cut = joined.changed(table.drop_columns(unmeasured), **facts)
        testbeds[each.name] = _checked(cut, each.content_hash, folder, each.name)
        start += each.tasks
    return testbeds


def _inside(folder: Path, file: str) -> Path:
    """Return the path of a file that a folder names; UserError where it lies outside."""
    path = (folder / file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UserError(f"The suite {folder} names the file {file!r}, which lies outside of it.")
    return path


def _checked(testbed: Testbed, content_hash: str, folder: Path, name: str = "") -> Testbed:
    """Return a testbed of a folder; UserError when it is not the one that the suite names."""
    if testbed.content_hash != content_hash:
        raise UserError(
            f"'{name or testbed.name}' in {folder} is not the testbed that the suite names (content "
            f"{testbed.content_hash[:12]}…, not {content_hash[:12]}…)",
            "take an unchanged copy of the suite",
        )
    return testbed


def _from_files(paths: list[Path], methods: Sequence[str]) -> Suite:
    """Open testbed files as a suite of their own, called by their names."""
    names = [path.stem for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            f"The testbeds of a suite need different names and have {count(twice, 'name')} more than once: "
            f"{first(twice)}",
            "rename a file",
        )
    testbeds = {name: Testbed.load(path) for name, path in zip(names, paths, strict=True)}
    return _with_kinds("+".join(names), "own", methods, testbeds)


def _with_kinds(name: str, version: str, methods: Sequence[str], testbeds: Mapping[str, Testbed]) -> Suite:
    """Make a suite of testbeds whose kinds are not on record."""
    kinds = {bed: kind_of(testbed) for bed, testbed in testbeds.items()}
    return Suite(name, version, "", tuple(methods) or METHODS, testbeds, kinds)


def kind_of(testbed: Testbed) -> SuiteKind:
    """Tell what a testbed asks, from how it was drawn: which classes, and which images of them."""
    instances = _choice(testbed.meta, "instances").get("name")
    is_alike = _choice(testbed.meta, "classes").get("name") in LOOK_ALIKE
    if instances in ("difficult", "greedy"):
        return "both" if is_alike else "difficult"
    if instances in ("easy", "shifted"):
        return "easy" if instances == "easy" else "shifted"
    return "alike" if is_alike else "uniform"


def _choice(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one of a testbed's sampler choices with its settings; empty where it is not on record."""
    sampler = meta.get("sampler")
    choice = sampler.get(name) if isinstance(sampler, Mapping) else None
    return choice if isinstance(choice, Mapping) else {}

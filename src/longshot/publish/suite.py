"""A suite, frozen by its content, and its leaderboard: entries of many people in one file that can be merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from longshot.base import (
    Floats,
    LooseRecord,
    OutputKind,
    Record,
    UserError,
    claim_folder,
    count,
    file_lock,
    first,
    has_json,
    hash_json,
    is_stream,
    read_json,
    write_json,
)
from longshot.tasks import Testbed

if TYPE_CHECKING:
    from longshot.reports import Placed

BUILT_IN = ("toybox-1",)
METHODS = ("protonet", "ridge")  # where neither a suite nor its user names any
FINE_GRAINED = ("alike", "semantic", "siblings", "coarsity")
SuiteKind: TypeAlias = Literal["uniform", "fine-grained", "difficult"]
KINDS: tuple[SuiteKind, ...] = ("uniform", "fine-grained", "difficult")


class SuiteTestbed(Record):
    """A testbed of a suite: its file beside suite.json, and what it must hold."""

    name: str
    file: str
    kind: SuiteKind
    content_hash: str


class SuiteRecord(Record):
    """suite.json."""

    format: Literal[1] = 1
    name: str
    version: str
    about: str = ""
    methods: tuple[str, ...]
    testbeds: tuple[SuiteTestbed, ...]


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

    @cached_property
    def digest(self) -> str:
        """Return the hex SHA-256 over the contents of the testbeds: what a leaderboard is about."""
        return hash_json(sorted(testbed.content_hash for testbed in self.testbeds.values()))


def open_suite(source: str | Path | Sequence[str | Path], methods: Sequence[str] = ()) -> Suite:
    """Open a suite by name, from a folder, or of one's own testbeds.

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
        return _from_folder(Path(__file__).with_name("suites") / str(sources[0]), methods)
    if len(sources) == 1 and Path(sources[0]).is_dir():
        return _from_folder(Path(sources[0]), methods)
    if not sources:
        raise UserError("A suite needs at least 1 testbed and 0 were given.")
    return _from_files([Path(each) for each in sources], methods)


def shipped_testbeds() -> dict[str, Path]:
    """List the testbeds of the suites that come with Longshot: ``toybox-1/uniform`` → its file."""
    folders = [Path(__file__).with_name("suites") / name for name in BUILT_IN]
    return {
        f"{folder.name}/{file.stem}": file for folder in folders for file in sorted(folder.glob("*.parquet"))
    }


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
    facts: dict[str, Any] = {key: getattr(suite, key) for key in ("name", "version", "about", "methods")}
    record = SuiteRecord(**facts, testbeds=tuple(testbeds))
    write_json(folder / "suite.json", record.model_dump(mode="json"))
    return folder


def _from_folder(folder: Path, methods: Sequence[str]) -> Suite:
    """Open the suite or the release in a folder."""
    if (folder / "suite.json").is_file():
        record = read_json(SuiteRecord, folder / "suite.json", "The suite")
        testbeds = {each.name: _checked(folder, each.file, each.content_hash) for each in record.testbeds}
        kinds = {each.name: each.kind for each in record.testbeds}
        return Suite(
            record.name, record.version, record.about, tuple(methods) or record.methods, testbeds, kinds
        )
    if (folder / "release.json").is_file():
        released = read_json(_Release, folder / "release.json", "The release")
        testbeds = {
            each.name: _checked(folder, f"testbeds/{each.name}.parquet", each.content_hash)
            for each in released.testbeds
        }
        return _with_kinds(released.title, released.version, methods, testbeds)
    raise UserError(
        f"The folder {folder} holds neither suite.json nor release.json, and a suite is one of them",
        "name a release, or the testbed files themselves",
    )


def _checked(folder: Path, file: str, content_hash: str) -> Testbed:
    """Load a testbed of a folder; UserError when it is not the one that the suite names."""
    path = (folder / file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UserError(f"The suite {folder} names the file {file!r}, which lies outside of it.")
    testbed = Testbed.load(path)
    if testbed.content_hash != content_hash:
        raise UserError(
            f"{path} is not the testbed that the suite names (content {testbed.content_hash[:12]}…, not "
            f"{content_hash[:12]}…)",
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
    """Tell what a testbed asks, from how it was drawn: difficult supports, look-alike classes, or neither."""
    if _choice(testbed.meta, "instances").get("name") in ("difficult", "greedy"):
        return "difficult"
    return "fine-grained" if _choice(testbed.meta, "classes").get("name") in FINE_GRAINED else "uniform"


def _choice(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return one of a testbed's sampler choices with its settings; empty where it is not on record."""
    sampler = meta.get("sampler")
    choice = sampler.get(name) if isinstance(sampler, Mapping) else None
    return choice if isinstance(choice, Mapping) else {}


class TestbedScore(Record):
    """A series on one testbed: accuracies of its tasks, shares in 0 … 1."""

    __test__ = False  # its name begins like a test's

    accuracies: tuple[float, ...] = Field(min_length=1)
    half: float | None  # of the 95 % interval over tasks
    class_half: float | None  # of the one for other classes too
    judge: bool  # whether this network chose the testbed's images
    leak: str = ""  # the mark of what it saw of the testbed in training
    leak_note: str = ""

    @property
    def mean(self) -> float:
        """Mean accuracy over tasks."""
        return float(np.mean(self.accuracies))


class Entry(Record):
    """A backbone with a method on every testbed of the suite."""

    model: str  # what it was called
    identity: str  # hash of what computes, whatever it is called
    method: str
    setting: str
    scores: dict[str, TestbedScore]
    milliseconds_per_image: float | None
    milliseconds_per_task: float | None
    when: str
    longshot: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what makes two entries the same measurement."""
        return self.identity, self.method, repr(sorted((n, s.accuracies) for n, s in self.scores.items()))

    @property
    def average(self) -> float | None:
        """Mean over testbeds; None for a network that was a judge of one: it is not ranked."""
        if any(score.judge for score in self.scores.values()):
            return None
        return float(np.mean([score.mean for score in self.scores.values()]))


class Leaderboard(Record):
    """leaderboard.json."""

    format: Literal[1] = 1
    suite: str
    version: str
    digest: str
    testbeds: dict[str, str]  # name → content hash
    entries: tuple[Entry, ...] = ()

    def with_entries(self, entries: Iterable[Entry]) -> Leaderboard:
        """Return the same board with more entries; what is there already is not repeated."""
        by_key = {entry.key: entry for entry in (*self.entries, *entries)}
        return self.model_copy(update={"entries": tuple(by_key.values())})

    def ordered(self) -> list[Entry]:
        """Order entries: inductive above transductive, each from the highest average down, judges last."""

        def place(entry: Entry) -> tuple[bool, bool, float]:
            average = entry.average
            return entry.setting == "transductive", average is None, -(average or 0.0)

        return sorted(self.entries, key=place)

    def placed(self, testbed: str) -> dict[tuple[str, str, str], Placed]:
        """Return entry key → its place on a testbed, within its setting; judges take none."""
        from longshot.reports import place_column

        if not self.entries:
            return {}
        scores = [entry.scores[testbed] for entry in self.entries]
        accuracies: Floats = np.array([score.accuracies for score in scores]).T
        settings, judges = [entry.setting for entry in self.entries], [score.judge for score in scores]
        places = place_column(accuracies, settings, judges)
        return {entry.key: own for entry, own in zip(self.entries, places, strict=True)}


def empty_board(suite: Suite) -> Leaderboard:
    """Return a board of a suite without entries."""
    hashes = {name: testbed.content_hash for name, testbed in suite.testbeds.items()}
    return Leaderboard(suite=suite.name, version=suite.version, digest=suite.digest, testbeds=hashes)


def read_board(path: str | Path) -> Leaderboard:
    """Read a board from its file; UserError when it is damaged or its entries do not fit its testbeds."""
    board = read_json(Leaderboard, Path(path), "The leaderboard")
    for entry in board.entries:
        if set(entry.scores) != set(board.testbeds):
            raise UserError(
                f"The leaderboard {path} is damaged: the entry '{entry.model}' has {len(entry.scores)} of "
                f"{count(len(board.testbeds), 'testbed')}."
            )
    for name in board.testbeds:
        counts = sorted({len(entry.scores[name].accuracies) for entry in board.entries})
        if len(counts) > 1:
            raise UserError(
                f"The leaderboard {path} is damaged: its entries have {' and '.join(map(str, counts))} tasks on "
                f"'{name}', and all need the same."
            )
    return board


def check_place(path: str | Path) -> None:
    """Raise UserError where no board can be extended or made at ``path``, before anything is measured."""
    if is_stream(path):
        raise UserError(f"A leaderboard is read and extended, which '{path}' cannot be", "name {board:FILE}")
    OutputKind("leaderboard", {".json": has_json()}).ending(path)
    if Path(path).exists():
        read_board(path)


def extend_board(
    path: str | Path, suite: Suite, entries: Sequence[Entry], merged: Sequence[str | Path] = ()
) -> Leaderboard:
    """Add entries, and those of other boards of the same suite, to a board file; it is made where it is not there.

    Parameters
    ----------
    path : path
        The board.
    suite : Suite
        What the entries were measured on.
    entries : sequence of Entry
        New ones; one that is there already changes nothing.
    merged : sequence of paths
        Other people's boards.

    Returns
    -------
    Leaderboard
        What the file holds now. UserError when a board is about other testbeds; then nothing is written.
    """
    board_path = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    board_path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(board_path.with_name(f"{board_path.name}.lock")):
        board = read_board(board_path) if board_path.exists() else empty_board(suite)
        _check_suite(board, board_path, suite.digest, suite.name)
        gathered = list(entries)
        for other in merged:
            theirs = read_board(other)
            _check_suite(theirs, Path(other), suite.digest, suite.name)
            names = {content_hash: name for name, content_hash in board.testbeds.items()}
            for (
                entry
            ) in theirs.entries:  # with its testbeds called as on our board: the content says which is which
                scores = {names[theirs.testbeds[name]]: score for name, score in entry.scores.items()}
                gathered.append(entry.model_copy(update={"scores": scores}))
        board = board.with_entries(gathered)
        write_json(board_path, board.model_dump(mode="json"))
    return board


def _check_suite(board: Leaderboard, path: Path, digest: str, name: str) -> None:
    """Raise UserError unless the board is about the same testbeds, by content."""
    if board.digest != digest:
        raise UserError(
            f"The leaderboard {path} is about other testbeds ({board.suite} {board.version}, content "
            f"{board.digest[:12]}…) than '{name}' (content {digest[:12]}…)",
            "use one board for each suite",
        )

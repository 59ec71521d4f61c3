"""The data of a competition: images of one size per dataset, the training folder of a phase, its hidden test tasks.

Workers elsewhere fetch them by the hash of their content, each once, and can tell a fake: images and the tasks of a run
lie in ``data/blobs`` under their SHA-256, and only workers may ask for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longshot import AnyShape, Testbed, sample
from longshot import ImageLimits as PoolLimits
from longshot.arena.inside.blind_tasks import BlindTask, Truth
from longshot.arena.settings import DISJOINT, PER_SUBMISSION, Competition, Phase
from longshot.arena.store import read_secret
from longshot.base import (
    Ints,
    LooseRecord,
    UserError,
    atomic,
    cache_places,
    hash_file,
    hash_text,
    read_json,
    write_json,
    write_text,
)
from longshot.data import Dataset, compare_content, open_dataset, pack_digests, take_branch, unpack_digests

if TYPE_CHECKING:
    from longshot.models import Content


class _DataRecord(LooseRecord):
    """What a competition notes of a dataset's images."""

    fingerprint: str
    content: str
    identity: str = "content"
    digests: str = ""  # short ones of all images in the dataset's order, to name those that change


@dataclass(frozen=True)
class HiddenTask(BlindTask):
    """One test task with its answers; the query labels never leave the organiser's process."""

    query_label: Ints  # [n] in 0…N−1
    number: int  # in its dataset's testbed

    @property
    def truth(self) -> Truth:
        """Return what scoring needs of the task."""
        return Truth(self.dataset, self.ways, self.shots, self.query_label)


def open_part(spec: str) -> Dataset:
    """Open a dataset by path or name, or ``DATASET#BRANCH`` for the classes under one branch."""
    source, _, branch = spec.partition("#")
    dataset = open_dataset(source)
    return take_branch(dataset, branch) if branch else dataset


class CompetitionData:
    """A competition's datasets, opened when they are asked for."""

    def __init__(self, competition: Competition) -> None:
        self.competition = competition
        self.folder = competition.folder / "data"
        self._opened: dict[str, Dataset] = {}
        self._tasks: dict[tuple[object, ...], list[HiddenTask]] = {}

    def dataset(self, name: str) -> Dataset:
        """Open the dataset called ``name`` in competition.yaml."""
        if name not in self._opened:
            self._opened[name] = open_part(self.competition.datasets[name])
        return self._opened[name]

    def pixels(self, name: str) -> NDArray[np.uint8]:
        """Return uint8 [N, S, S, 3], class-major, memory-mapped; made on first use, stored with the competition."""
        from longshot.models import cached_pixels

        dataset, size = self.dataset(name), self.competition.image_size
        content = self.content(name)
        path = self.folder / f"{name}-{size}-{hash_text(dataset.fingerprint, content)[:12]}.npy"
        if not path.is_file():
            array = cached_pixels(dataset, f"decode|resize({size},{size})")
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic(path) as temporary, temporary.open("wb") as out:
                np.save(out, array)
            path.chmod(0o644)  # the sandbox's user reads it
        stored: NDArray[np.uint8] = np.load(path, mmap_mode="r", allow_pickle=False)
        return stored

    def content(self, name: str) -> str:
        """Return the digest over the images of a dataset, as they were when the competition first used them.

        UserError where they have changed since: scores before and after would not be about the same pictures.
        """
        from longshot.models import content_of

        dataset = self.dataset(name)
        now = content_of(dataset)
        path = self.folder / f"{name}.content.json"
        if not path.is_file():
            digests = "" if now.short is None else pack_digests(now.short)
            facts = {"fingerprint": dataset.fingerprint, "content": now.digest, "identity": now.identity}
            write_json(path, {**facts, "digests": digests})
        recorded = read_json(_DataRecord, path, "The record of a competition's images")
        if recorded.fingerprint != dataset.fingerprint or recorded.content != now.digest:
            raise UserError(
                f"The images of '{name}' are not those that the competition first used: "
                f"{_differences(recorded, dataset, now)}",
                f"bring them back, or remove {path} where no submission has been scored",
            )
        return now.digest

    def training_files(self, phase: Phase) -> dict[str, Path]:
        """Map name in the sandbox's data folder → file: the index and the images of the training datasets."""
        files, entries = {}, []
        for name in phase.train:
            dataset = self.dataset(name)
            file = Path(str(self.pixels(name).filename))  # type: ignore[attr-defined]
            files[f"{name}.npy"] = file
            entries.append(
                {
                    "name": name,
                    "file": f"{name}.npy",
                    "content": self.content(name),
                    "offsets": dataset.offsets.tolist(),
                    "classes": list(dataset.class_ids),
                }
            )
        index = self.folder / f"index-{phase.name}.json"
        write_json(index, {"datasets": entries})
        index.chmod(0o644)
        return {"index.json": index, **files}

    def test_tasks(self, phase: Phase, seed: int, submission: int | None = None) -> list[HiddenTask]:
        """Draw all test tasks of a run, datasets mixed, from the secret: nobody else can draw them again.

        With ``draws: per-submission`` they follow from the number of the ``submission`` too. Which images of a class
        are support and which are queries follows from the secret and the dataset alone: it is the same in every run.

        Every draw has a key of its own, 256 bits of the secret's hash: what a submission sees of some (the order of a
        support set, the numbers of ways and shots, its seeds) says nothing about the others (the order of the queries).
        """
        own = submission is not None and self.competition.draws == PER_SUBMISSION
        draw = (phase.name, phase.version, phase.test, phase.tasks, seed, submission if own else None)
        if draw not in self._tasks:
            if own:
                self._tasks.clear()  # nobody asks for another submission's again
            version = [f"version {phase.version}"] if phase.version > 1 else []
            key = hash_text(
                self.secret(phase), phase.name, str(seed), *([str(submission)] if own else []), *version
            )
            shape = AnyShape(**self.competition.shape.model_dump())
            tasks: list[HiddenTask] = []
            for name in phase.test:
                dataset, task_seed = self.dataset(name), int(hash_text(key, "tasks", name), 16)
                limits = self._pools(name, dataset, self.secret(phase))
                testbed = sample(
                    dataset,
                    tasks=phase.tasks,
                    shape=shape,
                    seed=task_seed,
                    limits=limits,
                    classes=self.competition.classes,
                    judge=list(self.competition.judge),
                )
                tasks += _hidden(name, dataset, testbed, key)
            order = _generator(key, "order").permutation(len(tasks))
            self._tasks[draw] = [tasks[i] for i in order]
        return self._tasks[draw]

    def _pools(self, name: str, dataset: Dataset, secret: str) -> PoolLimits:
        """Say how the images of a dataset are split; raise UserError where a class has too few for both parts."""
        if self.competition.pools != DISJOINT:
            return PoolLimits()
        shape = self.competition.shape
        needed = shape.max_shot + shape.query
        small = np.flatnonzero(dataset.sizes < needed)
        if len(small):
            least = int(dataset.sizes.min())
            lower = f"max_shot to {least - shape.query}" if least - shape.query >= shape.min_shot else "query"
            raise UserError(
                f"Class '{dataset.class_ids[int(dataset.sizes.argmin())]}' of '{name}' has {least} images, but "
                f"{needed} are needed so that none is support in one task and a query in another (max_shot "
                f"{shape.max_shot} + query {shape.query}); {len(dataset.sizes) - len(small)} of {len(dataset.sizes)} "
                f"classes have enough",
                f"lower {lower} in the competition's shape, leave small classes out, or set 'pools: shared'",
            )
        return PoolLimits(disjoint=True, cut_seed=int(hash_text(secret, "pools", name), 16))

    def secret(self, phase: Phase) -> str:
        """Return the random text from which a phase's test tasks follow: made once, and held by the organiser.

        That of public phases is another one, which a kit hands out: so they have the same tasks at home.
        """
        shared = self.competition.folder / PUBLIC_SECRET
        if not phase.public:
            return read_secret(self.competition)
        if shared.is_file():
            return shared.read_text(encoding="ascii").strip()
        return hash_text(read_secret(self.competition), "public")

    def private(self) -> list[Path]:
        """List what no submission may see, wherever it lies: the competition, its datasets as they came, the cache."""
        sources = (Path(spec.partition("#")[0]) for spec in self.competition.datasets.values())
        places = (*cache_places(), *sources)
        return [
            self.competition.folder,
            *(path for path in (self.folder.resolve(), *places) if path.exists()),
        ]


def _differences(recorded: _DataRecord, dataset: Dataset, now: Content) -> str:
    """Say the number and the first names of what changed, as far as the record tells."""
    if recorded.fingerprint != dataset.fingerprint:
        return f"other images or classes (fingerprint {dataset.fingerprint[:12]}…, was {recorded.fingerprint[:12]}…)"
    if recorded.identity != now.identity:
        return f"they are looked at by {now.identity}, and were by {recorded.identity}"
    if now.short is not None:
        with contextlib.suppress(ValueError):
            digests = unpack_digests(recorded.digests)
            if len(digests) == len(dataset):
                return str(compare_content(dataset.keys, digests, dataset.keys, now.short))
    return f"other bytes (digest {now.digest[:12]}…, was {recorded.content[:12]}…)"


def _generator(key: str, *purpose: str) -> np.random.Generator:
    return np.random.default_rng(int(hash_text(key, *purpose), 16))


def _hidden(name: str, dataset: Dataset, testbed: Testbed, key: str) -> Sequence[HiddenTask]:
    bound = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    tasks = []
    for position in range(len(bound)):
        shown: dict[str, Ints] = {}
        for kind, rows, labels in (
            ("support", bound.support, bound.support_label),
            ("query", bound.query, bound.query_label),
        ):
            order = _generator(key, kind, name, str(position)).permutation(len(rows.row(position)))
            shown[kind] = np.asarray(rows.row(position), np.int64)[order]
            shown[f"{kind}_label"] = np.asarray(labels.row(position), np.int64)[order]
        ways = int(bound.ways[position])
        seed = int(hash_text(key, "seed", name, str(position)), 16) % 2**31
        number = int(bound.tasks[position])
        tasks.append(HiddenTask(name, ways, len(shown["support"]) // ways, seed, **shown, number=number))
    return tasks


PUBLIC_SECRET = "public-secret"  # file of a kit
NAME = re.compile("[0-9a-f]{64}")
_ARRAYS = ("support", "support_label", "query", "query_label")


class Blob(NamedTuple):
    """A file by its content."""

    name: str  # what the worker calls it: index.json, tasks.json, or a dataset's
    sha256: str
    bytes: int


class RunFiles(NamedTuple):
    """All that a run reads beside the submission."""

    training: list[Blob]  # index.json and the images of the training datasets
    images: list[Blob]  # of the test datasets, by dataset
    tasks: Blob


class BlobStore:
    """The data of a competition as blobs; made on first use, which may take a while.

    Parameters
    ----------
    folder : Path
        The competition's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data" / "blobs"
        self._lock = threading.Lock()
        self._data: CompetitionData | None = None
        self._ready: set[tuple[Any, ...]] = set()
        self._preparing: threading.Thread | None = None
        self._failed: Exception | None = None

    def path(self, sha256: str) -> Path | None:
        """Return where a blob lies; None where there is none of that name."""
        path = self.folder / sha256
        return path if NAME.fullmatch(sha256) and path.is_file() else None

    def ready(self, competition: Competition, phases: list[Phase], *, wait: bool = False) -> bool:
        """Tell whether the images of some phases are decoded; where not, start that, and ``wait`` for it or not.

        UserError where it could not be done: the competition's own data are at fault.
        """
        keys = [(name, competition.datasets[name], competition.image_size) for name in _names(phases)]
        if self._ready.issuperset(keys):
            return True
        if self._preparing is None or not self._preparing.is_alive():
            if self._failed is not None:
                error, self._failed = self._failed, None
                raise error
            self._preparing = threading.Thread(
                target=self._prepare, args=(competition, phases, keys), name="longshot-data", daemon=True
            )
            self._preparing.start()
        if wait:
            self._preparing.join()
            return self.ready(competition, phases)
        return False

    def _prepare(self, competition: Competition, phases: list[Phase], keys: list[tuple[Any, ...]]) -> None:
        try:
            with self._lock:
                data = self._opened(competition)
                for phase in phases:
                    self._images(data, phase)
            self._ready.update(keys)
        except (UserError, OSError) as error:
            self._failed = error

    def _opened(self, competition: Competition) -> CompetitionData:
        if self._data is None or self._data.competition != competition:
            self._data = CompetitionData(competition)
        return self._data

    def files(self, competition: Competition, phase: Phase, seed: int, submission: int) -> RunFiles:
        """Return the blobs of a run."""
        with self._lock:
            data = self._opened(competition)
            images = self._images(data, phase)
            tasks = data.test_tasks(phase, seed, submission)
            text = dump_tasks(tasks)
            digest = hashlib.sha256(text.encode()).hexdigest()
            write_text(self.folder / digest, text)
            return RunFiles(*images, Blob("tasks.json", digest, len(text.encode())))

    def _images(self, data: CompetitionData, phase: Phase) -> tuple[list[Blob], list[Blob]]:
        """Return the blobs that a phase trains on, and those it tests on."""
        training = [self._keep(name, path) for name, path in data.training_files(phase).items()]
        files = {name: Path(str(data.pixels(name).filename)) for name in phase.test}  # type: ignore[attr-defined]
        return training, [self._keep(name, path) for name, path in files.items()]

    def keep_folder(self, folder: Path | None) -> list[Blob]:
        """Return all files of a folder as blobs, but for hidden ones."""
        if folder is None:
            return []
        with self._lock:
            paths = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
            return [self._keep(path.relative_to(folder).as_posix(), path) for path in paths]

    def _keep(self, name: str, path: Path) -> Blob:
        """Link a file under its hash, which is computed once per state of the file; return it as a blob."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stat = path.stat()
        note = path.with_name(f".{path.name}.sha256")
        stamp = [stat.st_size, stat.st_mtime_ns]
        digest = None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            noted = json.loads(note.read_text(encoding="utf-8"))
            digest = noted["sha256"] if noted["stamp"] == stamp else None
        if digest is None:
            digest = hash_file(path)
            write_json(note, {"sha256": digest, "stamp": stamp})
        with contextlib.suppress(FileExistsError):
            (self.folder / digest).hardlink_to(path)
        return Blob(name, digest, stat.st_size)


def dump_tasks(tasks: list[HiddenTask]) -> str:
    """Write tasks with their answers as JSON, for workers alone."""
    rows = [
        {
            **{name: getattr(task, name) for name in ("dataset", "ways", "shots", "seed", "number")},
            **{name: getattr(task, name).tolist() for name in _ARRAYS},
        }
        for task in tasks
    ]
    return json.dumps(rows, separators=(",", ":"))


def load_tasks(text: str) -> list[HiddenTask]:
    """Read tasks as ``dump_tasks`` wrote them."""
    rows: list[dict[str, Any]] = json.loads(text)
    return [
        HiddenTask(**{**row, **{name: np.asarray(row[name], np.int64) for name in _ARRAYS}}) for row in rows
    ]


def _names(phases: list[Phase]) -> list[str]:
    return sorted({name for phase in phases for name in (*phase.train, *phase.test)})

"""A testbed: a frozen, hashed list of tasks, and the Parquet file it lives in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import atomic, canonical_json
from longshot.core.ragged import Ragged
from longshot.core.settings import Loose
from longshot.core.tasks import TaskRows
from longshot.testbeds import columns

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.episodes import EpisodeDataset

FORMAT = 1
_META_KEY = b"longshot"
# Fixed, so that equal tables give equal files.
_WRITE = {"compression": "zstd", "row_group_size": 1 << 16, "dictionary_pagesize_limit": 1 << 30}


class _Meta(Loose):
    """What the metadata of a testbed file holds."""

    format: int
    datasets: dict[str, str]  # name → fingerprint
    features: str | None
    sampler: dict[str, Any]
    seed: int | None
    content_hash: str


@dataclass(frozen=True, eq=False)
class Task:
    """One few-shot task: learn ``classes`` from the support images, then tell the query images apart."""

    index: int
    dataset: str
    classes: tuple[str, ...]
    support: tuple[str, ...]  # example keys
    query: tuple[str, ...]
    support_label: NDArray[np.int16]  # positions in ``classes``
    query_label: NDArray[np.int16]
    shots: tuple[int, ...]  # support images per class
    measured: Mapping[str, Any]

    @property
    def way(self) -> int:
        """Number of classes."""
        return len(self.classes)


class Testbed:
    """A frozen list of tasks with its provenance. Make one with ``sample``, :meth:`create` or :meth:`load`.

    ``table`` has one row per task (columns: see :mod:`longshot.testbeds.columns`); ``meta`` says which
    datasets, sampler settings and seed it comes from and carries the content hash.
    """

    __test__ = False  # not a pytest class, whatever its name looks like

    def __init__(self, table: pa.Table, meta: Mapping[str, Any], name: str = "") -> None:
        self.table = table
        self.meta = dict(meta)
        self.name = name  # of the file it was loaded from

    @classmethod
    def create(
        cls,
        table: pa.Table,
        *,
        datasets: Mapping[str, str],
        sampler: Mapping[str, Any],
        seed: int | None,
        features: str | None = None,
    ) -> Testbed:
        """Freeze a table of tasks: bring it into canonical form, check it and hash it.

        ``datasets`` maps each dataset's name to its fingerprint; ``sampler`` is any JSON value that tells how
        the tasks were made; ``features`` is the hash of the features a sampler looked at.
        """
        from longshot import __version__

        table = columns.canonical(table)
        columns.check(table)
        unknown = set(table.column("dataset").unique().to_pylist()) - set(datasets)
        if unknown:
            raise UserError(
                f"The testbed has tasks of '{min(unknown)}', but no fingerprint for that dataset."
            )
        meta = {
            "format": FORMAT,
            "datasets": dict(datasets),
            "features": features,
            "sampler": dict(sampler),
            "seed": seed,
            "creator": f"longshot {__version__}",
        }
        meta["content_hash"] = columns.content_hash(table, _facts(meta))
        return cls(table, json.loads(canonical_json(meta)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Testbed:
        """Read a testbed file and verify its content hash."""
        file = Path(path)
        if not file.is_file():
            raise UserError(
                f"There is no testbed file at {file}", f"draw one with {{sample(DATASET, out={file.name})}}"
            )
        try:
            # Without partitioning: a folder called seed=0 must not become a column.
            table = pq.read_table(file, partitioning=None)
            table.validate(full=True)  # damaged bytes can decode to indices that point nowhere
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, PermissionError):
                raise UserError(f"Cannot read {file}: {error.strerror}; check its permissions.") from error
            raise UserError(
                f"{file} cannot be read as a Parquet file: it is truncated, damaged or of another kind",
                "copy it again or draw it again with {sample()}",
            ) from error
        meta = _read_meta(file, table)
        try:
            table = columns.canonical(table.replace_schema_metadata(None))
            content = columns.content_hash(table, _facts(meta))
            if content != meta["content_hash"]:
                raise UserError(
                    f"its content hash is {content[:12]}…, but its metadata says "
                    f"{str(meta['content_hash'])[:12]}…: it was changed after it was written",
                    "take an unchanged copy or draw it again with {sample()}",
                )
            columns.check(table)
        except UserError as error:
            raise UserError(f"The testbed {file} is not valid: {error.template}") from error
        return cls(table, meta, file.stem)

    @classmethod
    def concat(cls, testbeds: Sequence[Testbed]) -> Testbed:
        """One testbed with the tasks of all, numbered anew in the given order."""
        if not testbeds:
            raise UserError("There is no testbed to join; give at least one.")
        if len(testbeds) == 1:
            return testbeds[0]
        datasets: dict[str, str] = {}
        for bed in testbeds:
            for name, fingerprint in bed.datasets.items():
                if datasets.setdefault(name, fingerprint) != fingerprint:
                    raise UserError(
                        f"Two different datasets are both called '{name}' (fingerprints "
                        f"{datasets[name][:12]}… and "
                        f"{fingerprint[:12]}…); give one of them another name."
                    )
        table = pa.concat_tables([bed.table for bed in testbeds], promote_options="permissive")
        table = table.set_column(0, "task", pa.array(np.arange(len(table))))
        origins = [{k: bed.meta[k] for k in ("sampler", "seed", "features")} for bed in testbeds]
        alike = all(origin == origins[0] for origin in origins)
        features = {bed.meta["features"] for bed in testbeds}
        return cls.create(
            table,
            datasets=datasets,
            sampler=origins[0]["sampler"] if alike else {"concat": origins},
            seed=origins[0]["seed"] if len({origin["seed"] for origin in origins}) == 1 else None,
            features=features.pop() if len(features) == 1 else None,
        )

    @property
    def content_hash(self) -> str:
        """Hex SHA-256 of tasks and provenance."""
        return str(self.meta["content_hash"])

    @property
    def datasets(self) -> dict[str, str]:
        """Dataset name → fingerprint."""
        return dict(self.meta["datasets"])

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the columns that a sampler measured (coarsity, difficulty, …)."""
        return tuple(name for name in self.table.column_names if name not in columns.STANDARD)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Task:
        if not -len(self) <= index < len(self):
            raise IndexError(f"task {index} of a testbed with {len(self)} tasks")
        row = {name: self.table.column(name)[index % len(self)].as_py() for name in self.table.column_names}
        return Task(
            index=row["task"],
            dataset=row["dataset"],
            classes=tuple(row["classes"]),
            support=tuple(row["support"]),
            query=tuple(row["query"]),
            support_label=np.array(row["support_label"], dtype=np.int16),
            query_label=np.array(row["query_label"], dtype=np.int16),
            shots=tuple(row["shots"]),
            measured={name: row[name] for name in self.measured},
        )

    def __iter__(self) -> Iterator[Task]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        """At most five lines."""
        facts = self._facts()
        return (
            f"Testbed {facts['hash']} ({facts['testbed']}): {facts['tasks']} tasks\n"
            f"  {facts['ways']}-way, {facts['shots']}-shot\n"
            f"  of {facts['datasets']}"
        )

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        rows = (
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts().items()
        )
        return f"<table>{''.join(rows)}</table>"

    def _facts(self) -> dict[str, str]:
        """What a person wants to know at a glance."""
        ways, shots = self.table.column("way").to_numpy(), self.column("shots").values
        return {
            "testbed": self.name or "not on disk",
            "tasks": f"{len(self):,}",
            "ways": _span(ways),
            "shots": _span(shots),
            "datasets": ", ".join(self.datasets),
            "hash": self.content_hash[:12],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the Parquet file, whole or not at all; equal testbeds give equal bytes."""
        meta = {_META_KEY: canonical_json(self.meta).encode()}
        with atomic(path) as temporary:
            pq.write_table(self.table.replace_schema_metadata(meta), temporary, **_WRITE)

    def column(self, name: str) -> Ragged:
        """A list column as flat numbers (strings: numbers into an arbitrary dictionary)."""
        return columns.ragged(self.table, name)

    def bind(self, name: str, keys: pa.Array, fingerprint: str) -> TaskRows:
        """The tasks of dataset ``name`` as row numbers into ``keys`` [N].

        The dictionary of distinct keys is looked up once, never string by string. ``fingerprint`` must be the
        one the testbed was drawn from.
        """
        if name not in self.datasets:
            raise UserError(f"The testbed has no dataset '{name}'; it has: {', '.join(self.datasets)}.")
        of_dataset = pc.equal(self.table.column("dataset").cast(pa.string()), name)
        positions = np.flatnonzero(of_dataset.to_numpy())
        rows: dict[str, Ragged] = {}
        missing: set[str] = set()
        for part in ("support", "query"):
            picked = columns.ragged(self.table, part).take(positions)
            names = columns.dictionary(self.table, part)
            numbers = (
                pc.index_in(names, value_set=keys.cast(names.type))
                .fill_null(-1)
                .to_numpy(zero_copy_only=False)
            )
            values = numbers.astype(np.int64)[picked.values]
            absent = picked.values[values < 0]
            missing.update(names.take(pa.array(np.unique(absent))).to_pylist())
            rows[part] = picked.with_values(values)
        if fingerprint != self.datasets[name]:
            raise self._mismatch(name, fingerprint, missing)
        if missing:
            raise UserError(
                f"{len(missing):,} images of the testbed are not among the {len(keys):,} given keys of '{name}', for "
                f"example '{min(missing)}'; bind it to the whole dataset."
            )
        return TaskRows(
            tasks=positions,
            ways=self.table.column("way").to_numpy().astype(np.int64)[positions],
            support=rows["support"],
            support_label=columns.ragged(self.table, "support_label").take(positions),
            query=rows["query"],
            query_label=columns.ragged(self.table, "query_label").take(positions),
        )

    def _mismatch(self, name: str, fingerprint: str, missing: set[str]) -> UserError:
        difference = (
            "all images of the testbed are still there, but other images or classes were added or removed"
        )
        if missing:
            difference = (
                f"{len(missing):,} of the testbed's images are no longer there, for example '{min(missing)}'"
            )
        return UserError(
            f"The dataset '{name}' has changed since the testbed was drawn (fingerprint {fingerprint[:12]}…, the "
            f"testbed has {self.datasets[name][:12]}…): {difference}",
            f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}",
        )

    def episodes(
        self,
        images: str
        | Callable[[str, Sequence[str]], Any] = "decode|resize(96)|central_crop(84)|value_range(0,1)",
        datasets: Mapping[str, Dataset | str | Path] | None = None,
    ) -> EpisodeDataset:
        """A PyTorch dataset of episodes for other people's training code; see :class:`EpisodeDataset`."""
        from longshot.testbeds.episodes import EpisodeDataset  # imports torch

        return EpisodeDataset(self, images, datasets)


def _span(values: NDArray[Any]) -> str:
    """``5``, or ``2 to 20`` where they differ."""
    if not len(values):
        return "none"
    return f"{values.min()}" if values.min() == values.max() else f"{values.min()} to {values.max()}"


def _facts(meta: Mapping[str, Any]) -> str:
    """What the content hash covers beside the columns: all but itself and the version that wrote it."""
    return canonical_json({k: v for k, v in meta.items() if k not in ("content_hash", "creator")})


def _read_meta(file: Path, table: pa.Table) -> dict[str, Any]:
    raw = (table.schema.metadata or {}).get(_META_KEY)
    if raw is None:
        raise UserError(
            f"{file} is a Parquet file, but not a testbed: it lacks the 'longshot' metadata",
            "draw a testbed with {sample()}",
        )
    try:
        meta: dict[str, Any] = json.loads(raw)
        if meta["format"] != FORMAT:
            raise UserError(
                f"{file} has testbed format {meta['format']}, this version reads {FORMAT}", "update longshot"
            )
        _Meta.model_validate(meta)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The metadata of {file} is damaged", "take an unchanged copy of the testbed"
        ) from error
    return meta

"""A testbed: a frozen, hashed list of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from longshot.base import Ragged, TaskRows, UserError, canonical_json, opened_copy
from longshot.tasks import columns
from longshot.tasks.columns import Task
from longshot.tasks.content import (
    ImageContent,
    check_content,
    named_only,
    read_content,
    subset,
    used_keys,
)
from longshot.tasks.testbed_file import (
    FORMAT,
    claim_testbed,
    concat,
    hashes,
    read_file,
    write_file,
)

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Features
    from longshot.tasks.episodes import EpisodeDataset


class Testbed:
    """A frozen list of tasks with its provenance. Make one with ``sample``, :meth:`create` or :meth:`load`.

    Parameters
    ----------
    table : pyarrow.Table
        One row per task; columns: see :mod:`longshot.tasks.columns`.
    meta : mapping
        Which datasets, sampler settings and seed it comes from, and the content hash.
    name : str
        Of the file it was loaded from.
    content : mapping
        Dataset name → ``ImageContent``: what the images are made of.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=4, way=3, shot=1, query=2, split="test")
    >>> testbed.save("few.parquet")
    >>> Testbed.load("few.parquet").content_hash == testbed.content_hash
    True
    >>> task = testbed[0]
    >>> task.way, len(task.support), len(task.query)
    (3, 3, 6)
    >>> len(Testbed.concat([testbed, longshot.sample("toybox", tasks=2, seed=1)]))
    6
    >>> len(testbed.keys("toybox")) <= 4 * 9
    True
    >>> testbed.column("query").lengths.tolist()
    [6, 6, 6, 6]
    >>> toybox = longshot.open_dataset("toybox")
    >>> testbed.check_content("toybox", toybox)
    >>> testbed.bind("toybox", toybox.keys, toybox.fingerprint).support.lengths.tolist()
    [3, 3, 3, 3]
    >>> len(testbed.changed(testbed.table.slice(0, 2)))
    2
    >>> testbed.with_content({"toybox": toybox.with_identity("names")}).identity
    'names'
    >>> again = Testbed.create(testbed.table, datasets=testbed.datasets, sampler={"by": "hand"}, seed=None)
    >>> again.identity
    'names'
    >>> [tuple(part.shape) for part in testbed.episodes("decode|resize(8,8)|value_range(0,1)")[0]]
    [(3, 3, 8, 8), (3,), (6, 3, 8, 8), (6,)]
    """

    __test__ = False  # not a pytest class, whatever its name looks like

    def __init__(
        self, table: pa.Table, meta: Mapping[str, Any], name: str = "", *, content: Mapping[str, ImageContent]
    ) -> None:
        self.table = table
        self.meta = dict(meta)
        self.name = name  # of the file it was loaded from
        self.content = dict(content)

    @classmethod
    def create(
        cls,
        table: pa.Table,
        *,
        datasets: Mapping[str, str],
        sampler: Mapping[str, Any],
        seed: int | None,
        features: str | None = None,
        content: Mapping[str, ImageContent] | None = None,
        labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Testbed:
        """Freeze a table of tasks: bring it into canonical form, check it and hash it.

        Parameters
        ----------
        table : pyarrow.Table
            One row per task, see :mod:`longshot.tasks.columns`.
        datasets : mapping
            Name → fingerprint.
        sampler : mapping
            How the tasks were made, as JSON values.
        seed : int or None
            The root of the random streams, where there was one.
        features : str, optional
            Hash of the features that a sampler looked at.
        content : mapping, optional
            Name → ``ImageContent`` (``read_content``); for a dataset that it lacks, names are vouched for only.
        labels : mapping, optional
            Name → class → what a taxonomy calls it; the hash does not cover it.

        Returns
        -------
        Testbed
        """
        from longshot import __version__

        table = columns.canonical(table)
        columns.check(table)
        unknown = set(table.column("dataset").unique().to_pylist()) - set(datasets)
        if unknown:
            raise UserError(
                f"The testbed has tasks of '{min(unknown)}', but no fingerprint for that dataset."
            )
        contents = dict(content or {})
        for name in datasets:
            if name not in contents:
                contents[name] = named_only(len(used_keys(table, name)))
        meta = {
            "format": FORMAT,
            "datasets": dict(datasets),
            "content": {name: contents[name].entry() for name in datasets},
            "features": features,
            "sampler": dict(sampler),
            "seed": seed,
            "creator": f"longshot {__version__}",
        }
        if any((labels or {}).values()):
            meta["labels"] = columns.used_labels(table, labels or {})
        meta.update(hashes(table, meta, contents))
        return cls(table, json.loads(canonical_json(meta)), content=contents)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Testbed:
        """Read a testbed file and verify its content hash and its checksum.

        Parameters
        ----------
        path : path or URL
            A ``.parquet`` that :meth:`save` wrote; UserError where it was changed since.

        Returns
        -------
        Testbed
        """
        with opened_copy(path) as file:
            table, meta, contents = read_file(file)
        return cls(table, meta, file.stem, content=contents)

    @classmethod
    def concat(cls, testbeds: Sequence[Testbed]) -> Testbed:
        """Join testbeds into one with the tasks of all, numbered anew in the given order.

        Parameters
        ----------
        testbeds : sequence of Testbed
            One or more.

        Returns
        -------
        Testbed
        """
        return concat(testbeds)

    def with_content(self, datasets: Mapping[str, Dataset]) -> Testbed:
        """Return the same tasks, with what the images of ``datasets`` (by name) are made of now.

        Parameters
        ----------
        datasets : mapping
            Name → Dataset.

        Returns
        -------
        Testbed
        """
        read = {name: read_content(self.table, dataset) for name, dataset in datasets.items()}
        return self.changed(self.table, content={**self.content, **read})

    def changed(
        self, table: pa.Table, *, content: Mapping[str, ImageContent] | None = None, **facts: Any
    ) -> Testbed:
        """Return a testbed of the same datasets with other tasks.

        ``content`` is carried over from this testbed unless given. ``facts`` replace ``sampler``, ``seed``,
        ``features`` and ``datasets``.

        Parameters
        ----------
        table : pyarrow.Table
            The other tasks.
        content : mapping, optional
            Name → ``ImageContent``.
        **facts
            ``sampler``, ``seed``, ``features``, ``datasets``.

        Returns
        -------
        Testbed
        """
        table = columns.canonical(table)
        if content is None:
            content = {
                name: subset(self.content[name], self.keys(name), used_keys(table, name))
                for name in self.datasets
            }
        own_facts = {name: self.meta[name] for name in ("sampler", "seed", "features", "datasets")}
        own_facts["labels"] = self.labels
        return Testbed.create(table, content=content, **{**own_facts, **facts})

    def keys(self, name: str) -> pa.Array:
        """Return the keys of the images that the tasks of dataset ``name`` use, each once, sorted.

        Parameters
        ----------
        name : str
            A dataset of the testbed.

        Returns
        -------
        pyarrow.Array of str
        """
        return used_keys(self.table, name)

    @property
    def labels(self) -> dict[str, dict[str, str]]:
        """Return dataset → class → what a taxonomy calls it, for classes that it calls otherwise."""
        return dict(self.meta.get("labels", {}))

    @property
    def identity(self) -> str:
        """Return what the testbed vouches for: "content", or "names" where that is all for one of its datasets."""
        every = [content.identity for content in self.content.values()]
        return "names" if "names" in every else "content"

    def check_content(self, name: str, dataset: Dataset) -> None:
        """Raise UserError unless the images of dataset ``name`` have the bytes that the testbed was drawn from.

        Parameters
        ----------
        name : str
            A dataset of the testbed.
        dataset : Dataset
            The copy that is here.
        """
        check_content(name, self.content[name], self.keys(name), dataset)

    @property
    def content_hash(self) -> str:
        """Return the hex SHA-256 over tasks, labels and images: the same whatever images and classes are called.

        What was measured, and how the tasks were drawn, is not part of it.
        """
        return str(self.meta["content_hash"])

    @property
    def checksum(self) -> str:
        """Return the hex SHA-256 over all that the file says, also names, measurements and how the tasks were drawn."""
        return str(self.meta["checksum"])

    @property
    def datasets(self) -> dict[str, str]:
        """Return dataset name → fingerprint."""
        return dict(self.meta["datasets"])

    @property
    def measured(self) -> tuple[str, ...]:
        """Return the names of the columns that a sampler measured (coarsity, difficulty, …)."""
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
            labels=self.labels.get(row["dataset"], {}),
        )

    def __iter__(self) -> Iterator[Task]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        """Describe the testbed in at most five lines."""
        from longshot.tasks.describe import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        """Describe the testbed as a table, for notebooks."""
        from longshot.tasks.describe import as_html

        return as_html(self)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the Parquet file, whole or not at all; equal testbeds give equal bytes.

        Parameters
        ----------
        path : path or URL
            File to write, ``.parquet``.
        force : bool
            Replace a file that is something else than this testbed.
        """
        claim_testbed(path, {"content_hash": self.content_hash, "checksum": self.checksum}, force=force)
        write_file(path, self.table, self.meta, self.content)

    def show(self, task: int | None = None) -> Any:
        """Open the explorer at this testbed, or at one of its tasks in pictures; a notebook shows it in a frame.

        Parameters
        ----------
        task : int, optional
            Which task; the testbed's own page where it is left out.

        Returns
        -------
        Explorer
            ``url`` is the address.

        Examples
        --------
        >>> page = longshot.sample("toybox", tasks=4, way=3, shot=1, query=2, split="test").show(2)
        >>> page.url.endswith("/task/2")
        True
        >>> page.close()
        """
        from longshot.base import show_noun

        return show_noun(self, task)

    def column(self, name: str) -> Ragged:
        """Return a list column as flat numbers (strings: numbers into an arbitrary dictionary).

        Parameters
        ----------
        name : str
            ``support``, ``query``, ``shots`` …

        Returns
        -------
        Ragged
            One row per task.
        """
        return columns.ragged(self.table, name)

    def bind(self, name: str, keys: pa.Array, fingerprint: str) -> TaskRows:
        """Return the tasks of dataset ``name`` as row numbers into ``keys`` [N].

        The dictionary of distinct keys is looked up once, never string by string. ``fingerprint`` must be the
        one the testbed was drawn from.

        Parameters
        ----------
        name : str
            A dataset of the testbed.
        keys : pyarrow.Array [N] of str
            The keys of the dataset that is here.
        fingerprint : str
            Its fingerprint.

        Returns
        -------
        TaskRows
            Rows of support and query per task, with their labels.
        """
        from longshot.tasks.binding import bind

        return bind(self, name, keys, fingerprint)

    def episodes(
        self,
        images: str
        | Features
        | Callable[[str, Sequence[str]], Any] = "decode|resize(96)|central_crop(84)|value_range(0,1)",
        datasets: Mapping[str, Dataset | str | Path] | None = None,
    ) -> EpisodeDataset:
        """Return a PyTorch dataset of episodes for other people's training code; see :class:`EpisodeDataset`.

        Parameters
        ----------
        images : str, Features or callable
            Preprocessing, features in place of pictures, or ``images(dataset_name, keys)`` → tensor.
        datasets : mapping, optional
            Name → dataset or path, if not where it was last seen.

        Returns
        -------
        EpisodeDataset
        """
        from longshot.tasks.episodes import EpisodeDataset  # imports torch

        return EpisodeDataset(self, images, datasets)

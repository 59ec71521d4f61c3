"""Big episodes: a dataset with train, validation and test images as one few-shot task, as VTAB has them.

The support are the first images of train and validation in the dataset's own order, not stratified, so a class may have
none; the queries are the whole test set. It needs two attributes: ``split`` (train, validation, test) and ``position``
(an image's place in its split).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.audit import find_copies
from longshot.base import Ints, Ragged, TaskPlan, TaskRows, UserError, check_choice, check_count
from longshot.data import SPLITS, Dataset, SplitSlice, canonical_split, cut_splits
from longshot.tasks.content import read_content
from longshot.tasks.drawing import to_table
from longshot.tasks.pools import unmixed
from longshot.tasks.testbed import Testbed

SUPPORTS = ("train800val200", "trainval")
# splits that a dataset has → how VTAB cuts a dataset that has these, and which one of its own that is
CUTS: dict[tuple[str, ...], tuple[dict[str, SplitSlice], str]] = {
    ("train", "test"): (
        {"train": ("train", 0, 90), "validation": ("train", 90, 100), "test": ("test", 0, 100)},
        "CIFAR-100: train is the first 90 % of train, validation the last 10 %",
    ),
    ("train", "validation"): (
        {"train": ("train", 0, 90), "validation": ("train", 90, 100), "test": ("validation", 0, 100)},
        "CLEVR: test is its validation, train the first 90 % of train, validation the last 10 %",
    ),
    **{
        (alone,): (
            {"train": (alone, 0, 60), "validation": (alone, 60, 80), "test": (alone, 80, 100)},
            "EuroSAT: 60, 20 and 20 % of all images",
        )
        for alone in SPLITS
    },
}


@dataclass(frozen=True)
class BigEpisode:
    """How a dataset becomes a task.

    ``support`` names which images are learned from:

    train800val200  the first ``train`` of train and the first ``validation`` of validation
    trainval        the first ``train`` + ``validation`` of train with validation behind it (``trainval.take(1000)``)

    ``query`` limits the queries to the first so many of test; None: all. ``block`` cuts them into tasks with the same
    support and at most so many queries each; None: one task. ``copies`` says which images are no queries because they
    are copies of support images, and whether equal images with several labels take part, as in ``sample``. A dataset
    with splits of its own is asked as it was published: "allow".
    """

    train: int = 800
    validation: int = 200
    support: str = "train800val200"
    query: int | None = None
    block: int | None = None
    copies: str | None = None

    def __post_init__(self) -> None:
        check_choice("BigEpisode", "support", self.support, SUPPORTS)
        for name in ("train", "validation", "query", "block"):
            if getattr(self, name) is not None:
                check_count("BigEpisode", name, getattr(self, name), least=1)

    def final(self, dataset: Dataset) -> Testbed:
        """Build the testbed that is reported: learn from all ``train`` + ``validation`` images, answer test images."""
        parts, groups = self._parts(dataset)
        if self.support == "trainval":
            trainval = np.concatenate([parts["train"], parts["validation"]])
            support = _first(trainval, self.train + self.validation, dataset, "train and validation together")
        else:
            support = self._halves(parts, dataset)
        query = _apart(support, parts["test"], groups)[: self.query]
        return self._frozen(dataset, "final", support, query)

    def choice(self, dataset: Dataset) -> Testbed:
        """Build the testbed for choosing settings: learn from ``train`` images, answer the ``validation`` images."""
        parts, groups = self._parts(dataset)
        support, query = np.split(self._halves(parts, dataset), [self.train])
        return self._frozen(dataset, "choice", support, _apart(support, query, groups))

    def _parts(self, dataset: Dataset) -> tuple[dict[str, Ints], Ints]:
        """Return the rows of the three splits that may take part, and the group of copies of every image [N]."""
        copies = find_copies(dataset, self.copies)[1]
        parts, groups = split_rows(dataset), np.arange(len(dataset))
        if copies is None or not len(copies.later):
            return parts, groups
        groups, drawable = unmixed(copies, np.arange(len(dataset.class_ids)), dataset)
        return {part: rows[drawable[rows]] for part, rows in parts.items()}, groups

    def _halves(self, parts: dict[str, Ints], dataset: Dataset) -> Ints:
        counts = {"train": self.train, "validation": self.validation}
        return np.concatenate([_first(parts[part], count, dataset, part) for part, count in counts.items()])

    def _frozen(self, dataset: Dataset, part: str, support: Ints, query: Ints) -> Testbed:
        """Freeze the testbed; every block repeats the support, class by class in the order of the dataset."""
        block = self.block or len(query)
        blocks = [np.sort(query[start : start + block]) for start in range(0, len(query), block)]
        table = _table(dataset, np.sort(support), blocks)
        return Testbed.create(
            table,
            datasets={dataset.name: dataset.fingerprint},
            sampler={"big_episode": {"part": part, **asdict(self)}},
            seed=None,
            content={dataset.name: read_content(table, dataset)},
        )


def _apart(support: Ints, query: Ints, groups: Ints) -> Ints:
    """Return the queries that are not copies of support images."""
    return query[~np.isin(groups[query], groups[support])]


def split_rows(dataset: Dataset) -> dict[str, Ints]:
    """Return the rows of train, validation and test in the order of ``position``; UserError for a missing column."""
    table = dataset.attributes
    names = [] if table is None else table.column_names
    missing = [name for name in ("split", "position") if name not in names]
    if table is None or missing:
        raise UserError(
            f"Dataset '{dataset.name}' has no attribute '{missing[0]}', and a big episode needs the columns split "
            f"(train, validation, test) and position (an image's place in its split); it has "
            f"{', '.join(names) or 'no attributes'}. The VTAB tasks have both; a table of images may bring them."
        )
    parts = _official_rows(dataset, table, _places(dataset, table))
    for part in SPLITS:
        if part not in parts:
            raise UserError(
                f"Dataset '{dataset.name}' has 0 {part} images among its {len(dataset):,}, and a big episode needs at "
                "least 1 in each of train, validation and test; complete the column split."
            )
    return parts


def _places(dataset: Dataset, table: pa.Table) -> Ints:
    """Return the attribute ``position`` [N]; UserError unless it is a whole number for every image."""
    position = table["position"]
    if position.null_count or not pa.types.is_integer(position.type):
        raise UserError(
            f"The attribute 'position' of '{dataset.name}' is {position.type} with {position.null_count:,} gaps, but "
            "whole numbers without gaps are needed."
        )
    places: Ints = position.to_numpy().astype(np.int64)
    return places


def _official_rows(dataset: Dataset, table: pa.Table, places: Ints) -> dict[str, Ints]:
    """Return the rows of each split in the order of ``places`` [N]; UserError where a place is taken twice."""
    labels = np.array([canonical_split(str(name)) or "" for name in table["split"].to_pylist()])
    parts: dict[str, Ints] = {}
    for part in SPLITS:
        rows = np.flatnonzero(labels == part)
        if len(np.unique(places[rows])) != len(rows):
            raise UserError(
                f"The attribute 'position' of '{dataset.name}' names a place twice among the {len(rows):,} {part} "
                "images, so their order is not known; number them 0, 1, 2 …"
            )
        if len(rows):
            parts[part] = rows[np.argsort(places[rows])]
    return parts


def with_splits(dataset: Dataset, seed: int) -> tuple[Dataset, str]:
    """Return a dataset with train, validation and test images, cut as VTAB cuts its own where some are missing.

    Parameters
    ----------
    dataset : Dataset
        With the attributes ``split`` and ``position``, without the second, or without both.
    seed : int
        What an order is drawn from where the dataset has none.

    Returns
    -------
    (Dataset, str)
        With both attributes; what was done to it in words, "" where it had all that is needed.

    Examples
    --------
    >>> from longshot.data import open_dataset
    >>> with_splits(open_dataset("toybox"), seed=0)[1]
    'it has no column split, so its images were shuffled (seed 0) into 60/20/20 %'
    """
    table = dataset.attributes
    if table is None or "split" not in table.column_names:
        shuffled = f"it has no column split, so its images were shuffled (seed {seed}) into 60/20/20 %"
        return shuffled_splits(dataset, seed), shuffled
    words: list[str] = []
    if "position" in table.column_names:
        places = _places(dataset, table)
    else:
        places = np.random.default_rng(seed).permutation(len(dataset))
        words.append(f"it has no column position, so the order of its images was drawn (seed {seed})")
    parts = _official_rows(dataset, table, places)
    if tuple(parts) != SPLITS:
        if tuple(parts) not in CUTS:
            raise UserError(
                f"Dataset '{dataset.name}' has 0 train images among its {len(dataset):,}; complete the column split."
            )
        pieces, like = CUTS[tuple(parts)]
        slices = cut_splits(pieces, {part: len(rows) for part, rows in parts.items()})
        words.append(f"it has only {' and '.join(parts)} images and is cut as VTAB cuts {like}")
        parts = {split: parts[part][start:stop] for split, (part, start, stop) in slices.items()}
    elif not words:
        return dataset, ""
    return _with_columns(dataset, parts), "; ".join(words)


def shuffled_splits(dataset: Dataset, seed: int) -> Dataset:
    """Shuffle the images into splits: columns ``split`` and ``position`` with 60 % train, 20 % validation, 20 % test.

    For datasets that have no such columns.
    """
    order = np.random.default_rng(seed).permutation(len(dataset))
    first, second = (round(share * len(order)) for share in (0.6, 0.6 + 0.2))
    return _with_columns(dataset, dict(zip(SPLITS, np.split(order, [first, second]), strict=True)))


def _with_columns(dataset: Dataset, parts: dict[str, Ints]) -> Dataset:
    """Return the dataset with columns ``split`` and ``position`` made from the rows of its parts, in their order."""
    split = np.full(len(dataset), "", dtype=object)
    position = np.arange(len(dataset), dtype=np.int64)
    for part, rows in parts.items():
        split[rows] = part
        position[rows] = np.arange(len(rows))
    split_columns = {"split": pa.array(split.tolist(), pa.string()), "position": pa.array(position)}
    table = pa.table({}) if dataset.attributes is None else dataset.attributes
    columns_before = {name: table[name] for name in table.column_names if name not in split_columns}
    return replace(dataset, attributes=pa.table({**columns_before, **split_columns}))


def _first(rows: Ints, count: int, dataset: Dataset, part: str) -> Ints:
    if len(rows) < count:
        raise UserError(
            f"Dataset '{dataset.name}' has {len(rows):,} images in {part}, but a big episode takes the first "
            f"{count:,}",
            "take fewer, or complete the dataset",
        )
    return rows[:count]


def _table(dataset: Dataset, support: Ints, blocks: list[Ints]) -> pa.Table:
    """Build a row per block; every class of the dataset is a class of the task, with or without support."""
    count, way = len(blocks), len(dataset.class_ids)
    labels = dataset.labels.astype(np.int64)
    shots = np.bincount(labels[support], minlength=way)

    def repeated(values: NDArray[Any]) -> Ragged:
        return Ragged.from_lengths(np.tile(values, count), [len(values)] * count)

    queries = Ragged.from_lists([np.bincount(labels[block], minlength=way) for block in blocks])
    plan = TaskPlan(repeated(np.arange(way)), repeated(shots), queries)
    return to_table(dataset, TaskRows.from_plan(plan, repeated(support), Ragged.from_lists(blocks)))

"""Copies within a dataset: groups of images that are equal or near copies of each other.

Equal images have the same pixels, whatever file they are in. Near copies are those of ``find_pairs``. A group is what
such pairs connect: a copy of a copy belongs to it. Images are numbered by rows of the dataset, and a group by its first
row, so an image without a copy is a group of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Bools,
    Ints,
    TaskRows,
    UserError,
    cache_dir,
    cache_places,
    hash_text,
    note,
    read_sealed,
    write_sealed,
)
from longshot.data import Dataset, innermost, pixel_digests

Labels: TypeAlias = NDArray[np.integer[Any]]  # the class of each image
COPY_RULES = ("apart", "equal", "allow")
MOST_SEARCHED = (
    30_000  # images among which near copies are searched by default: some six minutes on two cores
)


@dataclass(frozen=True, eq=False)
class CopyGroups:
    """Which of N images are copies of each other.

    Attributes
    ----------
    equal : array [N]
        The first row with the same pixels.
    group : array [N]
        The first row of the equal images and near copies that an image is connected with.
    near : bool
        Whether near copies were looked for.
    """

    equal: Ints
    group: Ints
    near: bool

    @property
    def later(self) -> Ints:
        """Return the images that are not the first of their group, as rows."""
        return np.flatnonzero(self.group != np.arange(len(self.group)))

    def among(self, chosen: Bools) -> CopyGroups:
        """Return the groups among the ``chosen`` [N] images alone; all others are groups of their own."""
        return CopyGroups(_among(self.equal, chosen), _among(self.group, chosen), self.near)

    def take(self, rows: Ints) -> CopyGroups:
        """Return the groups of some images, numbered by their places among ``rows`` [M]."""
        everything = np.ones(len(rows), np.bool_)
        return CopyGroups(
            _among(self.equal[rows], everything), _among(self.group[rows], everything), self.near
        )

    def clashes(self, labels: Labels) -> Bools:
        """Return which images [N] equal one with another label [N]: at most one of the labels is right."""
        return _several(self.equal, labels)

    def strays(self, labels: Labels) -> Bools:
        """Return which images [N] have another label than the first of their group."""
        return np.asarray(labels != labels[self.group])

    def suspects(self, labels: Labels) -> Bools:
        """Return images [N] to do without: all but the first of a group, all of a group with several labels."""
        return np.asarray(_several(self.group, labels) | (self.group != np.arange(len(self.group))))

    def counts(self, labels: Labels) -> dict[str, int]:
        """Count images beyond the first of each group that equal an earlier one, the others, and those that clash."""
        equal = int((self.equal != np.arange(len(self.equal))).sum())
        clashing = int(self.clashes(labels).sum())
        return {"equal": equal, "near": len(self.later) - equal, "contradicting": clashing}

    def words(self, labels: Labels) -> str:
        """Say what is done about the copies, as `say_copies` does."""
        return say_copies(**self.counts(labels))

    def table(self, dataset: Dataset) -> list[dict[str, str]]:
        """List images beyond the first of a group: its key, that of the first, and whether their pixels are equal."""
        rows, keys = self.later, dataset.keys
        firsts = np.where(self.equal[rows] != rows, self.equal[rows], self.group[rows])
        kinds = np.where(self.equal[rows] != rows, "equal", "near").tolist()
        names = (keys.take(pa.array(part)).to_pylist() for part in (rows, firsts))
        return [{"image": a, "copy of": b, "kind": c} for a, b, c in zip(*names, kinds, strict=True)]

    def straddling(self, tasks: TaskRows) -> Bools:
        """Return which of T tasks have images of one group on both sides or in two classes, [T]."""
        copied, parts = np.bincount(self.group, minlength=len(self.group))[self.group] > 1, []
        sides = ((tasks.support, tasks.support_label), (tasks.query, tasks.query_label))
        for side, (rows, labels) in enumerate(sides):
            here = np.flatnonzero(copied[rows.values])
            standing = labels.values[here].astype(np.int64) * 2 + side  # class and side as one number
            parts.append((rows.owners[here], self.group[rows.values[here]], standing))
        owners, groups, standing = (np.concatenate(values) for values in zip(*parts, strict=True))
        straddles = np.zeros(len(tasks), np.bool_)
        _, pair = np.unique(owners * len(self.group) + groups, return_inverse=True)  # (task, group)
        straddles[owners[_several(pair, standing)]] = True
        return straddles


def say_copies(equal: int = 0, near: int = 0, contradicting: int = 0) -> str:
    """Say what is done about copies: ``37 images are copies of others (12 equal, 25 near): kept apart``."""
    verb = "image is a copy" if equal + near == 1 else "images are copies"
    more = f", {contradicting:,} equal ones with different labels left out" if contradicting else ""
    return f"{equal + near:,} {verb} of others ({equal:,} equal, {near:,} near): kept apart{more}"


def copy_groups(dataset: Dataset, near: bool = True) -> CopyGroups:
    """Find the groups of copies within a dataset; what was found is remembered by the content of the images.

    Parameters
    ----------
    dataset : Dataset
        Whose images. A store that draws its own pictures, all different, says ``without_copies``: none is looked at.
    near : bool
        Look for near copies too, which compares all images; otherwise only for equal pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from longshot import open_dataset
    >>> images = np.random.default_rng(0).integers(0, 255, (3, 8, 8), np.uint8)
    >>> np.savez("birds.npz", images=images[[0, 1, 0, 2]], labels=["wren", "wren", "wren", "crow"])
    >>> copy_groups(open_dataset("birds.npz"), near=False).group.tolist()  # crow, then wren
    [0, 1, 2, 1]
    """
    rows = np.arange(len(dataset))
    if _all_different(dataset):
        return CopyGroups(rows, rows, near)
    if near:
        pairs = _near_pairs(dataset)
        return CopyGroups(_joined(pairs[pairs[:, 2] == 0], rows), _joined(pairs, rows), near)
    pixels = np.ascontiguousarray(pixel_digests(dataset, skip_bad=True)).view("S32")[:, 0]
    return equal_groups(pixels, pixels != b"")  # what cannot be decoded equals nothing


def equal_groups(values: NDArray[Any], chosen: Bools | None = None) -> CopyGroups:
    """Return the groups of equal values [N]; those that are not ``chosen`` [N] are groups of their own."""
    numbers = np.unique(values, return_inverse=True)[1].reshape(-1)
    equal = _among(numbers, np.ones(len(values), np.bool_) if chosen is None else chosen)
    return CopyGroups(equal, equal, False)


def find_copies(dataset: Dataset, rule: str | None = None) -> tuple[str, CopyGroups | None]:
    """Find the groups of images that a rule keeps apart, and the rule where it is left to the dataset.

    Parameters
    ----------
    dataset : Dataset
        Whose images.
    rule : {"apart", "equal", "allow"}, optional
        Keep equal images and near copies apart, equal images only, or none. By default "apart" for up to 50,000
        images and "equal" for more; "allow" where a dataset is used by names only. A note says so.
    """
    if rule is not None and rule not in COPY_RULES:
        raise UserError(f"{{copies:{rule}}} is no rule for copies", f"choose {', '.join(COPY_RULES)}")
    chosen = rule or "apart"
    if rule is not None or _all_different(dataset):
        pass
    elif dataset.identity == "names":
        chosen = "allow"
        note(f"'{dataset.name}' is used by names only, so no copies among its images are looked for")
    elif len(dataset) > MOST_SEARCHED:
        chosen = "equal"
        note(
            f"near copies are not looked for among the {len(dataset):,} images of '{dataset.name}', only equal ones; "
            "{copies:apart} compares them all"
        )
    return chosen, None if chosen == "allow" else copy_groups(dataset, near=chosen == "apart")


def _all_different(dataset: Dataset) -> bool:
    """Say whether a dataset draws its own pictures and says that no two are alike."""
    return getattr(innermost(dataset.store, np.arange(0))[0], "without_copies", False)


def _near_pairs(dataset: Dataset) -> Ints:
    """Find pairs of rows that are copies [P, 3]: two rows, and 0 where their pixels are equal, else 1."""
    from longshot.models import content_of

    # The number counts the ways in which ``find_pairs`` has searched.
    address = hash_text("longshot copies 4", dataset.fingerprint, content_of(dataset).digest)
    for file in cache_places("copies", f"{address[:32]}.pairs"):
        if (content := read_sealed(file)) is not None:
            return np.frombuffer(content, np.int64).reshape(-1, 3)
    from longshot.audit.pairs import find_pairs  # imports OpenCV

    pairs = find_pairs(dataset, dataset)
    copies = pairs.kind < 2
    rows = np.concatenate([pairs.rows[copies], pairs.kind[copies, None]], 1).astype(np.int64)
    write_sealed(cache_dir("copies") / f"{address[:32]}.pairs", rows.tobytes())
    return rows


def _joined(pairs: Ints, rows: Ints) -> Ints:
    """Return the first row [N] of those that pairs connect each row with."""
    if not len(pairs):
        return rows
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(rows), len(rows)))
    return _among(connected_components(links, directed=False)[1].astype(np.int64), rows >= 0)


def _among(group: Ints, chosen: Bools) -> Ints:
    """Number groups [N] by the first chosen row of each; rows that are not chosen stand for themselves."""
    rows = np.flatnonzero(chosen)
    _, first, inverse = np.unique(group[rows], return_index=True, return_inverse=True)
    numbers = np.arange(len(group))
    numbers[rows] = rows[first][inverse]
    return numbers


def _several(group: Ints, values: Labels) -> Bools:
    """Return which members [N] belong to a group [N] that has more than one value [N]."""
    size = int(group.max(initial=-1)) + 1
    low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    return np.asarray((low < high)[group])

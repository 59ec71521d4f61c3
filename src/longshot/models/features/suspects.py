"""Images whose label looks wrong, or that are copies of others: what a search for difficulty is drawn to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Bools, Floats, Ints, Ragged
from longshot.models.features.arrays import checksum

if TYPE_CHECKING:
    from longshot.models.features.features import Features

ODDS = 100.0  # another class is so many times as probable as the one on the label
_REMEMBERED = 8  # features whose suspects are kept in memory: several testbeds are drawn by one judge

_remembered: dict[tuple[str, str], Suspects] = {}


@dataclass(frozen=True, eq=False)
class Suspects:
    """The suspected images of a dataset seen through one backbone, as rows of its features.

    Attributes
    ----------
    features : Features
        What was looked at.
    mislabelled : array [M]
        Rows whose label looks wrong, by falling odds.
    rival, odds : arrays [M]
        The class that each of them looks like, and how many times as probable it is as the one on the label.
    copies : array [K]
        Rows that are copies: all but the first of one class; all where copies have different labels.
    near : bool
        Whether near copies were looked for, not only equal files.
    """

    features: Features
    mislabelled: Ints
    rival: Ints
    odds: Floats
    copies: Ints
    near: bool = False

    @property
    def mask(self) -> Bools:
        """Which rows are suspected [N]."""
        mask = np.zeros(len(self.features.keys), np.bool_)
        mask[self.mislabelled], mask[self.copies] = True, True
        return mask

    def __len__(self) -> int:
        return int(self.mask.sum())

    def share(self, rows: Ragged) -> Floats:
        """The share of suspected images in each of T lists of rows, [T]."""
        counts = np.bincount(rows.owners, self.mask[rows.values], len(rows))
        share: Floats = counts / np.maximum(rows.lengths, 1)
        return share

    def facts(self) -> dict[str, int | bool]:
        """Counts as plain values."""
        return {
            "images": len(_used(self.features)),
            "mislabelled": len(self.mislabelled),
            "copies": len(self.copies),
            "near_copies": self.near,
        }

    def table(self) -> pa.Table:
        """One row per suspicion: key, class, reason (label or copy), looks_like and odds where the label is doubted."""
        ids = np.array(self.features.class_ids, object)
        classes = np.searchsorted(self.features.offsets, np.arange(len(self.features.keys)), "right") - 1
        rows = np.concatenate([self.mislabelled, self.copies])
        none = [None] * len(self.copies)
        return pa.table(
            {
                "key": self.features.keys.take(pa.array(rows)),
                "class": pa.array(ids[classes[rows]], pa.string()),
                "reason": ["label"] * len(self.mislabelled) + ["copy"] * len(self.copies),
                "looks_like": pa.array([*ids[self.rival], *none], pa.string()),
                "odds": pa.array([*self.odds.tolist(), *none], pa.float64()),
            }
        )


def suspects_of(features: Features, near: NDArray[np.int64] | None = None) -> Suspects:
    """Which images of a dataset are suspected, by its features and the digests of its files.

    A label is suspected where another class is at least 100 times as probable, judged without the image
    (``label_doubt``). Where part of a dataset is in use, its classes are compared with each other. Copies are files of
    equal bytes, and the pairs of ``near``.

    Parameters
    ----------
    features : Features
        A dataset through a backbone.
    near : array [P, 2], optional
        Pairs of rows that are near copies of each other.
    """
    part = "" if features.used is None else checksum(features.used)
    key = (features.fingerprint, features.hash + part)
    if key not in _remembered:
        while len(_remembered) >= _REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = _by_labels_and_bytes(features)
    suspects = _remembered[key]
    if near is None:
        return suspects
    pairs = np.concatenate([_equal_files(features), np.asarray(near, np.int64).reshape(-1, 2)])
    copies = _copies(features, pairs)
    return Suspects(features, suspects.mislabelled, suspects.rival, suspects.odds, copies, near=True)


def joint_suspects(several: Sequence[Features]) -> Suspects:
    """The images that any of several backbones suspects; the odds are the highest.

    Parameters
    ----------
    several : sequence of Features
        One dataset through one backbone or more.
    """
    each = [suspects_of(features) for features in several]
    if len(each) == 1:
        return each[0]
    rows, rival, odds = (
        np.concatenate([getattr(suspects, name) for suspects in each])
        for name in ("mislabelled", "rival", "odds")
    )
    order = np.lexsort([rows, -odds])
    _, first = np.unique(rows[order], return_index=True)
    order = order[np.sort(first)]
    copies = np.unique(np.concatenate([suspects.copies for suspects in each]))
    return Suspects(several[0], rows[order], rival[order], odds[order], copies)


def _by_labels_and_bytes(features: Features) -> Suspects:
    from longshot.models.features.doubt import label_doubt

    array, offsets, used = features.array, features.offsets, _used(features)
    if features.used is not None:  # the images that tasks can touch, as if there were no others
        array, offsets = array[used], np.searchsorted(used, offsets)
    doubt = label_doubt(array, offsets)
    judged = np.flatnonzero(doubt.odds >= ODDS)
    judged = judged[np.argsort(-doubt.odds[judged], kind="stable")]
    copies = _copies(features, _equal_files(features))
    return Suspects(features, used[judged], doubt.rival[judged], doubt.odds[judged], copies)


def _used(features: Features) -> Ints:
    return np.arange(len(features.keys)) if features.used is None else features.used


def _equal_files(features: Features) -> Ints:
    """Pairs of rows [P, 2] with equal digests: each later row with the first of its kind."""
    if features.digests is None:
        return np.empty((0, 2), np.int64)
    used = _used(features)
    _, first, inverse = np.unique(features.digests[used], return_index=True, return_inverse=True)
    places = np.arange(len(used))
    later = places[first[inverse] != places]
    return np.stack([used[first[inverse[later]]], used[later]], axis=1).astype(np.int64)


def _copies(features: Features, pairs: Ints) -> Ints:
    """The rows to suspect among groups of copies: all but the first; all where a group has several labels."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(pairs):
        return np.empty(0, np.int64)
    rows, places = np.unique(pairs, return_inverse=True)
    places = places.reshape(-1, 2)
    links = coo_array((np.ones(len(pairs)), (places[:, 0], places[:, 1])), shape=(len(rows), len(rows)))
    _, group = connected_components(links, directed=False)
    labels = np.searchsorted(features.offsets, rows, "right") - 1
    _, first = np.unique(group, return_index=True)  # rows ascend, so the first of a group is its lowest row
    several = np.zeros(len(first), np.bool_)
    several[group[labels != labels[first][group]]] = True
    suspected = several[group]
    suspected |= ~np.isin(np.arange(len(rows)), first)
    copies: Ints = rows[suspected]
    return copies

"""What features vouch for: the bytes of the images that they were made from, or only their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.wording import count, first
from longshot.datasets import compare_content, content_digest, image_digests, short_digests
from longshot.datasets.dataset import Dataset
from longshot.datasets.identity import look_at
from longshot.datasets.stores import prepare_rows, stamps_of

if TYPE_CHECKING:
    from longshot.features.features import Features

_PROBED = 16  # images that are read where names are to be enough

# content digests of datasets that are open: sorting a million keys takes longer than looking at their files
_digests: WeakKeyDictionary[Dataset, tuple[str, str]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Content:
    """A dataset's images as they were when they were looked at."""

    identity: str  # "content" or "names"
    digest: str  # over keys and bytes of all images, or of a few where names are to be enough; "" where none was read
    short: NDArray[np.uint64] | None = None  # [N] of each image, by content; 0 where none was looked at
    stamps: Ints | None = None  # [N, 3] of the files behind them, by content


def content_of(dataset: Dataset, rows: Ints | None = None) -> Content:
    """What a dataset is made of now.

    Parameters
    ----------
    dataset : Dataset
        Images whose digests are remembered cost a look at their files, others are read. Where the dataset's identity
        is "names" only a few images, evenly spread, are: they keep two folders apart that name their files alike.
    rows : array [M] of int, optional
        The images that matter; all by default. Others are not looked at.
    """
    if dataset.identity == "names":
        spread = np.unique(np.linspace(0, len(dataset) - 1, _PROBED).astype(np.int64))
        probed = content_digest(dataset.keys.take(pa.array(spread)), image_digests(dataset, spread))
        return Content("names", probed)
    if rows is not None:
        return _content_of_rows(dataset, rows)
    prepare_rows(dataset.store, np.arange(len(dataset)))
    look = look_at(dataset.store, np.arange(len(dataset)))
    digests = image_digests(dataset, look=look)
    mark = hashlib.sha256(np.ascontiguousarray(digests).data).hexdigest()
    if _digests.get(dataset, ("", ""))[0] != mark:
        _digests[dataset] = (mark, content_digest(dataset.keys, digests))
    return Content("content", _digests[dataset][1], short_digests(digests), look.stamps)


def _content_of_rows(dataset: Dataset, rows: Ints) -> Content:
    prepare_rows(dataset.store, rows)
    look = look_at(dataset.store, rows)
    digests = image_digests(dataset, rows, look=look)
    short, stamps = np.zeros(len(dataset), np.uint64), np.full((len(dataset), 3), -1, np.int64)
    short[rows], stamps[rows] = short_digests(digests), look.stamps
    return Content("content", content_digest(dataset.keys.take(pa.array(rows)), digests), short, stamps)


def check_made_from(features: Features, dataset: Dataset) -> None:
    """UserError where features were made from other images than a dataset of the same names holds now.

    Nothing can be told of features that vouch for names only, nor of a dataset that is looked at by names.
    """
    if features.digests is None or dataset.identity == "names" or features.fingerprint != dataset.fingerprint:
        return
    used = np.arange(len(dataset)) if features.used is None else features.used
    content = content_of(dataset, features.used)
    assert content.short is not None
    if np.array_equal(features.digests[used], content.short[used]):
        return
    rows = pa.array(used)
    changes = compare_content(
        features.keys.take(rows), features.digests[used], dataset.keys.take(rows), content.short[used]
    )
    raise UserError(
        f"The features '{features.backbone}' were made from other images than dataset '{dataset.name}' holds now: "
        f"{changes}",
        "embed it with the same backbone",
    )


def check_unchanged(dataset: Dataset, content: Content, rows: Iterable[int]) -> None:
    """UserError when files behind some rows changed since ``content`` was looked at."""
    if content.stamps is None:
        return
    chosen = np.fromiter(rows, np.int64)
    changed = chosen[(stamps_of(dataset.store, chosen) != content.stamps[chosen]).any(axis=1)]
    if len(changed):
        keys = dataset.keys.take(pa.array(changed)).to_pylist()
        raise UserError(
            f"{count(keys, 'image')} of dataset '{dataset.name}' changed while they were read ({first(keys)})",
            "do the same again",
        )

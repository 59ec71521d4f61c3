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
from longshot.datasets.stores import stamps_of

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
    short: NDArray[np.uint64] | None = None  # [N] of each image, by content
    stamps: Ints | None = None  # [N, 3] of the files behind them, by content


def content_of(dataset: Dataset) -> Content:
    """What a dataset is made of now.

    Parameters
    ----------
    dataset : Dataset
        Images whose digests are remembered cost a look at their files, others are read. Where the dataset's identity
        is "names" only a few images, evenly spread, are: they keep two folders apart that name their files alike.
    """
    if dataset.identity == "names":
        rows = np.unique(np.linspace(0, len(dataset) - 1, _PROBED).astype(np.int64))
        probed = content_digest(dataset.keys.take(pa.array(rows)), image_digests(dataset, rows))
        return Content("names", probed)
    look = look_at(dataset.store, np.arange(len(dataset)))
    digests = image_digests(dataset, look=look)
    mark = hashlib.sha256(np.ascontiguousarray(digests).data).hexdigest()
    if _digests.get(dataset, ("", ""))[0] != mark:
        _digests[dataset] = (mark, content_digest(dataset.keys, digests))
    return Content("content", _digests[dataset][1], short_digests(digests), look.stamps)


def check_made_from(features: Features, dataset: Dataset) -> None:
    """UserError where features were made from other images than a dataset of the same names holds now.

    Nothing can be told of features that vouch for names only, nor of a dataset that is looked at by names.
    """
    if features.digests is None or dataset.identity == "names" or features.fingerprint != dataset.fingerprint:
        return
    content = content_of(dataset)
    if content.digest == features.content:
        return
    assert content.short is not None
    changes = compare_content(features.keys, features.digests, dataset.keys, content.short)
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

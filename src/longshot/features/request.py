"""What is to be embedded: opened, checked, and addressed by its content."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pyarrow as pa

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.files import hash_text
from longshot.datasets.dataset import Dataset
from longshot.features.arrays import DTYPES
from longshot.features.backbones import open_backbone
from longshot.features.backbones.base import Backbone, Precomputed
from longshot.features.cache import Shards
from longshot.features.content import Content, content_of
from longshot.features.features import BLOCK, features_view, images_mark

if TYPE_CHECKING:
    from longshot.features.backbones import BackboneLike


class EmbedOptions(TypedDict, total=False):
    """What :func:`embed` may be told; see there."""

    dtype: str
    device: str
    workers: int | None
    batch_size: int | None
    preprocessing: str | None
    allow_download: bool
    identity: str | None
    engine: str | None
    rows: Ints | None


@dataclass(frozen=True)
class Request:
    """What is to be embedded, opened and checked."""

    dataset: Dataset
    source: Backbone | Precomputed
    dtype: str
    workers: int | None
    batch_size: int | None
    rows: Ints | None = None  # the images to embed, ascending; None: all

    @property
    def wanted_rows(self) -> Ints:
        """The rows to embed."""
        return np.arange(len(self.dataset)) if self.rows is None else self.rows

    @cached_property
    def content(self) -> Content:
        """The dataset's images as they are at the first look; given vectors are bound to images by name."""
        if isinstance(self.source, Precomputed):
            return Content("names", "")
        return content_of(self.dataset, self.rows)

    @property
    def view(self) -> str:
        """What features of any images of the dataset have in common: names, network, preprocessing and dtype.

        Another one once the network has settled for an engine.
        """
        probed = self.content.digest if self.content.identity == "names" else ""
        facts = (self.dataset.fingerprint, self.content.identity, probed, self.source.identity, self.dtype)
        return features_view(*facts)

    @property
    def address(self) -> str:
        """The hash of the features: of the view, and of the images in use (by names: of the view alone)."""
        return self.view + (self._images or hash_text(self.view)[:32])

    @cached_property
    def _images(self) -> str:
        """The mark of the images in use; "" by names."""
        if self.content.short is None:
            return ""
        rows = self.wanted_rows
        keys = self.dataset.keys if self.rows is None else self.dataset.keys.take(pa.array(rows))
        return images_mark(keys, self.content.short[rows])

    def shards(self, path: Path) -> Shards:
        """The pieces of the array at ``path``."""
        return Shards(path, device_kind(self.source), len(self.dataset), BLOCK, self.dtype)


def open_request(
    dataset: Dataset | str | Path,
    backbone: BackboneLike,
    dtype: str = "float16",
    device: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    preprocessing: str | None = None,
    allow_download: bool = False,
    identity: str | None = None,
    engine: str | None = None,
    rows: Ints | None = None,
) -> Request:
    """What :func:`longshot.embed` is to do, opened and checked; ``rows`` are the images to embed, all by default."""
    if dtype not in DTYPES:
        raise UserError(f"{{dtype}} is {dtype!r}, but features are stored as {' or '.join(DTYPES)}.")
    check_workers(workers)
    if batch_size is not None and batch_size < 1:
        raise UserError(f"{{batch_size}} is {batch_size}, but a batch holds 1 or more images.")
    if not isinstance(dataset, Dataset):
        from longshot.datasets import open_dataset

        dataset = open_dataset(dataset)
    source = open_backbone(
        backbone, device, preprocessing=preprocessing, allow_download=allow_download, engine=engine
    )
    if rows is not None:
        rows = np.unique(np.asarray(rows, np.int64))
        rows = None if len(rows) == len(dataset) else rows
    return Request(dataset.with_identity(identity), source, dtype, workers, batch_size, rows)


def check_workers(workers: int | None) -> None:
    """UserError for a negative number of decoding processes."""
    if workers is not None and workers < 0:
        raise UserError(f"{{workers}} is {workers}, but decoding takes 0 or more worker processes.")


def device_kind(source: Backbone | Precomputed) -> str:
    """cpu, cuda or mps."""
    return source.device.type if isinstance(source, Backbone) else "cpu"


def unreadable_images(dataset: Dataset, bad: list[tuple[int, str]]) -> UserError:
    """All of (row, reason) in one sentence."""
    keys = [dataset.keys[row].as_py() for row, _ in bad[:5]]
    shown = "; ".join(f"{key}: {reason}" for key, (_, reason) in zip(keys, bad[:5], strict=True))
    more = f"; and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    return UserError(
        f"{len(bad):,} of {len(dataset):,} images of dataset '{dataset.name}' cannot be used ({shown}{more})",
        f"mend or remove them, or leave them out with {{datasets.add_dataset({dataset.name}, {dataset.source}, "
        "skip_bad=True)}",
    )

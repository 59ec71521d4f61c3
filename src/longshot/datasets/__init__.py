"""Datasets: where images come from. ``open_dataset`` opens every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshot.datasets import registry
from longshot.datasets.catalogue import (
    add_dataset,
    check_dataset,
    describe_dataset,
    list_datasets,
    list_formats,
)
from longshot.datasets.check import find_bad
from longshot.datasets.dataset import IDENTITIES, SPLITS, Dataset, ImageStore, canonical_split
from longshot.datasets.get import get_dataset, list_downloads, plan_download
from longshot.datasets.identity import (
    ContentChanges,
    compare_content,
    content_digest,
    digest_of,
    image_digests,
    pack_digests,
    remember_digests,
    short_digests,
    unpack_digests,
)
from longshot.datasets.images import ImageError
from longshot.datasets.opening import DatasetLike, as_dataset, load, locate, open_dataset
from longshot.datasets.part import branches, take_rows, under

__all__ = [
    "IDENTITIES",
    "SPLITS",
    "ContentChanges",
    "Dataset",
    "DatasetLike",
    "ImageError",
    "ImageStore",
    "add_dataset",
    "as_dataset",
    "branches",
    "canonical_split",
    "check_dataset",
    "compare_content",
    "content_digest",
    "describe_dataset",
    "digest_of",
    "find_bad",
    "get_dataset",
    "image_digests",
    "list_datasets",
    "list_downloads",
    "list_formats",
    "load",
    "locate",
    "open_dataset",
    "pack_digests",
    "plan_download",
    "registry",
    "remember_digests",
    "short_digests",
    "take_rows",
    "under",
    "unpack_digests",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """``longshot.datasets.overlap`` without an import: a room of its own, loaded when it is named."""
        if name == "overlap":
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

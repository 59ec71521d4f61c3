"""Datasets: where images come from. ``open_dataset`` opens every kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; the same names as in the table below
    from longshot.data import registry as registry
    from longshot.data.catalogue import add_dataset as add_dataset
    from longshot.data.catalogue import check_dataset as check_dataset
    from longshot.data.catalogue import describe_dataset as describe_dataset
    from longshot.data.catalogue import list_datasets as list_datasets
    from longshot.data.catalogue import list_formats as list_formats
    from longshot.data.dataset import IDENTITIES as IDENTITIES
    from longshot.data.dataset import SPLITS as SPLITS
    from longshot.data.dataset import Dataset as Dataset
    from longshot.data.dataset import ImageStore as ImageStore
    from longshot.data.dataset import canonical_split as canonical_split
    from longshot.data.get import get_dataset as get_dataset
    from longshot.data.get import list_downloads as list_downloads
    from longshot.data.get import plan_download as plan_download
    from longshot.data.identity import ContentChanges as ContentChanges
    from longshot.data.identity import compare_content as compare_content
    from longshot.data.identity import content_digest as content_digest
    from longshot.data.identity import digest_of as digest_of
    from longshot.data.identity import image_digests as image_digests
    from longshot.data.identity import pack_digests as pack_digests
    from longshot.data.identity import remember_digests as remember_digests
    from longshot.data.identity import short_digests as short_digests
    from longshot.data.identity import unpack_digests as unpack_digests
    from longshot.data.images import ImageError as ImageError
    from longshot.data.opening import DatasetLike as DatasetLike
    from longshot.data.opening import as_dataset as as_dataset
    from longshot.data.opening import load as load
    from longshot.data.opening import locate as locate
    from longshot.data.opening import open_dataset as open_dataset
    from longshot.data.part import branches as branches
    from longshot.data.part import find_bad as find_bad
    from longshot.data.part import take_rows as take_rows
    from longshot.data.part import under as under

# name → module of this room, imported on first use: who only reads a testbed needs neither downloads nor checks.
_MODULES: dict[str, str] = {
    "ContentChanges": "identity",
    "Dataset": "dataset",
    "DatasetLike": "opening",
    "IDENTITIES": "dataset",
    "ImageError": "images",
    "ImageStore": "dataset",
    "SPLITS": "dataset",
    "add_dataset": "catalogue",
    "as_dataset": "opening",
    "branches": "part",
    "canonical_split": "dataset",
    "check_dataset": "catalogue",
    "compare_content": "identity",
    "content_digest": "identity",
    "describe_dataset": "catalogue",
    "digest_of": "identity",
    "find_bad": "part",
    "get_dataset": "get",
    "image_digests": "identity",
    "list_datasets": "catalogue",
    "list_downloads": "get",
    "list_formats": "catalogue",
    "load": "opening",
    "locate": "opening",
    "open_dataset": "opening",
    "pack_digests": "identity",
    "plan_download": "get",
    "remember_digests": "identity",
    "short_digests": "identity",
    "take_rows": "part",
    "under": "part",
    "unpack_digests": "identity",
}
_ROOMS = ("overlap", "registry")  # modules that are used by their names

__all__ = [*_MODULES, "registry"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            attribute = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        elif name in _ROOMS:
            attribute = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        globals()[name] = attribute
        return attribute

"""The formats in which the datasets of this field lie on disk, found by name or by their files.

A dataset of a format is written ``FORMAT[(settings)]:PATH``; where a few file names tell it, the path alone does.
Packages add formats of their own as plugins: subclasses of `Format`, asked after Longshot's own.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from longshot.base import UserError, find_class, make_called, parse_call, plugged

if TYPE_CHECKING:
    from longshot.data.formats.base import Format

# Name on the command line → module and class, in the order in which a path is looked at, and the names without which a
# path is surely not of the format: its own name, or one right inside it; None for a format that is never told by names.
# So a folder of photos costs no import of all modules.
_TABLE: dict[str, tuple[str, str | None]] = {
    "view": ("longshot.data.derived:ViewFormat", r".*\.view\.json"),
    "meta-album": ("meta_album:MetaAlbum", r"info|info\.json"),
    "huggingface": (
        "huggingface:HuggingFaceFormat",
        r"dataset_info\.json|dataset_dict\.json|data|.*\.parquet",
    ),
    "webdataset": ("webdataset:WebDataset", r".*\.tar"),
    "cifar": ("cifar:CIFAR", r"cifar-.*|(train|test)(\.bin)?|(data_batch_1|test_batch)(\.bin)?"),
    "emnist": ("mnist:EMNIST", r"emnist-.*|gzip|raw|.*mnist"),
    "mnist": ("mnist:MNIST", r"(train|t10k)-images.*|gzip|raw|.*mnist"),
    "stl10": ("cifar:STL10", r"stl10_binary|train_X\.bin"),
    "svhn": ("cifar:SVHN", r".*_32x32\.mat"),
    "lfw": ("pattern:LFW", r"lfw.*|George_W_Bush"),
    "omniglot": ("meta_dataset_sources:Omniglot", r"images_background.*"),
    "fgvc-aircraft": ("meta_dataset_sources:Aircraft", r"fgvc-aircraft-2013b|data|images_variant_test\.txt"),
    "oxford-flowers": ("meta_dataset_sources:Flowers", r"imagelabels\.mat"),
    "mini-imagenet": ("imagenet_subsets:MiniImageNet", r"mini-imagenet-cache-train\.pkl|images"),
    "tiered-imagenet": ("imagenet_subsets:TieredImageNet", r"train_images_png\.pkl|train\.csv"),
    "danish-fungi": ("volunteers:DanishFungi", r"DF20.*"),
    "orbit": ("volunteers:Orbit", None),
    "cure-or": ("pattern:CureOr", None),
    "objectnet": ("pattern:ObjectNet", r"mappings"),
    "coco": ("coco:Coco", r"annotations"),
    "meta-dataset": ("meta_dataset:MetaDataset", r"0\.tfrecords|dataset_spec\.json"),
    "meta-dataset-hdf5": ("meta_dataset:MetaDatasetHdf5", r"0\.h5"),
    "tfds": ("tfds:Tfds", r"dataset_info\.json|features\.json|\d+\.\d+\.\d+"),
    "vtab": ("vtab:Vtab", None),
    "lmdb": ("arrays:Lmdb", r"data\.mdb|.*lmdb"),
    "arrays": ("arrays:ArrayFiles", r".*\.(npz|npy|h5|hdf5|hdf)"),
    "pattern": ("pattern:PathPattern", None),
}
FORMATS = {
    name: target if target.startswith("longshot.") else f"{__name__}.{target}"
    for name, (target, _) in _TABLE.items()
}
_SIGNS = {name: sign for name, (_, sign) in _TABLE.items()}  # a format that is not listed is always asked
_SPEC = re.compile(r"(?P<call>[a-z0-9-]+(\([^()]*\))?):(?P<path>.+)", re.DOTALL)


def all_formats() -> dict[str, str]:
    """Return Longshot's own formats and behind them those of plugins: name → ``module:class``."""
    return FORMATS | {name: target for name, target in plugged("formats").items() if name not in FORMATS}


def find_format(name: str) -> type[Format]:
    """Return the class of a format; UserError with the nearest name when there is none."""
    table = FORMATS if name in FORMATS else all_formats()  # plugins are looked at only where they are needed
    form: type[Format] = find_class("format", name, table, "{data.list_formats()}")
    return form


def make_format(call: str) -> Format:
    """``"coco(crops=True)"`` → the format with its settings; UserError with the nearest name when there is none."""
    name, settings = parse_call(call)
    made: Format = make_called("format", name, find_format(name), settings)
    return made


def split_spec(text: str) -> tuple[str, str] | None:
    """``"coco(crops=True):/data/coco"`` → (call, path); None for anything that begins with no known format."""
    match = _SPEC.fullmatch(text)
    if match is None:
        return None
    name = match["call"].partition("(")[0]
    return (match["call"], match["path"]) if name in FORMATS or name in all_formats() else None


def recognise(path: Path) -> Format | None:
    """The format that the files at ``path`` tell by their names, with its default settings; Longshot's own first."""
    for name in possible(path):
        if _recognises(find_format(name), path):
            return make_format(name)
    for name in list(all_formats())[len(FORMATS) :]:
        with contextlib.suppress(
            UserError
        ):  # a plugin that cannot be imported: who asks for it by name is told
            if _recognises(find_format(name), path):
                return make_format(name)
    return None


def _recognises(form: type[Format], path: Path) -> bool:
    with contextlib.suppress(OSError):  # a folder that may not be looked into is none of ours
        return form.recognise(path)
    return False


def possible(path: Path) -> list[str]:
    """The formats that may know ``path``, by its name and those right inside it; all where these do not tell."""
    try:
        inside = os.listdir(path) if path.is_dir() else []  # noqa: PTH208  names alone
    except OSError:
        return list(FORMATS)
    visible = [name for name in inside if not name.startswith(".") and name != "downloads"]
    if len(visible) == 1:  # what lies deeper may be what is meant
        return list(FORMATS)
    names = [path.name, *inside]

    def seen(sign: str | None) -> bool:
        # Whatever the case: so do some file systems compare names.
        return sign is not None and any(re.fullmatch(sign, name, re.IGNORECASE) for name in names)

    return [name for name in FORMATS if name not in _SIGNS or seen(_SIGNS[name])]

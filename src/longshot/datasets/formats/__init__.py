"""The formats in which the datasets of this field lie on disk: one file each, found by name or by their files.

A dataset of a format is written ``FORMAT[(settings)]:PATH``; where a few file names tell it, the path alone does.
"""

from __future__ import annotations

import contextlib
import os
import re
from importlib import import_module
from pathlib import Path

from longshot.core.calls import find_class, make_called, parse_call
from longshot.datasets.formats.base import Format

# name on the command line → module:class, in the order in which a path is looked at
FORMATS: dict[str, str] = {
    "view": "longshot.datasets.formats.view:ViewFormat",
    "meta-album": "longshot.datasets.formats.meta_album:MetaAlbum",
    "huggingface": "longshot.datasets.formats.huggingface:HuggingFaceFormat",
    "webdataset": "longshot.datasets.formats.webdataset:WebDataset",
    "cifar": "longshot.datasets.formats.cifar:CIFAR",
    "emnist": "longshot.datasets.formats.idx:EMNIST",
    "mnist": "longshot.datasets.formats.idx:MNIST",
    "medmnist": "longshot.datasets.formats.medmnist:MedMNIST",
    "stl10": "longshot.datasets.formats.stl10:STL10",
    "svhn": "longshot.datasets.formats.svhn:SVHN",
    "lfw": "longshot.datasets.formats.lfw:LFW",
    "omniglot": "longshot.datasets.formats.omniglot:Omniglot",
    "fgvc-aircraft": "longshot.datasets.formats.oxford:Aircraft",
    "oxford-flowers": "longshot.datasets.formats.oxford:Flowers",
    "mini-imagenet": "longshot.datasets.formats.imagenet_subsets:MiniImageNet",
    "tiered-imagenet": "longshot.datasets.formats.imagenet_subsets:TieredImageNet",
    "danish-fungi": "longshot.datasets.formats.danish_fungi:DanishFungi",
    "orbit": "longshot.datasets.formats.orbit:Orbit",
    "cure-or": "longshot.datasets.formats.cure_or:CureOr",
    "objectnet": "longshot.datasets.formats.objectnet:ObjectNet",
    "coco": "longshot.datasets.formats.coco:Coco",
    "meta-dataset": "longshot.datasets.formats.meta_dataset:MetaDataset",
    "meta-dataset-hdf5": "longshot.datasets.formats.meta_dataset_hdf5:MetaDatasetHdf5",
    "tfds": "longshot.datasets.formats.tfds:Tfds",
    "vtab": "longshot.datasets.formats.vtab_dataset:Vtab",
    "pattern": "longshot.datasets.formats.pattern:PathPattern",
}
# Names without which a path is surely not of a format: its own name, or one right inside it; None for a format that is
# never told by names. So a folder of photos costs no import of 25 modules. A format that is not listed is always asked.
_SIGNS: dict[str, str | None] = {
    "view": r".*\.view\.json",
    "meta-album": r"info|info\.json",
    "huggingface": r"dataset_info\.json|dataset_dict\.json|data|.*\.parquet",
    "webdataset": r".*\.tar",
    "cifar": r"cifar-.*|(train|test)(\.bin)?|(data_batch_1|test_batch)(\.bin)?",
    "emnist": r"emnist-.*|gzip|raw|.*mnist",
    "mnist": r"(train|t10k)-images.*|gzip|raw|.*mnist",
    "medmnist": r".*\.npz",
    "stl10": r"stl10_binary|train_X\.bin",
    "svhn": r".*_32x32\.mat",
    "lfw": r"lfw.*|George_W_Bush",
    "omniglot": r"images_background.*",
    "fgvc-aircraft": r"fgvc-aircraft-2013b|data|images_variant_test\.txt",
    "oxford-flowers": r"imagelabels\.mat",
    "mini-imagenet": r"mini-imagenet-cache-train\.pkl|images",
    "tiered-imagenet": r"train_images_png\.pkl|train\.csv",
    "danish-fungi": r"DF20.*",
    "objectnet": r"mappings",
    "coco": r"annotations",
    "meta-dataset": r"0\.tfrecords|dataset_spec\.json",
    "meta-dataset-hdf5": r"0\.h5",
    "orbit": None,
    "cure-or": None,
    "vtab": None,
    "pattern": None,
    "tfds": r"dataset_info\.json|features\.json|\d+\.\d+\.\d+",
}
_SPEC = re.compile(r"(?P<call>[a-z0-9-]+(\([^()]*\))?):(?P<path>.+)", re.DOTALL)


def make_format(call: str) -> Format:
    """``"coco(crops=True)"`` → the format with its settings; UserError with the nearest name when there is none."""
    name, settings = parse_call(call)
    chosen = find_class("format", name, FORMATS, "{datasets.list_formats()}")
    made: Format = make_called("format", name, chosen, settings)
    return made


def split_spec(text: str) -> tuple[str, str] | None:
    """``"coco(crops=True):/data/coco"`` → (call, path); None for anything that begins with no known format."""
    match = _SPEC.fullmatch(text)
    if match is None or match["call"].partition("(")[0] not in FORMATS:
        return None
    return match["call"], match["path"]


def recognise(path: Path) -> Format | None:
    """The format that the files at ``path`` tell by their names, with its default settings."""
    for name in possible(path):
        module, _, attribute = FORMATS[name].partition(":")
        chosen: type[Format] = getattr(import_module(module), attribute)
        with contextlib.suppress(OSError):  # a folder that may not be looked into is none of ours
            if chosen.recognise(path):
                return make_format(name)
    return None


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

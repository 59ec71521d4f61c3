"""The formats in which the datasets of this field lie on disk: one file each, found by name or by their files.

A dataset of a format is written ``FORMAT[(settings)]:PATH``; where a few file names tell it, the path alone does.
"""

from __future__ import annotations

import contextlib
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
    for name, where in FORMATS.items():
        module, _, attribute = where.partition(":")
        chosen: type[Format] = getattr(import_module(module), attribute)
        with contextlib.suppress(OSError):  # a folder that may not be looked into is none of ours
            if chosen.recognise(path):
                return make_format(name)
    return None

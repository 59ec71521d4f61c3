"""The 19 tasks of VTAB: where each lies in TFDS, its classes, and how its train, validation and test sets are cut.

Cuts are TFDS slices of the official splits in record order (``train[:90%]``); a bound at p percent of n records is
``round(p · n / 100)``. VTAB's 1,000 training images (train800val200) are the first 800 of train and the first 200 of
validation in that order, so they depend on the order in which the records were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GROUPS = ("natural", "specialized", "structured")
SplitSlice = tuple[str, int, int]  # official split, from percent, to percent

_OWN: dict[str, SplitSlice] = {
    "train": ("train", 0, 100),
    "validation": ("validation", 0, 100),
    "test": ("test", 0, 100),
}


def _of_train(percent: int, test: str = "test") -> dict[str, SplitSlice]:
    """Validation is what is left of the official train split."""
    return {
        "train": ("train", 0, percent),
        "validation": ("train", percent, 100),
        "test": (test, 0, 100),
    }


def _all_of_train(train: int, validation: int) -> dict[str, SplitSlice]:
    """The official data has a train split only."""
    return {
        "train": ("train", 0, train),
        "validation": ("train", train, train + validation),
        "test": ("train", train + validation, 100),
    }


_HALF_OF_TEST: dict[str, SplitSlice] = {
    "train": ("train", 0, 100),
    "validation": ("test", 0, 50),
    "test": ("test", 50, 100),
}


@dataclass(frozen=True)
class VtabTask:
    """One task: ``tfds`` is name[/config], ``version`` the one whose order VTAB uses (``3.*.*``: any of 3).

    ``official`` are the sizes of the TFDS splits it is cut from, ``pieces`` the cuts, ``rule`` the name of its label
    function in ``vtab_labels``, ``scale`` what pixel values are multiplied with to fill 0..255.
    """

    name: str
    title: str
    group: str
    classes: int
    tfds: str
    version: str
    official: Mapping[str, int]
    pieces: Mapping[str, SplitSlice]
    rule: str = "label"
    scale: int = 1

    @property
    def sizes(self) -> dict[str, int]:
        """Images of train, validation and test when the copy is complete."""
        return {split: stop - start for split, (_, start, stop) in cut(self.pieces, self.official).items()}


def cut(pieces: Mapping[str, SplitSlice], official: Mapping[str, int]) -> dict[str, tuple[str, int, int]]:
    """Percent of official splits → record numbers: {split: (official split, from, to)}, ``to`` excluded."""
    return {
        split: (source, round(low * official[source] / 100), round(high * official[source] / 100))
        for split, (source, low, high) in pieces.items()
    }


def _three(train: int, validation: int, test: int) -> dict[str, int]:
    return {"train": train, "validation": validation, "test": test}


_CLEVR = {"train": 70_000, "validation": 15_000}
_SPRITES = {"train": 737_280}
_NORB = {"train": 24_300, "test": 24_300}
_NINETY, _CLEVR_CUT = _of_train(90), _of_train(90, test="validation")

TASKS: dict[str, VtabTask] = {
    task.name: task
    for task in (
        VtabTask(
            *("caltech101", "Caltech101", "natural", 102, "caltech101", "3.*.*"),
            *({"train": 3_060, "test": 6_084}, _NINETY),
        ),
        VtabTask(
            *("cifar100", "CIFAR-100", "natural", 100, "cifar100", "3.*.*"),
            *({"train": 50_000, "test": 10_000}, _NINETY),
        ),
        VtabTask("dtd", "DTD", "natural", 47, "dtd", "3.*.*", _three(1_880, 1_880, 1_880), _OWN),
        VtabTask(
            *("flowers102", "Flowers102", "natural", 102, "oxford_flowers102", "2.*.*"),
            *(_three(1_020, 1_020, 6_149), _OWN),
        ),
        VtabTask(
            *("pets", "Pets", "natural", 37, "oxford_iiit_pet", "3.*.*"),
            *({"train": 3_680, "test": 3_669}, _of_train(80)),
        ),
        VtabTask(
            *("sun397", "Sun397", "natural", 397, "sun397/tfds", "4.*.*"),
            *(_three(76_128, 10_875, 21_750), _OWN),
        ),
        VtabTask(
            *("svhn", "SVHN", "natural", 10, "svhn_cropped", "3.*.*"),
            *({"train": 73_257, "test": 26_032}, _NINETY),
        ),
        VtabTask(
            *("eurosat", "EuroSAT", "specialized", 10, "eurosat/rgb", "2.*.*"),
            *({"train": 27_000}, _all_of_train(60, 20)),
        ),
        VtabTask(
            *("resisc45", "Resisc45", "specialized", 45, "resisc45", "3.*.*"),
            *({"train": 31_500}, _all_of_train(60, 20)),
        ),
        VtabTask(
            *("patch-camelyon", "Patch Camelyon", "specialized", 2, "patch_camelyon", "2.*.*"),
            *(_three(262_144, 32_768, 32_768), _OWN),
        ),
        VtabTask(
            *("retinopathy", "Retinopathy", "specialized", 5),
            *("diabetic_retinopathy_detection/btgraham-300", "3.*.*"),
            *(_three(35_126, 10_906, 42_670), _OWN),
        ),
        VtabTask(
            *("clevr-count", "CLEVR-count", "structured", 8, "clevr", "3.*.*"),
            *(_CLEVR, _CLEVR_CUT, "clevr-count"),
        ),
        VtabTask(
            *("clevr-distance", "CLEVR-dist", "structured", 6, "clevr", "3.*.*"),
            *(_CLEVR, _CLEVR_CUT, "clevr-distance"),
        ),
        VtabTask(
            *("dsprites-location", "dSprites-loc", "structured", 16, "dsprites", "2.*.*"),
            *(_SPRITES, _all_of_train(80, 10), "dsprites-location", 255),
        ),
        VtabTask(
            *("dsprites-orientation", "dSprites-ori", "structured", 16, "dsprites", "2.*.*"),
            *(_SPRITES, _all_of_train(80, 10), "dsprites-orientation", 255),
        ),
        VtabTask(
            *("smallnorb-azimuth", "SmallNORB-azi", "structured", 18, "smallnorb", "2.*.*"),
            *(_NORB, _HALF_OF_TEST, "smallnorb-azimuth"),
        ),
        VtabTask(
            *("smallnorb-elevation", "SmallNORB-elev", "structured", 9, "smallnorb", "2.*.*"),
            *(_NORB, _HALF_OF_TEST, "smallnorb-elevation"),
        ),
        VtabTask(
            *("dmlab", "DMLab", "structured", 6, "dmlab", "2.0.1"),
            *(_three(65_550, 22_628, 22_735), _OWN),
        ),
        VtabTask(
            *("kitti-distance", "KITTI-dist", "structured", 4, "kitti", "3.1.0"),
            *(_three(6_347, 423, 711), _OWN, "kitti-distance"),
        ),
    )
}

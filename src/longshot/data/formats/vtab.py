"""The 19 tasks of VTAB: where each lies in TFDS, its classes, and how its train, validation and test sets are cut.

Cuts are TFDS slices of the official splits in record order (``train[:90%]``); a bound at p percent of n records is
``round(p · n / 100)``. VTAB's 1,000 training images (train800val200) are the first 800 of train and the first 200 of
validation in that order, so they depend on the order in which the records were written. ``vtab_tasks.json`` holds them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import TypeAlias

from longshot.base import Record, read_record

GROUPS = ("natural", "specialized", "structured")
SplitSlice: TypeAlias = tuple[str, int, int]  # official split, from percent, to percent


class VtabTask(Record):
    """One task: ``tfds`` is name[/config], ``version`` the one whose order VTAB uses (``3.*.*``: any of 3).

    ``official`` are the sizes of the TFDS splits it is cut from, ``pieces`` the cuts, ``rule`` the name of its label
    function in ``vtab_labels``, ``scale`` what pixel values are multiplied with to fill 0..255, ``folder`` what the
    copies of VTAB-1k in circulation call the task, where that is another name.
    """

    name: str
    title: str
    group: str
    classes: int
    tfds: str
    version: str
    official: dict[str, int]
    pieces: dict[str, SplitSlice]
    rule: str = "label"
    scale: int = 1
    folder: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Images of train, validation and test when the copy is complete."""
        return {split: stop - start for split, (_, start, stop) in cut(self.pieces, self.official).items()}


def cut(pieces: Mapping[str, SplitSlice], official: Mapping[str, int]) -> dict[str, tuple[str, int, int]]:
    """Percent of official splits → record numbers: {split: (official split, from, to)}, ``to`` excluded.

    >>> cut({"train": ("train", 0, 90), "validation": ("train", 90, 100)}, {"train": 3060})
    {'train': ('train', 0, 2754), 'validation': ('train', 2754, 3060)}
    """
    return {
        split: (source, round(low * official[source] / 100), round(high * official[source] / 100))
        for split, (source, low, high) in pieces.items()
    }


TASKS: dict[str, VtabTask] = {
    entry["name"]: read_record(VtabTask, entry, f"The task {entry['name']}")
    for entry in json.loads(files(__package__).joinpath("vtab_tasks.json").read_text("utf-8"))
}

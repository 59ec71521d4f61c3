"""The 19 VTAB tasks: split sizes against the reference, label functions against the spec's bounds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from longshot.datasets.formats.vtab import GROUPS, TASKS

REFERENCE = {  # names in the reference code where they differ
    "flowers102": "oxford_flowers102",
    "pets": "oxford_iiit_pet",
    "retinopathy": "diabetic_retinopathy",
    "dsprites-location": "dsprites_x_position",
}


def test_split_sizes_and_classes_are_those_of_the_reference(shared: Path) -> None:
    golden = json.loads((shared / "golden" / "vtab_splits.json").read_text())
    ours = {
        REFERENCE.get(name, name.replace("-", "_")): {
            "num_classes": task.classes,
            "train": task.sizes["train"],
            "val": task.sizes["validation"],
            "trainval": task.sizes["train"] + task.sizes["validation"],
            "test": task.sizes["test"],
            "tfds": f"{task.tfds}:{task.version}",
        }
        for name, task in TASKS.items()
    }
    assert ours == golden


def test_the_groups_have_7_4_and_8_tasks() -> None:
    assert Counter(task.group for task in TASKS.values()) == dict(zip(GROUPS, (7, 4, 8), strict=True))

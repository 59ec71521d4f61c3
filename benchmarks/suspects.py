"""Doubtful labels and copies: how many planted ones are found, and how many a search for difficulty chooses.

    python -m benchmarks suspects                              # toybox's test classes
    python -m benchmarks.suspects grocery128.zip               # any dataset whose images are files or decoded

5 % of the images get the label of another class and 2 % are copied within their class, half of them as the same bytes
and half encoded again as JPEG. Then 100 tasks are drawn with uniform and with difficult supports.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import longshot
from longshot.data import Dataset

WRONG, COPIED = 0.05, 0.02
BACKBONE = "efficientnet-lite0(size=128)"


def plant(dataset: Dataset, classes: list[int], folder: Path) -> tuple[set[str], set[str]]:
    """Write the images of these classes with planted errors; keys of wrong labels and of copies."""
    generator = np.random.default_rng(0)
    wrong: set[str] = set()
    copies: set[str] = set()
    for c in classes:
        for row in range(int(dataset.offsets[c]), int(dataset.offsets[c + 1])):
            chance = generator.random(2)
            label = c
            if chance[0] < WRONG:
                label = classes[(classes.index(c) + int(generator.integers(1, len(classes)))) % len(classes)]
            name = f"{label:03d}/{row:06d}"
            path = folder / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image = dataset.image(row)
            image.save(path)
            if label != c:
                wrong.add(f"{name}.png")
            elif chance[1] < COPIED:
                ending = "b.png" if len(copies) % 2 else "b.jpg"
                image.save(folder / f"{name}{ending}", quality=90)
                copies.add(f"{name}{ending}")
    return wrong, copies


def main(source: str = "toybox") -> None:
    dataset = longshot.open_dataset(source)
    classes = dataset.split_classes("test" if source == "toybox" else None).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "planted"
        wrong, copies = plant(dataset, classes, folder)
        features = longshot.embed(folder, BACKBONE)
        start = time.process_time()
        suspects = longshot.find_suspects(folder, backbone=features, near_copies=False)
        seconds = time.process_time() - start
        keys = np.array(features.keys.to_pylist())
        labels = set(keys[suspects.mislabelled].tolist())
        print(f"{len(keys):,} images, {len(wrong)} wrong labels, {len(copies)} copies planted in {source}")
        precision, recall = _share(labels & wrong, labels), _share(labels & wrong, wrong)
        print(f"labels: precision {precision}, recall {recall}; {seconds:.1f} s of processor time")
        near = longshot.find_suspects(folder, backbone=features)
        copied = set(keys[near.copies].tolist())
        pairs = copied | {_original(key) for key in copied}
        print(
            f"copies: precision {_share(pairs & _groups(copies), pairs)}, recall {_share(copies & pairs, copies)}"
        )
        for instances in ("uniform", "difficult"):
            for exclude in (False, True):
                support = _draw(folder, features, instances, exclude)
                share = 100 * sum(key in wrong or key in copies for key in support) / len(support)
                title = instances + (", suspects excluded" if exclude else "")
                print(f"{title:>29}: {share:5.2f} % of the support images are planted")


def _draw(folder: Path, features: longshot.Features, instances: str, exclude: bool) -> list[str]:
    """Support keys of 100 tasks; the uniform supports are those that difficult tasks start from."""
    settings: dict[str, Any] = {"suspects": features if exclude else "allow"}
    if instances == "difficult":
        settings |= {"instances": "difficult", "judge": features}
    testbed = longshot.sample(folder, tasks=100, way=5, shot=5, query=10, drop_small=True, **settings)
    return [key for task in testbed for key in task.support]


def _original(key: str) -> str:
    """The image that a planted copy was made from; any other key is itself."""
    return key.replace("b.png", ".png").replace("b.jpg", ".png")


def _groups(copies: set[str]) -> set[str]:
    """Copies and their originals: either may be the one that is suspected."""
    return copies | {_original(key) for key in copies}


def _share(part: set[str], of: set[str]) -> str:
    return f"{100 * len(part) / len(of):.0f} %" if of else "none"


if __name__ == "__main__":
    main(*sys.argv[1:])

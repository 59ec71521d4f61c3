"""Read the tasks of a suite without Longshot: images are found in any folder by the SHA-256 of their bytes."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path


def load(testbed: str, images: str) -> Iterator[tuple[list[tuple[Path, int]], list[tuple[Path, int]]]]:
    """Yield (support, query) of every task of ``testbeds/NAME.csv``: lists of (path, label).

    ``images`` is a folder with the images somewhere below it; KeyError names the first that is not there.
    """
    files = (path for path in Path(images).rglob("*") if path.is_file())
    path_of = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in files}
    names = Path(testbed).resolve().parents[1] / "images.csv"
    with names.open(newline="", encoding="utf-8") as file:
        digest_of = {row["image"]: row["sha256"] for row in csv.DictReader(file)}
    with Path(testbed).open(newline="", encoding="utf-8") as file:
        for _, rows in groupby(csv.DictReader(file), key=lambda row: row["task"]):
            parts: dict[str, list[tuple[Path, int]]] = {"support": [], "query": []}
            for row in rows:
                parts[row["part"]].append((path_of[digest_of[row["image"]]], int(row["label"])))
            yield parts["support"], parts["query"]

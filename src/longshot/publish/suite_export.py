"""A suite for people without Longshot: CSV, Parquet for Hugging Face, Croissant, a card and a small loader."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import claim_folder, count, hash_file, write_json, write_text
from longshot.publish.leaderboard import Entry, Leaderboard, shipped_board
from longshot.publish.release_card import CROISSANT_FILE, croissant_record, front_matter
from longshot.publish.suite import Suite, chance_level
from longshot.reports import Column, make_sheet, markdown
from longshot.statistics import tasks_to_decide
from longshot.tasks import Testbed, say_sampler

LOADER = Path(__file__).with_name("load_suite.py")
_GAPS = (1, 2, 5)  # points


def export_suite(suite: Suite, out: str | os.PathLike[str]) -> Path:
    """Write a suite in forms that need no Longshot.

    The folder holds, per testbed, ``testbeds/NAME.parquet`` and ``testbeds/NAME.csv`` (a row per image of a task:
    task, part, label, class, image); ``images.csv`` (image, name, SHA-256 of its bytes and of its pixels);
    ``load_suite.py``, which needs nothing but Python; README.md, which is the card and what the Hugging Face Hub reads;
    croissant.json and SHA256SUMS.

    Parameters
    ----------
    suite : Suite
        What to write.
    out : path
        Folder, new or empty.

    Returns
    -------
    Path
        The folder.
    """
    folder = Path(out)
    claim_folder(folder, "suite for others")
    numbers = _write_images(suite, folder / "images.csv")
    for name, testbed in suite.testbeds.items():
        testbed.save(folder / "testbeds" / f"{name}.parquet")
        rows = [("task", "part", "label", "class", "image"), *_image_rows(testbed, numbers)]
        write_text(folder / "testbeds" / f"{name}.csv", _csv(rows))
    write_text(folder / LOADER.name, LOADER.read_text("utf-8"))
    facts: dict[str, Any] = {
        "title": suite.name,
        "version": suite.version,
        "text": suite.about,
        "licence": "",
        "citation": "",
        "authors": [],
        "url": "",
        "published": "",
        "sources": [{"name": name} for name in suite.datasets],
        "testbeds": [
            {
                "name": name,
                "file": f"testbeds/{name}.parquet",
                "tasks": len(testbed),
                "said": say_sampler(testbed.meta["sampler"]),
            }
            for name, testbed in suite.testbeds.items()
        ],
    }
    write_text(folder / "README.md", front_matter(facts) + "\n" + suite_card(suite))
    schemas = {name: testbed.table.schema for name, testbed in suite.testbeds.items()}
    write_json(folder / CROISSANT_FILE, croissant_record(facts, schemas, _sums(folder)))
    write_text(
        folder / "SHA256SUMS", "".join(f"{digest}  {file}\n" for file, digest in _sums(folder).items())
    )
    return folder


def _sums(folder: Path) -> dict[str, str]:
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {file: hash_file(folder / file) for file in files}


def _csv(rows: Iterator[tuple[object, ...]] | list[tuple[object, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _write_images(suite: Suite, path: Path) -> dict[tuple[str, str], int]:
    """Write every image that a testbed uses, once; return (dataset, name) → its number."""
    numbers: dict[tuple[str, str], int] = {}
    rows: list[tuple[object, ...]] = [("image", "dataset", "name", "sha256", "sha256_of_pixels")]
    for testbed in suite.testbeds.values():
        for dataset in testbed.datasets:
            digests = testbed.content[dataset].digests
            for position, key in enumerate(testbed.keys(dataset).to_pylist()):
                if (dataset, key) not in numbers:
                    numbers[dataset, key] = len(numbers)
                    digest = digests[position].tobytes().hex() if len(digests) else ""
                    rows.append((numbers[dataset, key], dataset, key, digest[:64], digest[64:]))
    write_text(path, _csv(rows))
    return numbers


def _image_rows(testbed: Testbed, numbers: dict[tuple[str, str], int]) -> Iterator[tuple[object, ...]]:
    for task in testbed:
        for part, keys, labels in (
            ("support", task.support, task.support_label),
            ("query", task.query, task.query_label),
        ):
            for key, label in zip(keys, labels.tolist(), strict=True):
                yield task.index, part, label, task.classes[label], numbers[task.dataset, key]


def suite_card(suite: Suite) -> str:
    """Write the card of a suite: what it is, how it was made, how hard it is, and how many tasks one needs."""
    board = shipped_board(suite)
    parts = [f"# {suite.name}", f"Version {suite.version}. {suite.about}"]
    columns = [
        Column("testbed", lambda name: name),
        Column("kind", lambda name: suite.kinds[name]),
        Column("tasks", lambda name: len(suite.testbeds[name]), "count"),
        Column("drawn", lambda name: say_sampler(suite.testbeds[name].meta["sampler"])),
    ]
    parts += ["## Testbeds", markdown(make_sheet(columns, suite.testbeds))]
    if board.entries:
        parts += ["## How hard", _hardness(suite, board)]
    parts += [
        "## The images",
        f"They are not part of this. {suite.images} They are found by content: any names and any layout will do, and "
        "an image that was encoded anew is found by its pixels.",
        f"Licence of the images: {suite.licence or 'ask their owners'}",
    ]
    if suite.made_by:
        parts += [
            "## How it was made",
            f"The same images give the same tasks again:\n\n```\n{suite.made_by}\n```",
        ]
    parts += ["## Without Longshot", _LOADING]
    return "\n\n".join(parts) + "\n"


def _hardness(suite: Suite, board: Leaderboard) -> str:
    """Say of every testbed the floor, the ceiling, and how many tasks tell two models apart."""

    def held_out(name: str) -> list[Entry]:
        return [entry for entry in board.entries if not entry.scores[name].judge]

    def tasks_needed(gap: int, name: str) -> int | None:
        return _tasks(held_out(name), name, gap / 100)

    columns = [
        Column("testbed", lambda name: name),
        Column("guessing", lambda name: chance_level(suite.testbeds[name]), "percent", 1),
        Column("lowest", lambda name: min(e.scores[name].mean for e in held_out(name)), "percent", 1),
        Column("highest", lambda name: max(e.scores[name].mean for e in held_out(name)), "percent", 1),
        *(Column(f"tasks for {count(gap, 'point')}", partial(tasks_needed, gap), "count") for gap in _GAPS),
    ]
    names = [name for name in suite.testbeds if held_out(name)]
    note = (
        "Over the models × methods of the board that judged none of the testbed's images. Tasks: how many a paired "
        "test at 5 % needs to tell two of them apart that differ so much, with a chance of 80 %, at the median spread "
        "of two models' differences."
    )
    return markdown(make_sheet(columns, names, note=note))


def _tasks(entries: list[Entry], name: str, gap: float) -> int | None:
    """Return how many tasks tell two models apart, at the median spread of neighbouring models' differences."""
    ordered = sorted(entries, key=lambda entry: entry.scores[name].mean)
    spreads = [
        float(np.std(np.subtract(after.scores[name].accuracies, before.scores[name].accuracies), ddof=1))
        for before, after in pairwise(ordered)
    ]
    return tasks_to_decide(mean=gap, std=float(np.median(spreads))) if spreads else None


_LOADING = """`load_suite.py` needs Python alone. It finds the images in a folder of yours by the digest of their bytes:

```python
from load_suite import load

for support, query in load("testbeds/uniform-5.csv", "path/to/images"):
    ...  # lists of (path, label)
```"""

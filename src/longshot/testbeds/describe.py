"""A testbed in numbers, as histograms in a terminal, and checked against its datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.testbeds import columns
from longshot.testbeds.testbed import Testbed

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset

_BAR = 40  # characters of the longest bar
_BINS = 10


def summary(testbed: Testbed) -> dict[str, Any]:
    """The facts of a testbed as plain JSON values."""
    tasks = len(testbed)
    ways = testbed.table.column("way").to_numpy()
    shots, support, query = (testbed.column(name) for name in ("shots", "support", "query"))
    appearances = class_appearances(testbed)
    out: dict[str, Any] = {
        "content_hash": testbed.content_hash,
        "tasks": tasks,
        "datasets": {
            name: {"fingerprint": fingerprint, "tasks": count}
            for (name, fingerprint), count in zip(
                testbed.datasets.items(), _tasks_per_dataset(testbed), strict=True
            )
        },
        "features": testbed.meta["features"],
        "sampler": testbed.meta["sampler"],
        "seed": testbed.meta["seed"],
        "creator": testbed.meta["creator"],
        "way": _range(ways),
        "shot": _range(shots.values),
        "support_per_task": _range(support.lengths),
        "query_per_task": _range(query.lengths),
        "classes": len(appearances),
        "appearances_per_class": _range(np.array(list(appearances.values()))),
        "distinct_images": _distinct_images(testbed),
    }
    for name in testbed.measured:
        values = _measured(testbed, name)
        if values is not None:
            out.setdefault("measured", {})[name] = _range(values)
    return out


def class_appearances(testbed: Testbed) -> dict[tuple[str, str], int]:
    """(dataset, class id) → number of tasks that have the class, for the classes that occur."""
    out: dict[tuple[str, str], int] = {}
    names = columns.dictionary(testbed.table, "classes").to_pylist()
    owner = testbed.table.column("dataset").cast(pa.string()).to_pylist()
    classes = testbed.column("classes")
    for dataset in testbed.datasets:
        mine = np.flatnonzero(np.array([name == dataset for name in owner], dtype=bool))
        counts = np.bincount(classes.take(mine).values, minlength=len(names))
        out.update({(dataset, names[i]): int(counts[i]) for i in np.flatnonzero(counts)})
    return out


def histograms(testbed: Testbed) -> dict[str, list[tuple[str, int]]]:
    """Title → bars (label, count): ways, shots, class appearances and every measured number."""
    appearances = np.array(list(class_appearances(testbed).values()))
    out = {
        "ways per task": bars(testbed.table.column("way").to_numpy()),
        "shots per class": bars(testbed.column("shots").values),
        "tasks per class": bars(appearances),
    }
    for name in testbed.measured:
        values = _measured(testbed, name)
        if values is not None and len(values):
            out[name] = bars(values)
    return out


def bars(values: NDArray[Any], bins: int = _BINS) -> list[tuple[str, int]]:
    """Counts of the values: one bar per whole number where there are few, else ``bins`` equal intervals.

    Intervals of whole numbers are as equally wide as can be, so that a bar's length means the same
    everywhere.
    """
    if not len(values):
        return []
    low, high = values.min(), values.max()
    if np.issubdtype(values.dtype, np.integer):
        width = -(-int(high - low + 1) // (2 * bins))
        starts = np.arange(int(low), int(high) + 1, width)
        which = (values.astype(np.int64) - int(low)) // width
        counts = np.bincount(which, minlength=len(starts))
        labels = [str(s) if width == 1 else f"{s}–{s + width - 1}" for s in starts]
    elif low == high:
        counts, labels = np.array([len(values)]), [f"{low:.4g}"]
    else:
        counts, edges = np.histogram(values, bins=bins)
        labels = [f"{a:.4g} … {b:.4g}" for a, b in pairwise(edges)]
    return [(label, int(count)) for label, count in zip(labels, counts, strict=True)]


def draw(title: str, rows: Sequence[tuple[str, int]]) -> str:
    """A histogram as text."""
    most = max((count for _, count in rows), default=0)
    wide = max((len(label) for label, _ in rows), default=0)
    lines = [title]
    for label, count in rows:
        eighths = round(8 * _BAR * count / most) if most else 0
        # A bar of its own for the smallest count: what exists must be seen.
        full, rest = divmod(max(eighths, 1 if count else 0), 8)
        bar = "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")
        lines.append(f"  {label:>{wide}} {bar} {count:,}")
    return "\n".join(lines)


def verify(testbed: Testbed, datasets: Mapping[str, Dataset]) -> list[str]:
    """Every way in which the testbed does not fit its datasets, one sentence each; empty when all is well.

    The content hash was checked when the file was loaded. Here: fingerprints, every class id, every key, that
    each image is labelled with the class it belongs to, and that no task has an image twice.
    """
    findings: list[str] = []
    for name, fingerprint in testbed.datasets.items():
        dataset = datasets[name]
        if dataset.fingerprint != fingerprint:
            findings.append(
                f"{name}: the fingerprint is {dataset.fingerprint[:12]}…, the testbed has "
                f"{fingerprint[:12]}…."
            )
        findings += _verify_one(testbed, name, dataset)
    return findings


def _verify_one(testbed: Testbed, name: str, dataset: Dataset) -> list[str]:
    table = testbed.table.filter(pc.equal(testbed.table.column("dataset").cast(pa.string()), name))
    findings: list[str] = []
    classes = columns.ragged(table, "classes")
    class_of = _lookup(table, "classes", pa.array(dataset.class_ids, pa.string()))
    findings += _absent(name, "classes", table, "classes", class_of[classes.values] < 0)
    seen: list[NDArray[np.int64]] = []
    for part in ("support", "query"):
        keys, labels = columns.ragged(table, part), columns.ragged(table, f"{part}_label")
        rows = _lookup(table, part, dataset.keys)[keys.values]
        findings += _absent(name, f"{part} images", table, part, rows < 0)
        said = class_of[classes.values][classes.offsets[:-1].repeat(labels.lengths) + labels.values]
        wrong = (rows >= 0) & (said >= 0) & (dataset.labels[rows] != said)
        if wrong.any():
            task = int(table.column("task")[int(keys.owners[wrong][0])].as_py())
            findings.append(
                f"{name}: {int(wrong.sum()):,} {part} images have another class than the testbed says, "
                f"first in task {task}."
            )
        # (task, row) as one number; unknown rows cannot be compared
        seen.append((keys.owners * len(dataset) + rows)[rows >= 0])
    together = np.sort(np.concatenate(seen))
    twice = together[1:][together[1:] == together[:-1]]
    if len(twice):
        task = int(table.column("task")[int(twice[0] // len(dataset))].as_py())
        findings.append(f"{name}: {len(twice):,} images occur twice in their task, first in task {task}.")
    return findings


def _lookup(table: pa.Table, column: str, names: pa.Array) -> NDArray[np.int64]:
    """Where each string of the column's dictionary stands among ``names``; −1 where it does not."""
    words = columns.dictionary(table, column)
    found = pc.index_in(words, value_set=names.cast(words.type)).fill_null(-1)
    out: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def _absent(name: str, what: str, table: pa.Table, column: str, missing: NDArray[np.bool_]) -> list[str]:
    if not missing.any():
        return []
    rows = columns.ragged(table, column)
    numbers = np.unique(rows.values[missing])
    tasks = len(np.unique(rows.owners[missing]))
    words = columns.dictionary(table, column).take(pa.array(numbers[:3])).to_pylist()
    shown = ", ".join(f"'{word}'" for word in words) + (", …" if len(numbers) > 3 else "")
    return [f"{name}: {len(numbers):,} {what} of {tasks:,} tasks are not in the dataset: {shown}."]


def _distinct_images(testbed: Testbed) -> int:
    """Images that occur at least once, counted per dataset."""
    total = 0
    owner = testbed.table.column("dataset").cast(pa.string())
    for name in testbed.datasets:
        table = testbed.table.filter(pc.equal(owner, name))
        used = [
            columns.dictionary(table, part).take(pa.array(np.unique(columns.ragged(table, part).values)))
            for part in ("support", "query")
        ]
        total += len(pc.unique(pa.concat_arrays(used)))
    return total


def _tasks_per_dataset(testbed: Testbed) -> list[int]:
    counted = testbed.table.column("dataset").cast(pa.string()).value_counts().to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in counted}
    return [counts.get(name, 0) for name in testbed.datasets]


def _measured(testbed: Testbed, name: str) -> NDArray[Any] | None:
    """The filled values of a measured column; None when it does not hold numbers."""
    column = testbed.table.column(name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    values: NDArray[Any] = column.drop_null().to_numpy()
    finite: NDArray[Any] = values[np.isfinite(values)]
    return finite


def _range(values: NDArray[Any]) -> dict[str, float | int | None]:
    if not len(values):
        return {"min": None, "mean": None, "max": None}
    return {"min": values.min().item(), "mean": round(float(values.mean()), 4), "max": values.max().item()}

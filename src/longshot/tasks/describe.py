"""A testbed in numbers, as histograms in a terminal, and checked against its datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.audit import CopyGroups, equal_groups
from longshot.audit import say_copies as say_counts
from longshot.base import Bools, Floats, Ints, html_facts, span
from longshot.data import HALVES, digest_words
from longshot.statistics import figures
from longshot.tasks import columns
from longshot.tasks.content import say_identity
from longshot.tasks.testbed import Testbed
from longshot.tasks.testbed_file import sampler_parts

if TYPE_CHECKING:
    from longshot.data import Dataset

_BAR = 40  # characters of the longest bar
_BINS = 10


@dataclass(frozen=True)
class Balance:
    """How often the classes of one dataset occur, beside drawing each class equally often.

    With C classes and tasks of w₁ … w_T ways, uniform drawing gives each class Σ wₜ/C tasks in the mean
    (``expected``) with variance Σ (wₜ/C)(1 − wₜ/C) (``spread``²).
    """

    dataset: str
    counts: dict[str, int]  # class id → tasks that have it, most frequent first, ties by id
    expected: float
    spread: float
    labels: Mapping[str, str] = field(default_factory=dict)  # class id → what a taxonomy calls it

    def named(self, class_id: str) -> str:
        """Return the class id, with the taxonomy's label before it where there is one."""
        return f"{self.labels[class_id]} ({class_id})" if class_id in self.labels else class_id

    @property
    def usual(self) -> tuple[float, float]:
        """Return the range in which about 95 % of the classes lie when every class is equally likely."""
        return max(0.0, self.expected - 1.96 * self.spread), self.expected + 1.96 * self.spread

    @property
    def outside(self) -> int:
        """Count the classes outside the usual range."""
        low, high = self.usual
        return sum(not low <= count <= high for count in self.counts.values())


@dataclass(frozen=True, eq=False)
class Change:
    """A measure of the same tasks before and after selection, where both are known. Both arrays [T]."""

    name: str  # "loss" for the columns loss_before and loss_after
    before: Floats
    after: Floats

    @property
    def raised(self) -> int:
        """Count the tasks in which it rose."""
        return int((self.after > self.before).sum())

    @property
    def lowered(self) -> int:
        """Count the tasks in which it fell."""
        return int((self.after < self.before).sum())


def summary(testbed: Testbed) -> dict[str, Any]:
    """Return the facts of a testbed as plain JSON values."""
    tasks = len(testbed)
    ways = testbed.table.column("way").to_numpy()
    shots, support, query = (testbed.column(name) for name in ("shots", "support", "query"))
    appearances, counts = class_appearances(testbed), columns.tasks_per_dataset(testbed.table)
    out: dict[str, Any] = {
        "content_hash": testbed.content_hash,
        "tasks": tasks,
        "datasets": {
            name: {"fingerprint": fingerprint, "tasks": counts.get(name, 0), **testbed.content[name].entry()}
            for name, fingerprint in testbed.datasets.items()
        },
        "identity": say_identity(testbed.meta["content"]),
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
        "distinct_images": sum(content.images for content in testbed.content.values()),
        "copies": {"straddling_tasks": straddling_tasks(testbed), "near": False},
    }
    for name in testbed.measured:
        values = measured(testbed, name)
        if values is not None:
            out.setdefault("measured", {})[name] = _range(values)
    for change in changes(testbed):
        out.setdefault("changes", {})[change.name] = {
            "before": round(float(change.before.mean()), 4),
            "after": round(float(change.after.mean()), 4),
            "tasks": len(change.after),
            "raised": change.raised,
            "lowered": change.lowered,
        }
    drops = [drop for part in sampler_parts(testbed.meta["sampler"]) for drop in part.get("drops", ())]
    if drops:
        out["difficulty"] = drops
    return out


def straddling_tasks(testbed: Testbed, groups: Mapping[str, CopyGroups] | None = None) -> int | None:
    """Count the tasks that have copies on both sides or in two classes; None where that cannot be told.

    Parameters
    ----------
    testbed : Testbed
        Whose tasks.
    groups : mapping, optional
        Dataset → groups of the images ``testbed.keys(name)``; otherwise images with equal digests, as far as the
        testbed holds them, are copies.
    """
    total = 0
    for name, fingerprint in testbed.datasets.items():
        keys, content = testbed.keys(name), testbed.content[name]
        tasks = testbed.bind(name, keys, fingerprint)
        copies = None if groups is None else groups.get(name)
        if copies is None and content.identity == "content":
            copies = equal_groups(digest_words(content.digests[:, HALVES[1]]))
        if copies is None:
            return None
        total += int(copies.straddling(tasks).sum())
    return total


def say_straddling(number: int | None, tasks: int, near: bool = False) -> str:
    """Word the count: ``copies: 48 of 50 tasks have equal images on both sides or in two classes``."""
    kind = "equal images or near copies" if near else "equal images"
    if number is None:
        return f"copies: whether tasks have {kind} on both sides only the images can tell"
    subject = f"{number:,} of {tasks:,} tasks have" if number else f"none of {tasks:,} tasks has"
    return f"copies: {subject} {kind} on both sides or in two classes"


def say_copies(testbed: Testbed) -> list[str]:
    """Say what was done about copies when the tasks were drawn, a sentence each; nothing where there were none."""
    sentences = []
    for part in sampler_parts(testbed.meta["sampler"]):
        facts = part.get("copies", {})
        if counts := {kind: facts[kind] for kind in ("equal", "near", "contradicting") if kind in facts}:
            sentences.append(say_counts(**counts))
        if number := facts.get("straddling"):
            subject = "1 task has" if number == 1 else f"{number:,} tasks have"
            sentences.append(
                f"{subject} copies on both sides or in two classes; tasks that are given are not changed"
            )
    return sentences


def dropped_classes(testbed: Testbed) -> int:
    """Count the classes that were left out of the draw for having too few images."""
    return sum(int(part.get("dropped_classes", 0)) for part in sampler_parts(testbed.meta["sampler"]))


def class_appearances(testbed: Testbed) -> dict[tuple[str, str], int]:
    """Count the tasks that have each (dataset, class id), for the classes that occur."""
    out: dict[tuple[str, str], int] = {}
    names = columns.dictionary(testbed.table, "classes").to_pylist()
    classes = testbed.column("classes")
    for dataset in testbed.datasets:
        own_tasks = np.flatnonzero(columns.of_dataset(testbed.table, dataset))
        counts = np.bincount(classes.take(own_tasks).values, minlength=len(names))
        out.update({(dataset, names[i]): int(counts[i]) for i in np.flatnonzero(counts)})
    return out


def balances(testbed: Testbed) -> list[Balance]:
    """Return the class balance of each dataset, over the classes that occur."""
    appearances = class_appearances(testbed)
    ways = testbed.table.column("way").to_numpy()
    by_dataset = []
    for name in testbed.datasets:
        own_counts = {id_: count for (dataset, id_), count in appearances.items() if dataset == name}
        if not own_counts:
            continue
        share = ways[columns.of_dataset(testbed.table, name)] / len(own_counts)
        counts = dict(sorted(own_counts.items(), key=lambda item: (-item[1], item[0])))
        spread = math.sqrt(max(0.0, float((share * (1 - share)).sum())))
        labels = testbed.labels.get(name, {})
        by_dataset.append(Balance(name, counts, float(share.sum()), spread, labels))
    return by_dataset


def changes(testbed: Testbed) -> list[Change]:
    """Return every measure with a column ``…_before`` and a column ``…_after``, in the order of the columns."""
    measures = []
    for column in testbed.measured:
        name = column.removesuffix("_before")
        if name == column or f"{name}_after" not in testbed.measured:
            continue
        if measured(testbed, column) is None or measured(testbed, f"{name}_after") is None:
            continue
        before, after = (
            testbed.table.column(f"{name}_{when}").cast(pa.float64()).to_numpy()
            for when in ("before", "after")
        )
        finite = np.isfinite(before) & np.isfinite(after)
        if finite.any():
            measures.append(Change(name, before[finite], after[finite]))
    return measures


def histograms(testbed: Testbed) -> dict[str, list[tuple[str, int]]]:
    """Return title → bars (label, count) for ways, shots, class appearances and every measured number."""
    appearances = np.array(list(class_appearances(testbed).values()))
    out = {
        "ways per task": bars(testbed.table.column("way").to_numpy()),
        "shots per class": bars(testbed.column("shots").values),
        "tasks per class": bars(appearances),
    }
    for name in testbed.measured:
        values = measured(testbed, name)
        if values is not None and len(values):
            out[name] = bars(values)
    return out


def bin_edges(values: NDArray[Any], bins: int = _BINS) -> Floats:
    """Return the edges [B + 1] of equally wide intervals that hold all values.

    Whole numbers stand in the middle: one interval each while there are at most ``2 · bins``, else equally
    many to each interval, so that a bar's length means the same everywhere.
    """
    low, high = float(values.min()), float(values.max())
    if np.issubdtype(values.dtype, np.integer):
        width = -(-int(high - low + 1) // (2 * bins))
        return low - 0.5 + width * np.arange(-(-int(high - low + 1) // width) + 1, dtype=np.float64)
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    return np.linspace(low, high, bins + 1)


def bars(values: NDArray[Any], bins: int = _BINS) -> list[tuple[str, int]]:
    """Count the values in bars: one per whole number where there are few, else ``bins`` equal intervals."""
    if not len(values):
        return []
    edges = bin_edges(values, bins)
    counts, _ = np.histogram(values, bins=edges)
    labels = _labels(edges, values)
    return [(label, int(count)) for label, count in zip(labels, counts, strict=True)]


def _labels(edges: Floats, values: NDArray[Any]) -> list[str]:
    if np.issubdtype(values.dtype, np.integer):
        ranges = [(math.ceil(a), math.ceil(b) - 1) for a, b in pairwise(edges.tolist())]
        return [str(a) if a == b else f"{a}–{b}" for a, b in ranges]
    if values.min() == values.max():
        return [figures(values.min(), 4)]
    return [f"{figures(a, 4)} … {figures(b, 4)}" for a, b in pairwise(edges)]


def draw_histogram(title: str, rows: Sequence[tuple[str, int]]) -> str:
    """Draw a histogram as text."""
    most = max((count for _, count in rows), default=0)
    wide = max((len(label) for label, _ in rows), default=0)
    lines = [title]
    for label, count in rows:
        eighths = round(8 * _BAR * count / most) if most else 0
        # A bar of its own for the smallest count: what exists must be seen.
        full, eighth = divmod(max(eighths, 1 if count else 0), 8)
        bar = "█" * full + ("▏▎▍▌▋▊▉"[eighth - 1] if eighth else "")
        lines.append(f"  {label:>{wide}} {bar} {count:,}")
    return "\n".join(lines)


def draw_change(change: Change) -> str:
    """Draw a measure before and after selection as text: two bars per interval, on one scale."""
    together = np.concatenate([change.before, change.after])
    edges = bin_edges(together)
    labels = _labels(edges, together)
    rows = []
    for when, values in (("before", change.before), ("after", change.after)):
        counts, _ = np.histogram(values, bins=edges)
        # The interval is named once, on the first of its two bars.
        shown = [f"{label} before" if when == "before" else "after " for label in labels]
        rows.append(list(zip(shown, counts.tolist(), strict=True)))
    # One list, so that both share the longest bar.
    return draw_histogram(say_change(change), [row for pair in zip(*rows, strict=True) for row in pair])


def say_change(change: Change) -> str:
    """Word a change: ``loss 0.585 before, 0.904 after selection: higher in 200, lower in 0 of 200 tasks``."""
    return (
        f"{change.name} {change.before.mean():.3f} before, {change.after.mean():.3f} after selection: "
        f"higher in {change.raised:,}, lower in {change.lowered:,} of {len(change.after):,} tasks"
    )


def say_balance(balance: Balance) -> str:
    """Describe the class balance in one line: the range, the mean, and what uniform drawing gives."""
    low, high = balance.usual
    ids = list(balance.counts)
    return (
        f"class balance of {balance.dataset}: {len(ids):,} classes, each in {balance.expected:.1f} tasks in the "
        f"mean; most '{balance.named(ids[0])}' ({balance.counts[ids[0]]:,}), fewest '{balance.named(ids[-1])}' "
        f"({balance.counts[ids[-1]]:,}); "
        f"{balance.outside:,} outside {low:.1f} to {high:.1f}, where 95 % lie under uniform drawing"
    )


def verify(
    testbed: Testbed, datasets: Mapping[str, Dataset], recorded: Mapping[str, str] | None = None
) -> list[str]:
    """List every way in which the testbed does not fit its datasets, a sentence each; empty when it fits.

    The content hash was checked when the file was loaded. Here: fingerprints, every class id, every key, that
    each image is labelled with the class it belongs to, and that no task has an image twice. Of images that were bound
    by content (``recorded`` has another fingerprint) the testbed alone says of which class they are.
    """
    findings: list[str] = []
    for name, fingerprint in testbed.datasets.items():
        dataset = datasets[name]
        if dataset.fingerprint != fingerprint:
            findings.append(
                f"{name}: the fingerprint is {dataset.fingerprint[:12]}…, the testbed has "
                f"{fingerprint[:12]}…."
            )
        findings += verify_one(
            testbed, name, dataset, classes=fingerprint == (recorded or testbed.datasets)[name]
        )
    return findings


def verify_one(testbed: Testbed, name: str, dataset: Dataset, *, classes: bool = True) -> list[str]:
    """Check the tasks of one dataset, without its fingerprint; without ``classes``, only its images."""
    table = testbed.table.filter(pa.array(columns.of_dataset(testbed.table, name)))
    findings: list[str] = []
    lists = columns.ragged(table, "classes")
    class_of = columns.places_among(table, "classes", pa.array(dataset.class_ids, pa.string()))
    if classes:
        findings += _absent(name, "classes", table, "classes", class_of[lists.values] < 0)
    else:
        class_of[:] = -1
    seen: list[Ints] = []
    for part in ("support", "query"):
        keys, labels = columns.ragged(table, part), columns.ragged(table, f"{part}_label")
        rows = columns.places_among(table, part, dataset.keys)[keys.values]
        findings += _absent(name, f"{part} images", table, part, rows < 0)
        class_by_label = class_of[lists.values][lists.offsets[:-1].repeat(labels.lengths) + labels.values]
        wrong = (rows >= 0) & (class_by_label >= 0) & (dataset.labels[rows] != class_by_label)
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


def _absent(name: str, noun: str, table: pa.Table, column: str, missing: Bools) -> list[str]:
    if not missing.any():
        return []
    rows = columns.ragged(table, column)
    numbers = np.unique(rows.values[missing])
    tasks = len(np.unique(rows.owners[missing]))
    words = columns.dictionary(table, column).take(pa.array(numbers[:3])).to_pylist()
    shown = ", ".join(f"'{word}'" for word in words) + (", …" if len(numbers) > 3 else "")
    return [f"{name}: {len(numbers):,} {noun} of {tasks:,} tasks are not in the dataset: {shown}."]


def measured(testbed: Testbed, name: str) -> NDArray[Any] | None:
    """Return the filled values of a measured column; None when it does not hold numbers."""
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


def as_text(testbed: Testbed) -> str:
    """Describe a testbed in at most five lines."""
    facts = _facts(testbed)
    return (
        f"Testbed {facts['hash']} ({facts['testbed']}): {facts['tasks']} tasks\n"
        f"  {facts['ways']}-way, {facts['shots']}-shot\n"
        f"  of {facts['datasets']}\n"
        f"  identity: {facts['identity']}"
    )


def as_html(testbed: Testbed) -> str:
    """Describe a testbed as an HTML table."""
    return html_facts(_facts(testbed))


def _facts(testbed: Testbed) -> dict[str, str]:
    """Return what a person wants to know at a glance."""
    ways, shots = testbed.table.column("way").to_pylist(), testbed.column("shots").values.tolist()
    return {
        "testbed": testbed.name or "not on disk",
        "tasks": f"{len(testbed):,}",
        "ways": span(ways) if len(ways) else "none",
        "shots": span(shots) if len(shots) else "none",
        "datasets": ", ".join(testbed.datasets),
        "identity": say_identity(testbed.meta["content"]),
        "hash": testbed.content_hash[:12],
    }

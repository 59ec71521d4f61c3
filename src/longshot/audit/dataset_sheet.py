"""A dataset at a glance: one table of facts for the terminal, a page and the explorer, and the images to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.audit.copies import CopyGroups, find_copies
from longshot.base import Ints, count
from longshot.data import as_dataset, describe_dataset, survey_images, take_rows

if TYPE_CHECKING:
    from longshot.data import Dataset, DatasetLike, Survey

_BAR, _BARS = 30, 8  # letters of the longest bar, and bars of class sizes
_LISTED = 12  # images of a kind that are named


@dataclass(frozen=True, eq=False)
class DatasetSheet:
    """What there is to see in a dataset; its text is what ``longshot datasets show`` prints.

    ``looked`` and ``copies`` are None where the images were not read.
    """

    dataset: Dataset
    facts: Mapping[str, Any]  # as ``describe_dataset`` gives them
    looked: Survey | None = None
    copies: CopyGroups | None = None

    def rows(self) -> list[tuple[str, str]]:
        """Return the table: what, and its value in words."""
        facts, sizes, taxonomy = self.facts, self.facts["images_per_class"], self.facts["taxonomy"]
        without = (
            [f"{len(facts['skipped']):,} unreadable: {', '.join(facts['skipped'][:10])}"]
            if facts["skipped"]
            else []
        )
        rows = [
            ("name", facts["name"]),
            ("where", facts["source"]),
            ("taken for", facts["taken_for"] or "itself"),
            ("could also be", "; or ".join(facts["or_as"]) or "nothing else"),
            ("classes", f"{facts['classes']:,}"),
            ("images", f"{facts['images']:,}"),
            ("images per class", f"{sizes['least']:,} to {sizes['most']:,}, median {sizes['median']:g}"),
            (
                "class splits",
                ", ".join(f"{name} {number:,}" for name, number in facts["splits"].items()) or "none",
            ),
            ("taxonomy", _say_taxonomy(taxonomy, facts["wordnet_ids"])),
            (
                "attributes",
                ", ".join(f"{name} ({kind})" for name, kind in facts["attributes"].items()) or "none",
            ),
            ("left out", "; ".join([*without, *facts["left_out"]]) or "none"),
        ]
        if self.looked is not None:
            bad, odd = self.looked.unreadable, self.looked.odd()
            rows += [
                ("sizes in pixels", self.looked.sizes()),
                ("unreadable", self._named(bad) if len(bad) else "none"),
                (
                    "odd images",
                    "; ".join(f"{self._named(part)} {kind}" for kind, part in odd.items()) or "none",
                ),
            ]
        if self.copies is not None:
            rows.append(("copies", self._say_copies(self.copies)))
        return [*rows, ("fingerprint", facts["fingerprint"])]

    def _named(self, rows: Any) -> str:
        """Write how many and the first of them: ``3 (a/1.jpg, a/2.jpg, …)``."""
        keys = [self.dataset.keys[int(row)].as_py() for row in rows[:2]]
        return f"{len(rows):,} ({', '.join(keys)}{', …' if len(rows) > 2 else ''})"

    def _say_copies(self, copies: CopyGroups) -> str:
        if not len(copies.later):
            return f"none: no two images are {'equal or nearly equal' if copies.near else 'equal'}"
        return copies.words(self.dataset.labels)

    def class_bars(self) -> list[tuple[str, int]]:
        """Return how many classes have so many images: (interval, classes), at most eight rows."""
        sizes = self.dataset.sizes
        edges = np.unique(np.linspace(sizes.min(), sizes.max() + 1, _BARS + 1).astype(np.int64))
        numbers, _ = np.histogram(sizes, bins=edges)
        labels = [
            f"{low:,}" if low + 1 == high else f"{low:,}–{high - 1:,}"
            for low, high in pairwise(edges.tolist())
        ]
        return list(zip(labels, numbers.tolist(), strict=True))

    def to_look_at(self) -> list[tuple[str, list[int]]]:
        """Return kinds of images that a person should see, with rows of some of each."""
        groups: list[tuple[str, list[int]]] = []
        if self.looked is not None:
            groups += [
                (f"{count(len(rows), 'image')} {kind}", rows[:_LISTED].tolist())
                for kind, rows in self.looked.odd().items()
            ]
        if self.copies is not None and len(self.copies.later):
            later = self.copies.later[: _LISTED // 2]
            pairs = [int(row) for copy in later for row in (self.copies.group[copy], copy)]
            groups.append(
                (f"{count(len(self.copies.later), 'copy', 'copies')}, each behind its original", pairs)
            )
        return groups

    def facts_as_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values, without the list of classes."""
        facts = {name: value for name, value in self.facts.items() if name != "class_list"}
        if self.looked is not None:
            keys = self.dataset.keys
            facts["sizes"] = self.looked.sizes()
            facts["unreadable"] = {
                keys[int(row)].as_py(): self.looked.reasons[row] for row in self.looked.unreadable
            }
            facts["odd"] = {
                kind: [keys[int(row)].as_py() for row in rows] for kind, rows in self.looked.odd().items()
            }
        if self.copies is not None:
            facts["copies"] = {**self.copies.counts(self.dataset.labels), "near_searched": self.copies.near}
        return facts

    def __str__(self) -> str:
        rows = self.rows()
        wide = max(len(name) for name, _ in rows)
        lines = [f"{name:<{wide}}  {value}" for name, value in rows]
        bars = self.class_bars()
        most, label_wide = max(number for _, number in bars), max(len(label) for label, _ in bars)
        lines += ["", f"{'images':>{label_wide}}  classes with so many"]
        lines += [
            f"{label:>{label_wide}}  {'█' * max(round(_BAR * n / most), int(n > 0))} {n:,}"
            for label, n in bars
        ]
        return "\n".join(lines)

    __repr__ = __str__


def show_dataset(dataset: DatasetLike, *, quick: bool = False) -> DatasetSheet:
    """Look at a dataset: classes, splits, sizes, copies, unreadable and odd images, attributes.

    Every image is read once; what was seen is remembered.

    Parameters
    ----------
    dataset : Dataset, str or Path
        A dataset, or what ``open_dataset`` opens.
    quick : bool
        Read no image: leave out sizes, copies, unreadable and odd images.

    Returns
    -------
    DatasetSheet
        Prints as text; ``rows()`` is its table, ``facts_as_json()`` has plain values.

    Examples
    --------
    >>> import numpy as np
    >>> np.savez("birds.npz", images=np.zeros((4, 8, 8), np.uint8), labels=["wren", "crow", "wren", "crow"])
    >>> dict(show_dataset("birds.npz").rows())["sizes in pixels"]
    '8 × 8'
    """
    opened = as_dataset(dataset)
    sheet = DatasetSheet(opened, describe_dataset(opened))
    return sheet if quick else look_at(sheet)


def look_at(sheet: DatasetSheet) -> DatasetSheet:
    """Return the sheet with what reading every image shows; copies are looked for among those that can be read."""
    dataset = sheet.dataset
    looked = survey_images(dataset)
    readable = np.flatnonzero(looked.widths > 0)
    if not len(readable):
        return DatasetSheet(dataset, sheet.facts, looked)
    part = dataset if len(readable) == len(dataset) else take_rows(dataset, readable)
    groups = find_copies(part)[1]
    if groups is not None and part is not dataset:
        groups = replace(
            groups,
            equal=_spread(groups.equal, readable, len(dataset)),
            group=_spread(groups.group, readable, len(dataset)),
        )
    return DatasetSheet(dataset, sheet.facts, looked, groups)


def _spread(groups: Ints, rows: Ints, total: int) -> Ints:
    """Return groups of some rows [M] as those of all [N]; the other rows are groups of their own."""
    spread = np.arange(total)
    spread[rows] = rows[groups]
    return spread


def _say_taxonomy(taxonomy: Mapping[str, int] | None, wordnet_ids: bool) -> str:
    if taxonomy:
        return f"{taxonomy['nodes']:,} nodes in {taxonomy['levels']} levels below the root"
    if wordnet_ids:
        return (
            "none; the classes are called by WordNet ids, and the taxonomy 'wordnet' puts WordNet above them"
        )
    return "none"

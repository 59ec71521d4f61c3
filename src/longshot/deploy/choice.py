"""Chosen references: what they are worth, one screen, a page with pictures and what is missing, and the file
for ``fit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import PAGE, Ints, OutputKind, claim_output, count, deliver_text, has_json
from longshot.data import image_digests
from longshot.deploy.classifier import SIDE, make_references
from longshot.deploy.model_folder import References, as_json
from longshot.reports import Column, Section, Sheet, class_names, make_sheet, terminal, thumbnail, write_page
from longshot.statistics import Interval

if TYPE_CHECKING:
    from longshot import Dataset

REFERENCES_FILE = OutputKind("list of references", {".json": has_json(kind="references", format=1)})
_WORST = 10  # classes on a screen
_PICTURED = 6  # photos of what is missing
_HOW = (
    "Accuracy on photos that took no part in choosing, in %, ± half its 95 % interval for other photos "
    "of these classes. "
    "Best: the best of the random draws, chosen after the event. Worse: draws that are worse than the choice."
)


@dataclass(frozen=True)
class Certified:
    """What chosen references are worth to one network, on photos that took no part in choosing."""

    backbone: str
    chose: bool  # whether the network itself took part
    chosen: Interval
    random: Interval  # the mean over all draws, for the same photos
    gain: Interval  # chosen − random, photo by photo
    best: float  # the best draw of each part
    worse: float  # share of the draws that are worse than the choice
    draws: int


@dataclass(frozen=True)
class ClassChoice:
    """One class: its references, what they are worth, and which of its photos they do not serve."""

    class_id: str
    references: tuple[int, ...]  # rows of the dataset
    photos: int
    chosen: float  # accuracy of the certifying network
    random: float
    taken_for: str
    missing: str  # what would be needed, in words; empty where nothing stands out
    unserved: tuple[int, ...]  # rows of photos like those that are needed


@dataclass(frozen=True, eq=False)
class Choice:
    """Which photos should be the references, and what that is worth.

    Attributes
    ----------
    dataset : Dataset
        Whose photos.
    rows : array [S]
        The references, as rows of the dataset.
    seen : array [P]
        The photos that took part in choosing them; all others may measure a model.
    certified : list of Certified
        A row per network, the one that did not choose first.
    classes : list of ClassChoice
        A row per class, the worst first.
    left_out : tuple of str
        What could not be a reference, and which classes have few, in words.
    """

    dataset: Dataset
    rows: Ints
    seen: Ints
    certified: Sequence[Certified]
    classes: Sequence[ClassChoice]
    left_out: tuple[str, ...]

    @property
    def names(self) -> dict[str, str]:
        """Return what pages call each class, by its id."""
        ids = self.dataset.class_ids
        return dict(zip(ids, class_names(ids), strict=True))

    def certified_sheet(self) -> Sheet:
        """Return the table of what the choice is worth, a row per network."""
        columns = (
            Column("Network", lambda row: row.backbone + (" †" if row.chose else ""), key="network"),
            Column("Chosen %", lambda row: row.chosen, "percent", key="chosen"),
            Column("Random %", lambda row: row.random, "percent", key="random"),
            Column("Gain", lambda row: row.gain, "points", key="gain"),
            Column("Best %", lambda row: row.best, "percent", key="best"),
            Column("Worse %", lambda row: row.worse, "percent", key="worse"),
        )
        dagger = " † took part in choosing." if any(row.chose for row in self.certified) else ""
        return make_sheet(columns, self.certified, "What the choice is worth", note=_HOW + dagger, labels=1)

    def class_sheet(self, most: int | None = None) -> Sheet:
        """Return the table of classes, the worst first."""
        names = self.names
        columns = [
            Column("Class", lambda row: names[row.class_id], key="class"),
            Column("References", lambda row: len(row.references), "count", key="references"),
            Column("Chosen %", lambda row: row.chosen, "percent", key="chosen"),
            Column("Random %", lambda row: row.random, "percent", key="random"),
            Column("Taken for", lambda row: names.get(row.taken_for, "–"), key="taken_for"),
        ]
        title = f"Classes, the worst first ({self.certified[0].backbone})"
        return make_sheet(columns, self.classes[:most], title, labels=1)

    def summary_lines(self) -> list[str]:
        """Say what was chosen, by whom, and what could not be chosen."""
        judges = [row.backbone for row in self.certified if row.chose]
        first = self.certified[0]
        return [
            f"{count(len(self.rows), 'reference')} of {count(self.dataset.class_ids, 'class', 'classes')}, "
            f"chosen by {' and '.join(judges)}",
            f"{first.backbone}: {first.chosen.text()} % instead of {first.random.text()} % with random references",
            *self.left_out,
        ]

    def __repr__(self) -> str:
        missing = [
            f"{self.names[row.class_id]} {row.missing}" for row in self.classes[:_WORST] if row.missing
        ]
        sheets = [terminal(self.certified_sheet()), terminal(self.class_sheet(_WORST))]
        return "\n\n".join(["\n".join(self.summary_lines()), *sheets, *filter(None, ["\n".join(missing)])])

    def record(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        keys = self.dataset.keys
        certified = [
            {**vars(row), **{name: getattr(row, name).as_dict() for name in ("chosen", "random", "gain")}}
            for row in self.certified
        ]
        classes = []
        for row in self.classes:
            entry: dict[str, Any] = {**vars(row)}
            entry |= {name: None for name in ("chosen", "random") if np.isnan(entry[name])}
            for name in ("references", "unserved"):
                entry[name] = [keys[number].as_py() for number in entry[name]]
            classes.append(entry)
        return {
            "dataset": self.dataset.name,
            "certified": certified,
            "classes": classes,
            "left_out": list(self.left_out),
        }

    def save(self, out: str | Path, *, force: bool = False) -> None:
        """Write the references by digest as JSON, for ``fit``, with what was certified of them.

        Parameters
        ----------
        out : file or URL
            ``refs.json``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        claim_output(out, REFERENCES_FILE, force=force)
        data = self.dataset
        listed = References(
            dataset=data.name,
            fingerprint=data.fingerprint,
            shot=len(self.rows) / len(data.class_ids),
            references=tuple(make_references(data.class_ids, data, self.rows)),
            seen=tuple(bytes(digest).hex() for digest in image_digests(data)[self.seen]),
            certified={row["backbone"]: row for row in self.record()["certified"]},
        )
        deliver_text(out, as_json(listed).decode())

    def save_page(self, out: str | Path, *, force: bool = False) -> None:
        """Write a page with the chosen photos of every class, and of what is missing.

        Parameters
        ----------
        out : file or URL
            ``choice.html``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        claim_output(out, PAGE, force=force, name="html")
        deliver_text(out, self.page())

    def page(self) -> str:
        """Return the page as one text without any reference to another file."""
        data, names = self.dataset, self.names
        groups = [
            {"heading": names[row.class_id], "pictures": self._pictures(row.references)}
            for row in sorted(self.classes, key=lambda each: each.class_id)
        ]
        missing = [
            {
                "heading": f"{names[row.class_id]} {row.missing}",
                "pictures": self._pictures(row.unserved[:_PICTURED]),
            }
            for row in self.classes
            if row.missing
        ]
        summary = {"lines": self.summary_lines(), "sheet": self.certified_sheet()}
        sections = [
            Section("worth", "What the choice is worth", summary, "choice_worth"),
            Section("references", "The chosen photos", {"groups": groups}, "dataset_odd"),
            *([Section("missing", "What is missing", {"groups": missing}, "dataset_odd")] if missing else []),
            Section("classes", "Classes", {"sheet": self.class_sheet()}, "sheet"),
        ]
        counts = [
            count(data.class_ids, "class", "classes"),
            count(len(self.rows), "reference"),
            count(len(data), "photo"),
        ]
        return write_page(
            f"References of {data.name}", sections, counts=counts, style="dataset.css", sortable=True
        )

    def _pictures(self, rows: Sequence[int]) -> list[dict[str, str]]:
        sources = [thumbnail(self.dataset.image(row), SIDE) for row in rows]
        names = [str(self.dataset.keys[row].as_py()).rpartition("/")[2] for row in rows]
        return [{"source": source, "key": name} for source, name in zip(sources, names, strict=True)]

"""What a model says of photos: rows to read, and CSV, JSON lines, Parquet or a page with pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import (
    Ints,
    OutputKind,
    claim_output,
    count,
    deliver_text,
    delivered,
    has_columns,
    has_parquet,
    in_words,
    is_page,
    note,
    starts_with,
)
from longshot.deploy.classifier import NONE, SIDE, Classifier, open_model
from longshot.deploy.photo_sources import Photos
from longshot.deploy.shipped_network import Photo
from longshot.reports import Column, Section, class_names, make_sheet, terminal, thumbnail, to_csv, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLUMNS = ("photo", "class", "probability", "nearest_class", "similarity", "nearest", "problem")
_PARQUET = "longshot"
PREDICTIONS = OutputKind(
    "table of predictions",
    {
        ".csv": has_columns(*_COLUMNS),
        ".jsonl": starts_with('{"photo": '),
        ".parquet": has_parquet(_PARQUET, kind="predictions"),
        ".html": is_page,
    },
)
_PICTURED = 500  # photos that a page shows
_SHOWN = 20  # rows on a screen


@dataclass(eq=False)
class Predictions:
    """The answers of a model to n photos.

    Attributes
    ----------
    model : Classifier
        Who answered.
    photos : list of str
        What each photo is called.
    probabilities : array [n, C]
        Of each class, if the photo is one of them; NaN where it cannot be read.
    similarity : array [n]
        To the nearest class; below the model's threshold a photo is none of these.
    nearest : array [n, k]
        The nearest references, as positions in ``model.references``.
    problems : dict
        Position → why a photo cannot be read.
    """

    model: Classifier
    photos: Sequence[str]
    sources: Sequence[Photo]
    probabilities: NDArray[np.float64]
    similarity: NDArray[np.float64]
    nearest: Ints
    problems: dict[int, str]

    def __len__(self) -> int:
        return len(self.photos)

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Tell which photos are taken for one of the classes, [n]."""
        threshold = self.model.facts.threshold
        return np.asarray(self.similarity >= (-np.inf if threshold is None else threshold))

    @property
    def classes(self) -> list[str]:
        """Return the answer to each photo: the id of a class, ``none of these``, or nothing where it is unreadable."""
        return [row["class"] for row in self.rows()]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row of plain values per photo."""
        rows, accepted = [], self.accepted
        for position, photo in enumerate(self.photos):
            row: dict[str, Any] = {**dict.fromkeys(_COLUMNS), "photo": photo, "class": "", "nearest": []}
            row["problem"] = self.problems.get(position, "")
            if not row["problem"]:
                best = int(self.probabilities[position].argmax())
                row["nearest_class"] = self.model.classes[best]
                row["class"] = row["nearest_class"] if accepted[position] else NONE
                row["probability"] = float(self.probabilities[position, best])
                row["similarity"] = float(self.similarity[position])
                row["nearest"] = [self.model.references[number].key for number in self.nearest[position]]
            rows.append(row)
        return rows

    def counts(self) -> list[str]:
        """Say how many photos there are, how many have a class, and how many are none of these or unreadable."""
        answered, bad = int(self.accepted.sum()), len(self.problems)
        numbers = ((answered, "answered"), (len(self) - answered - bad, NONE), (bad, "unreadable"))
        return [count(len(self), "photo"), *(f"{number:,} {kind}" for number, kind in numbers if number)]

    def __repr__(self) -> str:
        names = dict(zip(self.photos, class_names(self.photos), strict=True))
        columns = (
            Column("Photo", lambda row: names[row["photo"]]),
            Column("Class", lambda row: row["class"] or "–"),
            Column("%", lambda row: row["probability"], "percent"),
            Column("Nearest class", lambda row: row["problem"] or row["nearest_class"]),
        )
        more = len(self) - _SHOWN
        note = f"{count(more, 'photo')} more: {{out:answers.csv}} has them all." if more > 0 else ""
        return terminal(
            make_sheet(columns, self.rows()[:_SHOWN], ", ".join(self.counts()), note=in_words(note))
        )

    def save(self, out: str | Path, *, force: bool = False) -> None:
        """Write the rows as CSV, JSON lines, Parquet, or a page with pictures.

        Parameters
        ----------
        out : file or URL
            ``.csv``, ``.jsonl``, ``.parquet`` or ``.html``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        ending = claim_output(out, PREDICTIONS, force=force)
        if ending == ".html":
            deliver_text(out, self.page())
        elif ending == ".jsonl":
            deliver_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows()))
        elif ending == ".csv":
            rows = [{**row, "nearest": "; ".join(row["nearest"])} for row in self.rows()]
            deliver_text(out, to_csv(rows))
        else:
            kinds = dict.fromkeys(_COLUMNS, pa.string()) | {"nearest": pa.list_(pa.string())}
            kinds |= dict.fromkeys(("probability", "similarity"), pa.float64())
            facts = json.dumps({"kind": "predictions", "version": self.model.facts.version})
            table = pa.Table.from_pylist(self.rows(), pa.schema(list(kinds.items()), {_PARQUET: facts}))
            with delivered(out) as temporary:
                pq.write_table(table, temporary)

    def page(self) -> str:
        """Return a page with every photo, its answer, and its nearest references."""
        ids, shorts = self.model.classes, class_names(self.photos)
        names, cards = dict(zip(ids, class_names(ids), strict=True)), []
        for position, row in enumerate(self.rows()[:_PICTURED]):
            card = {**row, "short": shorts[position]}
            if not row["problem"]:
                store, number = self.sources[position]
                near = [self.model.references[number] for number in self.nearest[position]]
                titles = [f"{names[each.class_id]}: {each.key}" for each in near]
                card |= {
                    "picture": thumbnail(store.read(number), SIDE),
                    "name": names.get(row["class"], NONE),
                    "guess": names[row["nearest_class"]],
                    "near": [
                        {"source": each.thumbnail, "key": title}
                        for each, title in zip(near, titles, strict=True)
                    ],
                }
            cards.append(card)
        facts = {
            "cards": cards,
            "more": max(0, len(self) - _PICTURED),
            "threshold": self.model.facts.threshold,
            "card": self.model.facts.card,
        }
        sections = [Section("answers", "Answers", facts, "predictions")]
        return write_page("Predictions", sections, counts=self.counts(), style="dataset.css")


def predict(
    model: Classifier | str | Path,
    photos: Photos,
    *,
    nearest: int = 3,
    out: str | Path | None = None,
    force: bool = False,
) -> Predictions:
    """Answer for photos by a shipped model: class, calibrated probability, nearest references, or none of these.

    Parameters
    ----------
    model : Classifier, str or Path
        What ``fit`` gave, or its folder.
    photos : str, Path, picture, array, Dataset, or a list of those
        Image files, folders, zips, tars and URLs of those; PIL pictures; arrays [H, W, 3] of bytes.
    nearest : int, at least 0
        Reference photos that are named for each.
    out : file or URL, optional
        Write the answers: FILE.csv, .jsonl, .parquet, or .html with pictures.
    force : bool
        Replace what is at ``out``, even if Longshot did not write it.

    Returns
    -------
    Predictions
        A row per photo. One that cannot be read says why, and all others are answered.

    Examples
    --------
    >>> toybox = longshot.open_dataset("toybox")
    >>> answers = predict(longshot.fit(toybox, backbone="pixels"), toybox.image(0))
    >>> len(answers), answers.probabilities.shape == (1, len(toybox.class_ids))
    (1, True)
    """
    if out is not None:
        claim_output(out, PREDICTIONS, force=force)
    answers = open_model(model).predict(photos, nearest=nearest)
    for position, problem in answers.problems.items():
        note(f"{answers.photos[position]} cannot be read: {problem}.")
    if out is not None:
        answers.save(out, force=force)
    return answers

"""Chosen references to read: one screen, a page with pictures and what is missing, plain values, and the file
for ``fit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import OutputKind, count, has_json
from longshot.deploy.classifier import SIDE, make_references
from longshot.deploy.model_folder import References, as_json
from longshot.reports import Column, Section, Sheet, class_names, make_sheet, terminal, thumbnail, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longshot.deploy.choosing import Choice

REFERENCES_FILE = OutputKind("list of references", {".json": has_json(kind="references", format=1)})
_WORST = 10  # classes on a screen
_PICTURED = 6  # photos of what is missing
_HOW = (
    "Accuracy on photos that took no part in choosing, in %, ± half its 95 % interval for other photos "
    "of these classes. "
    "Best: the best of the random draws, chosen after the event."
)


def certified_sheet(choice: Choice) -> Sheet:
    """Return the table of what the choice is worth, a row per network."""
    columns = (
        Column("Network", lambda row: row.backbone + (" †" if row.chose else ""), key="network"),
        Column("Chosen %", lambda row: row.chosen, "percent", key="chosen"),
        Column("Random %", lambda row: row.random, "percent", key="random"),
        Column("Gain", lambda row: row.gain, "points", key="gain"),
        Column("Best draw %", lambda row: row.best, "percent", key="best"),
        Column("Draws that are worse %", lambda row: row.worse, "percent", key="worse"),
    )
    dagger = " † took part in choosing." if any(row.chose for row in choice.certified) else ""
    return make_sheet(columns, choice.certified, "What the choice is worth", note=_HOW + dagger, labels=1)


def class_sheet(choice: Choice, most: int | None = None) -> Sheet:
    """Return the table of classes, the worst first."""
    ids = choice.dataset.class_ids
    names = dict(zip(ids, class_names(ids), strict=True)) | {"": "–"}
    columns = (
        Column("Class", lambda row: names[row.class_id], key="class"),
        Column("References", lambda row: len(row.references), "count", key="references"),
        Column("Chosen %", lambda row: row.chosen, "percent", key="chosen"),
        Column("Random %", lambda row: row.random, "percent", key="random"),
        Column("Taken for", lambda row: names[row.taken_for], key="taken_for"),
        Column("Missing", lambda row: row.missing or "–", key="missing"),
    )
    title = f"Classes, the worst first ({choice.certified[0].backbone})"
    return make_sheet(columns, choice.classes[:most], title, labels=1)


def summary_lines(choice: Choice) -> list[str]:
    """Say what was chosen, by whom, and what could not be chosen."""
    judges = [row.backbone for row in choice.certified if row.chose]
    first = choice.certified[0]
    return [
        f"{count(len(choice.rows), 'reference')} of {count(choice.dataset.class_ids, 'class', 'classes')}, "
        f"chosen by {' and '.join(judges)}",
        f"{first.backbone}: {first.chosen.text()} % instead of {first.random.text()} % with random references",
        *(f"not chosen: {line}" for line in choice.left_out),
    ]


def screen(choice: Choice) -> str:
    """Return what the terminal shows."""
    return "\n\n".join(
        [
            "\n".join(summary_lines(choice)),
            terminal(certified_sheet(choice)),
            terminal(class_sheet(choice, _WORST)),
        ]
    )


def record(choice: Choice) -> dict[str, Any]:
    """Return everything as plain values."""
    keys = choice.dataset.keys
    certified = [
        {**vars(row), **{name: getattr(row, name).as_dict() for name in ("chosen", "random", "gain")}}
        for row in choice.certified
    ]
    classes = [
        {
            **vars(row),
            **{
                name: [keys[number].as_py() for number in getattr(row, name)]
                for name in ("references", "unserved")
            },
        }
        for row in choice.classes
    ]
    for row in classes:
        row |= {name: None for name in ("chosen", "random") if np.isnan(row[name])}
    return {
        "dataset": choice.dataset.name,
        "certified": certified,
        "classes": classes,
        "left_out": list(choice.left_out),
    }


def references_json(choice: Choice) -> str:
    """Return the file for ``fit``: the references by digest, with what was certified of them."""
    data = choice.dataset
    listed = References(
        dataset=data.name,
        fingerprint=data.fingerprint,
        shot=len(choice.rows) / len(data.class_ids),
        references=tuple(make_references(data.class_ids, data, choice.rows)),
        certified={row["backbone"]: row for row in record(choice)["certified"]},
    )
    return as_json(listed).decode()


def render_choice(choice: Choice) -> str:
    """Return the page as one text without any reference to another file."""
    data = choice.dataset
    names = dict(zip(data.class_ids, class_names(data.class_ids), strict=True))
    groups, missing = [], []
    for row in sorted(choice.classes, key=lambda each: each.class_id):
        groups.append({"heading": names[row.class_id], "pictures": _pictures(choice, row.references)})
    for row in choice.classes:
        if row.missing:
            pictures = _pictures(choice, row.unserved[:_PICTURED])
            missing.append({"heading": f"{names[row.class_id]} {row.missing}", "pictures": pictures})
    summary = {"lines": summary_lines(choice), "sheet": certified_sheet(choice)}
    sections = [
        Section("worth", "What the choice is worth", summary, "choice_worth"),
        Section("references", "The chosen photos", {"groups": groups}, "dataset_odd"),
        Section("classes", "Classes", {"sheet": class_sheet(choice)}, "sheet"),
    ]
    if missing:
        sections.insert(2, Section("missing", "What is missing", {"groups": missing}, "dataset_odd"))
    counts = [
        count(data.class_ids, "class", "classes"),
        count(len(choice.rows), "reference"),
        count(len(data), "photo"),
    ]
    return write_page(
        f"References of {data.name}", sections, counts=counts, style="dataset.css", sortable=True
    )


def _pictures(choice: Choice, rows: Sequence[int]) -> list[dict[str, str]]:
    data = choice.dataset
    return [{"source": thumbnail(data.image(row), SIDE), "key": str(data.keys[row].as_py())} for row in rows]

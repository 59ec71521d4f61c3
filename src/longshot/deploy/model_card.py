"""The card of a shipped model: what it is, what was measured and on what, and fifteen lines that run it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshot.base import count, escape_markdown
from longshot.reports import Column, Section, Sheet, class_names, make_sheet, markdown, terminal, write_page
from longshot.statistics import Interval, percent, plus_minus

if TYPE_CHECKING:
    from longshot.deploy.classifier import Classifier

_WORST = 10  # classes on a screen
_PICTURED = 2_000  # references on a page
SCRIPT = """\
import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession("classifier.onnx")
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
for path in sys.argv[1:]:
    photo = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    probabilities, similarity, known = session.run(None, {"pixels": np.asarray(photo)})
    best = int(probabilities.argmax())
    print(path, classes[best] if known else "none of these", f"{probabilities[best]:.4f}", sep="\\t")
"""


def facts_of(model: Classifier) -> list[tuple[str, str]]:
    """Return what the model is and what was measured, as lines of two columns."""
    facts, card = model.facts, model.facts.card
    holds = (
        "inside the folder"
        if model.network.onnx
        else "named only: whoever opens the model needs it installed"
    )
    lines = [
        ("version", f"{facts.version}, by Longshot {facts.longshot}"),
        (
            "classes",
            f"{len(model.classes):,}, {count(model.references, 'reference photo')} of {facts.dataset}",
        ),
        ("network", f"{facts.network.name}, {holds}"),
        (
            "method",
            f"{facts.method}{', its scores in closed form' if facts.form in ('plain', 'unit', 'centred') else ''}",
        ),
    ]
    if "ece" not in card:
        lines.append(("measured", f"nothing: {card['photos']:,} photos beside the references"))
    else:
        lines += [
            ("measured on", f"{count(card['photos'], 'photo')}: {card['evidence']}"),
            ("accuracy", f"{estimate(card['accuracy'])} %, if every photo is one of the classes"),
            ("calibration", f"expected error {percent(card['ece'])} points, on classes that did not set it"),
            ("none of these", f"{percent(facts.false_accept)} % of photos of absent classes may be accepted; "
             f"{estimate(card['false_accepts'])} % were, of classes that did not set the threshold"),
            ("accepted", f"{estimate(card['accepted'])} % of photos of its own classes"),
        ]  # fmt: skip
    lines += [("changed since", change) for change in facts.history]
    return lines


def estimate(values: dict[str, Any]) -> str:
    """Return an interval from a card as text."""
    interval = Interval(**values)
    return plus_minus(interval.mean, interval.half)


def class_sheet(model: Classifier, most: int | None = None) -> Sheet:
    """Return the table of classes, the worst first."""
    ids = list(model.classes) + [row["class"] for row in model.facts.card.get("classes", ())]
    names = dict(zip(dict.fromkeys(ids), class_names(list(dict.fromkeys(ids))), strict=True))
    columns = (
        Column("Class", lambda row: names[row["class"]], key="class"),
        Column("Accuracy %", lambda row: row["accuracy"], "percent", key="accuracy"),
        Column("95 % interval", lambda row: (row["low"], row["high"]), "percent", key=("low", "high")),
        Column("Photos", lambda row: row["photos"], "count", key="photos"),
        Column("Most often taken for", lambda row: names.get(row["taken_for"], "–"), key="taken_for"),
    )
    rows = model.facts.card.get("classes", [])
    return make_sheet(columns, rows[:most], "Classes, the worst first", labels=1)


def screen(model: Classifier) -> str:
    """Return what the terminal shows."""
    lines = "\n".join(f"{name:<14} {text}" for name, text in facts_of(model))
    return f"{lines}\n\n{terminal(class_sheet(model, _WORST))}" if "ece" in model.facts.card else lines


def card_markdown(model: Classifier) -> str:
    """Return card.md."""
    facts = model.facts
    lines = [f"- **{name}**: {escape_markdown(text)}" for name, text in facts_of(model)]
    versions = ", ".join(f"{name} {version}" for name, version in facts.card.get("versions", {}).items())
    table = [markdown(class_sheet(model)), ""] if "ece" in facts.card else []
    return "\n".join(
        [
            f"# A classifier of {escape_markdown(facts.dataset)}",
            "",
            *lines,
            f"- **made with**: {versions}",
            "",
            *table,
            "## Use it",
            "",
            "With Longshot: `longshot predict MODEL photos/ -o answers.csv`, MODEL being this folder.",
            "",
            "Without it: `longshot export MODEL --onnx classifier.onnx` writes one file, from decoded "
            "pixels to probabilities.",
            "ONNX Runtime alone runs it:",
            "",
            "```python",
            f"{SCRIPT}```",
            "",
        ]
    )


def card_page(model: Classifier) -> str:
    """Return card.html: the same with the references as pictures."""
    names = dict(zip(model.classes, class_names(model.classes), strict=True))
    groups = []
    for class_id in model.classes:
        own = [each for each in model.references[:_PICTURED] if each.class_id == class_id]
        if own:
            groups.append(
                {
                    "heading": names[class_id],
                    "pictures": [{"source": each.thumbnail, "key": each.key} for each in own],
                }
            )
    facts = [Column("Fact", lambda line: line[0]), Column("Value", lambda line: line[1])]
    summary = {"sheet": make_sheet(facts, facts_of(model), labels=2, aria="What the model is")}
    sections = [Section("facts", "What it is and what was measured", summary, "sheet")]
    if "ece" in model.facts.card:
        sections.append(Section("classes", "Classes", {"sheet": class_sheet(model)}, "sheet"))
    sections.append(Section("references", "References", {"groups": groups}, "dataset_odd"))
    counts = [count(model.classes, "class", "classes"), count(model.references, "reference")]
    return write_page(
        f"Model of {model.facts.dataset}", sections, counts=counts, style="dataset.css", sortable=True
    )

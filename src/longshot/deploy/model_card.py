"""The card of a shipped model: what it is, what was measured and on what, and fifteen lines that run it elsewhere."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from longshot.base import count, escape_markdown
from longshot.deploy.heads import SUPPORT
from longshot.reports import Column, Section, Sheet, class_names, make_sheet, markdown, terminal, write_page
from longshot.statistics import percent

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
    closed = ", its scores in closed form" if model.head.form != SUPPORT else ""
    lines = [
        ("version", f"{facts.version}, by Longshot {facts.longshot}"),
        (
            "classes",
            f"{len(model.classes):,}, {count(model.references, 'reference photo')} of {facts.dataset}",
        ),
        ("network", f"{facts.network.name}, {holds}"),
        ("method", f"{facts.method}{closed}"),
    ]
    if card.accuracy is None or card.false_accepts is None:
        lines.append(("measured", f"nothing: {count(card.photos, 'photo')} to measure on, which is too few"))
    else:
        other = "".join(
            f"; {percent(accepted.mean, 0)} % at a false-accept rate of {percent(rate, 0)} %"
            for rate, accepted in card.accepted[1:]
            if rate > facts.false_accept
        )
        lines += [
            ("measured on", f"{card.photos:,}: {card.evidence}"),
            ("accuracy", f"{card.accuracy.text()} %, if every photo is one of the classes"),
            ("calibration", f"expected error {percent(card.ece)} points, on classes that did not set it; on so few "
             f"photos a perfect model would be measured at {percent(card.fair_ece)}"),
            ("none of these", f"{percent(facts.false_accept)} % of photos of absent classes may be accepted; "
             f"{card.false_accepts.text()} % were, of classes that did not set the threshold"),
            ("accepted", f"{card.accepted[0][1].text()} % of photos of its own classes{other}"),
        ]  # fmt: skip
    lines += [("changed since", change) for change in facts.history]
    return lines


def fact_sheet(model: Classifier) -> Sheet:
    """Return the same as a table."""
    columns = [Column("Fact", lambda line: line[0]), Column("Value", lambda line: line[1])]
    return make_sheet(columns, facts_of(model), labels=2, aria="What the model is")


def class_sheet(model: Classifier, most: int | None = None) -> Sheet:
    """Return the table of classes, the worst first."""
    rows = model.facts.card.classes
    ids = list(dict.fromkeys([*model.classes, *(row.class_id for row in rows)]))  # one may be removed by now
    names = dict(zip(ids, class_names(ids), strict=True))
    columns = (
        Column("Class", lambda row: names[row.class_id], key="class"),
        Column("Accuracy %", lambda row: row.accuracy.mean, "percent", key="accuracy"),
        Column(
            "95 % interval", lambda row: (row.accuracy.low, row.accuracy.high), "percent", key=("low", "high")
        ),
        Column("Photos", lambda row: row.accuracy.n, "count", key="photos"),
        Column("Taken for", lambda row: names.get(row.taken_for, "–"), key="taken_for"),
    )
    return make_sheet(columns, rows[:most], "Classes, the worst first", labels=1)


def screen(model: Classifier) -> str:
    """Return what the terminal shows."""
    pairs = [f"{name:<14} {text}" for name, text in facts_of(model)]
    lines = "\n".join(textwrap.fill(pair, 80, subsequent_indent=" " * 15) for pair in pairs)
    return f"{lines}\n\n{terminal(class_sheet(model, _WORST))}" if model.facts.card.classes else lines


def card_markdown(model: Classifier) -> str:
    """Return card.md."""
    facts = model.facts
    lines = [f"- **{name}**: {escape_markdown(text)}" for name, text in facts_of(model)]
    versions = ", ".join(f"{name} {version}" for name, version in facts.card.versions.items())
    table = [markdown(class_sheet(model)), ""] if facts.card.classes else []
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
    pictures: dict[str, list[dict[str, str]]] = {class_id: [] for class_id in model.classes}
    for each in model.references[:_PICTURED]:
        pictures[each.class_id].append({"source": each.thumbnail, "key": each.key.rpartition("/")[2]})
    groups = [{"heading": names[each], "pictures": own} for each, own in pictures.items() if own]
    more = len(model.references) - _PICTURED
    title = "References" if more <= 0 else f"The first {_PICTURED:,} of {len(model.references):,} references"
    sections = [Section("facts", "What it is and what was measured", {"sheet": fact_sheet(model)}, "sheet")]
    if model.facts.card.classes:
        sections.append(Section("classes", "Classes", {"sheet": class_sheet(model)}, "sheet"))
    sections.append(Section("references", title, {"groups": groups}, "dataset_odd"))
    counts = [count(model.classes, "class", "classes"), count(model.references, "reference")]
    return write_page(
        f"Model of {model.facts.dataset}", sections, counts=counts, style="dataset.css", sortable=True
    )

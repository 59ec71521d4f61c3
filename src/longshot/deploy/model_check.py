"""``longshot check MODEL``: the shipped model itself, on tasks and on its own problem, on photos that it did
not learn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import UserError, count, first, note
from longshot.data import Dataset, image_digests, reopen_dataset
from longshot.deploy.classifier import Classifier
from longshot.deploy.deploy_commands import refuse_options
from longshot.deploy.fitting import Evidence, Problem, per_class
from longshot.deploy.heads import nearest_other
from longshot.deploy.model_card import class_sheet, fact_sheet
from longshot.reports import Column, Section, Sheet, junit, make_sheet, markdown, terminal, write_page
from longshot.statistics import Interval, Verdict, mean_interval, percent

_QUERIES = 10  # photos of each class of a task
_WORST = 10  # classes on a screen
_HOW = "± half the 95 % interval: in the first row for other photos, then for other tasks of these photos."


@dataclass(frozen=True)
class ModelMeasured:
    """The accuracy of a shipped model on one kind of question."""

    kind: str
    way: int
    accuracy: Interval


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """What a shipped model does on photos that it did not learn from.

    Attributes
    ----------
    model : Classifier
        The model, its card brought up to these photos.
    measured : list of ModelMeasured
        All its classes at once first, then tasks of five.
    need : float or None
        The accuracy that is asked for.
    lines : tuple of str
        What took part, in words.
    """

    model: Classifier
    measured: Sequence[ModelMeasured]
    need: float | None
    lines: tuple[str, ...]

    @property
    def verdict(self) -> Verdict | None:
        """Tell whether the model reaches what is needed with all its classes; None where nothing was asked for."""
        return self.measured[0].accuracy.verdict(self.need)

    def verdict_line(self) -> str:
        """Say whether what is needed is reached; empty without a need."""
        if self.need is None or self.verdict is None:
            return ""
        reached = self.measured[0].accuracy.text()
        return f"{self.verdict.capitalize()}: the model has {reached} %, {percent(self.need)} % needed."

    def sheet(self) -> Sheet:
        """Return the table of accuracies."""
        columns = (
            Column("Question", lambda row: row.kind, key="kind"),
            Column("Classes", lambda row: row.way, "count", key="way"),
            Column("Accuracy %", lambda row: row.accuracy, "percent", key="accuracy"),
        )
        return make_sheet(columns, self.measured, "What the shipped model does", labels=1, note=_HOW)

    def __repr__(self) -> str:
        parts = [
            "\n".join(self.lines),
            terminal(self.sheet()),
            terminal(class_sheet(self.model, _WORST)),
            self.verdict_line(),
        ]
        return "\n\n".join(part for part in parts if part)

    def record(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        measured = [{**asdict(row), "accuracy": row.accuracy.as_dict()} for row in self.measured]
        return {
            "model": self.model.facts.dataset,
            "measured": measured,
            "classes": [row.model_dump() for row in self.model.facts.card.classes],
            "need": self.need,
            "verdict": self.verdict,
        }

    def to_markdown(self) -> str:
        """Return the tables as Markdown."""
        lines = [f"- {line}" for line in (self.verdict_line(), *self.lines) if line]
        heading = f"# Check of the model of {self.model.facts.dataset}"
        return "\n".join([heading, "", *lines, "", markdown(self.sheet()), markdown(class_sheet(self.model))])

    def to_junit(self) -> str:
        """Return the verdict and the classes below what is needed as JUnit's XML."""
        name, need = self.model.facts.dataset, self.need or 0.0
        cases = [(name, "all classes", "" if self.verdict == "passed" else self.verdict_line())]
        for row in self.model.facts.card.classes:
            below = f"{row.class_id}: {percent(row.accuracy.mean)} %, below {percent(need)} %"
            cases.append((name, row.class_id, below if row.accuracy.verdict(need) == "failed" else ""))
        return junit("check model", cases)

    def page(self) -> str:
        """Return the page as one text."""
        lines = [line for line in (self.verdict_line(), *self.lines) if line]
        verdict = {"lines": lines, "sheet": self.sheet()}
        sections = [
            Section("verdict", "What the shipped model does", verdict, "choice_worth"),
            Section("classes", "Classes", {"sheet": class_sheet(self.model)}, "sheet"),
            Section("facts", "What it is", {"sheet": fact_sheet(self.model)}, "sheet"),
        ]
        title = f"Check of the model of {self.model.facts.dataset}"
        return write_page(title, sections, counts=[self.lines[0]], sortable=True)


def check_model(dataset: str | Path, **settings: Any) -> ModelCheck:
    """Check the folder of a shipped model; ``settings`` are those of ``check``.

    Parameters
    ----------
    dataset : path
        The model. Its photos are found where they were when it was fitted.
    """
    refuse_options(settings)
    model = Classifier.open(dataset)
    data = reopen_dataset(
        model.facts.fingerprint, model.facts.dataset, has_the_bytes=partial(_has_bytes, model)
    )
    digests = {bytes(digest).hex(): row for row, digest in enumerate(image_digests(data, skip_bad=True))}
    keys = {*data.keys.to_pylist()}
    if altered := [each.key for each in model.references if each.digest not in digests and each.key in keys]:
        note(
            f"{count(altered, 'reference')} of the model have other bytes in '{data.name}' by now ({first(altered)})"
        )
    learned = {*model.seen, *(each.digest for each in model.references)} & digests.keys()
    problem = Problem.of(data, model.classes, np.array([digests[each] for each in learned], np.int64))
    if len(problem.queries) < 2:
        raise UserError(
            f"The model {dataset} has learned from every photo of '{data.name}', so none is there to measure it on",
            "fit it with {references}, as {choose(FOLDER)} writes them",
        )
    values, bad = model.network.vectors([(data.store, int(row)) for row in problem.queries])
    evidence = Evidence.of(model.head, values, problem.truth[np.delete(problem.queries, sorted(bad))])
    scores, similarity, label = evidence.scores, evidence.similarities, evidence.label
    right = (scores.argmax(1) == label).astype(float)
    measured = [ModelMeasured("all its classes at once", len(model.classes), mean_interval(right))]
    measured += _tasks(model, evidence, settings["tasks"], settings["seed"])
    card = model.facts.card.model_copy(update={"classes": per_class(scores, label, model.classes)})
    model.facts = model.facts.model_copy(update={"card": card})
    threshold = -np.inf if model.facts.threshold is None else model.facts.threshold
    lines = (
        f"model of {data.name}, version {model.facts.version}: {len(label):,} photos that it did not learn from",
        f"{percent(float((similarity.max(1) < threshold).mean()))} % of them are called none of these",
        f"{percent(float((nearest_other(similarity, label) >= threshold).mean()))} % would be accepted "
        f"if their class were absent",
        *([f"{len(bad):,} photos cannot be read and are left out"] if bad else []),
        *([f"on its card: {card.accuracy.text()} %"] if card.accuracy is not None else []),
    )
    return ModelCheck(model, measured, settings["need"], lines)


def _has_bytes(model: Classifier, data: Dataset) -> bool:
    """Tell whether a dataset holds every reference of a model, by content."""
    digests = {bytes(digest).hex() for digest in image_digests(data, skip_bad=True)}
    return all(each.digest in digests for each in model.references)


def _tasks(model: Classifier, evidence: Evidence, tasks: int, seed: int) -> list[ModelMeasured]:
    """Ask the model about five classes at a time, any five and look-alikes: only these answers count."""
    scores, label = evidence.scores, evidence.label
    present, generator = np.unique(label), np.random.default_rng(seed)
    way = min(5, len(present))
    alike = (model.head.classes @ model.head.classes.T).numpy()[np.ix_(present, present)]
    measured = []
    for kind in ("random classes", "look-alike classes"):
        shares = []
        for number in range(tasks):
            if kind == "random classes":
                classes = generator.choice(present, way, replace=False)
            else:  # a class and its nearest, every class about equally often
                classes = present[np.argsort(-alike[number % len(present)], kind="stable")[:way]]
            queries = np.concatenate(
                [generator.permutation(np.flatnonzero(label == each))[:_QUERIES] for each in classes]
            )
            shares.append((classes[scores[np.ix_(queries, classes)].argmax(1)] == label[queries]).mean())
        measured.append(ModelMeasured(kind, way, mean_interval(shares)))
    return measured

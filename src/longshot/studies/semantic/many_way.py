"""The recipe ``many-way``: few and many classes in a task, uniform classes, top-1 and top-5.

Its table has the layout of the paper's table 3. A dataset with fewer classes than the most that were asked for gives
tasks of as many as it has; shapes it cannot give at all are named in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.errors import UserError
from longshot.reports.sheets import Sheet, SheetCell
from longshot.reports.ways import head, metrics
from longshot.studies.engine import fields
from longshot.studies.engine.plan import StudyPlan
from longshot.studies.engine.tables import TableFile, points
from longshot.studies.semantic.scores import MethodScores, transduction
from longshot.studies.semantic.tables import TableColumn, published_record, record, sheet

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.reports.published import Number
    from longshot.testbeds.testbed import Testbed

FIELDS: fields.Fields = {
    "tasks": fields.whole(2),
    "ways": fields.wholes(2),
    "shots": fields.wholes(1),
    "query": fields.whole(1),
    "split": fields.text(optional=True),
    "drop_small": fields.flag(),
    "methods": fields.methods(),
    "backbone": fields.text(),
    "seed": fields.whole(0),
}
_NOTE = (
    "Mean over tasks in %, ± half the 95 % interval (Student t); classes drawn uniformly. Top-5 is left out for tasks "
    "of five classes or fewer, where it is always 100. Bold: first place of its column; = where several share it, "
    "because paired sign-flip tests (5 %, Holm over all pairs of methods) do not separate them from the highest mean."
)


def plan(settings: Mapping[str, Any], dataset: Dataset) -> StudyPlan:
    """One testbed for every shape that the dataset can give, and what it cannot."""
    shapes, notes = possible(settings, dataset)
    draws = {name_of(way, shot): partial(_draw, settings, dataset, way, shot) for shot, way in shapes}
    return StudyPlan(draws, notes)


def name_of(way: int, shot: int) -> str:
    """What a testbed is called."""
    return f"{way}-way-{shot}-shot"


def possible(settings: Mapping[str, Any], dataset: Dataset) -> tuple[list[tuple[int, int]], list[str]]:
    """(shot, way) of the shapes to draw, and sentences on those that are smaller, or impossible.

    The most ways become as many as there are classes with enough images, if that is more than the next fewer ways.
    """
    sizes = dataset.sizes[dataset.split_classes(settings["split"])]
    ways, shapes, notes, lost = settings["ways"], [], [], []
    for shot in settings["shots"]:
        needed = shot + settings["query"]
        fits = sizes >= needed
        enough = int(fits.sum()) if settings["drop_small"] or fits.all() else 0
        have = (
            f"{int(fits.sum())} of {len(sizes)} classes have the {needed} images that {shot}-shot tasks need"
        )
        for place, way in enumerate(ways):
            if way <= enough:
                shapes.append((shot, way))
            elif way == ways[-1] and enough > (ways[place - 1] if place else 1):
                shapes.append((shot, enough))
                notes.append(f"{way}-way {shot}-shot became {enough}-way {shot}-shot: {have}.")
            else:
                lost.append((f"{way}-way {shot}-shot", have))
        if 0 < enough < len(sizes):
            notes.append(
                f"{len(sizes) - enough} classes with fewer than {needed} images are left out of {shot}-shot tasks."
            )
    if lost:
        reasons = ", and ".join(dict.fromkeys(have for _, have in lost))
        remedy = "ask for fewer ways, shots or queries (--set ways=…, shots=…, query=…)"
        if not settings["drop_small"]:
            remedy += " or leave small classes out (--set drop_small=true)"
        told = (
            f"Impossible on '{dataset.name}': {', '.join(shape for shape, _ in lost)}; {reasons}: {remedy}."
        )
        if not shapes:
            raise UserError(told)
        notes.append(told)
    return shapes, notes


def _draw(settings: Mapping[str, Any], dataset: Dataset, way: int, shot: int) -> Testbed:
    from longshot.testbeds.sample import sample
    from longshot.testbeds.shapes import FixedShape

    return sample(
        dataset,
        tasks=settings["tasks"],
        shape=FixedShape(way, shot, settings["query"]),
        seed=settings["seed"],
        split=settings["split"],
        drop_small=settings["drop_small"],
    )


def tables(
    settings: Mapping[str, Any], testbeds: Mapping[str, Testbed], rows: Mapping[str, list[MethodScores]]
) -> list[TableFile]:
    """The results, and what becomes of them as classes are added."""
    shapes = _shapes(testbeds)
    return [_results(settings, shapes, rows), _claims(shapes, rows)]


def _shapes(testbeds: Mapping[str, Testbed]) -> list[tuple[int, int, str]]:
    """(way, shot, name), by ways then shots."""
    found = []
    for name, testbed in testbeds.items():
        task = testbed[0]
        found.append((task.way, int(task.shots[0]), name))
    return sorted(found)


def _results(
    settings: Mapping[str, Any],
    shapes: Sequence[tuple[int, int, str]],
    rows: Mapping[str, list[MethodScores]],
) -> TableFile:
    from longshot.reports.published import published
    from longshot.reports.summary import column_marks
    from longshot.statistics import mean_interval

    backbone = settings["backbone"]
    columns, records = [], []
    for way, shot, name in shapes:
        for metric in metrics(way):
            key = (name, "whole", way, shot, metric)
            columns.append(TableColumn(f"{way}-way", head(shot, metric), key))
            values = [np.asarray(getattr(entry, metric)) for entry in rows[name]]
            for entry, mine, mark in zip(
                rows[name], values, column_marks(np.stack(values, axis=1)), strict=True
            ):
                records.append(record(key, backbone, entry.method, entry.setting, mean_interval(mine), mark))
    sheets = [sheet(f"Few and many ways, {backbone}", columns, records, _NOTE)]
    paper = published("semantic")
    printed: list[Number] = paper.select(table=3)
    theirs = [published_record(number, paper.tasks) for number in printed]
    keys = dict.fromkeys((n.testbed, n.part, n.way, n.shot, n.metric) for n in printed)
    heads = [TableColumn(f"{key[2]}-way", head(key[3], key[4]), key) for key in keys]
    told = f"Published: {paper.source['short']}, {printed[0].testbed}, {printed[0].backbone}"
    note = f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks; not measured here."
    return TableFile("many-way", [*sheets, sheet(told, heads, theirs, note)], [*records, *theirs])


def _claims(shapes: Sequence[tuple[int, int, str]], rows: Mapping[str, list[MethodScores]]) -> TableFile:
    """The drop from the fewest ways to the most, and what is left above chance."""
    from longshot.statistics import welch

    blocks, lines = [], []
    records: list[dict[str, Any]] = []
    for shot in dict.fromkeys(shot for _, shot, _ in shapes):
        mine = [(way, name) for way, its, name in shapes if its == shot]
        (few, first), (many, last) = mine[0], mine[-1]
        block = []
        for before, after in zip(rows[first], rows[last], strict=True):
            drop = welch(before.accuracy, after.accuracy)
            times = float(after.accuracy.mean()) * many
            block.append(
                [
                    SheetCell(after.method),
                    SheetCell(after.setting),
                    SheetCell(f"{few} → {many}"),
                    SheetCell(str(shot)),
                ]
            )
            block[-1] += [SheetCell(points(drop) if few != many else "–"), SheetCell(f"{times:.1f} ×")]
            records.append(
                {
                    "shot": shot,
                    "method": after.method,
                    "what": f"drop {few} to {many} ways",
                    "value": drop.mean,
                }
                | {"low": drop.low, "high": drop.high}
            )
        blocks.append(block)
        for way, name in mine:
            told = transduction(rows[name])
            if told:
                lines.append(f"{way}-way {shot}-shot: {told[0]}.")
                records.append({"shot": shot, "method": name, **told[1]})
    heads = ["method", "setting", "ways", "shots", "drop of top-1", "top-1 at most ways ÷ chance"]
    note = "Points of accuracy with 95 % intervals (Welch)."
    title = "From few ways to many"
    return TableFile("claims", [Sheet(title, [("", head) for head in heads], blocks, note)], records, lines)


def figures(
    settings: Mapping[str, Any], testbeds: Mapping[str, Testbed], rows: Mapping[str, list[MethodScores]]
) -> dict[str, Callable[[Path], None]]:
    """Accuracy against the number of ways for every number of shots that has at least two."""
    from longshot.studies.semantic import figures as draw

    found: dict[str, Callable[[Path], None]] = {}
    shapes = _shapes(testbeds)
    for shot in dict.fromkeys(shot for _, shot, _ in shapes):
        mine = {way: rows[name] for way, its, name in shapes if its == shot}
        if len(mine) > 1:
            found[f"ways-{shot}-shot"] = partial(draw.ways, mine, f"{shot}-shot, {settings['backbone']}")
    return found

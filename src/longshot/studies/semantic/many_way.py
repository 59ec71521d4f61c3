"""The recipe ``many-way``: few and many classes in a task, uniform classes, top-1 and top-5.

Its table has the layout of the paper's table 3. A dataset with fewer classes than the most that were asked for gives
tasks of as many as it has; shapes it cannot give at all are named in one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import Field

from longshot.core.errors import UserError
from longshot.reports.published import published
from longshot.reports.sheets import Sheet
from longshot.reports.ways import head, metrics
from longshot.statistics import welch
from longshot.studies.engine.drawing import draw_fixed
from longshot.studies.engine.figures import Drawings
from longshot.studies.engine.recipe import Testbeds
from longshot.studies.engine.settings import Counts, Ways
from longshot.studies.engine.tables import Fact, TableFile, heads, points, row
from longshot.studies.semantic import figures as pictures
from longshot.studies.semantic.recipe import Scores, StudyPlan, TestbedRecipe, TestbedSettings
from longshot.studies.semantic.scores import transduction
from longshot.studies.semantic.tables import FIRST_PLACE, TableColumn, column_records, published_record, sheet

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset

_NOTE = (
    "Mean over tasks in %, ± half the 95 % interval (Student t); classes drawn uniformly. Top-5 is left out for tasks "
    f"of five classes or fewer, where it is always 100. {FIRST_PLACE}"
)


class ManyWaySettings(TestbedSettings):
    """Settings of the recipe ``many-way``."""

    tasks: int = Field(ge=2, description="Tasks of every testbed")
    ways: Ways = Field(description="Classes of a task, a testbed for each")
    shots: Counts = Field(description="Support images per class, a testbed for each")


class NamedShape(NamedTuple):
    """Way and shot of a testbed, and its name."""

    way: int
    shot: int
    name: str


class ManyWay(TestbedRecipe[ManyWaySettings]):
    """Few and many classes in a task."""

    settings = ManyWaySettings

    def plan(self, settings: ManyWaySettings, dataset: Dataset) -> StudyPlan:
        """One testbed for every shape that the dataset can give, and what it cannot."""
        shapes, notes = possible(settings, dataset)
        small = {"drop_small": settings.drop_small}
        draw = partial(draw_fixed, settings, dataset, split=settings.split, **small)
        draws = {f"{way}-way-{shot}-shot": partial(draw, way, shot) for shot, way in shapes}
        return StudyPlan(draws, notes)

    def tables(self, settings: ManyWaySettings, testbeds: Testbeds, scores: Scores) -> list[TableFile]:
        """The results, and what becomes of them as classes are added."""
        shapes = _shapes(testbeds)
        return [_results_table(settings, shapes, scores), _claims_table(shapes, scores)]

    def figures(self, settings: ManyWaySettings, testbeds: Testbeds, scores: Scores) -> Drawings:
        """Accuracy against the number of ways for every number of shots that has at least two."""
        figures: Drawings = {}
        for shot, shapes in _by_shot(_shapes(testbeds)).items():
            if len(shapes) > 1:
                by_way = {shape.way: scores[shape.name] for shape in shapes}
                title = f"{shot}-shot, {settings.backbone}"
                figures[f"ways-{shot}-shot"] = partial(pictures.ways, by_way, title)
        return figures


def possible(settings: ManyWaySettings, dataset: Dataset) -> tuple[list[tuple[int, int]], list[str]]:
    """(shot, way) of the shapes to draw, and sentences on those that are smaller, or impossible.

    The most ways become as many as there are classes with enough images, if that is more than the next fewer ways.
    """
    sizes = dataset.sizes[dataset.split_classes(settings.split)]
    ways, shapes, notes, impossible = settings.ways, [], [], []
    for shot in settings.shots:
        needed = shot + settings.query
        fits = sizes >= needed
        enough = int(fits.sum()) if settings.drop_small or fits.all() else 0
        count = (
            f"{int(fits.sum())} of {len(sizes)} classes have the {needed} images that {shot}-shot tasks need"
        )
        for position, way in enumerate(ways):
            if way <= enough:
                shapes.append((shot, way))
            elif way == ways[-1] and enough > (ways[position - 1] if position else 1):
                shapes.append((shot, enough))
                notes.append(f"{way}-way {shot}-shot became {enough}-way {shot}-shot: {count}.")
            else:
                impossible.append((f"{way}-way {shot}-shot", count))
        if 0 < enough < len(sizes):
            notes.append(
                f"{len(sizes) - enough} classes with fewer than {needed} images are left out of {shot}-shot tasks."
            )
    if impossible:
        reasons = ", and ".join(dict.fromkeys(count for _, count in impossible))
        remedy = "ask for fewer {ways}, {shots} or {query}"
        if not settings.drop_small:
            remedy += " or leave small classes out ({drop_small:True})"
        names = ", ".join(shape for shape, _ in impossible)
        error = UserError(f"Impossible on '{dataset.name}': {names}; {reasons}", remedy)
        if not shapes:
            raise error
        notes.append(str(error))
    return shapes, notes


def _shapes(testbeds: Testbeds) -> list[NamedShape]:
    """The shapes that were drawn, by ways then shots."""
    first_tasks = {name: testbed[0] for name, testbed in testbeds.items()}
    return sorted(NamedShape(task.way, int(task.shots[0]), name) for name, task in first_tasks.items())


def _by_shot(shapes: Sequence[NamedShape]) -> dict[int, list[NamedShape]]:
    shots = dict.fromkeys(shape.shot for shape in shapes)
    return {shot: [shape for shape in shapes if shape.shot == shot] for shot in shots}


def _results_table(settings: ManyWaySettings, shapes: Sequence[NamedShape], scores: Scores) -> TableFile:
    """Top-1 and top-5 of every shape, beside the paper's table 3."""
    backbone = settings.backbone
    columns: list[TableColumn] = []
    records: list[Fact] = []
    for way, shot, name in shapes:
        for metric in metrics(way):
            key = (name, "whole", way, shot, metric)
            columns.append(TableColumn(f"{way}-way", head(shot, metric), key))
            values = [np.asarray(getattr(entry, metric)) for entry in scores[name]]
            records += column_records(key, backbone, scores[name], values)
    paper = published("semantic")
    numbers = paper.select(table=3)
    printed = [published_record(number, paper.tasks) for number in numbers]
    keys = dict.fromkeys((n.testbed, n.part, n.way, n.shot, n.metric) for n in numbers)
    printed_columns = [TableColumn(f"{key[2]}-way", head(key[3], key[4]), key) for key in keys]
    title = f"Published: {paper.source['short']}, {numbers[0].testbed}, {numbers[0].backbone}"
    note = f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks; not measured here."
    sheets = [
        sheet(f"Few and many ways, {backbone}", columns, records, _NOTE),
        sheet(title, printed_columns, printed, note),
    ]
    return TableFile("many-way", sheets, [*records, *printed])


def _claims_table(shapes: Sequence[NamedShape], scores: Scores) -> TableFile:
    """The drop from the fewest ways to the most, and how far above chance accuracy stays."""
    blocks, lines = [], []
    records: list[Fact] = []
    for shot, of_shot in _by_shot(shapes).items():
        fewest, most = of_shot[0], of_shot[-1]
        block = []
        for before, after in zip(scores[fewest.name], scores[most.name], strict=True):
            drop = welch(before.accuracy, after.accuracy)
            shown = points(drop) if fewest.way != most.way else "–"
            times = f"{float(after.accuracy.mean()) * most.way:.1f} ×"
            span = f"{fewest.way} → {most.way}"
            block.append(row(after.method, after.setting, span, str(shot), shown, times))
            facts = {"what": f"drop {fewest.way} to {most.way} ways", "value": drop.mean}
            records.append(
                {"shot": shot, "method": after.method, **facts, "low": drop.low, "high": drop.high}
            )
        blocks.append(block)
        for way, _, name in of_shot:
            gain = transduction(scores[name])
            if gain:
                lines.append(f"{way}-way {shot}-shot: {gain[0]}.")
                records.append({"shot": shot, "method": name, **gain[1]})
    names = heads("method", "setting", "ways", "shots", "drop of top-1", "top-1 at most ways ÷ chance")
    note = "Points of accuracy with 95 % intervals (Welch)."
    return TableFile("claims", [Sheet("From few ways to many", names, blocks, note)], records, lines)

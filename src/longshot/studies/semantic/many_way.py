"""The recipe ``many-way``: few and many classes in a task, uniform classes, top-1 and top-5.

Its table has the layout of the paper's table 3. A dataset with fewer classes than the most that were asked for gives
tasks of as many as it has; shapes it cannot give at all are named in one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from longshot.base import Floats, UserError
from longshot.reports import published
from longshot.statistics import percent
from longshot.studies.engine.claims import Claim, Measured, NotMeasured, clean_mean, of_values, some
from longshot.studies.engine.comparisons import Comparison, Counts, Draw, Side, Ways
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.engine.recipe import OneDataset, Recipe
from longshot.studies.engine.study_page import Drawings, Picture
from longshot.studies.engine.study_tables import TableColumn, TableFile, score_table
from longshot.studies.semantic.semantic_common import (
    KEYS,
    PAPER,
    TestbedSettings,
    draw_ways,
    entries,
    method_rows,
    paper_entries,
    printed_by_method,
    printed_difference,
    printed_sheet,
    transduction,
)

if TYPE_CHECKING:
    from longshot.data import Dataset

_NOTE = (
    "Mean over tasks in %, ± half the 95 % interval (Student t); classes drawn uniformly. Top-5 is left out for tasks "
    "of five classes or fewer, where it is always 100."
)
_TOP = 5
_MANY = 100  # ways of the paper's wide tasks
_BEST = {1: 0.10, 5: 0.20}  # what the best model of the paper stays below at so many shots


class ManyWaySettings(TestbedSettings):
    """Settings of the recipe ``many-way``."""

    tasks: int = Field(ge=2, description="Tasks of every testbed")
    ways: Ways = Field(description="Classes of a task, a testbed for each")
    shots: Counts = Field(description="Support images per class, a testbed for each")


def _metrics(way: int) -> tuple[str, ...]:
    """List the metrics shown for a number of ways: among five classes or fewer the top-5 is always right."""
    return ("accuracy", "top5") if way > _TOP else ("accuracy",)


class WayShot(NamedTuple):
    """The shape of a testbed."""

    way: int
    shot: int

    @property
    def name(self) -> str:
        """Return the testbed's name."""
        return f"{self.way}-way-{self.shot}-shot"


ManyLab = Lab[ManyWaySettings, "Dataset"]


class ManyWay(OneDataset[ManyWaySettings], Recipe[ManyWaySettings, "Dataset"]):
    """Few and many classes in a task."""

    settings = ManyWaySettings
    question = (
        "Few-shot methods are mostly compared on tasks of five classes. What remains of their accuracy, and of their "
        "order, when a task has a hundred?"
    )

    def plan(self, settings: ManyWaySettings, data: Dataset) -> Plan:
        """Plan one testbed for every shape that the dataset allows, and note what it does not."""
        shapes, absent = possible(settings, data)
        draws = [draw_of(settings, data.name, shape) for shape in shapes]
        evaluation = Evaluation([draw.name for draw in draws], settings.backbone, settings.calls)
        return Plan(draws=draws, evaluations=[evaluation], absent=absent)

    def comparisons(self, settings: ManyWaySettings) -> list[Comparison]:
        """List comparisons: few and many ways; few shots and more."""
        listed = []
        if len(settings.ways) > 1:
            for shot in settings.shots:
                sides = [
                    Side(f"{way}-way", draw_of(settings, "", WayShot(way, shot))) for way in settings.ways
                ]
                listed.append(Comparison(f"Ways, {shot}-shot", "testbed.shape.way", sides))
        if len(settings.shots) > 1:
            for way in settings.ways:
                sides = [Side(f"{n}-shot", draw_of(settings, "", WayShot(way, n))) for n in settings.shots]
                listed.append(Comparison(f"Shots, {way}-way", "testbed.shape.shot", sides))
        return listed

    def claims(self, settings: ManyWaySettings) -> list[Claim[ManyLab]]:
        """List the claims of the paper's section 6 on Danish Fungi, table 3."""
        return [
            Claim(
                "drop",
                "All methods lose accuracy from few ways to many",
                "section 6, table 3",
                _drops,
                factor="testbed.shape.way",
            ),
            *(
                Claim(
                    f"best-{shot}-shot",
                    f"At 100 ways and {shot} {'shot' if shot == 1 else 'shots'} the best model stays below "
                    f"{percent(bound, 0)} %",
                    "section 6, table 3",
                    partial(_best, shot, bound),
                    expects="below",
                    than=bound,
                    printed=f"{percent(max(_printed(_MANY, shot).values()), 2)} % for the best",
                )
                for shot, bound in _BEST.items()
            ),
            Claim(
                "transductive",
                "A transductive method is first on five ways",
                "table 3",
                _transductive,
                printed="PT-MAP",
                factor="method",
            ),
        ]

    def tables(self, lab: ManyLab) -> list[TableFile]:
        """Show top-1 and top-5 of every shape, beside the paper's table 3."""
        settings = lab.settings
        listed = {shape: {e.method: e for e in entries(lab, shape.name)} for shape in _shapes(lab)}
        facts = [
            {"testbed": shape.name, "part": "whole", "way": shape.way, "shot": shape.shot, "metric": metric}
            for shape in listed
            for metric in _metrics(shape.way)
        ]

        def values(line: Any, column: TableColumn) -> Floats:
            entry = listed[WayShot(column.facts["way"], column.facts["shot"])][line.labels[0]]
            scores: Floats = getattr(entry, column.facts["metric"])
            return scores

        numbers = published(PAPER).select(table=3)
        keys = list(dict.fromkeys(tuple(getattr(number, key) for key in KEYS) for number in numbers))
        theirs = [_column(dict(zip(KEYS, key, strict=True))) for key in keys]
        title = f"table 3: {numbers[0].testbed}, {numbers[0].backbone}"
        table = score_table(
            "many-way",
            f"Few and many ways, {settings.backbone}",
            ("method", "setting"),
            method_rows(list(next(iter(listed.values())).values()), settings.backbone),
            [_column(each) for each in facts],
            values,
            note=_NOTE,
            published=[printed_sheet(title, numbers, theirs)],
            lines=_times_chance(lab),
        )
        return [table]

    def figures(self, lab: ManyLab) -> Drawings:
        """Draw accuracy against the number of ways for every number of shots that has at least two."""
        drawings: Drawings = {}
        for shot, shapes in _by_shot(_shapes(lab)).items():
            if len(shapes) > 1:
                by_way = {shape.way: entries(lab, shape.name) for shape in shapes}
                drawings[f"ways-{shot}-shot"] = Picture(
                    f"Top-1 accuracy against the number of classes in a task, {shot}-shot, with chance.",
                    partial(draw_ways, by_way, f"{shot}-shot, {lab.settings.backbone}"),
                )
        return drawings


def draw_of(settings: ManyWaySettings, source: str, shape: WayShot) -> Draw:
    """Describe a testbed of the study as data."""
    words = {name: getattr(settings, name) for name in ("tasks", "query", "seed", "split", "drop_small")}
    return Draw(shape.name, source, {**words, "way": shape.way, "shot": shape.shot})


def possible(settings: ManyWaySettings, dataset: Dataset) -> tuple[list[WayShot], list[str]]:
    """List the shapes to draw, and sentences on those that are smaller, or impossible.

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
                shapes.append(WayShot(way, shot))
            elif way == ways[-1] and enough > (ways[position - 1] if position else 1):
                shapes.append(WayShot(enough, shot))
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


def _shapes(lab: ManyLab) -> list[WayShot]:
    """List the shapes that were drawn, by ways then shots."""
    return sorted(WayShot(draw.words["way"], draw.words["shot"]) for draw in lab.plan.draws)


def _by_shot(shapes: Sequence[WayShot]) -> dict[int, list[WayShot]]:
    shots = dict.fromkeys(shape.shot for shape in shapes)
    return {shot: [shape for shape in shapes if shape.shot == shot] for shot in shots}


def _column(facts: dict[str, Any]) -> TableColumn:
    return TableColumn(
        f"{facts['way']}-way",
        f"{facts['shot']:g}-shot top-{1 if facts['metric'] == 'accuracy' else _TOP}",
        facts,
    )


def _printed(way: int, shot: int) -> dict[str, float]:
    return printed_by_method(table=3, way=way, shot=shot, metric="accuracy")


def _side(lab: ManyLab, shape: WayShot) -> Side:
    return Side(f"{shape.way}-way", draw_of(lab.settings, "", shape))


def _drops(lab: ManyLab) -> Sequence[Measured]:
    """Measure the drop from the fewest ways to the most, per method and number of shots."""
    measured = []
    for shot, shapes in _by_shot(_shapes(lab)).items():
        fewest, most = shapes[0], shapes[-1]
        if fewest == most:
            continue
        printed = printed_difference(_printed(fewest.way, shot), _printed(most.way, shot))
        for method in (entry.method for entry in paper_entries(lab, fewest.name)):
            label = f"{method}, {fewest.way} → {most.way} ways, {shot}-shot"
            which = {"method": method, "backbone": lab.settings.backbone}
            narrow, wide = _side(lab, fewest), _side(lab, most)
            measured.append(lab.scores.difference(label, narrow, wide, printed.get(method), **which))
    return some(measured, "it needs two numbers of ways, and this data gives one")


def _best(shot: int, bound: float, lab: ManyLab) -> list[Measured]:
    """Measure the accuracy of the best method, chosen on every other task and measured on the rest."""
    shape = WayShot(_MANY, shot)
    if shape not in _shapes(lab):
        ways = ", ".join(f"{each.way}-way {each.shot}-shot" for each in _shapes(lab))
        raise NotMeasured(f"the paper speaks of {_MANY}-way {shot}-shot tasks, and these are {ways}")
    listed, printed = paper_entries(lab, shape.name), _printed(*shape)
    best = max(listed, key=lambda entry: clean_mean(entry.accuracy[::2]))
    return [of_values(f"{best.method}, {shape.name}", best.accuracy[1::2], printed.get(best.method), bound)]


def _transductive(lab: ManyLab) -> list[Measured]:
    shapes = [shape for shape in _shapes(lab) if shape.way == 5]
    if not shapes:
        raise NotMeasured("the study has no tasks of five ways")
    return [
        transduction(paper_entries(lab, shape.name), f"5-way {shape.shot}-shot", _printed(*shape))
        for shape in shapes
    ]


def _times_chance(lab: ManyLab) -> list[str]:
    """Say how far above chance the methods stay at the most ways."""
    lines = []
    for shot, shapes in _by_shot(_shapes(lab)).items():
        most = shapes[-1]
        times = [float(entry.accuracy.mean()) * most.way for entry in entries(lab, most.name)]
        lines.append(
            f"{most.way}-way {shot}-shot: top-1 is {min(times):.1f} to {max(times):.1f} times chance, "
            f"{100 / most.way:.1f} %."
        )
    return lines


RECIPE = ManyWay()

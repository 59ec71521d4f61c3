"""The recipe ``better-testbed``: uniform and semantic testbeds of one dataset, methods on both.

For every number of shots two testbeds are drawn. Their tables have the layout of the paper's tables 1 and 2; the
figures are those of its figures 1, 3 and 5 and the quartiles as a picture.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import Floats
from longshot.data import no_taxonomy, with_taxonomy
from longshot.reports import Sheet, heads, published, row
from longshot.studies.engine.claims import Claim
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.engine.lab import Evaluation, Plan
from longshot.studies.engine.recipe import OneDataset, Recipe
from longshot.studies.engine.study_page import Drawings, Picture
from longshot.studies.engine.study_tables import Fact, TableColumn, TableFile, score_table
from longshot.studies.semantic.better_claims import (
    BetterLab,
    BetterTestbedSettings,
    better_testbed_claims,
    draw_of,
    sides_of,
)
from longshot.studies.semantic.semantic_common import (
    KINDS,
    PAPER,
    appearances,
    class_ids_of,
    coarsities,
    draw_balance,
    draw_histograms,
    draw_parts,
    draw_rolling,
    entries,
    method_rows,
    printed_sheet,
    quartile_of,
)

if TYPE_CHECKING:
    from longshot.data import Dataset

QUARTILES = ("1st", "2nd", "3rd", "4th")
_NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval (Student t). Quartiles by coarsity, classes closest in "
    "meaning first."
)


class BetterTestbed(OneDataset[BetterTestbedSettings], Recipe[BetterTestbedSettings, "Dataset"]):
    """Uniform and semantic testbeds of one dataset."""

    settings = BetterTestbedSettings
    question = (
        "Few-shot benchmarks draw the classes of a task uniformly, so that most tasks are between things that nobody "
        "would confuse. How much harder are tasks of classes close in meaning, does difficulty follow the coarsity of "
        "a task, and do the same methods lead?"
    )

    def plan(self, settings: BetterTestbedSettings, data: Dataset) -> Plan:
        """Plan two testbeds for every number of shots; all draws of one seed."""
        if with_taxonomy(data, settings.taxonomy).taxonomy is None:
            raise no_taxonomy(
                data,
                ", and 'better-testbed' draws classes by meaning",
                ", or run 'many-way', which needs none",
            )
        draws = [draw_of(settings, data.name, kind, shot) for shot in settings.shots for kind in KINDS]
        evaluation = Evaluation([draw.name for draw in draws], settings.backbone, settings.calls)
        return Plan(draws=draws, evaluations=[evaluation])

    def comparisons(self, settings: BetterTestbedSettings) -> list[Comparison]:
        """List comparisons: classes by meaning or uniform, few shots or more, methods on the same tasks."""
        listed = [
            Comparison(
                f"Uniform and semantic classes, {shot}-shot", "testbed.classes", sides_of(settings, shot)
            )
            for shot in settings.shots
        ]
        if len(settings.shots) > 1:
            sides = [Side(f"{shot}-shot", draw_of(settings, "", "semantic", shot)) for shot in settings.shots]
            listed.append(Comparison("Shots, semantic classes", "testbed.shape.shot", sides))
        if len(settings.calls) > 1:
            testbed = draw_of(settings, "", "semantic", settings.shots[0])
            sides = [Side(call, testbed, call, settings.backbone) for call in settings.calls]
            listed.append(Comparison(f"Methods, semantic classes, {settings.shots[0]}-shot", "method", sides))
        return listed

    def claims(self, settings: BetterTestbedSettings) -> list[Claim[BetterLab]]:
        """List the claims of the paper's section 6 and figures 1, 3 and 5."""
        return better_testbed_claims()

    def tables(self, lab: BetterLab) -> list[TableFile]:
        """Make one table of results per number of shots, and one of the testbeds."""
        return [*(_results_table(lab, shot) for shot in lab.settings.shots), _testbeds_table(lab)]

    def figures(self, lab: BetterLab) -> Drawings:
        """Map each name to what draws it, quartiles first; testbeds that share their classes share one picture."""
        settings = lab.settings
        drawings: Drawings = {}
        pictured: list[list[list[str]]] = []
        for shot in settings.shots:
            pair = {kind: lab.testbeds[f"{kind}-{shot}-shot"] for kind in KINDS}
            classes_of_tasks = [testbed.table["classes"].to_pylist() for testbed in pair.values()]
            if classes_of_tasks not in pictured:
                pictured.append(classes_of_tasks)
                ending = "" if len(pictured) == 1 else f"-{shot}-shot"
                coarsity = {kind: coarsities(testbed) for kind, testbed in pair.items()}
                ids = class_ids_of(pair.values())
                shares = {kind: appearances(testbed, ids) / len(testbed) for kind, testbed in pair.items()}
                drawings[f"coarsity{ending}"] = Picture(
                    "Coarsity of the tasks of both testbeds (the paper's figure 1).",
                    partial(draw_histograms, coarsity),
                )
                drawings[f"balance{ending}"] = Picture(
                    "Share of tasks that each class occurs in, most frequent first (figure 3).",
                    partial(draw_balance, shares, settings.way),
                )
            listed = entries(lab, f"semantic-{shot}-shot")
            title = f"{shot}-shot, {settings.backbone}"
            drawings[f"accuracy-{shot}-shot"] = Picture(
                f"Accuracy against coarsity, {shot}-shot semantic tasks, a rolling mean (figure 5).",
                partial(draw_rolling, listed, settings.window, title),
            )
            parts = [[quartile_of(entry, quartile) for entry in listed] for quartile in range(4)]
            parts.append([entry.accuracy for entry in entries(lab, f"uniform-{shot}-shot")])
            names = [*(f"{name} quartile" for name in QUARTILES), "uniform"]
            drawings[f"quartiles-{shot}-shot"] = Picture(
                f"Accuracy by quartile of coarsity, and on uniform tasks, {shot}-shot.",
                partial(draw_parts, listed, names, parts, title),
            )
        lead = f"quartiles-{settings.shots[-1]}-shot"
        return {lead: drawings.pop(lead), **drawings}


def _results_table(lab: BetterLab, shot: int) -> TableFile:
    """Show accuracy on the whole semantic testbed, its quartiles and the uniform one, beside the paper's."""
    settings = lab.settings
    columns = _columns(f"semantic-{shot}-shot", f"uniform-{shot}-shot", settings.way, shot)
    listed = {kind: {e.method: e for e in entries(lab, f"{kind}-{shot}-shot")} for kind in KINDS}
    quartiles: dict[str, int | None] = {"whole": None, **{f"quartile {n + 1}": n for n in range(4)}}

    def values(line: Any, column: TableColumn) -> Floats:
        entry = listed[column.group][line.labels[0]]
        return quartile_of(entry, quartiles[column.facts["part"]])

    paper = published(PAPER)
    printed = [n for n in paper.select(way=settings.way, shot=shot, metric="accuracy") if n.table in (1, 2)]
    sheets: list[Sheet] = []
    if printed:
        names = {number.sampling: number.testbed for number in printed}
        theirs = _columns(names["semantic"], names["uniform"], settings.way, shot)
        title = f"table {printed[0].table}: {names['uniform']}, {printed[0].backbone}, {shot}-shot"
        sheets = [printed_sheet(title, printed, theirs)]
    return score_table(
        f"{shot}-shot",
        f"{shot}-shot, {settings.way}-way, {settings.backbone}",
        ("method", "setting"),
        method_rows(list(listed["semantic"].values()), settings.backbone),
        columns,
        values,
        note=_NOTE,
        published=sheets,
    )


def _columns(semantic: str, uniform: str, way: int, shot: int) -> list[TableColumn]:
    def column(group: str, head: str, testbed: str, part: str, interval: bool = True) -> TableColumn:
        facts = {"testbed": testbed, "part": part, "way": way, "shot": shot, "metric": "accuracy"}
        return TableColumn(group, head, facts, interval)

    quartiles = [
        column("semantic", f"{name} quartile", semantic, f"quartile {number}", interval=False)
        for number, name in enumerate(QUARTILES, 1)
    ]
    first, last = (
        column(kind, "whole", testbed, "whole")
        for kind, testbed in (("semantic", semantic), ("uniform", uniform))
    )
    return [first, *quartiles, last]


def _testbeds_table(lab: BetterLab) -> TableFile:
    """Show coarsity and class balance of the testbeds."""
    rows, records = [], list[Fact]()
    for shot in lab.settings.shots:
        pair = {kind: lab.testbeds[f"{kind}-{shot}-shot"] for kind in KINDS}
        ids = class_ids_of(pair.values())
        for kind, testbed in pair.items():
            values = coarsities(testbed)
            low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
            counts = appearances(testbed, ids)
            numbers = {"lowest": low, "quartile_1": q1, "median": median, "quartile_3": q3, "highest": high}
            numbers = {key: float(value) for key, value in {**numbers, "mean": values.mean()}.items()}
            often = {"classes": len(counts), "rarest": int(counts.min()), "most_frequent": int(counts.max())}
            records.append({"testbed": f"{kind}-{shot}-shot", **numbers, **often})
            texts = [f"{value:.1f}" for value in numbers.values()] + [
                f"{value:,}" for value in often.values()
            ]
            rows.append(row(f"{kind}-{shot}-shot", *texts))
    names = [
        *heads("testbed"),
        *heads(
            "lowest", "1st quartile", "median", "3rd quartile", "highest", "mean", group="coarsity of tasks"
        ),
        *heads("classes", "tasks of the rarest", "of the most frequent", group="balance"),
    ]
    note = "Low coarsity: classes close in meaning. The testbeds of one seed share classes and queries over shots."
    return TableFile("testbeds", [Sheet("The testbeds", names, [rows], note, labels=1)], records)


RECIPE = BetterTestbed()

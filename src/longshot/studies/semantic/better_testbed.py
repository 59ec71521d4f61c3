"""The recipe ``better-testbed``: uniform and semantic testbeds of one dataset, methods on both.

For every number of shots two testbeds are drawn. Their tables have the layout of the paper's tables 1 and 2; the
figures are those of its figures 1, 3 and 5 and the quartiles as a picture.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from longshot.core.arrays import Floats
from longshot.core.errors import UserError
from longshot.reports.published import published
from longshot.reports.sheets import Sheet
from longshot.statistics import correlation, quantile_bins, welch
from longshot.studies.engine.drawing import draw_fixed
from longshot.studies.engine.figures import Drawings
from longshot.studies.engine.recipe import Testbeds
from longshot.studies.engine.settings import Counts, Number
from longshot.studies.engine.tables import Fact, TableFile, heads, points, ratio, row
from longshot.studies.semantic import figures as pictures
from longshot.studies.semantic.recipe import Scores, StudyPlan, TestbedRecipe, TestbedSettings
from longshot.studies.semantic.scores import MethodScores, transduction
from longshot.studies.semantic.tables import FIRST_PLACE, TableColumn, column_records, published_record, sheet
from longshot.testbeds.classes import UniformClasses
from longshot.testbeds.semantic import SemanticClasses

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.testbed import Testbed

KINDS = ("semantic", "uniform")
QUARTILES = ("1st", "2nd", "3rd", "4th")
_NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval (Student t). Quartiles by coarsity, classes closest in "
    f"meaning first. {FIRST_PLACE}"
)


class BetterTestbedSettings(TestbedSettings):
    """Settings of the recipe ``better-testbed``."""

    tasks: int = Field(ge=8, description="Tasks of every testbed")
    way: int = Field(ge=2, description="Classes of a task")
    shots: Counts = Field(description="Support images per class, a pair of testbeds for each")
    alpha: Number = Field(ge=0, description="How strongly classes close in meaning attract")
    beta: Number = Field(ge=0, description="How strongly classes drawn often are avoided")
    allow_repeats: bool = Field(description="Accept tasks with the same classes")
    window: int = Field(ge=2, description="Tasks in the rolling mean of accuracy against coarsity")


class BetterTestbed(TestbedRecipe[BetterTestbedSettings]):
    """Uniform and semantic testbeds of one dataset."""

    settings = BetterTestbedSettings

    def plan(self, settings: BetterTestbedSettings, dataset: Dataset) -> StudyPlan:
        """Two testbeds for every number of shots; all draws of one seed."""
        if dataset.taxonomy is None:
            raise UserError(
                f"Dataset '{dataset.name}' has no taxonomy, and 'better-testbed' draws classes by meaning; nest its "
                "class folders (Fruit/Apple, Fruit/Pear …) or add a taxonomy.csv, or run 'many-way', which needs none."
            )
        draws = {
            f"{kind}-{shot}-shot": partial(_draw, settings, dataset, kind, shot)
            for shot in settings.shots
            for kind in KINDS
        }
        return StudyPlan(draws, [])

    def tables(self, settings: BetterTestbedSettings, testbeds: Testbeds, scores: Scores) -> list[TableFile]:
        """One results table per number of shots, and one of what the paper claims."""
        results = [_results_table(settings, shot, scores) for shot in settings.shots]
        return [*results, _claims_table(settings, testbeds, scores)]

    def figures(self, settings: BetterTestbedSettings, testbeds: Testbeds, scores: Scores) -> Drawings:
        """Name → a function that draws it; testbeds that share their classes share one picture."""
        figures: Drawings = {}
        pictured: list[list[list[str]]] = []
        for shot in settings.shots:
            pair = {kind: testbeds[f"{kind}-{shot}-shot"] for kind in KINDS}
            classes_of_tasks = [testbed.table["classes"].to_pylist() for testbed in pair.values()]
            if classes_of_tasks not in pictured:
                pictured.append(classes_of_tasks)
                ending = "" if len(pictured) == 1 else f"-{shot}-shot"
                coarsity = {kind: coarsities(testbed) for kind, testbed in pair.items()}
                class_ids = class_ids_of(pair.values())
                shares = {
                    kind: appearances(testbed, class_ids) / len(testbed) for kind, testbed in pair.items()
                }
                figures[f"coarsity{ending}"] = partial(pictures.histograms, coarsity)
                figures[f"balance{ending}"] = partial(pictures.balance, shares, settings.way)
            entries = scores[f"semantic-{shot}-shot"]
            title = f"{shot}-shot, {settings.backbone}"
            figures[f"accuracy-{shot}-shot"] = partial(pictures.rolling, entries, settings.window, title)
            parts = [[quartile_of(entry, quartile) for entry in entries] for quartile in range(4)]
            parts.append([entry.accuracy for entry in scores[f"uniform-{shot}-shot"]])
            names = [*(f"{name} quartile" for name in QUARTILES), "uniform"]
            figures[f"quartiles-{shot}-shot"] = partial(pictures.parts, entries, names, parts, title)
        return figures


def _draw(settings: BetterTestbedSettings, dataset: Dataset, kind: str, shot: int) -> Testbed:
    repeats = settings.allow_repeats
    semantic = SemanticClasses(alpha=settings.alpha, beta=settings.beta, distinct=not repeats)
    classes = semantic if kind == "semantic" else UniformClasses()
    options = {"classes": classes, "drop_small": settings.drop_small, "allow_repeats": repeats}
    return draw_fixed(settings, dataset, settings.way, shot, settings.split, **options)


def _results_table(settings: BetterTestbedSettings, shot: int, scores: Scores) -> TableFile:
    """Accuracy on the whole semantic testbed, its quartiles and the uniform one, beside the paper's."""
    way, backbone = settings.way, settings.backbone
    semantic, uniform = (f"{kind}-{shot}-shot" for kind in KINDS)
    parts: dict[tuple[str, str], int | None] = {
        (semantic, "whole"): None,
        **{(semantic, f"quartile {quartile + 1}"): quartile for quartile in range(4)},
        (uniform, "whole"): None,
    }
    records: list[Fact] = []
    for (testbed, part), quartile in parts.items():
        values = [quartile_of(entry, quartile) for entry in scores[testbed]]
        key = (testbed, part, way, shot, "accuracy")
        records += column_records(key, backbone, scores[testbed], values)
    title = f"{shot}-shot, {way}-way, {backbone}"
    sheets = [sheet(title, _columns(semantic, uniform, way, shot), records, _NOTE)]
    paper = published("semantic")
    printed = [
        number for number in paper.select(way=way, shot=shot, metric="accuracy") if number.table in (1, 2)
    ]
    if printed:
        names = {number.sampling: number.testbed for number in printed}
        printed_records = [published_record(number, paper.tasks) for number in printed]
        title = f"Published: {paper.source['short']}, {names['uniform']}, {printed[0].backbone}, {shot}-shot"
        note = f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks; not measured here."
        columns = _columns(names["semantic"], names["uniform"], way, shot)
        sheets.append(sheet(title, columns, printed_records, note))
        records += printed_records
    return TableFile(f"{shot}-shot", sheets, records)


def _columns(semantic: str, uniform: str, way: int, shot: int) -> list[TableColumn]:
    ending = (way, shot, "accuracy")
    quartiles = [
        TableColumn("semantic", f"{name} quartile", (semantic, f"quartile {number}", *ending), interval=False)
        for number, name in enumerate(QUARTILES, 1)
    ]
    return [
        TableColumn("semantic", "whole", (semantic, "whole", *ending)),
        *quartiles,
        TableColumn("uniform", "whole", (uniform, "whole", *ending)),
    ]


def quartile_of(entry: MethodScores, quartile: int | None) -> Floats:
    """Accuracy of the tasks of one quartile by coarsity (0 … 3), or of all tasks for None."""
    if quartile is None:
        return entry.accuracy
    assert entry.coarsity is not None
    accuracy: Floats = entry.accuracy[quantile_bins(entry.coarsity, 4) == quartile]
    return accuracy


def _claims_table(settings: BetterTestbedSettings, testbeds: Testbeds, scores: Scores) -> TableFile:
    """What the paper says, as numbers with intervals: the drop, the quartiles, the relation, transduction."""
    records: list[Fact] = []
    blocks, lines = [], []
    for shot in settings.shots:
        semantic, uniform = (scores[f"{kind}-{shot}-shot"] for kind in KINDS)
        block = []
        for fine, coarse in zip(semantic, uniform, strict=True):
            assert fine.coarsity is not None
            drop = welch(coarse.accuracy, fine.accuracy)
            rise = welch(quartile_of(fine, 3), quartile_of(fine, 0))
            rank = correlation(fine.coarsity, fine.accuracy, "spearman")
            spearman = ratio(rank.r, rank.low, rank.high)
            block.append(row(fine.method, fine.setting, str(shot), points(drop), points(rise), spearman))
            undefined = math.isnan(rank.r)  # coarsity or accuracy may be the same for all tasks
            measured = {
                "drop": (drop.mean, drop.low, drop.high),
                "rise": (rise.mean, rise.low, rise.high),
                "spearman": (None, None, None) if undefined else (rank.r, rank.low, rank.high),
            }
            for name, (value, low, high) in measured.items():
                facts = {"what": name, "value": value, "low": low, "high": high}
                records.append({"shot": shot, "method": fine.method, **facts})
        blocks.append(block)
        for kind in KINDS:
            gain = transduction(scores[f"{kind}-{shot}-shot"])
            if gain:
                lines.append(f"{shot}-shot, {kind} testbed: {gain[0]}.")
                records.append({"shot": shot, "method": kind, **gain[1]})
        lines.append(_order_of_methods(semantic, shot))
    pair = {kind: testbeds[f"{kind}-{settings.shots[0]}-shot"] for kind in KINDS}
    class_ids = class_ids_of(pair.values())
    lines += [f"{kind} testbed: {_described(testbed, class_ids)}." for kind, testbed in pair.items()]
    names = heads(
        "method", "setting", "shots", "uniform − semantic", "4th − 1st quartile", "Spearman with coarsity"
    )
    note = (
        "Points of accuracy, and rank correlation of accuracy with coarsity on the semantic testbed; 95 % intervals in "
        "brackets (Welch; Fisher). A best method was picked among several on the same tasks, which favours it a little."
    )
    return TableFile("claims", [Sheet("What goes with coarsity", names, blocks, note)], records, lines)


def _order_of_methods(entries: Sequence[MethodScores], shot: int) -> str:
    """Whether the order of methods is the same on all quartiles: Kendall's τ between quartiles, averaged."""
    from scipy.stats import kendalltau

    if len(entries) < 2:
        return f"{shot}-shot: one method has no order."
    means = np.array([[quartile_of(entry, q).mean() for entry in entries] for q in range(4)])
    taus = [kendalltau(means[a], means[b]).statistic for a in range(4) for b in range(a)]
    first = dict.fromkeys(entries[int(best)].method for best in means.argmax(1))
    return (
        f"{shot}-shot: order of the {len(entries)} methods on the four quartiles, Kendall's τ between two quartiles "
        f"{np.mean(taus):.2f} on average, {np.min(taus):.2f} at least; first on them: {', '.join(first)}."
    )


def _described(testbed: Testbed, class_ids: Sequence[str]) -> str:
    """Coarsity and class balance in one line."""
    values = coarsities(testbed)
    low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    counts = appearances(testbed, class_ids)
    return (
        f"coarsity from {low:.1f} to {high:.1f}, quartiles {q1:.1f}, {median:.1f}, {q3:.1f}, mean {values.mean():.1f}; "
        f"{len(counts)} classes in {counts.min():,.0f} to {counts.max():,.0f} tasks each"
    )


def coarsities(testbed: Testbed) -> Floats:
    """Coarsity of each task [T]."""
    values: Floats = testbed.table["coarsity"].to_numpy().astype(np.float64)
    return values


def class_ids_of(testbeds: Iterable[Testbed]) -> list[str]:
    """Ids of the classes that occur in at least one of the testbeds, sorted."""
    tasks = (task for testbed in testbeds for task in testbed.table["classes"].to_pylist())
    return sorted({class_id for task in tasks for class_id in task})


def appearances(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """In how many tasks each of the classes occurs [C], descending."""
    counts = Counter(class_id for task in testbed.table["classes"].to_pylist() for class_id in task)
    return np.array(sorted((counts[class_id] for class_id in class_ids), reverse=True), np.float64)

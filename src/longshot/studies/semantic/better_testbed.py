"""The recipe ``better-testbed``: uniform and semantic testbeds of one dataset, methods on both.

For every number of shots two testbeds are drawn. Their tables have the layout of the paper's tables 1 and 2; the
figures are those of its figures 1, 3 and 5 and the quartiles as a picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from longshot.core.arrays import Floats
from longshot.core.errors import UserError
from longshot.reports.published import published
from longshot.reports.sheets import Sheet
from longshot.statistics import correlation, quantile_bins
from longshot.studies.engine.claims import (
    Claim,
    Measured,
    NotMeasured,
    of_correlation,
    of_resamples,
    paired,
    unpaired,
)
from longshot.studies.engine.comparisons import Comparison, Side
from longshot.studies.engine.draws import Draw
from longshot.studies.engine.figures import Drawings, Picture
from longshot.studies.engine.lab import Evaluation, Lab, Plan
from longshot.studies.engine.recipe import OneDataset, Recipe
from longshot.studies.engine.settings import Counts, Number
from longshot.studies.engine.tables import Fact, TableColumn, TableFile, heads, row, score_table
from longshot.studies.semantic import figures as pictures
from longshot.studies.semantic.common import (
    PAPER,
    MethodScores,
    TestbedSettings,
    entries,
    method_rows,
    printed_by_method,
    printed_difference,
    printed_gain,
    printed_records,
    printed_sheet,
    transduction,
    transductive_gain,
)

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.testbed import Testbed

KINDS = ("semantic", "uniform")
QUARTILES = ("1st", "2nd", "3rd", "4th")
_TABLES = {1: 1, 5: 2}  # shots → the paper's table
_ORDER = 0.5  # Kendall's τ above which an order counts as the same: no more than a quarter of the pairs turned round
_BALANCE = 0.02  # of all tasks: how much further from even a class may be
_NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval (Student t). Quartiles by coarsity, classes closest in "
    "meaning first."
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


BetterLab = Lab[BetterTestbedSettings, "Dataset"]


class BetterTestbed(OneDataset[BetterTestbedSettings], Recipe[BetterTestbedSettings, "Dataset"]):
    """Uniform and semantic testbeds of one dataset."""

    settings = BetterTestbedSettings
    question = (
        "Few-shot benchmarks draw the classes of a task uniformly, so that most tasks are between things that nobody "
        "would confuse. How much harder are tasks of classes close in meaning, does difficulty follow the coarsity of "
        "a task, and do the same methods lead?"
    )

    def plan(self, settings: BetterTestbedSettings, data: Dataset) -> Plan:
        """Two testbeds for every number of shots; all draws of one seed."""
        if data.taxonomy is None:
            raise UserError(
                f"Dataset '{data.name}' has no taxonomy, and 'better-testbed' draws classes by meaning; nest its "
                "class folders (Fruit/Apple, Fruit/Pear …) or add a taxonomy.csv, or run 'many-way', which needs none."
            )
        draws = [draw_of(settings, data.name, kind, shot) for shot in settings.shots for kind in KINDS]
        evaluation = Evaluation([draw.name for draw in draws], settings.backbone, settings.calls)
        return Plan(draws=draws, evaluations=[evaluation])

    def comparisons(self, settings: BetterTestbedSettings) -> list[Comparison]:
        """Classes by meaning or uniformly; few shots or more; and the methods on the same tasks."""
        listed = [
            Comparison(
                f"Uniform and semantic classes, {shot}-shot", "testbed.classes", _sides(settings, shot)
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
        """The paper's section 6 and figures 1, 3 and 5."""
        classes = "testbed.classes"
        return [
            Claim(
                "coarse",
                "Uniform tasks are coarse; semantic sampling gives finer ones",
                "section 4.2, figure 1",
                _coarse,
                unit="",
                printed="the median uniform task of tieredImageNet has a coarsity of 85.1",
                factor=classes,
            ),
            Claim(
                "balance",
                "Semantic sampling does not unbalance the classes",
                "section 4.2, figure 3",
                _balance,
                expects="same",
                margin=_BALANCE,
                printed="the share of tasks with each class is about even",
                factor=classes,
            ),
            Claim(
                "harder",
                "The semantic testbed is harder than the uniform one for all methods and shots",
                "section 6, tables 1 and 2",
                partial(_by_method, _harder),
                printed="12 to 15 points in all settings",
                factor=classes,
            ),
            Claim(
                "finer",
                "Tasks get easier as they get coarser: the fourth quartile is easier than the first",
                "section 6, tables 1 and 2",
                partial(_by_method, _finer),
            ),
            Claim(
                "correlated",
                "Accuracy rises with coarsity",
                "section 6, figure 5",
                partial(_by_method, _correlated),
                unit="",
                printed="a rising curve for PT-MAP",
            ),
            Claim(
                "coarsest",
                "Even the coarsest quartile is harder than uniform tasks",
                "section 6, tables 1 and 2",
                partial(_by_method, _coarsest),
            ),
            Claim(
                "transductive",
                "Transductive methods show the best results",
                "section 6, tables 1 and 2",
                _transductive,
                factor="method",
            ),
            Claim(
                "one-shot",
                "Transduction gains most at one shot",
                "section 6",
                _one_shot,
                printed="especially in 1-shot classification",
                factor="testbed.shape.shot",
            ),
            Claim(
                "order",
                "The order of methods is the same on all quartiles: Kendall's τ between quartiles is above ½",
                "section 6",
                _order,
                unit="",
                than=_ORDER,
                printed="the leaderboard seems to be consistent on all quartiles",
            ),
        ]

    def tables(self, lab: BetterLab) -> list[TableFile]:
        """One results table per number of shots, and one of the testbeds."""
        return [*(_results_table(lab, shot) for shot in lab.settings.shots), _testbeds_table(lab)]

    def figures(self, lab: BetterLab) -> Drawings:
        """Name → what draws it; testbeds that share their classes share one picture."""
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
                    partial(pictures.histograms, coarsity),
                )
                drawings[f"balance{ending}"] = Picture(
                    "Share of tasks that each class occurs in, most frequent first (figure 3).",
                    partial(pictures.balance, shares, settings.way),
                )
            listed = entries(lab, f"semantic-{shot}-shot")
            title = f"{shot}-shot, {settings.backbone}"
            drawings[f"accuracy-{shot}-shot"] = Picture(
                f"Accuracy against coarsity, {shot}-shot semantic tasks, a rolling mean (figure 5).",
                partial(pictures.rolling, listed, settings.window, title),
            )
            parts = [[quartile_of(entry, quartile) for entry in listed] for quartile in range(4)]
            parts.append([entry.accuracy for entry in entries(lab, f"uniform-{shot}-shot")])
            names = [*(f"{name} quartile" for name in QUARTILES), "uniform"]
            drawings[f"quartiles-{shot}-shot"] = Picture(
                f"Accuracy by quartile of coarsity, and on uniform tasks, {shot}-shot.",
                partial(pictures.parts, listed, names, parts, title),
            )
        return drawings


def draw_of(settings: BetterTestbedSettings, source: str, kind: str, shot: int) -> Draw:
    """A testbed of the study as data."""
    names = ("tasks", "way", "query", "seed", "split", "drop_small", "allow_repeats")
    words = {name: getattr(settings, name) for name in names} | {"shot": shot, "classes": kind}
    if kind == "semantic":
        words |= {"alpha": settings.alpha, "beta": settings.beta}
    return Draw(f"{kind}-{shot}-shot", source, words)


def _sides(settings: BetterTestbedSettings, shot: int) -> list[Side]:
    """Uniform, then semantic."""
    return [Side(kind, draw_of(settings, "", kind, shot)) for kind in reversed(KINDS)]


# --- claims ---

_Measure = Callable[[BetterLab, int, str], Measured]


def _by_method(measure: _Measure, lab: BetterLab) -> list[Measured]:
    """A number for every number of shots and method, inductive ones first."""
    methods = lab.scores.by_setting(lab.settings.calls)
    return [measure(lab, shot, method) for shot in lab.settings.shots for method in methods]


def _label(shot: int, method: str) -> str:
    return f"{method}, {shot}-shot"


def _column(shot: int, part: str = "whole", sampling: str = "semantic") -> dict[str, float]:
    return printed_by_method(table=_TABLES.get(shot), part=part, sampling=sampling)


def _entry(lab: BetterLab, testbed: str, method: str) -> MethodScores:
    return next(entry for entry in entries(lab, testbed) if entry.method == method)


def _harder(lab: BetterLab, shot: int, method: str) -> Measured:
    printed = printed_difference(_column(shot, sampling="uniform"), _column(shot)).get(method)
    uniform, semantic = _sides(lab.settings, shot)
    which = {"method": method, "backbone": lab.settings.backbone}
    return lab.scores.difference(_label(shot, method), uniform, semantic, printed, **which)


def _finer(lab: BetterLab, shot: int, method: str) -> Measured:
    printed = printed_difference(_column(shot, "quartile 4"), _column(shot, "quartile 1")).get(method)
    entry = _entry(lab, f"semantic-{shot}-shot", method)
    return unpaired(_label(shot, method), quartile_of(entry, 3), quartile_of(entry, 0), printed)


def _coarsest(lab: BetterLab, shot: int, method: str) -> Measured:
    printed = printed_difference(_column(shot, sampling="uniform"), _column(shot, "quartile 4")).get(method)
    uniform, semantic = (_entry(lab, f"{kind}-{shot}-shot", method) for kind in reversed(KINDS))
    return unpaired(_label(shot, method), uniform.accuracy, quartile_of(semantic, 3), printed)


def _correlated(lab: BetterLab, shot: int, method: str) -> Measured:
    entry = _entry(lab, f"semantic-{shot}-shot", method)
    assert entry.coarsity is not None
    return of_correlation(_label(shot, method), correlation(entry.coarsity, entry.accuracy, "spearman"))


def _coarse(lab: BetterLab) -> list[Measured]:
    semantic, uniform = (coarsities(lab.testbeds[f"{kind}-{lab.settings.shots[0]}-shot"]) for kind in KINDS)
    return [unpaired("mean coarsity, uniform − semantic", uniform, semantic)]


def _balance(lab: BetterLab) -> list[Measured]:
    """How far each class is from an even share of the tasks: semantic − uniform, over classes."""
    pair = [lab.testbeds[f"{kind}-{lab.settings.shots[0]}-shot"] for kind in KINDS]
    ids = class_ids_of(pair)
    shares = [_counts(testbed, ids) / len(testbed) for testbed in pair]
    away = [np.abs(share - share.mean()) for share in shares]
    return [paired("distance of a class from the even share of tasks, semantic − uniform", *away)]


def _transductive(lab: BetterLab) -> list[Measured]:
    return [
        transduction(
            entries(lab, f"semantic-{shot}-shot"),
            f"{shot}-shot",
            printed_gain(table=_TABLES.get(shot), part="whole", sampling="semantic"),
        )
        for shot in lab.settings.shots
    ]


def _one_shot(lab: BetterLab) -> list[Measured]:
    """The gain of the best transductive over the best inductive method at the fewest shots minus that at the most."""
    shots = lab.settings.shots
    if len(shots) < 2 or shots[0] != 1:
        raise NotMeasured(f"it needs 1 shot and another number of shots, and the study has {list(shots)}")
    first, second = (transductive_gain(entries(lab, f"semantic-{n}-shot"))[2] for n in (shots[0], shots[-1]))
    return [paired(f"gain at {shots[0]} shot − gain at {shots[-1]} shots", first, second)]


def _order(lab: BetterLab) -> list[Measured]:
    """Kendall's τ between the orders of methods on two quartiles, averaged; bootstrap over the tasks of a quartile."""
    if len(lab.settings.calls) < 3:
        raise NotMeasured(f"an order needs at least 3 methods, and the study has {len(lab.settings.calls)}")
    return [
        order_of_methods(entries(lab, f"semantic-{shot}-shot"), f"mean τ, {shot}-shot")
        for shot in lab.settings.shots
    ]


def order_of_methods(
    listed: Sequence[MethodScores], label: str, resamples: int = 400, seed: int = 0
) -> Measured:
    """Mean Kendall's τ over the pairs of quartiles with its bootstrap interval."""
    quartiles = [np.stack([quartile_of(entry, q) for entry in listed]) for q in range(4)]  # [M, T/4] each
    first, second = np.triu_indices(len(listed), 1)
    rng = np.random.default_rng(seed)

    def tau(means: Floats) -> float:
        order = np.sign(means[:, first] - means[:, second])  # [4, pairs of methods]
        return float(np.mean([(order[a] * order[b]).mean() for a in range(4) for b in range(a)]))

    def again(quartile: Floats) -> Floats:
        means: Floats = quartile[:, rng.integers(quartile.shape[1], size=quartile.shape[1])].mean(1)
        return means

    value = tau(np.stack([quartile.mean(1) for quartile in quartiles]))
    resampled = np.array(
        [tau(np.stack([again(quartile) for quartile in quartiles])) for _ in range(resamples)]
    )
    return of_resamples(label, value, resampled, sum(q.shape[1] for q in quartiles), _ORDER)


# --- tables ---


def _results_table(lab: BetterLab, shot: int) -> TableFile:
    """Accuracy on the whole semantic testbed, its quartiles and the uniform one, beside the paper's."""
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
        records=printed_records(printed),
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
    """Coarsity and class balance of the testbeds."""
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


def quartile_of(entry: MethodScores, quartile: int | None) -> Floats:
    """Accuracy of the tasks of one quartile by coarsity (0 … 3), or of all tasks for None."""
    if quartile is None:
        return entry.accuracy
    assert entry.coarsity is not None
    accuracy: Floats = entry.accuracy[quantile_bins(entry.coarsity, 4) == quartile]
    return accuracy


def coarsities(testbed: Testbed) -> Floats:
    """Coarsity of each task [T]."""
    values: Floats = testbed.table["coarsity"].to_numpy().astype(np.float64)
    return values


def class_ids_of(testbeds: Iterable[Testbed]) -> list[str]:
    """Ids of the classes that occur in at least one of the testbeds, sorted."""
    tasks = (task for testbed in testbeds for task in testbed.table["classes"].to_pylist())
    return sorted({class_id for task in tasks for class_id in task})


def _counts(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """In how many tasks each of the classes occurs [C]."""
    counts = Counter(class_id for task in testbed.table["classes"].to_pylist() for class_id in task)
    return np.array([counts[class_id] for class_id in class_ids], np.float64)


def appearances(testbed: Testbed, class_ids: Sequence[str]) -> Floats:
    """In how many tasks each of the classes occurs [C], descending."""
    return np.sort(_counts(testbed, class_ids))[::-1]

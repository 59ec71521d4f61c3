"""The recipe ``better-testbed``: uniform and semantic testbeds of one dataset, methods on both.

For every number of shots two testbeds are drawn. Their tables have the layout of the paper's tables 1 and 2; the
figures are those of its figures 1, 3 and 5 and the quartiles as a picture.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.core.errors import UserError
from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.engine import fields
from longshot.studies.engine.plan import StudyPlan
from longshot.studies.engine.tables import TableFile, points, ratio
from longshot.studies.semantic.scores import Floats, MethodScores, transduction
from longshot.studies.semantic.tables import TableColumn, published_record, record, sheet

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.testbed import Testbed

FIELDS: fields.Fields = {
    "tasks": fields.whole(8),
    "way": fields.whole(2),
    "shots": fields.wholes(1),
    "query": fields.whole(1),
    "alpha": fields.number(0),
    "beta": fields.number(0),
    "split": fields.text(optional=True),
    "drop_small": fields.flag(),
    "allow_repeats": fields.flag(),
    "methods": fields.methods(),
    "backbone": fields.text(),
    "window": fields.whole(2),
    "seed": fields.whole(0),
}
KINDS = ("semantic", "uniform")
QUARTILES = ("1st", "2nd", "3rd", "4th")
_NOTE = (
    "Mean accuracy over tasks in %, ± half the 95 % interval (Student t). Quartiles by coarsity, classes closest in "
    "meaning first. Bold: first place of its column; = where several share it, because paired sign-flip tests (5 %, "
    "Holm over all pairs of methods) do not separate them from the highest mean."
)


def plan(settings: Mapping[str, Any], dataset: Dataset) -> StudyPlan:
    """Two testbeds for every number of shots; all draws of one seed."""
    if dataset.taxonomy is None:
        raise UserError(
            f"Dataset '{dataset.name}' has no taxonomy, and 'better-testbed' draws classes by meaning; nest its class "
            "folders (Fruit/Apple, Fruit/Pear …) or add a taxonomy.csv, or run 'many-way', which needs none."
        )
    draws = {
        f"{kind}-{shot}-shot": partial(_draw, settings, dataset, kind, shot)
        for shot in settings["shots"]
        for kind in KINDS
    }
    return StudyPlan(draws, [])


def _draw(settings: Mapping[str, Any], dataset: Dataset, kind: str, shot: int) -> Testbed:
    from longshot.testbeds.classes import UniformClasses
    from longshot.testbeds.sample import sample
    from longshot.testbeds.semantic import SemanticClasses
    from longshot.testbeds.shapes import FixedShape

    distinct = not settings["allow_repeats"]
    semantic = SemanticClasses(alpha=settings["alpha"], beta=settings["beta"], distinct=distinct)
    return sample(
        dataset,
        tasks=settings["tasks"],
        shape=FixedShape(settings["way"], shot, settings["query"]),
        classes=semantic if kind == "semantic" else UniformClasses(),
        seed=settings["seed"],
        split=settings["split"],
        drop_small=settings["drop_small"],
        allow_repeats=settings["allow_repeats"],
    )


def tables(
    settings: Mapping[str, Any], testbeds: Mapping[str, Testbed], rows: Mapping[str, list[MethodScores]]
) -> list[TableFile]:
    """One results table per number of shots, and one of what the paper claims."""
    found = [_results(settings, shot, rows) for shot in settings["shots"]]
    return [*found, _claims(settings, testbeds, rows)]


def _results(settings: Mapping[str, Any], shot: int, rows: Mapping[str, list[MethodScores]]) -> TableFile:
    from longshot.reports.published import published
    from longshot.reports.summary import column_marks
    from longshot.statistics import mean_interval

    way, backbone = settings["way"], settings["backbone"]
    semantic, uniform = (f"{kind}-{shot}-shot" for kind in KINDS)
    parts = {
        (semantic, "whole"): None,
        **{(semantic, f"quartile {q + 1}"): q for q in range(4)},
        (uniform, "whole"): None,
    }
    records = []
    for (testbed, part), quartile in parts.items():
        values = [_part(entry, quartile) for entry in rows[testbed]]
        key = (testbed, part, way, shot, "accuracy")
        for entry, mine, mark in zip(
            rows[testbed], values, column_marks(np.stack(values, axis=1)), strict=True
        ):
            records.append(record(key, backbone, entry.method, entry.setting, mean_interval(mine), mark))
    sheets = [
        sheet(f"{shot}-shot, {way}-way, {backbone}", _columns(semantic, uniform, way, shot), records, _NOTE)
    ]
    paper = published("semantic")
    printed = [
        n
        for n in paper.numbers
        if n.way == way and n.shot == shot and n.table in (1, 2) and n.metric == "accuracy"
    ]
    if printed:
        beds = {number.sampling: number.testbed for number in printed}
        theirs = [published_record(number, paper.tasks) for number in printed]
        told = f"Published: {paper.source['short']}, {beds['uniform']}, {printed[0].backbone}, {shot}-shot"
        note = f"Published numbers of another dataset and backbone, {paper.tasks:,} tasks; not measured here."
        columns = _columns(beds["semantic"], beds["uniform"], way, shot)
        sheets.append(sheet(told, columns, theirs, note))
        records += theirs
    return TableFile(f"{shot}-shot", sheets, records)


def _columns(semantic: str, uniform: str, way: int, shot: int) -> list[TableColumn]:
    rest = (way, shot, "accuracy")
    return [
        TableColumn("semantic", "whole", (semantic, "whole", *rest)),
        *(
            TableColumn(
                "semantic", f"{name} quartile", (semantic, f"quartile {q + 1}", *rest), interval=False
            )
            for q, name in enumerate(QUARTILES)
        ),
        TableColumn("uniform", "whole", (uniform, "whole", *rest)),
    ]


def _part(entry: MethodScores, quartile: int | None) -> Floats:
    """Accuracy of the whole testbed, or of one quartile by coarsity."""
    if quartile is None:
        return entry.accuracy
    from longshot.statistics import quantile_bins

    assert entry.coarsity is not None
    found: Floats = entry.accuracy[quantile_bins(entry.coarsity, 4) == quartile]
    return found


def _claims(
    settings: Mapping[str, Any], testbeds: Mapping[str, Testbed], rows: Mapping[str, list[MethodScores]]
) -> TableFile:
    """What the paper says, as numbers with intervals: the drop, the quartiles, the relation, transduction."""
    from longshot.statistics import correlation, welch

    records: list[dict[str, Any]] = []
    blocks, lines = [], []
    for shot in settings["shots"]:
        semantic, uniform = (rows[f"{kind}-{shot}-shot"] for kind in KINDS)
        block = []
        for fine, coarse in zip(semantic, uniform, strict=True):
            drop = welch(coarse.accuracy, fine.accuracy)
            rise = welch(_part(fine, 3), _part(fine, 0))
            assert fine.coarsity is not None
            rank = correlation(fine.coarsity, fine.accuracy, "spearman")
            texts = (fine.method, fine.setting, str(shot), points(drop), points(rise))
            block.append([*map(SheetCell, texts), SheetCell(ratio(rank.r, rank.low, rank.high))])
            known = not math.isnan(rank.r)  # coarsity or accuracy may be the same for all tasks
            spearman = (rank.r, rank.low, rank.high) if known else (None, None, None)
            told_of = {
                "drop": (drop.mean, drop.low, drop.high),
                "rise": (rise.mean, rise.low, rise.high),
                "spearman": spearman,
            }
            for what, (value, low, high) in told_of.items():
                facts = {"what": what, "value": value, "low": low, "high": high}
                records.append({"shot": shot, "method": fine.method, **facts})
        blocks.append(block)
        for kind in KINDS:
            told = transduction(rows[f"{kind}-{shot}-shot"])
            if told:
                lines.append(f"{shot}-shot, {kind} testbed: {told[0]}.")
                records.append({"shot": shot, "method": kind, **told[1]})
        lines.append(_places(semantic, shot))
    pair = {kind: testbeds[f"{kind}-{settings['shots'][0]}-shot"] for kind in KINDS}
    classes = classes_of(pair.values())
    lines += [f"{kind} testbed: {_described(testbed, classes)}." for kind, testbed in pair.items()]
    heads = [
        "method",
        "setting",
        "shots",
        "uniform − semantic",
        "4th − 1st quartile",
        "Spearman with coarsity",
    ]
    note = (
        "Points of accuracy, and rank correlation of accuracy with coarsity on the semantic testbed; 95 % intervals in "
        "brackets (Welch; Fisher). A best method was picked among several on the same tasks, which favours it a little."
    )
    title = "What goes with coarsity"
    return TableFile("claims", [Sheet(title, [("", head) for head in heads], blocks, note)], records, lines)


def _places(entries: Sequence[MethodScores], shot: int) -> str:
    """Whether the order of methods is the same on all quartiles: Kendall's τ between quartiles, averaged."""
    from scipy.stats import kendalltau

    means = np.array([[_part(entry, q).mean() for entry in entries] for q in range(4)])
    if len(entries) < 2:
        return f"{shot}-shot: one method has no order."
    taus = [kendalltau(means[a], means[b]).statistic for a in range(4) for b in range(a)]
    return (
        f"{shot}-shot: order of the {len(entries)} methods on the four quartiles, Kendall's τ between two quartiles "
        f"{np.mean(taus):.2f} on average, {np.min(taus):.2f} at least"
        + (f"; first on them: {', '.join(dict.fromkeys(entries[int(i)].method for i in means.argmax(1)))}.")
    )


def _described(testbed: Testbed, classes: Sequence[str]) -> str:
    """Coarsity and class balance in one line."""
    values = coarsities(testbed)
    low, q1, median, q3, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    counts = appearances(testbed, classes)
    return (
        f"coarsity from {low:.1f} to {high:.1f}, quartiles {q1:.1f}, {median:.1f}, {q3:.1f}, mean {values.mean():.1f}; "
        f"{len(counts)} classes in {counts.min():,.0f} to {counts.max():,.0f} tasks each"
    )


def coarsities(testbed: Testbed) -> Floats:
    """Coarsity of each task [T]."""
    values: Floats = testbed.table["coarsity"].to_numpy().astype(np.float64)
    return values


def classes_of(testbeds: Iterable[Testbed]) -> list[str]:
    """Ids of the classes that occur in at least one of the testbeds, sorted."""
    return sorted({name for bed in testbeds for task in bed.table["classes"].to_pylist() for name in task})


def appearances(testbed: Testbed, classes: Sequence[str]) -> Floats:
    """In how many tasks each of the classes occurs [C], descending."""
    counts = Counter(name for task in testbed.table["classes"].to_pylist() for name in task)
    return np.array(sorted((counts[name] for name in classes), reverse=True), np.float64)


def figures(
    settings: Mapping[str, Any], testbeds: Mapping[str, Testbed], rows: Mapping[str, list[MethodScores]]
) -> dict[str, Callable[[Path], None]]:
    """Name → a function that draws it; testbeds that share their classes share one picture."""
    from longshot.studies.semantic import figures as draw

    found: dict[str, Callable[[Path], None]] = {}
    known: list[list[Any]] = []
    for shot in settings["shots"]:
        pair = {kind: testbeds[f"{kind}-{shot}-shot"] for kind in KINDS}
        same = [bed.table["classes"].to_pylist() for bed in pair.values()]
        if same not in known:
            known.append(same)
            end = "" if len(known) == 1 else f"-{shot}-shot"
            spread = {kind: coarsities(bed) for kind, bed in pair.items()}
            classes = classes_of(pair.values())
            shares = {kind: appearances(bed, classes) / len(bed) for kind, bed in pair.items()}
            found[f"coarsity{end}"] = partial(draw.histograms, spread)
            found[f"balance{end}"] = partial(draw.balance, shares, settings["way"])
        entries = rows[f"semantic-{shot}-shot"]
        title = f"{shot}-shot, {settings['backbone']}"
        found[f"accuracy-{shot}-shot"] = partial(draw.rolling, entries, settings["window"], title)
        parts = [[_part(entry, q) for entry in entries] for q in range(4)]
        parts.append([entry.accuracy for entry in rows[f"uniform-{shot}-shot"]])
        names = [*(f"{name} quartile" for name in QUARTILES), "uniform"]
        found[f"quartiles-{shot}-shot"] = partial(draw.parts, entries, names, parts, title)
    return found

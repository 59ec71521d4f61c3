"""The tables of the study of transfer difficulty: the paper's tables 1, 4 and 5, each beside the printed numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from longshot.reports.sheets import Sheet, SheetCell
from longshot.reports.summary import column_marks
from longshot.statistics import Interval, mean_interval, welch
from longshot.studies.engine.tables import Fact, TableFile, bounds, heads, percent, points, row
from longshot.studies.engine.training import training_outcome
from longshot.studies.transfer import paper, stats
from longshot.studies.transfer.stats import ADAPTING, FIXED, SplitPlace, Steepness, TransferScores

if TYPE_CHECKING:
    from longshot.studies.transfer.plan import SplitTraining

_ACCURACY = "Mean accuracy over tasks in %, ± half the 95 % interval over tasks (Student t)"
# with and without adapting the embedding: no choice is made after seeing the numbers
PAIRS = (("finetune", "multiclass"), ("maml", "anil"))


def tables(scores: TransferScores, way: int) -> list[TableFile]:
    """Every table of the study."""
    return [
        splits_table(scores),
        accuracies_table(scores, way),
        slopes_table(scores),
        hardest_table(scores, way),
        adaptation_table(scores),
    ]


def splits_table(scores: TransferScores) -> TableFile:
    """What the splits are: target, divergence and gap of the classes they ended up with."""
    records: list[Fact] = []
    block = []
    for split in scores.splits:
        facts = {"split": split.name, "target": split.target, "measured": split.measured, "gap": split.gap}
        records.append({**facts, "same_as": split.twin})
        target = "–" if split.target is None else f"{split.target:g}"
        block.append(row(split.name, target, f"{split.measured:.4f}", f"{split.gap:.3f}", split.twin or "–"))
    names = heads("split", "R", "divergence of class means", "gap", "same classes as")
    note = (
        "Asked for, and what the classes ended up with: the divergence of the two class means and their distance. An R "
        "is the divergence of ATG's centroids, which lie further out than the class means."
    )
    lines = [
        f"{split.name} has the same classes in every part as {split.twin}."
        for split in scores.splits
        if split.twin
    ]
    return TableFile("splits", [Sheet("The splits", names, [block], note, labels=1)], records, lines)


def accuracies_table(scores: TransferScores, way: int) -> TableFile:
    """The paper's table 4: splits × methods × shots; bold is the most challenging split of a method, where one is."""
    columns = [(shot, method) for shot in scores.shots for method in scores.methods]
    records: list[Fact] = []
    rows = [row(split.name) for split in scores.splits]
    for shot, method in columns:
        lowest = _lowest_split(scores, method, shot)
        for split, cells in zip(scores.splits, rows, strict=True):
            interval = mean_interval(scores.tasks(split.name, method, shot))
            mark = "best" if split.name == lowest else ""
            late = (split.name, method, shot) in scores.cut
            cells.append(SheetCell(percent(interval.mean, interval.half) + (" ‡" if late else ""), mark))
            facts = {"source": "measured", "split": split.name, "way": way, "shot": shot, "method": method}
            repeats = len(scores.accuracy[split.name, method, shot])
            records.append({**facts, **bounds(interval), "trainings": repeats, "hit_ceiling": late})
    names = [*heads("split"), *((f"{shot}-shot", method) for shot, method in columns)]
    note = (
        f"{_ACCURACY}. Bold: the split on which the method does worse than on every other (Welch's t, 5 %, "
        "Bonferroni over the others)."
    )
    if scores.cut:
        note += " ‡: a training hit its ceiling in time and had fewer steps; left out of slopes."
    sheet = Sheet(f"Accuracy by split, {way}-way", names, [rows], note, labels=1)
    lines = []
    if any(split.name == "random" for split in scores.splits):
        hard = scores.hardest.name
        for shot in scores.shots:
            drops = {
                method: welch(scores.tasks("random", method, shot), scores.tasks(hard, method, shot))
                for method in scores.methods
            }
            listed = "; ".join(f"{method} {points(drop)}" for method, drop in drops.items())
            lines.append(f"{shot}-shot, random split minus {hard}, points [95 % over tasks]: {listed}.")
    sheets = [sheet, paper.sheet(4)]
    return TableFile("accuracies", sheets, [*records, *paper.accuracies_records()], lines)


def _lowest_split(scores: TransferScores, method: str, shot: int) -> str | None:
    """The split on which a method does worse than on every other; None where the tasks do not tell them apart."""
    values = {split.name: scores.tasks(split.name, method, shot) for split in scores.splits}
    lowest = min(values, key=lambda name: float(values[name].mean()))
    own = values.pop(lowest)
    level = 1 - 0.05 / max(len(values), 1)
    drops = [welch(own, other, level) for other in values.values()]
    return lowest if drops and all(drop.high is not None and drop.high < 0 for drop in drops) else None


def slopes_table(scores: TransferScores) -> TableFile:
    """The paper's table 5: slope of accuracy against R, and the difference to MAML's."""
    if len(scores.sweep) < 2:
        line = f"A slope needs at least 2 divergences; the study has {len(scores.sweep)}."
        return TableFile("slopes", [paper.sheet(5)], paper.slope_records(), [line])
    records: list[Fact] = []
    lines: list[str] = []
    blocks = []
    with_maml, with_measured = "maml" in scores.methods, stats.targets_differ(scores.splits)
    for shot in scores.shots:
        block = []
        slopes = {method: stats.steepness(scores, method, shot) for method in scores.methods}
        for method, own in slopes.items():
            cells = row(method, str(shot), _slope(own), _brackets(own.low, own.high))
            records.append(_slope_record(method, shot, "R", "", own))
            if with_maml and method == "maml":
                cells += row("–")
            elif with_maml:
                difference = stats.steepness(scores, method, shot, against="maml")
                cells += row(_slope(difference))
                records.append(_slope_record(method, shot, "R", "maml", difference))
            if with_measured:
                by_gap = stats.steepness(scores, method, shot, measured=True)
                cells += row(_slope(by_gap))
                records.append(_slope_record(method, shot, "measured", "", by_gap))
            block.append(cells)
        blocks.append(block)
        defined = {method: own for method, own in slopes.items() if not math.isnan(own.fit.slope)}
        if not defined:
            lines.append(f"{shot}-shot: no method had its whole budget on two splits, so there is no slope.")
            continue
        flattest = max(defined, key=lambda method: defined[method].fit.slope)
        falling = [method for method, slope in slopes.items() if slope.fit.high < 0]
        lines.append(
            f"{shot}-shot: accuracy falls with R beyond the interval over splits for "
            f"{', '.join(falling) or 'no method'}; the flattest slope is that of {flattest}."
        )
    names = [
        *heads("method", "shots"),
        *heads("slope", "interval over tasks alone", group="against R"),
        *(heads("minus MAML's slope", group="against R") if with_maml else []),
        *(heads("slope", group="against the class means' divergence") if with_measured else []),
    ]
    repeats = len(next(iter(scores.accuracy.values())))
    note = (
        f"Points of accuracy per unit of divergence; least squares over {len(scores.sweep)} splits × {repeats} "
        f"{'training' if repeats == 1 else 'trainings'}, 95 % t interval in brackets. "
        "The interval over tasks alone holds for these very splits and networks."
    )
    sheets = [Sheet("Slope of accuracy against divergence", names, blocks, note), paper.sheet(5)]
    return TableFile("slopes", sheets, [*records, *paper.slope_records()], lines)


def hardest_table(scores: TransferScores, way: int) -> TableFile:
    """The paper's table 1: all methods on the split of the largest divergence."""
    name = scores.hardest.name
    values = {
        (method, shot): scores.tasks(name, method, shot) for method in scores.methods for shot in scores.shots
    }
    marks = {
        shot: column_marks(np.stack([values[method, shot] for method in scores.methods], axis=1))
        for shot in scores.shots
    }
    records: list[Fact] = []
    blocks = []
    for kind, members in (("adapts", ADAPTING), ("fixed", FIXED)):
        rows = []
        for number, method in enumerate(scores.methods):
            if method not in members:
                continue
            cells = row(method, kind)
            for shot in scores.shots:
                interval, mark = mean_interval(values[method, shot]), marks[shot][number]
                cells.append(SheetCell(percent(interval.mean, interval.half), mark))
                facts = {"source": "measured", "dataset": "", "split": name, "way": way, "shot": shot}
                facts |= {"method": method, "embedding": kind}
                records.append({**facts, **bounds(interval), "mark": mark})
            rows.append(cells)
        if rows:
            blocks.append(rows)
    names = heads("method", "embedding", *(f"{shot}-shot" for shot in scores.shots))
    note = (
        f"{_ACCURACY}. Bold: first place of its column; = where several share it, because paired sign-flip tests (5 %, "
        "Holm over all pairs of methods) do not separate them from the highest mean."
    )
    sheets = [Sheet(f"Hardest transfer: {name}, {way}-way", names, blocks, note), paper.sheet(1)]
    return TableFile("hardest", sheets, [*records, *paper.hardest_records()])


def adaptation_table(scores: TransferScores) -> TableFile:
    """Does adapting the embedding win, and more so the harder the transfer? Differences on the same tasks."""
    pairs = [pair for pair in PAIRS if set(pair) <= set(scores.methods)]
    records: list[Fact] = []
    rows = []
    for split in scores.splits:
        cells = row(split.name)
        for shot in scores.shots:
            for method, other in pairs:
                difference = stats.advantage(scores, split, method, other, shot)
                cells += row(points(difference))
                records.append(_difference_record(split, shot, method, other, "pair", difference))
            adapting, fixed = (stats.leader(scores, split, names, shot) for names in (ADAPTING, FIXED))
            if adapting is not None and fixed is not None:
                difference = stats.advantage(scores, split, adapting, fixed, shot)
                cells += row(f"{points(difference)} ({adapting} − {fixed})")
                records.append(_difference_record(split, shot, adapting, fixed, "best", difference))
        rows.append(cells)
    if not records:
        line = (
            "Neither MAML nor Finetune is among the methods, so nothing is said about adapting the embedding."
        )
        return TableFile("adaptation", [], [{"what": "adaptation", "said": line}], [line])
    kinds = [set(names) & set(scores.methods) for names in (ADAPTING, FIXED)]
    columns = [f"{method} − {other}" for method, other in pairs]
    columns += ["best adapting − best fixed"] if all(kinds) else []
    names = [*heads("split"), *((f"{shot}-shot", column) for shot in scores.shots for column in columns)]
    note = (
        "Points of accuracy on the same tasks, 95 % interval over tasks in brackets. The pairs are fixed beforehand: "
        "finetune and multiclass share a network, MAML and ANIL are trained apart. The best of several was picked on "
        "these tasks, which favours it on both sides."
    )
    lines = [_verdict(scores, shot) for shot in scores.shots]
    sheet = Sheet("Adapting the embedding", names, [rows], note, labels=1)
    return TableFile("adaptation", [sheet], records, lines)


def trainings_table(networks: Mapping[SplitTraining, str]) -> TableFile:
    """What each training came to: a limit in minutes may have cut it."""
    records: list[Fact] = []
    rows = []
    for network, path in networks.items():
        outcome = training_outcome(Path(path))
        facts = {"split": network.split, "algorithm": network.algorithm, "shot": network.shot}
        records.append({**facts, "repeat": network.repeat + 1, **outcome})
        shot, accuracy = network.shot, outcome["validation_accuracy"]
        counts = [f"{outcome['steps']:,}", f"{outcome['best_step']:,}", f"{outcome['seconds']:,.0f}"]
        judged = "–" if accuracy is None else f"{100 * accuracy:.1f}"
        shown = "–" if shot is None else str(shot)
        rows.append(row(network.split, network.algorithm, shown, *counts, judged))
    names = heads("split", "algorithm", "shots", "steps", "kept step", "seconds", "validation accuracy (%)")
    note = "The network of the step with the best accuracy on tasks of the validation classes is kept."
    return TableFile("trainings", [Sheet("Trainings", names, [rows], note)], records)


def _verdict(scores: TransferScores, shot: int) -> str:
    """The paper's question in one sentence."""
    split = scores.hardest
    adapting, fixed = (stats.leader(scores, split, names, shot) for names in (ADAPTING, FIXED))
    if adapting is None or fixed is None:
        return f"{shot}-shot: adapting and fixed embeddings are not both among the methods."
    difference = stats.advantage(scores, split, adapting, fixed, shot)
    answer = "not decided by these tasks"
    if difference.excludes(0.0):
        answer = "yes" if difference.mean > 0 else "no"
    return (
        f"{shot}-shot: does adapting the embedding win on {split.name}? {answer}: {adapting} minus {fixed} "
        f"{points(difference)} points."
    )


def _difference_record(
    split: SplitPlace, shot: int, method: str, other: str, kind: str, difference: Interval
) -> Fact:
    facts = {"split": split.name, "target": split.target, "shot": shot, "kind": kind}
    numbers = {"difference": difference.mean, "low": difference.low, "high": difference.high}
    return {**facts, "one": method, "other": other, **numbers, "tasks": difference.n}


def _slope(slope: Steepness) -> str:
    if math.isnan(slope.fit.slope):
        return "–"
    return f"{100 * slope.fit.slope:+.2f} {_brackets(slope.fit.low, slope.fit.high)}".strip()


def _brackets(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"[{100 * low:+.2f}, {100 * high:+.2f}]"


def _slope_record(method: str, shot: int, x: str, against: str, slope: Steepness) -> Fact:
    fit = slope.fit
    facts = {"source": "measured", "dataset": "", "method": method, "shot": shot, "x": x, "minus": against}
    numbers = {"slope": fit.slope, "low": fit.low, "high": fit.high, "p": fit.p}
    numbers |= {"tasks_low": slope.low, "tasks_high": slope.high}
    defined = {key: None if math.isnan(value) else value for key, value in numbers.items()}
    return {**facts, **defined, "points": fit.n}

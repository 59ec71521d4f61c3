"""The tables of the study of transfer difficulty: the paper's tables 1, 4 and 5, each beside the printed numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.engine.tables import TableFile, points
from longshot.studies.transfer import paper as paper
from longshot.studies.transfer.stats import (
    ADAPTING,
    FIXED,
    Place,
    Steepness,
    TransferScores,
    advantage,
    leader,
    spread_of_targets,
    steepness,
)

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
    records = [
        {
            "split": place.name,
            "target": place.target,
            "measured": place.measured,
            "gap": place.gap,
            "same_as": place.twin,
        }
        for place in scores.places
    ]
    block = [
        [
            SheetCell(place.name),
            SheetCell("–" if place.target is None else f"{place.target:g}"),
            SheetCell(f"{place.measured:.4f}"),
            SheetCell(f"{place.gap:.3f}"),
            SheetCell(place.twin or "–"),
        ]
        for place in scores.places
    ]
    heads = [("", name) for name in ("split", "R", "divergence of class means", "gap", "same classes as")]
    note = (
        "Asked for, and what the classes ended up with: the divergence of the two class means and their distance. An R "
        "is the divergence of ATG's centroids, which lie further out than the class means."
    )
    twins = [place for place in scores.places if place.twin]
    lines = [f"{place.name} has the same classes in every part as {place.twin}." for place in twins]
    return TableFile("splits", [Sheet("The splits", heads, [block], note, labels=1)], records, lines)


def accuracies_table(scores: TransferScores, way: int) -> TableFile:
    """The paper's table 4: splits × methods × shots; bold is the most challenging split of a method, where one is."""
    from longshot.statistics import mean_interval, welch

    hard = scores.hardest.name
    records: list[dict[str, Any]] = []
    cells: dict[tuple[str, str, int], str] = {}
    lowest: dict[tuple[str, int], str | None] = {}
    for shot in scores.shots:
        for method in scores.methods:
            means = {}
            for place in scores.places:
                found = mean_interval(scores.tasks(place.name, method, shot))
                means[place.name] = found.mean
                cells[place.name, method, shot] = _percent(found.mean, found.half)
                facts = {
                    "source": "measured",
                    "split": place.name,
                    "way": way,
                    "shot": shot,
                    "method": method,
                }
                repeats = len(scores.accuracy[place.name, method, shot])
                numbers = {"mean": found.mean, "low": found.low, "high": found.high, "tasks": found.n}
                records.append({**facts, **numbers, "trainings": repeats})
            lowest[method, shot] = _lowest(scores, method, shot, means)
    columns = [(shot, method) for shot in scores.shots for method in scores.methods]
    rows = [
        [
            SheetCell(place.name),
            *(
                SheetCell(cells[place.name, m, s], "best" if lowest[m, s] == place.name else "")
                for s, m in columns
            ),
        ]
        for place in scores.places
    ]
    heads = [("", "split"), *((f"{shot}-shot", method) for shot, method in columns)]
    note = (
        f"{_ACCURACY}. Bold: the split on which the method does worse than on every other (Welch's t, 5 %, "
        "Bonferroni over the others)."
    )
    sheets = [Sheet(f"Accuracy by split, {way}-way", heads, [rows], note, labels=1), paper.accuracies_sheet()]
    records += paper.accuracies_records()
    lines = []
    if any(place.name == "random" for place in scores.places):
        for shot in scores.shots:
            drops = {
                m: welch(scores.tasks("random", m, shot), scores.tasks(hard, m, shot)) for m in scores.methods
            }
            told = "; ".join(f"{method} {points(drop)}" for method, drop in drops.items())
            lines.append(f"{shot}-shot, random split minus {hard}, points [95 % over tasks]: {told}.")
    return TableFile("accuracies", sheets, records, lines)


def _lowest(scores: TransferScores, method: str, shot: int, means: Mapping[str, float]) -> str | None:
    """The split on which a method does worse than on every other; None where the tasks do not tell them apart."""
    from longshot.statistics import welch

    name = min(means, key=lambda one: means[one])
    others = [other for other in means if other != name]
    level = 1 - 0.05 / max(len(others), 1)
    own = scores.tasks(name, method, shot)
    drops = [welch(own, scores.tasks(other, method, shot), level) for other in others]
    return name if drops and all(drop.high is not None and drop.high < 0 for drop in drops) else None


def slopes_table(scores: TransferScores) -> TableFile:
    """The paper's table 5: slope of accuracy against R, and the difference to MAML's."""
    records: list[dict[str, Any]] = []
    lines: list[str] = []
    if len(scores.sweep) < 2:
        told = f"A slope needs at least 2 divergences; the study has {len(scores.sweep)}."
        return TableFile("slopes", [paper.slopes_sheet()], paper.slope_records(), [told])
    blocks = []
    others = spread_of_targets(scores.places)
    for shot in scores.shots:
        block, found = [], {}
        for method in scores.methods:
            own = found[method] = steepness(scores, method, shot)
            row = [
                SheetCell(method),
                SheetCell(str(shot)),
                SheetCell(_slope(own)),
                SheetCell(_bounds(own.low, own.high)),
            ]
            records.append(_slope_record(method, shot, "R", "", own))
            if "maml" in scores.methods:
                if method == "maml":
                    row.append(SheetCell("–"))
                else:
                    differs = steepness(scores, method, shot, against="maml")
                    row.append(SheetCell(_slope(differs)))
                    records.append(_slope_record(method, shot, "R", "maml", differs))
            if others:
                by_gap = steepness(scores, method, shot, measured=True)
                row.append(SheetCell(_slope(by_gap)))
                records.append(_slope_record(method, shot, "measured", "", by_gap))
            block.append(row)
        flattest = max(found, key=lambda name: found[name].fit.slope)
        falling = [name for name, one in found.items() if one.fit.high < 0]
        lines.append(
            f"{shot}-shot: accuracy falls with R beyond the interval over splits for "
            f"{_listed(falling)}; the flattest slope is that of {flattest}."
        )
        blocks.append(block)
    heads = [
        ("", "method"),
        ("", "shots"),
        ("against R", "slope"),
        ("against R", "interval over tasks alone"),
    ]
    heads += [("against R", "minus MAML's slope")] if "maml" in scores.methods else []
    heads += [("against the class means' divergence", "slope")] if others else []
    count = len(scores.sweep)
    repeats = len(next(iter(scores.accuracy.values())))
    note = (
        f"Points of accuracy per unit of divergence; least squares over {count} splits × {repeats} "
        f"{'training' if repeats == 1 else 'trainings'}, 95 % t interval in brackets. "
        "The interval over tasks alone holds for these very splits and networks."
    )
    sheets = [Sheet("Slope of accuracy against divergence", heads, blocks, note), paper.slopes_sheet()]
    return TableFile("slopes", sheets, [*records, *paper.slope_records()], lines)


def hardest_table(scores: TransferScores, way: int) -> TableFile:
    """The paper's table 1: all methods on the split of the largest divergence."""
    from longshot.reports.summary import column_marks
    from longshot.statistics import mean_interval

    place = scores.hardest
    marks = {
        shot: column_marks(np.stack([scores.tasks(place.name, m, shot) for m in scores.methods], axis=1))
        for shot in scores.shots
    }
    records: list[dict[str, Any]] = []
    blocks = []
    for kind, names in (("adapts", ADAPTING), ("fixed", FIXED)):
        rows = []
        for number, method in enumerate(scores.methods):
            if method not in names:
                continue
            row = [SheetCell(method), SheetCell(kind)]
            for shot in scores.shots:
                found = mean_interval(scores.tasks(place.name, method, shot))
                mark = marks[shot][number]
                row.append(SheetCell(_percent(found.mean, found.half), mark))
                facts = {"source": "measured", "dataset": "", "split": place.name, "way": way, "shot": shot}
                numbers = {"mean": found.mean, "low": found.low, "high": found.high, "tasks": found.n}
                records.append({**facts, "method": method, "embedding": kind, **numbers, "mark": mark})
            rows.append(row)
        if rows:
            blocks.append(rows)
    heads = [("", "method"), ("", "embedding"), *(("", f"{shot}-shot") for shot in scores.shots)]
    note = (
        f"{_ACCURACY}. Bold: first place of its column; = where several share it, because paired sign-flip tests (5 %, "
        "Holm over all pairs of methods) do not separate them from the highest mean."
    )
    sheets = [
        Sheet(f"Hardest transfer: {place.name}, {way}-way", heads, blocks, note),
        paper.hardest_sheet(),
    ]
    records += paper.hardest_records()
    return TableFile("hardest", sheets, records)


def adaptation_table(scores: TransferScores) -> TableFile:
    """Does adapting the embedding win, and more so the harder the transfer? Differences on the same tasks."""
    pairs = [pair for pair in PAIRS if set(pair) <= set(scores.methods)]
    records: list[dict[str, Any]] = []
    rows = []
    for place in scores.places:
        row = [SheetCell(place.name)]
        for shot in scores.shots:
            for one, other in pairs:
                found = advantage(scores, place, one, other, shot)
                row.append(SheetCell(points(found)))
                records.append(_difference(place, shot, one, other, "pair", found))
            best = leader(scores, place, ADAPTING, shot), leader(scores, place, FIXED, shot)
            if best[0] is not None and best[1] is not None:
                found = advantage(scores, place, best[0], best[1], shot)
                row.append(SheetCell(f"{points(found)} ({best[0]} − {best[1]})"))
                records.append(_difference(place, shot, best[0], best[1], "best", found))
        rows.append(row)
    if not records:
        told = (
            "Neither MAML nor Finetune is among the methods, so nothing is said about adapting the embedding."
        )
        return TableFile("adaptation", [], [{"what": "adaptation", "said": told}], [told])
    both = bool(set(ADAPTING) & set(scores.methods)) and bool(set(FIXED) & set(scores.methods))
    names = [f"{one} − {other}" for one, other in pairs] + (["best adapting − best fixed"] if both else [])
    heads = [("", "split"), *((f"{shot}-shot", name) for shot in scores.shots for name in names)]
    note = (
        "Points of accuracy on the same tasks, 95 % interval over tasks in brackets. The pairs are fixed beforehand: "
        "finetune and multiclass share a network, MAML and ANIL are trained apart. The best of several was picked on "
        "these tasks, which favours it on both sides."
    )
    lines = [_verdict(scores, shot) for shot in scores.shots]
    return TableFile(
        "adaptation", [Sheet("Adapting the embedding", heads, [rows], note, labels=1)], records, lines
    )


def trainings_table(networks: Mapping[SplitTraining, str]) -> TableFile:
    """What each training came to: a limit in minutes may have cut it."""
    from longshot.training.folders import read_trained

    records: list[dict[str, Any]] = []
    for one, path in networks.items():
        found = read_trained(Path(path))
        facts = {"split": one.split, "algorithm": one.algorithm, "shot": one.shot, "repeat": one.repeat + 1}
        done = {"steps": found.steps, "best_step": found.best_step, "seconds": round(found.seconds, 1)}
        records.append({**facts, **done, "validation_accuracy": found.validation_accuracy})
    rows = [
        [
            SheetCell(record["split"]),
            SheetCell(record["algorithm"]),
            SheetCell("–" if record["shot"] is None else str(record["shot"])),
            SheetCell(f"{record['steps']:,}"),
            SheetCell(f"{record['best_step']:,}"),
            SheetCell(f"{record['seconds']:,.0f}"),
            SheetCell(_optional(record["validation_accuracy"])),
        ]
        for record in records
    ]
    heads = ("split", "algorithm", "shots", "steps", "kept step", "seconds", "validation accuracy (%)")
    note = "The network of the step with the best accuracy on tasks of the validation classes is kept."
    return TableFile("trainings", [Sheet("Trainings", [("", head) for head in heads], [rows], note)], records)


def _optional(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _verdict(scores: TransferScores, shot: int) -> str:
    """The paper's question in one sentence."""
    place = scores.hardest
    one, other = leader(scores, place, ADAPTING, shot), leader(scores, place, FIXED, shot)
    if one is None or other is None:
        return f"{shot}-shot: adapting and fixed embeddings are not both among the methods."
    found = advantage(scores, place, one, other, shot)
    answer = "not decided by these tasks"
    if found.low is not None and found.high is not None:
        answer = "yes" if found.low > 0 else "no" if found.high < 0 else answer
    return (
        f"{shot}-shot: does adapting the embedding win on {place.name}? {answer}: {one} minus {other} "
        f"{points(found)} points."
    )


def _difference(place: Place, shot: int, one: str, other: str, kind: str, found: Any) -> dict[str, Any]:
    facts = {
        "split": place.name,
        "target": place.target,
        "shot": shot,
        "kind": kind,
        "one": one,
        "other": other,
    }
    return {**facts, "difference": found.mean, "low": found.low, "high": found.high, "tasks": found.n}


def _percent(mean: float, half: float | None) -> str:
    return f"{100 * mean:.2f}" + ("" if half is None else f" ± {100 * half:.2f}")


def _slope(one: Steepness) -> str:
    return f"{100 * one.fit.slope:+.2f} {_bounds(one.fit.low, one.fit.high)}".strip()


def _bounds(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"[{100 * low:+.2f}, {100 * high:+.2f}]"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no method"


def _slope_record(method: str, shot: int, x: str, against: str, one: Steepness) -> dict[str, Any]:
    fit = one.fit
    numbers = {"slope": fit.slope, "low": fit.low, "high": fit.high, "p": fit.p}
    over_tasks = {"tasks_low": one.low, "tasks_high": one.high}
    facts = {"source": "measured", "dataset": "", "method": method, "shot": shot, "x": x, "minus": against}
    kept = {key: None if math.isnan(value) else value for key, value in {**numbers, **over_tasks}.items()}
    return {**facts, **kept, "points": fit.n}

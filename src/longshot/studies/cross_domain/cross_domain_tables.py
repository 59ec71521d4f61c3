"""The tables of the study of domains beside the printed numbers (5 to 10), and its pictures (figures 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from longshot.base import Bools, Floats, Ints
from longshot.reports import PALETTE, Sheet, SheetCell, column_marks, heads, row
from longshot.statistics import Interval, dataset_difficulty, mean_interval, percent, welch
from longshot.studies.cross_domain.cross_domain_cells import (
    BASELINES,
    CONDITIONS,
    CROSS_DOMAIN,
    PAPERS,
    WITHIN_DOMAIN,
    Condition,
    DomainLab,
    DomainScores,
    KindTasks,
    domain_scores,
    printed_share,
    printed_sheet,
    sweep_number,
)
from longshot.studies.engine.study_page import Drawings, Picture, figure_of, means_and_halves
from longshot.studies.engine.study_tables import (
    Fact,
    TableColumn,
    TableFile,
    TableRow,
    bounds,
    present,
    score_table,
)

# Tasks behind a row of ways or shots: neighbours are put together until there are so many. The sign-flip test of 10
# tasks can reach p = 2 / 2¹⁰, which Holm's factor of 10 pairs of five baselines leaves below 5 %; of 8 it cannot.
FEWEST = 10
_SCORES = (
    "normalised accuracy in % (0: guessing, 100: all right), ± half the 95 % interval over tasks (Student t)"
)
_MARKS = (
    "Bold: first place of its row among the inductive baselines; = where several share it, because paired sign-flip "
    "tests (5 %, Holm over all pairs of the row) do not separate them from the highest mean."
)


def all_tables(lab: DomainLab) -> list[TableFile]:
    """Make all tables of the study."""
    scores, starts = domain_scores(lab), lab.settings.starts
    return present(
        [
            methods_table(scores, starts),
            starts_table(scores) if len(starts) > 1 else None,
            steps_table(scores, starts),
            *(domains_table(scores, start) for start in starts),
            *(sweep_table(name, scores, start) for name in ("ways", "shots") for start in starts),
            difficulty_table(scores, starts),
        ]
    )


def _rows(scores: DomainScores) -> list[TableRow]:
    """Make a row per baseline; inductive ones first, each setting ranked by itself."""
    return [
        TableRow((method, setting), setting, {"method": method, "setting": setting})
        for method, setting in sorted(scores.setting.items(), key=lambda entry: entry[1])
    ]


def methods_table(scores: DomainScores, starts: Sequence[str]) -> TableFile:
    """Make the paper's table 5: baselines from both starts, in its two conditions and the two in between."""
    columns = [
        TableColumn(condition.name, start, {"column": f"{condition.name}, {start}"})
        for condition in CONDITIONS
        for start in starts
    ]
    by_column = {f"{each.name}, {start}": (each, start) for each in CONDITIONS for start in starts}

    def values(line: TableRow, column: TableColumn) -> Floats | None:
        return scores.get(*by_column[column.facts["column"]], line.facts["method"])

    note = (
        f"Means over the {len(scores.tasks[WITHIN_DOMAIN.kind]):,} tasks of a column: {_SCORES}. Within-domain: "
        "networks trained on other classes of the same domain, tasks of one shape. Cross-domain: networks trained on "
        "other domains, tasks of any shape. Between them: first the network changes, then the classes that tasks are "
        "made of; from the third to the last it is the shape."
    )
    return score_table(
        "methods",
        "Baselines within and across domains",
        ("baseline", "setting"),
        _rows(scores),
        columns,
        values,
        note=note,
        digits=1,
        published=[printed_sheet(5)],
    )


def starts_table(scores: DomainScores) -> TableFile:
    """Make the table of pre-trained minus random weights, on the same tasks."""
    records: list[Fact] = []
    rows = []
    for method in scores.setting:
        shown = [method]
        for condition in CONDITIONS:
            before, after = (scores.get(condition, start, method) for start in ("random", "pre-trained"))
            if before is None or after is None:
                shown.append("–")
                continue
            interval = mean_interval(after - before)
            shown.append(interval.with_bounds())
            records.append({"method": method, "column": condition.name, **bounds(interval)})
        rows.append(row(*shown))
    names = heads("baseline", *(condition.name for condition in CONDITIONS))
    note = "Points of normalised accuracy, pre-trained − random, paired by task, with 95 % intervals (Student t)."
    return TableFile(
        "starts", [Sheet("What pre-trained weights bring", names, [rows], note, labels=1)], records or [{}]
    )


def differences(scores: DomainScores, start: str, method: str) -> dict[str, Interval]:
    """Compute within − cross, and the three steps that add up to it."""
    cells = [scores.get(condition, start, method) for condition in CONDITIONS]
    if any(cell is None for cell in cells):
        return {}
    own, other, everything, varied = (cell for cell in cells if cell is not None)
    return {
        "within − cross": welch(own, varied),
        "own − other domains' network": mean_interval(own - other),
        "held-out − all classes": welch(other, everything),
        "one shape − any shape": welch(everything, varied),
    }


def steps_table(scores: DomainScores, starts: Sequence[str]) -> TableFile:
    """Make the table that takes the step from within to across domains apart."""
    records: list[Fact] = []
    rows = []
    for start in starts:
        for method in scores.setting:
            parts = differences(scores, start, method)
            shown = [interval.with_bounds() for interval in parts.values()] or ["–"] * 4
            rows.append(row(method, start, *shown))
            for name, interval in parts.items():
                records.append({"method": method, "start": start, "what": name, **bounds(interval)})
    parted = ("own − other domains' network", "held-out − all classes", "one shape − any shape")
    names = [*heads("baseline", "weights", "within − cross"), *heads(*parted, group="of that")]
    note = (
        "Points of normalised accuracy with 95 % intervals over tasks (Welch; the first part paired by task). The "
        "first number is the sum of the other three. All networks had the same budget. They hold for these very "
        "domains and networks. Train-from-scratch has no training to differ in."
    )
    sheet = Sheet("From within to across domains, one thing at a time", names, [rows], note)
    return TableFile("differences", [sheet], records or [{}])


def domains_table(scores: DomainScores, start: str) -> TableFile:
    """Make the table of every domain in the paper's two conditions."""
    columns = [
        TableColumn(condition.name, domain, {"column": condition.name, "domain": domain, "start": start})
        for condition in PAPERS
        for domain in scores.domains
    ]
    conditions = {condition.name: condition for condition in PAPERS}

    def values(line: TableRow, column: TableColumn) -> Floats | None:
        condition = conditions[column.group]
        cell = scores.get(condition, start, line.facts["method"])
        return None if cell is None else cell[scores.tasks[condition.kind].domain == column.head]

    return score_table(
        f"domains-{start}",
        f"Domain by domain, {start} weights",
        ("baseline", "setting"),
        _rows(scores),
        columns,
        values,
        note=f"Per domain: {_SCORES}.",
        digits=1,
    )


def sweep_table(name: str, scores: DomainScores, start: str) -> TableFile | None:
    """Make one of the paper's tables 6 to 9: cross-domain tasks by their number of ways or shots."""
    methods, tasks = scores.methods(CROSS_DOMAIN, start), scores.tasks[CROSS_DOMAIN.kind]
    if not methods:
        return None
    table = scores.matrix(CROSS_DOMAIN, start)
    settings = [scores.setting[method] for method in methods]
    records: list[Fact] = []
    rows = []
    for label, mask in grouped(tasks.way if name == "ways" else tasks.shot):
        cells = row(label, str(int(mask.sum())))
        marks = column_marks(table[mask], settings)
        for method, values, mark in zip(methods, table[mask].T, marks, strict=True):
            interval = mean_interval(values)
            cells.append(SheetCell(interval.text(), mark))
            facts = {name: label, "column": method}
            records.append({**facts, **bounds(interval), "mark": mark})
        rows.append(cells)
    note = (
        f"Cross-domain tasks: {_SCORES}. {_MARKS} Neighbouring {name} stand together where there are fewer than "
        f"{FEWEST} tasks."
    )
    title = f"Cross-domain by {name}, {start} weights"
    sheet = Sheet(title, heads(name, "tasks", *methods), [rows], note)
    number = sweep_number(name, start)
    return TableFile(f"{name}-{start}", [sheet, printed_sheet(number)], records)


def difficulty_table(scores: DomainScores, starts: Sequence[str]) -> TableFile | None:
    """Make the paper's table 10: what the best baseline misses, and what the choice of baseline decides."""
    records: list[Fact] = []
    rows: dict[str, list[SheetCell]] = {}
    for condition in PAPERS:
        labels, table = all_cells(scores, condition, starts)
        if not labels:
            return None
        domains = scores.tasks[condition.kind].domain
        for domain in dataset_difficulty(table, domains):
            cells = rows.setdefault(domain.dataset, row(domain.dataset))
            means = table[domains == domain.dataset].mean(axis=0)
            cells += row(*(f"{percent(means[n])} ({labels[n]})" for n in (domain.worst, domain.best)))
            for kind, interval in (("modelling", domain.modelling), ("intrinsic", domain.intrinsic)):
                cells += row(interval.text())
                facts = {"dataset": domain.dataset, "column": condition.name}
                records.append({**facts, "metric": f"{kind} difficulty", **bounds(interval), "mark": ""})
    parts = ("worst", "best", "modelling difficulty", "intrinsic difficulty")
    groups = [heads(*parts, group=condition.name) for condition in PAPERS]
    note = (
        "Normalised accuracy in %. Modelling difficulty: best − worst baseline on the same tasks, from either start; "
        "intrinsic difficulty: 100 − best; ± half the 95 % interval over tasks, given which was best and worst here. "
        "The paper takes train-from-scratch from random weights for the worst and MetaDelta++ from pre-trained ones "
        "for the best everywhere."
    )
    names = [*heads("domain"), *groups[0], *groups[1]]
    sheet = Sheet("Intrinsic and modelling difficulty", names, [list(rows.values())], note, labels=1)
    return TableFile("difficulty", [sheet, printed_sheet(10)], records)


def all_cells(scores: DomainScores, condition: Condition, starts: Sequence[str]) -> tuple[list[str], Floats]:
    """Return labels of every baseline from every start, and their scores side by side [T, M]."""
    labels = [f"{method}, {start}" for start in starts for method in scores.methods(condition, start)]
    return labels, np.concatenate([scores.matrix(condition, start) for start in starts], axis=1)


def grouped(values: Ints, least: int = FEWEST) -> list[tuple[str, Bools]]:
    """Return label and mask [T] of every value, neighbours joined until ``least`` tasks share a group."""
    ranges: list[tuple[int, int]] = []
    low: int | None = None
    for value in np.unique(values).tolist():
        low = value if low is None else low
        if int(((values >= low) & (values <= value)).sum()) >= least:
            ranges.append((low, value))
            low = None
    if low is not None:
        last = int(values.max())
        ranges = [*ranges[:-1], (ranges[-1][0], last)] if ranges else [(low, last)]
    return [
        (str(low) if low == high else f"{low}–{high}", (values >= low) & (values <= high))
        for low, high in ranges
    ]


_AXIS = "normalised accuracy (%)"
_INK = "#1b1f24"
_COLOURS = dict(
    zip(BASELINES, PALETTE, strict=False)
)  # a baseline has its colour, whichever others are there
_TITLES = {
    WITHIN_DOMAIN: "Within-domain: other classes of the same domain",
    CROSS_DOMAIN: "Cross-domain: domains not trained on",
}


def all_figures(lab: DomainLab) -> Drawings:
    """Map each figure's name to a function that draws it to a path without suffix."""
    scores, starts, dataset = domain_scores(lab), lab.settings.starts, lab.data.dataset.name
    drawings: Drawings = {
        "methods": Picture(
            "Baselines within and across domains from either start (the paper's figure 1). Diamonds: published, on "
            "other data.",
            partial(_methods, scores, starts, dataset),
        )
    }
    for start in starts:
        if scores.methods(CROSS_DOMAIN, start):
            drawings[f"ways-and-shots-{start}"] = Picture(
                f"Cross-domain tasks by ways and by shots, {start} weights (figure 2).",
                partial(_sweeps, scores, start, dataset),
            )
    if all(all_cells(scores, condition, starts)[0] for condition in PAPERS):
        drawings["difficulty"] = Picture(
            "How hard each domain is: what the worst and the best baseline reach, and what is left (figure 3).",
            partial(_difficulty, scores, starts, dataset),
        )
    return drawings


def _methods(scores: DomainScores, starts: Sequence[str], dataset: str, path: Path) -> None:
    """Draw bars of both conditions with intervals, pale from random weights; diamonds are the paper's."""
    diamond: Any = {"linestyle": "none", "marker": "D", "markersize": 5, "markerfacecolor": "white"}
    error: Any = {"fmt": "none", "ecolor": _INK, "elinewidth": 1.1, "capsize": 2.5}
    width = 0.8 / len(starts)
    pale = "left bars: random weights, right bars: pre-trained" if len(starts) > 1 else f"{starts[0]} weights"
    with _panels(path, (10.4, 4.4), f"{dataset}: the baselines; {pale}", ncols=2) as panels:
        for axes, condition in zip(panels, PAPERS, strict=True):
            for number, start in enumerate(starts):
                methods = scores.methods(condition, start)
                x = np.array([list(scores.setting).index(m) for m in methods], np.float64)
                x += (number - (len(starts) - 1) / 2) * width
                mean, half = means_and_halves(scores.values[condition, start, m] for m in methods)
                shade = 0.45 if start == "random" and len(starts) > 1 else 0.9
                colours = [_COLOURS[method] for method in methods]
                axes.bar(x, mean, 0.92 * width, color=colours, alpha=shade)
                axes.errorbar(x, mean, half, label="95 % interval over tasks", **error)
                theirs = [100 * printed_share(condition, start, method) for method in methods]
                label = "published (Meta-Album, ResNet-18): other data"
                axes.plot(x, theirs, markeredgecolor=_INK, label=label, **diamond)
            names = [method.replace("-", "-\n", 1) for method in scores.setting]
            axes.set_xticks(range(len(names)), names, fontsize=8)
            axes.axhline(0, color=_INK, linewidth=0.8)
            axes.grid(axis="y")
            tasks = scores.tasks[condition.kind]
            axes.set_title(f"{_TITLES[condition]}\n{_shape(tasks)}, {len(tasks):,} tasks")


def _sweeps(scores: DomainScores, start: str, dataset: str, path: Path) -> None:
    """Draw cross-domain tasks by ways and by shots (figure 2)."""
    tasks = scores.tasks[CROSS_DOMAIN.kind]
    title = f"{dataset}: cross-domain tasks, {start} weights, mean with its 95 % interval"
    count = len(scores.methods(CROSS_DOMAIN, start))
    with _panels(path, (9.2, 4.2), title, ncols=count, fontsize=8.5) as panels:
        for axes, name, values in zip(panels, ("ways", "shots"), (tasks.way, tasks.shot), strict=True):
            _lines(axes, scores, start, grouped(values), values)
            axes.set(xlabel=f"{name} of a task", title=f"By number of {name}")


def _lines(
    axes: Any, scores: DomainScores, start: str, groups: Sequence[tuple[str, Bools]], values: Ints
) -> None:
    """Draw one line per baseline through the mean of every group of neighbouring values."""
    centres = np.array([float(values[mask].mean()) for _, mask in groups])
    width = 0.012 * max(1.0, float(np.ptp(values)))
    style: Any = {"marker": "o", "markersize": 4, "linewidth": 1.6, "elinewidth": 1}
    methods = scores.methods(CROSS_DOMAIN, start)
    for number, method in enumerate(methods):
        own = scores.values[CROSS_DOMAIN, start, method]
        mean, half = means_and_halves(own[mask] for _, mask in groups)
        x = centres + (number - (len(methods) - 1) / 2) * width
        axes.errorbar(x, mean, half, color=_COLOURS[method], label=method, **style)
    axes.set_xticks(centres, [label for label, _ in groups], fontsize=8.5)
    axes.axhline(0, color=_INK, linewidth=0.8)
    axes.grid(axis="y")


def _difficulty(scores: DomainScores, starts: Sequence[str], dataset: str, path: Path) -> None:
    """Draw stacked bars per domain (figure 3): worst baseline, modelling and intrinsic difficulty."""
    size = (max(7.0, 2.6 + 1.3 * len(scores.domains)), 4.4)
    with _panels(path, size, f"{dataset}: how hard the domains are", ncols=3) as panels:
        for axes, condition in zip(panels, PAPERS, strict=True):
            _, table = all_cells(scores, condition, starts)
            difficulties = dataset_difficulty(table, scores.tasks[condition.kind].domain)
            best = np.array([100 * (1 - domain.intrinsic.mean) for domain in difficulties])
            rise = np.array([100 * domain.modelling.mean for domain in difficulties])
            x = np.arange(len(difficulties))
            axes.bar(x, best - rise, 0.62, color=PALETTE[0], label="worst baseline")
            axes.bar(x, rise, 0.62, bottom=best - rise, color=PALETTE[5], label="modelling difficulty")
            axes.bar(x, 100 - best, 0.62, bottom=best, color=PALETTE[2], label="intrinsic difficulty")
            crowded = len(difficulties) > 6
            names = [domain.dataset for domain in difficulties]
            axes.set_xticks(x, names, rotation=35 if crowded else 0, ha="right" if crowded else "center")
            axes.axhline(0, color=_INK, linewidth=0.8)
            axes.set_ylim(min(0.0, float((best - rise).min()) - 2), 100)
            axes.set_title(f"{condition.name.capitalize()}\n{_shape(scores.tasks[condition.kind])}")


def _shape(tasks: KindTasks) -> str:
    """Describe the shape of the tasks: ``5-way 5-shot`` or ``2–20-way 1–20-shot``."""

    def span(values: Ints) -> str:
        low, high = int(values.min()), int(values.max())
        return str(low) if low == high else f"{low}–{high}"

    return f"{span(tasks.way)}-way {span(tasks.shot)}-shot"


@contextmanager
def _panels(
    path: Path, size: tuple[float, float], title: str, *, ncols: int, fontsize: float = 9
) -> Iterator[Any]:
    """Open two panels that share an axis of accuracy, with a title above and one legend below."""
    with figure_of(path, size) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        yield panels
        panels[0].set_ylabel(_AXIS)
        handles, labels = panels[0].get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        style: Any = {"ncols": ncols, "fontsize": fontsize}
        figure.legend(unique.values(), unique.keys(), loc="outside lower center", **style)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)

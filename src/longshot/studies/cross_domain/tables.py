"""The tables of the study of domains: the paper's tables 5 to 10, each beside the printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from longshot.core.arrays import Bools, Floats, Ints
from longshot.reports.sheets import Sheet, SheetCell
from longshot.reports.summary import column_marks
from longshot.statistics import dataset_difficulty, mean_interval
from longshot.studies.cross_domain import paper as paper
from longshot.studies.cross_domain.claims import claims_table, differences_table
from longshot.studies.cross_domain.plan import RANDOM
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, SettingTasks, TasksBySetting
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.cross_domain.training import DomainTraining, best_validation, seconds_of
from longshot.studies.engine.tables import Fact, TableFile, bounds, heads, percent, row

# Tasks behind a row of ways or shots: neighbours are put together until there are so many. The sign-flip test of 10
# tasks can reach p = 2 / 2¹⁰, which Holm's factor of 10 pairs of five baselines leaves below 5 %; of 8 it cannot.
FEWEST = 10
_SCORES = (
    "normalised accuracy in % (0: guessing, 100: all right), ± half the 95 % interval over tasks (Student t)"
)
_MARKS = (
    "Bold: alone at the first place of its {group}; = where several share it, because paired sign-flip tests (5 %, "
    "Holm over all pairs) do not separate them from the highest mean."
)
# which tasks, trained on what → what a column is headed with
_GROUPS = {
    (WITHIN, OWN): "within-domain",
    (CROSS, OTHER): "cross-domain",
    (WITHIN, OTHER): "within tasks, other domains",
}


def tables(
    settings: CrossDomainSettings, tasks: TasksBySetting, networks: Mapping[DomainTraining, Path]
) -> list[TableFile]:
    """Every table of the study."""
    methods = settings.methods
    random = settings.backbone == RANDOM
    return [
        methods_table(methods, tasks),
        differences_table(methods, tasks),
        domains_table(methods, tasks),
        sweep_table("ways", methods, tasks[CROSS], tasks[CROSS].way, 6 if random else 7),
        sweep_table("shots", methods, tasks[CROSS], tasks[CROSS].shot, 8 if random else 9),
        difficulty_table(methods, tasks),
        claims_table(methods, tasks, random=random),
        *([trainings_table(settings, networks)] if networks else []),
    ]


def methods_table(methods: Sequence[str], tasks: TasksBySetting) -> TableFile:
    """The paper's table 5: baselines in both settings, and shared networks on the within-domain tasks."""
    names = heads("baseline")
    rows = {method: row(method) for method in methods}
    records: list[Fact] = []
    for (setting, trained), group in _GROUPS.items():
        for metric, kind in (("normalised accuracy", "normalised"), ("accuracy", "accuracy")):
            names.append((group, metric))
            values = [getattr(tasks[setting], kind)[trained, method] for method in methods]
            for method, (cell, numbers) in zip(methods, _marked(np.stack(values, axis=1)), strict=True):
                rows[method].append(cell)
                facts = {"source": "measured", "method": method, "column": group, "metric": metric}
                records.append({**facts, **numbers})
    note = (
        f"Means over the {len(tasks[WITHIN]):,} tasks of a setting: {_SCORES}. {_MARKS.format(group='column')} "
        "Within-domain: networks trained on other classes of the same domain, tasks of one shape; cross-domain: "
        "networks trained on other domains, tasks of any shape; last: those networks on the within-domain tasks."
    )
    title = "Baselines within and across domains"
    sheets = [Sheet(title, names, [list(rows.values())], note, labels=1), paper.sheet(5)]
    return TableFile("methods", sheets, [*records, *paper.records(5)])


def domains_table(methods: Sequence[str], tasks: TasksBySetting) -> TableFile:
    """Every domain in both settings."""
    columns = [(WITHIN, OWN), (CROSS, OTHER)]
    rows: list[list[SheetCell]] = []
    records: list[Fact] = []
    for domain in dict.fromkeys(tasks[WITHIN].domain.tolist()):
        cells = row(domain)
        for setting, trained in columns:
            scores = tasks[setting].scores(trained, methods)[tasks[setting].domain == domain]
            titles = [f"{setting}, {method}" for method in methods]
            cells += _row_of_methods(scores, titles, records, {"domain": domain})
        rows.append(cells)
    names = [*heads("domain"), *((_GROUPS[column], method) for column in columns for method in methods)]
    note = f"Per domain: {_SCORES}. {_MARKS.format(group='row and setting')}"
    return TableFile("domains", [Sheet("Domain by domain", names, [rows], note, labels=1)], records)


def sweep_table(
    name: str, methods: Sequence[str], tasks: SettingTasks, values: Ints, printed: int
) -> TableFile:
    """The paper's tables 6 to 9: cross-domain tasks by their number of ways or shots."""
    records: list[Fact] = []
    rows = []
    for label, mask in grouped(values):
        scores = tasks.scores(OTHER, methods)[mask]
        cells = _row_of_methods(scores, methods, records, {name: label})
        rows.append(row(label, str(int(mask.sum())), *cells))
    note = (
        f"Cross-domain tasks: {_SCORES}. {_MARKS.format(group='row')} Neighbouring {name} stand together where there "
        f"are fewer than {FEWEST} tasks."
    )
    sheet = Sheet(f"Cross-domain by {name}", heads(name, "tasks", *methods), [rows], note)
    return TableFile(name, [sheet, paper.sheet(printed)], [*records, *paper.records(printed)])


def difficulty_table(methods: Sequence[str], tasks: TasksBySetting) -> TableFile:
    """The paper's table 10 and figure 3: what the best baseline leaves, and what the choice of baseline decides."""
    records: list[Fact] = []
    rows: dict[str, list[SheetCell]] = {}
    for setting, trained in ((WITHIN, OWN), (CROSS, OTHER)):
        scores = tasks[setting].scores(trained, methods)
        for domain in dataset_difficulty(scores, tasks[setting].domain):
            cells = rows.setdefault(domain.dataset, row(domain.dataset))
            means = scores[tasks[setting].domain == domain.dataset].mean(axis=0)
            cells += row(*(f"{100 * means[n]:.1f} ({methods[n]})" for n in (domain.worst, domain.best)))
            for kind, interval in (("modelling", domain.modelling), ("intrinsic", domain.intrinsic)):
                cells += row(percent(interval.mean, interval.half, 1))
                facts = {"source": "measured", "dataset": domain.dataset, "column": setting}
                metric = f"{kind} difficulty"
                records.append({**facts, "metric": metric, **bounds(interval), "mark": ""})
    parts = ("worst", "best", "modelling difficulty", "intrinsic difficulty")
    names = [*heads("domain"), *heads(*parts, group=WITHIN), *heads(*parts, group=CROSS)]
    note = (
        "Normalised accuracy in %. Modelling difficulty: best − worst baseline on the same tasks; intrinsic "
        "difficulty: 100 − best; ± half the 95 % interval over tasks, given which was best and worst here. The paper's "
        "best is MetaDelta++ with pre-trained weights, which this study does not run."
    )
    title = "Intrinsic and modelling difficulty"
    sheets = [Sheet(title, names, [list(rows.values())], note, labels=1), paper.sheet(10)]
    return TableFile("difficulty", sheets, [*records, *paper.records(10)])


def trainings_table(settings: CrossDomainSettings, networks: Mapping[DomainTraining, Path]) -> TableFile:
    """What each training came to, and which of its validations chose the network."""
    records: list[Fact] = []
    rows = []
    for network, path in networks.items():
        best, legs = best_validation(path), network.legs(settings)
        facts = {
            "run": network.run + 1,
            "trained_on": network.domain or OTHER,
            "algorithm": network.algorithm,
        }
        done = {"tasks": network.amounts(settings)[0], "steps": legs[-1], "validations": len(legs)}
        done["kept_step"] = best["step"]
        chosen = {key: best[key] for key in ("accuracy", "low", "high")}
        seconds = seconds_of(path)
        records.append({**facts, **done, **chosen, "seconds": seconds})
        texts = [str(fact) for fact in facts.values()] + [f"{count:,}" for count in done.values()]
        rows.append(row(*texts, f"{100 * best['accuracy']:.1f}", f"{seconds:,.1f}"))
    names = heads(
        *("run", "trained on", "algorithm", "tasks or batches", "steps", "validations", "kept step"),
        *("validation accuracy (%)", "seconds"),
    )
    note = (
        "The network of the step with the best accuracy on validation tasks is kept. Own networks are validated on "
        "other classes of their domain, shared ones on other domains: their validation accuracies do not compare."
    )
    return TableFile("trainings", [Sheet("Trainings", names, [rows], note, labels=3)], records)


def grouped(values: Ints, least: int = FEWEST) -> list[tuple[str, Bools]]:
    """Label and mask [T] of every value, neighbours put together until ``least`` tasks share a group."""
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


def _row_of_methods(
    scores: Floats, titles: Sequence[str], records: list[Fact], facts: Fact
) -> list[SheetCell]:
    """Cells of one row [T, M], and the same numbers as records."""
    cells = []
    for title, (cell, numbers) in zip(titles, _marked(scores), strict=True):
        cells.append(cell)
        column = {"column": title, "metric": "normalised accuracy"}
        records.append({"source": "measured", **facts, **column, **numbers})
    return cells


def _marked(scores: Floats) -> list[tuple[SheetCell, Fact]]:
    """Cell and numbers of every column of [T, M]; who shares the first place has =, who is alone there is bold."""
    marked = []
    for values, mark in zip(scores.T, column_marks(scores), strict=True):
        interval = mean_interval(values)
        text = percent(interval.mean, interval.half, 1)
        cell = SheetCell(f"{text} =") if mark == "tied" else SheetCell(text, mark)
        marked.append((cell, {**bounds(interval), "mark": mark}))
    return marked

"""The tables of the study of domains: the paper's tables 5 to 10, each beside the printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.reports.sheets import Sheet, SheetCell
from longshot.studies.cross_domain import paper as paper
from longshot.studies.cross_domain.claims import claims_table, differences_table
from longshot.studies.cross_domain.plan import RANDOM
from longshot.studies.cross_domain.scores import CROSS, OTHER, OWN, WITHIN, Floats, SettingTasks
from longshot.studies.cross_domain.training import DomainTraining, kept, seconds_of
from longshot.studies.engine.tables import TableFile

# Tasks behind a row of ways or shots: neighbours are put together until there are so many. The sign-flip test of 10
# tasks can reach p = 2 / 2¹⁰, which Holm's factor of 10 pairs of five baselines leaves below 5 %; of 8 it cannot.
FEWEST = 10
_SCORES = (
    "normalised accuracy in % (0: guessing, 100: all right), ± half the 95 % interval over tasks (Student t)"
)
_MARKS = (
    "Bold: alone at the first place of its {what}; = where several share it, because paired sign-flip tests (5 %, Holm "
    "over all pairs) do not separate them from the highest mean."
)
# which tasks, trained on what → what a column is headed with
_GROUPS = {
    (WITHIN, OWN): "within-domain",
    (CROSS, OTHER): "cross-domain",
    (WITHIN, OTHER): "within tasks, other domains",
}


def tables(
    settings: Mapping[str, Any], tasks: Mapping[str, SettingTasks], networks: Mapping[DomainTraining, Path]
) -> list[TableFile]:
    """Every table of the study."""
    methods = settings["methods"]
    random = settings["backbone"] == RANDOM
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


def methods_table(methods: Sequence[str], tasks: Mapping[str, SettingTasks]) -> TableFile:
    """The paper's table 5: baselines in both settings, and shared networks on the within-domain tasks."""
    from longshot.reports.summary import column_marks

    heads = [("", "baseline")]
    cells: dict[str, list[SheetCell]] = {method: [SheetCell(method)] for method in methods}
    records: list[dict[str, Any]] = []
    for (setting, trained), group in _GROUPS.items():
        for metric, kind in (("normalised accuracy", "normalised"), ("accuracy", "accuracy")):
            heads.append((group, metric))
            values = [getattr(tasks[setting], kind)[trained, method] for method in methods]
            for method, mine, mark in zip(
                methods, values, column_marks(np.stack(values, axis=1)), strict=True
            ):
                cells[method].append(_cell(mine, mark))
                records.append({"source": "measured", "method": method, "column": group, "metric": metric})
                records[-1] |= _numbers(mine, mark)
    note = (
        f"Means over the {len(tasks[WITHIN]):,} tasks of a setting: {_SCORES}. {_MARKS.format(what='column')} "
        "Within-domain: networks trained on other classes of the same domain, tasks of one shape; cross-domain: "
        "networks trained on other domains, tasks of any shape; last: those networks on the within-domain tasks."
    )
    title = "Baselines within and across domains"
    sheets = [Sheet(title, heads, [list(cells.values())], note, labels=1), paper.sheet(5)]
    return TableFile("methods", sheets, [*records, *paper.records(5)])


def domains_table(methods: Sequence[str], tasks: Mapping[str, SettingTasks]) -> TableFile:
    """Every domain in both settings."""
    names = list(dict.fromkeys(tasks[WITHIN].domain.tolist()))
    columns = [(WITHIN, OWN), (CROSS, OTHER)]
    rows: list[list[SheetCell]] = []
    records: list[dict[str, Any]] = []
    for name in names:
        row = [SheetCell(name)]
        for setting, trained in columns:
            mine = tasks[setting].domain == name
            row += _row(tasks[setting].scores(trained, methods)[mine], methods, records, setting, domain=name)
        rows.append(row)
    heads = [
        ("", "domain"),
        *((_GROUPS[column], method) for column in columns for method in methods),
    ]
    note = f"Per domain: {_SCORES}. {_MARKS.format(what='row and setting')}"
    return TableFile("domains", [Sheet("Domain by domain", heads, [rows], note, labels=1)], records)


def sweep_table(
    what: str, methods: Sequence[str], tasks: SettingTasks, values: NDArray[np.int64], printed: int
) -> TableFile:
    """The paper's tables 6 to 9: cross-domain tasks by their number of ways or shots."""
    records: list[dict[str, Any]] = []
    rows = []
    for label, mine in grouped(values):
        row = [SheetCell(label), SheetCell(str(int(mine.sum())))]
        rows.append(row + _row(tasks.scores(OTHER, methods)[mine], methods, records, CROSS, **{what: label}))
    heads = [("", what), ("", "tasks"), *(("", method) for method in methods)]
    note = (
        f"Cross-domain tasks: {_SCORES}. {_MARKS.format(what='row')} Neighbouring {what} stand together where there "
        f"are fewer than {FEWEST} tasks."
    )
    sheets = [Sheet(f"Cross-domain by {what}", heads, [rows], note), paper.sheet(printed)]
    return TableFile(what, sheets, [*records, *paper.records(printed)])


def difficulty_table(methods: Sequence[str], tasks: Mapping[str, SettingTasks]) -> TableFile:
    """The paper's table 10 and figure 3: what the best baseline leaves, and what the choice of baseline decides."""
    from longshot.statistics import dataset_difficulty

    records: list[dict[str, Any]] = []
    rows: dict[str, list[SheetCell]] = {}
    for setting, trained in ((WITHIN, OWN), (CROSS, OTHER)):
        scores = tasks[setting].scores(trained, methods)
        for one in dataset_difficulty(scores, tasks[setting].domain):
            row = rows.setdefault(one.dataset, [SheetCell(one.dataset)])
            mine = scores[tasks[setting].domain == one.dataset].mean(axis=0)
            for place in (one.worst, one.best):
                row.append(SheetCell(f"{100 * mine[place]:.1f} ({methods[place]})"))
            for kind, found in (("modelling", one.modelling), ("intrinsic", one.intrinsic)):
                row.append(SheetCell(_percent(found.mean, found.half)))
                facts = {
                    "source": "measured",
                    "dataset": one.dataset,
                    "column": setting,
                    "metric": f"{kind} difficulty",
                }
                numbers = {"mean": found.mean, "low": found.low, "high": found.high, "tasks": found.n}
                records.append({**facts, **numbers, "mark": ""})
    parts = ("worst", "best", "modelling difficulty", "intrinsic difficulty")
    heads = [("", "domain"), *((setting, part) for setting in (WITHIN, CROSS) for part in parts)]
    note = (
        "Normalised accuracy in %. Modelling difficulty: best − worst baseline on the same tasks; intrinsic "
        "difficulty: 100 − best; ± half the 95 % interval over tasks, given which was best and worst here. The paper's "
        "best is MetaDelta++ with pre-trained weights, which is not among these baselines."
    )
    title = "Intrinsic and modelling difficulty"
    sheets = [Sheet(title, heads, [list(rows.values())], note, labels=1), paper.sheet(10)]
    return TableFile("difficulty", sheets, [*records, *paper.records(10)])


def trainings_table(settings: Mapping[str, Any], networks: Mapping[DomainTraining, Path]) -> TableFile:
    """What each training came to, and which of its validations chose the network."""
    records = []
    for one, path in networks.items():
        best, total = kept(path), one.amounts(settings)[0]
        steps = one.legs(settings)
        facts = {"run": one.run + 1, "trained_on": one.domain or OTHER, "algorithm": one.algorithm}
        done = {"tasks": total, "steps": steps[-1], "validations": len(steps), "kept_step": best["step"]}
        chosen = {key: best[key] for key in ("accuracy", "low", "high")}
        records.append({**facts, **done, **chosen, "seconds": round(seconds_of(path), 1)})
    rows = [
        [
            *(SheetCell(str(record[key])) for key in ("run", "trained_on", "algorithm")),
            *(SheetCell(f"{record[key]:,}") for key in ("tasks", "steps", "validations", "kept_step")),
            SheetCell(f"{100 * record['accuracy']:.1f}"),
            SheetCell(f"{record['seconds']:,.1f}"),
        ]
        for record in records
    ]
    names = ("tasks or batches", "steps", "validations", "kept step", "validation accuracy (%)", "seconds")
    heads = [("", head) for head in ("run", "trained on", "algorithm", *names)]
    note = (
        "The network of the step with the best accuracy on validation tasks is kept. Own networks are validated on "
        "other classes of their domain, shared ones on other domains: their validation accuracies do not compare."
    )
    return TableFile("trainings", [Sheet("Trainings", heads, [rows], note, labels=3)], records)


def grouped(values: NDArray[np.int64], least: int = FEWEST) -> list[tuple[str, NDArray[np.bool_]]]:
    """Label and mask [T] of every value, neighbours put together until ``least`` tasks share a group."""
    found: list[tuple[int, int]] = []
    low: int | None = None
    for value in np.unique(values).tolist():
        low = value if low is None else low
        if int(((values >= low) & (values <= value)).sum()) >= least:
            found.append((low, value))
            low = None
    if low is not None:
        last = int(values.max())
        found = [*found[:-1], (found[-1][0], last)] if found else [(low, last)]
    return [
        (str(low) if low == high else f"{low}–{high}", (values >= low) & (values <= high))
        for low, high in found
    ]


def _row(
    scores: Floats, methods: Sequence[str], records: list[dict[str, Any]], setting: str, **row: str
) -> list[SheetCell]:
    """Cells of one row [T, M], and the same numbers as records."""
    from longshot.reports.summary import column_marks

    marks = column_marks(scores)
    for place, method in enumerate(methods):
        facts = {
            "source": "measured",
            **row,
            "column": f"{setting}, {method}" if "domain" in row else method,
            "metric": "normalised accuracy",
        }
        records.append({**facts, **_numbers(scores[:, place], marks[place])})
    return [_cell(scores[:, place], mark) for place, mark in enumerate(marks)]


def _numbers(values: Floats, mark: str) -> dict[str, Any]:
    from longshot.statistics import mean_interval

    found = mean_interval(values)
    return {"mean": found.mean, "low": found.low, "high": found.high, "tasks": found.n, "mark": mark}


def _cell(values: Floats, mark: str) -> SheetCell:
    from longshot.statistics import mean_interval

    found = mean_interval(values)
    text = _percent(found.mean, found.half)
    return SheetCell(f"{text} =") if mark == "tied" else SheetCell(text, mark)


def _percent(mean: float, half: float | None) -> str:
    return f"{100 * mean:.1f}" + ("" if half is None else f" ± {100 * half:.1f}")

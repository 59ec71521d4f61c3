"""The ablations of the study Hard-Meta-Dataset++.

They vary who chooses supports, by which loss, in how many steps, and among which classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from longshot.core.wording import count
from longshot.reports.sheets import Sheet
from longshot.studies.engine.tables import Fact, TableFile, heads, present, row
from longshot.studies.engine.training import slug
from longshot.studies.hard_md import paper
from longshot.studies.hard_md.scores import HardScores, Mean, cell, mean_of, ranks_of, record
from longshot.studies.hard_md.settings import OBJECTIVES, HardSettings
from longshot.studies.hard_md.testbeds import KINDS, HardTestbed, greedy_pairs, main, steps_beds

_CHOSEN = main("fixed", "difficult")  # supports as the stress test has them, of any source


def ablation_tables(
    settings: HardSettings, scores: HardScores, seconds: Mapping[str, float]
) -> list[TableFile]:
    """The tables of the ablations that were asked for and could be had."""
    makers: dict[str, Callable[[], TableFile | None]] = {
        "extraction": lambda: _extraction_table(settings, scores),
        "objectives": lambda: _objectives_table(settings, scores),
        "semantic": lambda: _semantic_table(settings, scores),
        "steps": lambda: _steps_table(settings, scores),
        "greedy": lambda: _greedy_table(settings, scores, seconds),
        "filtered": lambda: _filtered_table(settings, scores),
        "tasks": lambda: _more_tasks_table(settings, scores),
        "curated": lambda: _curated_table(settings, scores),
    }
    return present(makers[name]() for name in settings.ablations)


def _published(settings: HardSettings, name: str) -> list[Sheet]:
    return [paper.sheet(name)] if settings.published else []


def _records(
    stem: str, shape: str, label: str, title: str, sources: Sequence[str], means: Sequence[Mean | None]
) -> list[Fact]:
    """The accuracies of protonet on every source."""
    pairs = zip(sources, means, strict=True)
    return [record(stem, source, shape, label, title, "protonet", mean) for source, mean in pairs]


def _extraction_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """Does difficulty transfer? Supports chosen by one backbone, evaluated with another (the paper's table 3)."""
    chosen_by = {scores.titles[scores.judge]: _CHOSEN}
    for path, title in zip(scores.paths, scores.titles.values(), strict=True):
        if path != scores.judge_path:
            chosen_by[title] = HardTestbed("", "extraction", "fixed", "difficult", slug(path))
    title = "Supports chosen by one backbone (rows), protonet with another (columns), fixed shape"
    return _matrix(settings, scores, "extraction", title, chosen_by, "table 3")


def _objectives_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """The loss that supports are chosen by (the paper's table 2, with two more)."""
    by_objective = {
        objective: _CHOSEN
        if objective == settings.objective
        else HardTestbed("", "objectives", "fixed", "difficult", objective)
        for objective in OBJECTIVES
    }
    title = "Objective of the selection (rows), protonet, fixed shape"
    return _matrix(settings, scores, "objectives", title, by_objective, "table 2")


def _matrix(
    settings: HardSettings,
    scores: HardScores,
    stem: str,
    title: str,
    choices: Mapping[str, HardTestbed],
    published: str,
) -> TableFile | None:
    """One row per way to choose supports, one column per evaluating backbone: means over the sources."""
    sources = scores.sources("fixed")
    if not sources:
        return None
    rows = []
    records: list[Fact] = []
    for label, bed in {"uniform (nothing chosen)": main("fixed", "uniform"), **choices}.items():
        cells = row(label)
        for backbone, name in scores.titles.items():
            means = [scores.mean(bed.of_source(source), backbone) for source in sources]
            cells.append(cell(scores.overall(means)))
            records += _records(stem, "fixed", label, name, sources, means)
        rows.append(cells)
    names = [*heads("supports"), *heads(*scores.titles.values(), group="evaluated with")]
    note = f"Accuracy in %, {mean_of(sources)}; lower is harder. Judge: {scores.titles[scores.judge]}."
    sheets = [Sheet(title, names, [rows], note, 1), *_published(settings, published)]
    return TableFile(stem, sheets, records)


def _semantic_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """On top of a class sampler by meaning, by quartile of coarsity (the paper's table 1)."""
    rows = []
    records: list[Fact] = []
    judge = scores.titles[scores.judge]
    for source in scores.sources("fixed"):
        beds = {kind: HardTestbed(source, "semantic", "fixed", kind) for kind in KINDS[:2]}
        if beds["difficult"] not in scores.testbeds:
            continue
        coarsity = scores.testbeds[beds["uniform"]].table.column("coarsity").to_numpy()
        quartile = np.digitize(coarsity, np.quantile(coarsity, [0.25, 0.5, 0.75]), right=True)
        for kind, bed in beds.items():
            values = scores.accuracy(bed, scores.judge)
            if values is None:
                continue
            means = [
                Mean.of(values[quartile == number]) if (quartile == number).any() else None
                for number in range(4)
            ]
            rows.append(row(source, kind, *map(cell, means)))
            records += [
                record("semantic", source, "fixed", f"{kind}, quartile {number}", judge, "protonet", mean)
                for number, mean in enumerate(means, 1)
            ]
    if not rows:
        return None
    names = [*heads("source", "support"), *heads("1", "2", "3", "4", group="quartile of coarsity")]
    title = "Classes close in meaning, uniform and difficult supports"
    sheets = [Sheet(title, names, [rows], "Quartile 1: finest classes."), *_published(settings, "table 1")]
    return TableFile("semantic", sheets, records)


def _steps_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """More projected steps from either start, and Frank–Wolfe rounds (the paper's figures 36 to 39)."""
    sources = scores.sources("fixed")
    if not sources:
        return None
    rows = []
    records: list[Fact] = []
    for start, beds in steps_beds(settings).items():
        for number, bed in beds.items():
            means = [scores.mean(bed.of_source(source), scores.judge) for source in sources]
            search = f"{number} rounds behind 1 step" if start == "rounds" else f"{number} steps"
            began = "uniform" if start == "rounds" else start
            overall = [scores.overall(means)] if len(sources) > 1 else []
            rows.append(row(began, search, *map(cell, [*means, *overall])))
            label = f"{search}, {began} start"
            records += _records("steps", "fixed", label, scores.titles[scores.judge], sources, means)
    names = heads("start", "search", *sources, *([mean_of(sources)] if len(sources) > 1 else []))
    note = (
        f"Accuracy in % of protonet with the features of the judge, {scores.titles[scores.judge]}, whose loss "
        f"('{settings.objective}') is raised; lower is harder. Compare within a start: each varies one thing."
    )
    title = "Projected steps from either start, and Frank–Wolfe rounds"
    return TableFile("steps", [Sheet(title, names, [rows], note, 2)], records)


def _greedy_table(
    settings: HardSettings, scores: HardScores, seconds: Mapping[str, float]
) -> TableFile | None:
    """FastDiffSel against greedy search by the same objective, in accuracy and time (the paper's figures 2 and 6)."""
    rows = []
    records: list[Fact] = []
    judge = scores.titles[scores.judge]
    for source in scores.sources("fixed"):
        for objective, pair in greedy_pairs(settings).items():
            for label, bed in zip(("FastDiffSel", "greedy search"), pair, strict=True):
                own = bed.of_source(source)
                mean, spent = scores.mean(own, scores.judge), seconds.get(own.name)
                each = None if spent is None else 1000 * spent / settings.tasks
                rows.append(row(source, objective, label, cell(mean), "–" if each is None else f"{each:.2f}"))
                facts = record("greedy", source, "fixed", f"{label}, {objective}", judge, "protonet", mean)
                records.append({**facts, "objective": objective, "milliseconds": each})
    if not rows:
        return None
    names = heads("source", "objective", "search", "accuracy", "ms per task")
    note = (
        f"Both start from the uniform support and raise the same loss of {judge}; accuracy in % of protonet with its "
        f"features. Greedy search has {count(settings.greedy_rounds, 'round')}. Time to choose the supports from "
        "features that are there, when these testbeds were drawn on this machine."
    )
    return TableFile("greedy", [Sheet("FastDiffSel against greedy search", names, [rows], note, 3)], records)


def _filtered_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """The hardest of many random tasks against chosen supports, and their ways (the paper's figure 42)."""
    shape, judge = settings.shapes[0], scores.titles[scores.judge]
    rows = []
    records: list[Fact] = []
    for source in scores.sources(shape):
        for label, purpose in (("chosen supports", "main"), ("filtered", "filtered")):
            bed = HardTestbed(source, purpose, shape, "difficult")
            if bed not in scores.testbeds:
                continue
            ways, mean = Mean.of(scores.ways(bed)), scores.mean(bed, scores.judge)
            rows.append(row(source, label, cell(mean), f"{ways.mean:.1f} ± {ways.half:.1f}"))
            facts = record("filtered", source, shape, label, judge, "protonet", mean)
            records.append({**facts, "ways": ways.mean, "ways_half": ways.half})
    if not rows:
        return None
    names = heads("source", "tasks", "accuracy", "ways")
    note = (
        f"Filtered: the {settings.tasks:,} of {settings.candidates:,} uniform tasks with the lowest accuracy."
    )
    sheet = Sheet("Chosen supports against filtered tasks", names, [rows], note)
    return TableFile("filtered", [sheet], records)


def _more_tasks_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """Do more tasks change the picture? (the paper's figure 41)"""
    shape = settings.shapes[0]
    sources = scores.sources(shape)
    if not sources:
        return None
    more = settings.more_tasks
    beds = [
        (settings.tasks, main(shape, "difficult")),
        (more, HardTestbed("", "tasks", shape, "difficult", str(more))),
    ]
    rows, pairs = [], []
    records: list[Fact] = []
    for backbone, title in scores.titles.items():
        overall = []
        for tasks, bed in beds:
            means = [scores.mean(bed.of_source(source), backbone) for source in sources]
            overall.append(scores.overall(means))
            records += _records("tasks", shape, f"{tasks} tasks", title, sources, means)
        rows.append(row(title, *map(cell, overall)))
        if all(overall):
            pairs.append([mean.mean for mean in overall if mean])
    lines = []
    if len(pairs) > 1:
        before, after = (ranks_of(column) for column in np.array(pairs).T)
        same = "the same" if (before == after).all() else "not the same"
        lines.append(f"The order of the {len(pairs)} backbones is {same} with more tasks.")
    names = [*heads("backbone"), *heads(*(str(tasks) for tasks, _ in beds), group="difficult tasks a source")]
    sheet = Sheet("More tasks", names, [rows], f"Accuracy in % of protonet, {mean_of(sources)}.", 1)
    return TableFile("tasks", [sheet, *_published(settings, "figure 41")], records, lines)


def _curated_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """Supports shifted from their queries by rule against matched ones, the queries being the same (figure 7)."""
    rows = []
    records: list[Fact] = []
    for shifted in scores.testbeds:
        if (shifted.purpose, shifted.kind) != ("curated", "shifted"):
            continue
        matched, source, rule = shifted.of_kind("matched"), shifted.source, shifted.setting
        for backbone, title in scores.titles.items():
            means = {
                "matched": scores.mean(matched, backbone),
                "shifted": scores.mean(shifted, backbone),
                "drop": scores.difference((matched, backbone), (shifted, backbone)),
            }
            if means["drop"] is None:
                continue
            cells = (cell(mean, kind == "drop") for kind, mean in means.items())
            rows.append(row(source, rule, title, *cells))
            records += [
                record("curated", source, "fixed", f"{kind}, {rule}", title, "protonet", mean)
                for kind, mean in means.items()
            ]
    if not rows:
        return None
    names = heads("source", "rule", "backbone", "matched", "shifted", "drop")
    note = f"{settings.curated_tasks} tasks each, {settings.curated_query} queries per class; paired by task."
    return TableFile("curated", [Sheet("Curated shifts", names, [rows], note, 3)], records)

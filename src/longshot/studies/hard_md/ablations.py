"""The ablations of the study Hard-Meta-Dataset++: who chooses supports, by which loss, in how many steps, "
"among which classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from longshot.reports.sheets import Sheet, SheetCell
from longshot.statistics import mean_interval
from longshot.studies.engine.tables import TableFile
from longshot.studies.hard_md import paper as paper
from longshot.studies.hard_md.cells import cell, places, record
from longshot.studies.hard_md.plan import KINDS, OBJECTIVES, StudyTestbed
from longshot.studies.hard_md.scores import HardScores, Mean
from longshot.studies.transfer.plan import slug


def ablation_tables(
    settings: Mapping[str, Any], scores: HardScores, seconds: Mapping[str, float]
) -> list[TableFile]:
    """The tables of the ablations that were asked for and could be had."""
    made = []
    for name in settings["ablations"]:
        made.append(
            _greedy(settings, scores, seconds) if name == "greedy" else _MAKERS[name](settings, scores)
        )
    return [one for one in made if one is not None]


def _extraction(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """Does difficulty transfer? Supports chosen by one backbone, evaluated with another (the paper's table 3)."""
    judges = {scores.judge: StudyTestbed("", "main", "fixed", "difficult")}
    judges |= {
        backbone: StudyTestbed("", "extraction", "fixed", "difficult", slug(scores.names[backbone]))
        for backbone in scores.backbones
        if backbone != scores.judge
    }
    return _matrix(
        settings,
        scores,
        "extraction",
        "Supports chosen by one backbone (rows), protonet with another (columns), fixed shape",
        {scores.titles[judge]: bed for judge, bed in judges.items()},
        "table 3",
    )


def _objectives(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """The loss that supports are chosen by (the paper's table 2, with two more)."""
    beds = {
        one: StudyTestbed("", "main", "fixed", "difficult")
        if one == settings["objective"]
        else StudyTestbed("", "objectives", "fixed", "difficult", one)
        for one in OBJECTIVES
    }
    return _matrix(
        settings,
        scores,
        "objectives",
        "Objective of the selection (rows), protonet, fixed shape",
        beds,
        "table 2",
    )


def _matrix(
    settings: Mapping[str, Any],
    scores: HardScores,
    stem: str,
    title: str,
    beds: Mapping[str, StudyTestbed],
    published: str,
) -> TableFile | None:
    """One row per way to choose supports, one column per evaluating backbone: means over the sources."""
    sources = scores.sources("fixed")
    rows, records = [], []
    for label, template in {
        "uniform (nothing chosen)": StudyTestbed("", "main", "fixed", "uniform"),
        **beds,
    }.items():
        cells = [SheetCell(label)]
        for backbone in scores.backbones:
            each = [scores.mean(_of(template, source), backbone) for source in sources]
            cells.append(cell(scores.overall(each)))
            records += [
                record(stem, source, "fixed", label, scores.titles[backbone], "protonet", one)
                for source, one in zip(sources, each, strict=True)
            ]
        rows.append(cells)
    if not sources:
        return None
    heads = [
        ("", "supports"),
        *(("evaluated with", scores.titles[backbone]) for backbone in scores.backbones),
    ]
    note = f"Accuracy in %, mean of {len(sources)} sources; lower is harder."
    sheets = [
        Sheet(title, heads, [rows], note, 1),
        *([paper.sheet(published)] if settings["published"] else []),
    ]
    return TableFile(stem, sheets, records)


def _semantic(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """On top of a class sampler by meaning, by quartile of coarsity (the paper's table 1)."""
    rows, records = [], []
    for source in scores.sources("fixed"):
        beds = {kind: StudyTestbed(source, "semantic", "fixed", kind) for kind in KINDS[:2]}
        if beds["difficult"] not in scores.beds:
            continue
        coarsity = scores.beds[beds["uniform"]].table.column("coarsity").to_numpy()
        quartile = np.digitize(coarsity, np.quantile(coarsity, [0.25, 0.5, 0.75]), right=True)
        for kind, bed in beds.items():
            values = scores.accuracy(bed, scores.judge)
            if values is None:
                continue
            means = [
                Mean.of(mean_interval(values[quartile == q])) if (quartile == q).any() else None
                for q in range(4)
            ]
            rows.append([SheetCell(source), SheetCell(kind), *(cell(one) for one in means)])
            records += [
                record(
                    "semantic",
                    source,
                    "fixed",
                    f"{kind}, quartile {q + 1}",
                    scores.titles[scores.judge],
                    "protonet",
                    one,
                )
                for q, one in enumerate(means)
            ]
    if not rows:
        return None
    heads = [("", "source"), ("", "support"), *(("quartile of coarsity", str(q)) for q in (1, 2, 3, 4))]
    sheets = [
        Sheet(
            "Classes close in meaning, uniform and difficult supports",
            heads,
            [rows],
            "Quartile 1: finest classes.",
        )
    ]
    return TableFile(
        "semantic", [*sheets, *([paper.sheet("table 1")] if settings["published"] else [])], records
    )


def _steps(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """More projected steps against Frank–Wolfe rounds (the paper's figures 36 to 39)."""
    choices = [("1 step", StudyTestbed("", "main", "fixed", "difficult"))]
    choices += [
        (f"{n} steps", StudyTestbed("", "steps", "fixed", "difficult", f"{n} steps"))
        for n in settings["steps"]
        if n > 1
    ]
    choices += [
        (f"{n} rounds", StudyTestbed("", "steps", "fixed", "difficult", f"{n} rounds"))
        for n in settings["rounds"]
    ]
    return _by_choice(scores, "steps", "Projected steps, and Frank–Wolfe rounds behind one step", choices)


def _by_choice(
    scores: HardScores, stem: str, title: str, choices: Sequence[tuple[str, StudyTestbed]]
) -> TableFile | None:
    sources = scores.sources("fixed")
    rows, records = [], []
    for label, template in choices:
        means = [scores.mean(_of(template, source), scores.judge) for source in sources]
        rows.append([SheetCell(label), *(cell(one) for one in means), cell(scores.overall(means))])
        records += [
            record(stem, source, "fixed", label, scores.titles[scores.judge], "protonet", one)
            for source, one in zip(sources, means, strict=True)
        ]
    heads = [("", "selection"), *(("", source) for source in sources), ("", f"mean of {len(sources)}")]
    note = "Accuracy in % of protonet with the judge's features; lower is harder."
    return TableFile(stem, [Sheet(title, heads, [rows], note, 1)], records) if sources else None


def _greedy(
    settings: Mapping[str, Any], scores: HardScores, seconds: Mapping[str, float]
) -> TableFile | None:
    """FastDiffSel against greedy search, in accuracy and time (the paper's figures 2 and 6)."""
    rows, records = [], []
    for source in scores.sources("fixed"):
        beds = {
            "FastDiffSel": StudyTestbed(source, "main", "fixed", "difficult"),
            "greedy search": StudyTestbed(source, "greedy", "fixed", "difficult"),
        }
        for label, bed in beds.items():
            one = scores.mean(bed, scores.judge)
            spent = seconds.get(bed.name)
            each = None if spent is None else 1000 * spent / settings["tasks"]
            rows.append(
                [
                    SheetCell(source),
                    SheetCell(label),
                    cell(one),
                    SheetCell("–" if each is None else f"{each:.2f}"),
                ]
            )
            records.append(
                {
                    **record("greedy", source, "fixed", label, scores.titles[scores.judge], "protonet", one),
                    "milliseconds": each,
                }
            )
    if not rows:
        return None
    heads = [("", "source"), ("", "selection"), ("", "accuracy"), ("", "ms per task")]
    note = "Time to choose the supports from features that are there, when these testbeds were drawn on this machine."
    return TableFile("greedy", [Sheet("FastDiffSel against greedy search", heads, [rows], note)], records)


def _filtered(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """The hardest of many random tasks against chosen supports, and their ways (the paper's figure 42)."""
    shape = settings["shapes"][0]
    rows, records = [], []
    for source in scores.sources(shape):
        beds = {
            "chosen supports": StudyTestbed(source, "main", shape, "difficult"),
            "filtered": StudyTestbed(source, "filtered", shape, "difficult"),
        }
        for label, bed in beds.items():
            if bed not in scores.beds:
                continue
            ways = Mean.of(mean_interval(scores.ways(bed)))
            one = scores.mean(bed, scores.judge)
            rows.append(
                [
                    SheetCell(source),
                    SheetCell(label),
                    cell(one),
                    SheetCell(f"{ways.mean:.1f} ± {ways.half:.1f}"),
                ]
            )
            told = record("filtered", source, shape, label, scores.titles[scores.judge], "protonet", one)
            records.append({**told, "ways": ways.mean, "ways_half": ways.half})
    if not rows:
        return None
    heads = [("", "source"), ("", "tasks"), ("", "accuracy"), ("", "ways")]
    note = f"Filtered: the {settings['tasks']:,} of {settings['candidates']:,} uniform tasks with the lowest accuracy."
    return TableFile(
        "filtered", [Sheet("Chosen supports against filtered tasks", heads, [rows], note)], records
    )


def _more_tasks(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """Do more tasks change the picture? (the paper's figure 41)"""
    shape = settings["shapes"][0]
    sources = scores.sources(shape)
    rows, records, pairs = [], [], []
    for backbone in scores.backbones:
        few, many = (
            [scores.mean(_of(template, source), backbone) for source in sources]
            for template in (
                StudyTestbed("", "main", shape, "difficult"),
                StudyTestbed("", "tasks", shape, "difficult", str(settings["more_tasks"])),
            )
        )
        whole = [scores.overall(few), scores.overall(many)]
        rows.append([SheetCell(scores.titles[backbone]), *(cell(one) for one in whole)])
        if whole[0] and whole[1]:
            pairs.append((whole[0].mean, whole[1].mean))
        for label, means in ((settings["tasks"], few), (settings["more_tasks"], many)):
            records += [
                record("tasks", source, shape, f"{label} tasks", scores.titles[backbone], "protonet", one)
                for source, one in zip(sources, means, strict=True)
            ]
    if not sources:
        return None
    heads = [
        ("", "backbone"),
        *(("difficult tasks a source", str(settings[key])) for key in ("tasks", "more_tasks")),
    ]
    said = []
    if len(pairs) > 1:
        same = bool(
            (places(np.array([a for a, _ in pairs])) == places(np.array([b for _, b in pairs]))).all()
        )
        said.append(
            f"The order of the {len(pairs)} backbones is {'the same' if same else 'not the same'} with more tasks."
        )
    sheets = [Sheet("More tasks", heads, [rows], "Accuracy in % of protonet, mean over the sources.", 1)]
    return TableFile(
        "tasks", [*sheets, *([paper.sheet("figure 41")] if settings["published"] else [])], records, said
    )


def _curated(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """Supports shifted from their queries by rule against matched ones, the queries being the same (figure 7)."""
    rows, records = [], []
    for shifted in [bed for bed in scores.beds if bed.purpose == "curated" and bed.kind == "shifted"]:
        matched = StudyTestbed(shifted.source, "curated", "fixed", "matched", shifted.setting)
        for backbone in scores.backbones:
            before, after = (scores.accuracy(bed, backbone) for bed in (matched, shifted))
            if before is None or after is None:
                continue
            found = {
                "matched": Mean.of(mean_interval(before)),
                "shifted": Mean.of(mean_interval(after)),
                "drop": Mean.of(mean_interval(before - after)),
            }
            title = scores.titles[backbone]
            cells = [cell(one, kind == "drop") for kind, one in found.items()]
            rows.append([SheetCell(shifted.source), SheetCell(shifted.setting), SheetCell(title), *cells])
            records += [
                record(
                    "curated", shifted.source, "fixed", f"{kind}, {shifted.setting}", title, "protonet", one
                )
                for kind, one in found.items()
            ]
    if not rows:
        return None
    heads = [("", "source"), ("", "rule"), ("", "backbone"), ("", "matched"), ("", "shifted"), ("", "drop")]
    note = f"{settings['curated_tasks']} tasks each, {settings['curated_query']} queries per class; paired by task."
    return TableFile("curated", [Sheet("Curated shifts", heads, [rows], note, 3)], records)


def _of(template: StudyTestbed, source: str) -> StudyTestbed:
    return StudyTestbed(source, template.purpose, template.shape, template.kind, template.setting)


_MAKERS = {
    "extraction": _extraction,
    "objectives": _objectives,
    "semantic": _semantic,
    "steps": _steps,
    "filtered": _filtered,
    "tasks": _more_tasks,
    "curated": _curated,
}

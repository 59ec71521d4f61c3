"""The ablations of the study Hard-Meta-Dataset++, and the objects that supports show.

The ablations vary who chooses supports, by which loss, in how many steps, and among which classes. The table behind the
paper's figure 40 has how many objects easy and difficult supports show for the same queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from longshot.base import Floats, count
from longshot.reports import Sheet, heads, row
from longshot.statistics import plus_minus
from longshot.studies.engine.study_tables import Fact, TableFile, present
from longshot.studies.engine.study_training import slug
from longshot.studies.hard_md.hard_md_plan import printed_sheet
from longshot.studies.hard_md.hard_md_scores import (
    HardScores,
    Mean,
    cell,
    mean_of,
    overall,
    ranks_of,
    record,
)
from longshot.studies.hard_md.hard_md_testbeds import (
    KINDS,
    OBJECTIVES,
    HardSettings,
    HardTestbed,
    greedy_pairs,
    main,
    objects_beds,
    steps_beds,
)
from longshot.tasks import objects_attribute


@dataclass(frozen=True)
class SupportObjects:
    """Objects of the support images, by task: their mean number [T], and their mean distance to the queries' [T]."""

    number: Floats
    distance: Floats


def support_objects(scores: HardScores, bed: HardTestbed) -> SupportObjects:
    """Count objects in the support images of every task; images without a count are left out.

    With o the objects of an image and n those of every query: mean o, and mean |o − n|, of each task. A task none of
    whose support images were counted is NaN.
    """
    data = scores.lab.datasets[bed.source]
    attribute = objects_attribute(data)
    assert attribute is not None and data.attributes is not None
    counts = data.attributes.column(attribute).to_numpy(zero_copy_only=False).astype(np.float64)
    support = scores.lab.testbeds[bed.name].bind(bed.source, data.keys, data.fingerprint).support
    own, queried = counts[support.values], int(bed.setting.split()[0])
    counted = ~np.isnan(own)

    def means(values: Floats) -> Floats:
        sums, numbers = (
            np.bincount(support.owners[counted], weights, minlength=len(support.lengths))
            for weights in (values[counted], None)
        )
        with np.errstate(invalid="ignore"):
            result: Floats = sums / numbers
        return result

    return SupportObjects(means(own), means(np.abs(own - queried)))


def objects_table(scores: HardScores) -> TableFile:
    """Make a row per source and number of objects: objects in supports, distances, accuracy, paired."""
    blocks = []
    records: list[Fact] = []
    for source in scores.sources("fixed"):
        block = []
        for number, beds in objects_beds(scores.settings).items():
            own = {kind: bed.of_source(source) for kind, bed in beds.items()}
            if not all(bed in scores.beds for bed in own.values()):
                continue
            measured = {kind: support_objects(scores, bed) for kind, bed in own.items()}
            distances = {kind: measured[kind].distance for kind in KINDS}
            gap = distances["difficult"] - distances["easy"]
            accuracy = {kind: scores.mean(bed, scores.judge) for kind, bed in own.items()}
            cells = [_plain(measured[kind].number) for kind in KINDS]
            cells += [_plain(distances[kind]) for kind in KINDS]
            block.append(
                row(source, str(number), *cells, _plain(gap, signed=True), *map(cell, accuracy.values()))
            )
            records += [
                _record(source, number, kind, measured[kind], accuracy[kind], len(gap)) for kind in KINDS
            ]
        blocks += [block] if block else []
    settings = scores.settings
    names = [
        *heads("source", "objects in every query"),
        *heads(*KINDS, group="objects in a support image"),
        *heads(*KINDS, "difficult − easy", group="their distance to the queries' number"),
        *heads(*KINDS, group="accuracy in %"),
    ]
    note = (
        f"{settings.objects_tasks} tasks a row, {settings.way}-way {settings.shot}-shot with {settings.objects_query} "
        "queries per class; the three supports of a row have the same queries, and differences are paired by task. ± "
        f"half the 95 % interval over tasks. Chosen by {scores.judge} with the objective '{settings.objective}', "
        "accuracy of protonet on its features. The paper prints figure 40 without numbers."
    )
    title = "Queries of so many objects, and the objects in easy and difficult supports (figure 40)"
    return TableFile("objects", [Sheet(title, names, blocks, note, 2)], records)


def _plain(values: Floats, signed: bool = False) -> str:
    """Format a mean over tasks with half its interval; tasks without a counted image are left out."""
    present = values[~np.isnan(values)]
    if not len(present):
        return "–"
    mean = Mean.of(present)
    return plus_minus(mean.mean, mean.half, "plain", 2, signed=signed)


def _record(
    source: str, number: int, kind: str, measured: SupportObjects, accuracy: Mean | None, tasks: int
) -> Fact:
    facts: Fact = {"source": source, "query_objects": number, "support": kind, "tasks": tasks}
    for name, values in (("objects", measured.number), ("distance", measured.distance)):
        present = values[~np.isnan(values)]
        mean = Mean.of(present) if len(present) else None
        facts |= {name: mean and mean.mean, f"{name}_half": mean and mean.half}
    return facts | {"accuracy": accuracy and accuracy.mean, "accuracy_half": accuracy and accuracy.half}


_CHOSEN = main("fixed", "difficult")  # supports as the stress test has them, of any source


def ablation_tables(scores: HardScores) -> list[TableFile]:
    """Make the tables of the ablations that were asked for and have their testbeds."""
    makers = {
        "extraction": _extraction_table,
        "objectives": _objectives_table,
        "semantic": _semantic_table,
        "steps": _steps_table,
        "greedy": _greedy_table,
        "filtered": _filtered_table,
        "tasks": _more_tasks_table,
        "curated": _curated_table,
        "objects": objects_table,
        "queries": _queries_table,
    }
    return present(makers[name](scores) for name in scores.settings.ablations)


def _published(settings: HardSettings, name: str) -> list[Sheet]:
    return [printed_sheet(name)] if settings.published else []


def _records(
    stem: str, shape: str, label: str, backbone: str, sources: Sequence[str], means: Sequence[Mean | None]
) -> list[Fact]:
    """Return the accuracies of protonet on every source as CSV rows."""
    pairs = zip(sources, means, strict=True)
    return [record(stem, source, shape, label, backbone, "protonet", mean) for source, mean in pairs]


def _extraction_table(scores: HardScores) -> TableFile | None:
    """Test whether difficulty transfers: supports chosen by one backbone, evaluated by another (table 3)."""
    chosen_by = {scores.judge: _CHOSEN}
    for name in scores.backbones:
        if name != scores.judge:
            chosen_by[name] = HardTestbed("", "extraction", "fixed", "difficult", slug(name))
    title = "Supports chosen by one backbone (rows), protonet with another (columns), fixed shape"
    return _matrix(scores, "extraction", title, chosen_by, "table 3")


def _objectives_table(scores: HardScores) -> TableFile | None:
    """Compare the losses that supports are chosen by (the paper's table 2, with two more)."""
    by_objective = {
        objective: _CHOSEN
        if objective == scores.settings.objective
        else HardTestbed("", "objectives", "fixed", "difficult", objective)
        for objective in OBJECTIVES
    }
    title = "Objective of the selection (rows), protonet, fixed shape"
    return _matrix(scores, "objectives", title, by_objective, "table 2")


def _queries_table(scores: HardScores) -> TableFile | None:
    """Set difficult queries for uniform supports beside difficult supports for uniform queries."""
    choices = {
        "difficult supports": _CHOSEN,
        "difficult queries": HardTestbed("", "queries", "fixed", "difficult"),
    }
    return _matrix(scores, "queries", "What is chosen (rows), protonet, fixed shape", choices)


def _matrix(
    scores: HardScores, stem: str, title: str, choices: Mapping[str, HardTestbed], published: str = ""
) -> TableFile | None:
    """Make a row per way to choose supports, a column per evaluating backbone: means over shared sources."""
    listed = {"uniform (nothing chosen)": main("fixed", "uniform"), **choices}
    shared = scores.shared(listed.values(), [(backbone, "protonet") for backbone in scores.backbones])
    if not shared:
        return None
    sources = scores.sources("fixed")
    rows = []
    records: list[Fact] = []
    for label, bed in listed.items():
        cells = row(label)
        for backbone in scores.backbones:
            means = {source: scores.mean(bed.of_source(source), backbone) for source in sources}
            cells.append(cell(overall([means[source] for source in shared])))
            records += _records(stem, "fixed", label, backbone, sources, list(means.values()))
        rows.append(cells)
    names = [*heads("supports"), *heads(*map(scores.title, scores.backbones), group="evaluated with")]
    note = (
        f"Accuracy in %, {mean_of(shared)}; lower is harder. {scores.title(scores.judge)} chose the supports of the "
        f"stress test by the objective '{scores.settings.objective}'."
    )
    sheets = [
        Sheet(title, names, [rows], note, 1),
        *(_published(scores.settings, published) if published else []),
    ]
    return TableFile(stem, sheets, records)


def _semantic_table(scores: HardScores) -> TableFile:
    """Show the effect on top of a class sampler by meaning, by quartile of coarsity (the paper's table 1)."""
    blocks = []
    records: list[Fact] = []
    for source in scores.sources("fixed"):
        beds = {kind: HardTestbed(source, "semantic", "fixed", kind) for kind in KINDS[:2]}
        if not all(bed in scores.beds for bed in beds.values()):
            continue
        quartile = quartiles(scores.lab.scores.column(beds["uniform"].name, "coarsity"))
        block = []
        for backbone in scores.backbones:
            for kind, bed in beds.items():
                values = scores.accuracy(bed, backbone)
                if values is None:
                    continue
                parts = [values[quartile == number] for number in range(4)]
                means = [Mean.of(part) if len(part) else None for part in parts]
                block.append(row(source, scores.title(backbone), kind, *map(cell, [*means, Mean.of(values)])))
                records += [
                    record("semantic", source, "fixed", f"{kind}, {label}", backbone, "protonet", mean)
                    for label, mean in zip((f"quartile {n}" for n in (1, 2, 3, 4)), means, strict=True)
                ]
        blocks += [block] if block else []
    names = [
        *heads("source", "backbone", "support"),
        *heads("1", "2", "3", "4", group="quartile of coarsity"),
        *heads("all"),
    ]
    title = "Classes close in meaning, uniform and difficult supports"
    note = "Accuracy in % of protonet. Quartile 1: the classes closest in meaning. Both supports have the same queries."
    sheets = [Sheet(title, names, blocks, note, 3), *_published(scores.settings, "table 1")]
    return TableFile("semantic", sheets, records)


def quartiles(coarsity: np.ndarray) -> np.ndarray:
    """Return the quartile 0 … 3 of each task [T]; equal coarsities share a quartile.

    >>> quartiles(np.array([5.0, 1.0, 3.0, 9.0])).tolist()
    [2, 0, 1, 3]
    """
    placed: np.ndarray = np.digitize(coarsity, np.quantile(coarsity, [0.25, 0.5, 0.75]), right=True)
    return placed


def _steps_table(scores: HardScores) -> TableFile | None:
    """Compare more projected steps from both starts, and Frank–Wolfe rounds (the paper's figures 36–39)."""
    settings, sources = scores.settings, scores.sources("fixed")
    by_start = steps_beds(settings)
    every = [bed for beds in by_start.values() for bed in beds.values()]
    shared = scores.shared(every, [(scores.judge, "protonet")])
    if not shared:
        return None
    rows = []
    records: list[Fact] = []
    for start, beds in by_start.items():
        for number, bed in beds.items():
            means = {source: scores.mean(bed.of_source(source), scores.judge) for source in sources}
            search = f"{count(number, 'round')} behind 1 step" if start == "rounds" else count(number, "step")
            began = "uniform" if start == "rounds" else start
            mean = [overall([means[source] for source in shared])] if len(sources) > 1 else []
            rows.append(row(began, search, *map(cell, [*means.values(), *mean])))
            label = f"{search}, {began} start"
            records += _records("steps", "fixed", label, scores.judge, sources, list(means.values()))
    names = heads("start", "search", *sources, *([mean_of(shared)] if len(sources) > 1 else []))
    note = (
        f"Accuracy in % of protonet with the features of the judge, {scores.judge}, whose loss "
        f"('{settings.objective}') is raised; lower is harder. Compare within a start: each varies one thing."
    )
    title = "Projected steps from either start, and Frank–Wolfe rounds"
    return TableFile("steps", [Sheet(title, names, [rows], note, 2)], records)


def _greedy_table(scores: HardScores) -> TableFile:
    """Compare FastDiffSel with greedy search by one objective, in accuracy and time (figures 2 and 6)."""
    settings, judge = scores.settings, scores.judge
    rows, lines = [], []
    records: list[Fact] = []
    for source in scores.sources("fixed"):
        for objective, pair in greedy_pairs(settings).items():
            times = []
            for label, bed in zip(("FastDiffSel", "greedy search"), pair, strict=True):
                own = bed.of_source(source)
                mean, spent = scores.mean(own, judge), scores.lab.seconds(own.name)
                each = None if spent is None else 1000 * spent / settings.tasks
                times.append(each)
                rows.append(row(source, objective, label, cell(mean), "–" if each is None else f"{each:.2f}"))
                facts = record("greedy", source, "fixed", f"{label}, {objective}", judge, "protonet", mean)
                records.append({**facts, "objective": objective, "milliseconds": each})
            if times[0] and times[1]:
                ratio = f"{times[1] / times[0]:.0f} times as long as FastDiffSel"
                lines.append(f"{source}, objective '{objective}': greedy search took {ratio}.")
    names = heads("source", "objective", "search", "accuracy", "ms per task")
    note = (
        f"Both start from the uniform support and raise the same loss of {judge}; accuracy in % of protonet with its "
        f"features. Greedy search has {count(settings.greedy_rounds, 'round')}. Time to choose the supports from "
        "features that are there, when these testbeds were drawn on this machine."
    )
    sheet = Sheet("FastDiffSel against greedy search", names, [rows], note, 3)
    return TableFile("greedy", [sheet], records, lines)


def _filtered_table(scores: HardScores) -> TableFile:
    """Compare the hardest of many random tasks with chosen supports, and their ways (figure 42)."""
    settings = scores.settings
    shape = settings.shapes[0]
    rows = []
    records: list[Fact] = []
    for source in scores.sources(shape):
        for label, purpose in (("chosen supports", "main"), ("filtered", "filtered")):
            bed = HardTestbed(source, purpose, shape, "difficult")
            if bed not in scores.beds:
                continue
            ways, mean = Mean.of(scores.ways(bed)), scores.mean(bed, scores.judge)
            rows.append(row(source, label, cell(mean), plus_minus(ways.mean, ways.half, "plain")))
            facts = record("filtered", source, shape, label, scores.judge, "protonet", mean)
            records.append({**facts, "ways": ways.mean, "ways_half": ways.half})
    names = heads("source", "tasks", "accuracy", "ways")
    note = (
        f"Filtered: the {settings.tasks:,} of {settings.candidates:,} uniform tasks with the lowest accuracy of "
        f"protonet on {scores.judge}, which also chose the supports by the objective '{settings.objective}'."
    )
    sheet = Sheet("Chosen supports against filtered tasks", names, [rows], note)
    return TableFile("filtered", [sheet], records)


def _more_tasks_table(scores: HardScores) -> TableFile | None:
    """Do more tasks change the picture? (the paper's figure 41)"""
    settings = scores.settings
    shape, more = settings.shapes[0], settings.more_tasks
    beds = [
        (settings.tasks, main(shape, "difficult")),
        (more, HardTestbed("", "tasks", shape, "difficult", str(more))),
    ]
    sources = scores.sources(shape)
    shared = scores.shared(
        [bed for _, bed in beds], [(backbone, "protonet") for backbone in scores.backbones]
    )
    if not shared:
        return None
    rows, pairs = [], []
    records: list[Fact] = []
    for backbone in scores.backbones:
        means = []
        for tasks, bed in beds:
            by_source = {source: scores.mean(bed.of_source(source), backbone) for source in sources}
            means.append(overall([by_source[source] for source in shared]))
            label = f"{tasks} tasks"
            records += _records("tasks", shape, label, backbone, sources, list(by_source.values()))
        rows.append(row(scores.title(backbone), *map(cell, means)))
        if all(means) and backbone not in scores.judging:
            pairs.append([mean.mean for mean in means if mean])
    lines = []
    if len(pairs) > 1:
        before, after = (ranks_of(column) for column in np.array(pairs).T)
        same = "the same" if (before == after).all() else "not the same"
        lines.append(
            f"The order of the {len(pairs)} backbones that took no part in choosing is {same} with more tasks."
        )
    names = [*heads("backbone"), *heads(*(str(tasks) for tasks, _ in beds), group="difficult tasks a source")]
    sheet = Sheet("More tasks", names, [rows], f"Accuracy in % of protonet, {mean_of(shared)}.", 1)
    return TableFile("tasks", [sheet, *_published(settings, "figure 41")], records, lines)


def _curated_table(scores: HardScores) -> TableFile:
    """Compare supports shifted from their queries by rule with matched ones, for equal queries (figure 7)."""
    rows = []
    records: list[Fact] = []
    for shifted in scores.beds:
        if (shifted.purpose, shifted.kind) != ("curated", "shifted"):
            continue
        matched, source, rule = shifted.of_kind("matched"), shifted.source, shifted.setting
        for backbone in scores.backbones:
            means = {
                "matched": scores.mean(matched, backbone),
                "shifted": scores.mean(shifted, backbone),
                "drop": scores.difference((matched, backbone), (shifted, backbone)),
            }
            if means["drop"] is None:
                continue
            cells = (cell(mean, kind == "drop") for kind, mean in means.items())
            rows.append(row(source, rule, backbone, *cells))
            records += [
                record("curated", source, "fixed", f"{kind}, {rule}", backbone, "protonet", mean)
                for kind, mean in means.items()
            ]
    settings = scores.settings
    names = heads("source", "rule", "backbone", "matched", "shifted", "drop")
    note = (
        f"{settings.curated_tasks} tasks each, {settings.curated_query} queries per class; paired by task. No network "
        "took part in choosing."
    )
    return TableFile("curated", [Sheet("Curated shifts", names, [rows], note, 3)], records)

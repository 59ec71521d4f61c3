"""The tables of the study Hard-Meta-Dataset++: the stress test, how ranks change, the ablations, and why."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from longshot.causes.words import composition_rows, say_correlation
from longshot.reports.sheets import Sheet
from longshot.statistics import correlation
from longshot.studies.engine.tables import Fact, TableFile, heads, present, row
from longshot.studies.hard_md import paper
from longshot.studies.hard_md.ablations import ablation_tables
from longshot.studies.hard_md.scores import HardScores, Mean, cell, mean_of, ranks_of, record
from longshot.studies.hard_md.settings import HardSettings
from longshot.studies.hard_md.testbeds import KINDS, HardTestbed, main
from longshot.studies.hard_md.why import Why

JUDGE = "†"  # marks the network that chose the supports


def tables(
    settings: HardSettings, scores: HardScores, seconds: Mapping[str, float], why: Why | None
) -> list[TableFile]:
    """All tables that the study's testbeds allow; ``seconds`` are those of drawing, by testbed."""
    return present(
        [
            stress_table(settings, scores),
            ranks_table(settings, scores),
            *ablation_tables(settings, scores, seconds),
            adapted_table(settings, scores) if settings.adapted else None,
            trained_table(settings, scores) if len(settings.networks) > 1 else None,
            None if why is None else why_table(why),
        ]
    )


def stress_table(settings: HardSettings, scores: HardScores) -> TableFile:
    """Uniform, difficult, easy and the drop, by source: the paper's figures 1, 3, 9 and 11 to 30."""
    records: list[Fact] = []
    sheets = []
    columns = (*KINDS, "drop")
    for shape in settings.shapes:
        sources = scores.sources(shape)
        if not sources:
            continue
        rows = []
        for backbone in scores.backbones:
            title = scores.titles[backbone]
            for method in settings.methods:
                cells = row(f"{title} {JUDGE}" if backbone == scores.judge else title, method)
                means: dict[str, list[Mean | None]] = {column: [] for column in columns}
                for source in sources:
                    for column in columns:
                        mean = _stress_mean(scores, main(shape, column, source), backbone, method)
                        means[column].append(mean)
                        cells.append(cell(mean, column == "drop"))
                        records.append(record("stress", source, shape, column, title, method, mean))
                for column in ("uniform", "difficult", "drop") if len(sources) > 1 else ():
                    cells.append(cell(scores.overall(means[column]), column == "drop"))
                rows.append(cells)
        names = [
            *heads("backbone", "method"),
            *((source, column) for source in sources for column in columns),
        ]
        if len(sources) > 1:
            names += heads("uniform", "difficult", "drop", group=mean_of(sources))
        note = (
            "Accuracy in %, ± half the 95 % interval over tasks; drop: uniform − difficult, paired by task. "
            f"{scores.titles[scores.judge]} {JUDGE} chose the supports, raising the loss '{settings.objective}'."
        )
        sheets.append(Sheet(f"Stress test, {_shape(settings, shape)}", names, [rows], note))
    if settings.published:
        sheets.append(paper.sheet("figure 4"))
    return TableFile("stress", sheets, records, _drop_sentences(settings, scores))


def _stress_mean(scores: HardScores, bed: HardTestbed, backbone: str, method: str) -> Mean | None:
    """Mean accuracy on a testbed of the stress test; of the kind "drop" the paired difference."""
    return (scores.drop if bed.kind == "drop" else scores.mean)(bed, backbone, method)


def _drop_sentences(settings: HardSettings, scores: HardScores) -> list[str]:
    """The smallest and the largest drop of a backbone, in words."""
    sentences = []
    for shape in settings.shapes:
        drops: dict[tuple[str, str], Mean] = {}
        for backbone in scores.backbones:
            for method in settings.methods:
                by_source = [
                    scores.drop(main(shape, "drop", source), backbone, method)
                    for source in scores.sources(shape)
                ]
                overall = scores.overall(by_source)
                if overall is not None:
                    drops[scores.titles[backbone], method] = overall
        if drops:
            low, high = (pick(drops, key=lambda who: drops[who].mean) for pick in (min, max))
            sentences.append(
                f"{_shape(settings, shape)}: the drop from uniform to difficult supports lies between "
                f"{drops[low].text()} ({low[1]} on {low[0]}) and {drops[high].text()} points ({high[1]} on {high[0]})."
            )
    return sentences


def ranks_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """How the order of backbones changes from uniform to difficult tasks; None where only the judge was tested."""
    records: list[Fact] = []
    rows, sentences = [], []
    for shape in settings.shapes:
        for method in settings.methods:
            means: dict[str, tuple[float, float]] = {}  # title → mean on uniform and on difficult tasks
            for backbone in scores.backbones:
                if backbone == scores.judge:
                    continue  # whoever chose the supports is no fair measure of them
                uniform, difficult = (
                    scores.over_sources(main(shape, kind), backbone, method) for kind in KINDS[:2]
                )
                if uniform and difficult:
                    means[scores.titles[backbone]] = (uniform.mean, difficult.mean)
            values = np.array(list(means.values())).reshape(-1, 2)
            ranks = np.stack([ranks_of(values[:, column]) for column in (0, 1)], axis=1)
            for title, (before, after) in zip(means, ranks.tolist(), strict=True):
                rows.append(row(shape, method, title, str(before), str(after)))
                facts = {"shape": shape, "method": method, "backbone": title}
                records.append({**facts, "uniform": before, "difficult": after})
            if len(means) > 3:
                spearman = say_correlation(correlation(values[:, 0], values[:, 1], kind="spearman"))
                sentences.append(
                    f"{shape}, {method}: Spearman of the {len(means)} backbones' means {spearman}."
                )
    if not rows:
        return None
    names = [*heads("shape", "method", "backbone"), *heads("uniform", "difficult", group="rank")]
    note = (
        "Rank 1: highest mean accuracy over the sources; ranks of close means can be chance. "
        f"{scores.titles[scores.judge]}, which chose the supports, is not ranked."
    )
    return TableFile("ranks", [Sheet("Order of backbones", names, [rows], note, 3)], records, sentences)


def adapted_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """Methods that adapt the network, on few fixed tasks, beside protonet on the same ones (figures 10, 43 and 44)."""
    rows = []
    records: list[Fact] = []
    for source in scores.sources("fixed"):
        for backbone in scores.backbones:
            title = scores.titles[backbone]
            for method in [*settings.adapted, "protonet"]:
                bed = HardTestbed(source, "adapted", "fixed", "uniform")
                means = {kind: scores.mean(bed.of_kind(kind), backbone, method) for kind in KINDS[:2]}
                if all(mean is None for mean in means.values()):
                    continue
                means["drop"] = scores.drop(bed, backbone, method)
                cells = (cell(mean, kind == "drop") for kind, mean in means.items())
                rows.append(row(source, title, method, *cells))
                records += [
                    record("adapted", source, "fixed", kind, title, method, mean)
                    for kind, mean in means.items()
                ]
    if not rows:
        return None
    names = heads("source", "backbone", "method", "uniform", "difficult", "drop")
    note = f"The same {settings.adapted_tasks} fixed tasks in every cell."
    sheets = [Sheet("Methods that adapt the network", names, [rows], note, 3)]
    if settings.published:
        sheets += [paper.sheet("figure 43"), paper.sheet("figure 44")]
    return TableFile("adapted", sheets, records)


def trained_table(settings: HardSettings, scores: HardScores) -> TableFile | None:
    """Networks trained here against one another, paired by task (the paper's table 4 and figure 31)."""
    trained = [backbone for backbone in scores.backbones if scores.titles[backbone] in settings.networks]
    rows = []
    records: list[Fact] = []
    for shape in settings.shapes:
        sources = scores.sources(shape)
        for first, second in combinations(trained, 2):
            label = f"{scores.titles[second]} − {scores.titles[first]}"
            for kind in KINDS[:2]:
                beds = [main(shape, kind, source) for source in sources]
                means = [scores.difference((bed, second), (bed, first)) for bed in beds]
                rows.append(row(shape, kind, label, cell(scores.overall(means), True)))
                records += [
                    record("trained", source, shape, kind, label, "protonet", mean)
                    for source, mean in zip(sources, means, strict=True)
                ]
    if not rows:
        return None
    names = heads("shape", "support", "networks", "difference in points")
    note = (
        "Accuracy of protonet, paired by task, mean over the sources; an interval that holds 0 tells nothing."
    )
    sheets = [Sheet("Networks trained here, against one another", names, [rows], note, 3)]
    if settings.published:
        sheets += [paper.sheet("table 4"), paper.sheet("figure 31")]
    return TableFile("trained", sheets, records)


def why_table(why: Why) -> TableFile | None:
    """Composition of the three kinds of supports and the causes found (the paper's figures 5 and 40, and 8)."""
    sheets = []
    records: list[Fact] = []
    sentences = []
    for source, kinds in why.compositions.items():
        shown = composition_rows(kinds, most=14)
        if shown:
            rows = [row(*map(str, line.values())) for line in shown]
            sheets.append(
                Sheet(f"Supports against the same queries, {source}", heads(*shown[0]), [rows], "", 1)
            )
        records += [
            {
                "source": source,
                "kind": kind,
                "attribute": composition.attribute,
                "value": composition.value or "",
                "support": composition.support.mean,
                "query": composition.query.mean,
                "gap": composition.gap.mean,
                "gap_half": composition.gap.half,
                "coverage": composition.coverage,
            }
            for kind, compositions in kinds.items()
            for composition in compositions
        ]
        explained = why.explained[source]
        with_cause = sum(bool(task.findings) for task in explained.tasks)
        top = [f"{cause.attribute} ({cause.tasks})" for cause in explained.causes if cause.tasks][:3]
        sentences.append(
            f"{source}: {with_cause} of {len(explained.tasks)} difficult tasks have a cause among the attributes"
            + (f", most often {', '.join(top)}." if top else ".")
        )
        if explained.loss_and_accuracy is not None:
            spearman = say_correlation(explained.loss_and_accuracy)
            sentences.append(f"{source}: Spearman of accuracy and inverse query loss {spearman}.")
    return TableFile("why", sheets, records, sentences) if records else None


def _shape(settings: HardSettings, shape: str) -> str:
    if shape == "fixed":
        return f"{settings.way}-way {settings.shot}-shot"
    return f"variable way and shot (up to {settings.max_way} ways, {settings.max_support} support images)"

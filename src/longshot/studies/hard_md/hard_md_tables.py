"""The tables of the study Hard-Meta-Dataset++: the stress test, how ranks change, the ablations, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longshot.base import Floats
from longshot.diagnosis import composition_sheet, say_correlation
from longshot.reports import Sheet, SheetCell, heads, row
from longshot.statistics import CLASSES, TASKS, correlation
from longshot.studies.engine.study_tables import FIRST_PLACE, Fact, TableFile, TableRow, mark_columns, present
from longshot.studies.hard_md.hard_md_ablations import ablation_tables
from longshot.studies.hard_md.hard_md_plan import printed_sheet, trained_pairs
from longshot.studies.hard_md.hard_md_scores import (
    JUDGE,
    HardScores,
    Mean,
    Why,
    cell,
    held_out,
    mean_of,
    overall,
    ranks_of,
    record,
    stress_shared,
)
from longshot.studies.hard_md.hard_md_testbeds import KINDS, HardSettings, HardTestbed, main

_COLUMNS = (*KINDS, "drop")


def hard_tables(scores: HardScores) -> list[TableFile]:
    """Make all tables that the study's testbeds allow."""
    settings = scores.settings
    return present(
        [
            stress_table(scores),
            ranks_table(scores),
            *ablation_tables(scores),
            adapted_table(scores) if settings.adapted else None,
            trained_table(scores),
            why_table(scores.why) if settings.why else None,
        ]
    )


def stress_table(scores: HardScores) -> TableFile:
    """Show uniform, difficult, easy and the drop, by source: the paper's figures 1, 3, 9 and 11 to 30."""
    records: list[Fact] = []
    sheets = []
    for shape in scores.settings.shapes:
        if scores.sources(shape):
            sheet, own = _stress_sheet(scores, shape)
            sheets.append(sheet)
            records += own
    if scores.settings.published:
        sheets.append(printed_sheet("figure 4"))
    return TableFile("stress", sheets, records, _drop_sentences(scores))


def _stress_sheet(scores: HardScores, shape: str) -> tuple[Sheet, list[Fact]]:
    """Make the sheet of a shape: a row per backbone and method, ranked in its setting, never the judge."""
    sources, shared = scores.sources(shape), stress_shared(scores, shape)
    lines = [
        TableRow(
            (scores.title(backbone), method),
            scores.lab.scores.setting(method),
            ranked=backbone not in scores.judging,
        )
        for backbone, method in scores.stress_rows()
    ]
    means_shown = len(sources) > 1 and bool(shared)
    columns: list[tuple[Sequence[str], str]] = [
        ([source], column) for source in sources for column in _COLUMNS
    ]
    columns += [(shared, column) for column in ("uniform", "difficult", "drop") if means_shown]
    marks = _stress_marks(scores, shape, columns, lines)
    blocks: dict[str, list[list[SheetCell]]] = {}
    records: list[Fact] = []
    for r, (line, (backbone, method)) in enumerate(zip(lines, scores.stress_rows(), strict=True)):
        cells = row(*line.labels)
        for c, (own, column) in enumerate(columns):
            measure = scores.drop if column == "drop" else scores.mean
            means = [measure(main(shape, column, source), backbone, method) for source in own]
            mean = means[0] if len(means) == 1 else overall(means)
            cells.append(cell(mean, column == "drop", marks[c][r]))
            if c < len(_COLUMNS) * len(sources):
                facts = record("stress", own[0], shape, column, backbone, method, mean)
                records.append({**facts, "half_over_classes": mean and mean.over_classes})
        blocks.setdefault(line.group, []).append(cells)
    names = [
        *heads("backbone", "method"),
        *((own[0], column) for own, column in columns if own is not shared),
    ]
    names += heads("uniform", "difficult", "drop", group=mean_of(shared)) if means_shown else []
    note = (
        f"Accuracy in %, ± half the 95 % interval for {TASKS}; drop: uniform − difficult, paired by task, in brackets "
        f"that for {CLASSES}, where it differs by more than a fifth. "
        f"{scores.title(scores.judge)} chose the supports, raising the loss '{scores.settings.objective}' from the "
        f"{'random' if scores.settings.start == 'paper' else 'uniform'} start. {JUDGE}: "
        f"it, or a network that started from it; these are not ranked. {FIRST_PLACE}"
    )
    ordered = [blocks[setting] for setting in sorted(blocks)]
    return Sheet(f"Stress test, {_shape(scores.settings, shape)}", names, ordered, note), records


def _stress_marks(
    scores: HardScores, shape: str, columns: Sequence[tuple[Sequence[str], str]], lines: Sequence[TableRow]
) -> list[list[str]]:
    """Mark the first places of every column by the one rule of all studies; a drop has none."""

    def values(own: Sequence[str], column: str, backbone: str, method: str) -> Floats | None:
        each = [scores.accuracy(main(shape, column, source), backbone, method) for source in own]
        if column == "drop" or any(value is None for value in each):
            return None
        return np.concatenate([value for value in each if value is not None])

    rows = scores.stress_rows()
    return mark_columns([[values(own, column, *who) for who in rows] for own, column in columns], lines)


def _drop_sentences(scores: HardScores) -> list[str]:
    """Say the smallest and the largest drop of a backbone that took no part in choosing."""
    sentences = []
    for shape in scores.settings.shapes:
        drops: dict[tuple[str, str], Mean] = {}
        shared = stress_shared(scores, shape)
        for backbone, method in scores.stress_rows():
            by_source = [scores.drop(main(shape, "drop", source), backbone, method) for source in shared]
            mean = overall(by_source)
            if mean is not None and backbone in held_out(scores):
                drops[backbone, method] = mean
        if drops:
            low, high = (pick(drops, key=lambda who: drops[who].mean) for pick in (min, max))
            texts = [
                f"{drops[who].text()} points ({who[1]} on {who[0]})" for who in dict.fromkeys((low, high))
            ]
            sentences.append(
                f"{_shape(scores.settings, shape)}, {mean_of(shared)}: the drop from uniform to difficult supports "
                f"{'is' if len(texts) == 1 else 'lies between'} {' and '.join(texts)}"
                + (", the judge and what started from it left aside." if len(scores.backbones) > 1 else ".")
            )
    return sentences


def ranks_table(scores: HardScores) -> TableFile:
    """Show how the order of backbones changes from uniform to difficult tasks."""
    records: list[Fact] = []
    rows, sentences = [], []
    over: dict[str, list[str]] = {}
    for shape in scores.settings.shapes:
        shared = over[shape] = stress_shared(scores, shape)
        for method in scores.settings.methods:
            means: dict[str, tuple[float, float]] = {}  # backbone → mean on uniform and on difficult tasks
            for backbone in scores.backbones:
                if backbone in scores.judging:
                    continue  # whoever chose the supports is no fair measure of them
                uniform, difficult = (
                    overall([scores.mean(main(shape, kind, source), backbone, method) for source in shared])
                    for kind in KINDS[:2]
                )
                if uniform and difficult:
                    means[backbone] = (uniform.mean, difficult.mean)
            values = np.array(list(means.values())).reshape(-1, 2)
            ranks = np.stack([ranks_of(values[:, column]) for column in (0, 1)], axis=1)
            for backbone, (before, after) in zip(means, ranks.tolist(), strict=True):
                rows.append(row(shape, method, backbone, str(before), str(after)))
                facts = {"shape": shape, "method": method, "backbone": backbone}
                records.append({**facts, "uniform": before, "difficult": after})
            if len(means) > 3:
                spearman = say_correlation(correlation(values[:, 0], values[:, 1], kind="spearman"))
                sentences.append(
                    f"{shape}, {method}: Spearman of the {len(means)} backbones' means {spearman}."
                )
    names = [*heads("shape", "method", "backbone"), *heads("uniform", "difficult", group="rank")]
    averaged = "; ".join(f"{shape}: {mean_of(shared)}" for shape, shared in over.items() if shared)
    note = (
        f"Rank 1: highest mean accuracy ({averaged}); ranks of close means can be chance. {scores.judge}, which "
        "chose the supports, and networks that started from it are not ranked."
    )
    return TableFile("ranks", [Sheet("Order of backbones", names, [rows], note, 3)], records, sentences)


def adapted_table(scores: HardScores) -> TableFile:
    """Show methods that adapt the network, on few tasks, beside protonet on the same (figures 10, 43, 44)."""
    settings = scores.settings
    blocks = []
    records: list[Fact] = []
    for source in scores.sources("fixed"):
        rows = []
        for backbone in scores.backbones:
            for method in [*settings.adapted, "protonet"]:
                bed = HardTestbed(source, "adapted", "fixed", "uniform")
                means = {kind: scores.mean(bed.of_kind(kind), backbone, method) for kind in KINDS[:2]}
                if all(mean is None for mean in means.values()):
                    continue
                means["drop"] = scores.drop(bed, backbone, method)
                cells = (cell(mean, kind == "drop") for kind, mean in means.items())
                rows.append(row(source, scores.title(backbone), method, *cells))
                records += [
                    record("adapted", source, "fixed", kind, backbone, method, mean)
                    for kind, mean in means.items()
                ]
        blocks += [rows] if rows else []
    names = heads("source", "backbone", "method", "uniform", "difficult", "drop")
    note = f"The same {settings.adapted_tasks} fixed tasks in every cell. {JUDGE} chose the supports."
    sheets = [Sheet("Methods that adapt the network", names, blocks, note, 3)]
    if settings.published:
        sheets += [printed_sheet("figure 43"), printed_sheet("figure 44")]
    return TableFile("adapted", sheets, records)


def trained_table(scores: HardScores) -> TableFile:
    """Compare networks whose trainings differ in one setting, paired by task (table 4 and figure 31)."""
    settings = scores.settings
    rows = []
    records: list[Fact] = []
    for shape in settings.shapes:
        for pair in trained_pairs(settings):
            label = f"{pair.second} − {pair.first}"
            backbones = [(name, "protonet") for name in (pair.first, pair.second)]
            shared = scores.shared([main(shape, kind) for kind in KINDS[:2]], backbones)
            for kind in (
                KINDS[:2] if set(backbones) <= {(name, "protonet") for name in scores.backbones} else ()
            ):
                beds = [main(shape, kind, source) for source in shared]
                means = [scores.difference((bed, pair.second), (bed, pair.first)) for bed in beds]
                names = (scores.title(pair.second), scores.title(pair.first))
                text = f"{names[0]} − {names[1]}"
                rows.append(row(shape, kind, text, pair.factor, mean_of(shared), cell(overall(means), True)))
                records += [
                    record("trained", source, shape, kind, label, "protonet", mean)
                    for source, mean in zip(shared, means, strict=True)
                ]
    names_of_columns = heads(
        "shape", "support", "networks", "what differs", "sources", "difference in points"
    )
    note = (
        "Accuracy of protonet, paired by task; all else of the two trainings is equal. An interval that holds 0 tells "
        "nothing."
    )
    sheets = [Sheet("Networks trained here, against one another", names_of_columns, [rows], note, 5)]
    if settings.published:
        sheets += [printed_sheet("table 4"), printed_sheet("figure 31")]
    return TableFile("trained", sheets, records)


def why_table(why: Why) -> TableFile:
    """Show the composition of the three kinds of supports and the causes found (figures 5, 8 and 40)."""
    sheets = []
    records: list[Fact] = []
    sentences = []
    for source, kinds in why.compositions.items():
        sheet = composition_sheet(kinds, f"Supports against the same queries, {source}", most=14)
        sheets += [] if sheet is None else [sheet]
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
    return TableFile("why", sheets, records, sentences)


def _shape(settings: HardSettings, shape: str) -> str:
    if shape == "fixed":
        return f"{settings.way}-way {settings.shot}-shot"
    if settings.replay is not None:
        return "Meta-Dataset's own episodes"
    return f"variable way and shot (up to {settings.max_way} ways, {settings.max_support} support images)"

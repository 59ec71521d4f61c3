"""The tables of the study Hard-Meta-Dataset++: the stress test, how ranks change, the ablations, and why."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from longshot.causes.words import composition_rows, say_correlation
from longshot.reports.sheets import Sheet, SheetCell
from longshot.statistics import correlation, mean_interval
from longshot.studies.engine.tables import TableFile
from longshot.studies.hard_md import paper as paper
from longshot.studies.hard_md.ablations import ablation_tables
from longshot.studies.hard_md.cells import cell, places, points, record
from longshot.studies.hard_md.plan import KINDS, StudyTestbed
from longshot.studies.hard_md.scores import HardScores, Mean
from longshot.studies.hard_md.why import Why

Record = dict[str, Any]


def tables(
    settings: Mapping[str, Any], scores: HardScores, seconds: Mapping[str, float], why: Why | None
) -> list[TableFile]:
    """All tables that the study's testbeds allow."""
    found: list[TableFile | None] = [_stress(settings, scores), _ranks(settings, scores)]
    found += ablation_tables(settings, scores, seconds)
    if settings["adapted"]:
        found.append(_adapted(settings, scores))
    if len(settings["networks"]) > 1:
        found.append(_trained(settings, scores))
    if why is not None:
        found.append(_why(why))
    return [one for one in found if one is not None]


def _stress(settings: Mapping[str, Any], scores: HardScores) -> TableFile:
    """Uniform, difficult, easy and the drop, by source: the paper's figures 1, 3, 9 and 11 to 30."""
    records: list[Record] = []
    sheets = []
    for shape in settings["shapes"]:
        sources = scores.sources(shape)
        if not sources:
            continue
        rows = []
        for backbone in scores.backbones:
            for method in settings["methods"]:
                cells = [SheetCell(scores.titles[backbone]), SheetCell(method)]
                by_kind: dict[str, list[Mean | None]] = {kind: [] for kind in (*KINDS, "drop")}
                for source in sources:
                    for kind in KINDS:
                        by_kind[kind].append(
                            scores.mean(StudyTestbed(source, "main", shape, kind), backbone, method)
                        )
                    by_kind["drop"].append(scores.drop(source, shape, backbone, method))
                    cells += [cell(by_kind[kind][-1], kind == "drop") for kind in (*KINDS, "drop")]
                    records += [
                        record(
                            "stress", source, shape, kind, scores.titles[backbone], method, by_kind[kind][-1]
                        )
                        for kind in (*KINDS, "drop")
                    ]
                whole = {kind: scores.overall(values) for kind, values in by_kind.items()}
                cells += [cell(whole[kind], kind == "drop") for kind in ("uniform", "difficult", "drop")]
                rows.append(cells)
        heads = [("", "backbone"), ("", "method")]
        heads += [(source, kind) for source in sources for kind in (*KINDS, "drop")]
        heads += [(f"mean of {len(sources)} sources", kind) for kind in ("uniform", "difficult", "drop")]
        note = (
            "Accuracy in %, ± half the 95 % interval over tasks; drop: uniform − difficult, paired by task."
        )
        sheets.append(Sheet(f"Stress test, {_shape(settings, shape)}", heads, [rows], note))
    if settings["published"]:
        sheets.append(paper.sheet("figure 4"))
    return TableFile("stress", sheets, records, _drops_said(settings, scores))


def _drops_said(settings: Mapping[str, Any], scores: HardScores) -> list[str]:
    """The smallest and the largest drop of a backbone, in words."""
    said = []
    for shape in settings["shapes"]:
        sources = scores.sources(shape)
        drops = {
            (scores.titles[backbone], method): scores.overall(
                [scores.drop(source, shape, backbone, method) for source in sources]
            )
            for backbone in scores.backbones
            for method in settings["methods"]
        }
        known = {who: one for who, one in drops.items() if one is not None}
        if known:
            low, high = (pick(known, key=lambda who: known[who].mean) for pick in (min, max))
            said.append(
                f"{_shape(settings, shape)}: the drop from uniform to difficult supports lies between "
                f"{points(known[low])} ({low[1]} on {low[0]}) and {points(known[high])} points ({high[1]} on "
                f"{high[0]})."
            )
    return said


def _ranks(settings: Mapping[str, Any], scores: HardScores) -> TableFile:
    """How the order of backbones changes from uniform to difficult tasks."""
    records: list[Record] = []
    rows, said = [], []
    for shape in settings["shapes"]:
        for method in settings["methods"]:
            sources = scores.sources(shape)
            means = {
                kind: [
                    scores.overall(
                        [scores.mean(StudyTestbed(s, "main", shape, kind), b, method) for s in sources]
                    )
                    for b in scores.backbones
                ]
                for kind in ("uniform", "difficult")
            }
            pairs = zip(scores.backbones, means["uniform"], means["difficult"], strict=True)
            known = [(backbone, one.mean, other.mean) for backbone, one, other in pairs if one and other]
            values = {
                "uniform": np.array([one for _, one, _ in known]),
                "difficult": np.array([other for _, _, other in known]),
            }
            order = {kind: places(one) for kind, one in values.items()}
            for place, (backbone, _, _) in enumerate(known):
                title = scores.titles[backbone]
                ranks = [int(order[kind][place]) for kind in ("uniform", "difficult")]
                rows.append(
                    [
                        SheetCell(shape),
                        SheetCell(method),
                        SheetCell(title),
                        *(SheetCell(str(rank)) for rank in ranks),
                    ]
                )
                records.append(
                    {
                        "shape": shape,
                        "method": method,
                        "backbone": title,
                        "uniform": ranks[0],
                        "difficult": ranks[1],
                    }
                )
            if len(known) > 3:
                found = correlation(values["uniform"], values["difficult"], kind="spearman")
                said.append(
                    f"{shape}, {method}: Spearman of the {len(known)} backbones' means {say_correlation(found)}."
                )
    heads = [("", "shape"), ("", "method"), ("", "backbone"), ("rank", "uniform"), ("rank", "difficult")]
    note = "Rank 1: highest mean accuracy over the sources; ranks of close means can be chance."
    return TableFile("ranks", [Sheet("Order of backbones", heads, [rows], note, 3)], records, said)


def _adapted(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """Methods that adapt the network, on few fixed tasks, beside protonet on the same ones (figures 10, 43 and "
    "44)."""
    rows, records = [], []
    methods = [*settings["adapted"], "protonet"]
    for source in scores.sources("fixed"):
        for backbone in scores.backbones:
            for method in methods:
                means = {
                    kind: scores.mean(StudyTestbed(source, "adapted", "fixed", kind), backbone, method)
                    for kind in KINDS[:2]
                }
                if all(one is None for one in means.values()):
                    continue
                drop = scores.drop(source, "fixed", backbone, method, "adapted")
                cells = [cell(means["uniform"]), cell(means["difficult"]), cell(drop, True)]
                rows.append(
                    [SheetCell(source), SheetCell(scores.titles[backbone]), SheetCell(method), *cells]
                )
                records += [
                    record("adapted", source, "fixed", kind, scores.titles[backbone], method, one)
                    for kind, one in (*means.items(), ("drop", drop))
                ]
    if not rows:
        return None
    heads = [
        ("", "source"),
        ("", "backbone"),
        ("", "method"),
        ("", "uniform"),
        ("", "difficult"),
        ("", "drop"),
    ]
    note = f"The same {settings['adapted_tasks']} fixed tasks in every cell."
    sheets = [Sheet("Methods that adapt the network", heads, [rows], note, 3)]
    if settings["published"]:
        sheets += [paper.sheet("figure 43"), paper.sheet("figure 44")]
    return TableFile("adapted", sheets, records)


def _trained(settings: Mapping[str, Any], scores: HardScores) -> TableFile | None:
    """Networks trained here against one another, paired by task (the paper's table 4 and figure 31)."""
    mine = [b for b in scores.backbones if scores.titles[b] in settings["networks"]]
    rows, records = [], []
    for shape in settings["shapes"]:
        for one, other in combinations(mine, 2):
            for kind in KINDS[:2]:
                means = [
                    _difference(scores, StudyTestbed(s, "main", shape, kind), one, other)
                    for s in scores.sources(shape)
                ]
                whole = scores.overall(means)
                label = f"{scores.titles[other]} − {scores.titles[one]}"
                rows.append([SheetCell(shape), SheetCell(kind), SheetCell(label), cell(whole, True)])
                records += [
                    record("trained", source, shape, kind, label, "protonet", mean)
                    for source, mean in zip(scores.sources(shape), means, strict=True)
                ]
    if not rows:
        return None
    heads = [("", "shape"), ("", "support"), ("", "networks"), ("", "difference in points")]
    note = (
        "Accuracy of protonet, paired by task, mean over the sources; an interval that holds 0 tells nothing."
    )
    sheets = [Sheet("Networks trained here, against one another", heads, [rows], note, 3)]
    if settings["published"]:
        sheets += [paper.sheet("table 4"), paper.sheet("figure 31")]
    return TableFile("trained", sheets, records)


def _difference(scores: HardScores, bed: StudyTestbed, one: str, other: str) -> Mean | None:
    """The second backbone's accuracy minus the first's, paired by task."""
    before, after = (scores.accuracy(bed, backbone) for backbone in (one, other))
    return None if before is None or after is None else Mean.of(mean_interval(after - before))


def _why(why: Why) -> TableFile | None:
    """Composition of the three kinds of supports and the causes found (the paper's figures 5 and 40, and 8)."""
    sheets, records, said = [], [], []
    for source, kinds in why.compositions.items():
        shown = composition_rows(kinds, most=14)
        if shown:
            heads = [("", head) for head in shown[0]]
            rows = [[SheetCell(str(value)) for value in row.values()] for row in shown]
            sheets.append(Sheet(f"Supports against the same queries, {source}", heads, [rows], "", 1))
        for kind, rows_of in kinds.items():
            records += [
                {
                    "source": source,
                    "kind": kind,
                    "attribute": one.attribute,
                    "value": one.value or "",
                    "support": one.support.mean,
                    "query": one.query.mean,
                    "gap": one.gap.mean,
                    "gap_half": one.gap.half,
                    "coverage": one.coverage,
                }
                for one in rows_of
            ]
        found = why.explained[source]
        have = sum(bool(task.findings) for task in found.tasks)
        top = [cause for cause in found.causes if cause.tasks][:3]
        said.append(
            f"{source}: {have} of {len(found.tasks)} difficult tasks have a cause among the attributes"
            + (f", most often {', '.join(f'{c.attribute} ({c.tasks})' for c in top)}." if top else ".")
        )
        if found.loss_and_accuracy is not None:
            said.append(
                f"{source}: Spearman of accuracy and inverse query loss {say_correlation(found.loss_and_accuracy)}."
            )
    return TableFile("why", sheets, records, said) if records else None


def _shape(settings: Mapping[str, Any], shape: str) -> str:
    if shape == "fixed":
        return f"{settings['way']}-way {settings['shot']}-shot"
    return (
        f"variable way and shot (up to {settings['max_way']} ways, {settings['max_support']} support images)"
    )

"""The table behind the paper's figure 40: how many objects easy and difficult supports show for the same queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longshot.base import Floats
from longshot.reports import Sheet, heads, row
from longshot.studies.engine.tables import Fact, TableFile
from longshot.studies.hard_md.scores import HardScores, Mean, cell
from longshot.studies.hard_md.testbeds import KINDS, HardTestbed, objects_beds
from longshot.tasks import objects_attribute


@dataclass(frozen=True)
class SupportObjects:
    """Objects of the support images, by task: their mean number [T], and their mean distance to the queries' [T]."""

    number: Floats
    distance: Floats


def support_objects(scores: HardScores, bed: HardTestbed) -> SupportObjects:
    """Over the support images of every task; images whose objects nobody counted are left aside.

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
    """A row per source and number of objects: objects in the supports, distances, accuracy; paired by task."""
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
            block.append(row(source, str(number), *cells, _plain(gap, "+"), *map(cell, accuracy.values())))
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


def _plain(values: Floats, sign: str = "") -> str:
    """A mean over tasks with half its interval; tasks without a counted image are left out."""
    present = values[~np.isnan(values)]
    if not len(present):
        return "–"
    mean = Mean.of(present)
    return f"{mean.mean:{sign}.2f} ± {mean.half:.2f}"


def _record(
    source: str, number: int, kind: str, measured: SupportObjects, accuracy: Mean | None, tasks: int
) -> Fact:
    facts: Fact = {"source": source, "query_objects": number, "support": kind, "tasks": tasks}
    for name, values in (("objects", measured.number), ("distance", measured.distance)):
        present = values[~np.isnan(values)]
        mean = Mean.of(present) if len(present) else None
        facts |= {name: mean and mean.mean, f"{name}_half": mean and mean.half}
    return facts | {"accuracy": accuracy and accuracy.mean, "accuracy_half": accuracy and accuracy.half}

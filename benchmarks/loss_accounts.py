"""What a loss is made of: an annotated cause against the matched testbed, the same unannotated, and natural difficulty.

    python -m benchmarks.loss_accounts pacs domain      # a folder with attributes.csv, and the column that shifts
    python -m benchmarks.loss_accounts cub              # difficult and random tasks of any dataset
    python -m benchmarks.loss_accounts cub - 200        # the number of tasks

With a column, supports come from one value and queries from another, for pairs of values. The truth is the accuracy of
the matched testbed (supports and queries of the value of the queries) minus that of the shifted one. Without the
annotation, the looks that a sentence names (a tenth more frequent among the supports of a task) are what is found; its
purity is the share of their images that have the value of the supports, among the images of the task's classes that
have either value.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

import longshot
from longshot.data import Dataset
from longshot.diagnosis.attribute_gaps import LOOK
from longshot.diagnosis.explanation import Explanation, _gaps
from longshot.tasks import FixedShape, MatchedInstances, ShiftedInstances

BACKBONE = "efficientnet-lite0(size=128)"
SHAPE = FixedShape(way=5, shot=5, query=10)


def accuracy(bed: longshot.Testbed, dataset: Dataset, folder: Path) -> float:
    """Mean accuracy of ProtoNet on a testbed."""
    run = longshot.evaluate(
        bed, backbones=BACKBONE, methods="protonet", datasets={dataset.name: dataset}, out=folder
    )
    return float(np.mean(run.table().column("accuracy").to_numpy()))


def firsts(explanation: Explanation) -> Counter[str]:
    """The attribute named first in each task."""
    return Counter(task.findings[0].attribute if task.findings else "nothing" for task in explanation.tasks)


def purity(bed: longshot.Testbed, dataset: Dataset, values: np.ndarray, support: str, query: str) -> float:
    """Mean over tasks of the share of images with the value of the supports in the looks found; the module says how."""
    _, seen = next(_gaps(bed, {dataset.name: replace(dataset, attributes=None)}, {}, False, BACKBONE))
    gaps, shares = seen.gaps, []
    looks = [column for column, each in enumerate(gaps.columns) if each.attribute == LOOK]
    for task in range(len(bed)):
        groups = gaps.groups.task == task
        ahead = [c for c in looks if (gaps.support[c, groups] - gaps.query[c, groups]).mean() > 0.1]
        inside = np.any([gaps.columns[c].numbers == 1 for c in ahead], axis=0)
        inside &= np.isin(dataset.labels, gaps.groups.label[groups]) & np.isin(values, [support, query])
        shares.append((values[inside] == support).mean())
    return float(np.mean(shares))


def separating(dataset: Dataset, attribute: str, tasks: int) -> None:
    """Print a line per pair of values: who is first, points against the truth, purity without the annotation."""
    assert dataset.attributes is not None
    values = np.array(dataset.attributes.column(attribute).to_pylist())
    for query, support in permutations(np.unique(values).tolist(), 2):
        rules = {"query_where": f"{attribute} == {query}", "support_where": f"{attribute} == {support}"}
        beds = [
            longshot.sample(
                dataset, tasks=tasks, shape=SHAPE, instances=rule(**rules), seed=0, copies="allow"
            )
            for rule in (ShiftedInstances, MatchedInstances)
        ]
        with tempfile.TemporaryDirectory() as folder:
            shifted, matched = (
                accuracy(bed, dataset, Path(folder, name)) for bed, name in zip(beds, "ab", strict=True)
            )
        explained = longshot.explain(
            beds[0], backbone=BACKBONE, intervene=True, datasets={dataset.name: dataset}
        )
        cause = next(each for each in explained.interventions if each.kind == attribute)
        bare = longshot.explain(
            beds[0], backbone=BACKBONE, datasets={dataset.name: replace(dataset, attributes=None)}
        )
        print(
            f"{query} → {support}: first in {firsts(explained)[attribute]} of {tasks}, "
            f"{cause.points.text('points')} points, truth {100 * (matched - shifted):.1f}; without annotation "
            f"{dict(firsts(bare).most_common(2))}, purity {purity(beds[0], dataset, values, support, query):.3f}",
            flush=True,
        )


def natural(dataset: Dataset, tasks: int) -> None:
    """Print the account of difficult tasks with what it takes, and how many random tasks have a finding."""
    common = {"tasks": tasks, "shape": SHAPE, "seed": 0, "copies": "allow"}
    random = longshot.sample(dataset, **common)
    explained = longshot.explain(random, backbone=BACKBONE, datasets={dataset.name: dataset})
    with_finding = sum(bool(task.findings) for task in explained.tasks)
    print(f"random tasks with a finding: {with_finding} of {tasks}", flush=True)
    hard = longshot.sample(dataset, instances="difficult", judge=BACKBONE, **common)
    wall, processor = time.perf_counter(), time.process_time()
    explained = longshot.explain(hard, backbone=BACKBONE, intervene=True, datasets={dataset.name: dataset})
    print(
        f"{tasks} difficult tasks: {time.process_time() - processor:.1f} s of processor time, "
        f"{time.perf_counter() - wall:.1f} s"
    )
    for account in explained.accounts:
        print(account.sentence)
        for share in account.shares:
            print(f"  {share.points.text('points')} points: {share.meaning}")
    for remedy in explained.remedies[:3]:
        print(f"  {remedy.sentence}")


def main(source: str, attribute: str = "-", tasks: str = "60") -> None:
    dataset = longshot.open_dataset(source)
    if attribute == "-":
        natural(dataset, int(tasks))
    else:
        separating(dataset, attribute, int(tasks))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Which settings of a method are the better defaults: accuracy and loss of the candidates on the same tasks.

For every dataset 600 tasks of 5 ways with 10 queries per class are drawn at 1 and at 5 shots and solved on the
features of one backbone. A candidate replaces a method's first one (today's default) where its accuracy, averaged over
all datasets and shots, is higher by more than the 95 % interval of that difference (paired by task).

    python -m benchmarks.variants                                     on toybox
    python -m benchmarks.variants grocery128.zip cifar100-test.zip    on datasets of your own
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import longshot
from longshot.models import feature_method
from longshot.statistics import mean_interval

Floats = NDArray[np.float64]
Cells = Mapping[str, Mapping[str, Mapping[str, Floats]]]  # dataset and shots → candidate → metric → [T]
BACKBONE, TASKS, SHOTS = "efficientnet-lite0(size=128)", 600, (1, 5)
CANDIDATES = (
    ("protonet", "protonet(squared=False)"),
    (
        "bd-cspn(scale=10, temperature=10)",
        "bd-cspn(scale=1, temperature=10)",
        "bd-cspn(scale=1, temperature=1)",
    ),
    ("laplacianshot(scale=10)", "laplacianshot(scale=1)"),
    (
        "pt-map(center='none', steps=10)",
        "pt-map(center='none', steps=20)",
        "pt-map(center='apart', steps=20)",
        "pt-map(center='unit', steps=10)",
        "pt-map(center='unit', steps=20)",
    ),
    ("tim(logits='cosine', steps=100)", "tim(logits='distance', steps=99)"),
)


def main(*datasets: str) -> None:
    calls = {call: feature_method(call).call for candidates in CANDIDATES for call in candidates}
    cells = {
        f"{Path(dataset).stem}, {shot}": _measure(dataset, shot, calls)
        for dataset in datasets or ("toybox",)
        for shot in SHOTS
    }
    for metric, scale, digits in (("accuracy", 100, 2), ("loss", 1, 3)):
        print(
            f"\n{metric}; columns: dataset, shots; {TASKS} tasks each, {BACKBONE}; difference: mean over columns"
        )
        print(f"| | {' | '.join(cells)} | mean | difference |")
        print("|---|" + "---|" * (len(cells) + 2))
        for first, *candidates in CANDIDATES:
            for call in (first, *candidates):
                means = [scale * cell[call][metric].mean() for cell in cells.values()]
                numbers = " | ".join(f"{mean:.{digits}f}" for mean in [*means, np.mean(means)])
                print(f"| `{call}` | {numbers} | {_difference(cells, first, call, metric, scale, digits)} |")


def _measure(dataset: str, shot: int, calls: Mapping[str, str]) -> dict[str, dict[str, Floats]]:
    """Candidate → accuracy and loss of every task; ``calls`` maps it to what results call it."""
    testbed = longshot.sample(dataset, tasks=TASKS, shot=shot, query=10, drop_small=True)
    results = longshot.evaluate(testbed, backbones=BACKBONE, methods=list(calls))
    tables = {candidate: results.select(method=call).table() for candidate, call in calls.items()}
    return {
        candidate: {metric: table[metric].to_numpy().astype(np.float64) for metric in ("accuracy", "loss")}
        for candidate, table in tables.items()
    }


def _difference(cells: Cells, first: str, call: str, metric: str, scale: float, digits: int) -> str:
    """Mean difference to ``first`` over all columns with its 95 % interval: task i of every column is one value."""
    if call == first:
        return ""
    gains = np.mean([cell[call][metric] - cell[first][metric] for cell in cells.values()], axis=0)
    interval = mean_interval(scale * gains)
    return f"{interval.mean:+.{digits}f} ± {interval.half:.{digits}f}"


if __name__ == "__main__":
    main(*sys.argv[1:])

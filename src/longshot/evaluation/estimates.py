"""What an evaluation would take in time and disk, without doing it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from longshot.evaluation import units
from longshot.evaluation.inputs import backbone_parts
from longshot.evaluation.plan import Plan, Testbeds
from longshot.evaluation.results import open_folder
from longshot.methods.base import Method
from longshot.methods.batching import Gatherer, Tasks, batches
from longshot.testbeds.bound import BoundTasks
from longshot.testbeds.testbed import Testbed

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features

_ROW_BYTES = 60  # of a result row beside its predictions, after compression


def estimate(
    testbeds: Testbeds,
    *,
    backbones: str | Features | Sequence[str | Features],
    methods: str | Method | Sequence[str | Method],
    out: str | os.PathLike[str],
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    workers: int | None = None,
    seed: int = 0,
    save_scores: bool = False,
) -> list[dict[str, Any]]:
    """What ``evaluate`` with the same arguments would take; all is checked and nothing is written.

    One record per dataset to embed, then one per testbed × backbone × method: ``left`` (images or tasks to do),
    ``seconds`` (from a timed batch on made-up features) and ``bytes`` on disk.
    """
    folder = Path(out)
    plan = Plan(testbeds, backbones, methods, datasets, device, workers, seed)
    plan.register(open_folder(folder))
    records, dims = _embedding(plan)
    to_embed = {record["backbone"] for record in records}
    for content_hash, testbed in plan.testbeds.items():
        for backbone in plan.backbones:
            for method in plan.methods:
                left = len(testbed)
                if backbone not in to_embed:  # features are at hand, so units have their ids
                    works = plan.cell(testbed, backbone, method)
                    states = [units.part_state(folder, work.unit, save_scores) for work in works]
                    left = sum(len(w.unit) for w, s in zip(works, states, strict=True) if s != "done")
                records.append(
                    {
                        "step": "evaluate",
                        "testbed": plan.names[content_hash],
                        "backbone": backbone,
                        "method": method.call,
                        "left": left,
                        "seconds": _probe(testbed, method, dims[backbone], plan.device) * left / plan.workers
                        if left
                        else 0.0,
                        "bytes": int(left * _bytes_per_task(testbed, save_scores)),
                    }
                )
    return records


def _embedding(plan: Plan) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Records of what must be embedded first, and the width of every backbone."""
    from longshot.features.extract import estimate as estimate_embedding

    dims = {name: next(iter(by_dataset.values())).dim for name, by_dataset in plan.given.items()}
    records = []
    for backbone in plan.backbones:
        if backbone in plan.given:
            continue
        for dataset in plan.datasets.values():
            found = [
                estimate_embedding(dataset, part, device=str(plan.device))
                for part in backbone_parts(backbone)
            ]
            dims[backbone] = sum(int(part["dim"]) for part in found)
            for part in found:
                if not part["cached"]:
                    records.append(
                        {
                            "step": f"embed {part['dataset']} by {part['backbone']}",
                            "testbed": None,
                            "backbone": backbone,
                            "method": None,
                            "left": part["images"],
                            "seconds": part["seconds"],
                            "bytes": part["bytes"],
                        }
                    )
    return records, dims


@torch.no_grad()
def _probe(testbed: Testbed, method: Method, dim: int, device: torch.device) -> float:
    """Seconds per task on one thread: one batch of the testbed's middle-sized task, features made up."""
    support, query = testbed.column("support_label"), testbed.column("query_label")
    middle = int(np.argsort(np.diff(support.offsets), kind="stable")[len(testbed) // 2])
    size = int(support.lengths[middle]), int(query.lengths[middle])
    one = np.zeros(64, np.int64) + middle
    rng = np.random.default_rng(0)
    bound = BoundTasks(
        tasks=np.arange(64),
        ways=np.full(64, int(testbed.table["way"][middle].as_py())),
        support=support.take(one).with_values(rng.integers(0, 4096, 64 * size[0])),
        support_label=support.take(one),
        query=query.take(one).with_values(rng.integers(0, 4096, 64 * size[1])),
        query_label=query.take(one),
    )
    gatherer = Gatherer([rng.standard_normal((4096, dim), dtype=np.float32)], device)
    start = time.perf_counter()
    done = 0
    for chosen, batch, _ in batches(Tasks.from_bound(bound), method, gatherer):
        method.scores(batch)
        done += len(chosen)
        if time.perf_counter() - start > 1:
            break
    return (time.perf_counter() - start) / done


def _bytes_per_task(testbed: Testbed, save_scores: bool) -> float:
    queries = len(testbed.column("query_label").values) / len(testbed)
    way = float(np.mean(testbed.table["way"].to_numpy()))
    return _ROW_BYTES + queries * (1 + (4 * way if save_scores else 0))

"""What an evaluation would take in time and disk, without doing it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from longshot.base import TaskRows
from longshot.evaluation.choices import leaves_open
from longshot.evaluation.plan import EvaluationPlan, Testbeds
from longshot.evaluation.remote_runs import open_store
from longshot.evaluation.stores import RunMemory, RunStore
from longshot.evaluation.threads import one_thread
from longshot.models import Gatherer, ImageMethod, Method, batches, prepare_fixed_norms, trainable_copy
from longshot.tasks import Testbed

if TYPE_CHECKING:
    from longshot.models import ModuleBackbone

_PROBE_IMAGES = 16  # of a timed gradient step
_ROW_BYTES = 60  # of a result row beside its predictions, after compression


def estimate(
    testbeds: Testbeds,
    *,
    out: str | os.PathLike[str] | None = None,
    save_scores: bool = False,
    **settings: Any,
) -> list[dict[str, Any]]:
    """What ``evaluate`` with the same arguments would take; all is checked and nothing is written.

    Returns
    -------
    list of dict
        One record per dataset to embed, then one per testbed × backbone × method: ``left`` (images or tasks to do),
        ``seconds`` (from a timed batch on made-up features, or a timed gradient step of the network) and ``bytes`` on
        disk; ``per_task`` is the time of one task on one core.
    """
    plan = EvaluationPlan(testbeds, **settings)
    store: RunStore = RunMemory() if out is None else open_store(out, new=True)
    plan.register(store.begin())
    records, dims = _embedding(plan)
    to_embed = {record["backbone"] for record in records}
    for content_hash, testbed in plan.testbeds.items():
        for backbone in plan.backbones:
            for method in plan.methods:
                unfinished = len(testbed)
                on_images = isinstance(method, ImageMethod)
                if on_images or backbone not in to_embed:  # what a unit's id says is at hand
                    cell_units = [work.unit for work in plan.cell(testbed, backbone, method)]
                    unfinished = sum(len(u) for u in cell_units if store.state(u, save_scores) != "done")
                per_task, extra = 0.0, 0
                if unfinished and isinstance(method, ImageMethod):
                    per_task = _probe_network(testbed, method, plan.adaptable(backbone))
                    if leaves_open(method):
                        extra = method.validation * len(method.candidates()) * len(testbed.datasets)
                elif unfinished:
                    assert isinstance(method, Method)
                    per_task = _probe(testbed, method, dims[backbone], plan.device)
                records.append(
                    {
                        "step": "evaluate",
                        "testbed": plan.names[content_hash],
                        "backbone": backbone,
                        "method": method.call,
                        "left": unfinished,
                        "per_task": per_task,
                        "seconds": per_task * (unfinished + extra) / plan.workers,
                        "bytes": int(unfinished * _bytes_per_task(testbed, save_scores)),
                    }
                )
    return records


def _embedding(plan: EvaluationPlan) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Records of what must be embedded first, and the width of every backbone."""
    from longshot.models import estimate_embedding

    dims = {name: next(iter(by_dataset.values())).dim for name, by_dataset in plan.given.items()}
    records = []
    for backbone in plan.backbones:
        if backbone in plan.given or len(plan.on_images) == len(plan.methods):
            continue
        for fingerprint, dataset in plan.datasets.items():
            rows, device = plan.rows(fingerprint), str(plan.device)
            parts = [
                estimate_embedding(dataset, part, device=device, rows=rows) for part in plan.parts(backbone)
            ]
            dims[backbone] = sum(int(part["dim"]) for part in parts)
            for part in parts:
                if not part["cached"]:
                    records.append(
                        {
                            "step": f"embed {part['dataset']} by {part['backbone']}",
                            "testbed": None,
                            "backbone": backbone,
                            "method": None,
                            "left": part["missing"],
                            "per_task": None,
                            "seconds": part["seconds"],
                            "bytes": part["bytes"],
                        }
                    )
    return records, dims


@torch.no_grad()
def _probe(testbed: Testbed, method: Method, dim: int, device: torch.device) -> float:
    """Seconds per task on one thread: one batch of the testbed's middle-sized task, features made up."""
    support, query = testbed.column("support_label"), testbed.column("query_label")
    middle = _middle(testbed)
    size = int(support.lengths[middle]), int(query.lengths[middle])
    copies = np.full(64, middle)
    rng = np.random.default_rng(0)
    bound = TaskRows(
        tasks=np.arange(64),
        ways=np.full(64, int(testbed.table["way"][middle].as_py())),
        support=support.take(copies).with_values(rng.integers(0, 4096, 64 * size[0])),
        support_label=support.take(copies),
        query=query.take(copies).with_values(rng.integers(0, 4096, 64 * size[1])),
        query_label=query.take(copies),
    )
    gatherer = Gatherer([rng.standard_normal((4096, dim), dtype=np.float32)], device)
    start = time.perf_counter()
    done = 0
    for chosen, batch, _ in batches(bound, method, gatherer):
        method.scores(batch)
        done += len(chosen)
        if time.perf_counter() - start > 1:
            break
    return (time.perf_counter() - start) / done


def _probe_network(testbed: Testbed, method: ImageMethod, backbone: ModuleBackbone) -> float:
    """Seconds per task on one thread: what the method says of a middle-sized task, a gradient step timed."""
    frozen = backbone.network()
    prepare_fixed_norms(frozen)
    network = trainable_copy(frozen)
    middle = _middle(testbed)
    support, query = (int(testbed.column(f"{part}_label").lengths[middle]) for part in ("support", "query"))
    way = int(testbed.table["way"][middle].as_py())
    count = min(support, _PROBE_IMAGES)
    images = torch.zeros(count, 3, *backbone.transform.size, device=backbone.device)
    times = []
    with one_thread(backbone.device):
        for _ in range(3):  # the first passes through a network are slow
            start = time.perf_counter()
            network(images).sum().backward()
            if backbone.device.type != "cpu":
                torch.accelerator.synchronize()
            times.append(time.perf_counter() - start)
    return method.flops_per_task(way, support, query, forward=min(times) / (3 * count))


def _middle(testbed: Testbed) -> int:
    """The task of middle size."""
    lengths = testbed.column("support_label").lengths
    return int(np.argsort(lengths, kind="stable")[len(testbed) // 2])


def _bytes_per_task(testbed: Testbed, save_scores: bool) -> float:
    queries = len(testbed.column("query_label").values) / len(testbed)
    way = float(np.mean(testbed.table["way"].to_numpy()))
    return _ROW_BYTES + queries * (1 + (4 * way if save_scores else 0))

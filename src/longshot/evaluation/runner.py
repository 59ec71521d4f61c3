"""Evaluate methods over testbeds: compute the units that are missing; or say what that would take, without doing it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from longshot.base import (
    FailureList,
    TaskRows,
    TaskShape,
    UnitsFailed,
    current_choice,
    executor,
    heartbeat,
    progress,
    with_engine,
    with_executor,
)
from longshot.evaluation import provenance
from longshot.evaluation.compute import ImageSource, Work, free_memory, one_thread
from longshot.evaluation.dispatch import Dispatch, choose_settings
from longshot.evaluation.plan import Backbones, EvaluationPlan, Methods, Testbeds
from longshot.evaluation.results import Results
from longshot.evaluation.run_stores import RunMemory, RunStore, open_store
from longshot.models import (
    Gatherer,
    ImageMethod,
    Method,
    bytes_per_task,
    leaves_open,
    padded_batches,
    prepare_fixed_norms,
    trainable_copy,
)
from longshot.tasks import Testbed

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import ModuleBackbone


MEMORY = 2 << 30  # bytes that the batches of all workers together may take
FREE_SHARE = 0.75  # of the machine's free memory that networks adapted beside one another may take


@with_engine
@with_executor
def evaluate(
    testbeds: Testbeds,
    *,
    backbones: Backbones,
    methods: Methods = (),
    variant: str | None = None,
    out: str | os.PathLike[str] | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    engine: str | None = None,
    workers: int | None = None,
    seed: int = 0,
    save_scores: bool = False,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> Results:
    """Run every method on every testbed through every backbone; one result row per task.

    Everything is checked first. Features that are not in the cache are computed; a method that adapts the network to
    a task reads its images instead, and chooses what it leaves open on validation tasks (run.json: choices). Units
    that are already in the folder are not computed again, so the same call after an interruption goes on from there,
    and a call with other methods, backbones or testbeds extends the run.

    Parameters
    ----------
    testbeds : Testbed, path or URL, list of those, or mapping of names to those
        A file is called by its name without ending, a Testbed by its hash.
    backbones : str, Features, list of those, or mapping of labels to those
        Backbone whose features to use; repeat for several; 'A + B' puts two side by side, 'mine=A' calls it
        mine. ``{"mine": "runs/proto"}`` says the same. Otherwise a network is called as it is written. It is
        one series, under whatever paths it is given.
    methods : str, function, classifier, method, list of those, or mapping of labels to those
        Method with its settings, such as "protonet(distance='cosine')"; repeat for several; 'Ours=A' labels it.
        Functions or modules of (support [S, d], support_label [S], query [Q, d], way) that return scores
        [Q, way], classifiers with ``fit`` and ``predict``, and method objects serve too; ``{"Ours": f}`` says
        what tables call one.
    variant : NAME, str, optional
        Run the methods as a paper's authors did: semantic-paper; without ``methods`` all methods of that paper.
        Names then come without settings.
    out : folder or URL, optional
        Folder or URL of the run; one that exists is extended. At a URL, several evaluations may extend it at
        once. Without it the results are held in memory, and nothing is written but the cache of features.
    datasets : NAME=PATH, mapping, optional
        Where a testbed's dataset lives, if not where it was before. The values are datasets, paths or URLs.
    workers : int, at least 1, optional
        Threads; they change no result. Default: one per core.
    save_scores : bool
        Keep the scores of every query, not only its prediction.
    seed : int, at least 0
        Random seed. It is the root of every random stream.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``. Units that failed three times on a cluster stand in ``failed.json``.

    Returns
    -------
    Results
        ``summary()`` for means with intervals, ``table()`` for the rows.

    Examples
    --------
    >>> results = evaluate("easy.parquet", backbones="pixels", methods="protonet")
    >>> [(row["method"], row["tasks"]) for row in results.summary()]
    [('protonet', 20)]
    """
    store: RunStore = RunMemory() if out is None else open_store(out, new=True, writes=True)
    plan = EvaluationPlan(testbeds, backbones, methods, datasets, device, workers, seed, variant)
    plan.settle()
    with store.lock():
        run = store.begin()
        plan.register(run)
        works = plan.works(run)
        provenance.record_upstream(run, plan)
        session = {
            "started": provenance.now(),
            "finished": None,
            "workers": plan.workers,
            "seed": seed,
            **provenance.surroundings(str(plan.device)),
        }
        run["sessions"].append(session)
        for testbed in plan.testbeds.values():
            store.keep_testbed(testbed)
        store.save(run)
        _run(plan, works, store, save_scores, run)
        provenance.record_unleaked(run, Results(store, run))
        session["finished"] = provenance.now()
        store.save(run)
    return Results(store)


def _run(
    plan: EvaluationPlan, works: list[Work], store: RunStore, save_scores: bool, run: dict[str, Any]
) -> None:
    """Compute the units that the store lacks; what failed before on every node stays away until it is asked for."""
    states = [store.state(work.unit, save_scores) for work in works]
    damaged = states.count("damaged")
    if damaged:
        print(f"note: {damaged} damaged result files in {store} are computed anew", file=sys.stderr)
    todo = [work for work, state in zip(works, states, strict=True) if state != "done"]
    failures = FailureList(None if store.path is None else store.path / "failed.json")
    names = {work.unit.id: _name(work) for work in works}
    failed = failures.skipped([work.unit.id for work in todo], retry=current_choice().retry_failed)
    todo = [work for work in todo if work.unit.id not in failed]
    total = sum(len(work.unit) for work in works)
    with one_thread(plan.device):
        dispatch = Dispatch(executor(), todo, plan.device, save_scores)
        dispatch.workers = _affordable(plan, todo)
        todo = choose_settings(todo, run, dispatch, partial(store.save, run))
        with progress("evaluate", total=total, unit="tasks") as bar:
            bar.skip(total - sum(len(work.unit) for work in todo))
            with heartbeat(store.path, "evaluate", bar.state):
                try:
                    with closing(dispatch.compute(todo, bar)) as finished:
                        for unit, columns in finished:
                            store.write(unit, columns)
                except UnitsFailed as error:
                    failed |= {id: f"{names[id]}: {reason}" for id, reason in error.failed.items()}
                failures.write(failed)
                if failed:
                    raise UnitsFailed(failed, f"all other results are in {store}")


def _name(work: Work) -> str:
    """Name a unit for people."""
    unit = work.unit
    tasks = f"tasks {unit.start} to {unit.stop - 1} of '{unit.testbed_name}'"
    return f"{unit.method} on {unit.backbone}, {tasks}"


def _affordable(plan: EvaluationPlan, works: Sequence[Work]) -> int:
    """Return how many of ``plan.workers`` have room for their largest batch or adapted network."""
    allowed = plan.workers
    for work in works:
        if not len(work.bound):
            continue
        support, query = (int(part.lengths.max()) for part in (work.bound.support, work.bound.query))
        if isinstance(work.source, ImageSource):
            # Copies of a network beside one another gain nothing on an accelerator.
            room = (
                FREE_SHARE * free_memory() // work.source.bytes_per_task(support)
                if plan.device.type == "cpu"
                else 1
            )
        else:
            assert isinstance(work.method, Method)
            shape = TaskShape(int(work.bound.ways.max()), support, query, work.source.dim)
            room = MEMORY // max(work.method.batch_bytes, bytes_per_task(work.method, shape))
        allowed = min(allowed, int(room))
    return max(1, min(allowed, len(works)))


_PROBE_IMAGES = 16  # of a timed gradient step
_ROW_BYTES = 60  # of a result row beside its predictions, after compression


def estimate_evaluation(
    testbeds: Testbeds,
    *,
    out: str | os.PathLike[str] | None = None,
    save_scores: bool = False,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Estimate what ``evaluate`` with the same arguments would take; check all and write nothing.

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
                seconds = per_task * (unfinished + extra) / plan.workers
                size = int(unfinished * _bytes_per_task(testbed, save_scores))
                cell = ("evaluate", plan.names[content_hash], backbone, method.call)
                records.append(_estimated(*cell, unfinished, per_task, seconds, size))
    return records


def _embedding(plan: EvaluationPlan) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """List records of what must be embedded first, and return the width of every backbone."""
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
                    step = f"embed {part['dataset']} by {part['backbone']}"
                    todo = (part["missing"], None, part["seconds"], part["bytes"])
                    records.append(_estimated(step, None, backbone, None, *todo))
    return records, dims


def _estimated(*values: Any) -> dict[str, Any]:
    """Return a record of ``estimate_evaluation`` from its values."""
    names = ("step", "testbed", "backbone", "method", "left", "per_task", "seconds", "bytes")
    return dict(zip(names, values, strict=True))


@torch.no_grad()
def _probe(testbed: Testbed, method: Method, dim: int, device: torch.device) -> float:
    """Measure seconds per task on one thread: one batch of the middle-sized task with made-up features."""
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
    for chosen, batch, _ in padded_batches(bound, method, gatherer):
        method.scores(batch)
        done += len(chosen)
        if time.perf_counter() - start > 1:
            break
    return (time.perf_counter() - start) / done


def _probe_network(testbed: Testbed, method: ImageMethod, backbone: ModuleBackbone) -> float:
    """Estimate seconds per task on one thread: a gradient step timed, scaled to a middle-sized task."""
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
    """Return the number of the task of middle size."""
    lengths = testbed.column("support_label").lengths
    return int(np.argsort(lengths, kind="stable")[len(testbed) // 2])


def _bytes_per_task(testbed: Testbed, save_scores: bool) -> float:
    queries = len(testbed.column("query_label").values) / len(testbed)
    way = float(np.mean(testbed.table["way"].to_numpy()))
    return _ROW_BYTES + queries * (1 + (4 * way if save_scores else 0))

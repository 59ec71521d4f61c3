"""Evaluate methods over testbeds: compute the units that are missing, write one file per unit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import (
    FailureList,
    TaskShape,
    UnitsFailed,
    current_choice,
    executor,
    heartbeat,
    progress,
    with_executor,
)
from longshot.evaluation import provenance
from longshot.evaluation.choices import choose_settings
from longshot.evaluation.compute import Work
from longshot.evaluation.dispatch import Dispatch
from longshot.evaluation.image_source import ImageSource, free_memory
from longshot.evaluation.plan import Backbones, EvaluationPlan, Methods, Testbeds
from longshot.evaluation.remote_runs import open_store
from longshot.evaluation.results import Results
from longshot.evaluation.stores import RunMemory, RunStore
from longshot.evaluation.threads import one_thread
from longshot.models import Method, bytes_per_task, with_engine

if TYPE_CHECKING:
    from longshot.data import Dataset

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
        ``"pixels"``, ``"a + b"`` for two side by side, or features at hand. ``"mine=runs/proto"`` and ``{"mine":
        "runs/proto"}`` say what a network is called in the results; otherwise it is called as it is written. A network
        is one series, under whatever paths it is given.
    methods : str, method, list of those
        Names with settings, such as ``"protonet(distance='cosine')"``, or method objects.
    variant : str, optional
        Run the methods with the settings of a paper's authors: ``"semantic-paper"``. Names then come without settings;
        without any name, all methods of the variant. See ``longshot methods`` for its calls.
    out : path or URL, optional
        The folder of the run; one that exists is extended. At a URL, several evaluations may extend it at once. Without
        it the results are held in memory, and nothing is written but the cache of features.
    datasets : mapping, optional
        Where a testbed's dataset lives (name → dataset, path or URL), if not where it was before.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    engine : str, optional
        What computes backbones, as in ``embed``.
    workers : int, optional
        Threads, by default one per core; neither they nor batch sizes change the results.
    seed : int
        The root of every random stream.
    save_scores : bool
        Keep the scores of every query, not only its prediction.
    on, gpus_per_worker, retry_failed : optional
        Where the work runs, as in ``embed``: "local", "ray" or "ray://HOST:PORT". Units that failed three times on a
        cluster stand in ``failed.json``; the same call leaves them out unless ``retry_failed``.

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
        provenance.record_upstream(run, plan.opened.names, plan.testbeds, plan.names)
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
    """What people call a unit."""
    unit = work.unit
    tasks = f"tasks {unit.start} to {unit.stop - 1} of '{unit.testbed_name}'"
    return f"{unit.method} on {unit.backbone}, {tasks}"


def _affordable(plan: EvaluationPlan, works: Sequence[Work]) -> int:
    """At most ``plan.workers``, and no more than have room for their largest batch or adapted network."""
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

"""Evaluate methods over testbeds: compute the units that are missing, write one file per unit."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.batches import TaskShape
from longshot.core.errors import UserError
from longshot.core.files import explain_disk_errors, write_json
from longshot.core.progress import progress
from longshot.evaluation import provenance, units
from longshot.evaluation.choices import choose_settings
from longshot.evaluation.compute import Work, compute
from longshot.evaluation.image_source import ImageSource, free_memory
from longshot.evaluation.plan import EvaluationPlan, Methods, Testbeds
from longshot.evaluation.results import Results, open_folder, testbed_path
from longshot.evaluation.threads import Tick, one_thread, run_jobs
from longshot.methods.base import Method
from longshot.methods.batching import advise, bytes_per_task

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features

MEMORY = 2 << 30  # bytes that the batches of all workers together may take
FREE_SHARE = 0.75  # of the machine's free memory that networks adapted beside one another may take


def evaluate(
    testbeds: Testbeds,
    *,
    backbones: str | Features | Sequence[str | Features],
    methods: Methods,
    out: str | os.PathLike[str],
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    workers: int | None = None,
    seed: int = 0,
    save_scores: bool = False,
) -> Results:
    """Run every method on every testbed through every backbone; results go into the folder ``out``.

    Everything is checked first. Features that are not in the cache are computed; a method that adapts the network to
    a task reads its images instead, and chooses what it leaves open on validation tasks (run.json: choices). Units
    that are already in the folder are not computed again, so the same call after an interruption goes on from there,
    and a call with other methods, backbones or testbeds extends the run. ``workers`` (threads; default: one per
    core) and batch sizes do not change the results.

    >>> evaluate("easy.parquet", backbones="pixels", methods="protonet", out="runs/first")  # doctest: +SKIP
    """
    folder = Path(out)
    plan = EvaluationPlan(testbeds, backbones, methods, datasets, device, workers, seed)
    with _lock(folder):
        run = open_folder(folder)
        plan.register(run)
        works = plan.works(run)
        provenance.record_upstream(run, plan.backbones, plan.testbeds, plan.names)
        session = {
            "started": provenance.now(),
            "finished": None,
            "workers": plan.workers,
            "seed": seed,
            **provenance.surroundings(str(plan.device)),
        }
        run["sessions"].append(session)
        with explain_disk_errors(folder):
            for stale in folder.rglob(".*.tmp"):  # left by a killed run; the lock says nobody is writing now
                stale.unlink(missing_ok=True)
        for testbed in plan.testbeds.values():
            copy = testbed_path(folder, testbed.content_hash)
            if not copy.is_file():
                testbed.save(copy)
        write_json(folder / "run.json", run)
        _run(plan, works, folder, save_scores, run)
        session["finished"] = provenance.now()
        write_json(folder / "run.json", run)
    return Results(folder)


def _run(
    plan: EvaluationPlan, works: list[Work], folder: Path, save_scores: bool, run: dict[str, Any]
) -> None:
    """Compute the units that are not in the folder, on ``plan.workers`` threads."""
    states = [units.part_state(folder, work.unit, save_scores) for work in works]
    damaged = states.count("damaged")
    if damaged:
        print(f"note: {damaged} damaged result files in {folder} are computed anew", file=sys.stderr)
    todo = [work for work, state in zip(works, states, strict=True) if state != "done"]
    _prepare(todo)
    workers = _affordable(plan, todo)
    total = sum(len(work.unit) for work in works)

    def one(work: Work, tick: Tick) -> None:
        outcome = compute(work, plan.device, save_scores, tick)
        units.write_unit(folder, work.unit, outcome.columns, outcome.seconds.tolist(), outcome.scores)

    with one_thread(plan.device):
        todo = choose_settings(todo, run, workers, partial(write_json, folder / "run.json", run))
        jobs: list[Callable[[Tick], None]] = [partial(one, work) for work in todo]
        with progress("evaluate", total=total, unit="tasks") as bar:
            bar.skip(total - sum(len(work.unit) for work in todo))
            run_jobs(jobs, workers, bar)


def _prepare(works: Sequence[Work]) -> None:
    """Tell the system how features will be read; build networks and decode images before threads meet in them."""
    sources = {id(work.source): work.source for work in works}.values()
    for source in sources:
        if isinstance(source, ImageSource):
            source.prepare()
        else:
            for features in source.features:
                advise(features.array)


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


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One evaluate at a time writes into a run folder; the lock ends with the process, however it ends."""
    open_folder(folder)  # refuse a foreign folder before anything is written into it
    try:
        import fcntl
    except ImportError:  # Windows: no such lock
        yield
        return
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"Another 'longshot evaluate' is writing to {folder}; wait for it or choose another folder with -o."
            ) from error
        yield
    finally:
        os.close(handle)

"""Longshot's methods against easyfsl 1.5.0: the same predictions, and tasks per second.

Exactness: 500 tasks, 5-way, 1 and 5 shots, 10 queries per class, on made-up 640-d features that are non-negative and
partly zero as after a ReLU, and on real features of toybox where the cache has them. Wanted: at least 99.5 % of
predictions equal, mean accuracy within 0.1 point.

Speed: 5-way 5-shot with 10 queries per class, and 100-way, gathering included on both sides, in turns, so that a busy
machine slows both; in processor seconds on one thread, by the clock on two. The goals (`benchmarks/goals.py`) are
for one thread: the geometric mean at 5-way, and the first five at 100-way or their share of the machine's peak. Needs
`.venv/bin/pip install --no-deps easyfsl==1.5.0`.

    python -m benchmarks                     one thread, short rounds, no exactness
    python -m benchmarks methods             all of it, about 15 minutes
    python -m benchmarks.methods speed       one part: exactness, speed, many-way, parts or before
    python -m benchmarks.methods speed one-thread    without the second thread, which says little on a busy machine
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._easyfsl import PEERS, Peer, load
from benchmarks.before import Program, Unavailable, source_before
from benchmarks.goals import tell
from benchmarks.rounds import Ratio, geometric_mean, in_turns, peak_gflops, peak_gigabytes, ratio, timed
from longshot.base import Ragged, TaskRows, TaskShape
from longshot.models import Gatherer, Method, feature_method, padded_batches
from longshot.models.methods.base import batch_size

_MISSING = "easyfsl is not installed: .venv/bin/pip install --no-deps easyfsl==1.5.0"
DIM = 640
CPU = torch.device("cpu")
CHUNK = 128  # tasks per unit of work, as the runner cuts a small testbed
SPEED = [
    "ProtoNet",
    "SimpleShot, ℓ₂",
    "BD-CSPN",
    "LaplacianShot",
    "PT-MAP",
    "Finetune",
    "Transductive fine-tuning",
    "TIM",
]
DIFFERENT = {  # what Longshot does by default where it does not do what easyfsl does
    "simpleshot": "SimpleShot, ℓ₂",
    "laplacianshot": "LaplacianShot, raw",
    "pt-map": "PT-MAP",
}


def made_up(classes: int, per_class: int, dim: int = DIM, signal: float = 0.22) -> NDArray[np.float32]:
    """[classes, per_class, dim] features like those after a ReLU: a shared profile, classes, noise, cut at 0."""
    rng = np.random.default_rng(0)
    profile = rng.standard_normal(dim, dtype=np.float32) * 0.5 - 0.3
    centres = profile + signal * rng.standard_normal((classes, 1, dim), dtype=np.float32)
    return np.maximum(centres + rng.standard_normal((classes, per_class, dim), dtype=np.float32), 0)


def draw(offsets: NDArray[np.int64], tasks: int, way: int, shot: int, query: int = 10) -> TaskRows:
    """Tasks over class-major rows, as a testbed binds them."""
    rng = np.random.default_rng(1)
    sizes = np.diff(offsets)
    able = np.flatnonzero(sizes >= shot + query)
    classes = np.stack([rng.choice(able, way, replace=False) for _ in range(tasks)])
    taken = np.stack([rng.permutation(sizes[c])[: shot + query] + offsets[c] for c in classes.reshape(-1)])
    rows = taken.reshape(tasks, way, shot + query)
    labels = np.broadcast_to(np.arange(way, dtype=np.int16)[:, None], rows.shape)

    def ragged(values: NDArray[Any]) -> Ragged:
        return Ragged(values.reshape(-1), np.arange(tasks + 1) * (values.size // tasks))

    return TaskRows(
        tasks=np.arange(tasks),
        ways=np.full(tasks, way),
        support=ragged(rows[:, :, :shot]),
        support_label=ragged(labels[:, :, :shot]),
        query=ragged(rows[:, :, shot:]),
        query_label=ragged(labels[:, :, shot:]),
    )


def ours(
    features: NDArray[Any], bound: TaskRows, method: Method, count: int, threads: int = 1
) -> torch.Tensor:
    """Predictions [count, Q] the way the runner computes them: chunks of tasks, one single-threaded worker each."""
    torch.set_num_threads(1)
    queries = int(bound.query.lengths[0])
    predictions = torch.empty(count, queries, dtype=torch.int64)
    step = min(CHUNK, math.ceil(count / threads))

    def chunk(start: int) -> None:
        tasks = bound.slice(start, min(start + step, count))
        gatherer = Gatherer([features], CPU)
        with torch.no_grad():
            for chosen, batch, _ in padded_batches(tasks, method, gatherer):
                predictions[start + torch.from_numpy(chosen)] = method.scores(batch).contiguous().argmax(2)

    list(_workers(threads).map(chunk, range(0, count, step)))
    return predictions


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    """Threads that live on from one call to the next, as the runner's do from one unit to the next."""
    return ThreadPoolExecutor(threads)


def theirs(features: torch.Tensor, bound: TaskRows, peer: Peer, count: int, threads: int = 1) -> torch.Tensor:
    """Predictions [count, Q] of easyfsl, one task at a time."""
    torch.set_num_threads(threads)
    model = peer.make(load(), features.shape[1])
    support = torch.from_numpy(bound.support.values).view(len(bound.tasks), -1)
    query = torch.from_numpy(bound.query.values).view(len(bound.tasks), -1)
    labels = torch.from_numpy(bound.support_label.values).view(len(bound.tasks), -1).long()
    with torch.no_grad():
        return torch.stack(
            [
                peer.scores(model, features[support[t]], labels[t], features[query[t]]).argmax(1)
                for t in range(count)
            ]
        )


def compare(
    features: NDArray[np.float32],
    offsets: NDArray[np.int64],
    name: str,
    shot: int,
    tasks: int,
    call: str | None = None,
) -> tuple[float, float, float]:
    """(share of equal predictions, our accuracy, easyfsl's accuracy) on the same 5-way tasks."""
    peer = PEERS[name]
    bound = draw(offsets, tasks, 5, shot)
    truth = torch.from_numpy(bound.query_label.values).view(tasks, -1)
    shared = peer.prepare(features)
    predictions = ours(shared if call is None else features, bound, feature_method(call or peer.call), tasks)
    other = theirs(torch.from_numpy(shared), bound, peer, tasks)
    accuracy = [(answers == truth).double().mean().item() for answers in (predictions, other)]
    return (predictions == other).double().mean().item(), accuracy[0], accuracy[1]


def exactness(tasks: int = 500) -> None:
    """Tables of equal predictions and accuracies."""
    features = made_up(64, 60)
    worlds = {"made up, 640-d": (features.reshape(-1, DIM), np.arange(65) * 60), **_cached()}
    for world, (rows, offsets) in worlds.items():
        print(f"\n{tasks} tasks, {world}: longshot against easyfsl with the same settings")
        print(f"{'method':<26} {'shots':>5} {'equal':>9} {'longshot':>9} {'easyfsl':>9}")
        for name in PEERS:
            for shot in (1, 5):
                same, own, other = compare(rows, offsets, name, shot, tasks)
                fine = same >= 0.995 and abs(own - other) <= 0.001
                mark = "" if fine else "   MISSED"
                print(f"{name:<26} {shot:>5} {same:>9.3%} {own:>9.2%} {other:>9.2%}{mark}", flush=True)
        print("longshot's own defaults, where they differ:")
        for call, name in DIFFERENT.items():
            for shot in (1, 5):
                same, own, other = compare(rows, offsets, name, shot, tasks, call)
                print(f"{call:<26} {shot:>5} {same:>9.3%} {own:>9.2%} {other:>9.2%}", flush=True)


def _cached() -> dict[str, tuple[NDArray[Any], NDArray[np.int64]]]:
    """Features in the user's cache whose classes are large enough; nothing is computed for it."""
    from longshot.base import cache_dir
    from longshot.models import Features

    worlds = {}
    for path in sorted(cache_dir("features").glob("*.npy")):
        features = Features.load(path)
        if features.backbone.startswith("efficientnet") and (np.diff(features.offsets) >= 15).sum() >= 5:
            rows = np.asarray(features.array, np.float32)
            worlds[f"{features.dataset} through {features.backbone}"] = (rows, np.asarray(features.offsets))
    return worlds


def _timed(work: Callable[[], torch.Tensor], clock: Callable[[], float]) -> tuple[float, torch.Tensor]:
    start = clock()
    result = work()
    return clock() - start, result


def flops(method: Method, shape: TaskShape) -> float:
    """Multiply-adds × 2 of one task's matrix products, as the method does them."""
    way, support, query, dim = shape
    once = 2.0 * way * query * dim  # of class vectors with queries
    if method.family == "trained head":  # two per step over the rows that it trains on
        rows = support if method.setting == "inductive" else support + query
        return 2.0 * way * dim * 2 * rows * int(method.settings["steps"]) + once
    if method.name == "pt-map":
        steps = int(method.settings["steps"])
        if query * dim + steps * way * query < 2 * steps * way * dim:  # all products once, then combinations
            return 2.0 * (way + query / 2) * query * dim + steps * 2.0 * way * query * query
        return (2 * steps + 1) * once
    if method.name == "laplacianshot":  # twice class vectors, once the queries with one another, one half
        return 2 * once + 2.0 * query * query * dim * 0.5625
    return (2 if method.name == "bd-cspn" else 1) * once


def duel(
    name: str,
    rows: NDArray[np.float32],
    bound: TaskRows,
    shape: TaskShape,
    threads: int,
    rounds: int,
    seconds: float,
) -> tuple[Ratio, float, float]:
    """Print tasks/s of both for one method, in turns; the ratio, our tasks/s, and GFLOP/s of our products."""
    # On one thread the processor's time is counted, which other programs on the machine do not add to.
    clock = time.process_time if threads == 1 else time.perf_counter
    pool = len(bound.tasks)
    peer = PEERS[name]
    method = feature_method(peer.call)
    step = batch_size(method, shape, CPU)
    shared = peer.prepare(rows)
    own = partial(ours, shared, bound, method, threads=threads)
    other = partial(theirs, torch.from_numpy(shared), bound, peer, threads=threads)
    smallest = min(step * threads, pool)
    took = _timed(partial(own, smallest), clock)[0]
    took = min(took, _timed(partial(own, smallest), clock)[0])
    count = min(pool, max(smallest, int(smallest * seconds / took) // smallest * smallest))
    took = _timed(partial(other, min(2, pool)), clock)[0] / min(2, pool)
    peer_count = min(count, max(1, int(seconds / took)))
    answers: dict[str, torch.Tensor] = {}

    def side(key: str, work: Callable[[int], torch.Tensor], number: int) -> float:
        seconds, answers[key] = _timed(partial(work, number), clock)
        return seconds / number

    spent = in_turns(
        {
            "easyfsl": partial(side, "easyfsl", other, peer_count),
            "longshot": partial(side, "longshot", own, count),
        },
        rounds,
    )
    same = (answers["longshot"][:peer_count] == answers["easyfsl"]).double().mean().item()
    measured = ratio(spent["easyfsl"], spent["longshot"])
    rate, peer_rate = (1 / statistics.median(spent[key]) for key in ("longshot", "easyfsl"))
    gigaflops = flops(method, shape) * rate / 1e9
    print(
        f"{threads:>7} {name:<26} {rate:>11,.1f} {peer_rate:>10,.1f} {measured.middle:>7.1f} {same:>8.2%} {step:>6}"
        f" {gigaflops:8.1f}",
        flush=True,
    )
    return measured, rate, gigaflops


def race(way: int, rounds: int, seconds: float, pool: int, threads: Sequence[int]) -> None:
    """All methods on each number of threads, the geometric mean of their ratios, and PT-MAP where classes lie apart."""
    features = made_up(max(128, way), 100 if way > 5 else 400)
    rows = features.reshape(-1, DIM)
    offsets = np.arange(len(features) + 1) * features.shape[1]
    bound = draw(offsets, pool, way, 5)
    shape = TaskShape(way, 5 * way, 10 * way, DIM)
    print(
        f"\n{way}-way 5-shot, 10 queries, {DIM}-d; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(
        f"{'threads':>7} {'method':<26} {'longshot/s':>11} {'easyfsl/s':>10} {'ratio':>7}  equal    batch  GFLOP/s"
    )
    for number in threads:
        duels = {name: duel(name, rows, bound, shape, number, rounds, seconds) for name in SPEED}
        mean = geometric_mean([measured for measured, _, _ in duels.values()])
        print(f"{number:>7} geometric mean {mean}")
        if number == 1:
            _tell(duels, mean, shape)
    # Overlapping classes need two or three of Sinkhorn's rounds; real features, like these, about a hundred.
    apart = made_up(len(features), features.shape[1], signal=1.0).reshape(-1, DIM)
    print("classes far apart, as in real features:")
    duel("PT-MAP", apart, bound, shape, 1, rounds, seconds)


def _tell(duels: Mapping[str, tuple[Ratio, float, float]], mean: Ratio, shape: TaskShape) -> None:
    """The goals of one thread, with what bounds those that are missed."""
    peak, memory = peak_gflops(), peak_gigabytes()
    moved = (
        2 * 4.0 * (shape.support + shape.query) * shape.dim / 1e9
    )  # GB: rows are read and written to a batch
    reached = {
        name: f"{gigaflops:.0f} of {peak:.0f} GFLOP/s in products, {moved * rate:.1f} of {memory:.1f} GB/s gathering"
        for name, (_, rate, gigaflops) in duels.items()
    }
    if shape.way == 5:
        tell("methods-5-way", mean, "; ".join(f"{name} {bound}" for name, bound in reached.items()))
        return
    for name in SPEED[:5]:
        measured, _, gigaflops = duels[name]
        tell(f"methods-100-way-{name}", measured, reached[name], peak=gigaflops / peak)


def some_tasks(name: str, count: int) -> Callable[[], None]:
    """The method called ``name`` in SPEED on 5-way 5-shot tasks, by whichever version is imported."""
    features = made_up(128, 100)
    bound = draw(np.arange(129) * 100, count, 5, 5)
    peer = PEERS[name]
    rows, method = peer.prepare(features.reshape(-1, DIM)), feature_method(peer.call)

    def work() -> None:
        ours(rows, bound, method, count)

    return work


def against_before(rounds: int = 7) -> None:
    """Every method at 5 ways against the version before, in processes of their own and in turns."""
    target, ratios = "benchmarks.methods:some_tasks", []
    for name in SPEED:
        arguments = [name, 64 if name == "TIM" else 256]
        with Program(target, arguments) as now, Program(target, arguments, source_before()) as before:
            spent = in_turns({"now": now.cpu, "before": before.cpu}, rounds)
        ratios.append(ratio(spent["before"], spent["now"]))
        print(f"{name}, 5-way, against the version before: {ratios[-1]}", flush=True)
    tell("methods-against-before", geometric_mean(ratios))


def parts(tasks: int = 40, repeats: int = 40) -> None:
    """Processor time per 5-way 5-shot task of what methods are made of, the best of many: what could be gained."""
    from longshot.models.methods.numerics import gram, product  # not at the top: the version before has none

    torch.set_num_threads(1)
    way, support, query = 5, 25, 50
    rows = torch.rand(tasks, support + query, DIM)
    means, weights = torch.rand(tasks, way, DIM), torch.rand(tasks, way, query)
    queries = rows[:, support:].contiguous()
    stored = torch.rand(51_200, DIM)
    half = stored.half()
    chosen = torch.randint(0, len(stored), (tasks * (support + query),))
    batch, half_batch = torch.empty(len(chosen), DIM), torch.empty(len(chosen), DIM, dtype=torch.half)
    work: dict[str, Callable[[], object]] = {
        "gather 75 rows of float32": lambda: torch.index_select(stored, 0, chosen, out=batch),
        "gather 75 rows of float16, to float32": lambda: batch.copy_(
            torch.index_select(half, 0, chosen, out=half_batch)
        ),
        "lengths of 50 queries": lambda: torch.linalg.vector_norm(queries, dim=2),
        "5 class vectors × 50 queries": lambda: product(means, queries.transpose(1, 2)),
        "the same by torch.bmm": lambda: torch.bmm(means, queries.transpose(1, 2)),
        "5 sums of 50 weighted queries": lambda: product(weights, queries),
        "the same, by torch.bmm": lambda: torch.bmm(weights, queries),
        "Gram matrix of 50 queries": lambda: gram(queries),
        "that of queries by torch.bmm": lambda: torch.bmm(queries, queries.transpose(1, 2)),
        "Gram matrix of all 75 rows": lambda: gram(rows),
        "that of all rows by torch.bmm": lambda: torch.bmm(rows, rows.transpose(1, 2)),
    }
    for name, each in work.items():
        side = timed(each)
        print(f"{name:<40} {min(side() for _ in range(repeats)) / tasks * 1e6:7.1f} µs", flush=True)


def quick() -> None:
    """Speed on one thread, in short rounds."""
    if load() is None:
        raise Unavailable(_MISSING)
    race(way=5, rounds=3, seconds=0.4, pool=1024, threads=(1,))
    race(way=100, rounds=3, seconds=0.6, pool=8, threads=(1,))


def main() -> None:
    if load() is None:
        raise Unavailable(_MISSING)
    before = torch.get_num_threads()
    words = sys.argv[1:] if __name__ == "__main__" else []
    threads = (1,) if "one-thread" in words else (1, 2)
    chosen = [part for part in words if part != "one-thread"] or ["exactness", "speed", "many-way"]
    try:
        if "parts" in chosen:
            parts()
        if "before" in chosen:
            against_before()
        if "exactness" in chosen:
            exactness()
        if "speed" in chosen:
            race(way=5, rounds=5, seconds=0.7, pool=2048, threads=threads)
        if "many-way" in chosen:
            race(way=100, rounds=3, seconds=1.0, pool=16, threads=threads)
    finally:
        torch.set_num_threads(before)


if __name__ == "__main__":
    main()

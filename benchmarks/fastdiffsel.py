"""FastDiffSel batched by class, against a per-task autograd implementation and against naive greedy search.

160 classes × 1,300 images × 640-d, 5-way 5-shot, 10 queries per class. The peers are timed on a few tasks (they take
seconds each) and compared per task; accuracies are paired on those tasks. Times are processor time on one thread,
so that other work on the machine does not decide the ratios.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import TaskRows
from longshot.tasks import FeatureTable, make_objective, query_tasks, select
from longshot.tasks.selection import Selection, measure_each, search

CLASSES, IMAGES, DIM = 160, 1300, 640
WAY, SHOT, QUERY = 5, 5, 10
TEMPERATURE = 0.1


def make_features(
    path: Path, classes: int = CLASSES, images: int = IMAGES, dim: int = DIM, seed: int = 0
) -> None:
    """Gaussian classes that overlap like real ones (random 5-shot supports: about 85 % right), written by class.

    A class has a centre, a few directions of its own in which its images spread widely (views, backgrounds),
    directions shared by all classes, and noise.
    """
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(12, dim)).astype(np.float32)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(classes * images, dim))
    for c in range(classes):
        centre = rng.normal(size=dim).astype(np.float32)
        own = rng.normal(size=(6, dim)).astype(np.float32)
        views = rng.normal(size=(images, 6)).astype(np.float32) @ own * 0.45
        common = rng.normal(size=(images, 12)).astype(np.float32) @ shared * 0.5
        noise = rng.standard_normal(size=(images, dim), dtype=np.float32)
        array[c * images : (c + 1) * images] = centre + views + common + noise
    array.flush()


def make_tasks(
    offsets: NDArray[np.int64], count: int, seed: int = 1, way: int = WAY
) -> tuple[TaskRows, NDArray[np.int64]]:
    """Uniform tasks and their uniform supports."""
    rng = np.random.default_rng(seed)
    classes, query, support = [], [], []
    for _ in range(count):
        chosen = rng.choice(len(offsets) - 1, way, replace=False)
        classes.append(chosen.tolist())
        rows = [
            offsets[c] + rng.choice(offsets[c + 1] - offsets[c], SHOT + QUERY, replace=False) for c in chosen
        ]
        query.append([r[:QUERY].tolist() for r in rows])
        support += [r[QUERY:] for r in rows]
    return query_tasks(classes, [[SHOT] * way] * count, query), np.concatenate(support)


def unit(array: NDArray[np.float16], rows: NDArray[np.int64]) -> torch.Tensor:
    """ℓ₂-normalised features of rows, as a straightforward implementation gathers them."""
    return torch.nn.functional.normalize(torch.from_numpy(array[rows].astype(np.float32)), dim=-1)


def autograd_task(
    array: NDArray[np.float16], offsets: NDArray[np.int64], tasks: TaskRows, task: int
) -> list[int]:
    """Algorithm 1 for one task as one would write it down: gather the pools, backward, step, project, sort."""
    queries, label, pools, rows = [], [], [], []
    for position, slot in enumerate(range(*tasks.plan.slots_of(task))):
        c = tasks.plan.classes.values[slot]
        own = tasks.slot_query.row(slot)
        rows.append(np.setdiff1d(np.arange(offsets[c], offsets[c + 1]), own))
        pools.append(unit(array, rows[-1]))
        queries.append(unit(array, own))
        label += [position] * len(own)
    query = torch.cat(queries)
    weights = [torch.full((len(p),), SHOT / len(p), requires_grad=True) for p in pools]
    centres = torch.stack([w @ p / w.sum() for w, p in zip(weights, pools, strict=True)])
    loss = torch.nn.functional.cross_entropy(
        -torch.cdist(query, centres).square() / TEMPERATURE, torch.tensor(label)
    )
    loss.backward()
    chosen: list[int] = []
    for w, r in zip(weights, rows, strict=True):
        assert w.grad is not None
        moved = w.detach() + 200 * w.grad
        low, high = 0.0, float(moved.abs().max())
        for _ in range(50):  # bisection for the soft threshold
            middle = (low + high) / 2
            low, high = (
                (middle, high) if float((moved.abs() - middle).clamp_min(0).sum()) > SHOT else (low, middle)
            )
        projected = moved.sign() * (moved.abs() - high).clamp_min(0)
        order = np.lexsort([r, -moved.numpy(), -projected.numpy()])
        chosen += r[order[:SHOT]].tolist()
    return chosen


def greedy_task(
    array: NDArray[np.float16],
    offsets: NDArray[np.int64],
    tasks: TaskRows,
    task: int,
    support: NDArray[np.int64],
) -> list[int]:
    """One round of greedy search as one would write it down: adapt to every candidate support, keep the worst."""
    queries, label, pools, rows = [], [], [], []
    for position, slot in enumerate(range(*tasks.plan.slots_of(task))):
        c = tasks.plan.classes.values[slot]
        own = tasks.slot_query.row(slot)
        rows.append(np.setdiff1d(np.arange(offsets[c], offsets[c + 1]), own))
        pools.append(unit(array, rows[-1]))
        queries.append(unit(array, own))
        label += [position] * len(own)
    query, target = torch.cat(queries), torch.tensor(label)
    now = [np.searchsorted(r, support[p * SHOT : (p + 1) * SHOT]) for p, r in enumerate(rows)]
    for j in range(WAY):
        for number in range(SHOT):
            best, best_loss = now[j][number], -np.inf
            taken = set(np.delete(now[j], number).tolist())
            for candidate in range(len(rows[j])):
                if candidate in taken:
                    continue
                now[j][number] = candidate
                centres = torch.stack([pool[chosen].mean(0) for pool, chosen in zip(pools, now, strict=True)])
                logits = -torch.cdist(query, centres).square() / TEMPERATURE
                loss = float(torch.nn.functional.cross_entropy(logits, target))
                if loss > best_loss:
                    best, best_loss = candidate, loss
            now[j][number] = best
    return [int(r[i]) for r, chosen in zip(rows, now, strict=True) for i in chosen]


def paired(a: NDArray[np.float32], b: NDArray[np.float32]) -> str:
    """Mean difference with a 95 % interval."""
    difference = (a - b).astype(np.float64)
    half = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
    return f"{difference.mean():+.3f} ± {half:.3f}"


def timed(table: FeatureTable, tasks: TaskRows, name: str, **options: int) -> tuple[Selection, float]:
    """A selection and its seconds per task."""
    began = time.process_time()
    selection = select(table, tasks, make_objective(name, temperature=TEMPERATURE), **options)  # type: ignore[arg-type]
    return selection, (time.process_time() - began) / len(tasks)


def memory() -> float:
    """Peak resident memory of the process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        make_features(path)
        array = np.load(path, mmap_mode="r")
        offsets = np.arange(0, CLASSES * IMAGES + 1, IMAGES, dtype=np.int64)
        compare(array, offsets)


def compare(array: NDArray[np.float16], offsets: NDArray[np.int64]) -> None:
    """Time and accuracy of every way to select, on the same tasks."""
    peer_tasks, many = 20, 1000
    tasks, uniform = make_tasks(offsets, many)
    first = tasks.take(np.arange(peer_tasks))
    plain = make_objective("prototype", temperature=TEMPERATURE)
    table = FeatureTable(array, offsets)
    select(table, first, plain)  # warm up

    small, _ = timed(table, first, "prototype")
    fast, fast_time = timed(table, tasks, "prototype")
    peak_before = memory()
    timed(table, make_tasks(offsets, 4 * many, seed=2)[0], "prototype")
    peak_after = memory()
    error, error_time = timed(table, tasks, "error")
    refined, refined_time = timed(table, first, "error", refine=5, greedy=1)
    began = time.process_time()
    greedy = search(table, tasks.take(np.arange(60)), plain, uniform[: 60 * WAY * SHOT], rounds=1)
    greedy_time = (time.process_time() - began) / 60
    began = time.process_time()
    greedy3 = search(table, first, plain, uniform[: peer_tasks * WAY * SHOT], rounds=3)
    greedy3_time = (time.process_time() - began) / peer_tasks

    began = time.process_time()
    expected = [autograd_task(array, offsets, tasks, t) for t in range(peer_tasks)]
    autograd_time = (time.process_time() - began) / peer_tasks
    same = np.array_equal(np.sort(np.reshape(expected, (-1, SHOT))), np.sort(small.support.reshape(-1, SHOT)))
    naive_tasks = 1
    began = time.process_time()
    naive = [
        greedy_task(array, offsets, tasks, t, uniform[t * WAY * SHOT : (t + 1) * WAY * SHOT])
        for t in range(naive_tasks)
    ]
    naive_time = (time.process_time() - began) / naive_tasks
    equal = naive == greedy.support.reshape(-1, WAY * SHOT)[:naive_tasks].tolist()

    before = measure_each(table, tasks, plain, uniform)[1].mean(0)
    print(f"{CLASSES} classes × {IMAGES:,} images × {DIM}-d, {WAY}-way {SHOT}-shot, 1 thread")
    print(f"{'':44}{'ms/task':>10}{'accuracy':>10}{'tasks':>8}")
    for name, seconds, accuracy in (
        ("uniform support", None, before),
        ("FastDiffSel by class, cross-entropy", fast_time, fast.accuracies[0]),
        ("FastDiffSel by class, bounded error", error_time, error.accuracies[0]),
        ("  + 5 Frank–Wolfe rounds + 1 greedy round", refined_time, refined.accuracies[0]),
        ("incremental greedy, cross-entropy, r = 1", greedy_time, greedy.accuracies[0]),
        ("incremental greedy, cross-entropy, r = 3", greedy3_time, greedy3.accuracies[0]),
    ):
        cost = "" if seconds is None else f"{1000 * seconds:.2f}"
        print(f"{name:44}{cost:>10}{accuracy.mean():>10.3f}{len(accuracy):>8,}")
    print(
        f"{'autograd per task':44}{1000 * autograd_time:>10.2f}{'':>10}{peer_tasks:>8}  same supports: {same}"
    )
    print(
        f"{'naive greedy, r = 1':44}{1000 * naive_time:>10.2f}{'':>10}{naive_tasks:>8}  same supports: {equal}"
    )
    print(f"FastDiffSel is {autograd_time / fast_time:.0f} × autograd per task (at least 20 wanted)")
    print(
        f"FastDiffSel is {naive_time / fast_time:,.0f} × naive greedy, timed on {naive_tasks} task (at least 300)"
    )
    print(f"incremental greedy is {naive_time / greedy_time:.0f} × naive greedy")
    print(
        "accuracy, FastDiffSel − greedy (r = 1), paired: "
        f"{paired(fast.accuracies[0][:60], greedy.accuracies[0])} (≤ 0.02 wanted)"
    )
    print(
        f"accuracy, refined − greedy (r = 3), paired: {paired(refined.accuracies[0], greedy3.accuracies[0])}"
    )
    print(f"peak memory {peak_before:.0f} MB with {many:,} tasks, {peak_after:.0f} MB with {4 * many:,}")


if __name__ == "__main__":
    main()

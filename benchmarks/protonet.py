"""ProtoNet on stored features against easyfsl's PrototypicalNetworks fed one task at a time, gather included.

5-way 5-shot, 10 queries per class, 640-d features of 160 classes × 1,300 examples, made up. Longshot reads them as
`embed` stores them, in float16 and in float32; easyfsl gathers from a float32 tensor of the same numbers, which is
fastest for it. Wanted: at least 6 × easyfsl's tasks/s on one thread, 10 × on two, with the same predictions. Needs
easyfsl without its dependencies: `.venv/bin/pip install --no-deps easyfsl==1.5.0`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._easyfsl import load
from longshot.base import Ragged, TaskRows
from longshot.models import Gatherer, Method, feature_method, padded_batches

CLASSES, PER_CLASS, DIM = 160, 1300, 640
WAY, SHOT, QUERY = 5, 5, 10
TASKS, PEER_TASKS, ROUNDS, CHUNK = 4096, 512, 7, 512


def draw(tasks: int) -> tuple[NDArray[np.float16], TaskRows]:
    """Features whose classes overlap (accuracy about 90 %), and tasks as a testbed binds them."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLASSES, 1, DIM), dtype=np.float32) * 0.12
    features = (centres + rng.standard_normal((CLASSES, PER_CLASS, DIM), dtype=np.float32)).reshape(-1, DIM)
    classes = rng.random((tasks, CLASSES)).argpartition(WAY, axis=1)[:, :WAY]
    taken = np.stack([rng.choice(PER_CLASS, SHOT + QUERY, replace=False) for _ in range(tasks * WAY)])
    rows = classes[:, :, None] * PER_CLASS + taken.reshape(tasks, WAY, -1)

    def ragged(values: NDArray[Any]) -> Ragged:
        return Ragged(values.reshape(-1), np.arange(tasks + 1) * (values.size // tasks))

    labels = np.broadcast_to(np.arange(WAY, dtype=np.int16)[:, None], (tasks, WAY, SHOT + QUERY))
    bound = TaskRows(
        tasks=np.arange(tasks),
        ways=np.full(tasks, WAY),
        support=ragged(rows[:, :, :SHOT]),
        support_label=ragged(labels[:, :, :SHOT]),
        query=ragged(rows[:, :, SHOT:]),
        query_label=ragged(labels[:, :, SHOT:]),
    )
    return features.astype(np.float16), bound


def ours(features: NDArray[Any], bound: TaskRows, method: Method, threads: int) -> torch.Tensor:
    """Predictions [T, Q] the way the runner computes them: chunks of tasks, one single-threaded worker each."""
    predictions = torch.empty(len(bound.tasks), WAY * QUERY, dtype=torch.int64)

    def chunk(start: int) -> None:
        tasks = bound.slice(start, start + CHUNK)
        gatherer = Gatherer([features], torch.device("cpu"))
        with torch.no_grad():
            for chosen, batch, _ in padded_batches(tasks, method, gatherer):
                predictions[start + torch.from_numpy(chosen)] = method.scores(batch).contiguous().argmax(2)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(chunk, range(0, len(bound.tasks), CHUNK)))
    return predictions


def peer(features: torch.Tensor, bound: TaskRows, networks: Any, count: int) -> torch.Tensor:
    """Predictions [count, Q] of easyfsl, one task at a time."""
    support = torch.from_numpy(bound.support.values).view(-1, WAY * SHOT)
    query = torch.from_numpy(bound.query.values).view(-1, WAY * QUERY)
    labels = torch.arange(WAY).repeat_interleave(SHOT)
    model = networks(torch.nn.Identity())
    predictions = []
    with torch.no_grad():
        for task in range(count):
            model.process_support_set(features[support[task]], labels)
            predictions.append(model(features[query[task]]).argmax(1))
    return torch.stack(predictions)


def _rate(count: int, work: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    result = work()
    return count / (time.perf_counter() - start), result


def main() -> None:
    half, bound = draw(TASKS)
    single = half.astype(np.float32)
    easyfsl = load()
    networks = None if easyfsl is None else easyfsl.PrototypicalNetworks
    method = feature_method("protonet")
    before = torch.get_num_threads()
    print(
        f"{'threads':>7} {'stored':>8} {'longshot tasks/s':>17} {'easyfsl tasks/s':>16} {'ratio':>6} {'wanted':>6}"
    )
    for threads, goal in ((1, 6), (2, 10)):
        for features in (half, single):
            rates, peer_rates, same = [], [], 1.0
            for _ in range(ROUNDS):  # taking turns, so that a busy machine slows both
                torch.set_num_threads(1)
                rate, predictions = _rate(TASKS, partial(ours, features, bound, method, threads))
                rates.append(rate)
                if networks is not None:
                    torch.set_num_threads(threads)
                    work = partial(peer, torch.from_numpy(single), bound, networks, PEER_TASKS)
                    rate, expected = _rate(PEER_TASKS, work)
                    peer_rates.append(rate)
                    same = min(same, (predictions[:PEER_TASKS] == expected).double().mean().item())
            line = f"{threads:>7} {features.dtype!s:>8} {statistics.median(rates):>17,.0f}"
            if peer_rates:
                ratio = statistics.median(a / b for a, b in zip(rates, peer_rates, strict=True))
                line += f" {statistics.median(peer_rates):>16,.0f} {ratio:>6.1f} {goal:>6}"
                line += f"   {same:.3%} predictions equal"
            print(line, flush=True)
    torch.set_num_threads(before)
    if networks is None:
        print("For the comparison: .venv/bin/pip install --no-deps easyfsl==1.5.0")


if __name__ == "__main__":
    main()

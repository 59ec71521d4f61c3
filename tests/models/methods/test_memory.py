"""Memory of the batches that the runner chooses by itself."""

from __future__ import annotations

import pytest
import torch

from forked import ForkServer
from longshot.base import TaskShape
from longshot.models import Method, bytes_per_task, get_method, method_class, method_names
from longshot.models.methods.base import batch_size

LIMIT = 2 << 30
NAMES = [name for name in method_names() if issubclass(method_class(name), Method)]
SHAPES = [(5, 25, 50, 640), (100, 500, 1000, 640), (100, 500, 1000, 2048), (5, 5, 5, 8), (20, 400, 400, 1280)]
MEASURE = """
import resource, sys, numpy as np, torch
from longshot.base.batches import TaskShape
from longshot.models.methods.base import Gatherer, batch_size, bytes_per_task
from longshot.models.methods import get_method
from longshot.base.tasks import Ragged
from longshot.base.tasks import TaskRows
torch.set_num_threads(1)
call, way, shot, query, dim = sys.argv[1], *map(int, sys.argv[2:])
method, shape = get_method(call), TaskShape(way, way * shot, way * query, dim)
count = batch_size(method, shape, torch.device("cpu"))
features = np.random.default_rng(0).random((2000, dim), dtype=np.float32)
rng = np.random.default_rng(1)
def ragged(values):
    return Ragged(values.reshape(-1), np.arange(count + 1) * (values.size // count))
bound = TaskRows(np.arange(count), np.full(count, way),
    ragged(rng.integers(0, 2000, (count, way * shot))), ragged(np.tile(np.repeat(np.arange(way), shot), (count, 1))),
    ragged(rng.integers(0, 2000, (count, way * query))), ragged(np.tile(np.repeat(np.arange(way), query), (count, 1))))
tasks, gatherer = bound, Gatherer([features], torch.device("cpu"))
with torch.no_grad():
    warm, _ = gatherer.batch(tasks, np.arange(1))
    small = TaskRows(np.arange(1), np.array([2]), Ragged(np.arange(4), np.array([0, 4])),
        Ragged(np.array([0, 0, 1, 1]), np.array([0, 4])), Ragged(np.arange(4), np.array([0, 4])),
        Ragged(np.array([0, 0, 1, 1]), np.array([0, 4])))
    method.scores(gatherer.batch(small, np.arange(1))[0])  # libraries are loaded by now
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    method.scores(gatherer.batch(tasks, np.arange(count))[0])
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(used, count * bytes_per_task(method, shape))
"""
FEWER = {  # the same memory in less time
    "cosine-head": "cosine-head(steps=2)",
    "tim": "tim(steps=2)",
    "transductive-finetuning": "transductive-finetuning(steps=2)",
    "finetune": "finetune(steps=2)",
    "logistic": "logistic(steps=12)",
    "pt-map": "pt-map(steps=1, rounds=20)",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_the_chosen_batch_is_promised_to_stay_within_two_gigabytes(
    name: str, shape: tuple[int, int, int, int]
) -> None:
    method = get_method(name)
    size = batch_size(method, TaskShape(*shape), torch.device("cpu"))
    assert size * bytes_per_task(method, TaskShape(*shape)) < LIMIT


@pytest.mark.parametrize("size", [(5, 5, 10, 640), (100, 5, 10, 640)], ids=["5-way", "100-way"])
@pytest.mark.parametrize("name", NAMES)
def test_the_promise_is_kept(name: str, size: tuple[int, int, int, int], forks: ForkServer) -> None:
    done = forks.run(FEWER.get(name, name), *map(str, size), program=MEASURE)
    used, promised = map(int, done.stdout.split())
    assert used < LIMIT
    assert used < 1.25 * promised + (24 << 20)  # what the allocator and BLAS keep for themselves

"""How busy a training loop keeps the processor, and how many steps a second it does.

ProtoNet (5-way 5-shot, 10 queries: 75 images a step) with CNN4 on toybox, images of 28 and of 84 pixels from the cache,
with and without augmentation. Three ways to do the same steps, in turns, so that a busy machine slows all:

- compute: the data of a step lies in memory already, nothing is loaded;
- Longshot: the loop's own loading, one thread ahead;
- peer: a torch DataLoader that opens and decodes the pictures of every episode (two worker processes).

Busy: processor seconds of the steps (forward, backward, update) / processor seconds of the whole loop, loading thread
included; wanted at least 90 %. Waiting: share of the clock that the loop stood still for images.

    python -m benchmarks training          all of it
    python -m benchmarks.training 28       one size
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from longshot.base import Episode
from longshot.data import open_dataset
from longshot.training import training_settings
from longshot.training.setup import Job, prepare
from longshot.training.steps import Stepper
from longshot.training.training_episodes import EpisodeSource
from longshot.training.training_images import Prefetch

ROUNDS = 4
STEPS = {28: 6, 84: 2}  # size → steps in a turn


class Decoding(Dataset[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]):
    """Episodes as most code loads them: every picture opened, resized and scaled when it is asked for."""

    def __init__(self, job: Job, episodes: int) -> None:
        assert isinstance(job.source, EpisodeSource)
        self.data, self.transform = job.source.pool.dataset, job.source.images.transform
        self.tasks = [job.source.tasks(step)[0] for step in range(episodes)]

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        task = self.tasks[index]
        rows = np.concatenate([task.support.values, task.query.values])
        images = torch.from_numpy(np.stack([self.transform(self.data.image(int(row))) for row in rows]))
        labels = [
            torch.from_numpy(part.values.astype(np.int64)) for part in (task.support_label, task.query_label)
        ]
        return images, labels[0], labels[1]


def as_episode(loaded: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> Episode:
    images, support, query = loaded
    return Episode(images[: len(support)], support, images[len(support) :], 5, query_label=query)


def measure(size: int, augment: str) -> None:
    steps = STEPS[size]
    settings = training_settings(size=size, augment=augment, validation_tasks=2, device="cpu")
    job = prepare("protonet", open_dataset("toybox"), settings)
    stepper = Stepper(job)
    ready = job.source.load(0)
    for _ in range(2):
        stepper.step(0, ready)
    peer: Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = iter(
        DataLoader(Decoding(job, steps * ROUNDS), batch_size=None, num_workers=2)
    )
    clock = dict.fromkeys(("compute", "Longshot", "peer"), 0.0)
    stepping = total = waited = 0.0
    with Prefetch(job.source.load, 0) as images:
        for turn in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(steps):
                stepper.step(0, ready)
            clock["compute"] += time.perf_counter() - start

            start, used = time.perf_counter(), time.process_time()
            for step in range(steps):
                begun = time.perf_counter()
                data = images.take((turn + 1) * steps)
                waited += time.perf_counter() - begun
                thread_start = time.thread_time()
                stepper.step(turn * steps + step, data)
                stepping += time.thread_time() - thread_start
            total += time.process_time() - used
            clock["Longshot"] += time.perf_counter() - start

            start = time.perf_counter()
            for _ in range(steps):
                stepper.step(0, [as_episode(next(peer))])
            clock["peer"] += time.perf_counter() - start
    done = steps * ROUNDS
    rates = ", ".join(f"{name} {done / seconds:.2f}" for name, seconds in clock.items())
    print(
        f"{size} px, {augment or 'no augmentation'}: busy {100 * stepping / total:.1f} %, "
        f"waiting {100 * waited / clock['Longshot']:.1f} %; steps/s: {rates}; Longshot / peer "
        f"{clock['peer'] / clock['Longshot']:.2f} ×, Longshot / compute {clock['compute'] / clock['Longshot']:.2f}",
        flush=True,
    )


def main() -> None:
    torch.set_num_threads(1)  # so that a thread's clock counts all of its work
    for size in [int(word) for word in sys.argv[1:] if word.isdigit()] or list(STEPS):
        for augment in ("", "crop(4)|flip|jitter(0.4)"):
            measure(size, augment)


if __name__ == "__main__":
    main()

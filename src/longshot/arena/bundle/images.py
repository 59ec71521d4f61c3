"""The images of a bundle: every dataset once, without loss, in an order that says nothing, under a key of its own."""

from __future__ import annotations

import io
import os
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from longshot.arena.bundle.programs import pictures
from longshot.arena.data import CompetitionData, HiddenTask
from longshot.base import Ints, progress


class SealedImages:
    """The sealed file of one dataset: ``content``, its ``key``, and ``place``: row in the dataset → row in the file."""

    def __init__(self, data: CompetitionData, name: str, rows: Ints, file: str) -> None:
        self.file, self.key = file, secrets.token_bytes(32)
        order = np.random.default_rng(secrets.randbits(128)).permutation(rows)
        self.place = np.full(len(data.dataset(name)), -1)
        self.place[order] = np.arange(len(order))
        self.content = pictures.seal(pictures.pack(_encoded(data, name, order)), self.key)

    def task(self, task: HiddenTask) -> dict[str, Any]:
        """A task as ingestion needs it: without the labels of its queries."""
        facts = {name: getattr(task, name) for name in ("dataset", "ways", "shots", "seed")}
        labels = {"support_label": task.support_label.tolist()}
        return {
            **facts,
            **labels,
            "support": self.place[task.support].tolist(),
            "query": self.place[task.query].tolist(),
        }

    @property
    def entry(self) -> dict[str, str]:
        """Where it is and what opens it, for the program of a run that needs it."""
        return {"file": self.file, "key": self.key.hex()}


def seal_images(
    data: CompetitionData, train: Sequence[str], tasks: Sequence[HiddenTask]
) -> dict[str, SealedImages]:
    """Dataset → its sealed images: all of those to train on, of the others the images of ``tasks``."""
    used = {name: np.arange(len(data.dataset(name))) for name in train}
    for name in dict.fromkeys(task.dataset for task in tasks):
        parts = [part for task in tasks if task.dataset == name for part in (task.support, task.query)]
        used.setdefault(name, np.unique(np.concatenate(parts)))
    with progress("images", total=len(used), unit="datasets") as bar:
        sealed = {}
        for number, (name, rows) in enumerate(used.items()):
            sealed[name] = SealedImages(data, name, rows, f"images/{number}.bin")
            bar.advance(1)
    return sealed


def _encoded(data: CompetitionData, name: str, rows: Ints) -> list[bytes]:
    """The images as WebP without loss: as they came where that is smaller than the competition's size, else at it."""
    dataset, size = data.dataset(name), data.competition.image_size
    making = threading.Lock()
    resized: list[NDArray[np.uint8]] = []

    def encode(row: int) -> bytes:
        image = dataset.image(row).convert("RGB")
        if image.width * image.height > size * size:
            with making:  # once, by the first that needs it
                resized[:] = resized or [data.pixels(name)]
            image = Image.fromarray(resized[0][row])
        stream = io.BytesIO()
        image.save(stream, "WEBP", lossless=True, method=0, quality=0)
        return stream.getvalue()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(encode, rows.tolist()))

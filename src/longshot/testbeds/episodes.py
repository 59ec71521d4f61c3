"""A testbed as a PyTorch dataset of episodes, for other people's training and evaluation code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from longshot.core.errors import UserError
from longshot.testbeds.origin import open_datasets

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.testbed import Testbed

Loader = Callable[[str, Sequence[str]], Any]
EpisodeTensors = tuple[Tensor, Tensor, Tensor, Tensor]


class EpisodeDataset(TorchDataset[EpisodeTensors]):
    """Item i is task i: (support [S, 3, H, W], support labels [S], query [Q, 3, H, W], query labels [Q]).

    ``images`` is a preprocessing string, or a function ``images(dataset name, keys) -> tensor`` with one row
    per key. With a string, pictures come from the datasets the testbed was drawn from: those given in
    ``datasets`` (name → Dataset or path), else those the registry remembers. Labels are int64. Use it with
    ``DataLoader(episodes, batch_size=None)``: a task is a batch already, and tasks may differ in size.
    """

    def __init__(
        self,
        testbed: Testbed,
        images: str | Loader,
        datasets: Mapping[str, Dataset | str | Path] | None = None,
    ) -> None:
        self.testbed = testbed
        self.images: Loader = (
            PictureLoader(images, open_datasets(testbed, datasets)) if isinstance(images, str) else images
        )

    def __len__(self) -> int:
        return len(self.testbed)

    def __getitem__(self, index: int) -> EpisodeTensors:
        task = self.testbed[index]
        # One call for both, so that a loader can read a task in one go.
        pictures = torch.as_tensor(self.images(task.dataset, [*task.support, *task.query]))
        expected = len(task.support) + len(task.query)
        if len(pictures) != expected:
            raise UserError(f"images() gave {len(pictures)} rows for {expected} keys of task {task.index}.")
        support = len(task.support)
        return (
            pictures[:support],
            torch.from_numpy(task.support_label.astype(np.int64)),
            pictures[support:],
            torch.from_numpy(task.query_label.astype(np.int64)),
        )


class PictureLoader:
    """Keys → preprocessed pictures [n, 3, H, W] float32. Picklable, so that loader processes can have it."""

    def __init__(self, preprocessing: str, datasets: Mapping[str, Dataset]) -> None:
        from longshot.core.preprocess import parse

        self.preprocess = parse(preprocessing)
        self.datasets = dict(datasets)

    def __call__(self, name: str, keys: Sequence[str]) -> Tensor:
        import pyarrow as pa

        dataset = self.datasets[name]
        rows = dataset.find_rows(pa.array(keys, dataset.keys.type))
        return torch.from_numpy(np.stack([self.preprocess(dataset.image(int(row))) for row in rows]))

"""A testbed as a PyTorch dataset of episodes, for other people's training and evaluation code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from longshot.base import UserError
from longshot.tasks.binding import open_datasets

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Features
    from longshot.tasks.testbed import Testbed

Loader: TypeAlias = Callable[[str, Sequence[str]], Any]
EpisodeTensors: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]
EasyfslTask: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor, list[int]]


class EpisodeDataset(TorchDataset[EpisodeTensors]):
    """Item i is task i: (support [S, …], support labels [S], query [Q, …], query labels [Q]).

    Pictures are [3, H, W] float32, features [d], labels int64. Use it with ``DataLoader(episodes, batch_size=None)``: a
    task is a batch already, and tasks may differ in size.

    Parameters
    ----------
    testbed : Testbed
        The tasks.
    images : str, Features or callable
        A preprocessing; features of the testbed's dataset; or ``images(dataset name, keys) -> tensor`` with one row per
        key. With a preprocessing, pictures come from the datasets the testbed was drawn from.
    datasets : mapping, optional
        Name → Dataset or path; the others are found where the registry saw them last.

    Examples
    --------
    >>> import longshot, torch
    >>> bed = longshot.sample("toybox", tasks=4, way=3, shot=1, query=2, split="test")
    >>> loader = torch.utils.data.DataLoader(bed.episodes(), batch_size=None)
    >>> [tuple(part.shape) for part in next(iter(loader))]
    [(3, 3, 84, 84), (3,), (6, 3, 84, 84), (6,)]
    """

    def __init__(
        self,
        testbed: Testbed,
        images: str | Features | Loader,
        datasets: Mapping[str, Dataset | str | Path] | None = None,
    ) -> None:
        from longshot.models import Features

        self.testbed = testbed
        self.images: Loader
        if isinstance(images, str):
            self.testbed, opened = open_datasets(testbed, datasets)
            self.images = PictureLoader(images, opened)
        elif isinstance(images, Features):
            self.images = FeatureLoader(images, testbed)
        else:
            self.images = images

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

    def to_easyfsl(self, workers: int = 0) -> DataLoader[EasyfslTask]:
        """Return the loader that ``easyfsl.utils.evaluate`` reads: ``evaluate(model, episodes.to_easyfsl(), "cpu")``.

        Beside the tensors a task brings the numbers of its classes, counted over the sorted classes of the testbed.

        Parameters
        ----------
        workers : int
            Processes that read pictures ahead.

        Returns
        -------
        DataLoader
            As long as the testbed has tasks.
        """
        without = [task.index for task in self.testbed if 0 in task.shots]
        if without:
            raise UserError(
                f"Task {without[0]} has a class without support, and so have {len(without) - 1} others of "
                f"{len(self.testbed)}; easyfsl numbers classes by their support images and cannot say that."
            )
        classes = {(task.dataset, class_id) for task in self.testbed for class_id in task.classes}
        numbers = {name: number for number, name in enumerate(sorted(classes))}
        read = partial(_easyfsl_task, self, numbers)
        indices: Any = range(len(self))
        return DataLoader(indices, batch_size=None, num_workers=workers, collate_fn=read)


def _easyfsl_task(
    episodes: EpisodeDataset, numbers: Mapping[tuple[str, str], int], index: int
) -> EasyfslTask:
    """Return a task as easyfsl's own sampler collates it, with the numbers of the classes at the end."""
    task = episodes.testbed[index]
    return *episodes[index], [numbers[task.dataset, class_id] for class_id in task.classes]


class FeatureLoader:
    """Keys → features [n, d] float32, of one dataset."""

    def __init__(self, features: Features, testbed: Testbed) -> None:
        strangers = sorted(set(testbed.datasets) - {features.dataset})
        if strangers:
            raise UserError(
                f"The features are of '{features.dataset}', but the testbed has tasks of '{strangers[0]}', too; pass a "
                "function of name and keys."
            )
        tasks = testbed.bind(features.dataset, features.keys, features.fingerprint)  # says what differs
        features.check_used(np.unique(np.concatenate([tasks.support.values, tasks.query.values])))
        self.features = features
        self.rows = {key: row for row, key in enumerate(features.keys.to_pylist())}

    def __call__(self, _: str, keys: Sequence[str]) -> Tensor:
        rows = [self.rows[key] for key in keys]
        return torch.from_numpy(np.asarray(self.features.array[rows], dtype=np.float32))


class PictureLoader:
    """Keys → preprocessed pictures [n, 3, H, W] float32. Picklable, so that loader processes can have it."""

    def __init__(self, preprocessing: str, datasets: Mapping[str, Dataset]) -> None:
        from longshot.base import parse_preprocessing

        self.preprocess = parse_preprocessing(preprocessing)
        self.datasets = dict(datasets)

    def __call__(self, name: str, keys: Sequence[str]) -> Tensor:
        import pyarrow as pa

        dataset = self.datasets[name]
        rows = dataset.find_rows(pa.array(keys, dataset.keys.type))
        return torch.from_numpy(np.stack([self.preprocess(dataset.image(int(row))) for row in rows]))

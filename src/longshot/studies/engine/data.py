"""The datasets of a study: one, several, or by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from longshot.base import UserError
from longshot.data import Dataset, DatasetLike, as_dataset

# datasets of a study: one, several (a text may be NAME=PATH), or by name
Datasets: TypeAlias = DatasetLike | Sequence[DatasetLike] | Mapping[str, DatasetLike]
NAME = re.compile(r"(?:(?P<role>[a-z]+):)?(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)")


class GivenDataset(NamedTuple):
    """A dataset as it was given; ``name`` is None where none was."""

    name: str | None
    data: DatasetLike

    @property
    def label(self) -> str:
        """What to call it in a sentence."""
        return self.data.name if isinstance(self.data, Dataset) else str(self.data)

    def open(self) -> Dataset:
        """The dataset itself."""
        return as_dataset(self.data)


def given_datasets(datasets: Datasets) -> list[GivenDataset]:
    """Datasets of a call as a list; a name in a text (``NAME=PATH``) is read by recipes that have names for them."""
    if isinstance(datasets, Mapping):
        return [GivenDataset(name, data) for name, data in datasets.items()]
    listed = [datasets] if isinstance(datasets, str | Path | Dataset) else datasets
    return [GivenDataset(None, data) for data in listed]


def read_given(datasets: Sequence[GivenDataset]) -> tuple[dict[str, GivenDataset], list[GivenDataset]]:
    """Those with a name (``NAME=PATH``) by name, and the plain ones."""
    named: dict[str, GivenDataset] = {}
    plain: list[GivenDataset] = []
    for dataset in datasets:
        name, data = dataset
        if name is None and isinstance(data, str):
            key, equals, spec = data.partition("=")
            if equals and NAME.fullmatch(key):
                name, data = key, spec
        if name is None:
            plain.append(dataset)
        elif name in named:
            raise UserError(f"The source '{name}' is given twice; leave one out.")
        else:
            named[name] = GivenDataset(name, data)
    return named, plain


def check_names(names: Sequence[str]) -> None:
    """UserError when two sources share a name."""
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise UserError(
            f"Two sources are called '{repeated[0]}'; write NAME=PATH to call one of them otherwise."
        )

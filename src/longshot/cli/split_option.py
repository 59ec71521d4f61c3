"""``--splits``: a split named by hand, in place of the one that a dataset came with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset

F = TypeVar("F", bound=Callable[..., Any])


def splits_option(function: F) -> F:
    """``--splits SPEC``: which classes are train, validation and test."""
    return click.option(
        "--splits",
        metavar="SPEC",
        help="Which classes are train, validation and test: a split.json, random, semantic, cifar-fs, fc100, "
        "atg:cifar100@0.96.  [default: those of the dataset]",
    )(function)


def apply_splits(dataset: Dataset, spec: str | None) -> Dataset:
    """``dataset`` with the split that the option names; as it is when the option was not given."""
    if spec is None:
        return dataset
    from longshot.splits import with_split

    return with_split(dataset, spec)

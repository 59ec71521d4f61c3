"""Datasets of a study by name, as ``NAME=PATH`` or in a mapping."""

from __future__ import annotations

import re
from collections.abc import Sequence

from longshot.core.errors import UserError
from longshot.studies.engine.recipe import GivenDataset

NAME = re.compile(r"(?:(?P<role>[a-z]+):)?(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)")


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

"""Pictures for pages: where the datasets behind a testbed are now, found by fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from longshot.base import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.data import Dataset

    FindImages: TypeAlias = Callable[[str, Sequence[str]], list[Image]]


def find_images(
    fingerprints: Mapping[str, Sequence[str]] | None = None,
    datasets: Mapping[str, Dataset | str | Path] | None = None,
) -> FindImages:
    """``images(dataset_name, keys)`` for a page: a function that opens a dataset when its first picture is needed.

    Parameters
    ----------
    fingerprints : mapping, optional
        Dataset name → the fingerprints it stands for in the testbeds shown; they are looked up in the registry. A name
        that is not here is opened as a registered name.
    datasets : mapping, optional
        Dataset name → dataset or path; comes before the registry.

    Returns
    -------
    callable
        ``images(name, keys)`` gives a list of PIL images, and a UserError when the dataset is nowhere.
    """
    opened: dict[str, list[Dataset]] = {}

    def open_all(name: str) -> list[Dataset]:
        from longshot.data import as_dataset, open_dataset, registry

        if datasets and name in datasets:
            source = datasets[name]
            return [as_dataset(source)]
        if fingerprints and name in fingerprints:
            return [registry.find(fingerprint, name) for fingerprint in fingerprints[name]]
        return [open_dataset(name)]

    def images(name: str, keys: Sequence[str]) -> list[Image]:
        import pyarrow as pa

        if name not in opened:
            opened[name] = open_all(name)
        problem = UserError(f"The dataset '{name}' is not known", f"pass {{datasets:{name}=PATH}}")
        for dataset in opened[name]:
            try:
                rows = dataset.find_rows(pa.array(keys, pa.string()))
            except UserError as error:
                problem = error
                continue
            return [dataset.image(int(row)) for row in rows]
        raise problem

    return images

"""Small datasets without pictures: samplers look at classes and keys only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.base import offsets_of
from longshot.data import Dataset, Taxonomy

MakeDataset = Callable[..., Dataset]


class GreyStore:
    """A picture whose grey value tells its row."""

    def read(self, row: int) -> Image.Image:
        return Image.new("RGB", (40, 30), (row % 256,) * 3)


@pytest.fixture(scope="session")
def make_dataset() -> MakeDataset:
    """``make_dataset({"a/x": 20, "a/y": 30})``: classes and their sizes; ids with slashes give the taxonomy."""

    def make(
        sizes: Mapping[str, int] | Sequence[int],
        *,
        name: str = "small",
        splits: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Dataset:
        if not isinstance(sizes, Mapping):
            sizes = {f"class{number:03d}": size for number, size in enumerate(sizes)}
        ids = tuple(sorted(sizes))
        nested = any("/" in class_id for class_id in ids)
        return Dataset(
            name=name,
            class_ids=ids,
            offsets=offsets_of(np.array([sizes[class_id] for class_id in ids])),
            keys=pa.array(
                [f"{class_id}/{number:04d}.jpg" for class_id in ids for number in range(sizes[class_id])]
            ),
            store=GreyStore(),
            source="nowhere",
            taxonomy=Taxonomy.from_class_ids(ids) if nested else None,
            splits=splits or {},
        )

    return make

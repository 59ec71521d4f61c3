"""Where keys stand among hundreds of thousands, without reading all of them for every page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Ints
from longshot.explorer.held import Held

if TYPE_CHECKING:
    from longshot.data import Dataset


class KeyFinder:
    """Positions of keys in an array, by bisection: the array is put in order once, and never hashed.

    Parameters
    ----------
    keys : pyarrow.Array of str
        All keys, each once.

    Examples
    --------
    >>> KeyFinder(pa.array(["b", "c", "a"])).find(["a", "b", "nothing"]).tolist()
    [2, 0, -1]
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        # Arrow puts text in the order of its UTF-8 bytes, which is the order of Python's strings.
        self._order = pc.sort_indices(self._keys).to_numpy().astype(np.uint32)

    def find(self, names: Sequence[str]) -> Ints:
        """[M] positions; −1 for a key that is not there."""
        positions = np.full(len(names), -1, np.int64)
        for number, name in enumerate(names):
            at = bisect_left(self._order, name, key=self._key)
            if at < len(self._order) and self._key(self._order[at]) == name:
                positions[number] = self._order[at]
        return positions

    def _key(self, position: int) -> str:
        return str(self._keys[int(position)].as_py())


_finders = Held(4)


def rows_of(dataset: Dataset, keys: Sequence[str]) -> Ints:
    """[M] rows of keys in a dataset; −1 for an image that is gone from it."""
    # The dataset is kept beside its finder, so that no other can have its id meanwhile.
    _, finder = _finders.get(id(dataset), lambda: (dataset, KeyFinder(dataset.keys)))
    return finder.find(keys)

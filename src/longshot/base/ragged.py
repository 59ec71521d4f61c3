"""Rows of unequal length in one flat array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


@dataclass(frozen=True, eq=False)
class Ragged:
    """T rows of unequal length: row i is ``values[offsets[i] : offsets[i + 1]]``.

    ``values`` has shape [M], ``offsets`` has shape [T + 1], starts at 0 and ends at M.
    """

    values: NDArray[Any]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or self.offsets.ndim != 1 or len(self.offsets) == 0:
            raise ValueError("a Ragged needs flat values and at least one offset")
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.values):
            raise ValueError(
                f"offsets run from {self.offsets[0]} to {self.offsets[-1]}, not 0 to {len(self.values)}"
            )

    @classmethod
    def from_lengths(cls, values: NDArray[Any], lengths: ArrayLike) -> Ragged:
        """Cut flat ``values`` [M] into consecutive rows of the given lengths [T], which sum to M."""
        return cls(values, offsets_of(lengths))

    @classmethod
    def from_lists(cls, rows: Iterable[ArrayLike], dtype: DTypeLike = np.int64) -> Ragged:
        """Put the given rows one behind the other.

        >>> Ragged.from_lists([[3, 1], [], [2]]).lengths
        array([2, 0, 1])
        """
        arrays = [np.asarray(row, dtype=dtype).reshape(-1) for row in rows]
        values = np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)
        return cls.from_lengths(values, [len(array) for array in arrays])

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """All rows of the first part, then all rows of the second, and so on (at least one part)."""
        values = np.concatenate([part.values for part in parts])
        return cls.from_lengths(values, np.concatenate([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of values in each row, [T]."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The row each value belongs to, [M]."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The place of each value inside its row, [M]."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def row(self, index: int) -> NDArray[Any]:
        """Row ``index`` as a view."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: ArrayLike) -> Ragged:
        """The given rows, in the given order; rows may repeat."""
        order = np.asarray(rows, dtype=np.int64)
        return Ragged.from_lengths(self.values[self.indices(order)], self.lengths[order])

    def indices(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Where the values of the given rows stand in ``values``, row after row.

        >>> Ragged.from_lists([[3, 1], [], [2]]).indices([2, 0])
        array([2, 0, 1])
        """
        order = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[order]
        offsets = offsets_of(lengths)
        return np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][order] - offsets[:-1], lengths)

    def slice(self, start: int, stop: int) -> Ragged:
        """Rows ``start`` to ``stop`` without copying the values."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def with_values(self, values: NDArray[Any]) -> Ragged:
        """The same row lengths around other values [M]."""
        return Ragged(values, self.offsets)

    def padded(self, fill: Any, width: int | None = None) -> NDArray[Any]:
        """A rectangle [T, width] with ``fill`` behind the end of each row (default: the longest row wide)."""
        lengths = self.lengths
        longest = int(lengths.max(initial=0))
        columns = longest if width is None else width
        if columns < longest:
            raise ValueError(f"a row of {longest} values does not fit into width {columns}")
        if len(self) and columns and np.all(lengths == columns):
            return self.values.reshape(len(self), columns)
        out = np.full((len(self), columns), fill, dtype=self.values.dtype)
        out[np.arange(columns) < lengths[:, None]] = self.values
        return out


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Where rows of the given lengths [T] start and end when laid one behind the other, [T + 1]."""
    sizes = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def rows_of_classes(offsets: NDArray[np.int64], classes: ArrayLike) -> NDArray[np.int64]:
    """All rows of some classes, class by class, where class c is the rows offsets[c]:offsets[c + 1].

    >>> rows_of_classes(np.array([0, 2, 5, 6]), [0, 2])
    array([0, 1, 5])
    """
    return Ragged(np.arange(offsets[-1]), offsets).indices(classes)

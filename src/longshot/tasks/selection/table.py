"""Class-major features that stay on disk: one class, or a block of one, is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ROW_BLOCK = 4096  # pool rows per product: fixed, so that a score does not depend on how work is divided


class FeatureTable:
    """Features ``array`` [N, d] (memory-mapped, float16 or float32) whose class c is rows offsets[c]:offsets[c+1].

    With ``normalize`` every row is scaled to unit length as it is read. Kept in memory: one scale per row
    and one sum per class that was asked for.

    ``allowed`` [N] (true or false) says which rows may be selected. A class then consists of these alone, its
    *places* are counted among them, and sizes, sums and blocks are what they would be without the other rows; only
    ``gather`` reads every row, for queries need not be selectable.
    """

    def __init__(
        self,
        array: NDArray[Any],
        offsets: NDArray[np.int64],
        *,
        normalize: bool = True,
        device: str | torch.device = "cpu",
        names: Sequence[str] | None = None,
        row_block: int = ROW_BLOCK,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        self.array, self.offsets, self.normalize = array, np.asarray(offsets, dtype=np.int64), normalize
        self.allowed = allowed
        self._kept = None if allowed is None else np.flatnonzero(allowed)  # rows, ascending
        # where each class begins among the rows that may be selected [C+1]
        self._bounds = self.offsets if self._kept is None else np.searchsorted(self._kept, self.offsets)
        self.device = torch.device(device)
        self.names = names
        self.row_block = row_block
        self._scale: dict[int, torch.Tensor] = {}
        self._sum: dict[int, torch.Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What other processes get: scales and sums are found anew there."""
        return {**vars(self), "_scale": {}, "_sum": {}}

    @property
    def dim(self) -> int:
        """d, the length of a feature."""
        return int(self.array.shape[1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each class that may be selected [C]."""
        return np.diff(self._bounds)

    def size(self, label: int) -> int:
        """Number of rows of a class that may be selected."""
        return int(self._bounds[label + 1] - self._bounds[label])

    def selectable(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the rows may be selected, in their shape."""
        return np.ones(rows.shape, dtype=bool) if self.allowed is None else self.allowed[rows]

    def places(self, label: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in the class of rows of it that may be selected."""
        among: NDArray[np.int64] = rows if self._kept is None else np.searchsorted(self._kept, rows)
        return among - int(self._bounds[label])

    def rows(self, label: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows at places of the class: the inverse of ``places``."""
        among = places + int(self._bounds[label])
        return among if self._kept is None else self._kept[among]

    def name(self, label: int) -> str:
        """What a message calls the class."""
        return self.names[label] if self.names is not None else str(label)

    def blocks(self, label: int) -> Iterator[tuple[int, torch.Tensor]]:
        """The class's features, ``row_block`` rows at a time: (place in the class, [n, d] float32)."""
        scale = self._scales(label)
        for start, block in self._raw_blocks(label):
            if scale is not None:
                block = block.mul_(scale[start : start + len(block), None])
            yield start, block

    def whole(self, label: int) -> torch.Tensor:
        """The class's features [n, d] in one tensor."""
        parts = [block for _, block in self.blocks(label)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def gather(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """Features of any rows: [..., d] float32."""
        flat = self._read(rows.reshape(-1))
        if self.normalize:
            flat = flat.mul_(_inverse_length(flat)[:, None])
        return flat.reshape(*rows.shape, self.dim)

    def class_sum(self, label: int) -> torch.Tensor:
        """Σ of the class's features [d], blocks added in float64 where the device has it; computed once."""
        self._scan(label)
        return self._sum[label]

    def _scales(self, label: int) -> torch.Tensor | None:
        if not self.normalize:
            return None
        self._scan(label)
        return self._scale[label]

    def _scan(self, label: int) -> None:
        """Read a class once for its scales [n] and its sum [d]."""
        if label in self._sum:
            return
        scale = torch.ones(self.size(label), device=self.device)
        total = torch.zeros(self.dim, dtype=_wide(self.device), device=self.device)
        for start, block in self._raw_blocks(label):
            here = scale[start : start + len(block)]
            if self.normalize:
                here.copy_(_inverse_length(block))
            total += here @ block
        self._scale[label] = scale
        self._sum[label] = total  # last: another thread that sees the sum may use the scales

    def _raw_blocks(self, label: int) -> Iterator[tuple[int, torch.Tensor]]:
        first, last = int(self._bounds[label]), int(self._bounds[label + 1])
        for start in range(first, last, self.row_block):
            part = slice(start, min(start + self.row_block, last))
            yield start - first, self._read(part if self._kept is None else self._kept[part])

    def _read(self, rows: slice | NDArray[np.int64]) -> torch.Tensor:
        # a copy on purpose: the memory map is read-only and torch must never write through it
        return torch.from_numpy(np.array(self.array[rows])).to(self.device, torch.float32)


def _inverse_length(features: torch.Tensor) -> torch.Tensor:
    """1/‖f‖ per row; a row of zeros stays a row of zeros."""
    length: torch.Tensor = torch.linalg.vector_norm(features, dim=-1)
    return length.clamp_min(1e-12).reciprocal()


def _wide(device: torch.device) -> torch.dtype:
    """float64 where the device has it (Apple's does not)."""
    return torch.float32 if device.type == "mps" else torch.float64

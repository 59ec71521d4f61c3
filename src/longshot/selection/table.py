"""Class-major features that stay on disk: one class, or a block of one, is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ROW_BLOCK = 4096  # pool rows per product: fixed, so that a score does not depend on how work is divided


class Table:
    """Features ``array`` [N, d] (memory-mapped, float16 or float32) whose class c is rows offsets[c]:offsets[c+1].

    With ``normalize`` every row is scaled to unit length as it is read. Kept in memory: one scale per row
    and one sum per class that was asked for.
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
    ) -> None:
        self.array, self.offsets, self.normalize = array, np.asarray(offsets, dtype=np.int64), normalize
        self.device = torch.device(device)
        self.names = names
        self.row_block = row_block
        self._scale: dict[int, torch.Tensor] = {}
        self._sum: dict[int, torch.Tensor] = {}

    @property
    def dim(self) -> int:
        """d, the length of a feature."""
        return int(self.array.shape[1])

    def size(self, label: int) -> int:
        """Number of rows of a class."""
        return int(self.offsets[label + 1] - self.offsets[label])

    def name(self, label: int) -> str:
        """What a message calls the class."""
        return self.names[label] if self.names is not None else str(label)

    def blocks(self, label: int) -> Iterator[tuple[int, torch.Tensor]]:
        """The class's features, ``row_block`` rows at a time: (position in the class, [n, d] float32)."""
        first, last = int(self.offsets[label]), int(self.offsets[label + 1])
        scale = self._scales(label)
        for start in range(first, last, self.row_block):
            stop = min(start + self.row_block, last)
            block = self._read(slice(start, stop))
            if scale is not None:
                block = block.mul_(scale[start - first : stop - first, None])
            yield start - first, block

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
        first, last = int(self.offsets[label]), int(self.offsets[label + 1])
        scale = torch.ones(last - first, device=self.device)
        total = torch.zeros(self.dim, dtype=_wide(self.device), device=self.device)
        for start in range(first, last, self.row_block):
            block = self._read(slice(start, min(start + self.row_block, last)))
            here = scale[start - first : start - first + len(block)]
            if self.normalize:
                here.copy_(_inverse_length(block))
            total += here @ block
        self._scale[label] = scale
        self._sum[label] = total  # last: another thread that sees the sum may use the scales

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

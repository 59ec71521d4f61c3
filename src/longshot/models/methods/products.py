"""Products of small matrices, one per task of a batch: what methods spend their time in.

A task of five classes multiplies a matrix of five rows. For such a shape PyTorch's batched product packs both sides
first and reaches a third of what the processor can do; NumPy's BLAS has kernels without packing for small products
(with AVX-512: 80 to 100 GFLOP/s where ``torch.bmm`` reached 25 to 45, ``python -m benchmarks.methods parts``). Tensors
on a CPU share their memory with NumPy, so nothing is copied. Large products, products on other devices and products
with gradients are PyTorch's.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# Multiply-adds of one matrix product up to which NumPy computes it (its BLAS has kernels for 100 × 100 × 100), and of
# the strips it is cut into: OpenBLAS takes more threads above 2¹⁸ where it has no such kernel, and the workers of a
# run have one thread each.
_SMALL = 1_000_000
_STRIP = 1 << 18
_FEW_ROWS = 128  # up to which a Gram matrix is made of strips that NumPy computes


def product(first: Tensor, second: Tensor) -> Tensor:
    """[B, m, n] ``first`` [B, m, k] times ``second`` [B, k, n], task by task.

    How a product is computed depends on its shape and device alone.
    """
    rows, inner = first.shape[1:]
    columns = second.shape[2]
    if not _by_numpy(first, second, rows * inner * columns):
        return torch.bmm(first, second)
    out = first.new_empty(len(first), rows, columns)
    step = max(1, _STRIP // max(1, rows * inner))
    for start in range(0, columns, step):
        stop = start + step
        _multiply(first, second[:, :, start:stop], out[:, :, start:stop])
    return out


def gram(rows: Tensor) -> Tensor:
    """[B, N, N] ⟨x, x'⟩ of all rows [B, N, d]: one half is computed, in strips, the other copied."""
    count = rows.shape[1]
    out = rows.new_empty(len(rows), count, count)
    step = 8 if count <= _FEW_ROWS else -(-count // 8)
    for start in range(0, count, step):
        stop = start + step
        out[:, start:stop, start:] = product(rows[:, start:stop], rows[:, start:].transpose(1, 2))
        out[:, stop:, start:stop] = out[:, start:stop, stop:].transpose(1, 2)
    return out


def _by_numpy(first: Tensor, second: Tensor, size: int) -> bool:
    return (
        0 < size <= _SMALL
        and first.device.type == "cpu"
        and first.dtype == second.dtype == torch.float32
        and not (torch.is_grad_enabled() and (first.requires_grad or second.requires_grad))
        and _plain(first)
        and _plain(second)
    )


def _plain(matrices: Tensor) -> bool:
    """Whether BLAS can read each matrix where it lies: rows or columns behind one another."""
    _, rows, columns = matrices.shape
    _, down, across = matrices.stride()
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)


def _multiply(first: Tensor, second: Tensor, out: Tensor) -> None:
    np.matmul(first.detach().numpy(), second.detach().numpy(), out=out.numpy())

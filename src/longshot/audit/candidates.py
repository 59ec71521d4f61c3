"""Nearest neighbours of vectors by cosine: exactly, in blocks of matrix products, or by FAISS for large sets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Ints, UserError, pick_device, progress

INDEXES = ("auto", "exact", "ivf")
EXACT_ROWS = 100_000  # beyond it on either side 'auto' takes the approximate index
_QUERIES, _BASE = 4096, 16384  # a block of the exact search: 256 MB of similarities
_IVF_BLOCK = 16384  # queries handed to the index at a time
_PER_LIST = 40  # training rows per list of the index; FAISS asks for 39
_PROBES = 16  # lists looked into per query
_CANDIDATES = 20  # at least so many rows are compared again with the full vectors
_PART = 4  # numbers per part of a long vector that the index keeps as one of 16 codes
# vectors up to this length are kept at one byte per number: so few codes would tell too little apart
_SHORT = 256
_PIP = 'pip install "longshot[overlap]"'

Values: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Neighbours:
    """For each query its nearest rows, best first: ``rows`` [Q, k] (−1: none), cosine ``similarity`` [Q, k]."""

    rows: Ints
    similarity: Values
    index: str  # "exact" or how the approximate index was made


def nearest(
    queries: NDArray[Any],
    base: NDArray[Any],
    k: int,
    *,
    index: str = "auto",
    leave_self: bool = False,
    device: str = "auto",
    probes: int = _PROBES,
    description: str = "search",
) -> Neighbours:
    """Find the rows with the highest cosine, cos(q, b) = q·b / (‖q‖ ‖b‖), to each query.

    Parameters
    ----------
    queries : array [Q, d]
        Memory-mapped or not, of any float type; read in blocks. A vector of zeros has no direction: it is near nothing.
    base : array [N, d]
        What is searched.
    k : int
        How many rows for each query; fewer where ``base`` has fewer.
    index : str
        "exact", "ivf" (FAISS: inverted lists of short codes), or "auto", which takes ivf beyond 100,000 rows on both
        sides.
    leave_self : bool
        Leave out the row of the query's own number, for the search of a set within itself.
    device : str
        Where the exact search computes.
    probes : int
        Lists of the index looked into for each query.
    description : str
        What the progress bar says.

    Examples
    --------
    >>> base = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> nearest(np.array([[3.0, 0.1]]), base, 2, device="cpu").rows
    array([[0, 2]])
    """
    if index not in INDEXES:
        raise UserError(f"There is no index '{index}'; choose one of {', '.join(INDEXES)}.")
    if queries.shape[1] != base.shape[1]:
        raise UserError(
            f"Vectors of {queries.shape[1]:,} and of {base.shape[1]:,} numbers cannot be compared",
            "embed both datasets with the same backbone",
        )
    if index == "auto":
        index = "ivf" if min(len(queries), len(base)) > EXACT_ROWS else "exact"
    k = min(k, len(base) - leave_self)
    if k < 1:
        empty = np.empty((len(queries), 0))
        return Neighbours(empty.astype(np.int64), empty.astype(np.float32), index)
    if index == "exact":
        return Neighbours(*_exact(queries, base, k, leave_self, pick_device(device), description), "exact")
    return _through_faiss(queries, base, k, leave_self, probes, description)


def _exact(
    queries: NDArray[Any],
    base: NDArray[Any],
    k: int,
    leave_self: bool,
    device: torch.device,
    description: str,
) -> tuple[Ints, Values]:
    """Search by blocks of Q·Bᵀ with a running best k. The base is read once per block of queries."""
    rows = np.empty((len(queries), k), np.int64)
    similarity = np.empty((len(queries), k), np.float32)
    with progress(description, total=len(queries), unit="rows") as bar:
        for start in range(0, len(queries), _QUERIES):
            block = unit(queries[start : start + _QUERIES], device)
            best = torch.full((len(block), 0), -math.inf, device=device)
            best_rows = torch.empty((len(block), 0), dtype=torch.int64, device=device)
            for low in range(0, len(base), _BASE):
                part = block @ unit(base[low : low + _BASE], device).T
                if leave_self:
                    own = torch.arange(start, start + len(block), device=device) - low
                    inside = (own >= 0) & (own < part.shape[1])
                    part[inside, own[inside]] = -math.inf
                values, at = part.topk(min(k, part.shape[1]), dim=1)
                best, best_rows = torch.cat((best, values), 1), torch.cat((best_rows, at + low), 1)
                best, order = best.topk(min(k, best.shape[1]), dim=1)
                best_rows = best_rows.gather(1, order)
            rows[start : start + len(block)] = best_rows.cpu().numpy()
            similarity[start : start + len(block)] = best.cpu().numpy()
            bar.advance(len(block))
    return rows, similarity


def _through_faiss(
    queries: NDArray[Any], base: NDArray[Any], k: int, leave_self: bool, probes: int, description: str
) -> Neighbours:
    """Find candidates by inverted lists, and order them by their full vectors.

    About 2√N lists lie around centres of k-means; a query looks into the ``probes`` lists with the nearest centres.
    They hold half a byte per four numbers of a long vector, a byte per number of a short one.
    """
    faiss = _faiss()
    size = len(base)
    dim = -(-base.shape[1] // _PART) * _PART  # filled up with zeros, which change no product
    lists = max(1, min(2 * math.isqrt(size), size // _PER_LIST))
    quantizer = faiss.IndexFlatIP(dim)
    measure = faiss.METRIC_INNER_PRODUCT
    if dim > _SHORT:
        index = faiss.IndexIVFPQFastScan(quantizer, dim, lists, dim // _PART, 4, measure)
    else:
        index = faiss.IndexIVFScalarQuantizer(quantizer, dim, lists, faiss.ScalarQuantizer.QT_8bit, measure)
    index.cp.niter, index.cp.seed = 8, 0
    cpu = torch.device("cpu")
    sample = np.sort(np.random.default_rng(0).choice(size, min(size, lists * _PER_LIST), replace=False))
    with progress(f"{description}: index", total=size, unit="rows") as bar:
        index.train(_filled(unit(base[sample], cpu), dim))
        for start in range(0, size, _IVF_BLOCK):
            rows_here = _filled(unit(base[start : start + _IVF_BLOCK], cpu), dim)
            index.add(rows_here)
            bar.advance(len(rows_here))
    index.nprobe = min(probes, lists)
    rows = np.full((len(queries), k), -1, np.int64)
    similarity = np.full((len(queries), k), -1.0, np.float32)
    candidates = min(size, max(_CANDIDATES, 2 * k) + leave_self)
    with progress(description, total=len(queries), unit="rows") as bar:
        for start in range(0, len(queries), _IVF_BLOCK):
            block = unit(queries[start : start + _IVF_BLOCK], cpu)
            nearby = index.search(_filled(block, dim), candidates)[1]
            if leave_self:
                nearby[nearby == np.arange(start, start + len(block))[:, None]] = -1
            ordered, values = _rerank(block, base, nearby, k)
            rows[start : start + len(block)], similarity[start : start + len(block)] = ordered, values
            bar.advance(len(block))
    how = f"ivf({lists:,} lists, {index.nprobe} probes, {candidates} candidates compared in full)"
    return Neighbours(rows, similarity, how)


def _filled(values: torch.Tensor, dim: int) -> NDArray[np.float32]:
    """Fill vectors [n, d] with zeros behind up to [n, dim]."""
    return np.asarray(torch.nn.functional.pad(values, (0, dim - values.shape[1])).numpy(), np.float32)


def _rerank(block: torch.Tensor, base: NDArray[Any], candidates: Ints, k: int) -> tuple[Ints, Values]:
    """Choose the best k of the candidates [q, c] by their full vectors; −1 stands for no candidate."""
    ordered = np.full((len(candidates), k), -1, np.int64)
    values = np.full((len(candidates), k), -1.0, np.float32)
    step = max(1, (1 << 25) // (candidates.shape[1] * base.shape[1]))  # 128 MB of gathered vectors
    for start in range(0, len(candidates), step):
        part = candidates[start : start + step]
        vectors = unit(base[np.maximum(part, 0).ravel()], block.device).view(*part.shape, -1)
        cosine = torch.einsum("qd,qcd->qc", block[start : start + step], vectors)
        cosine[torch.from_numpy(part < 0)] = -math.inf
        best, order = cosine.topk(min(k, part.shape[1]), dim=1)
        picked = np.take_along_axis(part, order.numpy(), 1)
        width = picked.shape[1]
        ordered[start : start + step, :width] = picked
        values[start : start + step, :width] = np.where(picked < 0, -1.0, best.numpy())
    return ordered, values


def unit(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """Return rows [n, d] as float32 of length 1; zeros stay zeros."""
    tensor = torch.from_numpy(np.array(values, np.float32)).to(device)
    return torch.nn.functional.normalize(tensor, dim=1)


def _faiss() -> Any:
    if find_spec("faiss") is None:
        raise UserError(
            f"An approximate search beyond {EXACT_ROWS:,} rows needs FAISS, which is not installed",
            f"to have it: {_PIP} (or search exactly with {{index:exact}}, which takes time in proportion to "
            f"rows × rows)",
        )
    import faiss

    return faiss

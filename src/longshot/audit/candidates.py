"""Which pictures may be copies of which: nearest neighbours of vectors that edits leave together.

A learned ``Metric`` gives some hundred candidates for each picture, by its whole and its four corners. Thumbnails
become vectors of luminance only, and of nothing that a change of brightness or contrast alters: what no mirror,
quarter turn or small crop changes. Neighbours by cosine are found exactly in blocks of matrix products, or through a
FAISS index for large sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from longshot.audit.alignment import SIDE, cosine_waves, cut, grey
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
    """The rows with the highest cosine, cos(q, b) = q·b / (‖q‖ ‖b‖), to each query.

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
    """Blocks of Q·Bᵀ with a running best k. The base is read once per block of queries."""
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
    """Inverted lists find candidates; the full vectors put them in order.

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
    """[n, d] → [n, dim] with zeros behind."""
    return np.asarray(torch.nn.functional.pad(values, (0, dim - values.shape[1])).numpy(), np.float32)


def _rerank(block: torch.Tensor, base: NDArray[Any], candidates: Ints, k: int) -> tuple[Ints, Values]:
    """The best k of the candidates [q, c] by their full vectors; −1 stands for no candidate."""
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
    """Rows [n, d] as float32 of length 1; zeros stay zeros."""
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


LOOKED_AT = 50  # candidates of a picture, and of each of its corners
_CORNERS = tuple((0.87, top, start) for top in (0.0, 0.13) for start in (0.0, 0.13))

_SPECTRUM = 8  # frequencies of the windowed Fourier transform kept per axis
_INNER = 0.85  # share of each side whose invariants are taken beside those of the whole
_LENGTH = 96  # numbers of a learned vector
_SAMPLE, _EDITS = 1000, 6  # images that the metric is learned from, and edits of each
_RIDGE = 0.05
_NOTHING = 1e-4  # share of the largest variance between pictures below which a direction tells none apart
_EMBEDDED = 512  # pictures whose invariants are computed at a time


def invariants(pictures: Tensor) -> Tensor:
    """Luminance [P, 32, 32] → [P, 430] that no symmetry and no change of brightness or contrast alters.

    Sizes of the cosine transform and of the Fourier transform under a Hann window, of the picture and of its inner
    part. A mirror changes signs or exchanges two sizes, a transpose exchanges two sizes; the sum and the absolute
    difference of two numbers do not know which came first.
    """
    parts = []
    for picture in (pictures, cut(pictures, _INNER, (1 - _INNER) / 2, (1 - _INNER) / 2)):
        waves = cosine_waves()
        sizes = (waves @ picture @ waves.T).abs()
        sizes[:, 0, 0] = 0
        parts += _unordered(_scaled(sizes))
        window = torch.hann_window(SIDE + 2, periodic=False)[1:-1]
        centred = (picture - picture.mean((1, 2), keepdim=True)) * window[:, None] * window
        spectrum = torch.fft.rfft2(centred).abs()[:, :, :_SPECTRUM]
        rising = spectrum[:, :_SPECTRUM]
        falling = torch.cat((spectrum[:, :1], spectrum[:, 1 - _SPECTRUM :].flip(1)), 1)
        both_sizes = _scaled(torch.stack((rising, falling), 1))
        parts += _unordered(both_sizes.sum(1)) + _unordered((both_sizes[:, 0] - both_sizes[:, 1]).abs())
    return torch.cat(parts, 1)


@dataclass(frozen=True, eq=False)
class Metric:
    """A linear map of invariants under which edits of a picture stay together: (values − mean) / spread @ map."""

    mean: Tensor  # [430]
    spread: Tensor  # [430]
    map: Tensor  # [430, 96]

    def embed(self, pictures: Tensor) -> NDArray[np.float32]:
        """Luminance [P, 32, 32] → [P, 96] of length 1."""
        vectors = [
            normalize(((invariants(block) - self.mean) / self.spread) @ self.map, dim=1)
            for block in torch.split(pictures, _EMBEDDED)
        ]
        return np.asarray(torch.cat(vectors).numpy(), np.float32)


def learn_metric(pictures: Tensor, seed: int = 0) -> Metric:
    """Linear discriminants: directions in which pictures differ from each other more than from their edits.

    With Sʷ the covariance within the edits of a picture and Sᵇ that between the means of pictures, the columns of the
    map are the 96 leading solutions of Sᵇ v = λ (Sʷ + 0.05 I) v. Edits are random crops down to three quarters of each
    side and borders; symmetries and brightness do not change the invariants.

    Parameters
    ----------
    pictures : tensor [P, 32, 32]
        Luminance of a sample of the images to be compared.
    seed : int
        Of the edits.
    """
    rng = np.random.default_rng(seed)
    groups = [invariants(pictures)]
    for _ in range(_EDITS):
        groups.append(torch.cat([invariants(_edited(part, rng)) for part in torch.split(pictures, 20)]))
    values = torch.stack(groups, 1)  # [P, 7, 430]
    mean, spread = values.mean((0, 1)), values.flatten(0, 1).std(0) + 1e-6
    values = (values - mean) / spread
    centres = values.mean(1)
    away = (values - centres[:, None]).flatten(0, 1)
    within = away.T @ away / len(away) + _RIDGE * torch.eye(len(mean))
    between = centres.T @ centres / len(centres)
    whitened = torch.linalg.inv(torch.linalg.cholesky(within))
    spread_out, directions = torch.linalg.eigh(whitened @ between @ whitened.T)
    # P pictures differ in at most P − 1 directions. Any others are rounding errors, other ones on every processor.
    directions = directions * (spread_out > _NOTHING * spread_out[-1])
    return Metric(mean, spread, whitened.T @ directions[:, -_LENGTH:])


def sample_rows(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Up to 1,000 of ``count`` rows, ascending."""
    return np.sort(np.random.default_rng(seed).choice(count, min(count, _SAMPLE), replace=False))


def _edited(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    if rng.random() < 0.75:
        scale = float(rng.uniform(0.75, 1.0))
        top, start = (float(rng.uniform(0, 1 - scale)) for _ in range(2))
        return cut(pictures, scale, top, start)
    framed = torch.full_like(pictures, float(rng.choice([0, 128, 255])))
    small = torch.nn.functional.interpolate(pictures[:, None], size=(28, 28), mode="bilinear", antialias=True)
    framed[:, 2:30, 2:30] = small[:, 0]
    return framed


def _scaled(sizes: Tensor) -> Tensor:
    """Sizes […] of each picture, together of length 1, square-rooted."""
    length = torch.linalg.vector_norm(sizes.flatten(1), dim=1) + 1e-6
    rooted: Tensor = (sizes / length.view(-1, *[1] * (sizes.ndim - 1))).sqrt()
    return rooted


def _unordered(square: Tensor) -> list[Tensor]:
    """Sum and absolute difference of each number [P, n, n] and its mirror image across the diagonal."""
    rows, columns = torch.triu_indices(square.shape[-1], square.shape[-1])
    first, second = square[:, rows, columns], square[:, columns, rows]
    return [first + second, (first - second).abs()]


def embed_all(
    metric: Metric, thumbnails: NDArray[np.uint8], crop: tuple[float, float, float] | None = None
) -> NDArray[np.float32]:
    """Learned vectors [N, 96] of N thumbnails, or of one crop of each."""
    vectors = np.empty((len(thumbnails), metric.map.shape[1]), np.float32)
    for begin in range(0, len(thumbnails), 2048):
        block = grey(thumbnails[begin : begin + 2048])
        vectors[begin : begin + len(block)] = metric.embed(block if crop is None else cut(block, *crop))
    return vectors


def neighbour_rows(
    metric: Metric,
    thumbnails: NDArray[np.uint8],
    vectors: NDArray[np.float32],
    base: NDArray[np.float32],
    description: str,
    **search: Any,
) -> tuple[NDArray[np.int32], str]:
    """The nearest rows of ``base`` [N, 96] to each picture and to its corners, [Q, 250], and how they were searched.

    ``vectors`` [Q, 96] are the pictures' own vectors. A row that is near twice stands once; −1 fills the gaps.
    """
    rows, index = [], ""
    for number, crop in enumerate((None, *_CORNERS)):
        queries = vectors if crop is None else embed_all(metric, thumbnails, crop)
        words = f"{description} ({number + 1} of {len(_CORNERS) + 1})"
        hits = nearest(queries, base, LOOKED_AT, description=words, **search)
        index = hits.index
        rows.append(hits.rows.astype(np.int32))
    joined = np.sort(np.concatenate(rows, 1), 1)
    joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
    return joined, index

"""Places of images in the plane by their features: principal components at once, then a layout of neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, Ints

_FITTED = 5_000  # rows that the components are fitted on, evenly spread
_BLOCK = 8_192  # rows per product
DIMS = 40  # components that neighbours are looked for in
_NEIGHBOURS, _EPOCHS, _NEGATIVES = 12, 200, 4
_A, _B = 1.577, 0.895  # of the curve 1 / (1 + a d^2b) for a smallest distance of 0.1
_CLIP = 4.0  # of a step
_STEPS = 8  # parts of an epoch, each of which sees the places that the last one left behind


def components(array: NDArray[Any], dims: int = DIMS) -> Floats:
    """Project rows of unit length on their first principal components; [N, dims].

    The components are those of at most 5,000 evenly spread rows; each has the sign that makes its largest weight
    positive, so the same features always give the same picture.
    """
    spread = np.linspace(0, len(array) - 1, min(_FITTED, len(array))).astype(np.int64)
    sample = _scaled(array[spread])
    mean = sample.mean(axis=0)
    values, vectors = np.linalg.eigh((sample - mean).T @ (sample - mean))
    axes = vectors[:, np.argsort(-values, kind="stable")[:dims]]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    parts = [(_scaled(array[at : at + _BLOCK]) - mean) @ axes for at in range(0, len(array), _BLOCK)]
    projected: Floats = np.concatenate(parts)
    return projected


def _scaled(rows: NDArray[Any]) -> Floats:
    values = np.asarray(rows, np.float32)
    scaled: Floats = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return scaled


def nearest_rows(points: Floats, count: int, tell: Callable[[float], None]) -> tuple[Ints, Floats]:
    """Find the nearest other rows of each row by blocks of products; rows and squared distances, both [N, count]."""
    squares = (points**2).sum(axis=1)
    rows, distances = np.empty((len(points), count), np.int64), np.empty((len(points), count))
    size = max(64, min(2_048, 40_000_000 // len(points)))
    for at in range(0, len(points), size):
        block = slice(at, min(at + size, len(points)))
        far = squares[block, None] + squares - 2 * points[block] @ points.T
        far[np.arange(block.stop - at), np.arange(at, block.stop)] = np.inf
        part = np.argpartition(far, count - 1, axis=1)[:, :count]
        held = np.take_along_axis(far, part, axis=1)
        order = np.lexsort((part, held))
        rows[block] = np.take_along_axis(part, order, axis=1)
        distances[block] = np.take_along_axis(held, order, axis=1)
        tell(block.stop / len(points))
    return rows, np.maximum(distances, 0.0)


def neighbour_layout(points: Floats, tell: Callable[[float], None], seed: int = 0) -> Floats:
    """Lay rows out so that neighbours stay neighbours: UMAP's objective (McInnes et al. 2018); [N, 2].

    An edge to each of the 12 nearest rows weighs exp(−(d − d₁) / s), where d₁ is the distance of the nearest and s the
    mean of d − d₁; both directions are united as w + w' − w w'. From the first two components on, edges pull in
    proportion to their weight and four random rows per edge push, with a step that falls to 0 over 200 rounds.
    """
    count = min(_NEIGHBOURS, len(points) - 1)
    if count < 2:
        return points[:, :2]
    rows, squared = nearest_rows(points, count, lambda share: tell(0.4 * share))
    reach = np.sqrt(squared)
    beyond = reach - reach[:, :1]
    weights = np.exp(-beyond / np.maximum(beyond.mean(axis=1, keepdims=True), 1e-9))
    heads, tails = np.repeat(np.arange(len(points)), count), rows.ravel()
    keys, position = np.unique(
        np.minimum(heads, tails) * len(points) + np.maximum(heads, tails), return_inverse=True
    )
    survives = np.ones(len(keys))
    np.multiply.at(survives, position, 1 - np.minimum(weights.ravel(), 1 - 1e-6))
    heads, tails, weight = keys // len(points), keys % len(points), 1 - survives
    places: Floats = 10 * points[:, :2] / np.maximum(np.abs(points[:, :2]).max(), 1e-9)
    generator = np.random.default_rng(seed)
    for epoch in range(_EPOCHS):
        step = 1 - epoch / _EPOCHS
        used = np.flatnonzero(generator.random(len(weight)) < weight)
        for part in np.array_split(generator.permutation(used), _STEPS):
            _move(places, heads[part], tails[part], step, generator)
        tell(0.4 + 0.6 * (epoch + 1) / _EPOCHS)
    return places


def _move(places: Floats, heads: Ints, tails: Ints, step: float, generator: np.random.Generator) -> None:
    """Pull the ends of edges together, and push random rows from their heads."""
    gap = places[heads] - places[tails]
    squared = (gap**2).sum(axis=1, keepdims=True)
    pull = -2 * _A * _B * squared ** (_B - 1) / (1 + _A * squared**_B)
    pull = step * np.clip(np.where(squared > 0, pull, 0) * gap, -_CLIP, _CLIP)
    ends, moves = [heads, tails], [pull, -pull]
    for _ in range(_NEGATIVES):
        strangers = generator.integers(0, len(places), len(heads))
        gap = places[heads] - places[strangers]
        squared = (gap**2).sum(axis=1, keepdims=True)
        push = 2 * _B / ((0.001 + squared) * (1 + _A * squared**_B))
        ends.append(heads)
        moves.append(step * np.clip(push * gap, -_CLIP, _CLIP))
    rows, change = np.concatenate(ends), np.concatenate(moves)
    for axis in (0, 1):
        total = np.bincount(rows, change[:, axis], len(places))
        # Several edges of one row move it together: no further than one of them could.
        places[:, axis] += np.clip(total, -_CLIP * step, _CLIP * step)


def clusters(points: Floats, count: int, rounds: int = 25) -> Ints:
    """Group rows by k-means, begun at rows drawn far apart (k-means++); [N], the largest group first."""
    generator = np.random.default_rng(0)
    centres = points[generator.integers(0, len(points), 1)]
    far = ((points - centres[0]) ** 2).sum(axis=1)
    while len(centres) < count:
        chosen = points[generator.choice(len(points), p=far / far.sum())] if far.any() else points[0]
        centres = np.concatenate([centres, chosen[None]])
        far = np.minimum(far, ((points - chosen) ** 2).sum(axis=1))
    group = np.zeros(len(points), np.int64)
    for _ in range(rounds):
        group = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        sizes = np.bincount(group, minlength=count)
        sums = np.stack([np.bincount(group, column, count) for column in points.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    ranks = np.empty(count, np.int64)
    ranks[np.argsort(-np.bincount(group, minlength=count), kind="stable")] = np.arange(count)
    ranked: Ints = ranks[group]
    return ranked

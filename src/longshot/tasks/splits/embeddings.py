"""Class embeddings, how far class distributions over them are apart, and trees of classes.

ATG's class distribution of a centroid μ over embeddings z [C, d] is p(c) = softmax_c(−T‖z_c − μ‖²). Measures:

    kl             KL(p‖q) = Σ p (log p − log q)
    kl-symmetric   KL(p‖q) + KL(q‖p)
    euclidean      ‖μ_p − μ_q‖
    wasserstein    W₂ between the Gaussians that have the mean and the covariance of z under p and under q

For the paper's correlation study the same four are taken between Gaussians fitted to two sets of embeddings.
Covariances are damped by 0.001 on the diagonal, as in the paper.

Trees are Ward clusterings of class embeddings. The paper's distance of one from a taxonomy is
Σ_{a,b} |d₁(a, b) − d₂(a, b)| with d the "normalized minimum number of nodes" between two classes, and it calls it an
average. Read as an average over pairs of classes it gives numbers of the size of its table 3 (2 to 9 hops); divided by
the largest distance of each graph, which is the other reading of "normalized", it stays below 1. Both are computed:
``hops`` and ``relative``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular, svdvals
from scipy.special import log_softmax

from longshot.base import Floats, Ints, UserError, count, first, progress
from longshot.models import Features

if TYPE_CHECKING:
    from longshot.data import Taxonomy


_PAIR_BLOCK = 1 << 22  # numbers of a temporary block: 32 MB of float64


def class_embeddings(features: Features) -> Floats:
    """Return the mean feature of each class on the unit sphere: z_c = m_c / ‖m_c‖, m_c the mean of its rows.

    Parameters
    ----------
    features : Features
        Read once, class by class, and summed in float64.

    Returns
    -------
    array [C, d]
        In the order of ``features.class_ids``. UserError for classes without images, without a direction, or with the
        same embedding.
    """
    empty = [features.class_ids[c] for c in np.flatnonzero(np.diff(features.offsets) <= 0).tolist()]
    if empty:
        raise UserError(
            f"{count(empty, 'class', 'classes')} of {len(features.class_ids):,} of '{features.dataset}' have no image "
            f"({first(empty)}); a class embedding is a mean of at least one."
        )
    embeddings = class_means(features, np.arange(len(features.class_ids)))
    refuse_twins(embeddings, features.class_ids, f"'{features.dataset}' under '{features.backbone}'")
    return embeddings


def class_means(features: Features, classes: Ints) -> Floats:
    """Return the mean feature of each of the ``classes`` [P] that have images, on the unit sphere [P, d]."""
    rows = [features.array[features.rows(c)] for c in classes.tolist()]
    means = np.stack([each.mean(0, dtype=np.float64) for each in rows])
    norms = np.linalg.norm(means, axis=1)
    without = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    aimless = [features.class_ids[classes[position]] for position in without.tolist()]
    if aimless:
        raise UserError(
            f"{count(aimless, 'class', 'classes')} of '{features.dataset}' under '{features.backbone}' have a mean "
            f"feature of zero or not finite ({first(aimless)}), which has no direction",
            "use another backbone or check the images",
        )
    unit: Floats = means / norms[:, None]
    return unit


def refuse_twins(embeddings: Floats, class_ids: Sequence[str], where: str) -> None:
    """Raise UserError when two classes have the same embedding (to nine digits): no distance tells them apart."""
    _, first_of, counts = np.unique(
        np.round(embeddings, 9) + 0.0, axis=0, return_inverse=True, return_counts=True
    )
    if counts.max() > 1:
        numbers = first_of.reshape(-1)
        pair = sorted(class_ids[c] for c in np.flatnonzero(numbers == counts.argmax()).tolist())
        raise UserError(
            f"{count(int(counts.sum() - len(counts)), 'pair')} of the {len(class_ids):,} classes of {where} have "
            f"identical embeddings ('{pair[0]}' and '{pair[1]}'); are they the same images? Merge them or use another "
            "backbone."
        )


def flatten(embeddings: Floats) -> Floats:
    """Turn the points into min(C, d) dimensions; all distances and angles stay.

    C classes span at most C dimensions, and the divergences cost d³.
    """
    points = np.asarray(embeddings, np.float64)
    if points.shape[1] <= points.shape[0]:
        return points
    # zᵀ = Q R with Q orthonormal, so the rows of Rᵀ have the inner products of the rows of z.
    _, upper = np.linalg.qr(points.T)
    return np.ascontiguousarray(upper.T)


def nearest_of(points: Floats, candidates: Floats, *, itself: bool = True) -> tuple[Floats, Ints]:
    """Find the nearest of ``candidates`` [m, d] for each of ``points`` [n, d]: distances [n] and positions [n].

    ``itself=False``: both are the same points and a point is not its own neighbour (∞ where there is no other).
    """
    distances, positions = np.empty(len(points)), np.empty(len(points), np.int64)
    step = max(1, _PAIR_BLOCK // max(1, len(candidates)))
    squares = np.einsum("md,md->m", candidates, candidates)
    for low in range(0, len(points), step):
        block = points[low : low + step]
        squared = squares - 2 * block @ candidates.T  # + ‖point‖², which changes no order
        if not itself:
            squared[np.arange(len(block)), np.arange(low, low + len(block))] = np.inf
        best = squared.argmin(axis=1)
        positions[low : low + step] = best
        # The difference itself, not the expanded square, which loses half its digits for near neighbours.
        distances[low : low + step] = np.linalg.norm(block - candidates[best], axis=1)
    if not itself and len(points) < 2:
        distances[:] = np.inf
    return distances, positions


MEASURES = ("kl-symmetric", "kl", "wasserstein", "euclidean")
DAMPING = 0.001


def check_measure(measure: str) -> str:
    """Return the measure's name, or raise an error that names those there are."""
    if measure not in MEASURES:
        raise UserError(f"There is no divergence '{measure}'; there are {', '.join(MEASURES)}.")
    return measure


# ---- categoricals over classes ----------------------------------------------------------------------


def log_class_probabilities(embeddings: Floats, centroid: Floats, temperature: float = 1.0) -> Floats:
    """log p [C] of embeddings [C, d] and a centroid [d]: log softmax_c(−T‖z_c − μ‖²).

    ‖μ‖² is the same for every class and drops out of the softmax.
    """
    return np.asarray(log_softmax(temperature * (2 * embeddings @ centroid - (embeddings**2).sum(1))))


def kl(log_p: Floats, log_q: Floats) -> float:
    """Compute KL(p‖q) = Σ p (log p − log q) of two log-distributions [C]."""
    return float(np.exp(log_p) @ (log_p - log_q))


def symmetric_kl(log_p: Floats, log_q: Floats) -> float:
    """Compute KL(p‖q) + KL(q‖p) = Σ (p − q)(log p − log q)."""
    return float((np.exp(log_p) - np.exp(log_q)) @ (log_p - log_q))


def between(
    measure: str, embeddings: Floats, train_centroid: Floats, test_centroid: Floats, temperature: float = 1.0
) -> float:
    """Return the divergence ``measure`` of the class distributions of two centroids [d] over embeddings [C, d]."""
    centroids = np.stack([train_centroid, test_centroid])
    logs = (log_class_probabilities(embeddings, centroid, temperature) for centroid in centroids)
    return divergence(check_measure(measure), embeddings, centroids, *logs)


def divergence(measure: str, embeddings: Floats, centroids: Floats, log_p: Floats, log_q: Floats) -> float:
    """Return the divergence of two centroids [2, d] whose log-distributions [C] are known."""
    if measure == "euclidean":
        return float(np.linalg.norm(centroids[0] - centroids[1]))
    if measure == "wasserstein":
        return wasserstein(weighted_gaussian(embeddings, log_p), weighted_gaussian(embeddings, log_q))
    return kl(log_p, log_q) if measure == "kl" else symmetric_kl(log_p, log_q)


def gap(embeddings: Floats, train: Ints, test: Ints) -> float:
    """Return ‖mean of the train classes − mean of the test classes‖ in embedding space."""
    return float(np.linalg.norm(embeddings[train].mean(0) - embeddings[test].mean(0)))


# ---- Gaussians --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A mean [d] and a covariance [d, d] that is positive definite."""

    mean: Floats
    covariance: Floats


def fit_gaussian(points: Floats, damping: float = DAMPING) -> Gaussian:
    """Fit mean and unbiased covariance of points [n, d], plus ``damping`` on the diagonal; n = 1 has only that."""
    if len(points) == 0:
        raise UserError("A Gaussian needs at least one embedding to be fitted to; none was given.")
    covariance = np.cov(points.T, ddof=min(1, len(points) - 1))
    return Gaussian(points.mean(0), covariance + damping * np.eye(points.shape[1]))


def weighted_gaussian(points: Floats, log_weights: Floats) -> Gaussian:
    """Return mean and covariance of points [C, d] under weights [C] that sum to 1, damped."""
    weights = np.exp(log_weights)
    covariance = np.cov(points.T, aweights=weights, ddof=0)
    return Gaussian(weights @ points, covariance + DAMPING * np.eye(points.shape[1]))


def gaussian_kl(a: Gaussian, b: Gaussian) -> float:
    """Compute ½ [tr(B⁻¹A) + (m_b − m_a)ᵀ B⁻¹ (m_b − m_a) − d + ln|B| − ln|A|]."""
    lower_a, lower_b = np.linalg.cholesky(a.covariance), np.linalg.cholesky(b.covariance)
    spread = solve_triangular(lower_b, lower_a, lower=True)
    shift = solve_triangular(lower_b, b.mean - a.mean, lower=True)
    logs = 2 * float(np.log(np.diag(lower_b)).sum() - np.log(np.diag(lower_a)).sum())
    return 0.5 * (float((spread**2).sum() + (shift**2).sum()) - len(a.mean) + logs)


def wasserstein(a: Gaussian, b: Gaussian) -> float:
    """Compute W₂ = √(‖m_a − m_b‖² + tr A + tr B − 2 tr (A^½ B A^½)^½).

    The last trace is the sum of the singular values of L_aᵀ L_b for any A = L_a L_aᵀ, B = L_b L_bᵀ.
    """
    lower_a, lower_b = np.linalg.cholesky(a.covariance), np.linalg.cholesky(b.covariance)
    common = float(svdvals(lower_a.T @ lower_b).sum())
    shift = float(((a.mean - b.mean) ** 2).sum())
    squared = shift + float(np.trace(a.covariance) + np.trace(b.covariance)) - 2 * common
    return float(np.sqrt(max(squared, 0.0)))


def gaussian_divergence(measure: str, a: Gaussian, b: Gaussian) -> float:
    """Return the divergence ``measure`` from Gaussian ``a`` to Gaussian ``b``; euclidean compares the means."""
    if check_measure(measure) == "euclidean":
        return float(np.linalg.norm(a.mean - b.mean))
    if measure == "wasserstein":
        return wasserstein(a, b)
    return gaussian_kl(a, b) + (gaussian_kl(b, a) if measure == "kl-symmetric" else 0.0)


Counts: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class TreeGap:
    """How far two graphs over the same C classes are apart, over the C (C − 1) / 2 pairs of classes."""

    hops: float  # mean |d₁ − d₂|
    relative: float  # mean |d₁ / max d₁ − d₂ / max d₂|
    correlation: float  # Pearson's r of d₁ and d₂; NaN when one is the same for all pairs
    chance: float  # mean of ``hops`` after classes changed places at random
    pairs: int


def ward(embeddings: Floats) -> Floats:
    """Join class embeddings [C, d] by Ward's clustering: SciPy's linkage [C − 1, 4].

    Row i joins the clusters of its first two columns into cluster C + i; at every step the two are joined that raise
    the within-cluster sum of squares least.
    """
    if len(embeddings) < 2:
        raise UserError(f"There is {len(embeddings)} class, and a tree needs at least 2", "add classes")
    from scipy.cluster.hierarchy import linkage

    joins: Floats = linkage(np.asarray(embeddings, np.float64), "ward")
    return joins


def linkage_hops(linkage: Floats) -> Counts:
    """Count the edges between all pairs of leaves [C, C] of a linkage [C − 1, 4].

    Where two clusters are joined, a leaf of the one is up(a) + up(b) edges from a leaf of the other, up being the edges
    from a leaf to the new node: every pair is written once, C² cells in all.
    """
    size = len(linkage) + 1
    hops = np.zeros((size, size), np.int32)
    up = np.zeros(size, np.int32)
    members = {leaf: np.array([leaf]) for leaf in range(size)}
    for step, clusters in enumerate(linkage[:, :2].astype(np.int64).tolist()):
        first, second = (members.pop(cluster) for cluster in clusters)
        joined = np.concatenate([first, second])
        up[joined] += 1
        cells = up[first][:, None] + up[second][None, :]
        hops[np.ix_(first, second)] = cells
        hops[np.ix_(second, first)] = cells.T
        members[size + step] = joined
    return hops


def taxonomy_hops(taxonomy: Taxonomy, class_ids: Sequence[str]) -> Counts:
    """Count the edges on the shortest way between all pairs of classes [C, C], up or down, in any graph.

    As in the paper only what lies above the classes counts: other leaves are cut off first.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    part = taxonomy.restrict(class_ids)
    leaves = part.indices(class_ids)
    parents, children = part.edge_indices.T
    graph = csr_array((np.ones(len(parents), np.int8), (parents, children)), shape=(len(part), len(part)))
    hops = np.empty((len(leaves), len(leaves)), np.int32)
    step = max(1, _PAIR_BLOCK // len(part))
    with progress("hops", total=len(leaves), unit="classes") as bar:
        for low in range(0, len(leaves), step):
            block = leaves[low : low + step]
            lengths = shortest_path(graph, directed=False, unweighted=True, indices=block)
            hops[low : low + step] = lengths[:, leaves]
            bar.advance(len(block))
    return hops


def tree_gap(hops: Counts, against: Counts, *, shuffles: int = 20, seed: int = 0) -> TreeGap:
    """Measure how far two matrices of hops [C, C] over the same classes are apart.

    Parameters
    ----------
    hops, against : ints [C, C]
        Edges between all pairs of classes in either graph.
    shuffles : int
        Random renamings of the classes of one graph; ``chance`` is the mean over them: what two graphs of these shapes
        that know nothing of each other would have.
    seed : int
        Of the renamings.

    Examples
    --------
    >>> tree_gap(np.array([[0, 2], [2, 0]]), np.array([[0, 5], [5, 0]])).hops
    3.0
    """
    if hops.shape != against.shape or len(hops) < 2:
        raise ValueError(f"hops {hops.shape} and {against.shape} are not of the same two or more classes")
    upper = np.triu_indices(len(hops), 1)
    a, b = hops[upper].astype(np.float64), against[upper].astype(np.float64)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(hops)) for _ in range(shuffles)]
    shuffled = [np.abs(a - against[np.ix_(order, order)][upper]).mean() for order in orders]
    varied = np.ptp(a) > 0 and np.ptp(b) > 0
    return TreeGap(
        hops=float(np.abs(a - b).mean()),
        relative=float(np.abs(a / a.max() - b / b.max()).mean()),
        correlation=float(np.corrcoef(a, b)[0, 1]) if varied else float("nan"),
        chance=float(np.mean(shuffled)) if shuffled else float("nan"),
        pairs=len(a),
    )


def far_pairs(
    near: Counts, far: Counts, class_ids: Sequence[str], count: int
) -> list[tuple[str, str, int, int]]:
    """Return the ``count`` pairs of classes that are nearest in one graph for how far they are in the other.

    Sorted by hops in ``near`` minus hops in ``far``, each scaled to its own mean; ties in the order of the classes.

    Returns
    -------
    list of (class, class, hops in ``near``, hops in ``far``)
    """
    rows, columns = np.triu_indices(len(near), 1)
    a, b = near[rows, columns], far[rows, columns]
    order = np.argsort(a / a.mean() - b / b.mean(), kind="stable")[:count]
    return [(class_ids[rows[i]], class_ids[columns[i]], int(a[i]), int(b[i])) for i in order.tolist()]

"""A cheap stand-in for few-shot accuracy on some classes after learning from others: closed form, on features.

*Frozen* is ProtoNet on the features as they are: what it says of test classes is how alike they are. *Learnt* is
ProtoNet after the linear discriminant map of the train classes (``discriminant_map``): it shows transfer.

All tasks count at once. Draw a support of each of n classes, and let r of them be nearer to a query than its own. Of
the tasks of w of these classes that ask the query, the share that is answered rightly is

    binomial(n − 1 − r, w − 1) / binomial(n − 1, w − 1),

the choices of w − 1 other classes that avoid those r. So chance is left in the supports alone. What is looked at is
bounded, whatever the size of the dataset: see the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, eigh, qr, solve_triangular
from scipy.special import comb

from longshot.base import Floats, Ints, UserError, count, first
from longshot.models import Features
from longshot.tasks.splits.split import SHOT, WAY

DIMENSIONS = 256  # principal components of the features that are looked at
CLASSES = 1_000  # of a dataset, drawn where it has more: their scatters are a quarter of a gigabyte
IMAGES = 100  # of a class
ROWS = 20_000  # of a dataset, unless a class would fall below shot + QUERIES images
QUERIES = 10
TESTED = 60  # test classes whose tasks are measured at a time
DRAWS = 8  # supports of each class, per seed
SHRINKAGE = 0.5  # the within-class covariance, half-way to a sphere of the same trace
_SMALL = 1e-9  # of the longest: directions of class means shorter than this are rounding


class Unmeasurable(UserError):
    """Classes with too few images, or parts with too few classes, for tasks of such a shape."""


@dataclass(frozen=True, eq=False)
class Proxy:
    """A dataset's features, ready to say how hard splits of its classes are.

    Parameters
    ----------
    features : Features
        Of the dataset.
    way, shot : int
        Classes of a task, support images of each.

    Nothing depends on the seed of a split: splits of all seeds stand on one scale.
    """

    features: Features
    way: int = WAY
    shot: int = SHOT

    def __post_init__(self) -> None:
        if self.way < 2 or self.shot < 1:
            raise UserError(
                f"Tasks of {count(self.way, 'way')} and {count(self.shot, 'shot')} cannot be measured",
                "give at least {way:2} and {shot:1}",
            )
        sizes = np.diff(self.features.offsets)
        small = [self.features.class_ids[c] for c in np.flatnonzero(sizes <= self.shot).tolist()]
        if small:
            raise Unmeasurable(
                f"{count(small, 'class', 'classes')} of '{self.features.dataset}' have fewer than {self.shot + 1} "
                f"images ({first(small)}), and a task needs {count(self.shot, 'support image')} and a query of each",
                "lower {shot} or leave them out",
            )

    @cached_property
    def looked_at(self) -> Ints:
        """Return the classes that are looked at, ascending: all, or CLASSES of them."""
        total = len(self.features.class_ids)
        if total <= CLASSES:
            return np.arange(total)
        return np.sort(self.stream("classes").choice(total, CLASSES, replace=False))

    @cached_property
    def offsets(self) -> Ints:
        """Return where the rows of class c begin and end in ``rows``; a class that is not looked at has none."""
        sizes = np.zeros(len(self.features.class_ids), np.int64)
        most = min(IMAGES, max(self.shot + QUERIES, ROWS // len(self.looked_at)))
        sizes[self.looked_at] = np.minimum(np.diff(self.features.offsets)[self.looked_at], most)
        return np.concatenate([[0], np.cumsum(sizes)])

    @cached_property
    def rows(self) -> Floats:
        """Return the images looked at, class-major, in the leading principal components of all of them, [N, k]."""
        rng, picked = self.stream("images"), []
        for c in self.looked_at.tolist():
            low, high = self.features.offsets[c], self.features.offsets[c + 1]
            picked.append(low + np.sort(rng.permutation(high - low)[: self.offsets[c + 1] - self.offsets[c]]))
        # float64 throughout: sums in another order, as by another number of threads, then change no comparison
        rows = np.asarray(self.features.array[np.concatenate(picked)], np.float64)
        return leading_components(rows, DIMENSIONS)

    @cached_property
    def means(self) -> Floats:
        """Return the mean of each class; zeros for one that is not looked at, [C, k]."""
        means = np.zeros((len(self.offsets) - 1, self.rows.shape[1]))
        means[self.looked_at] = np.add.reduceat(self.rows, self.offsets[self.looked_at], axis=0)
        sizes = np.diff(self.offsets)
        means[self.looked_at] /= sizes[self.looked_at, None]
        return means

    @cached_property
    def scatters(self) -> Floats:
        """Return the upper half of Σ (x − mean)(x − mean)ᵀ of each class that is looked at, [L, k (k + 1) / 2].

        The within-class covariance of any set of classes is then a sum of rows, at a tenth of the cost.
        """
        upper = np.triu_indices(self.rows.shape[1])
        scatters = np.empty((len(self.looked_at), len(upper[0])))
        for number, c in enumerate(self.looked_at.tolist()):
            inner = self.rows[self.offsets[c] : self.offsets[c + 1]] - self.means[c]
            scatters[number] = (inner.T @ inner)[upper]
        return scatters

    def learn(self, train: Ints) -> Floats:
        """Compute the linear discriminant map [k, j] of the classes at ``train``, at least 2 of them looked at."""
        chosen = np.isin(self.looked_at, train)
        classes, size = self.looked_at[chosen], self.rows.shape[1]
        within, upper = np.empty((size, size)), np.triu_indices(size)
        within[upper] = chosen @ self.scatters / np.diff(self.offsets)[classes].sum()
        within.T[upper] = within[upper]
        return discriminant_map(self.means[classes], within)

    def accuracy(self, classes: Ints, seed: int, learnt: Floats | None = None) -> float:
        """Return the expected accuracy of ProtoNet over all tasks of ``way`` of ``classes``, as a share.

        Parameters
        ----------
        classes : ints [C]
            Whose tasks are solved, at least ``way`` of them looked at.
        seed : int
            Draws the supports, DRAWS of every class; a class has the same ones in every split.
        learnt : array [k, j], optional
            A map in front; the features as they are without one.
        """
        classes = self.tested(classes, seed)
        images = self.rows[self._rows_of(classes)]
        points = images if learnt is None else images @ learnt
        sizes = np.diff(self.offsets)[classes]
        begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        labels = np.repeat(np.arange(len(classes)), sizes)
        supports = np.stack([self.supports(c, seed) for c in classes.tolist()], 1) + begins[:, None]
        prototypes = points[supports].mean(2)  # [draws, C, j]
        cross = points @ prototypes.reshape(-1, points.shape[1]).T
        cross = cross.reshape(len(points), DRAWS, len(classes))
        squared = np.einsum("bcj,bcj->bc", prototypes, prototypes) - 2 * cross
        own = np.take_along_axis(squared, labels[:, None, None], axis=2)
        nearer = (squared <= own).sum(2) - 1
        right = right_answers(len(classes), self.way)[nearer]
        # an image is no query of its own support
        right[supports.reshape(DRAWS, -1), np.arange(DRAWS)[:, None]] = 0.0
        per_class = np.add.reduceat(right, begins, axis=0) / (sizes - self.shot)[:, None]
        return float(per_class.mean())

    def tested(self, classes: Ints, seed: int) -> Ints:
        """Return those of ``classes`` whose tasks are measured: all that are looked at, or TESTED of them, drawn."""
        able = classes[np.isin(classes, self.looked_at)]
        if len(able) <= TESTED:
            return able
        first_come = self.stream("tested", seed).permutation(len(self.features.class_ids))
        return np.sort(able[np.argsort(first_come[able])[:TESTED]])

    def _rows_of(self, classes: Ints) -> Ints:
        return np.concatenate([np.arange(self.offsets[c], self.offsets[c + 1]) for c in classes.tolist()])

    def supports(self, class_position: int, seed: int) -> Ints:
        """Draw places among the images of a class that are looked at, [DRAWS, shot]; the others are queries."""
        if (class_position, seed) not in self._supports:
            size = int(self.offsets[class_position + 1] - self.offsets[class_position])
            ranks = self.stream("supports", seed, class_position).random((DRAWS, size))
            self._supports[class_position, seed] = np.argsort(ranks, axis=1)[:, : self.shot]
        return self._supports[class_position, seed]

    @cached_property
    def _supports(self) -> dict[tuple[int, int], Ints]:
        """Keep supports that were drawn: a search asks for those of a class hundreds of times."""
        return {}

    def stream(self, stage: str, *numbers: int) -> np.random.Generator:
        """Return the random numbers of a stage of the measurement."""
        return np.random.default_rng([_STAGES[stage], *numbers])


_STAGES = {"classes": 0, "images": 1, "tested": 2, "supports": 3, "others": 4}


def right_answers(classes: int, way: int) -> Floats:
    """Return the share of tasks answered rightly when 0, 1, … other classes are nearer than the own one, [classes].

    Examples
    --------
    >>> right_answers(4, way=2).round(3).tolist()
    [1.0, 0.667, 0.333, 0.0]
    """
    farther = np.arange(classes - 1, -1, -1)
    return np.asarray(comb(farther, way - 1) / comb(classes - 1, way - 1))


def leading_components(rows: Floats, dimensions: int) -> Floats:
    """Turn rows [N, d] about their mean into their leading principal components [N, min(N, d, dimensions)].

    The eigenproblem is solved on the smaller side. Rotations and signs of components are left open: no distance
    depends on them.
    """
    centred = rows - rows.mean(0)
    images, size = centred.shape
    keep = min(images, size, dimensions)
    if size <= images:
        _, axes = eigh(centred.T @ centred, subset_by_index=[size - keep, size - 1])
        return np.ascontiguousarray(centred @ axes)
    values, vectors = eigh(centred @ centred.T, subset_by_index=[images - keep, images - 1])
    return np.ascontiguousarray(vectors * np.sqrt(np.maximum(values, 0)))


def discriminant_map(means: Floats, within: Floats, shrinkage: float = SHRINKAGE) -> Floats:
    """Return the linear discriminant map of classes: x ↦ x V, in which distances are those of Fisher's analysis.

    With the shrunk within-class covariance W = (1 − s) Σ + s · tr(Σ)/d · I, the map whitens W and keeps the directions
    in which the class means m_c differ:

        V Vᵀ = W⁻¹ M (Mᵀ W⁻¹ M)⁺ Mᵀ W⁻¹,   M = [m_c − m̄]

    These are all C − 1 discriminants (d at most), each of within-class variance 1; only their rotation is left open,
    which changes no distance. Computed from W = L Lᵀ and an orthonormal basis Q of L⁻¹ M as V = L⁻ᵀ Q.

    Parameters
    ----------
    means : array [C, d]
        Mean of each class, C ≥ 2.
    within : array [d, d]
        Σ: covariance of the images around the means of their classes.
    shrinkage : float
        s, from 0 (Σ must then be positive definite) to 1 (a sphere: only directions are chosen).

    Returns
    -------
    array [d, k]
        k ≤ min(C − 1, d).

    Examples
    --------
    >>> two = np.array([[0.0, 0.0], [4.0, 0.0]])
    >>> np.abs(discriminant_map(two, np.diag([4.0, 1.0]), shrinkage=0)).round(3)
    array([[0.5],
           [0. ]])
    """
    size = len(within)
    shrunk = (1 - shrinkage) * within
    shrunk[np.diag_indices(size)] += shrinkage * np.trace(within) / size
    lower = cholesky(shrunk, lower=True)
    apart = solve_triangular(lower, (means - means.mean(0)).T, lower=True)
    basis, triangle, _ = qr(apart, mode="economic", pivoting=True)
    lengths = np.abs(np.diag(triangle))  # falling, by the pivoting
    rank = min(int((lengths > _SMALL * lengths[0]).sum()), len(means) - 1)
    discriminants: Floats = solve_triangular(lower, basis[:, :rank], lower=True, trans="T")
    return discriminants

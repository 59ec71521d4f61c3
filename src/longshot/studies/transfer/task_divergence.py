"""Divergences between the upstream classes and single tasks, in two readings of the paper.

Upstream classes are a Gaussian over their class embeddings, a task is a Gaussian over those of its classes (the
mean of the support images of each, on the unit sphere). The paper's text also speaks of distributions over all upstream
classes and those of the task, so the same numbers are taken between those categoricals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from longshot.base import Floats, progress
from longshot.tasks import between, fit_gaussian, gaussian_divergence

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Testbed

Divergences: TypeAlias = dict[str, dict[str, list[float]]]  # model → measure → one number per task
MODELS = {"gaussian": "between Gaussians", "categorical": "between categoricals over all classes"}
# in the order of the paper's table
MEASURES = {
    "euclidean": "Euclidean",
    "wasserstein": "Wasserstein-2",
    "kl": "Kullback-Leibler",
    "kl-symmetric": "symmetrised KL",
}


def task_embeddings(testbed: Testbed, features: Features) -> Floats:
    """Unit class embeddings [T, way, d] of tasks of one shape: the mean of the support images of each class."""
    bound = testbed.bind(next(iter(testbed.datasets)), features.keys, features.fingerprint)
    count, way = len(bound), int(bound.ways[0])
    rows = bound.support.values.reshape(count, -1)
    order = np.argsort(bound.support_label.values.reshape(count, -1), axis=1, kind="stable")
    by_class = np.take_along_axis(rows, order, axis=1)
    means = np.stack(
        [
            np.asarray(features.array[task], np.float64).reshape(way, -1, features.dim).mean(1)
            for task in by_class
        ]
    )
    norms = np.linalg.norm(means, axis=2, keepdims=True)
    embeddings: Floats = means / np.where(norms > 0, norms, 1.0)
    return embeddings


def divergences(upstream: Floats, tasks: Floats, damping: float) -> Divergences:
    """Every divergence of upstream classes [C, d] and tasks [T, way, d], one number per task.

    A task and the upstream classes span at most C + way dimensions; outside both Gaussians are the damping alone and no
    divergence changes, so all is computed on that span where it is the smaller.
    """
    measured: Divergences = {model: {measure: [] for measure in MEASURES} for model in MODELS}
    size, way = len(upstream), tasks.shape[1]
    narrow = size + way < upstream.shape[1]
    basis = np.linalg.qr(upstream.T)[0] if narrow else None
    projected = upstream if basis is None else np.pad(upstream @ basis, ((0, 0), (0, way)))
    with progress("divergences", total=len(tasks), unit="tasks") as bar:
        for task in tasks:
            points = np.concatenate([projected, task if basis is None else _on_span(task, basis)])
            above, own = points[:size], points[size:]
            gaussians = fit_gaussian(above, damping), fit_gaussian(own, damping)
            for measure in MEASURES:
                measured["gaussian"][measure].append(gaussian_divergence(measure, *gaussians))
                measured["categorical"][measure].append(between(measure, points, above.mean(0), own.mean(0)))
            bar.advance()
    return measured


def _on_span(task: Floats, basis: Floats) -> Floats:
    """Class embeddings [way, d] in the span of the upstream classes (basis [d, C]) and their own: [way, C + way]."""
    inside = task @ basis
    own = np.linalg.qr((task - inside @ basis.T).T)[1].T
    return np.concatenate([inside, own], axis=1)

"""Half the interval for other classes by explicit matrices, least squares and Gauss-Legendre quadrature."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, stats


def half_over_classes(
    values: np.ndarray, members: Sequence[np.ndarray], datasets: Sequence[int] | None = None
) -> float:
    """Return the half width that ``class_interval`` must have; classes are 0 … K − 1, each in tasks of one dataset."""
    tasks, count = len(values), 1 + max(int(max(row)) for row in members)
    own = np.zeros(tasks, int) if datasets is None else np.asarray(datasets)
    has, group = np.zeros((tasks, count)), np.zeros(count, int)
    for task, row in enumerate(members):
        has[task, row], group[row] = 1, own[task]
    ways, sizes = has.sum(axis=1), np.bincount(group)
    by_dataset = np.equal(own[:, None], np.arange(len(sizes))).astype(float)
    columns = by_dataset
    if len(set(ways)) > 1:
        columns = np.c_[columns, 1 / ways, np.log(ways)]
    project = np.eye(tasks) - columns @ np.linalg.pinv(columns)
    residuals = project @ values
    part = (ways / sizes[own])[:, None]  # a task with all classes stands in no deletion
    weights = (own[:, None] == group) * (1 - has) * np.where(part < 1, 1 / np.maximum(1 - part, 1e-12), 0)
    usable = weights.sum(axis=0) > 0  # a class that all tasks have cannot be left out
    weights, group = weights[:, usable], group[usable]
    sizes = np.maximum(np.bincount(group, minlength=len(sizes)), 1)
    lever = weights / weights.sum(axis=0) * by_dataset.mean(axis=0)[group]
    same = np.equal(group[:, None], group) / sizes[group]
    lever -= lever @ same
    kappa = (sizes - 1)[group] / sizes[group]
    jackknife = (kappa * (lever.T @ residuals) ** 2).sum()
    noise = tasks * (kappa * (project @ lever) ** 2).sum()
    design = np.c_[columns, has / ways[:, None]]
    free = tasks - np.linalg.matrix_rank(design)
    left_over = residuals - design @ np.linalg.lstsq(design, residuals, rcond=None)[0]
    if free < 1:  # as many classes as tasks
        left_over, free = residuals, tasks - np.linalg.matrix_rank(columns)
    over_tasks = float(left_over @ left_over) / free / tasks
    centred = values - by_dataset @ np.linalg.pinv(by_dataset) @ values
    unexplained = float(residuals @ residuals) / (tasks - np.linalg.matrix_rank(columns))
    by_ways = max(0.0, float(centred @ centred) / (tasks - len(sizes)) - unexplained) / tasks
    freedom = len(group) - len(set(group))

    top = 30 * math.sqrt(max(jackknife, over_tasks / 4))
    edges = np.r_[0.0, np.geomspace(1e-4 * top, top, 40)]
    nodes, shares = np.polynomial.legendre.leggauss(20)
    width = np.diff(edges)[:, None] / 2
    root, share = ((edges[:-1, None] + width * (nodes + 1)).ravel(), (width * shares).ravel())
    spread = root**2 + noise * over_tasks
    density = stats.chi2.pdf(freedom * jackknife / spread, freedom) / spread
    density *= share / np.sqrt(1 + (2 * root) ** 2 / over_tasks)

    def missed(half: float) -> float:
        tails = stats.norm.sf(half / np.sqrt(root**2 + over_tasks + by_ways))
        return float(density @ tails / density.sum()) - 0.025

    return float(optimize.brentq(missed, 0.0, 10 * top, xtol=1e-12))

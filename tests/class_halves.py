"""Half the interval for other classes by explicit matrices, least squares and adaptive quadrature."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import integrate, stats


def half_over_classes(
    values: np.ndarray, members: Sequence[np.ndarray], datasets: Sequence[int] | None = None
) -> float:
    """Return the half width that ``class_interval`` must have; classes are numbers, no number in two datasets."""
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
    weights = (own[:, None] == group) * (1 - has) / (1 - ways / sizes[own])[:, None]
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
    freedom = count - len(sizes)

    def density(root: float) -> float:
        spread = root**2 + noise * over_tasks
        chi = stats.chi2.pdf(freedom * jackknife / spread, freedom) / spread
        return float(chi / math.sqrt(1 + (2 * root) ** 2 / over_tasks))

    top = 30 * math.sqrt(jackknife)
    pieces = np.geomspace(1e-4 * top, top, 40)
    edges = list(zip([0.0, *pieces[:-1]], pieces, strict=True))
    total = sum(integrate.quad(density, *edge)[0] for edge in edges)

    def outside(half: float) -> float:
        def tail(root: float) -> float:
            return density(root) * stats.norm.sf(half / math.sqrt(root**2 + over_tasks + by_ways))

        return sum(integrate.quad(tail, *edge)[0] for edge in edges) / total

    low, high = 0.0, 10 * top
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) > 0.025 else (low, middle)
    return (low + high) / 2

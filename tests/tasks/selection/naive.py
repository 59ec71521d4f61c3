"""Straightforward implementations that the fast ones must agree with, one task at a time, float64 and autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq

from longshot.base import TaskRows

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # (logits, label) → scalar


def cross_entropy(logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, label)


def error(logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return (1 - logits.softmax(-1)[torch.arange(len(label)), label]).mean()


def prototype_logits(
    query: torch.Tensor, centres: torch.Tensor, distance: str, temperature: float
) -> torch.Tensor:
    if distance == "cosine":
        return torch.nn.functional.cosine_similarity(query[:, None], centres[None], dim=-1) / temperature
    return -(query[:, None] - centres[None]).square().sum(-1) / temperature


@dataclass
class OneTask:
    """One task with its pools, in float64."""

    query: torch.Tensor
    label: torch.Tensor
    pools: list[torch.Tensor]  # per class, features of the pool
    rows: list[np.ndarray]  # per class, rows of the pool
    shots: list[int]


def one_task(
    array: np.ndarray, offsets: np.ndarray, tasks: TaskRows, task: int, normalize: bool = True
) -> OneTask:
    features = torch.from_numpy(np.asarray(array, dtype=np.float64))
    if normalize:
        features = features / features.norm(dim=1, keepdim=True)
    query, label, pools, rows, shots = [], [], [], [], []
    for position, slot in enumerate(
        range(tasks.plan.classes.offsets[task], tasks.plan.classes.offsets[task + 1])
    ):
        own = tasks.slot_query.row(slot)
        c = tasks.plan.classes.values[slot]
        pool = np.setdiff1d(np.arange(offsets[c], offsets[c + 1]), own)
        query.append(features[own])
        label += [position] * len(own)
        pools.append(features[pool])
        rows.append(pool)
        shots.append(int(tasks.plan.shots.values[slot]))
    return OneTask(torch.cat(query), torch.tensor(label), pools, rows, shots)


def l1_projection(values: np.ndarray, radius: float) -> np.ndarray:
    """Root finding on the dual, as in the paper's appendix."""
    if np.abs(values).sum() <= radius:
        return values
    level = brentq(
        lambda x: np.maximum(np.abs(values) - x, 0).sum() - radius, 0, np.abs(values).max(), xtol=1e-14
    )
    return np.sign(values) * np.maximum(np.abs(values) - level, 0)


def algorithm_1(
    task: OneTask,
    weighted_loss: Callable[[list[torch.Tensor]], torch.Tensor],
    start: list[np.ndarray],
    step_size: float,
) -> list[np.ndarray]:
    """Weights, one step of gradient ascent by autograd, projection per class, the k largest weights."""
    weights = [torch.from_numpy(w.astype(np.float64)).requires_grad_() for w in start]
    gradients = torch.autograd.grad(weighted_loss(weights), weights)
    chosen = []
    for j, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
        moved = (weight + step_size * gradient).detach().numpy()
        projected = l1_projection(moved, task.shots[j])
        order = np.lexsort([task.rows[j], -moved, -projected])  # last key first
        chosen.append(task.rows[j][order[: task.shots[j]]])
    return chosen


def prototype_loss(task: OneTask, loss: Loss, distance: str, temperature: float):
    def value(weights: list[torch.Tensor]) -> torch.Tensor:
        centres = torch.stack([w @ pool / w.sum() for w, pool in zip(weights, task.pools, strict=True)])
        return loss(prototype_logits(task.query, centres, distance, temperature), task.label)

    return value


def ridge_loss(task: OneTask, penalty: float, temperature: float):
    features = torch.cat(task.pools)
    target = torch.nn.functional.one_hot(
        torch.repeat_interleave(torch.arange(len(task.pools)), torch.tensor([len(p) for p in task.pools]))
    ).double()

    def value(weights: list[torch.Tensor]) -> torch.Tensor:
        weighted = torch.cat(weights)[:, None] * features
        system = weighted.T @ features + penalty * torch.eye(features.shape[1], dtype=torch.float64)
        fit = torch.linalg.solve(system, weighted.T @ target)
        return cross_entropy(task.query @ fit / temperature, task.label)

    return value


def task2vec_loss(task: OneTask, distance: str, temperature: float):
    probe = torch.stack([pool.mean(0) for pool in task.pools])

    def fisher(features: torch.Tensor) -> torch.Tensor:
        p = prototype_logits(features, probe, distance, temperature).softmax(-1)
        return (p * (1 - p))[:, :, None] * features.square()[:, None, :]

    target = fisher(task.query).mean(0)

    def value(weights: list[torch.Tensor]) -> torch.Tensor:
        parts = [
            torch.einsum("i,ijl->jl", w / w.sum(), fisher(p))
            for w, p in zip(weights, task.pools, strict=True)
        ]
        return (torch.stack(parts).mean(0) - target).square().mean()

    return value


def greedy(task: OneTask, weighted_loss, support: list[np.ndarray], rounds: int, largest: bool = True):
    """For each slot try every pool image, keep the highest loss; every candidate is evaluated from scratch."""
    position = [np.searchsorted(rows, chosen) for rows, chosen in zip(task.rows, support, strict=True)]

    def loss(now: list[np.ndarray]) -> float:
        weights = [torch.zeros(len(pool), dtype=torch.float64) for pool in task.pools]
        for weight, chosen in zip(weights, now, strict=True):
            weight[chosen] = 1
        return float(weighted_loss(weights))

    for _ in range(rounds):
        for j in range(len(position)):
            for number in range(task.shots[j]):
                best, best_loss = None, -np.inf
                for candidate in range(len(task.rows[j])):
                    if candidate in np.delete(position[j], number):
                        continue
                    trial = [p.copy() for p in position]
                    trial[j][number] = candidate
                    value = loss(trial) if largest else -loss(trial)
                    if value > best_loss:
                        best, best_loss = candidate, value
                position[j][number] = best
    return [rows[p] for rows, p in zip(task.rows, position, strict=True)]

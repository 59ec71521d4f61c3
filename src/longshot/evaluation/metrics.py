"""Metrics of a batch of tasks, on the device the scores live on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

WORST_LOSS = 100.0  # nats; the loss of a query whose class a method rules out would be infinite


@dataclass(frozen=True)
class Metrics:
    """One value per task [B], and the predictions [B, Q] (−1 at padding)."""

    accuracy: Tensor
    balanced_accuracy: Tensor
    normalized_accuracy: Tensor
    top5: Tensor
    loss: Tensor
    invalid: Tensor  # bool: the scores hold NaN or +∞
    prediction: Tensor  # int16


def task_metrics(scores: Tensor, labels: Tensor, ways: Tensor) -> Metrics:
    """Metrics of B tasks.

    Over the n queries of a task with N = ways classes:

    - accuracy = share of queries whose highest score is their class (ties go to the first class);
    - balanced accuracy = mean over the classes that occur among the queries of their recall;
    - normalized accuracy = (balanced − 1/N) / (1 − 1/N), 0 for a task of a single class;
    - top5 = share of queries whose class is among the five highest scores, 1 when N ≤ 5;
    - loss = mean of −log softmax(scores)[class], each at most WORST_LOSS nats.

    Parameters
    ----------
    scores : Tensor [B, Q, W]
        Logits; −∞ beyond a task's own classes, anything at padding queries.
    labels : Tensor [B, Q]
        Right classes; −1 marks padding.
    ways : Tensor [B]
        Number of classes N of each task.

    Returns
    -------
    Metrics
        One value per task, on the device of the scores.

    Examples
    --------
    >>> metrics = task_metrics(torch.tensor([[[2.0, 1.0], [2.0, 1.0]]]), torch.tensor([[0, 1]]), torch.tensor([2]))
    >>> metrics.accuracy.tolist(), metrics.normalized_accuracy.tolist()
    ([0.5], [0.0])
    """
    scores = scores.contiguous()
    width = scores.shape[2]
    mask = labels >= 0
    target = labels.clamp(min=0)
    # Apple's GPUs have no double precision; everywhere else shares of small counts are stored exactly rounded.
    real = torch.float32 if scores.device.type == "mps" else torch.float64
    weight = mask.to(real)
    queries = weight.sum(1).clamp(min=1)
    prediction = scores.argmax(2)
    hits = (prediction == target).to(real) * weight

    per_class = torch.zeros(scores.shape[0], width, dtype=real, device=scores.device)
    right = per_class.scatter_add(1, target, hits)
    total = per_class.scatter_add_(1, target, weight)
    occurs = (total > 0).sum(1).clamp(min=1)
    balanced = (right / total.clamp(min=1)).sum(1) / occurs
    chance = 1.0 / ways.to(real)
    normalized = torch.where(
        ways > 1, (balanced - chance) / (1 - chance).clamp(min=0.5), torch.zeros_like(chance)
    )

    own = scores.gather(2, target.unsqueeze(2))  # [B, Q, 1]
    if width <= 5:
        top5 = torch.ones_like(balanced)
    else:
        earlier = torch.arange(width, device=scores.device) < target.unsqueeze(2)
        rank = ((scores > own) | ((scores == own) & earlier)).sum(2)
        top5 = ((rank < 5).to(real) * weight).sum(1) / queries
        top5 = torch.where(ways <= 5, torch.ones_like(top5), top5)
    nats = (scores.logsumexp(2) - own.squeeze(2)).to(real).clamp(max=WORST_LOSS)
    zero = torch.zeros((), dtype=real, device=scores.device)
    wrong = (torch.isnan(scores) | (scores == float("inf"))).any(2) & mask
    return Metrics(
        accuracy=hits.sum(1) / queries,
        balanced_accuracy=balanced,
        normalized_accuracy=normalized,
        top5=top5,
        loss=torch.where(mask, nats, zero).sum(1) / queries,
        invalid=wrong.any(1),
        prediction=prediction.masked_fill(~mask, -1).to(torch.int16),
    )

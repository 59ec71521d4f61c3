"""The paper's optimiser, for comparison: SGD with momentum on autograd's gradient, 7,000 steps in PyTorch.

The step size does not shrink with the number of classes, while the clustering term is a sum over them: at 1,000
classes (on some embeddings at 600) the centroids are thrown out of reach within a few steps. :func:`descend` says so
instead of returning what is left.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from longshot.base import Floats, UserError, progress
from longshot.tasks.splits.objective import SplitObjective
from longshot.tasks.splits.optimise import Minimum

STEPS, STEP_SIZE, MOMENTUM = 7_000, 0.1, 0.9
_CHECK = 100  # steps between looks at the value
_LOST = 1e6  # centroids this far away do not come back; embeddings have length 1


def published_loss(objective: SplitObjective, embeddings: Tensor, centroids: Tensor) -> Tensor:
    """J as published, from autograd-friendly tensors: embeddings [M, d], centroids [2, d]."""
    distances = (embeddings**2).sum(1) - 2 * centroids @ embeddings.T + (centroids**2).sum(1, keepdim=True)
    log_p, log_q = torch.log_softmax(-objective.temperature * distances, 1)
    mixture = torch.logaddexp(log_p, log_q) - float(np.log(2))
    there = (log_p.exp() * (log_p - log_q)).sum()
    if objective.measure == "kl-symmetric":
        divergence = there + (log_q.exp() * (log_q - log_p)).sum()
    elif objective.measure == "kl":
        divergence = there
    elif objective.measure == "euclidean":
        divergence = (centroids[0] - centroids[1]).norm()
    else:
        raise UserError(
            f"The published SGD minimises kl-symmetric, kl or euclidean, not {objective.measure}",
            "use {optimiser:lbfgs}",
        )
    loss: Tensor = -mixture.sum() + objective.penalty * (divergence - objective.target) ** 2
    return loss


def descend(
    objective: SplitObjective,
    start: Floats,
    steps: int = STEPS,
    step_size: float = STEP_SIZE,
    momentum: float = MOMENTUM,
) -> Minimum:
    """Run the paper's SGD from ``start`` [2, d]; UserError when it diverges."""
    embeddings = torch.from_numpy(objective.embeddings)
    centroids = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.SGD([centroids], lr=step_size, momentum=momentum)
    with progress("sgd", total=steps, unit="steps") as bar:
        for step in range(steps):
            optimiser.zero_grad()
            published_loss(objective, embeddings, centroids).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if (step + 1) % _CHECK == 0 or step + 1 == steps:
                bar.advance(step % _CHECK + 1)
                farthest = float(centroids.detach().abs().max())
                if not farthest < _LOST:  # NaN is lost as well
                    raise UserError(
                        f"SGD with step size {step_size} diverged within {step + 1:,} of {steps:,} steps at "
                        f"{len(embeddings):,} classes: a centroid has the coordinate {farthest:.3g}, where the "
                        f"embeddings have length 1",
                        "use {optimiser:lbfgs}, which needs no step size",
                    )
    end = centroids.detach().numpy()
    return Minimum(end, objective.evaluate(end), steps, "sgd")

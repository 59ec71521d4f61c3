"""The prototype classifier (Snell et al. 2017): a class is the mean of its support, a query goes to the nearest class.

Both functions are differentiable, work under ``torch.func.vmap`` and take any number of leading batch dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

SCALES = {"euclidean": 1.0, "cosine": 10.0}  # distance → the scale of its scores unless another is chosen


def prototypes(vectors: Tensor, labels: Tensor, way: int) -> Tensor:
    """Mean vector of each class: p_w = Σ_{s: y_s = w} x_s / n_w.

    Parameters
    ----------
    vectors : Tensor [..., S, d]
        Support vectors.
    labels : Tensor [..., S]
        Whole numbers in 0…way−1; rows of another label (−1 marks padding) belong to no class.
    way : int
        W, the number of classes.

    Returns
    -------
    Tensor [..., W, d]
        Zero for classes without support.

    Examples
    --------
    >>> prototypes(torch.tensor([[0.0, 0.0], [2.0, 4.0], [5.0, 5.0]]), torch.tensor([0, 0, 1]), 2).tolist()
    [[1.0, 2.0], [5.0, 5.0]]
    """
    classes = torch.arange(way, device=labels.device)
    one_hot = (labels.unsqueeze(-1) == classes).to(vectors.dtype)  # [..., S, W]
    return one_hot.transpose(-1, -2) @ vectors / one_hot.sum(-2).clamp(min=1).unsqueeze(-1)


def prototype_scores(
    queries: Tensor, prototypes: Tensor, *, distance: str = "euclidean", scale: float | None = None
) -> Tensor:
    """Scores of queries against class vectors; the largest is the nearest class.

    euclidean:  −scale · ‖q − p_w‖² + scale · ‖q‖² = scale · (2⟨q, p_w⟩ − ‖p_w‖²)
    cosine:     scale · ⟨q, p_w⟩ / (‖q‖ ‖p_w‖)

    ‖q‖² is the same for all classes of a query and so without effect on a softmax over classes: it is left out.

    Parameters
    ----------
    queries : Tensor [..., Q, d]
    prototypes : Tensor [..., W, d]
    distance : {"euclidean", "cosine"}
    scale : float, optional
        1 for Euclidean and 10 for cosine unless given.

    Returns
    -------
    Tensor [..., Q, W]

    Examples
    --------
    >>> classes = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> prototype_scores(torch.tensor([[1.0, 1.0]]), classes).tolist()
    [[1.0, 0.0]]
    """
    factor = SCALES[distance] if scale is None else scale
    if distance == "cosine":
        unit = functional.normalize(prototypes, dim=-1)
        return factor * functional.normalize(queries, dim=-1) @ unit.transpose(-1, -2)
    squares = prototypes.square().sum(-1).unsqueeze(-2)  # [..., 1, W]
    scores = 2 * (queries @ prototypes.transpose(-1, -2)) - squares
    return scores if factor == 1 else factor * scores

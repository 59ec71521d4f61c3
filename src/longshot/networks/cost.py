"""What a network costs: floating-point operations of one image, parameters."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def count_flops(network: nn.Module, size: tuple[int, int]) -> float:
    """Floating-point operations (a multiply-add is two) of ``network`` on one image of height × width."""
    weights = next(network.parameters(), None)
    device = weights.device if weights is not None else torch.device("cpu")
    training = network.training
    counter = FlopCounterMode(display=False)
    try:
        with counter, torch.no_grad():
            network.eval()(torch.zeros(1, 3, *size, device=device))
    finally:
        network.train(training)
    return float(counter.get_total_flops())


def count_parameters(network: nn.Module) -> int:
    """Numbers that training may change."""
    return sum(parameter.numel() for parameter in network.parameters())

"""What a network costs: floating-point operations of one image, parameters."""

from __future__ import annotations

from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from longshot.models.networks.base import on_black


def count_flops(network: nn.Module, size: tuple[int, int]) -> float:
    """Floating-point operations (a multiply-add is two) of ``network`` on one image of height × width."""
    counter = FlopCounterMode(display=False)
    with counter:
        on_black(network, size)
    return float(counter.get_total_flops())


def count_parameters(network: nn.Module) -> int:
    """Numbers that training may change."""
    return sum(parameter.numel() for parameter in network.parameters())

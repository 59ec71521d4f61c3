"""A network that Longshot did not write (timm, transformers, the user's own file) as one that can be trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn

from longshot.base import UserError
from longshot.models.networks.base import Network, on_black

# module and images [B, 3, H, W] → vectors [B, d] or maps [B, d, h, w]
RunModule: TypeAlias = Callable[[nn.Module, Tensor], Tensor]


class Foreign(Network):
    """``run(module, images)`` gives maps [B, d, h, w], which are averaged, or vectors [B, d], which are taken."""

    def __init__(self, name: str, module: nn.Module, run: RunModule, size: tuple[int, int]) -> None:
        super().__init__()
        self.call, self.size, self.module, self.run = name, size, module, run
        self.dim = int(on_black(self.train(module.training), size).shape[1])

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, d, h, w], where the module gives maps."""
        output = self.run(self.module, images)
        if output.ndim != 4:
            raise UserError(
                f"Network '{self.call}' gives vectors {list(output.shape)} and no maps [B, d, h, w], which are "
                f"needed here; take a convolutional network, or one of Longshot's own."
            )
        return output

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, d]."""
        output = self.run(self.module, images)
        return self.pool(output) if output.ndim == 4 else output

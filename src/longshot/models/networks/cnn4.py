"""CNN4: four convolutions, the network of the first few-shot papers (Vinyals et al. 2016, Snell et al. 2017)."""

from __future__ import annotations

from torch import Tensor, nn

from longshot.base import UserError, check_count
from longshot.models.networks.base import Network
from longshot.models.networks.norms import check_norm, conv, norm_layer

BLOCKS = 4


class CNN4(Network):
    """Four blocks of 3 × 3 convolution, norm, ReLU, 2 × 2 max-pooling; ``width`` filters each.

    The vector is the mean over positions, or with ``flatten`` the whole last map as in the papers (the same thing at
    28 pixels, where that map has one position; 1,600 numbers at 84 pixels).
    """

    def __init__(
        self, *, size: tuple[int, int], width: int = 64, norm: str = "batch", flatten: bool = False
    ) -> None:
        super().__init__()
        check_count("cnn4", "width", width, least=1)
        check_norm("cnn4", norm)
        shrunk = 2**BLOCKS
        if min(size) < shrunk:
            raise UserError(
                f"cnn4 halves an image four times, so it takes {shrunk} × {shrunk} pixels or more, "
                f"not {size[0]} × {size[1]}; enlarge the images with resize({shrunk},{shrunk})."
            )
        self.flatten = bool(flatten)
        self.dim = width * (size[0] // shrunk) * (size[1] // shrunk) if flatten else width
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    conv(norm, 3 if block == 0 else width, width, 3, bias=True),
                    norm_layer(norm, width),
                    nn.MaxPool2d(
                        2
                    ),  # before the ReLU: the same numbers and gradients, and a quarter of its work
                    nn.ReLU(),
                )
                for block in range(BLOCKS)
            )
        )

    def maps(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] → [B, width, H/16, W/16]."""
        maps: Tensor = self.blocks(images)
        return maps

    def pool(self, maps: Tensor) -> Tensor:
        """[B, width, h, w] → [B, dim]."""
        return maps.flatten(1) if self.flatten else super().pool(maps)

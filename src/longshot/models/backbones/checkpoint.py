"""``FOLDER`` or ``…/network.safetensors``: a network that ``longshot train`` saved, with its own preprocessing."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from longshot.base import hash_file
from longshot.models.backbones.base import ModuleBackbone
from longshot.models.backbones.sight import Sight
from longshot.models.networks.base import Network
from longshot.models.networks.checkpoint import read_sidecar, weights_file
from longshot.models.networks.registry import is_own_network


class Checkpoint(ModuleBackbone):
    """A saved network of Longshot's own kinds."""

    reentrant = True
    channels_last = True

    def __init__(self, name: str, path: Path, architecture: str, sight: Sight, device: str) -> None:
        super().__init__(name, hash_file(path), sight, device)
        self.path, self.architecture = path, architecture

    def build(self) -> nn.Module:
        from longshot.models.features.networks import load_network  # which loads backbones itself

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


def load(name: str, *, device: str, sight: Sight, allow_download: bool) -> Checkpoint:
    """The backbone; weights are read on first use, the sidecar at once."""
    path = weights_file(name)
    story = read_sidecar(path)
    kind = Checkpoint if is_own_network(str(story["network"])) else ForeignCheckpoint
    architecture = f"{story['network']} {story['size']}"
    return kind(name, path, architecture, sight.of(str(story["preprocessing"])), device)

"""``NETWORK(weights=FILE)``: one of Longshot's own networks with weights that others published."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from longshot.base import UserError, format_call, parse, parse_call
from longshot.models.backbones.checkpoint import Checkpoint
from longshot.models.backbones.sight import Sight, quote_words
from longshot.models.networks.base import Network
from longshot.models.networks.checkpoint import fill
from longshot.models.networks.published import default_preprocessing, read_published
from longshot.models.networks.registry import get_network


class FileWeights(Checkpoint):
    """A native network and a file; built at once, so that a wrong file is told before anything runs."""

    def __init__(self, name: str, file: Path, network: Network, sight: Sight, device: str) -> None:
        super().__init__(name, file, f"{network.call} {list(network.size)}", sight, device)
        self.made = network

    def build(self) -> nn.Module:
        return self.made


def load(name: str, *, device: str, sight: Sight, allow_download: bool) -> FileWeights:
    """The network with the file's weights, all of them in place."""
    kind, settings = parse_call(quote_words(name))
    if "weights" not in settings:
        raise UserError(f"Backbone '{name}' names no file; write {kind}(weights=FILE).")
    file = Path(str(settings.pop("weights"))).expanduser()
    call = format_call(kind, settings)
    sight = sight.of(default_preprocessing(kind))
    network = get_network(call, size=parse(sight.preprocessing).size)
    try:
        fill(network, read_published(file, network), str(file))
    except UserError as error:
        raise UserError(f"Backbone '{name}': {error.fact}", error.remedy) from error
    return FileWeights(name, file, network.eval(), sight, device)

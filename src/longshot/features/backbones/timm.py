"""``timm:NAME``: any model of timm with its pretrained weights, pooled features before the classifier."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from torch import nn

from longshot.core.errors import UserError
from longshot.features.backbones.base import ModuleBackbone, hash_state

_INSTALL = (
    'pip install "longshot[timm]" torch==2.13.0 torchvision (naming the torch you have keeps pip from '
    "replacing it; torchvision must be of the same build)"
)


class Timm(ModuleBackbone):
    """The network without its head; built at once, since its weights are its hash."""

    channels_last = True

    def __init__(self, name: str, network: nn.Module, preprocessing: str, device: str) -> None:
        super().__init__(name, hash_state(network), preprocessing, device)
        self.made, self.architecture = network, name

    def build(self) -> nn.Module:
        return self.made


def load(name: str, *, device: str, preprocessing: str | None, allow_download: bool) -> Timm:
    """Create the model; weights come from the hub's cache unless a download is allowed."""
    allowed = allow_download or os.environ.get("LONGSHOT_ALLOW_DOWNLOAD") == "1"
    try:
        import timm
    except Exception as error:  # a torchvision of another build fails with RuntimeError, not ImportError
        raise UserError(
            f"Backbone '{name}': timm cannot be imported ({type(error).__name__}: "
            f"{' '.join(str(error).split()).rstrip('.')}); to mend it: {_INSTALL}"
        ) from error
    model = name.removeprefix("timm:")
    if not timm.is_model(model.split(".")[0]):
        near = timm.list_models(f"*{model.split('.')[0][:6]}*")[:3]
        hint = f"near it: {', '.join(near)}" if near else "see timm.list_models()"
        raise UserError(f"timm has no model '{model}'; {hint}.")
    try:
        with contextlib.nullcontext() if allowed else offline():
            network = timm.create_model(model, pretrained=True, num_classes=0)
    except Exception as error:
        remedy = "check the name and the network" if allowed else "add {allow_download:True} to fetch them"
        raise UserError(f"Backbone '{name}': the weights are not at hand", remedy) from error
    return Timm(name, network, preprocessing or _preprocessing(timm, network), device)


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Keep the hub's client and torch.hub from the network: only what is already on disk is found."""
    import huggingface_hub.constants as constants
    import torch.hub

    def refuse(url: str, *_: Any, **__: Any) -> None:
        raise OSError(f"{url} is not on disk and downloads are not allowed")

    before = constants.HF_HUB_OFFLINE, torch.hub.download_url_to_file
    constants.HF_HUB_OFFLINE, torch.hub.download_url_to_file = True, refuse
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, torch.hub.download_url_to_file = before


def _preprocessing(timm: Any, network: nn.Module) -> str:
    config = timm.data.resolve_model_data_config(network)
    size = int(config["input_size"][1])
    kind = config["interpolation"] if config["interpolation"] in ("bicubic", "lanczos", "nearest") else ""
    values = ",".join(str(v) for v in (*config["mean"], *config["std"]))
    resize = f"resize({round(size / config['crop_pct'])}{',' + kind if kind else ''})"
    return f"decode|{resize}|central_crop({size})|normalize({values})"

"""``timm:NAME(pool=auto, layer=-1, weights=FILE)``: a model of timm, or the folder of one, and which vector to take."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longshot.base import UserError, format_call, parse_preprocessing
from longshot.models.backbones.base import ModuleBackbone, hash_state
from longshot.models.backbones.sight import (
    Sight,
    check_pooling,
    installed_torch,
    may_download,
    probe_pictures,
    split_settings,
)

DEFAULTS: dict[str, Any] = {"pool": "auto", "layer": -1, "weights": None}
_FILTERS = ("bilinear", "bicubic", "lanczos", "nearest", "box", "hamming")


class TimmNetwork(nn.Module):
    """A timm model with its way of making a vector; images [B, 3, H, W] → [B, d] or [B, d, h, w].

    ``projection``: the output of a CLIP model's head; ``pooler``: what timm pools before the head; ``cls``: the class
    token; ``mean``: the mean over patches, or the map of a convolutional network.
    """

    def __init__(self, model: Any, pool: str, layer: int) -> None:
        super().__init__()
        self.model, self.pool, self.layer = model, pool, layer
        self.before = int(getattr(model, "num_prefix_tokens", 0))
        if pool != "projection":
            model.reset_classifier(0)

    def forward(self, images: Tensor) -> Tensor:
        """Compute the pooled output of images: [B, 3, H, W] → [B, d], or a map [B, d, h, w]."""
        if self.layer != -1:
            return self._inner(images)
        if self.pool in ("projection", "pooler"):
            pooled: Tensor = self.model(images)
            return pooled
        tokens: Tensor = self.model.forward_features(images)
        if self.pool == "cls":
            return tokens[:, 0]
        if tokens.ndim == 4:
            channels_last = getattr(self.model, "output_fmt", "NCHW") == "NHWC"
            return tokens.permute(0, 3, 1, 2) if channels_last else tokens
        return tokens[:, self.before :].mean(1)

    def _inner(self, images: Tensor) -> Tensor:
        settings = {"return_prefix_tokens": True} if self.before else {}
        (state,) = self.model.forward_intermediates(
            images, indices=[self.layer], intermediates_only=True, **settings
        )
        if not self.before:
            maps: Tensor = state
            return maps
        patches, tokens = state
        inner: Tensor = tokens[:, 0] if self.pool == "cls" else patches
        return inner


class Timm(ModuleBackbone):
    """The network without what comes after the vector; built at once, since its weights are its hash."""

    channels_last = True

    def __init__(self, name: str, network: TimmNetwork, architecture: str, sight: Sight, device: str) -> None:
        super().__init__(name, hash_state(network), sight, device)
        self.made, self.architecture = network, architecture
        self.pooling = network.pool if network.layer == -1 else f"{network.pool} of layer {network.layer}"


def open_timm(name: str, *, device: str, sight: Sight, allow_download: bool) -> Timm:
    """Create the model; weights come from a file, a folder or the hub's cache unless a download is allowed."""
    timm = _import_timm(name)
    bare, settings = split_settings(name, DEFAULTS)
    check_pooling(bare, settings["pool"], settings["layer"])
    model, headless = _create(timm, bare, settings["weights"], may_download(allow_download))
    sight = sight.of_found(lambda: transform_string(timm, bare, timm.data.resolve_model_data_config(model)))
    size = parse_preprocessing(sight.preprocessing).size
    own = tuple(model.pretrained_cfg.get("input_size", (3, 224, 224))[1:])
    if size != own and hasattr(model, "set_input_size"):
        model.set_input_size(img_size=size)  # stretches the position embeddings
    pool = _choose_pool(bare, model, settings["pool"], settings["layer"], headless)
    network = TimmNetwork(model.eval(), pool, settings["layer"])
    _try_out(bare, network, size)
    architecture = str(model.pretrained_cfg.get("architecture") or type(model).__name__)
    return Timm(format_call(bare, settings, DEFAULTS), network, architecture, sight, device)


def _import_timm(name: str) -> Any:
    try:
        import timm
    except Exception as error:  # a torchvision of another build fails with RuntimeError, not ImportError
        raise UserError(
            f"Backbone '{name}': timm cannot be imported ({type(error).__name__}: "
            f'{" ".join(str(error).split()).rstrip(".")}); to mend it: pip install "longshot[timm]" '
            f"torch=={installed_torch()} torchvision (naming the torch you have keeps pip from replacing it; "
            f"torchvision must be of the same build)"
        ) from error
    return timm


def _create(timm: Any, bare: str, weights: object, allowed: bool) -> tuple[Any, bool]:
    """Create the model with all its weights, and tell whether its head was missing in the file."""
    model = bare.removeprefix("timm:")
    if Path(model).expanduser().is_dir():
        model = f"local-dir:{Path(model).expanduser()}"
    elif not timm.is_model(model.split(".")[0]):
        near = timm.list_models(f"*{model.split('.')[0][:6]}*")[:3]
        hint = (
            f"near it: {', '.join(near)}" if near else "see timm.list_models(), or give the folder of a model"
        )
        raise UserError(f"timm has no model '{model}'; {hint}.")
    overlay: dict[str, Any] = {}
    headless = False
    if weights is not None:
        overlay, headless = _from_file(timm, bare, model, Path(str(weights)).expanduser())
    try:
        with contextlib.nullcontext() if allowed else offline():
            # With its own number of classes timm compares all names and shapes; with another it would not.
            return timm.create_model(model, pretrained=True, pretrained_cfg_overlay=overlay), headless
    except Exception as error:
        reason = " ".join(str(error).split())
        if "state_dict" in reason:  # missing, unexpected and mismatched weights, by name
            raise UserError(
                f"Backbone '{bare}': {reason[:400]}", "get the weights of this very model"
            ) from error
        if weights is not None or model.startswith("local-dir:"):
            raise UserError(f"Backbone '{bare}' cannot be loaded: {reason[:300].rstrip('.')}.") from error
        remedy = "check the name and the network" if allowed else "add {allow_download:True} to fetch them"
        raise UserError(f"Backbone '{bare}': the weights are not at hand", remedy) from error


def _from_file(timm: Any, bare: str, model: str, file: Path) -> tuple[dict[str, Any], bool]:
    """Return the settings that make timm take a file's tensors, and whether the head had to be filled in."""
    if not file.is_file():
        raise UserError(f"Backbone '{bare}': there is no file {file}; give the path of a checkpoint.")
    if file.suffix in (".npz", ".npy"):
        return {"file": str(file), "custom_load": True}, False
    try:
        tensors = timm.models.load_state_dict(str(file), weights_only=True)
    except Exception as error:  # unpickling raises nearly anything
        raise UserError(
            f"Backbone '{bare}': {file} cannot be read as tensors ({' '.join(str(error).split())[:150]}); give a "
            f".safetensors, .pth or .npz file that holds weights alone."
        ) from error
    blank = timm.create_model(model, pretrained=False)
    heads = blank.pretrained_cfg.get("classifier") or ()
    own = blank.state_dict()
    headless = False
    for head in (heads,) if isinstance(heads, str) else heads:
        for key in (f"{head}.weight", f"{head}.bias"):
            if key in own and (key not in tensors or tensors[key].shape != own[key].shape):
                tensors[key], headless = own[key], True
    return {"state_dict": tensors}, headless


def _choose_pool(bare: str, model: Any, pool: str, layer: int, headless: bool) -> str:
    """Return ``pool`` where the model has it, and for ``auto`` projection for CLIP, else what timm pools."""
    config = model.pretrained_cfg
    tag = f"{config.get('architecture', '')}.{config.get('tag', '')}"
    projects = "clip" in tag and "_ft_" not in tag and model.num_classes > 0 and not headless
    pools = ["pooler", "mean"] if not getattr(model, "num_prefix_tokens", 0) else ["pooler", "cls", "mean"]
    pools = ["projection", *pools] if projects else pools
    if layer != -1:
        if not hasattr(model, "forward_intermediates"):
            raise UserError(f"Backbone '{bare}' hands out no inner layers; leave layer out.")
        pools = [name for name in pools if name in ("cls", "mean")]
    if pool == "auto":
        return pools[0]
    if pool not in pools:
        raise UserError(f"Backbone '{bare}' has no pool={pool}; it has {', '.join(pools)}.")
    return pool


def _try_out(bare: str, network: TimmNetwork, size: tuple[int, int]) -> None:
    """Refuse a network that takes no image of this size, or has no such layer."""
    try:
        with torch.no_grad():
            network(torch.zeros(1, 3, *size))
    except Exception as error:
        layer = "" if network.layer == -1 else f" or has no layer {network.layer}"
        raise UserError(
            f"Backbone '{bare}' cannot take an image of {size[0]} × {size[1]}{layer} ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:200].rstrip('.')})",
            "give another {preprocessing}",
        ) from error


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


def transform_string(timm: Any, name: str, config: dict[str, Any]) -> str:
    """Express timm's transform for a model as a preprocessing string, compared with it on odd sizes."""
    text = as_string(config)
    transform = parse_preprocessing(text)
    geometry, values = (
        timm.data.create_transform(**config, normalize=False),
        timm.data.create_transform(**config),
    )
    for picture in probe_pictures():
        pixels = np.asarray(geometry(picture)).transpose(1, 2, 0)
        equal = pixels.shape == (*transform.size, 3) and np.array_equal(pixels, transform.pixels(picture))
        if not equal or not np.allclose(values(picture).numpy(), transform(picture), atol=1e-5):
            raise UserError(
                f"Backbone '{name}': what timm's transform does ({config}) cannot be repeated here",
                "give {preprocessing}",
            )
    return text


def as_string(config: dict[str, Any]) -> str:
    """Convert timm's data settings (input size, crop, filter, mean, std) to a preprocessing string."""
    height, width = (int(side) for side in config["input_size"][1:])
    scaled = [math.floor(side / config["crop_pct"]) for side in (height, width)]
    kind = config["interpolation"] if config["interpolation"] in _FILTERS else "bicubic"
    behind = "" if kind == "bilinear" else f",{kind}"
    mode = config.get("crop_mode") or "center"
    if mode == "squash":
        steps = f"resize({scaled[0]},{scaled[1]}{behind})"
    elif mode == "border":
        colour = ",".join(str(round(255 * value)) for value in config["mean"])
        steps = f"resize({scaled[0]},longest{behind})|pad({height},{width},fill,{colour})"
    else:
        steps = f"resize({scaled[0]}{behind})"
    values = ",".join(str(float(v)) for v in (*config["mean"], *config["std"]))
    return f"decode|{steps}|central_crop({height},{width},even)|normalize({values})"

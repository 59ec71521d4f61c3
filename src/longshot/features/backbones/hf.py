"""``hf:NAME``: a vision model of transformers, by hub name or local folder.

The vector is the pooled output where the model has one, else the class token (or the mean over a map). Size,
filter, mean and std come from the model's own image-processor file, written as a preprocessing string.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from longshot.core.errors import UserError
from longshot.core.files import hash_file, hash_text
from longshot.features.backbones.base import ModuleBackbone

_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # as Pillow numbers them
_CONVOLUTIONAL = ("resnet", "convnext", "convnextv2", "regnet", "mobilenet_v1", "mobilenet_v2", "bit")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


class HuggingFaceBackbone(ModuleBackbone):
    """Images [B, 3, H, W] → pooled features [B, d]."""

    pooling = "pooled output, else class token"

    def __init__(self, name: str, folder: Path, preprocessing: str | None, device: str) -> None:
        weights = [file for pattern in _WEIGHTS for file in sorted(folder.glob(pattern))]
        if not weights or not (folder / "config.json").is_file():
            raise UserError(
                f"Backbone '{name}': {folder} lacks config.json or weights (*.safetensors); give the "
                f"folder that save_pretrained wrote."
            )
        self.folder = folder
        hashed = hash_text(*(hash_file(file) for file in [folder / "config.json", *weights]))
        super().__init__(name, hashed, preprocessing or _preprocessing(folder), device)

    def build(self) -> nn.Module:
        from transformers import AutoModel

        try:
            model: Any = AutoModel.from_pretrained(self.folder, local_files_only=True, dtype=torch.float32)
        except Exception as error:
            raise UserError(
                f"Backbone '{self.name}' cannot be loaded: {' '.join(str(error).split()).rstrip('.')}."
            ) from error
        self.channels_last = model.config.model_type in _CONVOLUTIONAL
        # A model of pictures and text (CLIP, SigLIP) holds its vision part under this name.
        vision: nn.Module = getattr(model, "vision_model", model)
        return vision

    @staticmethod
    def run(module: nn.Module, images: Tensor) -> Tensor:
        output = module(pixel_values=images)
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            hidden = output.last_hidden_state
            pooled = hidden if hidden.ndim == 4 else hidden[:, 0]
        # Convolutional models pool to [B, d, 1, 1].
        result: Tensor = pooled
        return result


def load(name: str, *, device: str, preprocessing: str | None, allow_download: bool) -> HuggingFaceBackbone:
    """A local folder, else a model already in the hub's cache, else (when allowed) a download."""
    model = name.removeprefix("hf:")
    folder = Path(model).expanduser()
    if not folder.is_dir():
        folder = _snapshot(name, model, allow_download or os.environ.get("LONGSHOT_ALLOW_DOWNLOAD") == "1")
    return HuggingFaceBackbone(name, folder, preprocessing, device)


def _snapshot(name: str, model: str, allow_download: bool) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["config.json", "preprocessor_config.json", "*.safetensors"]
    try:
        return Path(snapshot_download(model, allow_patterns=patterns, local_files_only=not allow_download))
    except Exception as error:
        if allow_download:
            raise UserError(
                f"Backbone '{name}' cannot be downloaded: {' '.join(str(error).split()).rstrip('.')}."
            ) from error
        raise UserError(
            f"Backbone '{name}' is neither a folder nor a model downloaded before, and Longshot downloads "
            f"nothing unasked",
            "add {allow_download:True} (or set LONGSHOT_ALLOW_DOWNLOAD=1)",
        ) from error


def _preprocessing(folder: Path) -> str:
    """The model's image-processor file as a string; ImageNet's usual when there is none."""
    file = folder / "preprocessor_config.json"
    if not file.is_file():
        file = folder / "processor_config.json"
    if not file.is_file():
        size = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("image_size", 224)
        size = size if isinstance(size, int) else 224
        return f"decode|resize({size},{size})|normalize(imagenet)"
    config = json.loads(file.read_text(encoding="utf-8"))
    config = config.get("image_processor", config)
    steps = ["decode"]
    kind = _FILTERS.get(config.get("resample", 2), "bilinear")
    crop = _side(config.get("crop_size")) if config.get("do_center_crop") else None
    if config.get("do_resize", True):
        size = config.get("size", 224)
        edge = size.get("shortest_edge") if isinstance(size, dict) else None
        if edge and not crop:
            # ConvNeXt's convention: below 384 pixels the short side is size / crop_pct, then cropped.
            crop = (edge, edge)
            edge = round(edge / config.get("crop_pct", 1.0)) if edge < 384 else edge
        sides = (edge,) if edge else _side(size)
        steps.append(f"resize({','.join(map(str, sides))}{'' if kind == 'bilinear' else ',' + kind})")
    if crop:
        steps.append(f"central_crop({crop[0]},{crop[1]})")
    if config.get("do_rescale", True):
        factor = 255 * config.get("rescale_factor", 1 / 255)
        if abs(factor - 1) > 1e-6:
            steps.append(f"value_range(0,{factor:.9g})")
    else:
        steps.append("value_range(0,255)")
    if config.get("do_normalize", True) and "image_mean" in config:
        values = [*config["image_mean"], *config["image_std"]]
        steps.append(f"normalize({','.join(str(v) for v in values)})")
    return "|".join(steps)


def _side(size: Any) -> tuple[int, int]:
    if isinstance(size, dict):
        edge = size.get("shortest_edge") or 224
        return int(size.get("height") or edge), int(size.get("width") or edge)
    side = 224 if size is None else int(size)
    return side, side

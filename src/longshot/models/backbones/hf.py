"""``hf:NAME(pool=auto, layer=-1)``: a vision model of transformers, by hub name or local folder.

What the vector is: see :class:`VisionNetwork`. Which pixels the network sees: what its own image processor makes. A
weight that is missing in the files is invented by transformers at random on every load, so nothing that takes part in
the vector may be missing.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from longshot.base import UserError, count, first, format_call, hash_file, hash_text, parse_preprocessing
from longshot.models.backbones.base import ModuleBackbone
from longshot.models.backbones.sight import (
    FILES,
    Sight,
    check_pooling,
    may_download,
    processor_string,
    split_settings,
)

DEFAULTS: dict[str, Any] = {"pool": "auto", "layer": -1}
_CONVOLUTIONAL = ("resnet", "convnext", "convnextv2", "regnet", "mobilenet_v1", "mobilenet_v2", "bit")
_SAFE, _PICKLED = "model.safetensors", "pytorch_model.bin"
_BUFFERS = ("num_batches_tracked", "position_ids", "relative_position_index")  # computed, not learned
_ORDER = ("projection", "pooler", "cls", "mean")  # of auto


class VisionNetwork(nn.Module):
    """A vision model with its way of making a vector; images [B, 3, H, W] → [B, d] or [B, d, h, w].

    ``projection``: the pooled output through CLIP's projection; ``pooler``: the model's own pooled output; ``cls``: the
    class token; ``mean``: the mean over patches, without class and register tokens, or the map of a convolutional
    network. Class token and patches are those of ``layer``, counted from the end; only the last has passed the final
    norm.
    """

    def __init__(self, model: nn.Module, pool: str, layer: int) -> None:
        super().__init__()
        # A model of pictures and text (CLIP, SigLIP) holds its vision part under this name.
        self.vision: Any = getattr(model, "vision_model", model)
        self.projection: Any = getattr(model, "visual_projection", None)
        self.pool, self.layer = pool, layer
        self.takes = set(inspect.signature(self.vision.forward).parameters)

    def outputs(self, images: Tensor) -> dict[str, Tensor]:
        """Compute every vector or map that the model offers, by the name of its pool."""
        config = self.vision.config
        settings: dict[str, Any] = {}
        if self.layer != -1:
            settings["output_hidden_states"] = True
        if "interpolate_pos_encoding" in self.takes and images.shape[-1] != getattr(config, "image_size", 0):
            settings["interpolate_pos_encoding"] = True
        patches = _patches(config, images)
        if "noise" in self.takes and patches:  # a masked autoencoder would hide patches at random
            config.mask_ratio = 0.0
            settings["noise"] = torch.arange(patches, device=images.device).expand(len(images), -1)
        output = self.vision(pixel_values=images, **settings)
        if self.layer == -1:
            hidden = output.last_hidden_state
        else:
            states = output.hidden_states
            if len(states) < -self.layer:
                raise UserError(
                    f"layer is {self.layer}, but the network has {len(states)} states, the embedded image included; "
                    f"the first is layer={-len(states)}."
                )
            hidden = states[self.layer]
        offered: dict[str, Tensor] = {}
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None and self.layer == -1:
            offered["pooler"] = pooled
            if self.projection is not None:
                offered["projection"] = self.projection(pooled)
        if hidden.ndim == 4:
            return {**offered, "mean": hidden}
        before = max(0, hidden.shape[1] - patches) if patches else 0
        if before:
            offered["cls"] = hidden[:, 0]
        return {**offered, "mean": hidden[:, before:].mean(1)}

    def forward(self, images: Tensor) -> Tensor:
        """Compute the pooled output of images: [B, 3, H, W] → [B, d], or a map [B, d, h, w]."""
        return self.outputs(images)[self.pool]


class HuggingFaceBackbone(ModuleBackbone):
    """Images [B, 3, H, W] → features [B, d]; built at once, since what ``auto`` means depends on the weights."""

    def __init__(self, name: str, folder: Path, settings: dict[str, Any], sight: Sight, device: str) -> None:
        self.folder = folder
        weights = weight_files(name, folder)
        hashed = hash_text(*(hash_file(file) for file in [folder / "config.json", *weights]))
        sight = sight.of_found(lambda: processor_string(name, folder))
        model, loading = open_model(name, folder)
        self.channels_last = model.config.model_type in _CONVOLUTIONAL
        self.made = choose_pooling(
            name, model, loading, settings, parse_preprocessing(sight.preprocessing).size
        )
        last = self.made.layer == -1
        self.pooling = self.made.pool if last else f"{self.made.pool} of layer {self.made.layer}"
        super().__init__(name, hashed, sight, device)


def open_hf(name: str, *, device: str, sight: Sight, allow_download: bool) -> HuggingFaceBackbone:
    """Open a local folder, else a model in the hub's cache, else (where allowed) download it."""
    bare, settings = split_settings(name, DEFAULTS)
    check_pooling(bare, settings["pool"], settings["layer"])
    model = bare.removeprefix("hf:")
    folder = Path(model).expanduser()
    if not folder.is_dir():
        folder = _snapshot(bare, model, may_download(allow_download))
    canonical = format_call(bare, settings, DEFAULTS)
    return HuggingFaceBackbone(canonical, folder, settings, sight, device)


def weight_files(name: str, folder: Path) -> list[Path]:
    """List the files that transformers reads the weights from: safetensors before pickles."""
    for main in (_SAFE, _PICKLED):
        if (folder / main).is_file():
            files = [folder / main]
        elif (index := folder / f"{main}.index.json").is_file():
            shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            files = [index, *(folder / shard for shard in sorted(set(shards)))]
        else:
            continue
        absent = [file.name for file in [folder / "config.json", *files] if not file.is_file()]
        if absent:
            raise UserError(f"Backbone '{name}': {folder} lacks {first(absent, 3)}; copy the whole folder.")
        return files
    raise UserError(
        f"Backbone '{name}': {folder} lacks config.json or weights ({_SAFE} or {_PICKLED}); give the "
        f"folder that save_pretrained wrote."
    )


def open_model(name: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """Read the model (float32, evaluation mode) and what transformers reports of its weights; pickles: tensors only."""
    transformers: Any = import_module("transformers")
    try:
        with _quiet():
            config = transformers.AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            saved = (getattr(config, "architectures", None) or [""])[0]
            # AutoModel would leave the projection out.
            projected = saved.endswith("VisionModelWithProjection") and hasattr(transformers, saved)
            kind = getattr(transformers, saved) if projected else transformers.AutoModel
            settings = {
                "config": config,
                "local_files_only": True,
                "dtype": torch.float32,
                "weights_only": True,
                "ignore_mismatched_sizes": True,  # all of them are told at once, by name
                "output_loading_info": True,
            }
            model, loading = kind.from_pretrained(folder, **settings)
            left_out = any("pooler." in key for key in loading["unexpected_keys"])
            if left_out and "add_pooling_layer" in inspect.signature(type(model).__init__).parameters:
                # Trained, but not built unless asked for (Data2Vec).
                model, loading = kind.from_pretrained(folder, add_pooling_layer=True, **settings)
    except Exception as error:
        raise UserError(
            f"Backbone '{name}' cannot be loaded: {' '.join(str(error).split())[:300].rstrip('.')}."
        ) from error
    return model.eval(), loading


def choose_pooling(
    name: str, model: Any, loading: dict[str, Any], settings: dict[str, Any], size: tuple[int, int]
) -> VisionNetwork:
    """Choose the pool of a network, and refuse where a weight that takes part in the vector is missing.

    ``auto`` is the first of projection, pooler, class token and mean that the model has and whose weights are all in
    the file. A norm that is missing in a pooler starts at (1, 0) on every load, so it counts as there.
    """
    _check_strangers(name, model, loading)
    network = VisionNetwork(model, settings["pool"], settings["layer"]).eval()
    invented = _invented(name, model, network, loading["missing_keys"])
    picture = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(0))
    try:
        with torch.enable_grad():
            offered = network.outputs(picture)
    except UserError as error:
        raise UserError(f"Backbone '{name}': {error.fact}", error.remedy) from error
    except Exception as error:
        raise UserError(
            f"Backbone '{name}' cannot take an image of {size[0]} × {size[1]} ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:200].rstrip('.')})",
            "give a vision model, or another {preprocessing}",
        ) from error
    pools = [pool for pool in _ORDER if pool in offered]
    if network.pool == "auto":
        complete = [pool for pool in pools if not _in_use(offered[pool], invented)]
        network.pool = complete[0] if complete else pools[-1]
    if network.pool not in offered:
        raise UserError(f"Backbone '{name}' has no pool={network.pool}; it has {', '.join(pools)}.")
    missing = _in_use(offered[network.pool], invented)
    if missing:
        complete = [pool for pool in pools if not _in_use(offered[pool], invented)]
        remedy = f"choose pool={complete[0]}" if complete else "get the whole file"
        raise UserError(
            f"Backbone '{name}': pool={network.pool} needs {count(len(missing), 'weight')} that its file has not "
            f"({first(missing, 4)}) and that would be drawn at random",
            remedy,
        )
    with torch.no_grad():
        for parameter in invented.values():  # takes no part; the same on every load all the same
            parameter.zero_()
        if not torch.equal(network(picture), network(picture)):
            raise UserError(
                f"Backbone '{name}' gives other numbers for the same image each time; it cannot be used."
            )
    return network


def _check_strangers(name: str, model: Any, loading: dict[str, Any]) -> None:
    """Refuse weights of another shape, and weights inside the network that it has no place for."""
    shapes = [f"{key} {list(saved)} instead of {list(own)}" for key, saved, own in loading["mismatched_keys"]]
    if shapes or loading.get("error_msgs"):
        reason = first(shapes, 3) if shapes else first(loading["error_msgs"], 1)
        raise UserError(
            f"Backbone '{name}': {count(max(1, len(shapes)), 'weight')} in its file fit another network than "
            f"config.json tells of ({reason}); get both files from one place."
        )
    own = {part for part, child in model.named_children() if any(True for _ in child.parameters())}
    prefix = f"{model.base_model_prefix}."
    strangers = [
        key
        for key in sorted(loading["unexpected_keys"])
        if key.removeprefix(prefix).partition(".")[0] in own and not key.endswith(_BUFFERS)
    ]
    if strangers:  # what lies outside is the head of a task: a classifier, a decoder
        raise UserError(
            f"Backbone '{name}': its file has {count(len(strangers), 'weight')} inside the network that config.json "
            f"has no place for ({first(strangers, 4)}); get both files from one place."
        )


def _invented(name: str, model: Any, network: VisionNetwork, missing: set[str]) -> dict[str, Tensor]:
    """Return the parameters that the file lacks, by name, with gradients on; refuse where it lacks statistics."""
    norms = {
        f"{part}.{weight}"
        for part, module in model.named_modules()
        if isinstance(module, nn.LayerNorm) and "pooler" in part
        for weight in ("weight", "bias")
    }
    parameters = dict(model.named_parameters())
    vision = {id(p) for p in network.parameters()}
    model.requires_grad_(False)
    invented: dict[str, Tensor] = {}
    for key in sorted(missing - norms):
        parameter = parameters.get(key)
        if parameter is None:
            if not key.endswith(_BUFFERS) and key in dict(model.named_buffers()):
                raise UserError(
                    f"Backbone '{name}': its file lacks the statistics '{key}'; get the whole file."
                )
            continue
        if id(parameter) in vision:
            invented[key] = parameter.requires_grad_(True)
    return invented


def _in_use(vector: Tensor, invented: dict[str, Tensor]) -> list[str]:
    """List the missing weights that take part in ``vector``, by autograd's record of it."""
    if not invented or vector.grad_fn is None:
        return []
    gradients = torch.autograd.grad(
        vector.sum(), list(invented.values()), allow_unused=True, retain_graph=True
    )
    return [key for key, gradient in zip(invented, gradients, strict=True) if gradient is not None]


def _patches(config: Any, images: Tensor) -> int:
    """Count the patches that an image is cut into; 0 where the configuration does not say."""
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, int):
        patch = (patch, patch)
    if not isinstance(patch, list | tuple) or len(patch) != 2:
        return 0
    return (images.shape[-2] // int(patch[0])) * (images.shape[-1] // int(patch[1]))


def _snapshot(name: str, model: str, allow_download: bool) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["config.json", *FILES, "model*.safetensors", "model.safetensors.index.json"]
    try:
        folder = Path(snapshot_download(model, allow_patterns=patterns, local_files_only=not allow_download))
        if allow_download and not any(folder.glob("model*.safetensors")):  # older ones have a pickle alone
            patterns += ["pytorch_model*.bin", "pytorch_model.bin.index.json"]
            folder = Path(snapshot_download(model, allow_patterns=patterns))
        return folder
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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide transformers' progress bars and reports; our own sentence says what matters."""
    logging: Any = import_module("transformers.utils.logging")
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()

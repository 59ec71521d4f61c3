"""The image processor of a transformers model as a preprocessing string, compared with the processor itself."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from longshot.base import UserError, parse

FILES = ("preprocessor_config.json", "processor_config.json")
_FILTERS = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}  # as Pillow numbers
# Processors that need torchvision but do no more than these settings say (DINOv3's resizes before it rounds to bytes).
_PLAIN_WITHOUT_PIL = ("DINOv3ViTImageProcessor", "DINOv3ViTImageProcessorFast")
_SQUASHED_FROM = 384  # ConvNeXt's processor crops below and squashes from here on
_PROBES = ((61, 97), (97, 62), (300, 203))


def processor_string(name: str, folder: Path) -> str:
    """What the model's own processor does to an image, as a preprocessing string.

    The string is compared with the processor on images of odd sizes; a processor that does anything else is refused.

    Parameters
    ----------
    name : str
        The backbone, for messages.
    folder : Path
        Holds ``preprocessor_config.json`` (or ``processor_config.json``).

    Returns
    -------
    str
        ``decode|resize(256,bicubic)|central_crop(224)|normalize(…)``.
    """
    if not any((folder / file).is_file() for file in FILES):
        raise UserError(
            f"Backbone '{name}': {folder} has no {FILES[0]}, so it is not known which pixels the network was trained "
            f"on",
            "copy that file beside the weights, or give {preprocessing}",
        )
    kind = _read(folder).get("image_processor_type", "")
    if kind in _PLAIN_WITHOUT_PIL:
        return as_string(_read(folder))
    transformers: Any = import_module("transformers")
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(
            folder, backend="pil", local_files_only=True, trust_remote_code=False
        )
        settings = processor.to_dict()
        text = as_string(settings)
        different = _differs(processor, text)
    except Exception as error:  # a processor of its own kind raises what it likes
        raise _other(name, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error
    if different:
        raise _other(name, f"{type(processor).__name__} does more than resize, crop and scale")
    return text


def as_string(settings: dict[str, Any]) -> str:
    """The settings of a processor (as in its file, with the defaults of its class) as a preprocessing string."""
    steps = ["decode"]
    kind = _FILTERS[int(settings.get("resample", 2))]
    behind = "" if kind == "bilinear" else f",{kind}"
    crop = _sides(settings.get("crop_size")) if settings.get("do_center_crop") else None
    if settings.get("do_resize", True):
        size = settings["size"]
        edge = size.get("shortest_edge") if isinstance(size, dict) else None
        if edge and "crop_pct" in settings:  # ConvNeXt's and ResNet's
            crops = edge < _SQUASHED_FROM
            sides = (int(edge / settings["crop_pct"]),) if crops else (int(edge), int(edge))
            crop = crop or ((int(edge), int(edge)) if crops else None)
        else:
            sides = (int(edge),) if edge else _sides(size)
        steps.append(f"resize({','.join(map(str, sides))}{behind})")
        if crop and (crop[0] > sides[0] or crop[1] > sides[-1]):
            steps.append(f"pad({crop[0]},{crop[1]},before)")
    if crop:
        steps.append(f"central_crop({crop[0]},{crop[1]})")
    factor = 255 * settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 255.0
    if abs(factor - 1) > 1e-6:
        steps.append(f"value_range(0,{factor:.9g})")
    if settings.get("do_normalize", True):
        values = [*_three(settings["image_mean"]), *_three(settings["image_std"])]
        steps.append(f"normalize({','.join(str(v) for v in values)})")
    return "|".join(steps)


def _differs(processor: Any, text: str) -> bool:
    """Whether the processor and the string make other pixels or values of some picture."""
    transform = parse(text)
    plain = {"do_rescale": False, "do_normalize": False, "return_tensors": "np"}
    for image in probe_pictures():
        pixels = np.asarray(processor(images=image, **plain)["pixel_values"][0])
        values = np.asarray(processor(images=image, return_tensors="np")["pixel_values"][0])
        if not np.array_equal(pixels, transform.pixels(image).transpose(2, 0, 1)):
            return True
        if values.shape != (3, *transform.size) or not np.allclose(values, transform(image), atol=1e-5):
            return True
    return False


@cache
def probe_pictures() -> list[Image.Image]:
    """Three pictures of odd sizes, to compare a string with a library's own steps."""
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in _PROBES]


def _read(folder: Path) -> dict[str, Any]:
    """The settings in the file, where it is JSON with an object in it."""
    for file in FILES:
        try:
            settings = json.loads((folder / file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(settings, dict):
            inner = settings.get("image_processor", settings)
            return inner if isinstance(inner, dict) else settings
    return {}


def _sides(size: Any) -> tuple[int, int]:
    """Height and width of ``{"height": 224, "width": 224}``, of ``{"shortest_edge": 224}`` or of one number."""
    if isinstance(size, dict):
        edge: Any = size.get("shortest_edge")
        return int(size.get("height") or edge), int(size.get("width") or edge)
    return int(size), int(size)


def _three(values: Any) -> list[float]:
    return [float(v) for v in values] if isinstance(values, list | tuple) else [float(values)] * 3


def _other(name: str, reason: str) -> UserError:
    return UserError(
        f"Backbone '{name}': what its image processor does cannot be repeated here ({reason.rstrip('.')})",
        "give {preprocessing}",
    )

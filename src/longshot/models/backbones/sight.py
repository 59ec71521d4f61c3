"""What stands behind a backbone's name: settings, ``hf:facebook/dino-vits16(pool=cls)``, and which pixels it sees.

A network sees pixels as its own preprocessing makes them, at another size, or as a string says. Whatever is not its own
stands in its name: ``efficientnet-lite0(size=128)``. So two preprocessings of one network never share a name.

The image processor of a transformers model becomes such a string, which is compared with the processor itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from longshot.base import (
    LARGEST_SIDE,
    UserError,
    check_choice,
    check_settings,
    format_call,
    parse_call,
    parse_preprocessing,
    quote_words,
    rescale_preprocessing,
)

POOLS = ("auto", "cls", "mean", "pooler", "projection")
_SETTINGS = re.compile(r"\(\s*\w+\s*=.*\)\s*$", re.DOTALL)
EXAMPLE = "decode|resize(256)|central_crop(224)|normalize(imagenet)"
_BUILT_IN = re.compile(r"(pixels|efficientnet-lite\d)\s*\(")
_SAID = re.compile(r"\b(size|preprocessing)\s*=")


@dataclass(frozen=True)
class Sight:
    """What a backbone is to see; at most one of ``text`` and ``size`` is given.

    Parameters
    ----------
    text : str, optional
        A preprocessing string in place of the network's own.
    size : int, optional
        Pixels of the short side: the network's own preprocessing with every length scaled.
    own : str, optional
        The network's own preprocessing, once it is known; None where it has none.
    """

    text: str | None = None
    size: int | None = None
    own: str | None = None

    @property
    def given(self) -> bool:
        """Tell whether other pixels than the network's own are asked for."""
        return self.text is not None or self.size is not None

    def of(self, own: str) -> Sight:
        """Return the same for a network whose own preprocessing is ``own``."""
        return replace(self, own=parse_preprocessing(own).text)

    def of_found(self, find_own: Callable[[], str]) -> Sight:
        """Do as ``of`` where the library may fail to tell the preprocessing; then ``text`` serves, or it is raised."""
        try:
            return self.of(find_own())
        except UserError:
            if self.text is None:
                raise
            return self

    @property
    def preprocessing(self) -> str:
        """Return the string that is used, in its canonical form."""
        if self.text is not None:
            return parse_preprocessing(self.text).text
        assert self.own is not None
        return self.own if self.size is None else rescale_preprocessing(self.own, self.size)

    @property
    def settings(self) -> dict[str, Any]:
        """Return what the network's name has to say: nothing, ``size``, or ``preprocessing``."""
        used = self.preprocessing
        if used == self.own:
            return {}
        side = min(parse_preprocessing(used).size)
        if self.own is not None and rescale_preprocessing(self.own, side) == used:
            return {"size": side}
        return {"preprocessing": used}

    def named(self, name: str) -> str:
        """Add to ``name`` what it has to say of the pixels.

        >>> Sight(size=128).of("decode|resize(256)|central_crop(224)").named("hf:some/model(pool='cls')")
        "hf:some/model(pool='cls', size=128)"
        """
        if not self.settings:
            return name
        bare, settings = _settings_of(name)
        return format_call(bare, {**settings, **self.settings})


def split_sight(name: str, preprocessing: str | None = None) -> tuple[str, Sight]:
    """Split a backbone's name into the name alone and the pixels it asks for; ``preprocessing`` stands beside it.

    >>> split_sight("efficientnet-lite0(size=128)")
    ('efficientnet-lite0', Sight(text=None, size=128, own=None))
    """
    match = _SETTINGS.search(name)
    if match is None or not _SAID.search(match[0]) or _is_path(name):
        return name, Sight(preprocessing)
    bare, settings = _settings_of(name)
    text, size = settings.pop("preprocessing", None), settings.pop("size", None)
    if size is not None and (
        not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= LARGEST_SIDE
    ):
        raise UserError(
            f"Backbone '{name}': size is {size!r}; give pixels, 1 to {LARGEST_SIDE}, as in (size=128)."
        )
    if text is not None and not isinstance(text, str):
        raise UserError(f"Backbone '{name}': preprocessing is {text!r}; give a string, as '{EXAMPLE}'.")
    if sum(each is not None for each in (size, text, preprocessing)) > 1:
        raise UserError(
            f"Backbone '{name}' says its size or preprocessing, and another is given with it",
            "leave {preprocessing} out, or that of the name",
        )
    return format_call(bare, settings), Sight(preprocessing if text is None else text, size)


def bare_name(name: str) -> str:
    """Remove from a name what it says of pixels; a label that only looks like that stays.

    >>> bare_name("efficientnet-lite0(size=128)"), bare_name("mine (size=large)")
    ('efficientnet-lite0', 'mine (size=large)')
    """
    try:
        return split_sight(name)[0]
    except UserError:
        return name


def _is_path(name: str) -> bool:
    """Tell whether a file or folder has this name, parentheses and all; a built-in name never does."""
    if _BUILT_IN.match(name):  # an output folder may well be called after its backbone
        return False
    try:
        return any(path and Path(path).expanduser().exists() for path in (name, name.partition(":")[2]))
    except OSError:  # too long for a file
        return False


def _settings_of(name: str) -> tuple[str, dict[str, Any]]:
    """Split a name into the name alone and its settings."""
    match = _SETTINGS.search(name)
    if match is None:
        return name, {}
    return name[: match.start()].strip(), parse_call("backbone" + quote_words(match[0]).strip())[1]


def example_for(network: object) -> str:
    """Suggest a preprocessing to paste and correct, at the size that a network was built for where it has one."""
    size = getattr(network, "size", None)
    if isinstance(size, tuple) and len(size) == 2:
        return f"decode|resize({size[0]},{size[1]})|normalize(imagenet)"
    return EXAMPLE


def own_sight(sight: Sight, own: object, subject: str, remedy: str) -> Sight:
    """Combine the pixels asked for with those that somebody's own network says itself (``own``, or None).

    UserError with ``remedy`` where nobody says it: which pixels a network was trained on cannot be seen from outside,
    and a guess would cost accuracy without a word.
    """
    if isinstance(own, str):
        return sight.of(own)
    if sight.text is None:
        raise UserError(f"{subject} does not say which pixels it takes, and Longshot does not guess", remedy)
    return sight


def split_settings(name: str, defaults: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split a backbone's name into the name alone and all its settings; words may stand without quotes.

    Parameters
    ----------
    name : str
        ``hf:NAME(pool=cls)``. What is a file or folder by the whole name has no settings.
    defaults : mapping
        The settings that there are, with their defaults.

    Examples
    --------
    >>> split_settings("hf:some/model(pool=cls)", {"pool": "auto", "layer": -1})
    ('hf:some/model', {'pool': 'cls', 'layer': -1})
    """
    match = _SETTINGS.search(name)
    if match is None or Path(name.partition(":")[2]).expanduser().exists():
        return name, dict(defaults)
    bare = name[: match.start()].strip()
    if bare.endswith(":"):
        raise UserError(f"Backbone '{name}' is unfinished; write {bare}NAME{match[0]}.")
    _, settings = parse_call("backbone" + quote_words(match[0]))
    check_settings(f"Backbone '{bare}'", settings, defaults)
    return bare, {**defaults, **settings}


def check_pooling(name: str, pool: object, layer: object) -> None:
    """Refuse a ``pool`` that is none of POOLS, a ``layer`` that is not negative, and pairs that do not go together."""
    check_choice(f"Backbone '{name}'", "pool", pool, POOLS)
    if not isinstance(layer, int) or isinstance(layer, bool) or layer >= 0:
        raise UserError(
            f"Backbone '{name}' has layer={layer!r}; layers are counted from the end: -1 the last, -2 the one before."
        )
    if layer != -1 and pool in ("pooler", "projection"):
        raise UserError(
            f"Backbone '{name}': pool={pool} follows the last layer and layer is {layer}; "
            f"choose pool=cls or pool=mean, or leave layer out."
        )


def installed_torch() -> str:
    """Return the version of PyTorch that is installed, as pip takes it (without the build behind the plus)."""
    return version("torch").partition("+")[0]


def may_download(allow_download: bool) -> bool:
    """Tell whether weights may be fetched: asked for, or by ``LONGSHOT_ALLOW_DOWNLOAD=1``."""
    return allow_download or os.environ.get("LONGSHOT_ALLOW_DOWNLOAD") == "1"


FILES = ("preprocessor_config.json", "processor_config.json")
# as Pillow numbers
_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
# Processors that need torchvision but do no more than these settings say (DINOv3's resizes before it rounds to bytes).
_PLAIN_WITHOUT_PIL = ("DINOv3ViTImageProcessor", "DINOv3ViTImageProcessorFast")
_SQUASHED_FROM = 384  # ConvNeXt's processor crops below and squashes from here on
_PROBES = ((61, 97), (97, 62), (300, 203))


def processor_string(name: str, folder: Path) -> str:
    """Express what the model's own processor does to an image as a preprocessing string.

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
    """Convert the settings of a processor (from its file, with its class's defaults) to a preprocessing string."""
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
    """Tell whether the processor and the string make different pixels or values of some picture."""
    transform = parse_preprocessing(text)
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
    """Make three pictures of odd sizes, to compare a string with a library's own steps."""
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in _PROBES]


def _read(folder: Path) -> dict[str, Any]:
    """Read the settings in the file, where it is JSON with an object in it."""
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
    """Return height and width of ``{"height": 224, "width": 224}``, ``{"shortest_edge": 224}`` or one number."""
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

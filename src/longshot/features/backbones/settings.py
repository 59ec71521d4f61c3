"""Settings behind a backbone's name: ``hf:facebook/dino-vits16(pool=cls, layer=-2)``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from longshot.core.calls import check_settings, format_call, parse_call
from longshot.core.checks import check_choice
from longshot.core.errors import UserError

POOLS = ("auto", "cls", "mean", "pooler", "projection")
SETTINGS = re.compile(r"\(\s*\w+\s*=.*\)\s*$", re.DOTALL)
# a word or a path after an equals sign, without quotes
_BARE = re.compile(r"(=\s*)(?!(?:True|False|None)\s*[,)])([A-Za-z_~./\\][^,()'\"]*?)(?=\s*[,)])")


def split_settings(name: str, defaults: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A backbone's name without its settings, and all settings; words may stand without quotes.

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
    match = SETTINGS.search(name)
    if match is None or Path(name.partition(":")[2]).expanduser().exists():
        return name, dict(defaults)
    bare = name[: match.start()].strip()
    if bare.endswith(":"):
        raise UserError(f"Backbone '{name}' is unfinished; write {bare}NAME{match[0]}.")
    _, settings = parse_call("backbone" + quote_words(match[0]))
    check_settings(f"Backbone '{bare}'", settings, defaults)
    return bare, {**defaults, **settings}


def quote_words(text: str) -> str:
    """Quotes around the words and paths that stand after an equals sign without them.

    >>> quote_words("resnet50(weights=runs/dino.pth, stem='large', drop=0.1)")
    "resnet50(weights='runs/dino.pth', stem='large', drop=0.1)"
    """
    return _BARE.sub(lambda match: f"{match[1]}{match[2]!r}", text)


def join_settings(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The canonical name: settings sorted, those at their default left out."""
    return format_call(name, settings, defaults)


def check_pooling(name: str, pool: object, layer: object) -> None:
    """UserError where ``pool`` is none of POOLS, ``layer`` is no negative number, or the two do not go together."""
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
    """The version of PyTorch that is installed, as pip takes it (without the build behind the plus)."""
    return version("torch").partition("+")[0]


def may_download(allow_download: bool) -> bool:
    """Whether weights may be fetched: asked for, or by ``LONGSHOT_ALLOW_DOWNLOAD=1``."""
    return allow_download or os.environ.get("LONGSHOT_ALLOW_DOWNLOAD") == "1"

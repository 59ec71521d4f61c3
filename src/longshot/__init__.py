"""Longshot: few-shot image-classification benchmarks of a chosen difficulty, any model measured on them."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import lazy_loader

from longshot.base import show_with as _show_with
from longshot.base import switch_off as _switch_off

# The stub beside this file declares every public name; `import longshot` loads neither torch nor pandas.
_open, __dir__, _declared = lazy_loader.attach_stub(__name__, __file__)
with open(f"{__file__}i", encoding="utf-8") as _stub:  # noqa: PTH123 - pathlib would cost a third of this import
    _words = [line.split() for line in _stub if line.startswith("from ")]
_room_of = {word[3]: word[1][1:] or word[3] for word in _words} | {"competition": "arena"}
_here = os.listdir(os.path.dirname(__file__))  # noqa: PTH120, PTH208
# Names of a wing that is not installed are left out, so that `from longshot import *` works without it.
_ABSENT = {name: room for name, room in _room_of.items() if room not in _here}
_public = {*_declared, "__version__", "competition"} - {"arena"}  # `competition` is the room `arena`
__all__ = sorted(_public - {*_ABSENT})
_ROOMS = ("audit", "competition", "data", "models", "studies", "training")  # with functions of their own
_VERBS = tuple(name for name in __all__ if name[0].islower() and name not in _ROOMS)
_NOUNS = tuple(name for name in __all__ if name[0].isupper())


def _view(noun: Any, task: int | None) -> Any:
    """Show a testbed or results in the explorer: nouns do not know it, so it is handed to them."""
    if "serve" in _ABSENT:
        from longshot.base import UserError

        raise UserError("Testbeds and results are shown by longshot.explorer, which is not installed here.")
    from longshot.explorer import show

    return show(noun, task)


_show_with(_view)
_switch_off()


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(f"longshot.{name} needs longshot.{_ABSENT[name]}, which is not installed here")
    if name == "__version__":
        from importlib.metadata import (
            version,  # reads mail headers, and brings Python's whole library for them
        )

        attribute: Any = version("longshot")
    elif name == "competition":
        attribute = import_module("longshot.arena")
    elif name in _VERBS:
        from longshot.api import public

        attribute = public(_open(name), name)
    elif name in __all__:
        attribute = _open(name)
    else:
        raise AttributeError(f"module 'longshot' has no attribute '{name}'")
    globals()[name] = attribute
    return attribute

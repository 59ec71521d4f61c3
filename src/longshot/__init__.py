"""Longshot: few-shot image-classification benchmarks of a chosen difficulty, any model measured on them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import lazy_loader

from longshot.base import show_with as _show_with
from longshot.base import switch_off as _switch_off

# The stub beside this file declares every public name; `import longshot` loads neither torch nor pandas.
_open, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted({*__all__, "__version__", "competition"} - {"arena"})  # `competition` is the room `arena`
_ROOMS = ("audit", "competition", "data", "models", "studies", "training")  # with functions of their own
_VERBS = tuple(name for name in __all__ if name[0].islower() and name not in _ROOMS)
_NOUNS = tuple(name for name in __all__ if name[0].isupper())


def _view(noun: Any, task: int | None) -> Any:
    """Show a testbed or results in the explorer: nouns do not know it, so it is handed to them."""
    from longshot.explorer import show

    return show(noun, task)


_show_with(_view)
_switch_off()


def __getattr__(name: str) -> Any:
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

"""What libraries do while they are imported and no command needs: half a second of every report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from longshot.core.files import keep_fonts


def trim_imports() -> None:
    """From now on, pyarrow and matplotlib are imported without what only people at a prompt need.

    pyarrow imports pandas when the first array is made, to know a Series when it meets one: 0.3 s where pandas happens
    to be installed, a third of a small command. Commands hand it no Series. Who asks for a data frame still gets it:
    ``to_pandas`` and ``Table.from_pandas`` look again, and so does ``import pandas``.

    matplotlib writes all settings into the signature and the help text of every class that it defines: 0.15 s. Its list
    of fonts goes into the cache.

    For commands only: in a process of the user's, both behave as ever.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _without_pandas(pyarrow: Any) -> None:
    if "pandas" in sys.modules:
        return
    refusal = _NoPandas()
    sys.meta_path.insert(0, refusal)
    try:
        pyarrow.array([])  # looks for pandas, once
    finally:
        sys.meta_path.remove(refusal)


def _without_help(artist: Any) -> None:
    artist.kwdoc = lambda _: ""
    artist.Artist._update_set_signature_and_docstring = classmethod(lambda _: None)


_AFTER: dict[str, Callable[[Any], None]] = {"pyarrow": _without_pandas, "matplotlib.artist": _without_help}


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out here", name=name)
        return None


class _Finder(MetaPathFinder):
    """Finds what the finder of paths finds; what is in ``_AFTER`` is changed once it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "matplotlib":
            keep_fonts()
        if name not in _AFTER:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _AFTER[name])
        return spec


class _Loader(Loader):
    """A module's own loader, and a change after it."""

    def __init__(self, loader: Loader, change: Callable[[Any], None]) -> None:
        self.loader, self.change = loader, change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader  # for whoever asks the module for its files later
        self.loader.exec_module(module)
        self.change(module)

"""Leagues: who competes with whom. The meta-learning league must learn from nothing.

It is judged by what a submission brings along, reads and does, not by what its text mentions. Before it runs its files
are looked at: there are no saved weights among them, by name, by content or written out in the code. While it runs
there is no network and the weights among the installed packages cannot be read; who asks for either has broken the
rule and is told so, and a function with a pre-trained branch that is never called has not.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal, TypeAlias

from longshot.arena.inside.shipped import parsed
from longshot.arena.inside.shipped import shipped_weights as shipped_weights

# The last three are declared by the team and allow any backbone.
League: TypeAlias = Literal["free-style", "meta-learning", "new-in-ml", "women", "rarely-represented-country"]
FREE: League = "free-style"
META: League = "meta-learning"
_PRETRAINED = {"pretrained", "weights"}  # keyword arguments of model makers
_LOADERS = {
    "load_state_dict_from_url",
    "load_url",
    "from_pretrained",
    "hf_hub_download",
    "download_url_to_file",
}


def mentions(folder: Path) -> list[str]:
    """Lines that ask for pre-trained weights, should they ever run: for the participant to look at, no findings."""
    return [
        f"{path.relative_to(folder).as_posix()}:{line} {asks}"
        for path in sorted(folder.rglob("*.py"))
        if path.is_file()
        for line, asks in _requests(path)
    ]


def _requests(path: Path) -> list[tuple[int, str]]:
    """(line, text) for calls that ask for pre-trained weights."""
    requests = []
    for node in parsed(path):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _LOADERS:
            requests.append((node.lineno, f"calls {name}"))
        for keyword in node.keywords:
            value = keyword.value
            plain = isinstance(value, ast.Constant) and not value.value
            # weights= is also the name of a list of numbers: only a text or a member of an enumeration is a network's.
            telling = keyword.arg == "pretrained" or (
                isinstance(value, ast.Attribute)
                or (isinstance(value, ast.Constant) and isinstance(value.value, str))
            )
            if keyword.arg in _PRETRAINED and not plain and telling:
                requests.append((node.lineno, f"asks for {keyword.arg}={ast.unparse(value)[:40]}"))
    return requests

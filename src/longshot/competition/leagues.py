"""Leagues: who competes with whom. The meta-learning league must learn from nothing, which is checked in the code.

The static check finds what an honest participant overlooked and most of what a careless one hides. At run time
there is no network and the weights among the installed packages cannot be read, so nothing is left to load.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal

from longshot.competition.sandbox import WEIGHTS

# The last three are declared by the team and allow any backbone.
League = Literal["free-style", "meta-learning", "new-in-ml", "women", "rarely-represented-country"]
FREE: League = "free-style"
META: League = "meta-learning"
MAX_FILE = 1 << 20  # bytes of one file in the meta-learning league: source and small tables, no weights
MAX_ALL = 4 << 20
_PRETRAINED = {"pretrained", "weights"}  # keyword arguments of model makers
_LOADERS = {
    "load_state_dict_from_url",
    "load_url",
    "from_pretrained",
    "hf_hub_download",
    "download_url_to_file",
}


def shipped_weights(folder: Path) -> list[str]:
    """What in a submission breaks the rule of the meta-learning league: one text per finding, none when it is clean."""
    findings, total = [], 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        total += size
        if path.suffix.lower() in WEIGHTS:
            findings.append(f"{name} looks like saved weights")
        elif size > MAX_FILE:
            findings.append(
                f"{name} has {size / 2**20:.1f} MB, at most {MAX_FILE >> 20} are allowed in this league"
            )
        elif path.suffix == ".py":
            findings += [f"{name}:{line} {finding}" for line, finding in _in_code(path)]
    if total > MAX_ALL:
        findings.append(
            f"it has {total / 2**20:.1f} MB in all, at most {MAX_ALL >> 20} are allowed in this league"
        )
    return findings


def _in_code(path: Path) -> list[tuple[int, str]]:
    """(line, finding) for calls that ask for pre-trained weights."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # the import will say what is wrong with it
    findings = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _LOADERS:
            findings.append((node.lineno, f"calls {name}"))
        for keyword in node.keywords:
            value = keyword.value
            plain = isinstance(value, ast.Constant) and not value.value
            # weights= is also the name of a list of numbers: only a text or a member of an enumeration is a network's.
            telling = keyword.arg == "pretrained" or (
                isinstance(value, ast.Attribute)
                or (isinstance(value, ast.Constant) and isinstance(value.value, str))
            )
            if keyword.arg in _PRETRAINED and not plain and telling:
                findings.append((node.lineno, f"asks for {keyword.arg}={ast.unparse(value)[:40]}"))
    return findings

"""Leagues: who competes with whom. The meta-learning league must learn from nothing.

It is judged by what a submission brings along, reads and does, not by what its text mentions. Before it runs its files
are looked at: there are no saved weights among them, by name, by content or written out in the code. While it runs
there is no network and the weights among the installed packages cannot be read; who asks for either has broken the
rule and is told so, and a function with a pre-trained branch that is never called has not.
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Literal

from longshot.competition.sandbox import WEIGHTS

# The last three are declared by the team and allow any backbone.
League = Literal["free-style", "meta-learning", "new-in-ml", "women", "rarely-represented-country"]
FREE: League = "free-style"
META: League = "meta-learning"
MAX_FILE = 1 << 20  # bytes of one file in the meta-learning league: source and small tables, no weights
MAX_ALL = 4 << 20
MAX_BINARY = 64 << 10  # bytes of a file that is no text, and of one literal in the code
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
        elif size > MAX_BINARY and not _is_text(path):
            findings.append(
                f"{name} has {size >> 10} KB that are no text, at most {MAX_BINARY >> 10} are allowed in this league"
            )
        elif path.suffix == ".py":
            findings += [f"{name}:{line} {finding}" for line, finding in _literals(path)]
    if total > MAX_ALL:
        findings.append(
            f"it has {total / 2**20:.1f} MB in all, at most {MAX_ALL >> 20} are allowed in this league"
        )
    return findings


def mentions(folder: Path) -> list[str]:
    """Lines that ask for pre-trained weights, should they ever run: for the participant to look at, no findings."""
    return [
        f"{path.relative_to(folder).as_posix()}:{line} {asks}"
        for path in sorted(folder.rglob("*.py"))
        if path.is_file()
        for line, asks in _requests(path)
    ]


def _is_text(path: Path) -> bool:
    data = path.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _parsed(path: Path) -> list[ast.AST]:
    """The nodes of a file's code; none where it is no Python: its import will say what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _literals(path: Path) -> list[tuple[int, str]]:
    """(line, finding) for texts and bytes in code that are as long as weights."""
    findings = []
    for node in _parsed(path):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str | bytes)
            and len(node.value) > MAX_BINARY
        ):
            findings.append((node.lineno, f"holds a literal of {len(node.value) >> 10} KB"))
    return findings


def _requests(path: Path) -> list[tuple[int, str]]:
    """(line, text) for calls that ask for pre-trained weights."""
    requests = []
    for node in _parsed(path):
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

"""Weights that come along with a submission: by name, by content, or written out in the code."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

from .league import WEIGHTS

MAX_FILE = 1 << 20  # bytes of one file in the meta-learning league: source and small tables, no weights
MAX_ALL = 4 << 20
MAX_BINARY = 64 << 10  # bytes of a file that is no text, and of one literal in the code


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


def _is_text(path: Path) -> bool:
    data = path.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def parsed(path: Path) -> list[ast.AST]:
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
    for node in parsed(path):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str | bytes)
            and len(node.value) > MAX_BINARY
        ):
            findings.append((node.lineno, f"holds a literal of {len(node.value) >> 10} KB"))
    return findings

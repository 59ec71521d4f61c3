"""The meta-learning league while a submission runs: who asks for the network, or for weights outside, breaks its rule.

Python reports such requests to an audit hook before they are made, whatever function they come from: a pre-trained flag
that runs ends here, and one that is never reached does not. The walls hold without it (there is no network, and those
weights cannot be read); this says plainly what happened, also where the submission catches the error and goes on.

Before it runs, its files are weighed: weights may come along in any file, name, comment or literal, but not in
few bytes.
"""

from __future__ import annotations

import ast
import lzma
import os
import stat
import sys
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors", ".onnx", ".h5", ".hdf5", ".npz", ".pkl", ".bin", ".tflite")
LARGE = 1 << 20  # bytes; a smaller file in a package is a test fixture or a table, hardly a network
LOCAL = ("localhost", "ip6-localhost", "127.", "::1", "0.0.0.0", "box")
RULE = "the meta-learning league learns from nothing, but it asked for"
# Bytes that everything in an archive of the meta-learning league may have, names, comments and literals included: as it
# is, and compressed. What is compressed can hold no more weights than it has bytes, however they are written.
MAX_ALL = 4 << 20
MAX_COMPRESSED = 64 << 10


class RuleBroken(RuntimeError):
    """Raised where the request is made."""


class Watch:
    """The first request that broke the rule, if any."""

    def __init__(self, submission: str, closed: Iterable[str] = ()) -> None:
        """Watch a submission; ``closed`` are real paths of weights that are not covered and cannot be read."""
        self.submission, self.broken, self.closed = f"{submission}/", "", frozenset(closed)
        sys.addaudithook(self._look)

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "urllib.Request", "socket.getaddrinfo", "socket.connect"):
            return
        request = _request(event, arguments, self.closed)
        if request:
            where = self._where()
            self.broken = self.broken or f"{where}{RULE} {request}"
            raise RuleBroken(f"{RULE} {request}")

    def _where(self) -> str:
        """Return the submission's own line that led here."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.submission):
                return f'File "{name.removeprefix(self.submission)}", line {frame.f_lineno}: '
            frame = frame.f_back
        return ""


def _request(event: str, arguments: tuple[Any, ...], closed: frozenset[str]) -> str:
    """Say what is asked for that the league does not allow; empty where it is nothing of the kind."""
    if event == "open":
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes | os.PathLike) else ""
        if path.lower().endswith(WEIGHTS) and (_covered(path) or os.path.realpath(path) in closed):
            return f"the weights {path}"
        return ""
    if event == "urllib.Request":
        url = str(arguments[0])
        return "" if url.startswith(("file:", "data:")) else url
    host = arguments[0]
    if event == "socket.connect":
        # a name in the file system is local
        host = arguments[1][0] if isinstance(arguments[1], tuple) else None
    host = os.fsdecode(host) if isinstance(host, str | bytes) else ""
    return "" if not host or host.startswith(LOCAL) else f"the host {host}"


def _covered(path: str) -> bool:
    """Tell whether the walls show nothing in place of a file."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)  # noqa: PTH116 – in a hook, the fewer calls the better
    except OSError:
        return False


def compressed_size(texts: Iterable[bytes]) -> int:
    """Return the bytes of all texts together, compressed as well as LZMA can."""
    packer = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 4}])
    return sum(len(packer.compress(text)) for text in texts) + len(packer.flush())


def shipped_weights(folder: Path) -> list[str]:
    """List what in a submission breaks the rule of the meta-learning league: one text per finding."""
    paths = sorted(folder.rglob("*"))
    names = {path: path.relative_to(folder).as_posix() for path in paths}
    files = [path for path in paths if path.is_file()]
    findings = [f"{names[path]} looks like saved weights" for path in files if path.suffix.lower() in WEIGHTS]
    total = sum(path.stat().st_size for path in files)
    if total > MAX_ALL:
        return [
            *findings,
            f"it has {total / 2**20:.1f} MB in all, at most {MAX_ALL >> 20} are allowed in this league",
        ]
    content = {path: path.read_bytes() for path in files}
    size = compressed_size(
        [*(name.encode("utf-8", "surrogateescape") for name in names.values()), *content.values()]
    )
    if size > MAX_COMPRESSED:
        largest = max(files, key=lambda path: len(zlib.compress(content[path])))
        findings.append(
            f"everything in it has {size / 1024:,.1f} KB compressed, at most {MAX_COMPRESSED >> 10} are allowed in "
            f"this league, and {names[largest]} alone has {compressed_size([content[largest]]) / 1024:,.1f}"
        )
    return findings


def parsed(path: Path) -> list[ast.AST]:
    """Return the nodes of a file's code; none where it is no Python: its import will say what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []

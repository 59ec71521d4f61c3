"""The meta-learning league while a submission runs: who asks for the network, or for weights outside, breaks its rule.

Python reports such requests to an audit hook before they are made, whatever function they come from: a pre-trained flag
that runs ends here, and one that is never reached does not. The walls hold without it (there is no network, and those
weights cannot be read); this says plainly what happened, also where the submission catches the error and goes on.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

WEIGHTS = (".pt", ".pth", ".ckpt", ".safetensors", ".onnx", ".h5", ".hdf5", ".npz", ".pkl", ".bin", ".tflite")
LARGE = 1 << 20  # bytes; a smaller file in a package is a test fixture or a table, hardly a network
LOCAL = ("localhost", "ip6-localhost", "127.", "::1", "0.0.0.0", "box")
RULE = "the meta-learning league learns from nothing, but it asked for"


class RuleBroken(RuntimeError):
    """Raised where the request is made."""


class Watch:
    """The first request that broke the rule, if any."""

    def __init__(self, submission: str, closed: Iterable[str] = ()) -> None:
        """``closed``: real paths of weights that cannot be read, beside those that are covered."""
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
        """The submission's own line that led here."""
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.submission):
                return f'File "{name.removeprefix(self.submission)}", line {frame.f_lineno}: '
            frame = frame.f_back
        return ""


def _request(event: str, arguments: tuple[Any, ...], closed: frozenset[str]) -> str:
    """What is asked for that the league does not allow; empty where it is nothing of the kind."""
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
        host = (
            arguments[1][0] if isinstance(arguments[1], tuple) else None
        )  # a name in the file system is local
    host = os.fsdecode(host) if isinstance(host, str | bytes) else ""
    return "" if not host or host.startswith(LOCAL) else f"the host {host}"


def _covered(path: str) -> bool:
    """Whether the walls show nothing in place of a file."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)  # noqa: PTH116 – in a hook, the fewer calls the better
    except OSError:
        return False

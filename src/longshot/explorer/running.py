"""What every server of this machine shares: an address to listen on, the names it answers under, a thread, an end."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Sequence
from typing import Any

from longshot.base import UserError

_TRIED = 100  # ports, one after the other
# what uvicorn is told by every server
QUIET: dict[str, Any] = {"log_level": "error", "access_log": False, "lifespan": "off", "server_header": False}


class RunningServer:
    """A server that answers in a thread of its own.

    Parameters
    ----------
    url : str
        Its address.
    server : Any
        uvicorn's.
    thread : Thread
        Where it runs.
    """

    patience = 10.0  # seconds that answers under way have at the end

    def __init__(self, url: str, server: Any, thread: threading.Thread) -> None:
        self.url = url
        self._server, self._thread = server, thread

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def running(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive() and not self._server.should_exit

    def wait(self) -> None:
        """Until it is closed or interrupted."""
        with contextlib.suppress(KeyboardInterrupt):
            while self._thread.is_alive():
                self._thread.join(1.0)
        self.close()

    def close(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        self._thread.join(self.patience)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """A host as addresses have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def own_hosts(host: str, port: int, names: Sequence[str]) -> set[str]:
    """``name:port`` under which it answers; names behind a proxy also without the port that browsers leave out."""
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", in_url(host))}
    return own | set(names) | {f"{name}:{port}" for name in names if ":" not in name}


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on the port, or on the next one that is free; nobody is driven away."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(port, min(port + _TRIED, 65536)):
        # With the protocol named, asyncio sends what it has at once; else a body waits 40 ms for the word that its
        # headers arrived.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
            return listening
        except PermissionError as error:
            listening.close()
            raise UserError(f"Port {number} is not open to you", "choose a {port} above 1023") from error
        except OSError as error:
            listening.close()
            if getattr(error, "errno", None) not in (98, 48, 10048):  # in use: Linux, macOS, Windows
                raise UserError(
                    f"Cannot listen on {host}: {error.strerror or error}", "choose another {host}"
                ) from error
    raise UserError(f"No port from {port} to {port + _TRIED - 1} is free", "choose another {port}")

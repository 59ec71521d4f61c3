"""What every server of this machine shares: an address and a thread, and a guard that every request passes first."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from longshot.base import UserError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "longshot"
# Plots and bars carry style attributes; style sheets and scripts are files of this server, and nothing else is.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors {frames}"
)
_READING = frozenset(("GET", "HEAD"))
_WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
_LOCAL_FRAMES = "http://localhost:* http://127.0.0.1:*"


class Guard:
    """Refuses what does not come from a page of this server or its reader; adds the headers that browsers obey.

    Parameters
    ----------
    app : ASGI application
        What answers the rest.
    hosts : set of str
        ``name:port`` under which the server may be asked; the address that a connection arrived at is always one,
        where ``any_address`` is set.
    token : str, optional
        Without it nothing is shown: ``?token=…`` once, then a cookie; or ``Authorization: Bearer …``.
    framed : bool
        Whether pages of this machine (a notebook) may show it in a frame.
    writes : bool
        Whether requests may change something: then POST, PUT, PATCH and DELETE are taken too, and refused where a
        browser says that another site sends them.
    """

    def __init__(
        self,
        app: App,
        hosts: set[str],
        *,
        token: str | None = None,
        framed: bool = False,
        any_address: bool = False,
        writes: bool = False,
    ) -> None:
        self.app, self.hosts, self.any_address = app, {host.lower() for host in hosts}, any_address
        self.methods = _READING | _WRITING if writes else _READING
        self.token = token
        # The cookie holds a hash, so that the token itself is in no file of the browser.
        self.cookie = None if token is None else hashlib.sha256(f"longshot {token}".encode()).hexdigest()
        policy = _POLICY.format(frames=_LOCAL_FRAMES if framed else "'none'")
        self.headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            # Without a referrer a browser's forms say "Origin: null", which is refused below.
            (b"referrer-policy", b"same-origin" if writes else b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            *([] if framed else [(b"x-frame-options", b"DENY")]),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        refusal = self._refused(scope, headers)
        if refusal is not None:
            await self._answer(send, *refusal)
        elif self.token is not None and not self._may_enter(headers):
            await self._ask_for_token(scope, send)
        else:
            await self.app(scope, receive, self._guarded(send))

    def _refused(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Return status and sentence for a request that is refused; None for one that is answered."""
        hosts = [host.lower() for host in headers.get("host", [])]
        if len(hosts) != 1 or not self._is_own(hosts[0], scope):
            return 421, "This server does not answer under that name. Open the address that it printed."
        if scope["method"] not in self.methods:
            if self.methods == _READING:
                return 405, "This server only shows: it takes GET and HEAD."
            return 405, f"This server takes {', '.join(sorted(self.methods))}."
        origins = headers.get("origin", [])
        if any(origin.split("://", 1)[-1].lower() != hosts[0] for origin in origins):
            return 403, "A page of another site may not read this server."
        site, mode = headers.get("sec-fetch-site", [""])[0], headers.get("sec-fetch-mode", [""])[0]
        if site in ("cross-site", "same-site") and mode != "navigate":
            return 403, "A page of another site may not read this server."
        if scope["method"] in _WRITING and site not in ("", "same-origin"):
            return 403, "A page of another site may not change anything here."
        return None

    def _is_own(self, host: str, scope: Scope) -> bool:
        server = scope.get("server")
        if self.any_address and server:
            name = f"[{server[0]}]" if ":" in server[0] else server[0]
            if host == f"{name}:{server[1]}":
                return True
        return host in self.hosts

    def _may_enter(self, headers: dict[str, list[str]]) -> bool:
        assert self.token is not None and self.cookie is not None
        for value in headers.get("authorization", []):
            if hmac.compare_digest(value.encode(), f"Bearer {self.token}".encode()):
                return True
        jar: SimpleCookie = SimpleCookie()
        for value in headers.get("cookie", []):
            try:
                jar.load(value)
            except CookieError:
                continue
        return COOKIE in jar and hmac.compare_digest(jar[COOKIE].value.encode(), self.cookie.encode())

    async def _ask_for_token(self, scope: Scope, send: Send) -> None:
        """Let in who brings the token in the address, and take it out of the address at once."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in pairs if name == "token"]
        assert self.token is not None
        if not any(hmac.compare_digest(value.encode(), self.token.encode()) for value in tokens):
            await self._answer(
                send, 401, "This server needs the token that it was started with: …/?token=TOKEN"
            )
            return
        remaining = urlencode([(name, value) for name, value in pairs if name != "token"])
        target = scope["path"].replace("//", "/") + (f"?{remaining}" if remaining else "")
        cookie = f"{COOKIE}={self.cookie}; HttpOnly; SameSite=Strict; Path=/"
        more = [(b"location", target.encode("utf-8", "replace")), (b"set-cookie", cookie.encode())]
        await self._answer(send, 303, "", more)

    async def _answer(
        self, send: Send, status: int, text: str, more: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
        start = {"type": "http.response.start", "status": status, "headers": headers + (more or [])}
        guarded = self._guarded(send)
        await guarded(start)
        await guarded({"type": "http.response.body", "body": text.encode()})

    def _guarded(self, send: Send) -> Send:
        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                names = {name.lower() for name, _ in own}
                own += [header for header in self.headers if header[0] not in names]
                if b"cache-control" not in names:
                    own.append((b"cache-control", b"no-cache"))
                message["headers"] = own
            await send(message)

        return with_headers


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
        """Tell whether it still answers."""
        return self._thread.is_alive() and not self._server.should_exit

    def wait(self) -> None:
        """Wait until it is closed or interrupted."""
        with contextlib.suppress(KeyboardInterrupt):
            while self._thread.is_alive():
                self._thread.join(1.0)
        self.close()

    def close(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        self._thread.join(self.patience)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """Write a host as addresses have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def own_hosts(host: str, port: int, names: Sequence[str]) -> set[str]:
    """List each ``name:port`` that it answers to; names behind a proxy also without the port."""
    own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", in_url(host))}
    return own | set(names) | {f"{name}:{port}" for name in names if ":" not in name}


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket on the port, or on the next one that is free."""
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

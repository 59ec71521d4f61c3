"""A competition's server, from the machine that has its folder: serve it, invite people, see what they sent.

It listens on a port of this machine, behind a proxy with TLS or with its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longshot.base import LockBusy, UserError, file_lock
from longshot.explorer import QUIET, RunningServer, in_url, is_loopback, listen, own_hosts

PORT = 8430


class CompetitionServer(RunningServer):
    """A running competition server. Made by :func:`serve_competition`.

    Parameters
    ----------
    url : str
        Its address.
    server, thread, built, stack
        What answers, where it runs, what belongs to it, and what to give back at the end.

    Examples
    --------
    >>> import longshot
    >>> longshot.competition.create("served-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> server = longshot.serve_competition("served-cup")
    >>> server.url.startswith("http://127.0.0.1:84"), server.invitation.startswith(server.url)
    (True, True)
    >>> server.running
    True
    >>> server.close()
    """

    patience = 15.0

    def __init__(
        self, url: str, server: Any, thread: threading.Thread, built: Any, stack: contextlib.ExitStack
    ) -> None:
        super().__init__(url, server, thread)
        self.port = 0
        self._built, self._stack = built, stack
        self.invitation = ""  # a link for the first organiser, where there is none
        self.notes: list[str] = []  # what an organiser should know before anybody comes

    def close(self) -> None:
        """Stop answering; what is queued stays queued."""
        super().close()
        self._stack.close()


def serve_competition(
    folder: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    names: Sequence[str] = (),
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    rates: Any = None,
) -> CompetitionServer:
    """Let people take part in the competition in ``folder`` from anywhere.

    Accounts, teams, submissions and boards are pages and an API; workers on any machine fetch runs with a token of
    their own ('longshot compete work ADDRESS'). Where there is no organiser yet, an invitation link for the first is
    given.

    Parameters
    ----------
    folder : path
        The competition's folder.
    host : str
        Address to listen on; others need TLS. That is a ``certificate``, or ``names`` behind a proxy.
    port : int, 1 to 65535
        Port, or the next free one.
    names : NAME, list of str
        Name that browsers reach it by, behind a proxy with TLS; repeatable. Such as ``cup.example.org``.
    certificate : path, optional
        TLS certificate in PEM, without a proxy.
    key : path, optional
        Its key.
    rates : Rates, optional
        How often anybody may ask; see ``longshot.arena.server.rate_limits``.

    Returns
    -------
    CompetitionServer
        ``url`` is the address, ``invitation`` a link for the first organiser, ``notes`` what to mend before anybody
        comes, as phases without dates; ``close()`` ends it, ``wait()`` lets it run.

    Examples
    --------
    >>> import longshot
    >>> longshot.competition.create("open-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> server = longshot.serve_competition("open-cup", port=8430)
    >>> server.running
    True
    >>> server.close()
    """
    try:
        import uvicorn

        from longshot.arena import entry_rules
        from longshot.arena.server import people, uploads
        from longshot.arena.server.competition_app import PatientProtocol, build_server
        from longshot.arena.settings import load
    except ModuleNotFoundError as error:
        raise UserError(
            f"The competition server needs {error.name}, which is not installed",
            "pip install 'longshot[compete]'",
        ) from error
    if (certificate is None) != (key is None):
        raise UserError("TLS needs both a certificate and its key", "give {certificate} and {key}")
    local, tls = is_loopback(host), certificate is not None
    if not (local or tls or names):
        raise UserError(
            f"{{host:{host}}} lets other machines in, and passwords would go over the network as they are",
            "give {certificate:FILE} and {key:FILE}, or {names} where a proxy with TLS stands before it",
        )
    load(Path(folder))  # says what is wrong with it before anything is made
    stack = contextlib.ExitStack()
    try:
        try:
            stack.enter_context(file_lock(Path(folder) / ".server.lock", wait=False))
        except LockBusy as error:
            raise UserError(
                f"The competition in {folder} is served already", "end the other server first"
            ) from error
        listening = stack.enter_context(contextlib.closing(listen(host, port)))
        bound = int(listening.getsockname()[1])
        hosts = own_hosts(host, bound, names)
        built = build_server(Path(folder), hosts, rates=rates, any_address=not local)
        stack.callback(built.stop)
        config = uvicorn.Config(
            built.app,
            http=PatientProtocol,
            **QUIET,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
            proxy_headers=bool(names),
            forwarded_allow_ips="127.0.0.1,::1",
            ssl_certfile=None if certificate is None else os.fspath(certificate),
            ssl_keyfile=key,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=lambda: server.run(sockets=[listening]), name="longshot-competition", daemon=True
        )
        own = f"{'https' if tls else 'http'}://{in_url(host)}:{bound}/"
        url = f"https://{names[0]}/" if names else own
        running = CompetitionServer(url, server, thread, built, stack)
        running.port = bound
        running.notes = entry_rules.undated(built.context.competition)
        uploads.reopen_checks(built.context)
        invitation = people.first_organiser(built.context)
        running.invitation = f"{url}register?code={invitation.code}" if invitation else ""
        thread.start()
        return running
    except BaseException:
        stack.close()
        raise


class Invited(NamedTuple):
    """What somebody needs to come in, shown once."""

    secret: str  # the code of an invitation, or the token of a worker
    use: str  # what to do with it
    expires: str  # UTC


def invite(
    folder: str | Path, *, role: str = "participant", name: str = "worker", days: int | None = None
) -> Invited:
    """Let somebody into the competition's server, from the machine that has its folder.

    Parameters
    ----------
    folder : str or Path
        The competition's folder.
    role : {"participant", "organiser", "worker"}
        What it is for. A participant or organiser gets a code for one account, a worker a token for a machine.
    name : str
        Name of a worker.
    days : int, optional
        How long it lasts. Default: 14 for codes, and what the competition allows for tokens.

    Returns
    -------
    Invited
        The secret, which is kept nowhere, and what to do with it.

    Examples
    --------
    >>> import longshot.arena as competition
    >>> competition.create("private-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> competition.invite("private-cup", role="worker").secret[:9]
    'longshot_'
    """
    from longshot.arena.server import credentials, people
    from longshot.arena.server.server_context import ServerContext

    with ServerContext(Path(folder)) as context:
        if role == "worker":
            token = credentials.create_worker_token(context, people.HOST, name=name, days=days)
            use = f"a worker's token until {token.expires} UTC: longshot compete work with it and the server"
            return Invited(token.token, use, token.expires)
        lasting = people.INVITED_DAYS if days is None else days
        invitation = people.invite(context, people.HOST, role=role, days=lasting)
        use = f"a code for one {role} until {invitation.expires} UTC: open /register?code=CODE on the server"
        return Invited(invitation.code, use, invitation.expires)

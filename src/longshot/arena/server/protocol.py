"""Connections that begin a request and never end it are closed: a slow client holds nothing for long."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

WAIT = (
    20.0  # seconds that the headers of a request may take; how long a connection may idle is uvicorn's to say
)
_LOOK = 2.0


class PatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to waiting for headers."""

    wait = WAIT

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look after the connection."""
        super().connection_made(transport)
        self._waiting_since: float | None = time.monotonic()
        self._watch: Any = self.loop.call_later(_LOOK, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to look after."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        begun = (
            len(self.conn._receive_buffer) > 0 or self.cycle is None
        )  # half a request, or nothing since the start
        if begun and self.conn.their_state is h11.IDLE:
            now = time.monotonic()
            self._waiting_since = self._waiting_since or now
            if now - self._waiting_since > self.wait:
                self.transport.close()
                return
        else:
            self._waiting_since = None
        self._watch = self.loop.call_later(_LOOK, self._look)

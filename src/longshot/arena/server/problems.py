"""Mistakes as problem+json: the sentence that the command line prints, with what a program needs to word it itself."""

from __future__ import annotations

import json
import sys
import traceback
from http import HTTPStatus
from typing import Any

import sqlalchemy as sa
from starlette.responses import Response

from longshot.arena.policy import Refusal
from longshot.arena.server.openapi import PROBLEM
from longshot.base import UserError


class WebFace:
    """Parameters as people see them on a page: by their names."""

    def parameter(self, name: str, value: str | None) -> str:
        words = name.replace("_", " ")
        return words if value is None else f"{words} {value}"

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        words = ["longshot", *name.replace("competition.", "compete ").replace("_", "-").split(), *arguments]
        return f"'{' '.join(words)}'"


FACE = WebFace()


def sentence(error: UserError) -> str:
    """The sentence of a mistake as the server words it."""
    return error.render(FACE)


def status_of(error: UserError) -> int:
    """HTTP's number for a mistake: 422 for what is wrong with what was sent."""
    return error.status if isinstance(error, Refusal) else 422


def as_refusal(error: Exception) -> UserError:
    """Any exception as one that can be told; what nobody foresaw is printed for the organiser and told as such."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError):
        print(f"the database: {error}", file=sys.stderr)
        return Refusal(503, "The competition's database does not answer", "try again in a moment", retry=2.0)
    if isinstance(error, OSError) and error.errno == 28:
        return Refusal(503, "The server's disk is full; nothing is lost", "try again later", retry=60.0)
    print("".join(traceback.format_exception(error)), file=sys.stderr)
    return Refusal(500, f"The server made a mistake ({type(error).__name__}); it goes on.")


def problem(error: UserError) -> Response:
    """The answer to a request that was not carried out."""
    status = status_of(error)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": sentence(error),
        "fact": error.fact,
        "remedy": error.remedy,
    }
    headers = {"cache-control": "no-store"}
    if isinstance(error, Refusal) and error.retry:
        headers["retry-after"] = f"{max(1, round(error.retry))}"
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="longshot"'
    text = json.dumps(body, ensure_ascii=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, headers, PROBLEM)

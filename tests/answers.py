"""What a server answered to a request, as tests look at it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Status, headers by their names in small letters, body, and every cookie that was set."""

    status: int
    headers: dict[str, str]
    body: bytes
    cookies: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, response: HTTPResponse) -> Answer:
        """All of a response."""
        pairs = response.getheaders()
        return cls(
            response.status,
            {name.lower(): value for name, value in pairs},
            response.read(),
            [value for name, value in pairs if name.lower() == "set-cookie"],
        )

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """The sentence of a refusal."""
        return str(self.json["detail"])

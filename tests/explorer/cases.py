"""What tests that walk over every verb and command have to know of this wing (see ``tests/wings.py``)."""

from __future__ import annotations

from typing import Any

import longshot
from remedies import Mistake


def _served(**settings: Any) -> None:
    longshot.serve(".", port=0, **settings).close()


MISTAKES = [Mistake("token", _served, (), {"host": "0.0.0.0"}, {"TEXT": "a-long-secret-token"})]

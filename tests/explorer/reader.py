"""A browser window on the explorer, which may also wait for what a live page comes to say."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from browsing import SCREENS, Window

from .conftest import Client

__all__ = ["SCREENS", "Reader", "reading"]


class Reader(Window):
    """A window on the explorer of a client."""

    def __init__(self, browser: Any, client: Client, screen: str) -> None:
        super().__init__(browser, f"http://127.0.0.1:{client.port}", screen)

    def wait_for(self, pattern: str, seconds: float = 240.0) -> str:
        """The text of the page once it matches; nothing is loaded again from here."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            text = str(self.page.locator("body").inner_text())
            if re.search(pattern, text):
                return text
            self.page.wait_for_timeout(200)
        raise AssertionError(f"{pattern!r} did not appear: {text[:600]}")


@contextmanager
def reading(browser: Any, client: Client, screen: str = "desktop") -> Iterator[Reader]:
    """A window that is closed afterwards."""
    window = Reader(browser, client, screen)
    try:
        yield window
    finally:
        window.context.close()

"""A browser window that notes everything said and asked for, and what holds for every page."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from .conftest import Client

SCREENS = {
    "desktop": (1280, "light"),
    "phone": (390, "dark"),
    "desktop-dark": (1280, "dark"),
    "phone-light": (390, "light"),
}
MOST_ELEMENTS = 1500


class Reader:
    """A browser window that notes everything said and asked for."""

    def __init__(self, browser: Any, client: Client, screen: str) -> None:
        width, scheme = SCREENS[screen]
        self.base, self.width = f"http://127.0.0.1:{client.port}", width
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        # A violation of the policy is an error on the console too; this names the directive.
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error('policy: ' + e.violatedDirective))"
        )

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)
        self.page.wait_for_load_state("networkidle")

    def violations(self) -> list[str]:
        """What axe-core finds wrong with names, roles and contrast."""
        script = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self.page.evaluate(script)
        result = self.page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa']})")
        return [
            f"{rule['id']}: {node['html'][:160]}"
            for rule in result["violations"]
            for node in rule["nodes"][:3]
        ]

    def check(self, path: str) -> None:
        """What holds for every page."""
        self.open(path)
        assert not self.messages, (path, self.messages)
        foreign = [url for url in self.requests if not url.startswith((self.base, "data:"))]
        assert foreign == [], path
        assert self.page.evaluate("document.querySelectorAll('*').length") <= MOST_ELEMENTS, path
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width, path
        assert self.violations() == [], path

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

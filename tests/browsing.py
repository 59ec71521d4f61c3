"""A real browser window that notes everything said and asked for, and what holds for every page."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

SCREENS = {
    "desktop": (1280, "light"),
    "phone": (390, "dark"),
    "desktop-dark": (1280, "dark"),
    "phone-light": (390, "light"),
}
MOST_ELEMENTS = 1500


class Window:
    """One window of the browser on one server.

    Parameters
    ----------
    browser : Any
        Playwright's browser.
    base : str
        Address of the server, without a slash at its end.
    screen : str
        One of ``SCREENS``.
    scripts : bool
        Whether pages may run theirs.
    """

    def __init__(self, browser: Any, base: str, screen: str, *, scripts: bool = True) -> None:
        width, scheme = SCREENS[screen]
        self.base, self.width = base, width
        view = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=view, color_scheme=scheme, java_script_enabled=scripts)
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
        """Show a page, with all that it asks for."""
        self.page.goto(self.base + path)
        self.page.wait_for_load_state("networkidle")

    def arrive(self, part: str) -> None:
        """Wait until a page with ``part`` in its address is there, scripts included: keys before that are lost."""
        for _ in range(1200):
            self.page.wait_for_timeout(50)
            if part in self.page.url and self.page.evaluate("document.readyState") == "complete":
                return
        raise AssertionError(f"the window is still at {self.page.url}, and not at {part}")

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
        self.check_here(path)

    def check_here(self, path: str) -> None:
        """The same of the page that is shown."""
        assert self.messages == [], f"{path}: {self.messages}"
        foreign = [url for url in self.requests if not url.startswith((self.base, "data:"))]
        assert foreign == [], path
        assert self.page.evaluate("document.querySelectorAll('*').length") <= MOST_ELEMENTS, path
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width, path
        assert self.violations() == [], path

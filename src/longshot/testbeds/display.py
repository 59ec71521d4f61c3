"""How a testbed shows itself in a terminal and in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from longshot.core.wording import span
from longshot.testbeds.content import say_identity

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


def as_text(testbed: Testbed) -> str:
    """At most five lines."""
    facts = _facts(testbed)
    return (
        f"Testbed {facts['hash']} ({facts['testbed']}): {facts['tasks']} tasks\n"
        f"  {facts['ways']}-way, {facts['shots']}-shot\n"
        f"  of {facts['datasets']}\n"
        f"  identity: {facts['identity']}"
    )


def as_html(testbed: Testbed) -> str:
    """A table."""
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in _facts(testbed).items()
    )
    return f"<table>{''.join(rows)}</table>"


def _facts(testbed: Testbed) -> dict[str, str]:
    """What a person wants to know at a glance."""
    ways, shots = testbed.table.column("way").to_pylist(), testbed.column("shots").values.tolist()
    return {
        "testbed": testbed.name or "not on disk",
        "tasks": f"{len(testbed):,}",
        "ways": span(ways) if len(ways) else "none",
        "shots": span(shots) if len(shots) else "none",
        "datasets": ", ".join(testbed.datasets),
        "identity": say_identity(testbed.meta["content"]),
        "hash": testbed.content_hash[:12],
    }

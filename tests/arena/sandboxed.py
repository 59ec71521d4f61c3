"""Whether submissions can run here, for tests of pages and notebooks that run some."""

from __future__ import annotations

from longshot.arena import sandbox


def missing_sandbox() -> str | None:
    """Why there is no sandbox on this machine; None where there is one."""
    return sandbox.probe()

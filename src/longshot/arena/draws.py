"""The organiser's secret, from which test tasks follow: a file for the organiser's eyes alone."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from longshot.arena.settings import Competition
from longshot.base import UserError


def read_secret(competition: Competition) -> str:
    """A random text made once and kept with the organiser; test tasks follow from it."""
    return secret_file(competition.folder / "secret")


def secret_file(path: Path) -> str:
    """The text of a secret file, which is made where it is missing; UserError where others may read it."""
    if not path.is_file():
        handle, name = tempfile.mkstemp(prefix=".secret-", dir=path.parent)  # mode 600
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(secrets.token_hex(32))
            out.flush()
            os.fsync(handle)
        with contextlib.suppress(FileExistsError):  # of several that begin at once, one makes it
            os.link(name, path)
        Path(name).unlink()
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise UserError(
            f"The secret {path} has the mode {mode:o}, and others than its owner may not read it",
            f"close it with 'chmod 600 {path}'; what was read meanwhile is no secret any more",
        )
    return path.read_text(encoding="ascii").strip()

"""Units that failed wherever they were tried: told at the end, and left out until they are to be tried again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from longshot.base.errors import UserError
from longshot.base.files import write_json
from longshot.base.wording import count

TRIES = 3  # of a unit, on other machines where there are some


class UnitsFailed(UserError):
    """Some units failed on every try; all others are finished and kept. The command line exits with code 3."""

    exit_code = 3

    def __init__(self, failed: Mapping[Any, str], state: str = "finished work is kept") -> None:
        self.failed = {str(key): reason for key, reason in failed.items()}
        shown = "; ".join(f"{key}: {reason}" for key, reason in list(self.failed.items())[:3])
        more = f"; and {len(failed) - 3:,} more" if len(failed) > 3 else ""
        super().__init__(
            f"{count(len(failed), 'unit')} of work failed {TRIES} times, and went without ({shown}{more}); {state}",
            "mend the cause and call again with {retry_failed:True}",
        )

    def __reduce__(self) -> Any:
        return UnitsFailed, (self.failed,)


class FailureList:
    """The units of a folder that failed for good: a JSON file of unit → reason."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """Unit → why it failed; nothing where the file is missing or damaged."""
        if self.path is None:
            return {}
        try:
            listed = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(key): str(reason) for key, reason in listed.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def write(self, failed: Mapping[str, str]) -> None:
        """Keep the list; an empty one removes the file."""
        if self.path is None:
            return
        if failed:
            write_json(self.path, dict(sorted(failed.items())))
        else:
            self.path.unlink(missing_ok=True)

    def skipped(self, keys: Iterable[str], *, retry: bool) -> dict[str, str]:
        """Those of ``keys`` that failed before and are not to be tried again, with their reasons."""
        failed = {} if retry else self.read()
        return {key: failed[key] for key in keys if key in failed}

"""Small datasets on disk. All helpers are fixtures, so that no test file imports another."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def zip_of() -> Callable[..., Path]:
    """Make a zip of everything below a root, under the folder ``top``."""

    def make(root: Path, target: Path, top: str = "") -> Path:
        with zipfile.ZipFile(target, "w") as archive:
            for path in sorted(root.rglob("*")):
                archive.write(path, str(Path(top) / path.relative_to(root)))
        return target

    return make

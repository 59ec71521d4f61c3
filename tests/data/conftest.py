"""Small datasets on disk. All helpers are fixtures, so that no test file imports another."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def save_image() -> Callable[..., None]:
    """Write a small image of one colour."""
    return _save_image


def _save_image(path: Path, colour: tuple[int, int, int] = (200, 30, 60)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 5), colour).save(path)


@pytest.fixture
def zip_of() -> Callable[..., Path]:
    """Make a zip of everything below a root, under the folder ``top``."""

    def make(root: Path, target: Path, top: str = "") -> Path:
        with zipfile.ZipFile(target, "w") as archive:
            for path in sorted(root.rglob("*")):
                archive.write(path, str(Path(top) / path.relative_to(root)))
        return target

    return make

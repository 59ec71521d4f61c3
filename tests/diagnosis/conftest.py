"""One family of toybox: enough classes for any task, few enough images to measure quickly."""

from __future__ import annotations

import pytest

from longshot.data import Dataset, open_dataset, take_branch


@pytest.fixture(scope="session")
def toys() -> Dataset:
    """24 classes of 50 images, with toybox's own attributes."""
    return take_branch(open_dataset("toybox"), "vehicles")

"""Testbeds over the shared photos, drawn once."""

from __future__ import annotations

from pathlib import Path

import pytest

import longshot


@pytest.fixture(scope="session")
def dataset(photos: Path) -> longshot.Dataset:
    return longshot.open_dataset(photos)


@pytest.fixture(scope="session")
def beds(dataset: longshot.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fixed.parquet (200 tasks of one shape) and any.parquet (150 of many shapes)."""
    folder = tmp_path_factory.mktemp("beds")
    fixed, varied = (
        longshot.FixedShape(way=5, shot=3, query=4),
        longshot.AnyShape(max_way=6, max_shot=5, query=5),
    )
    longshot.sample(dataset, tasks=200, shape=fixed, seed=1).save(folder / "fixed.parquet")
    longshot.sample(dataset, tasks=150, shape=varied, seed=2).save(folder / "any.parquet")
    return folder


@pytest.fixture(scope="session")
def features(dataset: longshot.Dataset) -> longshot.Features:
    return longshot.embed(dataset, "pixels", dtype="float32", device="cpu")

"""Testbeds over the shared photos, drawn once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import longshot
from longshot.evaluation.run_record import new_run
from longshot.evaluation.run_stores import RunFolder
from longshot.evaluation.units import Unit

WriteRun = Callable[..., Path]


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


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run whose accuracies are given: ``write_run("old", protonet=[0.5, 0.75])`` on a testbed 'easy'."""

    def write(folder: str, beds: Sequence[str] = ("easy",), **accuracies: Sequence[float]) -> Path:
        store, run = RunFolder(tmp_path / folder), new_run()
        for bed in beds:
            content_hash = f"{bed.encode().hex():0<64}"
            run["testbeds"][content_hash] = {"name": bed, "tasks": len(next(iter(accuracies.values())))}
            for method, values in accuracies.items():
                count = len(values)
                fixed = ("shapes", "net", "f" * 64, method, f"{method}@1", "inductive", 0, 0, count)
                unit = Unit(content_hash, bed, *fixed)
                metrics = ("accuracy", "balanced_accuracy", "normalized_accuracy", "top5", "loss")
                columns: Mapping[str, Sequence[object]] = {
                    "task": range(count),
                    **{metric: list(values) for metric in metrics},
                    "way": [5] * count,
                    "mean_shot": [1.0] * count,
                    "coarsity": [None] * count,
                    "prediction": [[0, 1]] * count,
                }
                store.write(unit, {**columns, "seconds": [0.001] * count})
                run["methods"][method] = {"setting": "inductive", "kind": "frozen"}
                cell = {"testbed": content_hash, "backbone": "net", "method": method, "seed": 0}
                run["cells"].append({**cell, "units": [unit.id]})
        store.save(run)
        return store.path

    return write

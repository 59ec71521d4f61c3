"""Every function that reads a testbed, features or a run takes its URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from longshot.evaluation import write_predictions

fsspec = pytest.importorskip("fsspec", reason="needs the package fsspec")


@pytest.fixture
def shelf(photos: Path, fresh_cache: Path) -> Iterator[Any]:
    """A testbed, features and a run of the photos, in fsspec's memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    longshot.sample(photos, tasks=4, way=3, shot=2, query=2, out="memory://shelf/test.parquet")
    longshot.embed(photos, "pixels").save("memory://shelf/pixels.npy")
    features = longshot.Features.load("memory://shelf/pixels.npy")
    for method in ("protonet", "ridge"):
        longshot.evaluate(
            "memory://shelf/test.parquet", backbones=features, methods=method, out="memory://shelf/run"
        )
    yield system
    system.store.clear()


@pytest.mark.long
def test_every_reader_takes_urls(shelf: Any, photos: Path, tmp_path: Path) -> None:
    bed, run = "memory://shelf/test.parquet", "memory://shelf/run"
    inspection = longshot.inspect(bed, verify=True, html="memory://shelf/bed.html", pictures=0)
    assert inspection.facts["tasks"] == 4 and inspection.name == bed and not inspection.findings
    assert shelf.cat_file("/shelf/bed.html").startswith(b"<!doctype html>")
    assert longshot.report(run, "memory://shelf/report.html") == "memory://shelf/report.html"
    assert b"protonet" in shelf.cat_file("/shelf/report.html")
    assert longshot.compare(run, against="ridge", methods="protonet").pairs
    assert len(longshot.explain(bed, run=run).tasks) == 4
    testbed = longshot.Testbed.load(bed)
    answers = [np.zeros(len(task.query), np.int16) for task in testbed]
    write_predictions("memory://shelf/answers.parquet", testbed, answers)
    scores = longshot.score("memory://shelf/answers.parquet", bed, against=run)
    assert scores.checked and len(scores.paired) == 2
    folder = longshot.release([bed], runs=run, title="By URL", out=tmp_path / "release")
    assert (folder / "testbeds" / "test.parquet").read_bytes() == shelf.cat_file("/shelf/test.parquet")
    split = longshot.make_split(
        photos, divergence=0.5, features="memory://shelf/pixels.npy", out=tmp_path / "s.json"
    )
    assert split
    like = longshot.sample(photos, tasks=4, shape=f"like:{bed}", seed=1)
    assert like.column("query").lengths.tolist() == testbed.column("query").lengths.tolist()

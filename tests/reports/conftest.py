"""Run folders written by hand in the format of ``evaluate``, with known accuracies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from longshot.files import write_json

from .runs import DEFAULT, SCHEMA, Series, draw_testbed, result_rows

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write a run folder and return its path."""

    def make(
        folder: str = "run",
        *,
        tasks: int = 30,
        beds: Mapping[str, bool] | None = None,
        series: Sequence[Series] = DEFAULT,
        names: Sequence[str] = tuple(
            f"solid/{c}" for c in ("ball", "cone", "cube", "disc", "ring", "star", "wedge")
        ),
    ) -> Path:
        path = tmp_path / folder
        (path / "testbeds").mkdir(parents=True)
        parts = []
        for seed, (name, vary) in enumerate((beds or {"fixed": False, "any": True}).items()):
            testbed = draw_testbed(tasks, vary=vary, names=names, seed=seed)
            testbed.save(path / "testbeds" / f"{testbed.content_hash}.parquet")
            for number, one in enumerate(series):
                part = f"part-{seed:03d}-{number:03d}.parquet"
                pq.write_table(
                    pa.Table.from_pylist(result_rows(testbed, name, one, seed), SCHEMA), path / part
                )
                parts.append(part)
        write_json(path / "run.json", {"format": 1, "created": "2026-01-02T03:04:05Z", "longshot": "0.1.0"})
        return path

    return make

"""A real evaluation and a real training that go on, are killed and are resumed while a page is open in a browser."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked import ForkedProcess, ForkServer

import longshot
from longshot.core import heartbeat

from .conftest import Client
from .reader import reading

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """An explorer that takes silent work for dead after three missed beats instead of seven."""
    monkeypatch.setattr(heartbeat, "STALLED", 3 * heartbeat.INTERVAL)
    (tmp_path / "work").mkdir()
    explorer = longshot.serve(tmp_path / "work", port=19420)
    yield Client(explorer)
    explorer.close()


def grow(read: Any, seconds: float = 240.0) -> None:
    """Wait until a number of the page has become larger."""
    first, deadline = read(), time.monotonic() + seconds
    while read() <= first:
        assert time.monotonic() < deadline, f"it stays at {first}"
        time.sleep(0.2)


def kill(process: ForkedProcess) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) != 0


def test_an_evaluation(browser: Any, bench: Client, photos: Path, tmp_path: Path, forks: ForkServer) -> None:
    bed = tmp_path / "many.parquet"
    longshot.sample(photos, tasks=1200, way=5, shot=5, query=15, seed=4, allow_repeats=True).save(bed)
    longshot.embed(photos, "pixels")
    command = ["evaluate", str(bed), "--backbone", "pixels", "--method", "tim", "--workers", "1"]
    command += ["-o", str(tmp_path / "work" / "going")]
    with reading(browser, bench) as window:
        window.open("/")
        process = forks.start(*command)
        try:
            window.wait_for(
                r"Now[\s\S]*going[\s\S]*running"
            )  # it appears on the page that was open before it began
            window.page.locator("a.name", has_text="going").first.click()
            text = window.wait_for(r"running[\s\S]*[1-9]\d* of 1,200 tasks")
            assert process.poll() is None, "it ended before it could be watched"
            count = window.page.locator("[data-count]").first
            grow(lambda: int(count.inner_text().split(" of ")[0].replace(",", "")))
            assert "finished" not in text
            kill(process)
            window.wait_for(r"stalled[\s\S]*No sign of life")
            process = forks.start(*command)
            window.wait_for(r"running")
            assert process.wait(1800) == 0
            final = window.wait_for(r"tim[\s\S]*± ")
            window.wait_for(r"^(?![\s\S]*(running|stalled))")
            assert "tim" in final
            assert window.messages == []
        finally:
            if process.poll() is None:
                kill(process)
    assert len(longshot.Results(tmp_path / "work" / "going").table()) == 1200


def test_a_training(browser: Any, bench: Client, photos: Path, tmp_path: Path, forks: ForkServer) -> None:
    out = tmp_path / "work" / "learning"
    command = ["train", "protonet(query=3, shot=2, way=2)", str(photos), "--network", "cnn4(width=8)"]
    command += ["--size", "28", "--steps", "900", "--validate-every", "60", "--validation-tasks", "10"]
    command += ["-o", str(out)]
    with reading(browser, bench) as window:
        process = forks.start(*command)
        try:
            deadline = time.monotonic() + 240
            while not (out / "training.json").is_file():
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            bench.explorer.add(tmp_path / "work")
            window.open(bench.item("training", "learning"))
            window.wait_for(r"running[\s\S]*[1-9]\d* of 900 steps")
            window.wait_for(r"Learning curves[\s\S]*validation accuracy \(%\)|Validation accuracy")
            count = window.page.locator("[data-count]").first
            grow(lambda: int(count.inner_text().split(" of ")[0].replace(",", "")))
            assert process.poll() is None, "it ended before it could be watched"
            kill(process)
            window.wait_for(r"stalled[\s\S]*goes on from its last checkpoint")
            process = forks.start(*command)
            window.wait_for(r"running")
            assert process.wait(1800) == 0
            window.wait_for(r"State[\s\S]{0,40}finished")
            window.wait_for(r"last step on record\s+900")
            assert window.messages == []
        finally:
            if process.poll() is None:
                kill(process)

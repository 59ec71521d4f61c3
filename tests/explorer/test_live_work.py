"""A real evaluation and a real training that go on, are killed and are resumed while a page is open in a browser."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked import ForkedProcess, ForkServer

import longshot
from longshot.base import long_work, write_text

from .conftest import Client
from .reader import reading

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """An explorer that takes silent work for dead after three missed beats instead of seven."""
    monkeypatch.setattr(long_work, "STALLED", 3 * long_work.INTERVAL)
    (tmp_path / "work").mkdir()
    explorer = longshot.serve(tmp_path / "work", port=19420)
    yield Client(explorer)
    explorer.close()


def grow(read: Callable[[], int], before: int, seconds: float = 240.0) -> None:
    """Wait until a number of the page has become larger than it was."""
    deadline = time.monotonic() + seconds
    while read() <= before:
        assert time.monotonic() < deadline, f"it stays at {before}"
        time.sleep(0.2)


def done_of(count: Any) -> int:
    """The number done of "384 of 1,200 tasks"."""
    return int(count.inner_text().split(" of ")[0].replace(",", ""))


def kill(process: ForkedProcess) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) != 0


GATED = """
import time
from pathlib import Path

import torch

GATE = Path(__file__).with_name("tasks-allowed")
begun = 0


def gated(support, support_label, query, way):
    '''Takes the nearest mean, and waits where more tasks were begun than the file beside it allows.'''
    global begun
    begun += 1
    while begun > int(GATE.read_text()):
        time.sleep(0.05)
    means = torch.stack([support[support_label == label].mean(0) for label in range(way)])
    return -torch.cdist(query, means)
"""


def test_an_evaluation(browser: Any, bench: Client, photos: Path, tmp_path: Path, forks: ForkServer) -> None:
    bed, method = tmp_path / "many.parquet", tmp_path / "mine.py"
    longshot.sample(photos, tasks=1200, way=5, shot=5, query=15, seed=4, allow_repeats=True).save(bed)
    longshot.embed(photos, "pixels")
    method.write_text(GATED, encoding="utf-8")

    def allow(tasks: int) -> None:
        write_text(tmp_path / "tasks-allowed", str(tasks))

    command = ["evaluate", str(bed), "--backbone", "pixels", "--method", f"{method}:gated", "--workers", "1"]
    command += ["-o", str(tmp_path / "work" / "going")]
    with reading(browser, bench) as window:
        window.open("/")
        allow(400)
        process = forks.start(*command)
        try:
            window.wait_for(r"going[\s\S]*running")  # it appears on the page that was open before it began
            window.page.locator("a.name", has_text="going").first.click()
            text = window.wait_for(r"running[\s\S]*[1-9]\d* of 1,200 tasks")
            count = window.page.locator("[data-count]").first
            before = done_of(count)
            allow(800)
            grow(lambda: done_of(count), before)
            assert "finished" not in text
            kill(process)
            window.wait_for(r"stalled[\s\S]*No sign of life")
            allow(0)
            process = forks.start(*command)
            window.wait_for(r"running")
            allow(10_000)
            assert process.wait(1800) == 0
            final = window.wait_for(r"gated[\s\S]*± ")
            window.wait_for(r"^(?![\s\S]*(running|stalled))")
            assert "gated" in final
            assert window.messages == []
        finally:
            if process.poll() is None:
                kill(process)
    assert len(longshot.Results(tmp_path / "work" / "going").table()) == 1200


def test_a_training(browser: Any, bench: Client, photos: Path, tmp_path: Path, forks: ForkServer) -> None:
    out = tmp_path / "work" / "learning"
    command = ["train", "protonet(query=3, shot=2, way=2)", str(photos), "--network", "cnn4(width=8)"]
    command += ["--size", "28", "--steps", "1000000", "--validate-every", "60", "--validation-tasks", "10"]
    command += ["-o", str(out)]
    with reading(browser, bench) as window:
        process = forks.start(*command)  # so many steps that it goes on until it is stopped
        try:
            deadline = time.monotonic() + 240
            while not (out / "training.json").is_file():
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)
            bench.explorer.add(tmp_path / "work")
            window.open(bench.item("training", "learning"))
            window.wait_for(r"running[\s\S]*[1-9]\d* of 1,000,000 steps")
            window.wait_for(r"Learning curves[\s\S]*validation accuracy \(%\)|Validation accuracy")
            count = window.page.locator("[data-count]").first
            grow(lambda: done_of(count), done_of(count))
            kill(process)
            window.wait_for(r"stalled[\s\S]*goes on from its last checkpoint")
            process = forks.start(*command)
            window.wait_for(r"running")
            kill(process)
            process = forks.start(*command, "--minutes", "0.001")  # they are over: one more step
            assert process.wait(1800) == 0
            window.wait_for(r"State[\s\S]{0,40}finished")
            last = json.loads((out / "history.jsonl").read_text(encoding="utf-8").splitlines()[-1])["step"]
            window.wait_for(rf"last step on record\s+{last:,}")
            assert window.messages == []
        finally:
            if process.poll() is None:
                kill(process)

"""What is running: heartbeats of evaluations and trainings, that go on, die and are resumed while pages are read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import longshot
from longshot.base import long_work, read_heartbeat

from .conftest import Client

BEATING = """
import sys, time
from pathlib import Path
from longshot.base import long_work
long_work.INTERVAL = 0.05
with long_work.heartbeat(Path(sys.argv[1]), "evaluate", lambda: {"done": 3, "total": 12, "unit": "tasks", "rate": 1.0}):
    print("beating", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def run(explored: Path, tmp_path: Path) -> Path:
    """A copy of a run, of which one unit is missing."""
    import shutil

    folder = tmp_path / "live" / "again"
    shutil.copytree(explored / "runs" / "first", folder)
    next(folder.glob("part-*.parquet")).unlink()
    return folder


@pytest.fixture
def live(run: Path) -> Iterator[Client]:
    explorer = longshot.serve(run.parent, port=18720)
    yield Client(explorer)
    explorer.close()


def state_of(client: Client) -> str:
    client.explorer.add(client.folder)  # looks again at once
    page = client.get("/?kind=run").text
    return page.split('class="state ', 1)[1].split('"', 1)[0]


def beat(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", BEATING, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "beating\n"
    return process


def test_a_run_goes_on_dies_and_is_resumed(live: Client, run: Path) -> None:
    live.folder = run.parent  # type: ignore[attr-defined]
    assert state_of(live) == "unfinished"
    process = beat(run)
    assert state_of(live) == "running"
    assert "3 of 12 tasks" in live.get("/").text
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert state_of(live) == "running"  # nobody can know yet
    sign = run / long_work.HEARTBEAT_FILE
    facts = json.loads(sign.read_text())
    sign.write_text(json.dumps({**facts, "time": time.time() - 2 * long_work.STALLED}))
    assert state_of(live) == "stalled"
    assert "no sign of life" in live.get("/").text
    resumed = longshot.Results(run)
    beds = [resumed.testbed(content_hash) for content_hash in resumed.run["testbeds"]]
    named = {resumed.run["testbeds"][bed.content_hash]["name"]: bed for bed in beds}
    longshot.evaluate(named, backbones="pixels", methods=["protonet", "ridge"], out=run, save_scores=True)
    assert not sign.exists()  # it ended well
    assert state_of(live) == "finished"


def test_an_error_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), long_work.heartbeat(tmp_path, "train", lambda: {"done": 1}):
        raise RuntimeError("the loss became nan")
    sign = read_heartbeat(tmp_path)
    assert sign is not None and (sign.state, sign.note) == ("stopped", "the loss became nan")


def test_a_heartbeat_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with long_work.heartbeat(tmp_path / "file" / "inside", "train", dict):
        worked = True
    assert worked


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"time": "x", "state": "running", "work": "a"}', '{"state": "running"}']
)
def test_a_damaged_heartbeat_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / long_work.HEARTBEAT_FILE).write_text(text)
    assert read_heartbeat(tmp_path) is None


def test_the_rest_takes_as_long_as_it_took(tmp_path: Path) -> None:
    facts = {
        "work": "train",
        "state": "running",
        "time": 100.0,
        "done": 30,
        "total": 90,
        "unit": "steps",
        "rate": 3.0,
    }
    (tmp_path / long_work.HEARTBEAT_FILE).write_text(json.dumps(facts))
    sign = read_heartbeat(tmp_path, now=110.0)
    assert sign is not None and (sign.state, sign.age) == ("running", 10.0)
    late = read_heartbeat(tmp_path, now=131.0)
    assert late is not None and late.state == "stalled"

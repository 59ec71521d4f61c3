"""A worker killed at any point of a run loses nothing, and nothing is scored twice. Real processes, really killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forked import ForkedProcess, ForkServer
from longshot.arena import Competition, connect, queue, submission_runs, worker
from longshot.arena.competition_data import BlobStore
from longshot.arena.database_tables import runs
from longshot.arena.store import Store
from longshot.arena.worker import LocalClient

pytestmark = pytest.mark.usefixtures("needs_sandbox")

# A worker that holds still before or after a function of its program, and goes on when it is told to.
PROGRAM = """
import sys, time
from pathlib import Path
from longshot.arena import queue, submission_runs, worker
from longshot.arena.inside import blind_tasks
from longshot.arena.worker import LocalClient

folder, marks, when, function = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]

def hold():
    (marks / "held").touch()
    while not (marks / "go").exists():
        time.sleep(0.02)

def held(real):
    def call(*args, **options):
        if when == "before":
            hold()
        result = real(*args, **options)
        if when == "after":
            hold()
        return result
    return call

module, _, name = function.rpartition(".")
if module:
    module = {"submission_runs": submission_runs, "queue": queue, "blind_tasks": blind_tasks}[module]
    setattr(module, name, held(getattr(module, name)))
client = LocalClient(folder, lease=100_000)
worker.work(client, tell=held(print) if name == "tell" else print)
"""
POINTS = {
    "unpacked": ("after", "submission_runs.unpack", "queued"),
    "the submission runs": ("after", "blind_tasks.begin", "queued"),
    "answers written, not scored": ("before", "submission_runs.summarize", "queued"),
    "scores written, not recorded": ("before", "queue.finish", "queued"),
    "in the middle of recording": ("before", "queue.settle", "queued"),
    "recorded, not told": ("before", "tell", "scored"),
}
SHORT = ("the submission runs", "in the middle of recording")
Process = tuple[int, str]  # number and time of start: numbers are used again


@pytest.fixture
def store(competition: Competition) -> Store:
    return Store(competition)


@pytest.fixture
def start(
    competition: Competition, tmp_path: Path, forks: ForkServer
) -> Iterator[Callable[[str, str], ForkedProcess]]:
    """Start a worker and wait until it holds still at a point."""
    begun: list[ForkedProcess] = []

    def begin(when: str, function: str) -> ForkedProcess:
        process = forks.start(competition.folder, tmp_path, when, function, program=PROGRAM, cwd=tmp_path)
        begun.append(process)
        while not (tmp_path / "held").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def descendants(pid: int) -> set[Process]:
    """All processes below ``pid``."""
    parents: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(words[1]), []).append((int(entry.name), words[19]))
    family, todo = set(), [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        family.update(below)
        todo += [number for number, _ in below]
    return family


def lives(process: Process) -> bool:
    try:
        words = Path(f"/proc/{process[0]}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return words[19] == process[1] and words[0] != "Z"


def enter(competition: Competition, store: Store, folder: Path) -> int:
    return queue.enter(competition, store, folder, team="a", phase="feedback", league="free-style")


def lease_over(store: Store) -> None:
    with store.change() as connection:
        connection.execute(runs.update().where(runs.c.state == "running").values(seen=0.0))


def check_scored_once(competition: Competition, store: Store, number: int) -> None:
    submission = store.submission(number)
    assert submission["state"] == "scored"
    lines = [row["what"] for row in store.history(number)]
    assert sum("scored" in line for line in lines) == 1
    folder = queue.archive_path(competition, number)
    scores = json.loads((folder / "seed-1" / "scores.json").read_text())
    assert scores["overall"]["normalized_accuracy"] == submission["score"]
    assert sorted(path.name for path in folder.iterdir()) == ["seed-1", "submission.zip"]
    assert not (folder / "seed-1" / "code").exists()


@pytest.mark.parametrize(
    "point",
    [point if point in SHORT else pytest.param(point, marks=pytest.mark.long) for point in POINTS],
)
def test_a_killed_worker(competition, store, submission, start, point):
    when, function, expected = POINTS[point]
    child = "import os, time\nif os.fork() == 0:\n    time.sleep(10_000)\nreturn MyLearner()"
    number = enter(competition, store, submission(meta=child))
    process = start(when, function)
    boxed = descendants(process.pid)
    if point == "the submission runs":
        assert len(boxed) >= 4  # bubblewrap twice, the submission and its child
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(map(lives, boxed)):  # a box that outlived its worker would end in the test's timeout
        time.sleep(0.02)
    state = store.submission(number)["state"]
    assert state == ("scored" if expected == "scored" else "running")
    lease_over(store)
    assert connect(competition.folder).work() == (0 if expected == "scored" else 1)
    check_scored_once(competition, store, number)
    assert connect(competition.folder).work() == 0


def test_a_late_worker_does_not_touch_its_successors_run(competition, store, submission, start, tmp_path):
    number = enter(competition, store, submission())
    late = start("before", "queue.finish")
    lease_over(store)
    assert connect(competition.folder).work() == 1
    folder = queue.archive_path(competition, number) / "seed-1"
    before = (store.history(number), (folder / "scores.json").stat())
    (tmp_path / "go").touch()
    out, _ = late.communicate()
    assert "taken over by another worker" in out
    assert (store.history(number), (folder / "scores.json").stat()) == before
    check_scored_once(competition, store, number)


def test_a_lost_run_is_ended_and_not_run_to_its_end(competition, store, submission, monkeypatch):
    """The submission sleeps for an hour; its worker hears that the run is another's and ends the box."""
    number = enter(competition, store, submission(meta="import time\ntime.sleep(3600)"))
    monkeypatch.setattr(queue, "alive", lambda *_: False)
    lines: list[str] = []

    def stop_after_one(text: str) -> None:
        lines.append(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.work(LocalClient(competition.folder, lease=0.4), tell=stop_after_one)
    assert lines == [f"submission {number}, seed 1: was cancelled, or taken over by another worker"]


def test_a_claimed_run_gives_signs_of_life_while_its_tasks_are_drawn(
    competition, store, submission, monkeypatch
):
    """That may take longer than the lease: the run would be another worker's before it began."""
    enter(competition, store, submission())
    real, signs = BlobStore.files, []

    def last_sign() -> float:
        return store.rows(sa.select(runs.c.seen))[0]["seen"]

    def slow(self: BlobStore, *arguments: Any) -> Any:
        begun = last_sign()
        while last_sign() == begun:  # without signs this would end in the test's timeout
            time.sleep(0.02)
        signs.append(last_sign() - begun)
        return real(self, *arguments)

    monkeypatch.setattr(BlobStore, "files", slow)
    assert LocalClient(competition.folder, lease=0.4).ask("POST", "/work/claim", body={"worker": "w"})["job"]
    assert len(signs) == 1 and signs[0] > 0


def test_a_fault_of_the_runner_does_not_stop_the_queue(competition, store, submission, monkeypatch, capsys):
    bad, good = (enter(competition, store, submission(name)) for name in ("bad", "good"))
    real = submission_runs.outcome

    def faulty(competition, data, claimed, *settings):
        if claimed.submission == bad:
            raise RuntimeError("a bug")
        return real(competition, data, claimed, *settings)

    monkeypatch.setattr(submission_runs, "outcome", faulty)
    assert connect(competition.folder).work() == 1
    assert store.submission(good)["state"] == "scored"
    failed = store.submission(bad)
    assert failed["state"] == "platform error"
    assert failed["reason"] == "platform error: the runner failed (RuntimeError); it costs no quota"
    assert "a bug" in capsys.readouterr().err


def test_what_is_no_fault_of_the_submission_costs_it_nothing(competition, store, submission, monkeypatch):
    """The organiser's data are gone: the worker says so and stops, the submission waits as before."""
    number = enter(competition, store, submission())

    def gone(*_: object, **__: object) -> None:
        raise submission_runs.UserError("There is no dataset there.")

    with monkeypatch.context() as patched:
        patched.setattr(submission_runs, "run", gone)
        with pytest.raises(submission_runs.UserError, match="no dataset"):
            connect(competition.folder).work()
    (run,) = store.rows(runs.select())
    assert (run["state"], run["attempt"]) == ("queued", 0)
    assert connect(competition.folder).work() == 1
    assert store.submission(number)["state"] == "scored"

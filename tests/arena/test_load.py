"""Many submitters and many workers at once, each a process of its own: everything is scored, and once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import ForkedProcess, ForkServer
from longshot.arena import Competition, load, queue, write_baseline
from longshot.arena.database_tables import events, runs, submissions
from longshot.arena.store import Store

SUBMIT = """
import sys, time
from pathlib import Path
from longshot.arena import queue
from longshot.arena.settings import load
from longshot.arena.store import Store

folder, source, name, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
competition = load(folder)
while not (folder / "go").exists():
    time.sleep(0.01)
store = Store(competition)  # the tables too are made by whoever comes first
for number in range(count):
    queue.enter(competition, store, source, team=f"team {number % 3}", phase="feedback", league="free-style")
"""
WORK = """
import json, sys
from longshot.arena import connect, submission_runs

if sys.argv[2] == "quick":  # everything but the sandbox
    metrics = ("normalized_accuracy", "accuracy", "macro_f1", "macro_precision", "macro_recall")
    group = {"tasks": 1, **{name: 0.25 for name in metrics}, **{f"{name}_ci95": None for name in metrics}}
    scores = {"overall": group, **{key: {"2": group} for key in ("by_dataset", "by_ways", "by_shots")}}
    scores |= {"phase": "feedback", "seed": 1, "official": True, "meta_training_seconds": 0.1, "duration": 0.2}
    def run(data, phase, code, folder, **options):
        assert (code / "model.py").is_file()
        (folder / "scores.json").write_text(json.dumps(scores))
        return submission_runs.RunOutcome(scores, None)
    submission_runs.run = run
connect(sys.argv[1]).work(forever=True)
"""


OPEN = """
import sys, time
from pathlib import Path
from longshot.arena.settings import load
from longshot.arena.store import Store

competition = load(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    while time.time() < float(sys.argv[3]) + number / 10:
        pass
    Store(competition.model_copy(update={"database": f"sqlite:///{competition.folder}/{number}.db"}))
"""


@pytest.fixture
def generous(competition: Competition) -> Competition:
    """The small competition without quotas, with one task."""
    path = competition.folder / "competition.yaml"
    path.write_text(
        path.read_text().replace("tasks: 3, per_day: 3, total: 4", "tasks: 1, per_day: 0, total: 0")
    )
    return load(competition.folder)


UnderLoad = Callable[..., Store]


@pytest.fixture
def under_load(generous: Competition, forks: ForkServer) -> UnderLoad:
    """Enter ``submitters`` × ``each`` submissions while workers run; comes back when all have ended."""
    folder = generous.folder

    def start(program: str, *arguments: object) -> ForkedProcess:
        return forks.start(folder, *map(str, arguments), program=program, cwd=folder.parent)

    def load_it(source: Path, submitters: int, each: int, workers: int, how: str) -> Store:
        entering = [start(SUBMIT, source, name, each) for name in range(submitters)]
        (folder / "go").touch()
        working = [start(WORK, how) for _ in range(workers)]
        try:
            assert [process.wait() for process in entering] == [0] * submitters
            store = Store(generous)
            while {"queued", "running"} & {row["state"] for row in store.rows(submissions.select())}:
                assert all(process.poll() is None for process in working)
                time.sleep(0.1)
        finally:
            for process in (*entering, *working):
                process.kill()
                process.wait()
        return store

    return load_it


def check_each_scored_once(competition: Competition, store: Store, count: int) -> None:
    entered = store.rows(submissions.select())
    assert [row["id"] for row in entered] == list(range(1, count + 1))
    assert {row["state"] for row in entered} == {"scored"}
    assert {(row["state"], row["attempt"]) for row in store.rows(runs.select())} == {("scored", 1)}
    ends = [row for row in store.rows(events.select()) if ": scored" in row["what"]]
    assert sorted(row["submission"] for row in ends) == list(range(1, count + 1))
    for number in range(1, count + 1):
        folder = queue.archive_path(competition, number)
        assert sorted(path.name for path in folder.iterdir()) == ["seed-1", "submission.zip"]
        assert (folder / "seed-1" / "scores.json").is_file()
    assert not [path for path in (competition.folder / "submissions").iterdir() if path.name.startswith(".")]


def test_many_may_open_a_new_database_at_once(generous, forks):
    """SQLite answers "database is locked" at once where two change a new file to its log of changes ahead."""
    folder = generous.folder
    begin = time.time() + 0.5
    openers = [forks.start(folder, "20", str(begin), program=OPEN, cwd=folder.parent) for _ in range(4)]
    assert [opener.communicate()[1] for opener in openers] == [""] * 4


@pytest.mark.parametrize(
    ("submitters", "each", "workers"), [(4, 4, 2), pytest.param(8, 13, 3, marks=pytest.mark.long)]
)
def test_submissions_by_many_processes_at_once(
    generous, submission, under_load, needs_sandbox, submitters, each, workers
):
    """The queue and the files at full load; the submissions themselves are not run."""
    store = under_load(submission(), submitters=submitters, each=each, workers=workers, how="quick")
    check_each_scored_once(generous, store, submitters * each)


@pytest.mark.long
@pytest.mark.parametrize("submitters", [3, 8])
def test_the_random_baseline_under_load(generous, tmp_path, under_load, needs_sandbox, submitters):
    """As above with real runs; `python -m benchmarks competition` does it with a hundred."""
    source = write_baseline("random", tmp_path / "random")
    store = under_load(source, submitters=submitters, each=1, workers=2, how="whole")
    check_each_scored_once(generous, store, submitters)
    scores = {row["score"] for row in store.rows(submissions.select())}
    assert len(scores) == 1  # the same code on the same hidden tasks, whichever worker ran it

"""The queue on PostgreSQL: a real server from the machine's own binaries, started for these tests."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from longshot.arena import Competition, connect, queue
from longshot.arena.database_tables import runs, submissions, teams
from longshot.arena.store import Store
from longshot.arena.worker import insist
from longshot.base import UserError

NUMBERS = itertools.count()


class Server:
    """A PostgreSQL of its own, reached through a socket in its folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder

    def run(self, program: str, *arguments: str) -> None:
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*user, str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        with (self.folder / "log").open("a") as log:  # the server keeps it open: no pipe to wait for
            done = subprocess.run(command, stdout=log, stderr=log, cwd=self.folder)
        assert done.returncode == 0, (self.folder / "log").read_text()

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://longshot@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The address of a database that was made just now."""
        name = f"d{next(NUMBERS)}"
        engine = sa.create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="needs the package psycopg")
    installed = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if initdb := shutil.which("initdb"):
        installed.insert(0, Path(initdb).resolve().parent)
    programs = next((folder for folder in installed if (folder / "initdb").is_file()), None)
    if programs is None:
        pytest.skip("needs a PostgreSQL server on the machine (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="longshot-pg-"))  # a short path: names of sockets are limited
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)  # the server refuses to run as root
    postgres = Server(programs, folder)
    postgres.run("initdb", "-U", "longshot", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
    try:
        postgres.run("pg_ctl", "-w", "-o", f"-k {folder} -c listen_addresses='' -c fsync=off", "start")
        yield postgres
    finally:
        postgres.run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def competition(competition: Competition, server: Server) -> Competition:
    return competition.model_copy(update={"database": server.new_database()})


@pytest.fixture
def store(competition: Competition) -> Iterator[Store]:
    opened = Store(competition)
    yield opened
    opened.engine.dispose()


@pytest.fixture
def enter(competition: Competition, store: Store, submission) -> Callable[..., int]:
    folder = submission()

    def enter_submission(team: str = "a", phase: str = "feedback") -> int:
        return queue.enter(competition, store, folder, team=team, phase=phase, league="free-style")

    return enter_submission


def test_a_submission_from_entry_to_score_and_again(store, enter):
    number = enter()
    claimed = queue.claim(store, "w")
    assert claimed.submission == number and queue.alive(store, claimed, "w")
    assert queue.finish(store, claimed, "w", score=0.25, duration=1.0, reason=None)
    assert not queue.finish(store, claimed, "w", score=0.75, duration=1.0, reason=None)
    assert store.submission(number)["score"] == 0.25
    queue.rerun(store, number)
    again = queue.claim(store, "w")
    queue.release(store, again, "w", "the worker was stopped", counted=False)
    assert queue.claim(store, "w").attempt == 1


def test_many_workers_claim_every_run_once(store, enter):
    numbers = [enter(f"team {i}") for i in range(20)]

    def drain(name: int) -> list[int]:
        finished = []
        while (claimed := queue.claim(store, f"w{name}")) is not None:
            assert queue.finish(store, claimed, f"w{name}", score=0.5, duration=1.0, reason=None)
            finished.append(claimed.submission)
        return finished

    with ThreadPoolExecutor(8) as pool:
        claimed = [number for part in pool.map(drain, range(8)) for number in part]
    assert sorted(claimed) == numbers
    assert {row["state"] for row in store.rows(submissions.select())} == {"scored"}


def test_the_quota_holds_for_entries_at_once(store, enter):
    def attempt(_: int) -> int | None:
        try:
            return enter("one team")
        except UserError as error:
            assert "3 are allowed" in str(error)
            return None

    with ThreadPoolExecutor(8) as pool:
        entered = [number for number in pool.map(attempt, range(8)) if number is not None]
    assert len(entered) == 3
    assert len(store.rows(teams.select())) == 1


def test_the_last_seeds_that_end_at_once_settle_the_submission(store, enter, monkeypatch):
    """The end of one comes when that of the other has been settled and not yet committed, and waits for it."""
    enter()
    assert queue.finish(store, queue.claim(store, "w"), "w", score=0.9, duration=1.0, reason=None)
    number = enter(phase="final")
    first, second, third = (queue.claim(store, "w") for _ in range(3))
    assert queue.finish(store, first, "w", score=0.5, duration=1.0, reason=None)

    def end_third() -> None:
        assert queue.finish(store, third, "w", score=0.3, duration=1.0, reason=None)

    other = threading.Thread(target=end_third)

    settle = queue.settle

    def settle_and_wait(*arguments: object) -> None:
        settle(*arguments)
        monkeypatch.undo()
        other.start()
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        with store.engine.connect() as connection:
            while other.is_alive() and not connection.execute(waiting).scalar_one():
                time.sleep(0.01)

    monkeypatch.setattr(queue, "settle", settle_and_wait)
    assert queue.finish(store, second, "w", score=0.4, duration=1.0, reason=None)
    other.join()
    submission = store.submission(number)
    assert (submission["state"], submission["score"]) == ("scored", 0.3)


def test_a_dead_worker_loses_its_run(store, enter):
    enter()
    dead = queue.claim(store, "dead")
    with store.change() as connection:
        connection.execute(runs.update().values(seen=0.0))
    again = queue.claim(store, "living")
    assert again.run == dead.run and again.attempt == 2
    assert not queue.finish(store, dead, "dead", score=0.9, duration=1.0, reason=None)


def test_a_restart_of_the_server_loses_no_result(store, enter, server):
    number = enter()
    claimed = queue.claim(store, "w")
    server.run("pg_ctl", "-w", "-m", "fast", "restart")
    assert insist(lambda: queue.finish(store, claimed, "w", score=0.5, duration=1.0, reason=None))
    assert store.submission(number)["state"] == "scored"


def test_a_worker_runs_what_is_queued(competition, store, enter, needs_sandbox):
    number = enter()
    url = store.engine.url.render_as_string(hide_password=False)
    with (competition.folder / "competition.yaml").open("a") as file:
        file.write(f"\ndatabase: {url}\n")
    assert connect(competition.folder).work() == 1
    assert store.submission(number)["state"] == "scored"


def test_a_database_that_is_not_there_is_told_in_one_sentence(competition, server):
    away = competition.model_copy(update={"database": server.url("nowhere")})
    with pytest.raises(UserError, match="database cannot be opened"):
        Store(away)

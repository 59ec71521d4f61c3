"""Server, worker and database killed at random moments: what was accepted is scored once, and quotas are right.

Everything is real but the submission's own run, which ends at once: processes, HTTP, files, the database. Moments
follow from a seed, which a failure prints.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forked import ForkedProcess, ForkServer
from longshot.arena import Competition, ConnectedCompetition, load, queue
from longshot.arena.client import Client
from longshot.arena.database_tables import runs, scores, submissions, uploads
from longshot.arena.server import credentials, people
from longshot.arena.server.server_context import ServerContext
from longshot.arena.store import Store
from longshot.base import UserError

from ..test_database import Server
from ..test_database import server as server
from .conftest import PASSWORD, archive, change

SERVE = """
import sys, time
import longshot
from longshot.arena import queue
from longshot.arena.server import competition_app, credentials
queue.LEASE = 3.0
credentials.COST, credentials.PARALLEL = 16, 1
competition_app.build_server.__kwdefaults__["sweep_every"] = 0.3
from longshot.arena.server.rate_limits import LoginRates, Rate, Rates
endless = Rate(1e9, 1e9)
rates = Rates(endless, endless, LoginRates(*[endless] * 4))
while True:  # the database may be away
    try:
        server = longshot.serve_competition(sys.argv[1], port=int(sys.argv[2]), rates=rates)
        break
    except longshot.UserError as error:
        print(error, flush=True)
        time.sleep(0.2)
assert server.url.endswith(f":{sys.argv[2]}/"), server.url
server.wait()
"""
WORK = """
import json, sys, time
from longshot.arena import client, submission_runs, worker

METRICS = ("normalized_accuracy", "accuracy", "macro_f1", "macro_precision", "macro_recall")

def run(data, phase, code, folder, **options):
    assert (code / "model.py").is_file() and data.test_tasks(phase, options["seed"])
    time.sleep(0.15)
    group = {"tasks": 3, **{name: 0.25 for name in METRICS}, **{f"{name}_ci95": 0.1 for name in METRICS}}
    scores = {"overall": group, **{key: {"2": group} for key in ("by_dataset", "by_ways", "by_shots")}}
    scores |= {"phase": phase.name, "seed": options["seed"], "official": True, "meta_training_seconds": 0.1}
    scores |= {"duration": 0.2}
    (folder / "scores.json").write_text(json.dumps(scores))
    (folder / "answers.jsonl").write_text("{}\\n")
    return submission_runs.RunOutcome(scores, None)

submission_runs.run = run
client.Client.pause, client.Client.beat = 0.05, 0.4
server = client.Client(sys.argv[1], sys.argv[2])
worker.work(server, forever=True, tell=lambda line: print(line, flush=True))
"""


class Stage:
    """The processes of a competition that are killed and started again."""

    def __init__(self, forks: ForkServer, folder: Path, port: int, token: str) -> None:
        self.forks, self.folder, self.port, self.token = forks, folder, port, token
        self.processes: dict[str, ForkedProcess] = {}

    def start(self, name: str) -> None:
        if name == "server":
            arguments, program = (str(self.folder), str(self.port)), SERVE
        else:
            arguments, program = (f"http://127.0.0.1:{self.port}", self.token), WORK
        cwd = self.folder.parent
        self.processes[name] = self.forks.start(*arguments, program=program, cwd=cwd)

    def kill(self, name: str) -> None:
        process = self.processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def stage(competition: Competition, forks: ForkServer, request: pytest.FixtureRequest) -> Iterator[Stage]:
    folder = competition.folder
    change(folder, "per_day: 3, total: 4", "per_day: 50, total: 100")
    if getattr(request, "param", "sqlite") == "postgresql":
        postgres: Server = request.getfixturevalue("server")
        url = postgres.new_database()
        with (folder / "competition.yaml").open("a") as file:
            file.write(f"\ndatabase: {url}\n")
    context = ServerContext(folder)
    token = credentials.create_worker_token(context, people.HOST, name="w").token
    context.close()
    opened = Stage(forks, folder, 19500 + os.getpid() % 400, token)
    yield opened
    opened.close()


def participants(folder: Path, count: int) -> list[str]:
    """Tokens of so many people, each with a team."""
    context = ServerContext(folder)
    made = []
    for number in range(count):
        code = people.invite(context, people.HOST).code
        name = f"person {number}"
        people.register(context, name=name, password=PASSWORD, code=code)
        person = credentials.by_session(context, people.log_in(context, name=name, password=PASSWORD))
        people.found_team(context, person, name=f"team {number}")
        made.append(credentials.create_token(context, person, name="t", scopes=["submit", "read-own"]).token)
    context.close()
    return made


def hand_in(
    stage: Stage, token: str, count: int, folder: Path, receipts: list[Any], problems: list[str]
) -> None:
    """Submit so many archives, however often the server dies meanwhile."""
    cup = ConnectedCompetition(Client(f"http://127.0.0.1:{stage.port}", token, tries=200))
    for number in range(count):
        path = folder / f"{token[-6:]}-{number}.zip"
        path.write_bytes(archive(note=f"{token[-6:]} {number}"))
        try:
            receipts.append(cup.submit(path))
        except UserError as error:
            problems.append(str(error))


def play(stage: Stage, victims: list[str], people_count: int, each: int, seed: int, kill: Any) -> None:
    rng = random.Random(seed)
    tokens = participants(stage.folder, people_count)
    stage.start("server")
    stage.start("worker")
    receipts: list[Any] = []
    problems: list[str] = []
    archives = stage.folder.parent
    threads = [
        threading.Thread(target=hand_in, args=(stage, token, each, archives, receipts, problems))
        for token in tokens
    ]
    for thread in threads:
        thread.start()
    for victim in victims:
        time.sleep(rng.uniform(0.05, 1.2))
        kill(victim)
    for thread in threads:
        thread.join()
    assert problems == [], seed
    store = Store(load(stage.folder))
    wait_until_all_ended(store)
    check(store, stage.folder, receipts, people_count * each, seed)
    store.engine.dispose()


def wait_until_all_ended(store: Store) -> None:
    """Until nothing waits or runs; what was the platform's error is run again, as an organiser would have it."""
    while True:
        states = Counter(row["state"] for row in store.rows(submissions.select()))
        if not states["queued"] + states["running"]:
            if not states["platform error"]:
                return
            for row in store.rows(submissions.select().where(submissions.c.state == "platform error")):
                assert row["charged"] is None and row["score"] is None  # refunded
                queue.rerun(store, row["id"])
        time.sleep(0.1)


def check(store: Store, folder: Path, receipts: list[Any], expected: int, seed: int) -> None:
    rows = store.rows(submissions.select())
    assert len(receipts) == expected, seed
    assert sorted(row["id"] for row in rows) == sorted(receipt.submission for receipt in receipts), seed
    assert {row["state"] for row in rows} == {"scored"}, seed
    hashes = {row["id"]: row["sha256"] for row in rows}
    assert all(hashes[receipt.submission] == receipt.sha256 for receipt in receipts)
    taken = store.rows(uploads.select().where(uploads.c.state == "taken"))
    assert sorted(row["submission"] for row in taken) == sorted(hashes)  # one submission for every upload
    counts = Counter(row["submission"] for row in store.rows(scores.select()))
    assert counts == dict.fromkeys(hashes, 1), seed  # scored exactly once
    assert {row["state"] for row in store.rows(runs.select())} == {"scored"}
    assert all(row["charged"] is not None for row in rows)  # no quota gained, none lost
    for number in hashes:
        path = folder / "submissions" / f"{number:06d}"
        assert (path / "seed-1" / "scores.json").is_file() and (path / "submission.zip").is_file()
        extra = [each.name for each in path.iterdir() if each.name not in ("seed-1", "submission.zip")]
        assert extra == [], (seed, extra)
    assert not list((folder / "uploads").glob("*"))


def killer(stage: Stage) -> Any:
    def kill(victim: str) -> None:
        stage.kill(victim)
        stage.start(victim)

    return kill


@pytest.mark.usefixtures("needs_sandbox")
def test_server_and_worker_killed(stage: Stage) -> None:
    """A short form: two moments."""
    play(stage, ["server", "worker"], 2, 2, seed=3, kill=killer(stage))


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.parametrize("stage", ["postgresql"], indirect=True)
def test_server_worker_and_database_killed_at_thirty_moments(stage: Stage, server: Server) -> None:
    plain = killer(stage)

    def kill(victim: str) -> None:
        if victim != "database":
            plain(victim)
            return
        pid = int((server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.02)
        socket_options = f"-k {server.folder} -c listen_addresses='' -c fsync=off"
        while True:  # its children notice that it is gone, and let go
            try:
                server.run("pg_ctl", "-w", "-o", socket_options, "start")
                return
            except AssertionError:
                time.sleep(0.2)

    victims = ["server", "worker", "database"] * 10
    random.Random(1).shuffle(victims)
    play(stage, victims, 4, 10, seed=1, kill=kill)

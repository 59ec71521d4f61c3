"""Many participants at once: no answer of 500 or above, nothing scored twice. How fast it is, benchmarks say."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from benchmarks import competition_server
from benchmarks.competition_server import cost_of_reads, describe, run_load, small_competition

from .conftest import Arena


def test_six_participants(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short form: all hand in and look at once, in threads of this process, and no worker runs."""
    monkeypatch.setattr(competition_server, "PAUSE", (0.0, 0.02))
    people = [arena.register(f"Person {number}") for number in range(6)]
    for number, person in enumerate(people):
        person.good("POST", "/team", {"name": f"Crowd {number}"})
    gathered: dict[str, Any] = {"reads": [], "statuses": Counter(), "handed_in": 0, "problems": []}
    end = time.monotonic() + 0.5
    threads = [
        threading.Thread(
            target=competition_server._participant,
            args=(arena.server.url, arena.token(person), random.Random(number), end, gathered),
        )
        for number, person in enumerate(people)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gathered["problems"] == []
    assert set(gathered["statuses"]) == {200} and gathered["handed_in"] == 6
    queue = arena.visitor.good("GET", "/queue")
    assert (queue["waiting"], queue["running"]) == (6, 0)


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_two_hundred_participants(capsys: pytest.CaptureFixture[str]) -> None:
    with small_competition() as folder:
        report = run_load(folder, participants=200, seconds=60.0, workers=2)
    with capsys.disabled():
        print("\n" + "\n".join(describe(report, 200, 60.0)))
    assert report.problems == []
    assert set(report.statuses) == {200}
    assert report.handed_in == 200 == sum(report.states.values())
    assert report.states["scored"] > 0 and set(report.states) <= {"scored", "running", "queued"}
    assert report.twice == 0 and report.reads > 200


@pytest.mark.long
def test_the_cost_of_every_read_is_measured() -> None:
    with small_competition() as folder:
        costs = cost_of_reads(folder, participants=20, reads=20)
    assert set(competition_server.READS) < set(costs) and max(costs.values()) > 0

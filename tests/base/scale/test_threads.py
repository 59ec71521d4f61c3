"""Threads of this process: every result once, bounded, in the calling thread, and no Ray anywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from forked import ForkServer
from longshot.base import (
    Crew,
    FailureList,
    Progress,
    Threads,
    UnitsFailed,
    UserError,
    executor,
    parse_on,
    using_executor,
)
from scale_crews import Adder
from scale_world import make_photos


@pytest.mark.parametrize("workers", [1, 3])
def test_every_unit_comes_back_once_and_the_bar_counts_ticks(workers: int) -> None:
    bar = Progress("add", 50, "units")
    units = ((f"unit {number}", number) for number in range(50))
    results = dict(Threads().map(Crew(Adder, (np.ones(7),)), units, bar, count=50, workers=workers))
    assert {key: value for key, (value, _) in results.items()} == {f"unit {n}": 7.0 + n for n in range(50)}
    assert bar.done == 50


def test_units_are_read_as_workers_become_free() -> None:
    """A million units never sit in memory: of those that were not handed out, none was made."""
    made = 0

    def units() -> Iterator[tuple[int, int]]:
        nonlocal made
        for number in range(1_000_000):
            made += 1
            yield number, number

    with closing(Threads().map(Crew(Adder, (np.ones(1),)), units(), count=1_000_000, workers=2)) as results:
        for _ in range(10):
            next(results)
    assert made < 100


def test_an_error_stops_everything_and_results_come_in_the_calling_thread() -> None:
    threads = set()
    units = ((number, "wrong" if number == 20 else number) for number in range(10_000))
    with (
        pytest.raises(UserError, match=r"^The payload is wrong; lower way\.$"),
        closing(Threads().map(Crew(Adder, (np.ones(1),)), units, count=10_000, workers=2)) as results,
    ):
        for _ in results:
            threads.add(threading.current_thread())
    assert threads <= {threading.current_thread()}


def test_gather_keeps_the_order() -> None:
    crew = Crew(Adder, (np.zeros(1), 0.001))
    values = Threads().gather(crew, range(30), count=30, workers=4)
    assert [value for value, _ in values] == [float(number) for number in range(30)]


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("local", "local"),
        ("ray", "ray"),
        ("ray://head", "ray://head:10001"),
        ("ray://10.0.0.1:1234", "ray://10.0.0.1:1234"),
    ],
)
def test_on_has_one_spelling(text: str, on: str) -> None:
    assert parse_on(text) == on


@pytest.mark.parametrize(
    "text", ["rai", "ray:/x", "ray://", "ray://a:b", "ray://host:99999", "http://host:80"]
)
def test_another_place_is_told(text: str) -> None:
    with pytest.raises(UserError, match=r"on is '.*', but work runs on local, ray or ray://HOST:PORT\."):
        parse_on(text)


def test_the_variable_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHOT_ON", "rey")
    with pytest.raises(UserError, match="on is 'rey'"), using_executor():
        pass
    with using_executor("local"):
        assert isinstance(executor(), Threads)


def test_gpus_are_for_clusters() -> None:
    with (
        pytest.raises(UserError, match=r"gpus_per_worker is for workers on a cluster; add on=\"ray\""),
        using_executor("local", gpus_per_worker=1),
    ):
        pass


def test_failures_are_remembered_until_they_are_retried(tmp_path: Path) -> None:
    failures = FailureList(tmp_path / "failed.json")
    assert failures.read() == {}
    failures.write({"b": "its worker died", "a": "ValueError: x"})
    assert failures.skipped(["a", "c"], retry=False) == {"a": "ValueError: x"}
    assert failures.skipped(["a", "c"], retry=True) == {}
    (tmp_path / "failed.json").write_text("{")
    assert failures.read() == {}
    failures.write({})
    assert not (tmp_path / "failed.json").exists()
    sentence = str(UnitsFailed({"u1": "ValueError: x"}))
    assert sentence == (
        "1 unit of work failed 3 times, and went without (u1: ValueError: x); finished work is kept; mend the cause "
        "and call again with retry_failed=True."
    )


def test_nothing_imports_ray_without_being_told(forks: ForkServer, tmp_path: Path) -> None:
    """The server of forks has every module of Longshot imported."""
    photos = make_photos(tmp_path / "photos", 2, 3)
    code = (
        "import sys, longshot; longshot.embed(sys.argv[1], 'pixels', on='local'); print('ray' in sys.modules)"
    )
    assert forks.run(str(photos), program=code).stdout.strip() == "False"

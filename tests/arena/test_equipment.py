"""What boxes are given: cores of their own, devices, and a clock on which no image of the organiser's is decoded."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from longshot.arena import sandbox, submission_runs
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside import wire
from longshot.base import UserError


@pytest.fixture
def few_cores(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Three cores whose names nobody else claims."""
    numbers = [100_000 + 10 * os.getpid() + step for step in range(3)]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(numbers))
    return numbers


def test_no_two_boxes_have_the_same_core(few_cores):
    with sandbox.own_cores(2) as first, sandbox.own_cores(1) as second:
        assert sorted((*first, *second)) == few_cores
    with sandbox.own_cores(3) as again:
        assert list(again) == few_cores


def test_a_box_waits_for_cores_and_not_for_ever(few_cores, monkeypatch):
    stop = threading.Event()
    monkeypatch.setattr(sandbox, "POLL", 0.001)
    with sandbox.own_cores(2):
        waiter: list[tuple[int, ...]] = []

        def wait() -> None:
            with sandbox.own_cores(2, stop) as own:
                waiter.append(own)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.05)
        assert not waiter
        stop.set()
        thread.join()
    assert len(waiter[0]) < 2  # it was stopped, not served


def test_a_box_gets_cores_that_become_free(few_cores, monkeypatch):
    monkeypatch.setattr(sandbox, "POLL", 0.001)
    served: list[tuple[int, ...]] = []

    def wait() -> None:
        with sandbox.own_cores(3) as own:
            served.append(own)

    with sandbox.own_cores(1):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.05)
        assert not served
    thread.join(60)
    assert served == [tuple(few_cores)]


def test_more_cores_than_there_are(few_cores):
    with (
        pytest.raises(UserError, match="4 cores of its own, but this machine has 3 for it; lower 'limits: c"),
        sandbox.own_cores(4),
    ):
        pass


def test_without_a_wish_nothing_is_claimed(few_cores):
    with sandbox.own_cores(0) as none, sandbox.own_cores(3):
        assert none == ()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_only_pinned_boxes_may_not_choose_cores(machine):
    free, pinned = (sandbox.program(machine, pinned=pinned) for pinned in (False, True))
    assert free is not None
    assert pinned is not None
    assert len(pinned) == len(free) + 16  # two instructions


LOOK = """
import os
print("cores", sorted(os.sched_getaffinity(0)), "threads", os.environ.get("OMP_NUM_THREADS"))
try:
    os.sched_setaffinity(0, range(os.cpu_count()))
except OSError as error:
    print("refused", error.errno)
print("device", os.path.exists("/dev/loop-control"))
"""


def test_a_box_keeps_to_its_cores_and_sees_its_devices(room, monkeypatch, needs_sandbox):
    """A device that computes nothing stands for those that do."""
    device = Path("/dev/loop-control")
    monkeypatch.setattr(sandbox, "device_files", lambda: [device] if device.exists() else [])
    competition, folder = room.competition, room.folder / "looks"
    phase = competition.phases[0]
    pinned = phase.model_copy(update={"limits": phase.limits.model_copy(update={"cores": 1})})
    submission_runs.run(
        CompetitionData(competition),
        pinned,
        room.submission("looking", top=LOOK),
        folder,
        seed=1,
        equipment=sandbox.Equipment(devices=True),
    )
    lines = (folder / "log.txt").read_text().splitlines()
    assert lines[0] in [f"cores [{core}] threads 1" for core in os.sched_getaffinity(0)]
    assert lines == [lines[0], "refused 38", f"device {device.exists()}"] * 4  # in training and in every task


def test_without_a_wish_there_are_no_devices():
    assert sandbox.Equipment().device_files == []
    assert "CUDA_VISIBLE_DEVICES" not in sandbox.environment()


def test_the_worker_chooses_the_graphics_processor(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert sandbox.environment(0, sandbox.Equipment(devices=True))["CUDA_VISIBLE_DEVICES"] == "1"


class Answering:
    """In place of a box: a submission that predicts 0 and notes when its time begins."""

    events: ClassVar[list[str]] = []

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.events.append("the clock starts")
        self.queries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.events.append("the clock stops")

    def process(self, *, trains: bool = False) -> AbstractContextManager[Self]:
        return nullcontext(self)

    def send(self, kind: str, fields: Any = None, **arrays: Any) -> None:
        if kind == "query":
            self.queries = len(arrays["query"])

    def receive(self, kind: str) -> wire.Message:
        return wire.Message(kind, {}, {"predicted": np.zeros(self.queries, np.int64)})


def test_images_are_decoded_before_the_clock_starts(competition, tmp_path, monkeypatch):
    """For the first participant and for the second alike: what their times cover is the same."""
    from longshot import models

    def noted(module: Any, name: str) -> None:
        work = getattr(module, name)

        def note(*arguments: Any) -> Any:
            Answering.events.append(name)
            return work(*arguments)

        monkeypatch.setattr(module, name, note)

    noted(models, "cached_pixels")  # decodes
    noted(models, "content_of")  # reads every file
    monkeypatch.setattr(submission_runs, "Box", Answering)
    monkeypatch.setattr(sandbox, "require", lambda: None)
    covered = []
    for participant in ("first", "second"):
        Answering.events.clear()
        outcome = submission_runs.run(
            CompetitionData(competition), competition.phases[0], tmp_path, tmp_path / participant, seed=1
        )
        assert outcome.scores is not None
        start = Answering.events.index("the clock starts")
        assert ("cached_pixels" in Answering.events[:start]) == (
            participant == "first"
        )  # else there is no case
        covered.append(Answering.events[start:])
    assert covered == [["the clock starts", "the clock stops"]] * 2

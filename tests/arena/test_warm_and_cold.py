"""What the kernel shares between processes tells no task what the one before did; the figures are printed.

``pytest -s tests/arena/test_warm_and_cold.py`` prints bits per task and channel.
"""

from __future__ import annotations

import json
import mmap
import os
import random
from pathlib import Path
from typing import Any

import pytest

from arena.remembering import write_noise
from arena.warm_and_cold import CHANNELS, MODEL, TASKS, records, told
from longshot.arena import submission_runs
from longshot.arena.competition_data import CompetitionData

pytestmark = pytest.mark.usefixtures("needs_sandbox")
SCOPE: dict[str, Any] = {"__file__": __file__}
exec(CHANNELS, SCOPE)
NAMES = list(SCOPE["CHANNELS"])
CHANCE = 1e-5  # 62 channels, each wrongly found once in 100,000 runs


@pytest.fixture(scope="module")
def heard(
    tmp_path_factory: pytest.TempPathFactory, needs_sandbox: None
) -> dict[str, tuple[list[int], list[Any]]]:
    """What every channel sent and what the next task read: name → bits, numbers."""
    folder = tmp_path_factory.mktemp("warm")
    competition = write_noise(folder / "competition")
    (folder / "code").mkdir()
    (folder / "code" / "model.py").write_text(MODEL)
    (folder / "code" / "large.bin").write_bytes(os.urandom(1 << 20))
    phase = competition.phases[0].model_copy(update={"tasks": TASKS})
    outcome = submission_runs.run(
        CompetitionData(competition), phase, folder / "code", folder / "run", seed=1
    )
    assert outcome.scores is not None, outcome.reason
    log = (folder / "run" / "log.txt").read_text()
    sent = [json.loads(line) for line in records(log, "SENT")]
    read = [json.loads(line) for line in records(log, "READ")]
    assert len(sent) == len(read) == TASKS
    return {name: ([each[name] for each in sent[:-1]], [each[name] for each in read[1:]]) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_task_learns_nothing_of_the_one_before(heard, name):
    sent, read = heard[name]
    errors = {value for value in read if isinstance(value, str)}
    if errors:  # refused: always in the same way
        assert len(set(read)) == 1
        print(f"{name}: refused ({errors.pop()})")
        return
    bits, chance = told(sent, read)
    print(f"{name}: {bits:.3f} bits a task at most, p = {chance:.2g}")
    assert chance > CHANCE


def test_the_same_measurement_finds_warm_files_on_a_disk(tmp_path: Path):
    """The attack is real where files are on a disk: 1 bit a task."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(64 * mmap.PAGESIZE))
    channel = SCOPE["Mincore"](lambda: [str(path)])
    sent, read = [], []
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        for _ in range(TASKS):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            sent.append(random.randrange(2))
            channel.put(sent[-1])
            read.append(channel.measure())
    bits, chance = told(sent, read)
    if not any(read) or len(set(read)) == 1:
        pytest.skip("the temporary folder is in memory, too")
    print(f"files on a disk: {bits:.3f} bits a task, p = {chance:.2g}")
    assert bits > 0.9
    assert chance < CHANCE

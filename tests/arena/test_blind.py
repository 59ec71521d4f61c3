"""A submission answers every task as if there were no other: what it tries to carry from one to the next is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.remembering import scores_by_channel, write_attack, write_noise
from longshot.arena import submission_runs
from longshot.arena.competition_data import CompetitionData

pytestmark = pytest.mark.usefixtures("needs_sandbox")

# Channels that carry something where one process lives through all tasks: so the attacks are real.
LASTING = [
    "memory", "builtins", "a module", "environment", "current folder", "home", "/tmp", "shared memory",
    "the saved learner", "beside the learner", "a daemon at an abstract name", "a daemon at a port",
    "a daemon at a path", "meta_fit's process at an abstract name", "meta_fit's process at a port",
    "a process in /proc", "semaphores", "a queue of POSIX",
]  # fmt: skip
REFUSED = [
    "/var/tmp", "the submission's folder", "the installed packages", "devices", "the module on disk",
    "a library on disk", "a shared segment", "a queue of System V", "the kernel's keys", "its own pipe",
    "other processes' memory",
]  # fmt: skip


def run(
    folder: Path, name: str, *, remembers: bool = True, **settings: str
) -> tuple[float, dict[str, float]]:
    """The score of the submission, and what each of its channels alone would have scored."""
    competition = write_noise(folder / name, **settings)
    code = write_attack(folder / f"{name}-code", remembers=remembers)
    out = folder / f"{name}-run"
    outcome = submission_runs.run(CompetitionData(competition), competition.phases[0], code, out, seed=1)
    assert outcome.scores is not None, outcome.reason
    log = (out / "log.txt").read_text()
    return outcome.scores["overall"]["normalized_accuracy"], scores_by_channel(competition, log)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blind")


@pytest.fixture(scope="module")
def honest(folder: Path, needs_sandbox: None) -> float:
    return run(folder, "honest", remembers=False)[0]


@pytest.fixture(scope="module")
def one_process(folder: Path, needs_sandbox: None) -> tuple[float, dict[str, float]]:
    return run(folder, "one-process", isolation="run")


@pytest.fixture(scope="module")
def blind(folder: Path, needs_sandbox: None) -> tuple[float, dict[str, float]]:
    return run(folder, "blind")


@pytest.mark.long
@pytest.mark.parametrize("channel", LASTING)
def test_the_attack_works_where_one_process_answers_all_tasks(one_process, honest, channel):
    assert one_process[1][channel] > honest + 0.4


@pytest.mark.parametrize("channel", [*LASTING, *REFUSED])
def test_a_channel_gains_nothing_over_honest_pixel_means(blind, honest, channel):
    # A memory that is empty leaves the very answers of pixel means, so the bound is equality, not a margin.
    assert blind[1][channel] == honest


def test_all_channels_together_gain_nothing(blind, honest):
    assert blind[0] == honest
    assert set(blind[1]) == {*LASTING, *REFUSED}


@pytest.mark.long
def test_disjoint_pools_leave_a_memory_nothing_to_join(folder, honest):
    """The second wall: no image that was support is ever a query, so remembering labels helps nobody."""
    score, by_channel = run(folder, "pools", isolation="run", pools="disjoint")
    plain = run(folder, "pools-honest", remembers=False, pools="disjoint")[0]
    assert score == plain and set(by_channel.values()) == {plain}


CLOCK = """
import time

PERIOD, SLOTS = 0.256, 64  # a task ends at a time of its choice: 6 bits, two images of one class by 3 bits each

class Clock:
    def put(self, data):
        first, second = [image[0] for image, label in pickle.loads(data)[-1].items() if label == 0][:2]
        code = first * 8 + second
        time.sleep(((code + 0.5) / SLOTS * PERIOD - time.time()) % PERIOD)
    def get(self):
        code = int(time.time() % PERIOD / PERIOD * SLOTS)
        return pickle.dumps([{bytes([code // 8]): 0, bytes([code % 8]): 0}])

def keys(images):
    return [bytes([hashlib.sha1(image.numpy().tobytes()).digest()[0] % 8]) for image in images]

CHANNELS = {"clock": Clock()}
"""


def test_a_clock_tells_of_one_image_at_most(folder):
    """Clocks cannot be taken away: a task that ends when it likes tells the next a few bits.

    Six bits say that two images are of one class. Were they always right, one query more of 4 per class would be:
    recall of its class + 1/4, balanced accuracy + 1/(4 N), normalised accuracy + 1/(4 (N − 1)), at most 1/4 with N = 2.
    With the protocol's 20 queries and 2 to 20 classes it is 1/(20 (N − 1)).
    """
    competition = write_noise(folder / "clock")
    phase = competition.phases[0].model_copy(update={"tasks": 6})
    scores = {}
    for name, remembers in (("clock", True), ("none", False)):
        code = write_attack(folder / f"clock-{name}", remembers=remembers)
        model = (code / "model.py").read_text()
        (code / "model.py").write_text(model.replace("class MyMetaLearner", f"{CLOCK}\nclass MyMetaLearner"))
        out = folder / f"clock-{name}-run"
        outcome = submission_runs.run(CompetitionData(competition), phase, code, out, seed=1)
        assert outcome.scores is not None, outcome.reason
        scores[name] = outcome.scores["overall"]["normalized_accuracy"]
    assert scores["clock"] <= scores["none"] + 1 / 4

"""What a submission can learn inside a bundle's own programs: its task, and nothing of the others."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from longshot.competition.bundle.programs import confine
from longshot.competition.bundle.run import run_bundle
from longshot.competition.bundle.write import PROGRAMS, write_bundle
from longshot.competition.data import CompetitionData
from longshot.competition.inside import feed
from longshot.competition.inside.scoring import score_answers, summarize
from longshot.competition.settings import Competition, load
from longshot.core.errors import UserError

pytestmark = pytest.mark.skipif(not confine.version(), reason="needs Landlock (Linux 5.13)")

# Remembers every support image of every task by its bytes, through whatever keeps something: memory, files, a process
# that stays behind, the disk. A query that was support in a task with an image of this task's support has its label.
ATTACK = """
import glob, os, pickle, socket
import numpy as np
from api import MetaLearner, Learner, Predictor

SEEN = []  # one dict per task: image → label
NAME = "\\0longshot-memory-attack"

def places():
    here = os.path.dirname(os.path.abspath(__file__))
    return [here, os.getcwd(), os.environ.get("HOME", "/"), "/tmp", "/var/tmp", "/dev/shm", "/dev", "/app",
            "/app/output", "/app/input_data", "/app/program", os.environ.get("LEARNER", "/")]

def recall():
    tasks = list(SEEN)
    for place in places():
        try:
            with open(os.path.join(place, "memory.pkl"), "rb") as file:
                tasks += pickle.load(file)
        except Exception:
            pass
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1)
            line.connect(NAME)
            tasks += pickle.loads(b"".join(iter(lambda: line.recv(1 << 16), b"")))
    except Exception:
        pass
    for path in ["/app/program/run.json", *glob.glob("/app/input_data/**", recursive=True)]:
        try:
            tasks += [{path: open(path, "rb").read()}]
            raise SystemExit(path + " can be read")
        except OSError:
            pass
    return tasks

def remember(tasks):
    SEEN[:] = tasks
    for place in places():
        try:
            with open(os.path.join(place, "memory.pkl"), "wb") as file:
                pickle.dump(tasks, file)
        except Exception:
            pass
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            with socket.socket(socket.AF_UNIX) as line:
                line.bind(NAME)
                line.listen()
                while True:
                    other, _ = line.accept()
                    other.sendall(pickle.dumps(tasks))
                    other.close()
    except BaseException:
        pass

class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        return MyLearner()

class MyLearner(Learner):
    def fit(self, support_set):
        X, y = support_set[:2]
        now = {x.numpy().tobytes(): int(label) for x, label in zip(X, y)}
        tasks = recall()
        if REMEMBERS:
            remember(tasks + [now])
        return Joined(tasks, now, support_set[3])
    def save(self, path_to_save): pass
    def load(self, path_to_load): os.environ["LEARNER"] = path_to_load

class Joined(Predictor):
    def __init__(self, tasks, now, ways):
        self.tasks, self.now, self.ways = tasks, now, ways
    def predict(self, query_set):
        labels = []
        for image in query_set:
            key = image.numpy().tobytes()
            votes = np.zeros(self.ways)
            for task in self.tasks:
                if key in task:
                    for other, label in self.now.items():
                        if task.get(other) == task[key]:
                            votes[label] += 1
            labels.append(int(votes.argmax()))
        return np.array(labels)
"""


@pytest.fixture
def noise(tmp_path: Path) -> Competition:
    """Images of noise, whose classes cannot be told, in many tasks with few images: made to be remembered."""
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        pixels = rng.integers(0, 256, (32, 16, 16, 3)).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=pixels, labels=np.repeat(np.arange(4), 8))
    folder = tmp_path / "competition"
    folder.mkdir()
    (folder / "competition.yaml").write_text(
        textwrap.dedent(f"""
        title: noise
        datasets: {{one: {tmp_path}/one.npz, two: {tmp_path}/two.npz}}
        image_size: 16
        shape: {{min_way: 2, max_way: 3, min_shot: 3, max_shot: 4, query: 4}}
        limits: {{seconds: 600, memory: 8589934592}}
        phases: {{feedback: {{train: [one], test: [two], tasks: 20}}}}
        """)
    )
    return load(folder)


def attacker(folder: Path, remembers: bool) -> Path:
    folder.mkdir()
    (folder / "model.py").write_text(ATTACK.replace("REMEMBERS", str(remembers)))
    return folder


def joined_in_one_process(competition: Competition, folder: Path) -> float:
    """The score of the attack where one process with its memory answers every task."""
    from longshot.competition.inside import api

    sys.modules["api"] = api
    spec = importlib.util.spec_from_file_location("attack", folder / "model.py")
    assert spec is not None and spec.loader is not None
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    model.remember = lambda tasks: model.SEEN.__setitem__(slice(None), tasks)
    data = CompetitionData(competition)
    tasks, answers = data.test_tasks(competition.phases[0], 1), []
    for task in tasks:
        pixels, labels = data.pixels(task.dataset), feed.torch.from_numpy(task.support_label)
        support = (feed.images(pixels[task.support]), labels, labels, task.ways, task.shots)
        predicted = model.MyLearner().fit(support).predict(feed.images(pixels[task.query]))
        answers.append({"predicted": predicted.tolist(), "seconds": 0.0})
    summary = summarize(score_answers([task.truth for task in tasks], answers), lambda values: None)
    return float(summary["overall"]["normalized_accuracy"])


def test_remembering_other_tasks_gains_nothing(noise, tmp_path, needs_sandbox):
    folder = attacker(tmp_path / "attack", True)
    assert joined_in_one_process(noise, folder) > 0.6  # the attack works where memory lasts
    bundle = write_bundle(noise, tmp_path / "bundle.zip")
    (attacked,) = run_bundle(bundle, folder, tmp_path / "out")
    (honest,) = run_bundle(bundle, attacker(tmp_path / "honest", False), tmp_path / "honest-out")
    # Without a memory it votes for nothing, so every answer is label 0: the same as without an attack.
    assert attacked["normalized_accuracy"] == honest["normalized_accuracy"] == 0.0


CHANNELS = {
    "network": "import socket; socket.socket(socket.AF_INET)",
    "segment": "import ctypes; assert ctypes.CDLL(None).shmget(1234, 4096, 0o1666) < 0; raise OSError",
    "semaphore": "import ctypes; assert ctypes.CDLL(None).semget(1234, 1, 0o1666) < 0; raise OSError",
    "submission": "open(__file__, 'a')",
    "learner": "open(os.path.join(os.environ['LEARNER'], 'left'), 'w')",
    "libraries": "open(np.__file__, 'a')",
    "devices": "open('/dev/left', 'w')",
    "output": "open('/app/output/answers.json', 'w')",
    "tasks": "open('/app/program/run.json')",
    "images": "open('/app/input_data/images/0.bin')",
    "organiser": "open(f'/proc/{os.getppid()}/mem')",
}


@pytest.fixture(scope="module")
def small_bundle(tmp_path_factory, images) -> Path:
    folder = tmp_path_factory.mktemp("small")
    (folder / "competition.yaml").write_text(
        textwrap.dedent(f"""
        title: small
        datasets: {{one: {images}/one.npz, two: {images}/two.npz}}
        image_size: 16
        shape: {{min_way: 2, max_way: 3, min_shot: 1, max_shot: 3, query: 4}}
        limits: {{seconds: 600, memory: 8589934592}}
        phases: {{feedback: {{train: [one], test: [two], tasks: 2}}}}
        """)
    )
    return write_bundle(load(folder), folder / "bundle.zip")


def test_every_way_out_of_a_task_is_closed(small_bundle, submission, tmp_path, needs_sandbox):
    tried = f"""
        import os
        os.environ["LEARNER"] = path_to_load
        for way, code in {CHANNELS!r}.items():
            try:
                exec(code)
            except OSError:
                continue
            raise SystemExit("open: " + way)
        """
    (scores,) = run_bundle(small_bundle, submission(load=tried), tmp_path / "out")
    assert scores["normalized_accuracy"] == 0.0  # it went through with constant answers


def test_an_open_way_would_be_told(small_bundle, submission, tmp_path, needs_sandbox):
    with pytest.raises(UserError, match="open: training data"):
        run_bundle(small_bundle, submission(load="raise SystemExit('open: training data')"), tmp_path / "out")


def test_a_failure_tells_little_and_prints_nothing_of_a_test_task(
    small_bundle, submission, tmp_path, needs_sandbox
):
    shown = submission(fit="print('PRINTED' * 9)\nraise ValueError('x' * 5000)")
    with pytest.raises(UserError) as failure:
        run_bundle(small_bundle, shown, tmp_path / "out")
    assert "PRINTED" not in str(failure.value) and str(failure.value).count("x") < 250


def walled(code: str, hidden: Path, work: Path, drop: bool) -> subprocess.CompletedProcess[str]:
    """``code`` in a process of its own that put up the walls before."""
    text = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(PROGRAMS)!r})
import confine
hidden, work = Path({str(hidden)!r}), Path({str(work)!r})
readable = confine.around([hidden, work])
if {drop}:
    confine.drop_user()
confine.confine(readable, [work])
{code}
"""
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which it gives up")
def test_root_becomes_a_user_without_rights(tmp_path):
    done = walled("print(os.getresuid(), os.getgroups())", tmp_path / "hidden", tmp_path / "work", True)
    assert done.stdout.strip() == f"({confine.USER}, {confine.USER}, {confine.USER}) []", done.stderr


def test_what_is_hidden_is_closed_and_its_neighbours_are_open(tmp_path):
    work, hidden = tmp_path / "work", tmp_path / "hidden"
    for folder in (work, hidden):
        folder.mkdir()
        (folder / "file").write_text("text")
    (tmp_path / "beside").write_text("text")
    code = """
(work / "new").write_text("new")
print((hidden.parent / "beside").read_text())
for path in (hidden / "file", hidden.parent / "beside"):
    try:
        path.open("a" if path.name == "beside" else "r")
    except PermissionError:
        print("closed")
"""
    done = walled(code, hidden, work, False)
    assert done.stdout.split() == ["text", "closed", "closed"], done.stderr

"""Whatever a task can look at is as meta-training saw it, however much the tasks before disturbed it."""

from __future__ import annotations

import json

import pytest

from arena.remembering import write_noise
from longshot.arena import submission_runs
from longshot.arena.competition_data import CompetitionData

pytestmark = pytest.mark.usefixtures("needs_sandbox")

MODEL = r'''
import ctypes, fcntl, json, os, resource, socket, stat, subprocess, sys, threading, time
import numpy as np
from api import MetaLearner, Learner, Predictor

libc = ctypes.CDLL(None, use_errno=True)
SCRATCH = ("/tmp", "/box/work", "/dev/shm")  # new in every room

def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__

def text(path):
    with open(path, "rb") as file:
        return file.read(1 << 16).decode("latin1")

def places():
    for top in ("/proc", "/dev", "/box", "/etc", "/"):
        for folder, inner, files in os.walk(top):
            if top == "/":
                inner[:] = []
            inner[:] = [name for name in inner if not name.isdigit() and name not in ("self", "thread-self")
                        and os.path.join(folder, name) not in SCRATCH]
            yield from (os.path.join(folder, name) for name in files)
            yield folder

def frames():
    """What the program that forked this process knows: its variables are still there."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith(("spawn.py", "rooms.py", "zygote.py")):
            known = frame.f_locals.items()
            plain = {name: value for name, value in known if isinstance(value, (int, str, bytes, list))}
            yield frame.f_code.co_name, str(plain)
        frame = frame.f_back

def seen():
    """Everything that can be looked at, by name."""
    facts = {}
    for path in places():
        kind = tried(lambda: os.stat(path, follow_symlinks=False))
        if isinstance(kind, str):
            facts["stat " + path] = kind
            continue
        if not path.startswith("/proc"):  # times in /proc are those of the look itself
            facts["times " + path] = [kind.st_atime_ns, kind.st_mtime_ns, kind.st_ctime_ns, kind.st_size, kind.st_mode]
        if stat.S_ISREG(kind.st_mode) and not path.startswith(("/box/data", "/box/program")):
            facts["text " + path] = tried(lambda: text(path))
    for folder in (*SCRATCH, "/box/trained", "/dev", "/proc"):
        facts["room " + folder] = tried(lambda: [getattr(os.statvfs(folder), name) for name in ("f_bfree", "f_ffree")])
        if folder in SCRATCH:
            facts["list " + folder] = tried(lambda: sorted(os.listdir(folder)))
    for name in ("ipc", "mnt", "net", "pid", "uts"):
        facts["kind " + name] = os.path.exists("/proc/self/ns/" + name)
    facts["processes"] = sorted(name for name in os.listdir("/proc") if name.isdigit())
    facts["host"] = socket.gethostname()
    facts["limits"] = [resource.getrlimit(number) for number in range(16)]
    facts["priority"] = [os.nice(0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0)]
    facts["environment"] = dict(os.environ)
    facts["umask"] = tried(lambda: os.umask(0o22))
    facts["load"] = tried(os.getloadavg)
    facts["memory"] = tried(lambda: libc.sysinfo(ctypes.create_string_buffer(1024)))
    facts["frames"] = list(frames())
    facts["descriptors"] = sorted(os.listdir("/proc/self/fd"))
    return json.loads(json.dumps(facts))

def disturb():
    """Change whatever can be changed."""
    for path in places():
        tried(lambda: os.utime(path, ns=(1, 1)))
        tried(lambda: os.chmod(path, 0o777))
        tried(lambda: os.setxattr(path, "user.kept", b"x"))
        tried(lambda: open(path, "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)).read(1 << 16))
        if path.startswith("/proc/sys") or path.startswith("/dev"):
            tried(lambda: open(path, "wb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)).write(b"1"))
    for number in range(40):
        tried(lambda: open(f"/tmp/left-{number}", "wb").write(b"x" * 10_000))
        tried(lambda: os.symlink("/", f"/dev/shm/link-{number}"))
    tried(lambda: os.openpty())
    tried(lambda: socket.sethostname("kept"))
    tried(lambda: os.nice(5))
    tried(lambda: os.sched_setaffinity(0, {0}))
    tried(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
    tried(lambda: os.mkfifo("/box/work/fifo"))
    tried(lambda: libc.semget(1, 10, 0o1666))
    tried(lambda: libc.mq_open(b"/kept", os.O_RDWR | os.O_CREAT, 0o666, None))
    os.umask(0o777)
    os.environ["KEPT"] = "1"
    here = open(__file__)
    tried(lambda: fcntl.flock(here, fcntl.LOCK_EX))
    for _ in range(20):  # numbers of processes count up
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            while True:
                pass
    time.sleep(0.2)

class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        return MyLearner()

class MyLearner(Learner):
    def save(self, path_to_save):
        os.mkfifo(os.path.join(path_to_save, "fifo"))
        open(os.path.join(path_to_save, "facts.json"), "w").close()
        json.dump(seen(), open(os.path.join(path_to_save, "before.json"), "w"))
    def load(self, path_to_load):
        self.folder = path_to_load
    def fit(self, support_set):
        facts = seen()
        before = json.load(open(os.path.join(self.folder, "before.json")))
        names = sorted(name for name in {*facts, *before} if facts.get(name) != before.get(name))
        changed = {name: [str(each.get(name))[:3000] for each in (before, facts)] for name in names}
        print("\nCHANGED", json.dumps(changed))
        print("LOOKED", len(facts), flush=True)
        disturb()
        return Guess()

class Guess(Predictor):
    def predict(self, query_set):
        threading.Timer(0.01, lambda: os._exit(37)).start()  # a number for whoever buries it
        return np.zeros(len(query_set), dtype=np.int64)
'''


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory, needs_sandbox: None) -> list[dict[str, list[str]]]:
    """What every task saw otherwise than meta-training did: name → [then, now]."""
    folder = tmp_path_factory.mktemp("traces")
    competition = write_noise(folder / "competition")
    (folder / "code").mkdir()
    (folder / "code" / "model.py").write_text(MODEL)
    phase = competition.phases[0].model_copy(update={"tasks": 3})
    outcome = submission_runs.run(
        CompetitionData(competition), phase, folder / "code", folder / "run", seed=1
    )
    assert outcome.scores is not None, outcome.reason
    lines = (folder / "run" / "log.txt").read_text().splitlines()
    assert min(int(line.split()[1]) for line in lines if line.startswith("LOOKED")) > 500
    return [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("CHANGED")]


def test_a_task_finds_everything_as_if_it_were_the_first(looks):
    first = looks[0]
    for later in looks[1:]:
        assert {name: now for name, (_, now) in later.items()} == {
            name: now for name, (_, now) in first.items()
        }

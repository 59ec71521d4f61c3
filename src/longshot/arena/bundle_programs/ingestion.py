"""Ingestion: meta-train the submission and have it answer the test tasks. Query labels are not on this machine.

python3 ingestion.py INPUT_DATA OUTPUT SUBMISSION [wipe]

What is secret (``run.json`` beside this program: keys, rows, support labels; the images of INPUT_DATA under these keys)
is read first, then removed (``wipe``) or covered. The submission is copied, and its folder emptied (``handover.py``);
the copy gets a task at a time through a pipe, each in a process of its own behind walls (``confine.py``). Where the
walls cannot be put up, nothing is run.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "host"))

import confine  # noqa: E402
import handover  # noqa: E402
import pictures  # noqa: E402
from inside import blind_tasks, league, spawn, wire  # noqa: E402

SYSTEM = "system"  # nothing that a submission printed or said is told, as test images could come out with it


class Failed(Exception):
    """A stage of the submission failed; the text is for the log as it is."""


class Pipes:
    """The channel to one of the submission's processes."""

    def __init__(self, out: int, back: int, submission: Path, logs: str) -> None:
        self.out, self.back, self.submission, self.logs = out, back, submission, logs

    def send(self, kind: str, fields: dict[str, Any] | None = None, **arrays: np.ndarray[Any, Any]) -> None:
        wire.send(self.out, kind, fields, **arrays)

    def receive(self, kind: str) -> wire.Message:
        message = wire.receive(self.back, 64 << 20)
        if message.kind != kind:
            stage, reason = (str(message.fields.get(key, ""))[:4000] for key in ("stage", "reason"))
            if self.logs == SYSTEM:
                raise Failed(wire.system_reason(stage, reason, self.submission))
            raise Failed(f"it failed in {wire.one_line(stage, 20)}: {wire.readable(reason)}")
        return message


class Processes:
    """The processes of the submission, of which there is one at a time."""

    def __init__(
        self, submission: Path, train: Path, work: Path, hidden: list[Path], run: dict[str, Any]
    ) -> None:
        self.submission, self.logs, self.most = submission, run["logs"], int(run["log"])
        self.control, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        rules = json.dumps({"from_nothing": run["from_nothing"], "silent": self.logs == SYSTEM})
        arguments = [str(there.fileno()), str(submission), str(train), str(work), rules, *map(str, hidden)]
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-m", "spawn", *arguments],
            cwd=HERE / "host",
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE / "host")},
        )
        there.close()
        self._printed = bytearray()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._expect(spawn.READY)

    def _read(self) -> None:
        """Keep the first bytes that are printed and drop the rest: printing neither blocks nor fills a disk."""
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), 1 << 16):
            self._printed += chunk[: self.most - len(self._printed)]

    def _expect(self, answer: bytes) -> None:
        got = self.control.recv(4096)
        if got != answer:
            sys.exit(f"the test data cannot be kept from a submission here: {got.decode() or 'no answer'}")

    @contextmanager
    def process(self, kind: bytes = spawn.TASK) -> Iterator[Pipes]:
        """Open the channel to a new process, which is gone with all it left after the block."""
        there, out = os.pipe()
        back, here = os.pipe()
        socket.send_fds(self.control, [kind], [there, here])
        os.close(there)
        os.close(here)
        try:
            yield Pipes(out, back, self.submission, self.logs)
        finally:
            self.control.send(spawn.STOP)
            self._expect(spawn.CLEAN)
            os.close(out)
            os.close(back)

    def close(self) -> None:
        """End them; what was printed comes out where the phase shows it, each line marked as the submission's."""
        self.control.close()
        self._process.wait()
        self._reading.join(timeout=60)
        if self.logs != SYSTEM:
            for line in wire.readable(bytes(self._printed).decode("utf-8", "replace")).splitlines():
                print(f"| {line}")


def main() -> None:
    data, output, shared = (Path(argument).resolve() for argument in sys.argv[1:4])
    wipe = "wipe" in sys.argv[4:]
    confine.private()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        work.chmod(0o755)
        try:
            handover.take(shared, output, work / "submission", Path(__file__).stat().st_mtime_ns)
            result, key = _run(data, output, shared, work, wipe)
            handover.hand_on(shared, output, result, key)
        except handover.Refused as error:
            sys.exit(f"the submission is refused: {error}")


def _run(data: Path, output: Path, shared: Path, work: Path, wipe: bool) -> tuple[dict[str, Any], str]:
    """Train and answer with the copy in ``work``; gives the answers and the key to sign them with."""
    submission = work / "submission"
    if not (submission / "model.py").is_file():
        sys.exit("the submission has no model.py at its top")
    secret = HERE / "run.json"
    run = json.loads(secret.read_text(encoding="utf-8"))
    if run["from_nothing"] and (findings := league.shipped_weights(submission)):
        listed = wire.one_line("; ".join(findings[:3]))
        sys.exit(f"the submission failed: the meta-learning league allows no saved weights, but {listed}")
    images = {name: _open(data / entry["file"], entry, run["size"]) for name, entry in run["images"].items()}
    hidden = [secret, data, output, shared]
    with suppress(OSError):  # whatever else the platform mounts beside its own folders
        hidden += [path for path in Path("/app").iterdir() if path not in (HERE, *hidden)]
    _write_training(run["train"], images, work / "train")
    if wipe:
        with suppress(OSError):
            secret.unlink()
        shutil.rmtree(data, ignore_errors=True)
    processes = Processes(submission, work / "train", work, hidden, run)
    try:
        with processes.process(spawn.TRAIN) as channel:
            training = blind_tasks.begin(channel, int(run["seed"]))
        tasks = [_task(entry) for entry in run["tasks"]]
        answers = blind_tasks.answer_all(processes.process, tasks, images.__getitem__)
    except Failed as error:
        sys.exit(f"the submission failed: {error}")
    except (wire.WireError, blind_tasks.BadAnswer) as error:
        reason = wire.one_line(str(error))
        if run["logs"] == SYSTEM:  # shapes and kinds of what it sent are the submission's choice
            early = isinstance(error.__cause__ or error, wire.WireError)
            reason = "its process ended early or sent no message" if early else blind_tasks.NO_PREDICTION
        sys.exit(f"the submission failed: {reason}")
    finally:
        processes.close()
    return {"meta_training_seconds": training, "answers": answers}, run["key"]


def _open(path: Path, entry: dict[str, Any], size: int) -> pictures.Pictures:
    return pictures.Pictures(pictures.seal(path.read_bytes(), bytes.fromhex(entry["key"])), size)


def _write_training(datasets: list[dict[str, Any]], images: dict[str, Any], folder: Path) -> None:
    """Write the training datasets as the submission reads them: class after class, one array each."""
    folder.mkdir()
    for number, entry in enumerate(datasets):
        np.save(folder / f"{number}.npy", images[entry["name"]][entry.pop("rows")])
        entry["file"] = f"{number}.npy"
    (folder / "index.json").write_text(json.dumps({"datasets": datasets}), encoding="utf-8")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _task(entry: dict[str, Any]) -> blind_tasks.BlindTask:
    return blind_tasks.BlindTask(
        **{key: entry[key] for key in ("dataset", "ways", "shots", "seed")},
        **{key: np.asarray(entry[key], np.int64) for key in ("support", "support_label", "query")},
    )


if __name__ == "__main__":
    main()

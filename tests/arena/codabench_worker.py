"""An imitation of Codabench's compute worker: which containers it starts, what they share, and when it scores.

Two boxes of bubblewrap stand for the two containers of a prediction. Both run as one user and have the submission's
folder, the output and the input data to write to; ``/world`` stands for the network, which the submission's own
container has. A submission without ``metadata`` is copied into the output. Whatever became of ingestion, the output is
scored in a run of its own, with a file ``metadata`` in it that the worker wrote.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from longshot.arena import sandbox
from longshot.arena.settings import RunLimits

SECONDS = 120.0  # far more than any run here takes

# A guard of ``handover.py`` → what stands in its place where it is turned off.
GUARDS = {
    "take": "def take(submission, output, private, unpacked): pass",
    "check_unchanged": "def check_unchanged(submission, unpacked): pass",
    "check_files": "def check_files(folder): pass",
    "check_alone": "def check_alone(submission, output): pass",
    "check_ended": "def check_ended(results): pass",
    "signature": "def signature(text, key): return 'none'",
}
IN_PLACE = {  # without ``take``: the submission is used where it lies, and so cannot be hidden
    'submission = work / "submission"': "submission = shared",
    "hidden = [secret, data, output, shared]": "hidden = [secret, data, output]",
    "not in (HERE, *hidden)": "not in (HERE, shared, *hidden)",
}


@dataclass(frozen=True)
class Ran:
    """What came of a submission: scores or None, how both programs ended, the output as it was scored."""

    scores: dict[str, Any] | None
    ingestion: int | None
    message: str  # the last line of ingestion
    refusal: str  # the last line of scoring
    results: Path
    world: Path


def without(bundle: Path, target: Path, *guards: str) -> Path:
    """Write the bundle with some guards turned off, all of them for the programs as they once were."""
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            programs = name.startswith(("ingestion-", "scoring_program"))
            new.writestr(name, _weakened(content, guards) if programs else content)
    return target


def _weakened(program: bytes, guards: tuple[str, ...]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(program)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("handover.py") and "longshot" not in name:
                assert all(f"def {guard}(" in text.decode() for guard in guards)
                text += "\n".join(["", *(GUARDS[guard] for guard in guards), ""]).encode()
            if name == "ingestion.py" and "take" in guards:
                for new_way, old_way in IN_PLACE.items():
                    assert new_way in text.decode()
                    text = text.replace(new_way.encode(), old_way.encode())
            new.writestr(name, text)
    return stream.getvalue()


class Worker:
    """Runs submissions on one task of a bundle, each in a folder of its own below ``folder``."""

    def __init__(self, bundle: Path, folder: Path, task: int = 0) -> None:
        self.folder = folder
        with zipfile.ZipFile(bundle) as archive:
            described = yaml.safe_load(archive.read("competition.yaml"))["tasks"][task]
            names = ("ingestion_program", "input_data", "scoring_program", "reference_data")
            self.parts = {name: archive.read(described[name]) for name in names}

    def run(self, submission: Path, *, ingestion_starts: bool = True) -> Ran:
        """Predict and score. ``ingestion_starts``: False for an engine that fails to start its container."""
        root = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        world, results = root / "world", root / "input" / "res"
        for folder in (world, root / "scores"):
            folder.mkdir(parents=True)
        with sandbox.free_slot() as slot:
            user = sandbox.box_user(slot)
            _own(world, user)
            shutil.copytree(submission, root / "program")  # in the order in which the worker unpacks
            _own(root / "program", user)
            for name in ("ingestion_program", "input_data"):
                self._unpack(name, root / name, user)
            program, output = root / "program", root / "output"
            data = {"/app/input_data": root / "input_data"}
            companion = self._companion(program, output, data, world, slot)
            output.mkdir(exist_ok=True)
            _own(output, user)
            code, message = None, ""
            if ingestion_starts:
                mounts = {"/app/output": output, "/app/ingested_program": program, **data}
                code, message = _ended(self._start(root / "ingestion_program", mounts, slot))
            (world / "stop").touch()
            if companion is not None:
                _ended(companion)
            if (output / "metadata").exists():  # the real one gives up, too
                return Ran(None, code, message, "the output holds metadata", output, world)
            record = {"exitCode": None, "ingestionExitCode": code, "ingestionElapsedTime": 1.0}
            (output / "metadata").write_text(yaml.dump(record, default_flow_style=False))
            shutil.copytree(output, results)
            self._unpack("reference_data", root / "input" / "ref", user)
            self._unpack("scoring_program", root / "scoring_program", user)
            _own(root / "scores", user)
            mounts = {"/app/input": root / "input", "/app/output": root / "scores"}
            scored, refusal = _ended(self._start(root / "scoring_program", mounts, slot))
        path = root / "scores" / "scores.json"
        scores = json.loads(path.read_text()) if scored == 0 and path.is_file() else None
        return Ran(scores, code, message, refusal, results, world)

    def _companion(
        self, program: Path, output: Path, data: Mapping[str, Path], world: Path, slot: int
    ) -> subprocess.Popen[str] | None:
        """Start what the submission's metadata commands, and wait until it is ready; copy one without metadata."""
        if not any((program / name).exists() for name in ("metadata.yaml", "metadata")):
            shutil.copytree(program, output)
            return None
        output.mkdir()
        _own(output, sandbox.box_user(slot))
        if _command(program) is None:
            return None
        started = self._start(program, {"/app/output": output, "/world": world, **data}, slot, network=True)
        deadline = time.monotonic() + SECONDS
        while not (world / "ready").exists():  # at its best: all is prepared before ingestion begins
            assert started.poll() is None and time.monotonic() < deadline, started.communicate()
            time.sleep(0.01)
        return started

    def _unpack(self, part: str, folder: Path, user: int | None) -> None:
        with zipfile.ZipFile(io.BytesIO(self.parts[part])) as archive:
            archive.extractall(folder)
        _own(folder, user)

    def _start(
        self, program: Path, mounts: Mapping[str, Path], slot: int, *, network: bool = False
    ) -> subprocess.Popen[str]:
        words = shlex.split(str(_command(program)))
        words[0] = sys.executable
        writable = {"/app/program": program, **mounts}
        limits = RunLimits(seconds=SECONDS)
        with sandbox.system_calls() as filtered:
            filtered = () if network else filtered  # which the platform's containers do not have
            command = sandbox.command(
                words, binds={}, limits=limits, slot=slot, writable=writable, filtered=filtered
            )
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            return subprocess.Popen(command, text=True, pass_fds=filtered, **pipes)


def _command(program: Path) -> str | None:
    path = next(program / name for name in ("metadata.yaml", "metadata") if (program / name).exists())
    metadata = yaml.load(path.read_text(), Loader=yaml.FullLoader)
    return metadata.get("command") if isinstance(metadata, dict) else None


def _ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and last line."""
    try:
        printed, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()  # what has not ended by then
    return process.returncode, (printed.strip().splitlines() or [""])[-1]


def _own(folder: Path, user: int | None) -> None:
    """Give a folder to the user of the boxes; the containers' user owns everything, too."""
    if user is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user)

"""Ingestion: meta-train the submission and have it answer the test tasks. Query labels are not on this machine.

python3 ingestion.py INPUT_DATA OUTPUT SUBMISSION
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from inside import drive, wire


class Pipes:
    """The channel to the submission's process."""

    def __init__(self, out: int, back: int) -> None:
        self.out, self.back = out, back

    def send(self, kind: str, fields: dict[str, Any] | None = None, **arrays: np.ndarray[Any, Any]) -> None:
        wire.send(self.out, kind, fields, **arrays)

    def receive(self, kind: str) -> wire.Message:
        message = wire.receive(self.back, 64 << 20)
        if message.kind != kind:
            sys.exit(f"the submission failed: {message.fields.get('reason', message.kind)}")
        return message


def main() -> None:
    data, output, submission = (Path(argument).resolve() for argument in sys.argv[1:4])
    if not (submission / "model.py").is_file():
        sys.exit("the submission has no model.py at its top")
    facts = json.loads((data / "tasks.json").read_text(encoding="utf-8"))
    tasks = [
        drive.BlindTask(
            **{key: task[key] for key in ("dataset", "ways", "shots", "seed")},
            **{key: np.asarray(task[key], np.int64) for key in ("support", "support_label", "query")},
        )
        for task in facts["tasks"]
    ]

    @cache
    def pixels(name: str) -> np.ndarray[Any, Any]:
        stored: np.ndarray[Any, Any] = np.load(
            data / "test" / f"{name}.npy", mmap_mode="r", allow_pickle=False
        )
        return stored

    there, out = os.pipe()
    back, here = os.pipe()
    program = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as work:
        arguments = [str(submission), str(data / "train"), work, str(there), str(here)]
        process = subprocess.Popen(
            [sys.executable, "-s", "-m", "inside.host", *arguments], pass_fds=(there, here), cwd=program
        )
        os.close(there)
        os.close(here)
        try:
            channel = Pipes(out, back)
            training = drive.begin(channel, int(facts["seed"]))
            answers = drive.answer_all(channel, tasks, pixels)
        except (wire.WireError, drive.BadAnswer) as error:
            sys.exit(f"the submission failed: {error}")
        finally:
            process.kill()
            process.wait()
    result = {"meta_training_seconds": training, "answers": answers}
    (output / "answers.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()

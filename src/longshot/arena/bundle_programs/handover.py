"""From a submission's folder to a score, past whatever else can write there: what is taken, signed and accepted.

The platform starts a ``command`` of the submission's own beside ingestion, with the network, and both have the
submission's folder and the output. Without a ``metadata`` file it copies the submission into the output, and it scores
whatever lies there, however ingestion ended. So ingestion works on a copy of its own and refuses every submission that
could have a companion; its answers are signed under a key that only the two programs have; and scoring accepts them
only where the platform's own record says that this run's ingestion ended well.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import shutil
from pathlib import Path
from typing import Any

ANSWERS = "answers.json"
RESULTS = (ANSWERS, "scores.json", "scores.txt", "detailed_results.html")  # names that the programs write
# Where the platform looks for a command; the second also in the output.
METADATA = ("metadata.yaml", "metadata")
_FAILURES = (OSError, RecursionError)


class Refused(Exception):
    """What lies in the folders cannot be taken or scored; the text says why."""


def take(submission: Path, output: Path, private: Path, unpacked: int) -> None:
    """Copy the submission to the new folder ``private``, then empty its own folder and the output.

    Refused where the platform may have started a command of the submission: where ``metadata`` is not empty, and where
    anything in the folder has changed since ``unpacked``, the time (ns) at which the platform unpacked this program,
    which it does after the submission and before it starts anything. A companion can remove its ``metadata``, but not
    the time of that change. Refused, too, for links, and for a name at the top that the programs' own files have.
    """
    empty(output)
    try:
        shutil.copytree(submission, private, symlinks=True)
    except _FAILURES as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise Refused(f"its files cannot be copied ({reason})") from error
    check_files(private)
    check_unchanged(submission, unpacked)
    empty(submission)
    for path in (private, *private.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # read by the user without rights, whoever unpacked it


def empty(folder: Path) -> None:
    """Remove all that is in ``folder``."""
    try:
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    except _FAILURES as error:
        raise Refused(f"{folder} cannot be emptied") from error


def check_unchanged(submission: Path, unpacked: int) -> None:
    """Raise Refused where a file or folder was made, changed or removed after ``unpacked`` (ns).

    The kernel sets the time of change (ctime), and no program can set it back. Bytes that are changed through a shared
    mapping may leave it as it was (tmpfs does), but not a size or a name: hence ``metadata`` must be empty.
    """
    try:
        changed = max(path.lstat().st_ctime_ns for path in (submission, *submission.rglob("*")))
    except _FAILURES as error:
        raise Refused("its files changed while they were copied") from error
    if changed > unpacked:
        raise Refused(
            "its files changed after the platform had unpacked them, as a command of its own would do"
        )


def check_files(folder: Path) -> None:
    """Raise Refused for links, for a name of the protocol, and for ``metadata`` that holds anything."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise Refused("it holds a link, and only files and folders are taken")
    for name in RESULTS:
        if (folder / name).exists():
            raise Refused(f"it brings a file {name}, a name that belongs to the programs; give it another")
    for name in METADATA:
        path = folder / name
        if path.is_dir():
            raise Refused(f"its {name} is a folder, and a file is needed")
        if path.exists() and path.stat().st_size:
            raise Refused(
                f"its {name} is not empty and may have held a command, which is not allowed beside the tasks; empty "
                f"the file or remove it"
            )


def hand_on(submission: Path, output: Path, result: dict[str, Any], key: str) -> None:
    """Write the signed answers into the output, which nobody else has touched since it was emptied."""
    check_alone(submission, output)
    text = json.dumps(result)
    signed = {"answers": text, "signature": signature(text, key)}
    (output / ANSWERS).write_text(json.dumps(signed), encoding="utf-8")


def check_alone(submission: Path, output: Path) -> None:
    """Raise Refused where something lies in the folders that were emptied."""
    if any(submission.iterdir()) or any(output.iterdir()):
        raise Refused("something else wrote to the folders of this run while the tasks were answered")


def accept(results: Path, key: str) -> dict[str, Any]:
    """Return what this run's ingestion wrote; raise Refused for anything else.

    ``results`` holds what was in the output, and ``metadata``, which the platform writes itself when ingestion has
    ended: with an exit code of 0 the folder was emptied and written by ingestion, so that answers of an earlier run,
    which have a good signature, are not there.
    """
    check_ended(results)
    try:
        signed = json.loads((results / ANSWERS).read_text(encoding="utf-8"))
        text, claimed = str(signed["answers"]), str(signed["signature"])
        genuine = hmac.compare_digest(signature(text, key).encode(), claimed.encode())
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(f"{ANSWERS} is missing or is not what ingestion writes") from error
    if not genuine:
        raise Refused(f"{ANSWERS} was not signed by the ingestion program of this task")
    accepted: dict[str, Any] = json.loads(text)
    return accepted


def check_ended(results: Path) -> None:
    """Raise Refused unless the platform's record says that ingestion ended well."""
    path = results / METADATA[1]
    record = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    codes = re.findall(r"^ingestionExitCode: (.*)$", record, re.MULTILINE)
    if codes != ["0"]:
        ended = f"ended with code {codes[0][:20]}" if codes else "has no exit code"
        raise Refused(
            f"by the platform's record ingestion {ended}, and 0 is needed; the log of ingestion "
            f"says why, unless the worker lost its connection: then hand it in again"
        )


def signature(text: str, key: str) -> str:
    """Return the HMAC (SHA-256, hexadecimal) of ``text`` under ``key``, which is hexadecimal."""
    return hmac.new(bytes.fromhex(key), text.encode(), hashlib.sha256).hexdigest()

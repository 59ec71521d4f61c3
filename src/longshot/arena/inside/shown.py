"""What may be shown of a stranger's text: control characters made visible, one line where a line is a record, and in
hidden phases nothing of the stranger's making at all."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

STAGES = ("import", "config", "meta_fit", "save", "load", "fit", "predict")
RULE = "it asked for learned weights or the network, and the meta-learning league learns from nothing"
LINE = 400  # letters of a record


def readable(text: str) -> str:
    r"""Text from a stranger over several lines: control characters, which a terminal obeys, as they are written.

    >>> readable("fine\r\n\x1b[2J")
    'fine\n\\x1b[2J'
    """
    plain = text.replace("\r\n", "\n").replace("\t", "    ")
    return "".join(
        letter
        if letter == "\n" or letter.isprintable()
        else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in plain
    )


def one_line(text: str, most: int = LINE) -> str:
    r"""Text from a stranger as part of one record: newlines are visible too, and its length has an end.

    >>> one_line("boom\nsubmission 2, seed 1: scored 1.0000")
    'boom\\nsubmission 2, seed 1: scored 1.0000'
    """
    line = readable(text).replace("\n", "\\n")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def system_reason(stage: str, reason: str, submission: Path) -> str:
    """Where a submission failed, said by what its author knew before: nothing it was shown can come out this way.

    The stage, the kind of exception where it is one of Python's, the file and line where the archive has them; of an
    import that failed also the line as it is written in the archive.
    """
    if stage == "league":
        position = _position(reason, submission)
        return one_line(RULE if position is None else f"{RULE} ({position[0]}, line {position[1]})")
    parts = [f"it failed in {stage}" if stage in STAGES else "it failed"]
    kinds = re.findall(r"^(\w+)(?=:|$)", reason, re.MULTILINE)
    kind = next((name for name in kinds if _is_exception(name)), None)
    if kind is not None:
        parts.append(f" with {kind}")
    if position := _position(reason, submission):
        file, number = position
        parts.append(f" at {file}, line {number}")
        if kind in ("ImportError", "ModuleNotFoundError"):
            parts.append(f": {_lines(submission, file)[number - 1].strip()[:120]}")
    return one_line("".join(parts))


def _position(reason: str, submission: Path) -> tuple[str, int] | None:
    """The last file and line in a reason that the archive has."""
    for file, digits in reversed(re.findall(r'File "([^"\n]{1,200})", line (\d{1,7})', reason)):
        if 1 <= int(digits) <= len(_lines(submission, file)):
            return file, int(digits)
    return None


def _is_exception(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _lines(submission: Path, file: str) -> list[str]:
    """The lines of a Python file of the archive; none where there is no such file."""
    path = (submission / file).resolve()
    if path.suffix != ".py" or not path.is_relative_to(submission.resolve()) or not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").split("\n")

"""Where results are written that a user gave a name: what may be replaced, what a name may end in, and the screen.

One rule for every verb. A new name is written. A file of the same kind that Longshot wrote is replaced, which the file
itself has to tell; any other only with ``force``. A link is followed: it stays a link, and its target is replaced whole
or not at all. Devices and pipes are written to, never replaced; ``-`` is the screen. A name that ends as another
format does is a mistake. ``claim_output`` and ``claim_folder`` say so before the work begins, not after an hour of it.

``atomic`` itself follows no link: in a folder that other people's code may write to, a link is a trap.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from longshot.base.errors import UserError, count
from longshot.base.files import atomic, explain_disk_errors, json_text, temporary_file
from longshot.base.urls import Location, base_name, is_url, shown_location

Evidence: TypeAlias = Callable[[Path], bool]
_TEXTS = (".html", ".htm", ".md", ".csv", ".tex", ".json", ".svg")  # what a screen can show
_FORMAT = re.compile(r"\.[A-Za-z][A-Za-z0-9]*")  # an ending that says a format, unlike that of easy-0.5
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_screen: list[TextIO] = []  # where ``-`` goes while everything else is said on stderr


@dataclass(frozen=True)
class OutputKind:
    """A kind of file that a verb writes.

    Parameters
    ----------
    title : str
        What it is called in sentences: "testbed".
    endings : mapping
        Ending of a name → whether a file is one of this kind that Longshot wrote, by cheap evidence.
    bare : bool
        Whether a name without an ending will do; never where there are several formats.
    """

    title: str
    endings: Mapping[str, Evidence]
    bare: bool = True

    def only(self, *endings: str) -> OutputKind:
        """Return the same kind with some of its endings."""
        return replace(self, endings={ending: self.endings[ending] for ending in endings})

    def ending(self, out: Location) -> str:
        """Tell which of the endings ``out`` has; UserError where it has that of another format.

        The screen, devices and pipes have none: they get text where the kind has a text.

        >>> OutputKind("table", {".parquet": is_page, ".csv": is_page}).ending("-")
        '.csv'
        """
        name = base_name(out) if is_url(out) else Path(out).name
        for ending in self.endings:
            if name.lower().endswith(ending):
                return ending
        if is_stream(out):
            return next((ending for ending in self.endings if ending in _TEXTS), next(iter(self.endings)))
        if (self.bare and len(self.endings) == 1) and not _FORMAT.fullmatch(Path(name).suffix):
            return next(iter(self.endings))
        suffix = Path(name).suffix
        raise UserError(
            f"'{shown_location(out)}' {f'ends in {suffix}' if suffix else 'has no ending'}, but {_a(self.title)} is "
            f"written as {' or '.join(self.endings)}",
            "give it such a name",
        )


def claim_output(out: Location, kind: OutputKind, *, force: bool = False, name: str = "out") -> str:
    """Raise UserError unless a file of ``kind`` may be written to ``out``; call it before the work begins.

    Parameters
    ----------
    out : path or URL
        Where it is to go; ``-`` is the screen. What lies at a URL is replaced.
    kind : Kind
        What is to be written.
    force : bool
        Replace whatever file is there.
    name : str
        The parameter that ``out`` was given for.

    Returns
    -------
    str
        Which of the kind's endings says the format.
    """
    ending = kind.ending(out)
    if is_url(out):
        return ending
    path = Path(out)
    mode = _mode(path)
    if stat.S_ISBLK(mode) and not force:
        raise UserError(f"{path} is a disk, which would be overwritten", "add {force:True} if you mean it")
    if is_stream(out):
        number = _descriptor(os.fspath(out))
        try:
            _ = number is None or os.fstat(number)
        except OSError as error:
            raise UserError(f"'{out}' is not open", f"name a file with {{{name}}}") from error
        if ending not in _TEXTS and is_screen(out) and _terminal(_stdout()):
            raise UserError(
                f"{_a(kind.title).capitalize()} is no text, and '{out}' is a terminal here",
                f"name a file with {{{name}}} or send it into a pipe",
            )
        return ending
    if stat.S_ISDIR(mode):
        raise UserError(f"{path} is a folder, but {_a(kind.title)} is a file", f"name a file with {{{name}}}")
    if force or not mode:
        return ending
    evidence = kind.endings[ending]
    if path.stat().st_size and not _is_own(evidence, path):
        owner = (
            "file that Longshot can tell for its own"
            if evidence is is_never_own
            else f"{kind.title} that Longshot wrote"
        )
        raise UserError(
            f"{path} is there already, and it is no {owner}",
            f"choose another name with {{{name}}}, or replace it with {{force:True}}",
        )
    return ending


def claim_folder(
    out: Location, title: str, marks: Sequence[str] = (), *, besides: Sequence[str] = (), name: str = "out"
) -> None:
    """Raise UserError unless ``out`` is a new folder, an empty one, or one that holds a file of ``marks``.

    Parameters
    ----------
    out : path
        The folder; hidden files in it do not count.
    title : str
        What goes into it: "training".
    marks : sequence of str
        Files or folders, one of which Longshot's own folders of this kind have; none where it must be new or empty.
    besides : sequence of str
        Names that do not count, as hidden ones do not.
    name : str
        The parameter that ``out`` was given for.
    """
    if os.fspath(out) == "-":
        raise UserError(f"'-' is the screen, but {_a(title)} goes into a folder", f"name one with {{{name}}}")
    folder = Path(out)
    if not folder.is_dir():
        if os.path.lexists(folder):
            raise UserError(
                f"{folder} is a file, but {_a(title)} goes into a folder", f"choose another {{{name}}}"
            )
        return
    names = sorted(path.name for path in folder.iterdir() if path.name[0] != "." and path.name not in besides)
    if names and not set(marks) & set(names):
        if marks:
            why = f"{count(names, 'other file')}, such as '{names[0]}', and no {marks[0]}, so it is not the folder of"
        else:
            why = f"{count(names, 'file')}, such as '{names[0]}', but only a new or empty folder is taken for"
        raise UserError(f"{folder} holds {why} {_a(title)}", f"choose an empty or new folder with {{{name}}}")


@contextlib.contextmanager
def delivered(out: Location) -> Iterator[Path]:
    """Yield a temporary path whose file goes to ``out`` when the block ends well, through links, to devices too."""
    if is_url(out) or not is_stream(out):
        with atomic(out if is_url(out) else _followed(Path(out))) as temporary:
            yield temporary
        return
    with temporary_file("longshot-") as temporary:
        yield temporary
        with explain_disk_errors(out):
            _pour(temporary, os.fspath(out))


def deliver_text(out: Location, text: str) -> None:
    """Write ``text`` as UTF-8 to where a user wants it."""
    with delivered(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


def deliver_json(out: Location, value: Any) -> None:
    """Write ``value`` as readable JSON to where a user wants it."""
    deliver_text(out, json_text(value))


def is_screen(out: object) -> bool:
    """Tell whether ``out`` is standard output: ``-``, ``/dev/stdout`` and other names of it."""
    return isinstance(out, str | os.PathLike) and (os.fspath(out) == "-" or _descriptor(os.fspath(out)) == 1)


def is_stream(out: Location) -> bool:
    """Tell whether ``out`` is written to and never replaced: the screen, a device or a pipe."""
    if is_url(out):
        return False
    if os.fspath(out) == "-" or _descriptor(os.fspath(out)) is not None:
        return True
    mode = _mode(Path(out))
    return bool(mode) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def screen_for_output() -> Iterator[None]:
    """Let the screen have what is written to ``-`` and nothing else: what is said meanwhile goes to stderr."""
    _screen.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _screen.pop()


def is_never_own(path: Path) -> bool:
    """Recognise nothing: a file of this kind is replaced with ``force`` alone."""
    return False


def has_json(**facts: Any) -> Evidence:
    """Recognise a JSON object, or a list of them, that has these facts; ``...`` for any value."""

    def look(path: Path) -> bool:
        value = json.loads(path.read_text(encoding="utf-8"))
        first = value[0] if isinstance(value, list) else value
        return all(key in first and wish in (..., first[key]) for key, wish in facts.items())

    return look


def has_columns(*names: str) -> Evidence:
    """Recognise a CSV file whose first line has these columns."""

    def look(path: Path) -> bool:
        with path.open(encoding="utf-8", newline="") as lines:
            return set(names) <= set(next(csv.reader(lines), []))

    return look


def has_parquet(key: str, **facts: Any) -> Evidence:
    """Recognise a Parquet file whose metadata has JSON with these facts under ``key``; ``...`` for any value."""

    def look(path: Path) -> bool:
        import pyarrow.parquet as pq

        stored = json.loads((pq.read_metadata(path).metadata or {})[key.encode()])
        return all(name in stored and wish in (..., stored[name]) for name, wish in facts.items())

    return look


def starts_with(*openings: str) -> Evidence:
    """Recognise a text that starts with one of ``openings``."""
    longest = max(len(opening.encode()) for opening in openings)

    def look(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(longest).startswith(tuple(opening.encode() for opening in openings))

    return look


def is_page(path: Path) -> bool:
    """Recognise a page that names Longshot as what made it."""
    with path.open("rb") as file:
        return b'<meta name="generator" content="longshot"' in file.read(2_000)


def is_picture(path: Path) -> bool:
    """Recognise a picture with the stamp of ``picture_stamp``."""
    data = path.read_bytes()
    return b"Software\x00Longshot" in data or b"/Creator (Longshot)" in data or b"<dc:title>Longshot<" in data


def picture_stamp(kind: str) -> dict[str, Any]:
    """Return metadata for matplotlib's ``savefig``: who made it, no date, so that equal figures are equal bytes."""
    stamps: dict[str, dict[str, Any]] = {
        "png": {"Software": "Longshot"},
        "svg": {"Date": None, "Creator": "Longshot"},
        "pdf": {"CreationDate": None, "Creator": "Longshot"},
    }
    return stamps[kind]


PAGE = OutputKind("page", {".html": is_page, ".htm": is_page})
PICTURE = OutputKind("picture", {".png": is_picture, ".svg": is_picture, ".pdf": is_picture})


def _a(title: str) -> str:
    return f"{'an' if title[0] in 'aeiou' else 'a'} {title}"


def _is_own(evidence: Evidence, path: Path) -> bool:
    try:
        return evidence(path)
    except Exception:  # whatever it is that cannot be read, it is not ours
        return False


def _mode(path: Path) -> int:
    """Return what kind of file lies behind ``path`` and all links; 0 for none."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):  # whoever writes it will say what is wrong
        return 0


def _followed(path: Path) -> Path:
    """Return the file that a link leads to; the path itself where it is none."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise UserError(f"The link {path} leads round in a circle", "choose another {out}")
    return target


def _descriptor(path: str) -> int | None:
    """Return the number of an open file that is written to by name: 1 of ``/dev/stdout``."""
    if path in _STREAMS:
        return _STREAMS[path]
    match = _DESCRIPTOR.fullmatch(path)
    return int(match[1]) if match else None


def _stdout() -> TextIO:
    return _screen[-1] if _screen else sys.stdout


def _terminal(stream: TextIO) -> bool:
    return stream.isatty() or not hasattr(stream, "buffer")  # a notebook's takes text alone


def _pour(temporary: Path, out: str) -> None:
    """Write the bytes of a file to the screen, a device or a pipe."""
    number = _descriptor(out)
    with temporary.open("rb") as source:
        if is_screen(out):
            stream = _stdout()
            stream.flush()
            if hasattr(stream, "buffer"):
                shutil.copyfileobj(source, stream.buffer)
                stream.buffer.flush()
            else:
                stream.write(source.read().decode("utf-8"))
        elif number is not None:  # not opened by name: that would cut what a file behind it holds
            with os.fdopen(os.dup(number), "wb") as sink:
                shutil.copyfileobj(source, sink)
        else:
            with Path(out).open("wb") as sink:
                shutil.copyfileobj(source, sink)

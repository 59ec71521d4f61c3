"""Where results may be written: names, links, devices, pipes, the screen.

Each test first shows what the plain writer, which stood in every verb before, does to the same place.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.base import (
    PAGE,
    PICTURE,
    OutputKind,
    UserError,
    claim_folder,
    claim_output,
    deliver_text,
    delivered,
    has_columns,
    has_json,
    is_screen,
    write_text,
)

PLAIN = OutputKind("list", {".csv": has_columns("key", "odds")})
SEVERAL = OutputKind("table", {".parquet": has_columns("a"), ".csv": has_columns("a")})
OURS, THEIRS = '<head><meta name="generator" content="longshot"></head>', "<head>my notes</head>"
Write = Callable[[Path, str], None]


def claimed(path: Path, text: str) -> None:
    """As the verbs write now."""
    claim_output(path, PAGE)
    deliver_text(path, text)


@pytest.mark.parametrize(("write", "survives"), [(write_text, False), (claimed, True)])
def test_a_file_that_longshot_did_not_write_survives(tmp_path: Path, write: Write, survives: bool) -> None:
    path = tmp_path / "notes.html"
    path.write_text(THEIRS)
    with contextlib.suppress(UserError):
        write(path, OURS)
    assert (path.read_text() == THEIRS) is survives


def test_the_sentence_names_the_file_and_two_remedies(tmp_path: Path) -> None:
    path = tmp_path / "notes.html"
    path.write_text(THEIRS)
    sentence = (
        r"notes\.html is there already, and it is no page that Longshot wrote; choose another name with html, or "
        r"replace it with force=True\.$"
    )
    with pytest.raises(UserError, match=sentence):
        claim_output(path, PAGE, name="html")


@pytest.mark.parametrize("before", [None, "", OURS])
def test_new_names_empty_files_and_own_files_are_written(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "page.html"
    if before is not None:
        path.write_text(before)
    claimed(path, "now")
    assert path.read_text() == "now"


def test_force_replaces_anything(tmp_path: Path) -> None:
    path = tmp_path / "notes.html"
    path.write_text(THEIRS)
    assert claim_output(path, PAGE, force=True) == ".html"


@pytest.mark.parametrize(("write", "stays"), [(write_text, False), (claimed, True)])
def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path, write: Write, stays: bool) -> None:
    target, link = tmp_path / "elsewhere" / "page.html", tmp_path / "latest.html"
    target.parent.mkdir()
    target.write_text(OURS)
    link.symlink_to(target)
    write(link, f"{OURS} again")
    assert (link.is_symlink(), target.read_text() == f"{OURS} again") == (stays, stays)
    assert link.read_text() == f"{OURS} again"


def test_a_link_to_a_file_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text(THEIRS)
    (tmp_path / "link.html").symlink_to("notes.html")
    with pytest.raises(UserError, match="no page that Longshot wrote"):
        claimed(tmp_path / "link.html", OURS)


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to("later.html")
    claimed(tmp_path / "link.html", OURS)
    assert (tmp_path / "later.html").read_text() == OURS and (tmp_path / "link.html").is_symlink()


def test_links_in_a_circle_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.html").symlink_to("b.html")
    (tmp_path / "b.html").symlink_to("a.html")
    with pytest.raises(UserError, match=r"a\.html leads round in a circle"):
        claimed(tmp_path / "a.html", OURS)


def test_a_kill_while_writing_through_a_link_leaves_the_target(tmp_path: Path) -> None:
    target, link = tmp_path / "page.html", tmp_path / "link.html"
    target.write_text(OURS)
    link.symlink_to(target)
    with pytest.raises(RuntimeError), delivered(link) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == OURS and sorted(tmp_path.iterdir()) == [link, target]


@pytest.mark.parametrize(("write", "stays"), [(write_text, False), (claimed, True)])
def test_a_pipe_is_written_to(tmp_path: Path, write: Write, stays: bool) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    if stays:
        reader.start()
    write(pipe, "page")
    assert stat.S_ISFIFO(pipe.stat().st_mode) is stays
    if stays:
        reader.join()
        assert received == ["page"]


def device(folder: Path, minor: int) -> Path:
    """A device of the test's own, 3 for null and 7 for full: whoever fails here must not lose the machine's."""
    path = folder / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        path.write_text("")
    except OSError:
        pytest.skip("needs a user who can make device nodes and open them, on Linux")
    return path


@pytest.mark.parametrize(("write", "stays"), [(write_text, False), (claimed, True)])
def test_a_device_is_written_to(tmp_path: Path, write: Write, stays: bool) -> None:
    null = device(tmp_path, 3)
    write(null, "page")
    assert stat.S_ISCHR(null.stat().st_mode) is stays


def test_a_disk_is_written_to_with_force_alone(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 250))
    except OSError:
        pytest.skip("needs a user who can make device nodes")
    with pytest.raises(UserError, match=r"disk is a disk, which would be overwritten; add force=True"):
        claim_output(path, PAGE)
    assert claim_output(path, PAGE, force=True) == ".html"


def test_a_full_device_is_one_sentence(tmp_path: Path) -> None:
    full = device(tmp_path, 7)
    with pytest.raises(UserError, match=r"disk is full while writing .*device"):
        deliver_text(full, "page")


def test_the_screen_behind_other_names_is_not_cut(tmp_path: Path) -> None:
    """With stdout sent to a file, /dev/fd/1 is that file: what it holds already stays."""
    code = "from longshot.base.outputs import deliver_text as put; print('before', flush=True); put('/dev/fd/1', 'x')"
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "before\nx"


@pytest.mark.parametrize(("write", "files"), [(write_text, ["-"]), (claimed, [])])
def test_a_dash_is_the_screen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    write: Write,
    files: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("-"), "ü page\n")
    assert [path.name for path in tmp_path.iterdir()] == files
    assert capsys.readouterr().out == ("" if files else "ü page\n")


class Terminal(io.TextIOWrapper):
    """A stdout that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "screen", [Terminal(io.BytesIO(), "utf-8"), io.StringIO()], ids=["terminal", "notebook"]
)
def test_only_text_goes_to_a_terminal(screen: io.TextIOBase) -> None:
    with contextlib.redirect_stdout(screen):
        assert claim_output("-", PICTURE) == ".svg"
        with pytest.raises(
            UserError, match="A picture is no text, and '-' is a terminal here; name a file with out"
        ):
            claim_output("-", PICTURE.only(".png"))


def test_bytes_go_into_a_pipe() -> None:
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        assert claim_output("-", PICTURE.only(".png")) == ".png"


@pytest.mark.parametrize(
    ("kind", "name", "ending"),
    [
        (PLAIN, "a.csv", ".csv"),
        (PLAIN, "a.CSV", ".csv"),
        (PLAIN, "a", ".csv"),
        (PLAIN, "easy-0.5", ".csv"),  # a number says no format
        (PLAIN, "s3://shelf/a.csv?signature=1.x", ".csv"),
        (PLAIN, "/dev/null", ".csv"),
        (SEVERAL, "-", ".csv"),
        (SEVERAL, "a.parquet", ".parquet"),
    ],
)
def test_what_a_name_says(kind: OutputKind, name: str, ending: str) -> None:
    assert kind.ending(name) == ending


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        (PLAIN, "a.pdf", r"'a\.pdf' ends in \.pdf, but a list is written as \.csv; give it such a name\."),
        (SEVERAL, "a", r"'a' has no ending, but a table is written as \.parquet or \.csv"),
        (
            OutputKind("view", {".view.json": has_json()}, bare=False),
            "a.json",
            r"a view is written as \.view\.json",
        ),
    ],
)
def test_a_name_that_says_another_format(kind: OutputKind, name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        claim_output(name, kind)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder, but a page is a file"):
        claim_output(tmp_path, PAGE.only(".html"))


def test_evidence_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="no list that Longshot wrote"):
        claim_output(tmp_path / "a.csv", PLAIN)


def test_a_folder_must_be_new_empty_or_of_its_kind(tmp_path: Path) -> None:
    claim_folder(tmp_path / "new", "training", ["training.json"])
    (tmp_path / ".hidden").touch()
    claim_folder(tmp_path, "training", ["training.json"])
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(
        UserError, match=r"holds 1 other file, such as 'photo\.jpg', and no training\.json, so it is"
    ):
        claim_folder(tmp_path, "training", ["training.json"])
    (tmp_path / "training.json").touch()
    claim_folder(tmp_path, "training", ["training.json"])
    with pytest.raises(UserError, match="is a file, but a training goes into a folder"):
        claim_folder(tmp_path / "photo.jpg", "training")
    with pytest.raises(UserError, match="'-' is the screen, but a training goes into a folder"):
        claim_folder("-", "training")


def test_the_names_of_the_screen() -> None:
    assert all(map(is_screen, ("-", Path("-"), "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")))
    assert not any(map(is_screen, ("./-", "/dev/null", "/dev/stderr", None, 1)))

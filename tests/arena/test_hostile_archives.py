"""Thirty-odd archives that attack the organiser: each is taken harmlessly or refused in one sentence, nothing is left.

``test_archive.py`` holds the bounds of what is allowed; here are zips that lie about themselves.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from longshot.arena import check_submission
from longshot.arena.submission_check import unpack
from longshot.base import ArchiveLimits, UserError

MODEL = b"class MyMetaLearner: pass\nclass MyLearner: pass\n"
SMALL = 2 << 20  # bytes: no attack needs a larger archive


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], model: bool = True, **options: int) -> bytes:
    """A zip of these members, behind a model.py that would be taken."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", options.get("method", zipfile.ZIP_STORED)) as archive:
        for name, data in ((("model.py", MODEL),) if model else ()) + members:
            archive.writestr(name, data)
    return stream.getvalue()


def special(name: str, kind: int, target: bytes = b"") -> bytes:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (kind | 0o777) << 16
    return zipped((info, target))


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    """Names that zipfile would not write, in place of some of the same length."""
    assert len(old) == len(new)
    assert data.count(old) >= 2
    return data.replace(old, new)


def directory(data: bytes, name: bytes, offset: int, packed: bytes) -> bytes:
    """Other bytes at ``offset`` in the entry of ``name`` in the list of contents."""
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
    start = entry + offset
    return data[:start] + packed + data[start + len(packed) :]


def ending(data: bytes, offset: int, packed: bytes) -> bytes:
    """Other bytes in the record at the end."""
    start = data.rindex(b"PK\x05\x06") + offset
    return data[:start] + packed + data[start + len(packed) :]


def bomb() -> bytes:
    return zipped(("zeros", bytes(30 << 20)), method=zipfile.ZIP_DEFLATED)


def overlapping() -> bytes:
    """One compressed body that 400 entries point at: 400 × 2 MB out of a few kilobytes."""
    body = bytes(2 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(body) + packer.flush()
    facts = (20, 0, 8, 0, 0x21, zlib.crc32(body), len(packed), len(body))
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", *facts, 4, 0)
    start = zipped(("readme", b""))
    model_end = start.index(b"PK\x01\x02")
    data, entries = start[:model_end], []
    data += local + b"body" + packed
    for number in range(400):
        name = f"{number:04}".encode()
        entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *facts, 4, 0, 0, 0, 0, 0, model_end)
        entries.append(entry + name)
    listing = b"".join(entries)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 400, 400, len(listing), len(data), 0)
    return data + listing + end


def tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("../model.py")
        info.size = len(MODEL)
        archive.addfile(info, io.BytesIO(MODEL))
    return stream.getvalue()


def wrong_sum() -> bytes:
    data = zipped(("data.txt", b"honest bytes"))
    return data.replace(b"honest bytes", b"forged bytes", 1)


def mixed_names() -> bytes:
    """The list of contents says one name, the file itself another."""
    data = zipped(("aaaaaaaa", b"x"))
    start = data.index(b"aaaaaaaa")
    return data[:start] + b"../../bb" + data[start + 8 :]


def lying_size() -> bytes:
    """An entry of 50 bytes that claims 4 GB."""
    data = zipped(("data.txt", b"x" * 50))
    return directory(data, b"data.txt", 20, struct.pack("<2L", 0xFFFFFFF0, 0xFFFFFFF0))


def zip64_lies() -> bytes:
    """Sizes of 2^62 bytes in an extra field of the newer format."""
    info = zipfile.ZipInfo("data.txt")
    info.extra = struct.pack("<2H2Q", 1, 16, 1 << 62, 1 << 62)
    data = zipped((info, b"x"))
    return directory(data, b"data.txt", 20, struct.pack("<2L", 0xFFFFFFFF, 0xFFFFFFFF))


def zip64_record() -> bytes:
    """A record of the newer format that puts the list of contents 2^60 bytes away."""
    data = zipped()
    end = data.rindex(b"PK\x05\x06")
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 60, 1 << 60)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    return (
        data[:end] + record + locator + ending(data, 10, struct.pack("<H2L", 0xFFFF, *[0xFFFFFFFF] * 2))[end:]
    )


def deep() -> bytes:
    """Zips within zips: what is inside stays a file, it is not unpacked."""
    inner = zipped(("zeros", bytes(1 << 20)), method=zipfile.ZIP_DEFLATED)
    for _ in range(5):
        inner = zipped(*((f"{number}.zip", inner) for number in range(8)), method=zipfile.ZIP_DEFLATED)
    return inner


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "a path upwards": (lambda: zipped(("../evil.py", b"")), "the path '../evil.py' in it is not allowed"),
    "a path upwards inside": (lambda: zipped(("a/b/../../../evil", b"")), "evil' in it is not allowed"),
    "an absolute path": (
        lambda: zipped(("/tmp/evil.py", b"")),
        "the path '/tmp/evil.py' in it is not allowed",
    ),
    "a path of Windows": (lambda: zipped(("..\\evil.py", b"")), "in it is not allowed"),
    "a drive of Windows": (lambda: zipped(("C:evil.py", b"")), "the path 'C:evil.py' in it is not allowed"),
    "no name": (lambda: zipped((".", b"")), "the path '.' in it is not allowed"),
    "a NUL in a name": (
        lambda: renamed(zipped(("evilxpy", b"")), b"evilxpy", b"evil\0py"),
        "has a control character in its name",
    ),
    "a newline in a name": (
        lambda: zipped(("evil\nfailed: 0", b"")),
        r"'evil\nfailed: 0' has a control character",
    ),
    "an escape in a name": (lambda: zipped(("\x1b[2Jevil", b"")), r"'\x1b[2Jevil' has a control character"),
    "letters written backwards": (
        lambda: zipped(("evil\u202eyp.exe", b"")),
        r"'evil\u202eyp.exe' has a control",
    ),
    "a name of 60,000 letters": (lambda: zipped(("x" * 60_000, b"")), "in it is not allowed"),
    "forty folders deep": (lambda: zipped(("a/" * 40 + "x", b"")), "in it is not allowed"),
    "a link to a file": (
        lambda: special("labels", stat.S_IFLNK, b"/etc/shadow"),
        "'labels' is a link or a special",
    ),
    "a link to a folder": (lambda: special("up", stat.S_IFLNK, b".."), "'up' is a link or a special file"),
    "a device": (lambda: special("sda", stat.S_IFBLK), "'sda' is a link or a special file"),
    "a terminal": (lambda: special("tty", stat.S_IFCHR), "'tty' is a link or a special file"),
    "a pipe": (lambda: special("pipe", stat.S_IFIFO), "'pipe' is a link or a special file"),
    "a socket": (lambda: special("socket", stat.S_IFSOCK), "'socket' is a link or a special file"),
    "the same name twice": (
        lambda: renamed(zipped(("modelxpy", b"evil")), b"modelxpy", b"model.py"),
        "'model.py' is in it twice",
    ),
    "the same name in other letters": (
        lambda: zipped(("Model.PY", b"")),
        "'Model.PY' and 'model.py' are one name",
    ),
    "the same name in other accents": (
        lambda: zipped(("caf\u00e9", b""), ("cafe\u0301", b"")),
        "are one name on other systems",
    ),
    "a file that is a folder": (
        lambda: zipped(("model.py/x", b"")),
        "a name in it is both a file and a folder",
    ),
    "a folder that is a file": (
        lambda: zipped(("a/b", b""), ("a", b"")),
        "a name in it is both a file and a folder",
    ),
    "a folder with contents": (
        lambda: directory(
            zipped(("afile", b"evil")), b"afile", 38, struct.pack("<L", (stat.S_IFDIR | 0o755) << 16)
        ),
        "'afile' is a folder by its kind and a file by its name",
    ),
    "a password": (
        lambda: directory(zipped(("data.txt", b"x")), b"data.txt", 8, struct.pack("<H", 1)),
        "'data.txt' is encrypted",
    ),
    "another way of packing": (
        lambda: directory(zipped(("data.txt", b"x")), b"data.txt", 10, struct.pack("<H", 99)),
        "'data.txt' is not packed with deflate",
    ),
    "a bomb": (bomb, "it unpacks to more than the 20 MB allowed"),
    "one body for 400 files": (overlapping, "no zip that can be read"),
    "20,000 empty files": (
        lambda: zipped(*((f"{n}", b"") for n in range(20_000))),
        "20,001 files, at most 2,000",
    ),
    "a wrong sum": (wrong_sum, "no zip that can be read (Bad CRC-32 for file 'data.txt')"),
    "two names for a file": (mixed_names, "no zip that can be read (File name in directory"),
    "a size of 4 GB": (lying_size, "no zip that can be read"),
    "a size of 2^62 bytes": (zip64_lies, "no zip that can be read"),
    "a list 2^60 bytes away": (zip64_record, "no zip that can be read"),
    "the first half": (lambda: zipped(("a", b"x" * 9000))[:4000], "no zip that can be read"),
    "without its last byte": (lambda: zipped()[:-1], "no zip that can be read"),
    "a part of several": (
        lambda: directory(zipped(("data.txt", b"x")), b"data.txt", 34, struct.pack("<H", 1)),
        "'data.txt' is in part 2 of several; pack it as one zip",
    ),
    "a tar": (tar, "no zip that can be read (File is not a zip file)"),
    "nothing": (lambda: b"", "no zip that can be read"),
    "a list that ends too early": (
        lambda: ending(zipped(("a", b"")), 12, struct.pack("<L", 20)),
        "no zip that can be read",
    ),
}
HARMLESS: dict[str, Callable[[], bytes]] = {
    "zips within zips": deep,
    "a program before it": lambda: b"#!/bin/sh\nrm -rf /\n" + zipped(),
    "a name of another alphabet": lambda: zipped(("m\u043edel.py", b"evil")),
    "a file with every right": lambda: special("run.sh", stat.S_IFREG | stat.S_ISUID, b"#!/bin/sh\n"),
    "a comment of 60,000 letters": lambda: ending(zipped(), 20, struct.pack("<H", 60_000)) + b"x" * 60_000,
}


def test_there_are_enough_of_them():
    assert len(REFUSED) >= 25


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are unpacked for a look; what is left in it is told apart from what the test made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_sentence(name, tmp_path, scratch):
    make, sentence = REFUSED[name]
    archive = tmp_path / "s.zip"
    archive.write_bytes(make())
    assert archive.stat().st_size <= SMALL
    with pytest.raises(UserError) as refusal:
        unpack(archive, scratch / "code", ArchiveLimits(bytes=20 << 20))
    text = str(refusal.value)
    assert text.startswith("The archive s.zip cannot be taken: ")
    assert sentence in text
    assert text.endswith(".") and text.isprintable() and len(text) < 300  # one visible line
    assert list(scratch.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"s.zip", "scratch"}
    assert not Path("/tmp/evil.py").exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_it_is_taken_and_does_no_harm(name, tmp_path, scratch):
    archive = tmp_path / "s.zip"
    archive.write_bytes(HARMLESS[name]())
    assert archive.stat().st_size <= SMALL
    made: list[tuple[str, int]] = []
    opened = os.chmod

    def noted(path: object, mode: int, **options: object) -> None:
        made.append((str(path), mode))
        opened(path, mode, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "chmod", noted)
        if name == "zips within zips":  # it has no model.py but in the zips that nobody opens
            assert check_submission(archive).files == 9
        else:
            check_submission(archive)
    assert {mode for path, mode in made if str(scratch) in path} <= {0o755, 0o644}
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["evil\nname", "Model.PY"])
def test_a_folder_is_held_to_the_same_rules(name, tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "model.py").write_bytes(MODEL)
    (folder / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"control character in its name|are one name on other systems"):
        check_submission(folder)


def test_what_was_never_there_is_not_called_an_archive(run_cli, tmp_path):
    for words in (("check", "gone"), ("run-bundle", "b.zip", "gone", "-o", "out")):
        done = run_cli("compete", *words, cwd=tmp_path, check=False)
        assert done.returncode == 2
        expected = "error: There is no submission at gone; give a folder or a zip with a model.py in it.\n"
        assert done.stderr == expected

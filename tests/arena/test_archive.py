"""Zips that lie, leave their folder, explode or hold links are refused in one sentence and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshot.arena.submission_check import unpack
from longshot.base import ArchiveLimits, UserError


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_zip_is_unpacked(tmp_path):
    source = pack(tmp_path / "s.zip", {"model.py": b"x = 1\n", "lib/net.py": b"y = 2\n"})
    folder = unpack(source, tmp_path / "out")
    assert (folder / "lib" / "net.py").read_bytes() == b"y = 2\n"


def test_a_zip_of_one_folder_is_entered(tmp_path):
    source = pack(tmp_path / "s.zip", {"mine/model.py": b"", "__MACOSX/x": b""})
    assert unpack(source, tmp_path / "out").name == "mine"


@pytest.mark.parametrize(
    "name", ["../evil.py", "/etc/evil", "a/../../evil", "..\\evil", "C:\\evil", "a/" * 30 + "x"]
)
def test_paths_that_leave_the_folder(tmp_path, name):
    source = pack(tmp_path / "s.zip", {"model.py": b"", name: b"evil"})
    with pytest.raises(UserError, match="not allowed"):
        unpack(source, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep" / "out").exists()
    assert not list(tmp_path.rglob("evil*"))


def test_links(tmp_path):
    source = tmp_path / "s.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("model.py", "")
        link = zipfile.ZipInfo("labels")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/shadow")
    with pytest.raises(UserError, match="is a link"):
        unpack(source, tmp_path / "out")


def test_a_folder_with_a_link(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "model.py").write_text("")
    (folder / "shadow").symlink_to("/etc/shadow")
    with pytest.raises(UserError, match="is a link"):
        unpack(folder, tmp_path / "out")


def test_a_bomb_is_stopped_while_it_unpacks(tmp_path):
    source = pack(tmp_path / "s.zip", {"model.py": b"", "zeros": bytes(80 << 20)})
    assert source.stat().st_size < 1 << 20
    with pytest.raises(UserError, match="more than the 50 MB"):
        unpack(source, tmp_path / "out", ArchiveLimits(bytes=50 << 20))
    assert not (tmp_path / "out").exists()


def test_ten_thousand_files(tmp_path):
    source = tmp_path / "s.zip"
    with zipfile.ZipFile(source, "w") as archive:
        for number in range(10_000):
            archive.writestr(f"{number}", b"")
    with pytest.raises(UserError, match="10,000 files, at most 2,000"):
        unpack(source, tmp_path / "out")


def test_twice_the_same_name(tmp_path):
    source = tmp_path / "s.zip"
    with zipfile.ZipFile(source, "w") as archive, pytest.warns(UserWarning):
        archive.writestr("model.py", "a")
        archive.writestr("model.py", "b")
    with pytest.raises(UserError, match="twice"):
        unpack(source, tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut off", b"not a zip at all"])
def test_no_zip(tmp_path, data):
    source = tmp_path / "s.zip"
    source.write_bytes(data)
    with pytest.raises(UserError, match="no zip that can be read"):
        unpack(source, tmp_path / "out")


def test_no_model(tmp_path):
    with pytest.raises(UserError, match=r"no model\.py"):
        unpack(pack(tmp_path / "s.zip", {"readme.md": b""}), tmp_path / "out")


def test_a_list_of_millions_of_names_is_not_read(tmp_path):
    """40 MB that claim to be a list of contents: refused before they are in memory."""
    source = tmp_path / "s.zip"
    size = 40 << 20
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, size, 0, 0)
    with source.open("wb") as out:
        out.truncate(size)
        out.seek(size)
        out.write(end)
    with pytest.raises(UserError, match="list of contents is larger than 16 MB"):
        unpack(source, tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_of_packing(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "s.zip", "w", method) as archive:
        archive.writestr("model.py", "x = 1\n" * 100)
    with pytest.raises(UserError, match="not packed with deflate"):
        unpack(tmp_path / "s.zip", tmp_path / "out")


def test_the_sandbox_can_read_it_whatever_the_umask(tmp_path):
    source = pack(tmp_path / "s.zip", {"model.py": b"", "lib/net.py": b""})
    before = os.umask(0o077)
    try:
        folder = unpack(source, tmp_path / "out")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "lib").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "lib" / "net.py").stat().st_mode) == 0o644


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8), st.booleans()
)
def test_a_damaged_zip_is_unpacked_or_refused(tmp_path, changes, cut):
    """Bytes changed anywhere in a zip: nothing but UserError comes out, and nothing lands beside the folder."""
    folder = tmp_path / "fuzz"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    source = pack(folder / "s.zip", {"model.py": b"x = 1\n" * 50, "lib/net.py": bytes(range(256))})
    data = bytearray(source.read_bytes())
    for position, value in changes:
        data[position % len(data)] = value
    source.write_bytes(data[: changes[0][0] % len(data)] if cut else data)
    try:
        unpack(source, folder / "out", ArchiveLimits(bytes=1 << 20))
    except UserError:
        assert not (folder / "out").exists()
    assert {path.name for path in folder.iterdir()} <= {"s.zip", "out"}


def held(tmp_path: Path, contents: dict[str, bytes], **limits: int) -> bool:
    """Whether a zip and a folder of these files are both taken; they are told alike."""
    zipped, folder = pack(tmp_path / "s.zip", contents), tmp_path / "s"
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    taken = []
    for number, source in enumerate((zipped, folder)):
        try:
            unpack(source, tmp_path / f"out-{number}", ArchiveLimits(**limits))
            taken.append(True)
        except UserError:
            taken.append(False)
    assert taken[0] == taken[1]
    return taken[0]


@pytest.mark.parametrize(("files", "taken"), [(3, True), (2, False)])
def test_as_many_files_as_are_allowed(tmp_path, files, taken):
    assert held(tmp_path, {"model.py": b"", "a": b"", "b": b""}, files=files) is taken


@pytest.mark.parametrize(("most", "taken"), [(10, True), (9, False)])
def test_as_many_bytes_as_are_allowed(tmp_path, most, taken):
    assert held(tmp_path, {"model.py": b"12345", "a": b"12345"}, bytes=most) is taken


@pytest.mark.parametrize(
    ("name", "taken"),
    [("a/" * 11 + "x", True), ("a/" * 12 + "x", False), ("x" * 200, True), ("x" * 201, False)],
)
def test_paths_of_twelve_parts_of_200_bytes(tmp_path, name, taken):
    source = pack(tmp_path / "s.zip", {"model.py": b"", name: b""})
    if taken:
        assert (unpack(source, tmp_path / "out") / name).is_file()
    else:
        with pytest.raises(UserError, match="in it is not allowed"):
            unpack(source, tmp_path / "out")


def test_what_is_allowed_by_default():
    assert ArchiveLimits() == ArchiveLimits(files=2_000, bytes=524_288_000, depth=12)


def test_two_folders_are_not_entered(tmp_path):
    source = pack(tmp_path / "s.zip", {"a/model.py": b"", "b/model.py": b""})
    with pytest.raises(UserError, match=r"there is no model\.py at its top"):
        unpack(source, tmp_path / "out")

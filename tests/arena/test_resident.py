"""Copies in memory: what is needed and nothing else, made once for all processes, gone with the last of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from longshot.arena import resident
from longshot.base import UserError

HOLD = """
import sys
from pathlib import Path
from longshot.arena import resident
print(resident.hold([Path(sys.argv[1])]).path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "large.bin").write_bytes(b"x" * 10_000)
    (tmp_path / "link.bin").symlink_to("large.bin")
    return tmp_path / "link.bin"


def holder(file: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_two_processes_share_a_copy_that_goes_with_the_last(file):
    first, folder = holder(file)
    second, same = holder(file)
    assert same == folder
    copy = Path(f"{folder}{file}")
    assert copy.is_symlink() and copy.read_bytes() == b"x" * 10_000
    first.communicate("")
    assert copy.exists()
    second.communicate("")
    assert not folder.exists()


def test_what_a_killed_process_left_the_next_removes(file, tmp_path):
    killed, folder = holder(file)
    killed.kill()
    killed.wait()
    assert folder.exists()
    (tmp_path / "other.bin").write_bytes(b"y")
    other, _ = holder(tmp_path / "other.bin")
    assert not folder.exists()
    other.communicate("")


def test_a_changed_file_is_another_copy(file):
    before, folder = holder(file)
    file.resolve().write_bytes(b"y" * 10_001)
    after, other = holder(file)
    assert other != folder and Path(f"{other}{file}").read_bytes() == b"y" * 10_001
    before.communicate("")
    after.communicate("")


def test_a_folder_with_links_to_folders_is_copied_as_it_is(tmp_path):
    """A virtual environment has lib64, which leads to lib."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "module.py").write_text("x = 1")
    (tmp_path / "lib64").symlink_to("lib")
    copy = resident.resident_folder(tmp_path).copy_of(tmp_path)
    assert (copy / "lib64").is_symlink() and (copy / "lib64" / "module.py").read_text() == "x = 1"
    assert resident.PLACE in copy.parents and not os.access(copy / "lib" / "module.py", os.X_OK)


def test_libraries_are_those_that_the_loader_names():
    program = Path(sys.executable).resolve()
    if shutil.which("ldd") is None or program.read_bytes()[:6] != b"\x7fELF\x02\x01":
        pytest.skip("needs ldd and an ELF program")
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    names = resident.needed_libraries(program)
    loader, *libraries = names
    assert loader in listed
    assert libraries and all(name in listed for name in libraries)
    assert resident.needed_libraries(Path(__file__)) == []


def test_too_little_memory_is_told(file, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)  # no mount
    with pytest.raises(UserError, match=r"Boxes keep 0 MB in /dev/shm, which has 1 MB; make it larger"):
        resident.hold([file])

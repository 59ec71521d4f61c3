"""Tars are held to the rules of zips; those of zips are tested with the submissions that arrive as such."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from longshot.base import ArchiveLimits, UserError, extract_archive


def tar_of(path: Path, *members: tarfile.TarInfo | str, mode: str = "w") -> Path:
    """A tar; a text stands for a file of 600 bytes of that name."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = 600 if isinstance(member, str) else 0
            archive.addfile(info, io.BytesIO(bytes(600)))
    return path


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, target
    return info


def unpacked(source: Path, folder: Path, limits: ArchiveLimits | None = None) -> list[str]:
    folder.mkdir()
    extract_archive(source, folder, limits)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tars_of_every_packing(tmp_path: Path, mode: str) -> None:
    source = tar_of(tmp_path / "a.tar", "./a/1", "a/2", mode=mode)
    assert unpacked(source, tmp_path / "out") == ["a/1", "a/2"]


@pytest.mark.parametrize("size", [300, 512, 900, 1536, 1600, 3072])
def test_a_tar_that_ends_too_early_is_noticed(tmp_path: Path, size: int) -> None:
    """Python's own reader ends without a word where a header is cut off or missing."""
    source = tar_of(tmp_path / "a.tar", "a/1", "a/2")
    source.write_bytes(source.read_bytes()[:size])
    with pytest.raises(UserError, match=r"The archive a.tar cannot be taken: it is no tar that can be read"):
        unpacked(source, tmp_path / "out")


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (link(tarfile.SYMTYPE, "/etc/passwd"), "is a link or a special file"),
        (link(tarfile.LNKTYPE, "a/1"), "is a link or a special file"),
        (link(tarfile.FIFOTYPE, ""), "is a link or a special file"),
        ("../out.txt", r"the path '../out.txt' in it is not allowed"),
        ("/out.txt", "the path '/out.txt' in it is not allowed"),
        ("a/1", "'a/1' is in it twice"),
        ("a/1/b", "a name in it is both a file and a folder"),
        ("a/\x1b[2J", "has a control character in its name"),
    ],
)
def test_members_that_are_refused(tmp_path: Path, member: tarfile.TarInfo | str, words: str) -> None:
    source = tar_of(tmp_path / "a.tar", "a/1", member)
    with pytest.raises(UserError, match=words):
        unpacked(source, tmp_path / "out")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ArchiveLimits(bytes=1000), "unpacks to more than the 0 MB allowed"),
        (ArchiveLimits(files=1), "holds 2 files, at most 1 are allowed"),
        (ArchiveLimits(depth=1), "the path 'a/1' in it is not allowed"),
    ],
)
def test_limits(tmp_path: Path, limits: ArchiveLimits, words: str) -> None:
    source = tar_of(tmp_path / "a.tar", "a/1", "a/2", mode="w:gz")
    with pytest.raises(UserError, match=words):
        unpacked(source, tmp_path / "out", limits)

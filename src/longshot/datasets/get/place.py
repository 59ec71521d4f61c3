"""Where a dataset goes and how its archives are unpacked there: checked, out of sight until they are whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from longshot.core.archives import ArchiveLimits, extract
from longshot.core.errors import UserError
from longshot.core.files import explain_disk_errors
from longshot.core.progress import Progress
from longshot.datasets.get.fetch import RESERVE, in_bytes, need_space

DOWNLOADS = ".downloads"  # hidden, so that no reader takes it for a class
RECORD = ".longshot-get.json"  # in a dataset's folder: what was got from where, and its checksums
_RATIO = 30  # times its own size that an archive may unpack to; images hardly shrink, drawings do
_LEAST = 1 << 30
_FILES = 20_000_000
_CONTENTS = 2 << 30  # bytes of a zip's list of contents: COCO's names 118,287 photos


def data_folder(to: str | os.PathLike[str] | None) -> Path:
    """The folder that datasets go to: ``to``, what ``LONGSHOT_DATA`` says, or the user's own folder for data."""
    chosen = os.fspath(to) if to is not None else os.environ.get("LONGSHOT_DATA")
    if chosen is None or (to is None and not chosen):
        import platformdirs

        chosen = os.path.join(platformdirs.user_data_dir("longshot", appauthor=False), "datasets")  # noqa: PTH118
    if not chosen:
        raise UserError("The folder to download to is empty text", "give {to} a folder")
    folder = Path(chosen).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", "give {to} a folder")
    return folder


def unpack(archive: Path, folder: Path, bar: Progress) -> None:
    """Unpack an archive into a folder that may hold other things already.

    It is unpacked beside the folder first and moved when it is whole, so that a stop leaves nothing half.
    """
    size = archive.stat().st_size
    need_space(folder, size, f"Unpacking {archive.name}")
    room = shutil.disk_usage(folder).free - RESERVE
    limits = ArchiveLimits(
        files=_FILES,
        bytes=min(max(_RATIO * size, _LEAST), room),
        depth=32,
        contents=_CONTENTS,
        any_system=False,  # published archives are as they are; a system that cannot hold two names says so
    )
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        try:
            extract(archive, staging, limits, _Megabytes(bar))
        except UserError as error:
            if shutil.disk_usage(folder).free < RESERVE:
                raise UserError(
                    f"The disk is full while {archive.name} ({in_bytes(size)}) is unpacked; what it gave is removed",
                    "free some space and do the same again, or choose another disk with {to}",
                ) from error
            raise
        merge(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def merge(source: Path, target: Path) -> None:
    """Move what lies in a folder into another; folders of one name become one, files replace files."""
    for entry in sorted(source.iterdir()):
        destination = target / entry.name
        if entry.is_dir() and destination.is_dir() and not destination.is_symlink():
            merge(entry, destination)
        else:
            if destination.is_dir() and not destination.is_symlink():
                raise UserError(f"{destination} is a folder where the archive has a file", "move it away")
            entry.replace(destination)


def clear_leftovers(folder: Path) -> None:
    """Remove what a command left behind that was stopped by force; what can be gone on with stays."""
    for leftover in folder.glob(".unpacking-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for empty in (folder / DOWNLOADS).glob("tmp????????"):  # the names of pooch's temporary files
        empty.unlink()


class _Megabytes:
    """Bytes as they come, told to a bar in whole megabytes."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.bytes = bar, 0

    def __call__(self, number: int) -> None:
        before = self.bytes // 1_000_000
        self.bytes += number
        if self.bytes // 1_000_000 > before:
            self.bar.advance(self.bytes // 1_000_000 - before)

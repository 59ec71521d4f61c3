"""Arrays on disk are guarded: a checksum per block of rows, checked when size, time or inode of the file changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.core.arrays import Bools
from longshot.core.errors import UserError
from longshot.core.files import cache_places, hash_text, is_writable, read_sealed, write_sealed
from longshot.core.wording import count

_CHECKSUM = ', "checksum": "'  # the last entry of a guarded JSON file
_TICK = (
    50_000_000  # ns: a file that changed a moment ago can change again within one tick of its clock, unseen
)


class Damaged(UserError):
    """A file is not as it was written; ``damage`` says in what, ``intact`` which blocks of the array still are."""

    def __init__(self, path: Path, damage: str, intact: Bools | None = None) -> None:
        super().__init__(
            f"{path} is damaged: {damage}", "copy it again from where it was whole, or make it again"
        )
        self.path, self.damage, self.intact = path, damage, intact


def checksum(rows: NDArray[Any]) -> str:
    """Hex SHA-256 over the bytes of rows, in row-major order."""
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()


def block_sums(array: NDArray[Any], block: int) -> list[str]:
    """The checksum of every ``block`` rows of an array [N, d]."""
    return [checksum(array[start : start + block]) for start in range(0, len(array), block)]


def intact_blocks(path: Path, array: NDArray[Any], block: int, sums: Sequence[str]) -> Bools:
    """Which blocks of an array in a file have their checksum; read in blocks, so memory stays bounded."""
    size = block * array.itemsize * int(np.prod(array.shape[1:]))

    def intact(number: int) -> bool:
        with path.open("rb", 0) as file:
            file.seek(getattr(array, "offset", 0) + number * size)
            length = min(size, array.nbytes - number * size)
            return hashlib.sha256(file.read(length)).hexdigest() == sums[number]

    expected = -(-len(array) // block)
    if len(sums) != expected:
        raise Damaged(path, f"{len(sums):,} checksums are recorded for {expected:,} blocks")
    with ThreadPoolExecutor(2) as pool:
        return np.fromiter(pool.map(intact, range(expected)), np.bool_, expected)


def check_blocks(path: Path, array: NDArray[Any], block: int, sums: Sequence[str]) -> None:
    """Damaged, with the rows concerned, unless every block of the array at ``path`` has its checksum."""
    intact = intact_blocks(path, array, block, sums)
    if intact.all():
        return
    wrong = np.flatnonzero(~intact)
    start, stop = int(wrong[0]) * block, min((int(wrong[0]) + 1) * block, len(array))
    verb = "do" if len(wrong) > 1 else "does"
    raise Damaged(
        path,
        f"{len(wrong):,} of {count(len(intact), 'block')} {verb} not have the checksum that was recorded, first that "
        f"of rows {start:,} to {stop - 1:,}",
        intact,
    )


def guarded_json(values: dict[str, Any]) -> str:
    """JSON in one line whose last entry is a checksum of all that stands before it."""
    # Without indentation: the C encoder writes a million keys in a second, the indenting one in ten.
    text = json.dumps(values, ensure_ascii=False)[:-1]
    return f'{text}{_CHECKSUM}{hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}"}}\n'


def check_json(path: Path, data: bytes) -> str:
    """The checksum of a file that ``guarded_json`` made; Damaged when the file is not as it was written."""
    text, _, end = data.rpartition(_CHECKSUM.encode())
    recorded = hashlib.sha256(text).hexdigest()
    if end != f'{recorded}"}}\n'.encode():
        raise Damaged(path, "it does not have the checksum that it was written with")
    return recorded


class LastCheck:
    """When files were last found whole: remembered by their sizes, times and inodes in the cache.

    Parameters
    ----------
    files : sequence of Path
        What is looked at.
    mark : str
        What they were compared with: another mark is another check.
    """

    def __init__(self, files: Sequence[Path], mark: str) -> None:
        self.looked = time.time_ns()
        self.stamps = [_stamp(file) for file in files]
        self.mark, self.name = mark, hash_text(str(files[0].resolve()))[:32]

    def holds(self) -> bool:
        """Whether the files were found whole and have not changed since."""
        places = cache_places("checks", self.name)
        return any(bytes(read_sealed(path) or b"") == self._content() for path in places)

    def remember(self) -> None:
        """Note that the files are whole, as they were when this object was made; where nothing can be written, not."""
        if all(self.looked - changed > _TICK for _, changed, *_ in self.stamps):
            with contextlib.suppress(UserError):  # a full disk costs time, not truth
                folder = next(filter(is_writable, cache_places("checks")), None)
                if folder is not None:
                    write_sealed(folder / self.name, self._content())

    def _content(self) -> bytes:
        return json.dumps([self.mark, self.stamps]).encode()


def _stamp(file: Path) -> list[int]:
    status = file.stat()
    # ctime: bytes that were changed in place by something that set the time back are still seen
    return [status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns]

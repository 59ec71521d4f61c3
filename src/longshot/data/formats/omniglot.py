"""Omniglot: the two archives of drawn characters, zipped or unpacked, as one dataset with its usual class split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note
from longshot.data.dataset import Dataset
from longshot.data.formats.base import Format, assemble, need_folder
from longshot.data.scan import Scan, scan_folder, scan_zip
from longshot.data.stores import FileStore, ZipStore

if TYPE_CHECKING:
    from PIL.Image import Image

_PARTS = (("images_background", "train", 964), ("images_evaluation", "test", 659))
_TURNS = ("", "-rot90", "-rot180", "-rot270")  # what is added to a class id


@dataclass(frozen=True, eq=False)
class TurnedStore:
    """Row i is row ``rows[i]`` of the stores one after the other, turned left by ``turns[i]`` quarters."""

    stores: tuple[FileStore | ZipStore, ...]
    starts: tuple[int, ...]  # the first row of each store
    rows: NDArray[np.int64]
    turns: NDArray[np.int8]

    def read(self, row: int) -> Image:
        """Read from the store behind and turn."""
        store, at = self._behind(row)
        turn = int(self.turns[row])
        return store.read(at).rotate(90 * turn, expand=True) if turn else store.read(at)

    def encoded(self, row: int) -> bytes:
        """The bytes of the file or member behind; of a turned one, also by how much it is turned."""
        store, at = self._behind(row)
        turn = int(self.turns[row])
        return (f"turned {90 * turn}\n".encode() if turn else b"") + store.encoded(at)

    def stamps(self, rows: Ints) -> Ints:
        """Those of the files or archives behind."""
        part = np.searchsorted(self.starts, self.rows[rows], side="right") - 1
        stamps = np.empty((len(rows), 3), np.int64)
        for number, store in enumerate(self.stores):
            inside = part == number
            stamps[inside] = store.stamps(self.rows[rows[inside]] - self.starts[number])
        return stamps

    def _behind(self, row: int) -> tuple[FileStore | ZipStore, int]:
        at = int(self.rows[row])
        part = int(np.searchsorted(self.starts, at, side="right")) - 1
        return self.stores[part], at - self.starts[part]


class Omniglot(Format):
    """Characters are classes, alphabets their super-classes; background is train, evaluation is test.

    ``rotations`` adds every character turned by 90, 180 and 270 degrees as classes of their own.
    """

    name = "omniglot"
    title = "Omniglot: 1,623 drawn characters of 50 alphabets"
    origin = "https://github.com/brendenlake/omniglot (python/*.zip)"
    layout = "images_background and images_evaluation, each a .zip or a folder"

    def __init__(self, rotations: bool = False) -> None:
        self.rotations = rotations

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Both parts lie in the folder."""
        return path.is_dir() and all(_find_part(path, part) is not None for part, _, _ in _PARTS)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Both parts as one dataset; class ids and keys are the same for zips and folders."""
        need_folder(path, "Omniglot", "images_background and images_evaluation")
        missing = [part for part, _, _ in _PARTS if _find_part(path, part) is None]
        if missing:
            raise UserError(
                f"{path} lacks {' and '.join(missing)} (neither a .zip nor a folder); put both parts of Omniglot into "
                f"one folder, or open a single .zip by its own path."
            )
        scans: list[Scan] = []
        stores: list[FileStore | ZipStore] = []
        splits: dict[str, tuple[str, ...]] = {}
        for part, split, usual in _PARTS:
            scan, store = _open_part(path, part, refresh)
            _check_ids(scan, path / part, usual)
            scans.append(scan)
            stores.append(store)
            splits[split] = scan.class_ids
        shared = sorted(set(scans[0].class_ids) & set(scans[1].class_ids))
        if shared:
            raise UserError(
                f"{count(shared, 'character')} of {path} ({first(shared)}) are in both parts of Omniglot, which share "
                f"none; unpack images_background and images_evaluation again."
            )
        return self._join(path, name, scans, stores, splits)

    def _join(
        self,
        path: Path,
        name: str,
        scans: list[Scan],
        stores: list[FileStore | ZipStore],
        splits: dict[str, tuple[str, ...]],
    ) -> Dataset:
        classes = np.concatenate([scan.classes for scan in scans])
        keys = pa.concat_arrays([scan.keys for scan in scans])
        turns = range(len(_TURNS) if self.rotations else 1)
        all_classes = np.concatenate([np.char.add(classes, _TURNS[turn]) for turn in turns])
        # The file's name moves below the turned class: Latin/character01-rot90/0709_01.png
        files = pc.extract_regex(keys, pattern=r"^.*/(?P<file>[^/]+)$").field("file")
        all_keys = pc.binary_join_element_wise(
            pa.array(all_classes.tolist(), pa.string()), pa.concat_arrays([files for _ in turns]), "/"
        )
        starts = tuple(np.cumsum([0, *(len(scan.keys) for scan in scans[:-1])]).tolist())
        order = np.argsort(all_classes, kind="stable")
        store = TurnedStore(
            tuple(stores),
            starts,
            np.tile(np.arange(len(keys), dtype=np.int64), len(turns))[order],
            np.repeat(np.arange(len(turns), dtype=np.int8), len(keys))[order],
        )
        with_turns = {
            split: tuple(sorted(f"{c}{_TURNS[turn]}" for c in members for turn in turns))
            for split, members in splits.items()
        }
        return assemble(
            name,
            self.source(path),
            all_classes[order],
            all_keys.take(pa.array(order)),
            store,
            splits=with_turns,
            nested=True,
            left_out=tuple(text for scan in scans for text in scan.tell()),
        )


def _find_part(path: Path, part: str) -> Path | None:
    """The folder of a part, else its zip, else None."""
    return next((file for file in (path / part, path / f"{part}.zip") if file.exists()), None)


def _open_part(path: Path, part: str, refresh: bool) -> tuple[Scan, FileStore | ZipStore]:
    file = _find_part(path, part)
    assert file is not None
    if file.is_dir():
        scan = scan_folder(file, refresh=refresh)
        return scan, FileStore(str(file), scan.keys)
    scan = scan_zip(file, refresh=refresh)
    return scan, ZipStore(str(file), scan.keys, scan.prefix)


def _check_ids(scan: Scan, where: Path, usual: int) -> None:
    """Alphabet/character, and a note when some are not there."""
    other = [class_id for class_id in scan.class_ids if class_id.count("/") != 1]
    if other:
        raise UserError(
            f"{where} has {count(other, 'folder')} of images ({first(other)}) that are not of the form "
            f"Alphabet/character; unpack the archive again."
        )
    if len(scan.class_ids) != usual:
        note(f"{where} has {len(scan.class_ids):,} characters; the whole of it has {usual:,}.")

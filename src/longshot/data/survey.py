"""A look at every image of a dataset, once: which cannot be read, how large they are, which are of one colour."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from longshot.base import Bools, Ints, progress
from longshot.data.scan import load_table, save_table, scan_file, scan_files
from longshot.data.stores import ImageError, prepare_rows, stamps_of

if TYPE_CHECKING:
    from longshot.data.dataset import Dataset

_BLOCK = 512  # images between two looks at the clock
_SAVE_EVERY = 15.0  # seconds of work that a kill can cost
_TINY = 16  # an image with fewer than a sixteenth of the median's pixels is odd
_LONG = 4.0  # so is one that is so many times as long as wide, where others are not
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("size", pa.int64()),
        ("stamp", pa.int64()),
        ("reason", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("plain", pa.bool_()),
    ]
)


class _Look(NamedTuple):
    """What was seen of one image; ``reason`` is "" where it can be read."""

    reason: str
    width: int = 0
    height: int = 0
    plain: bool = False


class Survey(NamedTuple):
    """What was seen of N images, in the order of their dataset."""

    reasons: list[str]  # why an image cannot be read; "" where it can
    widths: Ints  # [N] pixels; 0 where it cannot be read
    heights: Ints
    plain: Bools  # [N] all pixels have the same colour

    @property
    def unreadable(self) -> Ints:
        """Return the rows that cannot be read."""
        return np.flatnonzero(np.array([bool(reason) for reason in self.reasons], np.bool_))

    def sizes(self) -> str:
        """Say how large the images are: ``128 × 128``, or ``96 × 72 to 640 × 480, median 320 × 240``."""
        readable = self.widths > 0
        if not readable.any():
            return "none can be read"
        pixels = np.where(readable, self.widths * self.heights, -1)
        order = np.argsort(pixels, kind="stable")[int((~readable).sum()) :]
        least, middle, most = (
            f"{int(self.widths[row])} × {int(self.heights[row])}"
            for row in (order[0], order[len(order) // 2], order[-1])
        )
        return least if least == most == middle else f"{least} to {most}, median {middle}"

    def odd(self) -> dict[str, Ints]:
        """Return the rows of images that are seldom meant: of one colour, tiny beside the others, extremely long."""
        readable = self.widths > 0
        pixels = self.widths * self.heights
        longer = np.maximum(self.widths, self.heights) / np.maximum(np.minimum(self.widths, self.heights), 1)
        median_pixels, median_length = (
            float(np.median(values[readable])) if readable.any() else 0.0 for values in (pixels, longer)
        )
        masks = {
            "of one colour": self.plain,
            "tiny beside the others": readable & (pixels < median_pixels / _TINY),
            "extremely long": readable & (longer > _LONG) & (longer > 2 * median_length),
        }
        return {kind: np.flatnonzero(mask) for kind, mask in masks.items() if mask.any()}


def survey_images(dataset: Dataset, workers: int | None = None, *, refresh: bool = False) -> Survey:
    """Decode every image and note what it is like.

    Each image is decoded once and the outcome remembered: a later call decodes only files that are new or
    changed, and a call that was interrupted goes on where it stopped. Threads do the work, since Pillow
    decodes outside Python's lock.

    Parameters
    ----------
    dataset : Dataset
        With every image it has, as ``open_located`` opens it.
    workers : int, optional
        Threads that decode; all cores by default.
    refresh : bool
        Decode every image again.
    """
    rows = range(len(dataset))
    store = dataset.store
    keys: list[str] = dataset.keys.to_pylist()
    # key, and size and time of the file behind it; −1 where that says nothing
    stamps = list(zip(keys, *stamps_of(store, np.arange(len(rows)))[:, :2].T.tolist(), strict=True))
    earlier = {} if refresh else _load(dataset.source)
    looks = {row: earlier[stamp] for row, stamp in enumerate(stamps) if stamp[1] >= 0 and stamp in earlier}
    todo = [row for row in rows if row not in looks]
    prepare_rows(store, np.array(todo, np.int64))

    def look(row: int) -> _Look:
        try:
            image = store.read(row)
        except ImageError as error:
            return _Look(error.reason)
        bands = image.getextrema()  # (low, high) of each band
        plain = all(low == high for low, high in (bands if isinstance(bands[0], tuple) else (bands,)))
        return _Look("", image.width, image.height, plain)

    def save() -> None:
        if any(stamps[row][1] >= 0 for row in looks):
            _save(dataset.source, {stamps[row]: looks[row] for row in sorted(looks) if stamps[row][1] >= 0})

    if todo:
        saved = time.monotonic()
        with (
            progress(f"check images of {dataset.name}", total=len(keys), unit="images") as bar,
            ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool,
        ):
            bar.skip(len(looks))
            for start in range(0, len(todo), _BLOCK):
                block = todo[start : start + _BLOCK]
                looks.update(zip(block, pool.map(look, block), strict=True))
                bar.advance(len(block))
                if time.monotonic() - saved > _SAVE_EVERY:
                    save()
                    saved = time.monotonic()
        save()
    reasons, widths, heights, plain = zip(*(looks[row] for row in rows), strict=True)
    return Survey(
        list(reasons), np.array(widths, np.int64), np.array(heights, np.int64), np.array(plain, np.bool_)
    )


def find_bad(dataset: Dataset, workers: int | None = None, *, refresh: bool = False) -> list[tuple[str, str]]:
    """Decode every image, as ``survey_images`` does, and return (key, reason) of those that cannot be read."""
    looked = survey_images(dataset, workers, refresh=refresh)
    return [(dataset.keys[int(row)].as_py(), looked.reasons[row]) for row in looked.unreadable]


def _load(source: str) -> dict[tuple[str, int, int], _Look]:
    looks: dict[tuple[str, int, int], _Look] = {}
    for file in reversed(scan_files(source, "check")):  # the best place has the last word
        table = load_table(file)
        if table is not None and table.column_names == _SCHEMA.names:
            for key, size, stamp, *seen in zip(*table.to_pydict().values(), strict=True):
                looks[key, size, stamp] = _Look(*seen)
    return looks


def _save(source: str, looks: Mapping[tuple[str, int, int], _Look]) -> None:
    columns: list[Any] = list(zip(*((*stamp, *look) for stamp, look in looks.items()), strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    save_table(scan_file(source, "check"), pa.table(arrays, schema=_SCHEMA))

"""What there is to say about datasets: which are known here, what one holds, how its pictures are, which formats open.

A dataset shows itself in a few lines at a prompt, and with pictures of its first classes in a notebook. What a survey
reads of every picture (its sides, whether it decodes) is kept, so that a second one reads only what changed.
"""

from __future__ import annotations

import base64
import io
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from longshot.base import (
    Bools,
    Ints,
    UserError,
    cache_places,
    call_defaults,
    count,
    format_call,
    html_facts,
    is_writable,
    note,
    progress,
)
from longshot.data import registry
from longshot.data.dataset import SPLITS, Dataset, class_labels, has_wordnet_ids
from longshot.data.file_readers import load_table, save_table
from longshot.data.formats import all_formats, find_format, make_format
from longshot.data.opening import as_dataset, locate, open_dataset, open_located
from longshot.data.scan import scan_file, scan_files
from longshot.data.stores import ImageError, prepare_rows, stamps_of

_SHOWN = 8  # classes with a picture
_SIDE = 96  # pixels of a thumbnail's longer side


def list_datasets() -> list[dict[str, Any]]:
    """List the datasets that were opened or added on this machine, and toybox.

    Returns
    -------
    list of dict
        ``name``, ``classes``, ``images``, ``skipped`` (images left out), ``fingerprint``, ``source`` and ``present``
        (whether it still lies there). The numbers of toybox are None until it is opened for the first time.

    Examples
    --------
    >>> "toybox" in [row["name"] for row in list_datasets()]
    True
    """
    rows = registry.entries()
    if not any(row["source"] == "toybox" for row in rows):
        unopened: dict[str, Any] = {"classes": None, "images": None, "skipped": 0, "fingerprint": None}
        rows.append({"name": "toybox", **unopened, "source": "toybox", "present": True})
    return rows


class AddedDataset(NamedTuple):
    """A dataset under a name, and the source that the name stood for before (None: nothing else)."""

    dataset: Dataset
    before: str | None


def add_dataset(
    name: str, path: str | Path, *, form: str | None = None, skip_bad: bool = False, refresh: bool = False
) -> AddedDataset:
    """Remember the dataset at ``path`` under ``name``.

    Parameters
    ----------
    name : str
        What to call it from now on.
    path : str or path
        Where it lies.
    form : FORMAT, str, optional
        What lies at PATH: a name from 'longshot datasets formats'. Settings go with it, as in
        ``"vtab(task='clevr-count')"``; see :func:`list_formats`.
    skip_bad : bool
        Leave unreadable images out, and record them.
    refresh : bool
        Scan anew, and drop the record of images left out.

    Returns
    -------
    AddedDataset
        The dataset, and where the name pointed before.

    Examples
    --------
    >>> import numpy as np
    >>> np.savez("birds.npz", images=np.zeros((4, 8, 8), np.uint8), labels=["wren", "crow", "wren", "crow"])
    >>> add_dataset("my-birds", "birds.npz").dataset.name
    'my-birds'
    """
    registry.check_name(name)  # before a long scan
    if not any(map(is_writable, cache_places())):
        raise UserError(
            f"'{name}' cannot be remembered: the cache cannot be written ({', '.join(map(str, cache_places()))})",
            f"set LONGSHOT_CACHE to a folder that you may write to, or open {path} by its path",
        )
    if form:
        make_format(form)  # a mistyped format is reported as that, not as a path that is not there
    spec = f"{form}:{path}" if form else path
    dataset = open_dataset(spec, name=name, skip_bad=skip_bad, refresh=refresh)
    return AddedDataset(dataset, registry.add_name(name, dataset.source))


def list_formats() -> list[dict[str, str]]:
    """List the formats of datasets that are opened where they lie.

    Returns
    -------
    list of dict
        ``format`` (a call with its settings and defaults), ``what`` it is, the ``files`` it looks for, and where
        people get such data (``from``).

    Examples
    --------
    >>> [row["format"] for row in list_formats()][0]
    'view'
    """
    rows = []
    for name in all_formats():
        try:
            form = find_format(name)
        except UserError as error:  # of a plugin that is broken
            note(error.template)
            continue
        call = format_call(name, call_defaults(form.__init__))
        rows.append({"format": call, "what": form.title, "files": form.layout, "from": form.origin})
    return rows


def describe_dataset(dataset: str | Path | Dataset) -> dict[str, Any]:
    """Describe a dataset in plain values.

    Parameters
    ----------
    dataset : Dataset, str or Path
        A dataset, or what ``open_dataset`` opens.

    Returns
    -------
    dict
        ``name``, ``source``, ``fingerprint``, numbers of ``classes`` and ``images``, ``images_per_class`` (least,
        median, most), ``splits`` (classes in each), ``taxonomy`` (nodes, levels, edges, or None), ``wordnet_ids``
        (whether the classes are called by them), ``attributes`` (name → type), ``skipped`` (keys of images left out),
        ``left_out`` (what else was, in words), ``taken_for`` (what lies there, in words) and ``or_as`` (what it could
        be as well, with the text that opens it so), and ``class_list`` (class, images, split of each, and its label
        where a taxonomy has other names).

    Examples
    --------
    >>> import numpy as np
    >>> np.savez("birds.npz", images=np.zeros((4, 8, 8), np.uint8), labels=["wren", "crow", "wren", "crow"])
    >>> facts = describe_dataset("birds.npz")
    >>> facts["classes"], facts["images_per_class"]["median"]
    (2, 2.0)
    """
    opened = as_dataset(dataset)
    sizes, taxonomy = opened.sizes, opened.taxonomy
    split_of = {class_id: split for split, members in opened.splits.items() for class_id in members}
    labels = class_labels(opened)
    return {
        "name": opened.name,
        "source": opened.source,
        "fingerprint": opened.fingerprint,
        "classes": len(opened.class_ids),
        "images": len(opened),
        "images_per_class": {
            "least": int(sizes.min()),
            "median": median(sizes.tolist()),
            "most": int(sizes.max()),
        },
        "splits": {split: len(members) for split, members in opened.splits.items()},
        "taxonomy": None
        if taxonomy is None
        else {
            "nodes": len(taxonomy.nodes),
            "levels": int(taxonomy.depths.max()),
            "edges": len(taxonomy.edges),
        },
        "wordnet_ids": has_wordnet_ids(opened),
        "attributes": {}
        if opened.attributes is None
        else {field.name: str(field.type) for field in opened.attributes.schema},
        "skipped": list(opened.skipped),
        "left_out": list(opened.left_out),
        "taken_for": opened.taken_for,
        "or_as": list(opened.or_as),
        "class_list": [
            {
                "class": class_id,
                **({"label": labels.get(class_id)} if labels else {}),
                "images": int(size),
                "split": split_of.get(class_id),
            }
            for class_id, size in zip(opened.class_ids, sizes, strict=True)
        ],
    }


class CheckedDataset(NamedTuple):
    """A dataset with every image it has, and (key, reason) of those that cannot be read."""

    dataset: Dataset
    bad: list[tuple[str, str]]

    def raise_if_bad(self) -> None:
        """Raise UserError where an image cannot be read."""
        if self.bad:
            raise UserError(
                f"{len(self.bad):,} of {len(self.dataset):,} images of {self.dataset.source} cannot be read",
                "mend or remove them, or leave them out with {skip_bad:True}",
            )


def check_dataset(
    dataset: str | Path, *, workers: int | None = None, refresh: bool = False
) -> CheckedDataset:
    """Decode every image of a dataset, those left out earlier too, and list the ones that cannot be read.

    Parameters
    ----------
    dataset : str or path
        A path, a registered name, or toybox.
    workers : int, at least 1, optional
        Threads that decode. Default: one per core.
    refresh : bool
        Decode every image again, also those known to be good.

    Returns
    -------
    CheckedDataset
        The dataset, and key and reason of each image that cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> np.savez("birds.npz", images=np.zeros((4, 8, 8), np.uint8), labels=["wren", "crow", "wren", "crow"])
    >>> check_dataset("birds.npz").bad
    []
    """
    opened = open_located(locate(dataset), refresh=refresh)
    return CheckedDataset(opened, find_bad(opened, workers, refresh=refresh))


def facts(dataset: Dataset) -> dict[str, str]:
    """Summarise a dataset for a glance, name → text, without reading an image."""
    least, most = int(dataset.sizes.min()), int(dataset.sizes.max())
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    rows = {
        "images": f"{len(dataset):,} in {count(dataset.class_ids, 'class', 'classes')}, {each} a class",
        "source": dataset.source,
    }
    if dataset.splits:
        named = [name for name in (*SPLITS, *sorted(dataset.splits)) if name in dataset.splits]
        rows["splits"] = ", ".join(f"{name} {len(dataset.splits[name]):,}" for name in dict.fromkeys(named))
    extras = ["taxonomy"] if dataset.taxonomy is not None else []
    if dataset.attributes is not None:
        extras.append(f"attributes {', '.join(dataset.attributes.column_names[:6])}")
    if extras:
        rows["known"] = "; ".join(extras)
    return rows


def as_text(dataset: Dataset) -> str:
    """Render a dataset in at most five lines of text."""
    lines = [f"  {name}: {text}" for name, text in facts(dataset).items()]
    return "\n".join([f"Dataset '{dataset.name}'", *lines])


def as_html(dataset: Dataset) -> str:
    """Render a dataset as a table with thumbnails of some classes, in HTML; names are escaped."""
    step = max(1, len(dataset.class_ids) // _SHOWN)
    pictures = "".join(
        _thumbnail(dataset, label) for label in range(0, len(dataset.class_ids), step)[:_SHOWN]
    )
    return f"{html_facts(facts(dataset), dataset.name)}<div>{pictures}</div>"


def _thumbnail(dataset: Dataset, label: int) -> str:
    name = escape(dataset.class_names[label])
    try:
        image = dataset.image(int(dataset.offsets[label]))
    except UserError:  # an unreadable image is no reason to show nothing of the others
        return f"<figure style='display:inline-block'><figcaption>{name}: unreadable</figcaption></figure>"
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=80)
    data = base64.b64encode(buffer.getvalue()).decode()
    return (
        f"<figure style='display:inline-block'><img alt='{name}' src='data:image/jpeg;base64,{data}'>"
        f"<figcaption>{name}</figcaption></figure>"
    )


# ---- a look at every image of a dataset, once


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

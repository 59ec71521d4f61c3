"""What readers of numbered records share: parts such as train and test, keys, raw pixels, unpacked copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from longshot.core.arrays import Ints
from longshot.core.calls import parameters
from longshot.core.errors import UserError
from longshot.core.files import atomic, cache_dir, find_cached, hash_text
from longshot.core.ragged import offsets_of
from longshot.core.wording import count, first
from longshot.datasets.dataset import SPLITS, Dataset, ImageStore, canonical_split
from longshot.datasets.files import need_stamp, repeated
from longshot.datasets.formats.base import Format, assemble
from longshot.datasets.images import array_bytes, to_rgb
from longshot.datasets.stores import escape_name

if TYPE_CHECKING:
    from PIL.Image import Image

Texts = NDArray[np.str_]


def check_texts(form: Format) -> None:
    """Settings that are nothing by default are names: UserError for one that is no text."""
    defaults = parameters(type(form).__init__)
    for key, value in form.settings.items():
        if defaults[key] is None and value is not None and not isinstance(value, str):
            raise UserError(f"The setting {key} of {form.name} is a name in quotes, not {value!r}.")


def chosen_splits(split: str | None, there: Sequence[str], path: Path) -> list[str]:
    """The parts of an archive to open: the one called ``split`` (``val`` is ``validation``), or all."""
    if split is None:
        return list(there)
    canonical = canonical_split(split) or split
    parts = [part for part in there if part == split or (canonical_split(part) or part) == canonical]
    if not parts:
        raise UserError(
            f"{path} has no split '{split}' (found: {', '.join(there) or 'none'})",
            "choose one of these or leave the setting out to open all",
        )
    return parts


def count_within(sizes: ArrayLike) -> Ints:
    """0 … n − 1 for each part of n rows, one part behind the other.

    >>> count_within([2, 3]).tolist()
    [0, 1, 0, 1, 2]
    """
    offsets = offsets_of(sizes)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def record_dataset(
    name: str,
    source: str,
    classes: Texts,
    splits: Texts,
    numbers: Ints,
    store: ImageStore,
    attributes: pa.Table | None = None,
) -> Dataset:
    """Records [N] as a dataset. The key of record 7 of train, of class ``cat``, is ``cat/train-7`` (``cat/7`` where
    the archive has no parts), whichever parts are opened.

    Parts that divide the classes are its class splits, parts that divide the images of classes the attribute
    ``split``; nested class ids spell out the taxonomy.
    """
    prefix = pc.if_else(
        pc.equal(pa.array(splits), ""), "", pc.binary_join_element_wise(splits.tolist(), "", "-")
    )
    record = pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")
    keys = pc.binary_join_element_wise(pa.array(classes.tolist(), pa.string()), record, "/")
    divided = class_splits(classes, splits)
    if not divided and len(set(splits.tolist())) > 1:
        column = pa.array(splits.tolist(), pa.string())
        attributes = (
            pa.table({"split": column}) if attributes is None else attributes.append_column("split", column)
        )
    return assemble(
        name,
        source,
        classes,
        keys,
        store,
        attributes=attributes,
        splits=divided,
        nested=True,
    )


def class_splits(classes: Texts, splits: Texts) -> dict[str, tuple[str, ...]]:
    """train/validation/test → class ids when the parts share no class; empty when they divide images instead."""
    pairs = sorted(set(zip(splits.tolist(), classes.tolist(), strict=True)))
    parts = {canonical_split(part) for part, _ in pairs}
    if len(parts) < 2 or None in parts or len({c for _, c in pairs}) < len(pairs):
        return {}
    return {
        split: members
        for split in SPLITS
        if (members := tuple(sorted(c for part, c in pairs if canonical_split(part) == split)))
    }


@dataclass(frozen=True)
class RawPixels:
    """Decoder of bytes that are pixels: stored as ``shape``, turned by ``axes`` into [H, W] or [H, W, 3]."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def __call__(self, data: bytes, where: str) -> Image:
        from PIL import Image

        return to_rgb(Image.fromarray(np.ascontiguousarray(self._pixels(data))))

    def encoded(self, data: bytes, where: str) -> bytes:
        """Type, shape and numbers of the image, whatever the order in which the file holds them."""
        return array_bytes(self._pixels(data))

    def _pixels(self, data: bytes) -> NDArray[np.uint8]:
        return np.frombuffer(data, np.uint8).reshape(self.shape).transpose(self.axes)


def unpacked(packed: Path, write: Callable[[Path], None], *, refresh: bool = False) -> Path:
    """The content of a compressed file as a plain file in the cache, which every process can read anywhere in.

    ``write(target)`` makes it, once; another time or size of ``packed`` makes it anew.
    """
    address = hash_text(escape_name(str(packed.absolute())), *map(str, need_stamp(packed)))
    name = f"{address[:32]}-{escape_name(packed.stem)}"
    unpacked_before = None if refresh else find_cached("unpacked", name)
    if unpacked_before is not None:
        return unpacked_before
    target = cache_dir("unpacked") / name
    with atomic(target) as temporary:
        write(temporary)
    return target


def label_names(labels: NDArray[np.integer], names: Sequence[str], where: str) -> Texts:
    """The name of each label [N]; a label without a name is an error."""
    outside = labels[(labels < 0) | (labels >= len(names))]
    if len(outside):
        raise UserError(
            f"{where} has {len(outside):,} of {len(labels):,} labels outside 0…{len(names) - 1} (the first is "
            f"{int(outside[0])}), and there are {len(names)} class names; the file is damaged or of another dataset."
        )
    named: Texts = np.array(names, dtype=np.str_)[labels]
    return named


def flat_names(names: Sequence[str], where: str) -> list[str]:
    """Class names as ids of one part: a slash in ``T-shirt/top`` is no hierarchy and becomes a dash."""
    flat = [name.strip().replace("/", "-") for name in names]
    twice = repeated(flat)
    if twice:
        raise UserError(
            f"{where} names {count(twice, 'class', 'classes')} twice ({first(twice)}); a name tells one class."
        )
    return flat


def nested_ids(parents: Texts, classes: Texts, path: Path) -> Texts:
    """``people/baby`` [N]; a class below two parents is an error, as its images would fall apart."""
    pairs = sorted(set(zip(classes.tolist(), parents.tolist(), strict=True)))
    twice = sorted({above[0] for above, below in pairwise(pairs) if above[0] == below[0]})
    if twice:
        raise UserError(
            f"{path} has {count(twice, 'class', 'classes')} in several super-classes ({first(twice)}), and each has "
            f"one: the data is damaged, or the column is no super-class."
        )
    nested: Texts = np.char.add(np.char.add(parents, "/"), classes)
    return nested

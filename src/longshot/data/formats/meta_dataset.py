"""Meta-Dataset v1: a folder per source with ``dataset_spec.json`` and one file of records per class."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, note, offsets_of, progress
from longshot.data.dataset import Dataset, ImageStore
from longshot.data.file_readers import container_stamps, file_stamp
from longshot.data.formats.base import Format, assemble, count_within, remembered
from longshot.data.formats.benchmark_tables import SPEC_SPLITS, Spec, SpecClass, read_spec
from longshot.data.formats.spans import read_span, refuse_copied_files, refuse_copied_records
from longshot.data.formats.tfrecord import (
    FeatureValue,
    ProtoError,
    RecordDecoder,
    RecordIndex,
    index_files,
    parse_example,
    span_columns,
    store_of,
    unframe,
)
from longshot.data.stores import ImageError, array_bytes, escape_name, to_rgb
from longshot.data.taxonomy import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

_SPEC = "dataset_spec.json"
_MOST_OPEN = 64  # files: Omniglot has 1,623, systems allow about 1,000


class MetaDataset(Format):
    """One source in the form in which Meta-Dataset's own conversion writes it. ``verify`` reads every record once."""

    name = "meta-dataset"
    title = "a source of Meta-Dataset as TFRecord files, one per class"
    origin = "Meta-Dataset's conversion scripts, github.com/google-research/meta-dataset"
    layout = "dataset_spec.json, 0.tfrecords, 1.tfrecords …"

    def __init__(self, verify: bool = False) -> None:
        self.verify = verify

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """A spec or a first class; where only the HDF5 form is there, that format takes it."""
        records = (path / "0.tfrecords").is_file()
        return records or ((path / _SPEC).is_file() and not (path / "0.h5").is_file())

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """The classes of all splits, in the order of their numbers."""
        spec = find_spec(path)
        files = class_files(path, spec, ".tfrecords")

        def build() -> pa.Table:
            every: list[set[int]] = []  # the labels of every record, where all are read
            visit = (
                (lambda data: every.append(_labels_of(parse_example(data, ("label",)))))
                if self.verify
                else None
            )
            indexes = index_files(files, f"index {name}", visit=visit)
            counts = [len(index) for index in indexes]
            check_counts(path, spec, counts)
            labels = list(map(_record_labels, files, indexes))
            if self.verify:
                bounds = offsets_of(counts)
                labels = [set().union(*every[start:stop]) for start, stop in pairwise(bounds.tolist())]
            check_labels(files, [spec_class.number for spec_class in spec.classes], labels)
            table = pa.table(span_columns(indexes))
            refuse_copied_records(files, table)
            return table

        source = self.source(path)
        index = remembered(source, [path / _SPEC, *files], build, refresh=refresh)
        store = store_of(files, index, RecordDecoder())
        return spec_dataset(name, source, spec, index["file"].to_numpy(), store)


def find_spec(path: Path) -> Spec:
    """The spec of the source in ``path``; UserError when it is not there."""
    if not (path / _SPEC).is_file():
        inside = sorted(p.parent.name for p in path.glob(f"*/{_SPEC}")) if path.is_dir() else []
        hint = (
            f"give one source, such as {path / inside[0]} ({count(inside, 'source')} below)"
            if inside
            else "the conversion writes it beside the class files; get it from there or from Meta-Dataset's repository"
        )
        raise UserError(f"There is no {_SPEC} in {path}; {hint}.")
    spec = read_spec(path / _SPEC)
    if spec.pattern != "{}.tfrecords":
        raise UserError(
            f"{path / _SPEC} speaks of files '{spec.pattern}'; one file per class, '{{}}.tfrecords', is what "
            f"Longshot reads."
        )
    return spec


def class_files(path: Path, spec: Spec, suffix: str) -> list[Path]:
    """The file of every class, in the order of ``spec.classes``; UserError with the number of missing ones."""
    files = [path / f"{spec_class.number}{suffix}" for spec_class in spec.classes]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UserError(
            f"{path} lacks {len(missing):,} of the {len(files):,} class files that its {_SPEC} names "
            f"({first(missing)}); copy or convert the rest."
        )
    return files


def check_counts(path: Path, spec: Spec, counts: Sequence[int]) -> None:
    """UserError when the classes do not hold the images that the spec says."""
    wrong = [(c, n) for c, n in zip(spec.classes, counts, strict=True) if c.images != n]
    if wrong:
        spec_class, number = wrong[0]
        more = f" and {len(wrong) - 1:,} more classes differ" if len(wrong) > 1 else " differs"
        raise UserError(
            f"{path} holds {sum(counts):,} records, its {_SPEC} says {sum(c.images for c in spec.classes):,}: class "
            f"{spec_class.number} ('{spec_class.name}') with {number:,} instead of {spec_class.images:,}{more}",
            "convert the source again",
        )


def check_labels(files: Sequence[Path], numbers: Sequence[int], labels: Sequence[set[int]]) -> None:
    """UserError when a class's file holds records of another class.

    Parameters
    ----------
    files : sequence [C] of path
        One per class.
    numbers : sequence [C] of int
        The classes' numbers, which the conversion writes into every record.
    labels : sequence [C] of set of int
        The labels of the records that were looked at; empty where they have none.
    """
    wrong = [
        (file, number, label)
        for file, number, inside in zip(files, numbers, labels, strict=True)
        for label in sorted(inside - {number})
    ]
    if not wrong:
        return
    file, number, label = wrong[0]
    differ = len({path for path, _, _ in wrong})
    fact = (
        f"{file} holds records with the label {label}, where {number} is its class; so do {differ:,} of {len(files):,} "
        f"class files"
    )
    if any(number in inside for number, inside in zip(numbers, labels, strict=True)):
        raise UserError(fact, "a file was copied over another one: copy or convert the source again")
    note(f"{fact}: no label is the number of its file, so the files decide.")


def spec_dataset(
    name: str, source: str, spec: Spec, file: NDArray[np.integer], store: ImageStore, prefix: str = ""
) -> Dataset:
    """Rows class by class, as ``file`` [N] (positions in ``spec.classes``) says, with splits and taxonomy.

    Position p of a split in Meta-Dataset's episodes is the class ``dataset.split_classes(split)[p]``.
    """
    ids = class_ids_of(spec)
    numbers = count_within(np.bincount(file, minlength=len(ids)))
    keys = [f"{ids[f]}/{prefix}{n}" for f, n in zip(file.tolist(), numbers.tolist(), strict=True)]
    by_split: dict[str, tuple[str, ...]] = {}
    start = 0
    for split, spelled in SPEC_SPLITS.items():
        stop = start + len(spec.splits[spelled])
        if stop > start:
            by_split[split] = tuple(ids[start:stop])
        start = stop
    classes = np.array(ids)[file]
    return assemble(name, source, classes, keys, store, taxonomy=_taxonomy(spec, ids), splits=by_split)


def class_ids_of(spec: Spec) -> list[str]:
    """WordNet ids for ILSVRC; elsewhere number and name, so that sorted ids are in the order of the spec."""
    if spec.kind == "hierarchical":
        return [spec_class.name for spec_class in spec.classes]
    width = max(4, len(str(max(spec_class.number for spec_class in spec.classes))))
    return [f"{spec_class.number:0{width}d}-{_flat(spec_class)}" for spec_class in spec.classes]


def _flat(spec_class: SpecClass) -> str:
    return escape_name(spec_class.name.strip().replace("/", "_"))  # a slash would make it a path


def _taxonomy(spec: Spec, ids: Sequence[str]) -> Taxonomy | None:
    """ILSVRC's graph (the union of its splits' graphs, under one root), Omniglot's alphabets, else none."""
    if spec.kind == "bilevel":
        groups = [spec_class.group for spec_class in spec.classes]
        edges = [("", group) for group in dict.fromkeys(groups)]
        return Taxonomy.from_edges([*edges, *zip(groups, ids, strict=True)])
    if spec.kind == "flat":
        return None
    nodes = [node for graph in spec.subgraphs.values() for node in graph]
    edges = [(node["wn_id"], child) for node in nodes for child in node["children_ids"]]
    below = {child for _, child in edges}
    tops = list(dict.fromkeys(node["wn_id"] for node in nodes if node["wn_id"] not in below))
    if len(tops) > 1:  # each split's graph is cut where its own classes meet
        edges = [*(("", top) for top in tops), *edges]
    return Taxonomy.from_edges(edges, {node["wn_id"]: str(node["words"]) for node in nodes})


def _record_labels(file: Path, index: RecordIndex) -> set[int]:
    """The labels of a file's first, middle and last records; UserError when one has no image: then none has.

    A record whose checksum fails says nothing; it is told when its image is read, and can be left out then.
    """
    labels: set[int] = set()
    for row in sorted({0, 1, 2, len(index) // 2, len(index) - 1} & set(range(len(index)))):
        offset, length = int(index.offsets[row]), int(index.lengths[row])
        try:
            data = unframe(read_span(str(file), offset, length), f"{file} at byte {offset}")
        except ImageError:
            continue
        try:
            features = parse_example(data)
        except ProtoError as error:
            raise UserError(
                f"The records of {file} are no tf.train.Example messages ({error}); Meta-Dataset's are."
            ) from error
        if "image" not in features:
            raise UserError(
                f"The records of {file} have no feature 'image' (found: {first(sorted(features))}); Meta-Dataset's "
                f"have 'image' and 'label'."
            )
        labels |= _labels_of(features)
    return labels


def _labels_of(features: Mapping[str, FeatureValue]) -> set[int]:
    """The label of a record, where it has a whole number for one."""
    label = features.get("label")
    if isinstance(label, np.ndarray) and label.dtype == np.int64 and label.size == 1:
        return {int(label[0])}
    return set()


class MetaDatasetHdf5(Format):
    """One source as HDF5 files."""

    name = "meta-dataset-hdf5"
    title = "a source of Meta-Dataset as HDF5 files, one per class"
    origin = "the conversion script of P>M>F, github.com/hushell/pmf_cvpr22"
    layout = "dataset_spec.json, 0.h5, 1.h5 …"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """A first class in HDF5, and none as records."""
        return (path / "0.h5").is_file() and not (path / "0.tfrecords").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """The classes of all splits, in the order of their numbers."""
        _h5py()
        spec = find_spec(path)
        files = class_files(path, spec, ".h5")

        def build() -> pa.Table:
            with progress(f"index {name}", total=len(files), unit="files") as bar:
                sizes, labels = [], []
                for file in files:
                    sizes.append(_count(file))
                    labels.append(_labels(file, sizes[-1]))
                    bar.advance()
            check_counts(path, spec, sizes)
            check_labels(files, [spec_class.number for spec_class in spec.classes], labels)
            refuse_copied_files([file for file, size in zip(files, sizes, strict=True) if size > 1])
            return pa.table({"images": np.array(sizes, np.int64)})

        source = self.source(path)
        index = remembered(source, [path / "dataset_spec.json", *files], build, refresh=refresh)
        sizes = index["images"].to_numpy()
        file = np.repeat(np.arange(len(files)), sizes)
        store = Hdf5Store(tuple(str(f) for f in files), file, count_within(sizes))
        return spec_dataset(name, source, spec, file, store, prefix="h5-")


@dataclass(frozen=True, eq=False)
class Hdf5Store:
    """Row i is the group ``numbers[i]`` of ``files[file[i]]``."""

    files: tuple[str, ...]
    file: Ints  # [N]
    numbers: Ints  # [N]

    def read(self, row: int) -> Image:
        """One image, from an array of bytes [H, W], [H, W, 1], [H, W, 3] or [H, W, 4]."""
        from PIL import Image

        where, pixels = self._pixels(row)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        if (
            pixels.dtype != np.uint8
            or pixels.ndim not in (2, 3)
            or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4))
        ):
            raise ImageError(where, f"it holds {pixels.dtype} {list(pixels.shape)}, no image of bytes")
        return to_rgb(Image.fromarray(np.ascontiguousarray(pixels)))

    def encoded(self, row: int) -> bytes:
        """Type, shape and numbers of one image."""
        return array_bytes(self._pixels(row)[1])

    def _pixels(self, row: int) -> tuple[str, NDArray[Any]]:
        """(the words for a row in an error, its array)."""
        path, number = self.files[int(self.file[row])], int(self.numbers[row])
        where = f"{path}, group {number}"
        try:
            with _lock:  # HDF5 reads one at a time
                return where, np.asarray(_open_file(path)[f"{number}/image"])
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise ImageError(where, str(error).strip("'\" .") or "it cannot be read") from error

    def stamps(self, rows: Ints) -> Ints:
        """Those of the file: one look per file."""
        return container_stamps(self.files, self.file[rows], self.numbers[rows])


def _h5py() -> Any:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise UserError("HDF5 files need the package h5py; run: pip install 'longshot[hdf5]'.") from error


def _count(path: Path) -> int:
    """The images of a class; UserError when its groups are not numbered 0, 1, … or hold no image."""
    try:
        with _h5py().File(path, "r") as file:
            names = set(file.keys())
            missing = [n for n in range(len(names)) if str(n) not in names]
            if missing:
                raise UserError(
                    f"{path} has {len(names):,} groups but none called '{missing[0]}'; groups are numbered from 0."
                )
            inside = list(file["0"].keys()) if names and hasattr(file["0"], "keys") else []
    except OSError as error:
        raise UserError(f"{path} is not a whole HDF5 file ({error}); copy or convert it again.") from error
    if names and "image" not in inside:
        raise UserError(
            f"{path} has no '0/image' (found in '0': {first(inside) or 'nothing'}); convert it again."
        )
    return len(names)


def _labels(path: Path, images: int) -> set[int]:
    """The labels of the first, middle and last groups, where they have whole numbers for labels."""
    labels: set[int] = set()
    with _h5py().File(path, "r") as file:
        for number in sorted({0, images // 2, images - 1} & set(range(images))):
            group = file[str(number)]
            label = np.asarray(group["label"]).reshape(-1) if "label" in group else np.empty(0)
            if label.size == 1 and label.dtype.kind in "iu":
                labels.add(int(label[0]))
    return labels


_lock = threading.Lock()
_open: OrderedDict[tuple[str, int, int, int], Any] = OrderedDict()


def _open_file(path: str) -> Any:
    """The file, kept open in this process until it changes; a forked worker opens its own."""
    address = (path, os.getpid(), *file_stamp(path))
    if address not in _open:
        _open[address] = _h5py().File(path, "r")
        if len(_open) > _MOST_OPEN:
            _open.popitem(last=False)[1].close()
    _open.move_to_end(address)
    return _open[address]

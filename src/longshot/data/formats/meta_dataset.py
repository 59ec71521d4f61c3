"""Meta-Dataset v1: a folder per source, with ``dataset_spec.json`` and one file of records per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import UserError, count, first, note, offsets_of, progress
from longshot.data.dataset import Dataset, ImageStore
from longshot.data.file_readers import read_object
from longshot.data.formats.base import Format, assemble, cached_index, count_within
from longshot.data.formats.spans import (
    Hdf5Store,
    count_hdf5,
    hdf5_labels,
    need_h5py,
    read_span,
    refuse_copied_files,
    refuse_copied_records,
)
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
from longshot.data.stores import ImageError, escape_name
from longshot.data.taxonomy import Taxonomy

_REMEDY = "take the file of github.com/google-research/meta-dataset, or write it with the conversion"
SPEC_SPLITS = {"train": "TRAIN", "validation": "VALID", "test": "TEST"}  # Longshot's names → the spec's


@dataclass(frozen=True)
class SpecClass:
    """A class: its file is called by ``number``; ``group`` is its super-class where the source has two levels."""

    number: int
    name: str
    images: int
    group: str = ""


@dataclass(frozen=True, eq=False)
class Spec:
    """A source. ``splits`` (TRAIN, VALID, TEST) hold classes in the order in which episodes number them.

    ``kind`` is 'flat', 'bilevel' (Omniglot) or 'hierarchical' (ILSVRC). ``subgraphs``: nodes of each split's graph as
    in the file, with ``wn_id``, ``words``, ``children_ids`` and ``parents_ids``.
    """

    name: str
    kind: str
    pattern: str
    splits: Mapping[str, tuple[SpecClass, ...]]
    subgraphs: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def classes(self) -> list[SpecClass]:
        """List all classes, split by split."""
        return [spec_class for members in self.splits.values() for spec_class in members]


class _WrongEntry(Exception):
    """An entry that cannot be; the rest of a sentence that begins with the file."""


def read_spec(file: Path) -> Spec:
    """Read a ``dataset_spec.json`` of Meta-Dataset; UserError when the file is none or incomplete."""
    raw = read_object(file)
    tables = ("split_subgraphs", "superclasses_per_split", "classes_per_split")
    if not any(table in raw for table in tables):
        raise UserError(f"{file} has none of Meta-Dataset's split tables; is it a dataset_spec.json?")
    name, pattern = str(raw.get("name", file.stem)), str(raw.get("file_pattern", "{}.tfrecords"))
    try:
        if "split_subgraphs" in raw:
            return Spec(name, "hierarchical", pattern, _hierarchical(raw), raw["split_subgraphs"])
        if "superclasses_per_split" in raw:
            return Spec(name, "bilevel", pattern, _bilevel(raw))
        ranges = _ranges(raw["classes_per_split"])
        return Spec(name, "flat", pattern, {s: _classes(raw, numbers) for s, numbers in ranges.items()})
    except KeyError as error:
        raise UserError(f"{file} lacks the entry {error}", _REMEDY) from error
    except _WrongEntry as error:
        raise UserError(f"{file} {error}", _REMEDY) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{file} has a table of another form than Meta-Dataset's ({error})", _REMEDY
        ) from error


def _ranges(per_split: Mapping[str, int]) -> dict[str, range]:
    """Number the classes of each split when splits follow each other as TRAIN, VALID, TEST."""
    start, ranges = 0, {}
    for split in SPEC_SPLITS.values():
        size = _size(per_split[split], f"its split {split}")
        ranges[split] = range(start, start + size)
        start += size
    return ranges


def _size(value: Any, where: str) -> int:
    """Check a number of classes or images, which is a whole number of 0 or more."""
    if not isinstance(value, int) or value < 0:
        raise _WrongEntry(f"gives {where} the size {value!r}, where a whole number of 0 or more is needed")
    return value


def _classes(raw: Mapping[str, Any], numbers: range, group: str = "") -> tuple[SpecClass, ...]:
    names, images = raw["class_names"], raw["images_per_class"]
    for table, entries in (("class_names", names), ("images_per_class", images)):
        absent = [n for n in numbers if str(n) not in entries]
        if absent:
            raise _WrongEntry(
                f"speaks of the classes {numbers[0]} to {numbers[-1]}, but {table} lacks {len(absent):,} of them "
                f"({first(absent)})"
            )
    return tuple(
        SpecClass(n, str(names[str(n)]), _size(images[str(n)], f"class {n}"), group) for n in numbers
    )


def _bilevel(raw: Mapping[str, Any]) -> dict[str, tuple[SpecClass, ...]]:
    """Read two levels: super-classes follow each other over the splits, and classes over the super-classes."""
    names, start = raw["superclass_names"], 0
    members: list[tuple[SpecClass, ...]] = []
    for number in range(len(raw["classes_per_superclass"])):
        stop = start + _size(raw["classes_per_superclass"][str(number)], f"super-class {number}")
        members.append(_classes(raw, range(start, stop), str(names[str(number)])))
        start = stop
    return {
        split: tuple(spec_class for number in numbers for spec_class in _member(members, number))
        for split, numbers in _ranges(raw["superclasses_per_split"]).items()
    }


def _member(members: list[tuple[SpecClass, ...]], number: int) -> tuple[SpecClass, ...]:
    if number >= len(members):
        raise _WrongEntry(f"divides more super-classes than the {len(members):,} it describes")
    return members[number]


def _hierarchical(raw: Mapping[str, Any]) -> dict[str, tuple[SpecClass, ...]]:
    """Read the leaves of each split's graph, by WordNet id."""
    number = {name: int(n) for n, name in raw["class_names"].items()}
    return {
        split: tuple(
            SpecClass(number[leaf], leaf, int(raw["images_per_class"][split][leaf]))
            for leaf in sorted(n["wn_id"] for n in raw["split_subgraphs"][split] if not n["children_ids"])
        )
        for split in SPEC_SPLITS.values()
    }


_SPEC = "dataset_spec.json"


class MetaDataset(Format):
    """One source in the form in which Meta-Dataset's own conversion writes it. ``verify`` reads every record once."""

    name = "meta-dataset"
    sign = r"0\.tfrecords|dataset_spec\.json"
    title = "a source of Meta-Dataset as TFRecord files, one per class"
    origin = "Meta-Dataset's conversion scripts, github.com/google-research/meta-dataset"
    layout = "dataset_spec.json, 0.tfrecords, 1.tfrecords …"

    verify: bool = False

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise a spec or a first class; where only the HDF5 form is there, that format takes it."""
        records = (path / "0.tfrecords").is_file()
        return records or ((path / _SPEC).is_file() and not (path / "0.h5").is_file())

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the classes of all splits, in the order of their numbers."""
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
        index = cached_index(source, [path / _SPEC, *files], build, refresh=refresh)
        store = store_of(files, index, RecordDecoder())
        return spec_dataset(name, source, spec, index["file"].to_numpy(), store)


def find_spec(path: Path) -> Spec:
    """Read the spec of the source in ``path``; UserError when it is not there."""
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
    """List the file of every class, in the order of ``spec.classes``; UserError with the number of missing ones."""
    files = [path / f"{spec_class.number}{suffix}" for spec_class in spec.classes]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UserError(
            f"{path} lacks {len(missing):,} of the {len(files):,} class files that its {_SPEC} names "
            f"({first(missing)}); copy or convert the rest."
        )
    return files


def check_counts(path: Path, spec: Spec, counts: Sequence[int]) -> None:
    """Raise UserError when the classes do not hold the images that the spec says."""
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
    """Raise UserError when a class's file holds records of another class.

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
    """Build a dataset of rows class by class, as ``file`` [N] (positions in ``spec.classes``) says.

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
    """Return WordNet ids for ILSVRC; elsewhere number and name, so that sorted ids are in the order of the spec."""
    if spec.kind == "hierarchical":
        return [spec_class.name for spec_class in spec.classes]
    width = max(4, len(str(max(spec_class.number for spec_class in spec.classes))))
    names = [
        escape_name(c.name.strip().replace("/", "_")) for c in spec.classes
    ]  # a slash would make it a path
    return [f"{c.number:0{width}d}-{name}" for c, name in zip(spec.classes, names, strict=True)]


def _taxonomy(spec: Spec, ids: Sequence[str]) -> Taxonomy | None:
    """Build ILSVRC's graph (the union of its splits' graphs, under one root) or Omniglot's alphabets, else None."""
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
    """Read the labels of a file's first, middle and last records; UserError when one has no image: then none has.

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
    """Return the label of a record, where it has a whole number for one."""
    label = features.get("label")
    if isinstance(label, np.ndarray) and label.dtype == np.int64 and label.size == 1:
        return {int(label[0])}
    return set()


class MetaDatasetHdf5(Format):
    """One source as HDF5 files."""

    name = "meta-dataset-hdf5"
    sign = r"0\.h5"
    title = "a source of Meta-Dataset as HDF5 files, one per class"
    origin = "the conversion script of P>M>F, github.com/hushell/pmf_cvpr22"
    layout = "dataset_spec.json, 0.h5, 1.h5 …"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise a first class in HDF5, and none as records."""
        return (path / "0.h5").is_file() and not (path / "0.tfrecords").is_file()

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open the classes of all splits, in the order of their numbers."""
        need_h5py()
        spec = find_spec(path)
        files = class_files(path, spec, ".h5")

        def build() -> pa.Table:
            with progress(f"index {name}", total=len(files), unit="files") as bar:
                sizes, labels = [], []
                for file in files:
                    sizes.append(count_hdf5(file))
                    labels.append(hdf5_labels(file, sizes[-1]))
                    bar.advance()
            check_counts(path, spec, sizes)
            check_labels(files, [spec_class.number for spec_class in spec.classes], labels)
            refuse_copied_files([file for file, size in zip(files, sizes, strict=True) if size > 1])
            return pa.table({"images": np.array(sizes, np.int64)})

        source = self.source(path)
        index = cached_index(source, [path / "dataset_spec.json", *files], build, refresh=refresh)
        sizes = index["images"].to_numpy()
        file = np.repeat(np.arange(len(files)), sizes)
        store = Hdf5Store(tuple(str(f) for f in files), file, count_within(sizes))
        return spec_dataset(name, source, spec, file, store, prefix="h5-")

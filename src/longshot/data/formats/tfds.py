"""TFDS: a dataset that TensorFlow Datasets prepared on this disk, read without TensorFlow; and VTAB's labels of it.

The label functions read the columns of a TFDS index: ``feature:NAME``, with lists where a picture has several objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError, count, first, note
from longshot.data.dataset import Dataset
from longshot.data.formats.base import Format, assemble, record_keys
from longshot.data.formats.tfds_folder import (
    Feature,
    Prepared,
    described_versions,
    read_prepared,
    version_folders,
)
from longshot.data.formats.tfrecord import RecordDecoder, store_of
from longshot.data.stores import escape_name


class Tfds(Format):
    """``image`` and ``label`` name the features where the dataset leaves a choice."""

    name = "tfds"
    sign = r"dataset_info\.json|features\.json|\d+\.\d+\.\d+"
    rank = 81
    title = "a prepared TensorFlow Datasets folder, as TFRecord files"
    origin = "tfds.builder(NAME).download_and_prepare(), by default below ~/tensorflow_datasets"
    layout = (
        "[NAME/][CONFIG/]VERSION/: dataset_info.json, features.json, NAME-train.tfrecord-00000-of-00001 …"
    )

    image: str | None = None
    label: str | None = None

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Recognise a version folder with both files, which Hugging Face's folders lack, or one above a single such."""
        return len(described_versions(path)) == 1

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """Open all splits; ``split`` and ``position`` are attributes, and so is every other feature of one value."""
        folders = version_folders(path)
        if len(folders) != 1:
            listed = f"{len(folders)} ({first([str(folder) for folder in folders])})" if folders else "none"
            raise UserError(
                f"One prepared version of a TFDS dataset is needed, {path} has {listed}; give its folder."
            )
        prepared = read_prepared(folders[0], refresh=refresh)
        if name == escape_name(path.stem) and path == prepared.folder:
            name = prepared.name  # the folder is called by its version
        image = image_feature(prepared, self.image)
        label = _label_feature(prepared, self.label)
        values = prepared.table[f"feature:{label.name}"]
        if label.kind == "text":
            classes = np.array([str(v).replace("/", "_") for v in values.to_pylist()])
            rows = np.arange(len(classes))
        else:
            numbers = pc.fill_null(values, -1).to_numpy()
            rows = np.flatnonzero(numbers >= 0)
            classes = class_names(numbers[rows], prepared.labels.get(label.name, ()))
            if len(rows) < len(numbers):
                note(f"{count(len(numbers) - len(rows), 'record')} of '{name}' without a label left out.")
        table = prepared.table.take(pa.array(rows))
        columns = {"split": table["split"], "position": table["position"]}
        for feature in prepared.features:
            if feature.single and feature.kind in ("label", "text", "tensor") and feature != label:
                column = f"feature {feature.name}" if feature.name in columns else feature.name
                columns[column] = _attribute(table, feature, prepared)
        store = store_of(prepared.files, table, RecordDecoder(image))
        keys = record_keys(classes, table["split"].to_numpy(), table["position"].to_numpy())
        return assemble(name, self.source(path), classes, keys, store, attributes=pa.table(columns))


def image_feature(prepared: Prepared, name: str | None = None) -> str:
    """Choose the feature with the picture: the one called ``name``, the one called image, or the only one."""
    pictures = [f.name for f in prepared.features if f.kind == "image" and f.single]
    if name in pictures or (name is None and "image" in pictures):
        return name or "image"
    if name is None and len(pictures) == 1:
        return pictures[0]
    names = first([f.name for f in prepared.features], 8)
    if name is not None or not pictures:
        problem = f"'{name}' is no image feature of" if name else "There is no image feature in"
        raise UserError(f"{problem} {prepared.folder} (features: {names}).")
    raise UserError(
        f"{prepared.folder} has {len(pictures)} image features ({first(pictures)}); choose one with "
        f"tfds(image='{pictures[0]}')."
    )


def _label_feature(prepared: Prepared, name: str | None) -> Feature:
    """Choose the feature with the class: ``name``, the dataset's own choice, ``label``, or the only label."""
    fitting = {f.name: f for f in prepared.features if f.single and f.kind in ("label", "text", "tensor")}
    labels = [feature.name for feature in fitting.values() if feature.kind == "label"]
    for choice in (name, *((prepared.supervised, "label") if name is None else ())):
        if choice in fitting:
            return fitting[choice]
    if name is None and len(labels) == 1:
        return fitting[labels[0]]
    if name is not None or not labels:
        problem = f"'{name}' is no feature with one value in" if name else "There is no label feature in"
        raise UserError(f"{problem} {prepared.folder} (with one value: {first(list(fitting), 8) or 'none'}).")
    raise UserError(
        f"{prepared.folder} has {len(labels)} label features ({first(labels)}); choose one with "
        f"tfds(label='{labels[0]}')."
    )


def class_names(numbers: NDArray[np.int64], names: Sequence[str], classes: int = 0) -> NDArray[np.str_]:
    """Return class ids: the label with leading zeros, and its name where there is one: ``07-horse``, [N]."""
    most = max(classes, len(names), int(numbers.max(initial=0)) + 1)
    width = len(str(most - 1))
    ids = [f"{number:0{width}d}" for number in range(most)]
    for number, name in enumerate(names):
        plain = name.strip("/").replace("/", "_")
        if plain and plain != str(number):
            ids[number] += f"-{plain}"
    return np.array(ids)[numbers]


def _attribute(table: pa.Table, feature: Feature, prepared: Prepared) -> pa.ChunkedArray:
    """Return a feature of one value; labels by their names, truth values as such."""
    values = table[f"feature:{feature.name}"]
    names = prepared.labels.get(feature.name)
    if feature.kind == "label" and names:
        numbers = values.to_pylist()
        texts = [None if n is None or not 0 <= n < len(names) else names[n] for n in numbers]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if feature.dtype == "bool":
        return values.cast(pa.int64()).cast(pa.bool_())
    return values


Labels: TypeAlias = NDArray[np.int64]
CLEVR_BOUNDS = (8.0, 8.5, 9.0, 9.5, 10.0)
KITTI_BOUNDS = (8.0, 20.0, 999.0)
_NO_VEHICLE = 1000.0
_VEHICLES = 3  # types 0, 1, 2: car, van, truck


@dataclass(frozen=True)
class Rule:
    """``needs``: the features that ``function`` (table → labels [N], −1 where there is none) reads."""

    needs: tuple[str, ...]
    function: Callable[[pa.Table], Labels]
    names: tuple[str, ...] = ()  # of the classes, where the dataset has none


def bin_of(values: NDArray[np.floating], bounds: Sequence[float]) -> Labels:
    """Count the bounds that lie below each value; a value on a bound belongs to the bin before it, [N]."""
    return np.searchsorted(np.asarray(bounds, values.dtype), values, side="left").astype(np.int64)


def _single(feature: str, groups: int = 0, of: int = 0) -> Callable[[pa.Table], Labels]:
    """Make a rule of a feature of one value, in ``groups`` equal bins of the ``of`` values it can take where given."""

    def function(table: pa.Table) -> Labels:
        values: Labels = pc.fill_null(table[f"feature:{feature}"], -1).to_numpy().astype(np.int64)
        return values if not groups else np.where(values >= 0, values * groups // of, -1)

    return function


def _lists(table: pa.Table, feature: str) -> tuple[Labels, NDArray[np.floating]]:
    """Return (row of each value [M], values [M]) of a feature with several values."""
    column = table[f"feature:{feature}"].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False), np.float32)
    return np.repeat(np.arange(len(lengths)), lengths), values


def _depths(table: pa.Table, feature: str) -> tuple[Labels, NDArray[np.floating]]:
    """Return (row of each object, its third coordinate)."""
    rows, values = _lists(table, feature)
    return rows[::3], values.reshape(-1, 3)[:, 2]


def _closest(rows: Labels, depths: NDArray[np.floating], size: int, none: float) -> NDArray[np.float32]:
    nearest = np.full(size, none, np.float32)
    np.minimum.at(nearest, rows, depths.astype(np.float32))
    return nearest


def clevr_count(table: pa.Table) -> Labels:
    """Count the objects of each scene, less 3; scenes have 3 to 10."""
    rows, _ = _lists(table, "objects/size")
    return np.bincount(rows, minlength=len(table)).astype(np.int64) - 3


def clevr_distance(table: pa.Table) -> Labels:
    """Return the bin of the closest object's distance from the camera (third of its ``pixel_coords``)."""
    nearest = _closest(*_depths(table, "objects/pixel_coords"), len(table), np.inf)
    return np.where(np.isfinite(nearest), bin_of(nearest, CLEVR_BOUNDS), -1)


def kitti_distance(table: pa.Table) -> Labels:
    """Return the bin of the closest vehicle's distance ahead (third of its ``location``), 3 where there is none."""
    _, kinds = _lists(table, "objects/type")
    rows, depths = _depths(table, "objects/location")
    vehicle = kinds < _VEHICLES
    return bin_of(_closest(rows[vehicle], depths[vehicle], len(table), _NO_VEHICLE), KITTI_BOUNDS)


def _between(bounds: Sequence[float]) -> tuple[str, ...]:
    inner = (f"{low:g} to {high:g}" for low, high in pairwise(bounds))
    return f"up to {bounds[0]:g}", *inner


RULES: dict[str, Rule] = {
    "label": Rule(("label",), _single("label")),
    "clevr-count": Rule(("objects/size",), clevr_count, tuple(f"{n} objects" for n in range(3, 11))),
    "clevr-distance": Rule(("objects/pixel_coords",), clevr_distance, (*_between(CLEVR_BOUNDS), "beyond 10")),
    "kitti-distance": Rule(
        ("objects/type", "objects/location"),
        kitti_distance,
        (*_between(KITTI_BOUNDS[:2]), "beyond 20", "no vehicle"),
    ),
    "dsprites-location": Rule(("label_x_position",), _single("label_x_position", 16, 32)),
    "dsprites-orientation": Rule(("label_orientation",), _single("label_orientation", 16, 40)),
    "smallnorb-azimuth": Rule(("label_azimuth",), _single("label_azimuth")),
    "smallnorb-elevation": Rule(("label_elevation",), _single("label_elevation")),
}

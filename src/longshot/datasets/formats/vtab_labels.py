"""VTAB's label functions: what a record says about its picture → the number of its class.

Columns are those of a TFDS index: ``feature:NAME``, with lists where a picture has several objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Labels = NDArray[np.int64]
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
    """[N] → the number of bounds that lie below each value; a value on a bound belongs to the bin before it."""
    return np.searchsorted(np.asarray(bounds, values.dtype), values, side="left").astype(np.int64)


def _single(feature: str, groups: int = 0, of: int = 0) -> Callable[[pa.Table], Labels]:
    """A feature of one value, in ``groups`` equal bins of the ``of`` values it can take where they are given."""

    def function(table: pa.Table) -> Labels:
        values: Labels = pc.fill_null(table[f"feature:{feature}"], -1).to_numpy().astype(np.int64)
        return values if not groups else np.where(values >= 0, values * groups // of, -1)

    return function


def _lists(table: pa.Table, feature: str) -> tuple[Labels, NDArray[np.floating]]:
    """(row of each value [M], values [M]) of a feature with several values."""
    column = table[f"feature:{feature}"].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False), np.float32)
    return np.repeat(np.arange(len(lengths)), lengths), values


def _depths(table: pa.Table, feature: str) -> tuple[Labels, NDArray[np.floating]]:
    """(row of each object, its third coordinate)."""
    rows, values = _lists(table, feature)
    return rows[::3], values.reshape(-1, 3)[:, 2]


def _closest(rows: Labels, depths: NDArray[np.floating], size: int, none: float) -> NDArray[np.float32]:
    nearest = np.full(size, none, np.float32)
    np.minimum.at(nearest, rows, depths.astype(np.float32))
    return nearest


def clevr_count(table: pa.Table) -> Labels:
    """Number of objects − 3; scenes have 3 to 10."""
    rows, _ = _lists(table, "objects/size")
    return np.bincount(rows, minlength=len(table)).astype(np.int64) - 3


def clevr_distance(table: pa.Table) -> Labels:
    """The bin of the closest object's distance from the camera (third of its ``pixel_coords``)."""
    nearest = _closest(*_depths(table, "objects/pixel_coords"), len(table), np.inf)
    return np.where(np.isfinite(nearest), bin_of(nearest, CLEVR_BOUNDS), -1)


def kitti_distance(table: pa.Table) -> Labels:
    """The bin of the closest vehicle's distance ahead (third of its ``location``), 3 where there is none."""
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

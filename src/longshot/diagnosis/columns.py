"""Attributes as numbers that can be compared: a column per number, a yes/no column per value of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Floats

MOST_VALUES = 20  # an attribute of text with more values tells images apart rather than describing them


@dataclass(frozen=True, eq=False)
class AttributeColumn:
    """One attribute, or one value of it, for all N images; NaN where it is not known."""

    attribute: str
    value: str | None  # None: a number; else 1 marks the images that have this value
    numbers: Floats  # [N]

    @property
    def name(self) -> str:
        """``brightness``, or ``viewpoint = side``."""
        return self.attribute if self.value is None else f"{self.attribute} = {self.value}"

    @property
    def coverage(self) -> float:
        """Share of the images for which it is known."""
        return float(np.isfinite(self.numbers).mean())


def comparable(table: pa.Table) -> tuple[list[AttributeColumn], list[str]]:
    """The columns of a table of attributes, and notes about those that were left out or are known in part."""
    columns: list[AttributeColumn] = []
    notes: list[str] = []
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        made = _columns(name, values)
        if isinstance(made, str):
            notes.append(made)
            continue
        columns += made
        if made and made[0].coverage < 1:
            present = len(values) - values.null_count
            notes.append(
                f"'{name}' is known for {present:,} of {len(values):,} images ({made[0].coverage:.0%})."
            )
    return columns, notes


def _columns(name: str, values: pa.Array) -> list[AttributeColumn] | str:
    """The columns of one attribute, or why there is none."""
    kind = values.type
    if values.null_count == len(values):
        return f"'{name}' is empty: left out."
    if pa.types.is_boolean(kind):
        numbers = values.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return [AttributeColumn(name, "yes", np.asarray(numbers, np.float64))]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        if np.nanmin(numbers) == np.nanmax(numbers):
            return f"'{name}' is {np.nanmin(numbers):g} for every image: left out."
        return [AttributeColumn(name, None, numbers)]
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return f"'{name}' holds {kind}, which cannot be compared: left out."
    distinct = sorted(value for value in pc.unique(values).to_pylist() if value is not None)
    if len(distinct) == 1:
        return f"'{name}' is '{distinct[0]}' for every image: left out."
    if len(distinct) > MOST_VALUES:
        return f"'{name}' has {len(distinct):,} different values, more than {MOST_VALUES}: left out."
    made = []
    for value in distinct:
        has = pc.equal(values, value).cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
        made.append(AttributeColumn(name, value, np.asarray(has, np.float64)))
    return made

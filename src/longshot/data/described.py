"""Attributes that say which images they describe: a column of short digests beside the others, compared before use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError, count, first
from longshot.data.dataset import Dataset
from longshot.data.identity import image_digests, short_digests

DIGEST = "digest"  # the column with the first 64 bits of each image's digest, in hex


def digest_column(digests: NDArray[np.uint64]) -> pa.Array:
    """Short digests as text.

    >>> digest_column(np.array([255], np.uint64)).to_pylist()
    ['x00000000000000ff']
    """
    return pa.array([f"x{digest:016x}" for digest in digests.tolist()])  # the x: never read as a number


def without_digests(table: pa.Table, dataset: Dataset, where: str) -> pa.Table:
    """The attributes without the digests of the images; UserError where those are of other images.

    Parameters
    ----------
    table : pyarrow.Table [N rows]
        Attributes of all images, with or without the column of digests.
    dataset : Dataset
        The images. Where its identity is "names" the digests are left out without a look at the images.
    where : str
        What the table is called in the sentence.
    """
    if DIGEST not in table.column_names:
        return table
    recorded = table.column(DIGEST).cast(pa.string()).combine_chunks()
    rows = np.flatnonzero(recorded.is_valid().to_numpy(zero_copy_only=False))  # null: not described
    if dataset.identity == "content" and len(rows):
        now = digest_column(short_digests(image_digests(dataset, rows)))
        differs = pc.not_equal(recorded.take(pa.array(rows)), now)
        changed = dataset.keys.take(pa.array(rows)).filter(differs).to_pylist()
        if changed:
            raise UserError(
                f"{where} describe other images: {count(changed, 'image')} of '{dataset.name}' changed since they were "
                f"measured ({first(changed)})",
                f"remove that file and measure them again with {{measure_attributes({dataset.name})}}",
            )
    return table.drop_columns([DIGEST])


def described(dataset: Dataset) -> Dataset:
    """The dataset with attributes that are known to be of its images; UserError where they are of others."""
    if dataset.attributes is None or DIGEST not in dataset.attributes.column_names:
        return dataset
    table = without_digests(dataset.attributes, dataset, f"The attributes of '{dataset.name}'")
    return replace(dataset, attributes=table)

"""What supports and queries consist of: the share of each value of an attribute among a task's images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.data import described
from longshot.tasks.testbed import Testbed

if TYPE_CHECKING:
    from longshot.data import Dataset


def attribute_shares(
    testbed: Testbed, dataset: Dataset, attribute: str, *, part: Literal["support", "query"] = "support"
) -> dict[Any, NDArray[np.float64]]:
    """Value of the attribute → its share among the images of each of the dataset's T tasks, [T].

    The shares of a task add up to 1, less the images whose attribute is missing. Testbeds of one seed have the same
    tasks in the same order, so their shares can be compared task by task.
    """
    dataset = described(dataset)
    columns = [] if dataset.attributes is None else dataset.attributes.column_names
    if dataset.attributes is None or attribute not in columns:
        raise UserError(
            f"Dataset '{dataset.name}' has no attribute '{attribute}'; it has: {', '.join(columns) or 'none'}."
        )
    column = dataset.attributes.column(attribute)
    bound = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    rows = bound.support if part == "support" else bound.query
    values = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
    shares: dict[Any, NDArray[np.float64]] = {}
    for value in values:
        has = pc.fill_null(pc.equal(column, value), False).to_numpy(zero_copy_only=False)
        counts = np.bincount(rows.owners[has[rows.values]], minlength=len(rows))
        shares[value] = counts / np.maximum(rows.lengths, 1)
    return shares

"""Tasks by name → tasks by row of the copy of a dataset that is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.ragged import Ragged
from longshot.core.tasks import TaskRows
from longshot.testbeds import columns

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


def bind(testbed: Testbed, name: str, keys: pa.Array, fingerprint: str) -> TaskRows:
    """See :meth:`Testbed.bind`."""
    if name not in testbed.datasets:
        raise UserError(f"The testbed has no dataset '{name}'; it has: {', '.join(testbed.datasets)}.")
    positions = np.flatnonzero(columns.of_dataset(testbed.table, name))
    rows: dict[str, Ragged] = {}
    missing: set[str] = set()
    for part in ("support", "query"):
        picked = columns.ragged(testbed.table, part).take(positions)
        names = columns.dictionary(testbed.table, part)
        values = columns.places_among(testbed.table, part, keys)[picked.values]
        absent = picked.values[values < 0]
        missing.update(names.take(pa.array(np.unique(absent))).to_pylist())
        rows[part] = picked.with_values(values)
    if fingerprint != testbed.datasets[name]:
        raise _mismatch(testbed, name, fingerprint, missing)
    if missing:
        raise UserError(
            f"{len(missing):,} images of the testbed are not among the {len(keys):,} given keys of '{name}', for "
            f"example '{min(missing)}'; bind it to the whole dataset."
        )
    return TaskRows(
        tasks=positions,
        ways=testbed.table.column("way").to_numpy().astype(np.int64)[positions],
        support=rows["support"],
        support_label=columns.ragged(testbed.table, "support_label").take(positions),
        query=rows["query"],
        query_label=columns.ragged(testbed.table, "query_label").take(positions),
    )


def _mismatch(testbed: Testbed, name: str, fingerprint: str, missing: set[str]) -> UserError:
    difference = (
        "all images of the testbed are still there, but other images or classes were added or removed"
    )
    if missing:
        difference = (
            f"{len(missing):,} of the testbed's images are no longer there, for example '{min(missing)}'"
        )
    return UserError(
        f"The dataset '{name}' has changed since the testbed was drawn (fingerprint {fingerprint[:12]}…, the "
        f"testbed has {testbed.datasets[name][:12]}…): {difference}",
        f"give the original with {{datasets:{name}=PATH}} or draw the testbed again with {{sample()}}",
    )

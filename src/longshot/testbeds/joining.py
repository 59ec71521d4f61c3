"""Several testbeds as one: tasks numbered anew, datasets and contents put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from longshot.core.errors import UserError
from longshot.testbeds.content import union
from longshot.testbeds.testbed import Testbed


def concat(testbeds: Sequence[Testbed]) -> Testbed:
    """See :meth:`Testbed.concat`."""
    if not testbeds:
        raise UserError("There is no testbed to join; give at least one.")
    if len(testbeds) == 1:
        return testbeds[0]
    datasets: dict[str, str] = {}
    for bed in testbeds:
        for name, fingerprint in bed.datasets.items():
            if datasets.setdefault(name, fingerprint) != fingerprint:
                raise UserError(
                    f"Two different datasets are both called '{name}' (fingerprints "
                    f"{datasets[name][:12]}… and "
                    f"{fingerprint[:12]}…); give one of them another name."
                )
    table = pa.concat_tables([bed.table for bed in testbeds], promote_options="permissive")
    table = table.set_column(0, "task", pa.array(np.arange(len(table))))
    content = {
        name: union(name, [(bed.keys(name), bed.content[name]) for bed in testbeds if name in bed.content])
        for name in datasets
    }
    origins = [{k: bed.meta[k] for k in ("sampler", "seed", "features")} for bed in testbeds]
    alike = all(origin == origins[0] for origin in origins)
    features = {bed.meta["features"] for bed in testbeds}
    return Testbed.create(
        table,
        datasets=datasets,
        sampler=origins[0]["sampler"] if alike else {"concat": origins},
        seed=origins[0]["seed"] if len({origin["seed"] for origin in origins}) == 1 else None,
        features=features.pop() if len(features) == 1 else None,
        content=content,
        labels={
            name: {c: x for bed in testbeds for c, x in bed.labels.get(name, {}).items()} for name in datasets
        },
    )

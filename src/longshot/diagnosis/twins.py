"""Twins: images altered on their pixels and embedded again, so that nothing differs from the original but the cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Ints, TaskRows
from longshot.data import Dataset, ImageStore, array_bytes
from longshot.diagnosis.alterations import FORMS, alter
from longshot.diagnosis.gaps import Groups
from longshot.diagnosis.suspicions import Suspicion
from longshot.diagnosis.swaps import Swaps, exchanged
from longshot.models import embed

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.models import BackboneLike

EmbedTwins: TypeAlias = Callable[[Ints, Ints], NDArray[np.float32]]  # rows [P], forms [P] → features [P, d]


@dataclass(frozen=True, eq=False)
class AlteredStore:
    """Images of another store, each in one form of an alteration: row i is ``rows[i]`` in form ``forms[i]``."""

    store: ImageStore
    rows: Ints
    forms: Ints

    def read(self, row: int) -> Image:
        """The altered image of one row."""
        source, form = int(self.rows[row]), int(self.forms[row])
        return alter(self.store.read(source), *FORMS[form], np.random.default_rng([form, source]))

    def encoded(self, row: int) -> bytes:
        """What its digest is over: its pixels."""
        return array_bytes(np.asarray(self.read(row)))

    def stamps(self, rows: Ints) -> Ints:
        """No file is behind them."""
        return np.full((len(rows), 3), -1, np.int64)


def embed_twins(dataset: Dataset, backbone: BackboneLike, device: str) -> EmbedTwins:
    """What embeds altered images of a dataset."""

    def embed_pairs(rows: Ints, forms: Ints) -> NDArray[np.float32]:
        keys = pa.array(
            [f"{dataset.keys[int(r)].as_py()}#{FORMS[f][0]}-{f}" for r, f in zip(rows, forms, strict=True)]
        )
        twins = Dataset(
            name=f"{dataset.name}-altered",
            class_ids=("altered",),
            offsets=np.array([0, len(rows)]),
            keys=keys,
            store=AlteredStore(dataset.store, rows, forms),
            source=dataset.source,
        )
        return np.asarray(embed(twins, backbone, device=device).array, np.float32)

    return embed_pairs


def altered_arm(
    suspicion: Suspicion,
    swaps: Swaps,
    bound: TaskRows,
    groups: Groups,
    first_row: int,
    embed_pairs: EmbedTwins,
) -> tuple[TaskRows, NDArray[np.float32]]:
    """The tasks of ``swaps.without`` with every image that came in altered as the support was.

    Returns
    -------
    tasks : TaskRows
        Rows from ``first_row`` on are altered images.
    features : array [P, d]
        Theirs.
    """
    assert suspicion.forms is not None
    changed, group = exchanged(swaps, bound, groups)
    form_of = dict(zip(suspicion.groups.tolist(), suspicion.forms.tolist(), strict=True))
    support = swaps.without.support
    pairs = np.stack([support.values[changed], [form_of[each] for each in group.tolist()]], 1)
    distinct, position = np.unique(pairs, axis=0, return_inverse=True)
    values = support.values.copy()
    values[changed] = first_row + position.reshape(-1)
    features = embed_pairs(distinct[:, 0], distinct[:, 1])
    return replace(swaps.without, support=support.with_values(values)), features

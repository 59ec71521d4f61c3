"""Class embeddings: the mean feature of each class on the unit sphere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longshot.base import Floats, UserError, count, first
from longshot.models import Features

_BLOCK = 1 << 25  # bytes of float64 in flight while a memory-mapped array is summed


def class_embeddings(features: Features) -> Floats:
    """The mean feature of each class on the unit sphere: z_c = m_c / ‖m_c‖, m_c the mean of the rows of class c.

    Parameters
    ----------
    features : Features
        Read once, front to back, in blocks of rows that are summed in float64.

    Returns
    -------
    array [C, d]
        In the order of ``features.class_ids``. UserError for classes without images, without a direction, or with the
        same embedding.
    """
    sizes = np.diff(features.offsets)
    empty = [features.class_ids[c] for c in np.flatnonzero(sizes <= 0).tolist()]
    if empty:
        raise UserError(
            f"{count(empty, 'class', 'classes')} of {len(sizes):,} of '{features.dataset}' have no image "
            f"({first(empty)}); a class embedding is a mean of at least one."
        )
    means = _class_sums(features) / sizes[:, None]
    return normalise(means, features.class_ids, f"'{features.dataset}' under '{features.backbone}'")


def normalise(means: Floats, class_ids: Sequence[str], where: str = "The embeddings") -> Floats:
    """Class means [C, d] on the unit sphere; refuses what has no direction and classes that coincide."""
    norms = np.linalg.norm(means, axis=1)
    aimless = [class_ids[c] for c in np.flatnonzero(~(np.isfinite(norms) & (norms > 0))).tolist()]
    if aimless:
        raise UserError(
            f"{count(aimless, 'class', 'classes')} of {where} have a mean feature of zero or not finite "
            f"({first(aimless)}), which has no direction",
            "use another backbone or check the images",
        )
    unit: Floats = means / norms[:, None]
    refuse_twins(unit, class_ids, where)
    return unit


def refuse_twins(embeddings: Floats, class_ids: Sequence[str], where: str) -> None:
    """UserError when two classes have the same embedding (to nine digits): no distance tells them apart."""
    rounded = np.ascontiguousarray(np.round(embeddings, 9) + 0.0)  # + 0.0: minus zero equals zero
    rows = rounded.view(np.dtype((np.void, rounded.itemsize * rounded.shape[1])))[:, 0]
    order = np.argsort(rows, kind="stable").tolist()
    same = np.flatnonzero(rows[order[1:]] == rows[order[:-1]]).tolist()
    if same:
        pair = sorted((class_ids[order[same[0]]], class_ids[order[same[0] + 1]]))
        raise UserError(
            f"{count(len(same), 'pair')} of the {len(class_ids):,} classes of {where} have identical embeddings "
            f"('{pair[0]}' and '{pair[1]}'); are they the same images? Merge them or use another backbone."
        )


def _class_sums(features: Features) -> Floats:
    """Sum of rows per class [C, d], class-major slices of the map in blocks of bounded size."""
    array, offsets = features.array, features.offsets
    sums = np.zeros((len(offsets) - 1, features.dim))
    step = max(1, _BLOCK // (8 * features.dim))
    for start in range(0, len(array), step):
        stop = min(start + step, len(array))
        # the classes that have rows in [start, stop), and where each begins inside the block
        low, high = np.searchsorted(offsets, start, "right") - 1, np.searchsorted(offsets, stop, "left")
        begins = np.maximum(offsets[low:high], start) - start
        block = np.asarray(array[start:stop], dtype=np.float64)
        sums[low:high] += np.add.reduceat(block, begins, axis=0)
    return sums

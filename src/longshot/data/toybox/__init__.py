"""``toybox``, the embedded default dataset: 240 kinds of toys, photographed by ten owners, drawn on the spot.

>>> toybox = open_toybox()  # doctest: +SKIP
>>> len(toybox), len(toybox.class_ids)  # doctest: +SKIP
(12000, 240)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longshot.data.dataset import Dataset

__all__ = ["open_toybox"]


def open_toybox() -> Dataset:
    """Open toybox; a class is drawn into the cache when its pictures are first wanted."""
    from longshot.data.toybox.opening import open_cached

    return open_cached()

"""One task of a testbed, as a person reads it: by names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Task:
    """One few-shot task: learn ``classes`` from the support images, then tell the query images apart."""

    index: int
    dataset: str
    classes: tuple[str, ...]
    support: tuple[str, ...]  # example keys
    query: tuple[str, ...]
    support_label: NDArray[np.int16]  # positions in ``classes``
    query_label: NDArray[np.int16]
    shots: tuple[int, ...]  # support images per class
    measured: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)  # class → what a taxonomy calls it

    @property
    def way(self) -> int:
        """Number of classes."""
        return len(self.classes)

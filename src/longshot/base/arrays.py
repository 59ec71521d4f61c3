"""Names for the arrays that pass between rooms."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]  # row numbers, class numbers, counts, offsets
Floats: TypeAlias = NDArray[np.float64]  # measured numbers
Bools: TypeAlias = NDArray[np.bool_]  # masks

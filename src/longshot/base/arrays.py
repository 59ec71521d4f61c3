"""Names for the arrays that pass between rooms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]  # row numbers, class numbers, counts, offsets
Floats = NDArray[np.float64]  # measured numbers
Bools = NDArray[np.bool_]  # masks

"""Types of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]  # integers of any width
FloatArray = NDArray[Any]  # numbers of any width
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Uint64Array = NDArray[np.uint64]

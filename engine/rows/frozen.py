"""Arrays that nobody writes to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def frozen(array: NDArray) -> NDArray:
    """The array as one that cannot be written to: kernels are compiled for that, wherever it came from."""
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
    return array

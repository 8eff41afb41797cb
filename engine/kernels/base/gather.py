"""Copy stored values to where results want them."""

from __future__ import annotations

import numpy as np

from .copy_bytes import copy_bytes
from .jit import kernel


@kernel
def gather(data, base, rows):  # type: ignore[no-untyped-def]
    """data[row - base] for each row. data int64 or uint8; rows int64; a new array is returned."""
    out = np.empty(len(rows), data.dtype)
    for i in range(len(rows)):
        out[i] = data[rows[i] - base]
    return out


@kernel
def text_offsets(starts, base, rows):  # type: ignore[no-untyped-def]
    """Offsets (int32, one more than rows) of the texts at `rows`; text r: starts[r - base] .. the next."""
    out = np.empty(len(rows) + 1, np.int32)
    at = 0
    out[0] = 0
    for i in range(len(rows)):
        r = rows[i] - base
        at += starts[r + 1] - starts[r]
        out[i + 1] = at
    return out


@kernel
def text_length(starts, base, rows):  # type: ignore[no-untyped-def]
    """Bytes of all the texts at `rows` together."""
    total = np.int64(0)
    for i in range(len(rows)):
        r = rows[i] - base
        total += starts[r + 1] - starts[r]
    return total


@kernel
def gather_text(starts, base, data, data_base, rows, offsets):  # type: ignore[no-untyped-def]
    """The bytes (uint8) of the texts at `rows`, one after the other, as text_offsets laid them out."""
    out = np.empty(offsets[len(rows)], np.uint8)
    for i in range(len(rows)):
        source = starts[rows[i] - base] - data_base
        copy_bytes(out, offsets[i], data, source, offsets[i + 1] - offsets[i])
    return out

"""Join keys as int64: exact and order-preserving where a type allows it, hashed where it does not.

BIGINT, TIMESTAMP, BOOLEAN and DOUBLE map to int64 keeping order and equality (-0.0 is 0.0, NaN equals itself
and is above everything, as in SQL). VARCHAR and keys of several columns are hashed to 64 bits; pairs found
by hash are checked against the real values. A dictionary of the values seen would be exact at once but grows
for ever when keys come and go.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.rows.keys import combine_hashes, hash_text, seek_integers
from penstock.engine.rows.band import Band
from penstock.engine.rows.store import fixed_values, text_buffers
from penstock.engine.rows.types import SqlType

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
MAX_BAND = 1 << 62


def encode_double(values: NDArray) -> NDArray:
    """float64 to int64 in the same order."""
    with np.errstate(invalid="ignore"):  # where NULL is, the bits may be those of a NaN that signals
        values = values + 0.0  # -0.0 becomes 0.0
    bits = values.view(np.int64)
    keys = bits ^ ((bits >> 63) & INT_MAX)
    keys[np.isnan(values)] = INT_MAX
    return keys


def decode_double(codes: NDArray) -> NDArray:
    """The float64 that have these codes."""
    return (codes ^ ((codes >> 63) & INT_MAX)).view(np.float64)


def encode_values(array: pa.Array, type_: SqlType) -> NDArray:
    """One int64 per row; text is hashed, everything else exact. NULL rows give anything."""
    if type_ is SqlType.VARCHAR:
        return hash_text(*text_buffers(array))
    values = fixed_values(array)
    if type_ is SqlType.BOOLEAN:
        return values.astype(np.int64)
    return encode_double(values.view(np.float64)) if type_ is SqlType.DOUBLE else values


def combine(parts: list[NDArray]) -> NDArray:
    """One int64 for several columns: the column itself if there is one, else a hash."""
    keys = parts[0]
    for part in parts[1:]:
        keys = combine_hashes(keys, part)
    return keys


def is_hashed(types: tuple[SqlType, ...]) -> bool:
    """Whether equal codes are only likely, not sure, to mean equal keys."""
    return len(types) > 1 or SqlType.VARCHAR in types


def seek(array: pa.Array, type_: SqlType, band: Band) -> tuple[NDArray, NDArray]:
    """The inclusive range of codes each row seeks on the other side: its key shifted by the band."""
    if type_ is SqlType.DOUBLE:
        return _seek_double(fixed_values(array).view(np.float64), band)
    return _seek_integer(encode_values(array, type_), band)


def seek_codes(codes: NDArray, type_: SqlType, band: Band) -> tuple[NDArray, NDArray]:
    """The same for keys that are known by their codes."""
    return _seek_double(decode_double(codes), band) if type_ is SqlType.DOUBLE else _seek_integer(codes, band)


def _seek_integer(values: NDArray, band: Band) -> tuple[NDArray, NDArray]:
    low, high = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    low_shift = _shift(band.low, 0 if band.low_closed else 1)
    high_shift = _shift(band.high, 0 if band.high_closed else -1)
    seek_integers(values, low_shift, band.low is None, high_shift, band.high is None, low, high)
    return low, high


def _shift(by: int | float | None, step: int) -> int:
    shift = 0 if by is None else int(by) + step
    assert abs(shift) <= MAX_BAND + 1, "the optimizer leaves wider bands to a check on the pairs"
    return shift


def _seek_double(values: NDArray, band: Band) -> tuple[NDArray, NDArray]:
    low = np.full(len(values), INT_MIN)
    high = np.full(len(values), INT_MAX)
    if band.low is not None:
        low = encode_double(_outward(values, band.low, -1.0))
        if band.low == 0 and not band.low_closed:
            nothing = low == INT_MAX
            low[~nothing] += 1
            high[nothing], low[nothing] = 0, 1
    if band.high is not None:
        top = encode_double(_outward(values, band.high, 1.0))
        if band.high == 0 and not band.high_closed:
            top -= 1  # no code is INT_MIN
        high = np.minimum(high, top)
    return low, high


def _outward(values: NDArray, by: int | float, side: float) -> NDArray:
    """values + by, moved outward by more than rounding can have cost; exact for 0."""
    if by == 0:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        margin = (np.abs(values) + abs(by)) * 2.0**-50
        return values + by + side * np.where(np.isfinite(margin), margin, 0.0)

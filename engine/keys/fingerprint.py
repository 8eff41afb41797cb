"""What makes two rows the same row: two int64 per row, equal if and only if the values are.

NULL equals NULL here, NaN equals NaN, -0.0 is 0.0: as GROUP BY, DISTINCT and the set operations see it. One
column of a fixed width is its own fingerprint, exactly. Text and several columns are hashed twice,
independently: 128 bits, so that two of a billion rows are taken for equal with a chance of 1 in 10^20.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.rows.fingerprint import hash_column, hash_texts
from penstock.engine.rows.store import text_buffers, valid_bytes
from penstock.engine.rows.types import SqlType

from .keys import encode_values

NO_VALIDITY = np.empty(0, np.uint8)


def fingerprint(
    arrays: Sequence[pa.Array], types: Sequence[SqlType], length: int, more: Sequence[NDArray] = ()
) -> tuple[NDArray, NDArray]:
    """Two int64 arrays for rows of these columns; `more`: further int64 per row that must be equal too."""
    if len(arrays) == 1 and not more and types[0] not in (SqlType.VARCHAR, SqlType.NULL):
        return single(arrays[0], types[0])
    a, b = np.zeros(length, np.int64), np.zeros(length, np.int64)
    for array, type_ in zip(arrays, types, strict=True):
        if type_ is SqlType.NULL:
            continue
        if type_ is SqlType.VARCHAR:
            one, two = hash_texts(*text_buffers(array))
        else:
            one = two = encode_values(array, type_)
        hash_column(a, b, one, two, valid_bytes(array) if array.null_count else NO_VALIDITY)
    for one in more:
        hash_column(a, b, one, one, NO_VALIDITY)
    return a, b


def single(array: pa.Array, type_: SqlType) -> tuple[NDArray, NDArray]:
    """One column of a fixed width: its code, and whether it is NULL."""
    code = encode_values(array, type_)
    if not array.null_count:
        return code, np.zeros(len(code), np.int64)
    is_null = valid_bytes(array) == 0
    code = code.copy()
    code[is_null] = 0
    return code, is_null.astype(np.int64)

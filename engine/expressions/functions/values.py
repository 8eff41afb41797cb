"""What the functions work on: a Datum is an Arrow array, or a scalar that stands for every row.

Arrow's kernels take both. Where they lack a function or are slow, numpy works on the values underneath; a
slot that is NULL holds any value there, so a numpy function must bear garbage, and its result is NULL again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call
from penstock.engine.rows.errors import DataError

Datum: TypeAlias = "pa.Array | pa.Scalar"


def as_array(datum: Datum, length: int) -> pa.Array:
    """The datum as one value per row."""
    return pa.repeat(datum, length) if isinstance(datum, pa.Scalar) else datum


def numbers(datum: Datum) -> NDArray[Any]:
    """The float64 or int64 underneath, without a copy; one value for a scalar, which numpy broadcasts."""
    array = as_array(datum, 1)
    dtype = np.dtype(np.float64 if pa.types.is_floating(array.type) else np.int64)
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def valid(*data: Datum) -> NDArray[np.bool_] | None:
    """Where every datum has a value; None: everywhere."""
    known: NDArray[np.bool_] | None = None
    for datum in data:
        array = as_array(datum, 1)
        if array.null_count:
            mask = array.is_valid().to_numpy(zero_copy_only=False)
            known = mask if known is None else known & mask
    return known


def from_numbers(values: NDArray[Any], type_: pa.DataType, *sources: Datum) -> pa.Array:
    """The numpy values as an array of a 64-bit type, NULL where a source is NULL."""
    known = valid(*sources)
    mask = None if known is None else np.broadcast_to(~known, values.shape)
    return pa.array(values, mask=mask, from_pandas=False).view(type_)


def truths(mask: pa.BooleanArray) -> pa.BooleanArray:
    """The mask with false for NULL."""
    if not mask.null_count:
        return mask
    # Both bitmaps start at the same offset, so that one AND of their bytes does it.
    known, values = (np.frombuffer(buffer, np.uint8) for buffer in mask.buffers())
    size = (mask.offset + len(mask) + 7) // 8
    bits = pa.py_buffer(known[:size] & values[:size])
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits], 0, mask.offset)


def selected(mask: pa.BooleanArray) -> NDArray[np.int64]:
    """Positions of the rows where the mask is true, ascending; NULL is not true."""
    return np.flatnonzero(truths(mask).to_numpy(zero_copy_only=False))


def join_pieces(pieces: Sequence[pa.Array], places: Sequence[NDArray[np.int64]]) -> pa.Array:
    """One array with value i of each piece at places[i] of that piece; all places are a permutation."""
    order = np.concatenate(places)
    source = np.empty(len(order), np.int64)
    source[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(source))


def each_distinct(
    apply: Callable[..., pa.Array], type_: pa.DataType, subject: Datum, *parameters: Datum
) -> pa.Array:
    """`apply(subject, *values)` where Arrow's kernel wants its parameters as plain Python values.

    Literals, the usual case, are one call. Columns are one call per distinct combination of their values, on
    the rows that have it. A NULL parameter gives NULL.
    """
    if all(isinstance(parameter, pa.Scalar) for parameter in parameters):
        if not all(parameter.is_valid for parameter in parameters):
            return pa.nulls(len(subject), type_)
        return apply(subject, *(parameter.as_py() for parameter in parameters))
    length = next(len(datum) for datum in (*parameters, subject) if isinstance(datum, pa.Array))
    if length == 0:
        return pa.nulls(0, type_)
    columns = [as_array(parameter, length) for parameter in parameters]
    codes = np.zeros(length, np.int64)
    for column in columns:
        encoded = column.dictionary_encode()
        codes = (
            codes * (len(encoded.dictionary) + 1)
            + numbers(encoded.indices.fill_null(-1).cast(pa.int64()))
            + 1
        )
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    rows = as_array(subject, length).take(pa.array(order))
    pieces = []
    for start, end in zip(starts, (*starts[1:], length), strict=True):
        values = [column[order[start]] for column in columns]
        piece = rows.slice(start, end - start)
        known = all(value.is_valid for value in values)
        pieces.append(
            apply(piece, *(value.as_py() for value in values)) if known else pa.nulls(len(piece), type_)
        )
    return join_pieces(pieces, [order])


def refuse(call: Call, expected: str, column: pa.Array, bad: pa.BooleanArray) -> NoReturn:
    """Raise for the first value of `column` that is `bad`."""
    value = column.filter(bad)[0]
    found = repr(value.as_py()) if pa.types.is_floating(column.type) else value.as_py()
    raise DataError(f"Expected {expected} in `{call}`, found `{found}`")


def refuse_any(call: Call, expected: str, column: pa.Array, good: pa.BooleanArray) -> None:
    """Raise for the first value of `column` that is not NULL and not `good`."""
    bad = pc.and_(column.is_valid(), pc.invert(truths(good)))
    if pc.any(bad).as_py():
        refuse(call, expected, column, bad)

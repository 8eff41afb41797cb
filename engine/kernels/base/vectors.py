"""Vector instructions where the compiler does not find them by itself: for a few entries, without a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

LANES = 8


def count_seen(keys: NDArray, rows: NDArray, here: Any, low: Any, width: Any, start: Any, seen: Any) -> int:
    """How many of the LANES entries from `here` on have keys and rows within ranges.

    low <= key <= low + width and start <= row < start + seen; here is uint32, width and seen uint64.
    """
    some = slice(int(here), int(here) + LANES)
    is_key = (keys[some] - low).view(np.uint64) <= width
    return int(np.count_nonzero(is_key & ((rows[some] - start).view(np.uint64) < seen)))


@intrinsic
def count_seen_in_vector(context, keys, rows, here, low, width, start, seen):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        vector = ir.VectorType(ir.IntType(64), LANES)

        def load(place):  # type: ignore[no-untyped-def]
            array = context.make_array(signature.args[place])(context, builder, arguments[place])
            first = builder.gep(array.data, [builder.zext(arguments[2], ir.IntType(64))])
            return builder.load(builder.bitcast(first, vector.as_pointer()), align=8)

        def spread(place):  # type: ignore[no-untyped-def]
            nothing = ir.Constant(vector, ir.Undefined)
            lane = builder.insert_element(nothing, arguments[place], ir.IntType(32)(0))
            same = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(lane, nothing, same)

        is_key = builder.icmp_unsigned("<=", builder.sub(load(0), spread(3)), spread(4))
        is_row = builder.icmp_unsigned("<", builder.sub(load(1), spread(5)), spread(6))
        mask = builder.bitcast(builder.and_(is_key, is_row), ir.IntType(LANES))
        return builder.zext(builder.ctpop(mask), ir.IntType(64))

    return types.int64(
        keys, rows, types.uint32, types.int64, types.uint64, types.int64, types.uint64
    ), generate


@overload(count_seen)
def count_seen_in_kernel(keys, rows, here, low, width, start, seen):  # type: ignore[no-untyped-def]
    return lambda keys, rows, here, low, width, start, seen: count_seen_in_vector(
        keys, rows, here, low, width, start, seen
    )

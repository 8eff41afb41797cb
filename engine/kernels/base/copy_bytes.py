"""Copy a run of bytes within a kernel, as fast as the machine can: a loop takes several times as long.

`copy_bytes` is what it does; where a kernel is compiled, a call of it is one memcpy.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic, overload


def copy_bytes(out: Any, at: int, data: Any, source: int, count: int) -> None:
    """out[at + i] = data[source + i] for i < count; both uint8, in one piece, and not the same memory."""
    out[at : at + count] = data[source : source + count]


@intrinsic
def move(_: Any, out: Any, at: Any, data: Any, source: Any, count: Any) -> Any:
    """The memcpy."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        into, of = (context.make_array(signature.args[i])(context, builder, given[i]).data for i in (0, 2))
        cgutils.raw_memcpy(builder, builder.gep(into, [given[1]]), builder.gep(of, [given[3]]), given[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


@overload(copy_bytes)
def compiled(out: Any, at: Any, data: Any, source: Any, count: Any) -> Any:
    def copy(out: Any, at: Any, data: Any, source: Any, count: Any) -> None:
        move(out, at, data, source, count)

    return copy

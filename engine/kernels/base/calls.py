"""Arrays passed between functions of a kernel without counting references.

Where a kernel does a hundred nanoseconds of work per row in several functions, the calls themselves are a
third of it: an array is passed as seven words, and its references are counted up and down, atomically.
"""

from __future__ import annotations

from numba.extending import intrinsic, overload
from numpy.typing import NDArray


def borrowed(array: NDArray) -> NDArray:
    """The same array; in a kernel, without an owner. Valid as long as the caller holds the array."""
    return array


@intrinsic
def without_owner(context, array):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        view.meminfo = view.meminfo.type(None)
        return view._getvalue()

    return array(array), generate


@overload(borrowed)
def borrowed_in_kernel(array):  # type: ignore[no-untyped-def]
    return lambda array: without_owner(array)

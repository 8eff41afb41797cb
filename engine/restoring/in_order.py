"""Whether arrays that came back from a checkpoint are in order, before a kernel follows what is in them.

A class that has arrays, or numbers by which arrays are read, says in `_check_restored` what must hold, after
its attributes have had their types. It raises Disorder, also where assertions are off, and takes time in
proportion to
the arrays, as reading them does. What follows from other arrays (tables, links, heads) it had better lay
anew than look at. Buffers (buffer.py) come first; otherwise classes are asked in no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.rows.chains import walk_chains

FAR = 1 << 62
MANY = 1 << 20


class Disorder(ValueError):
    """Values that no engine has."""


def expect(is_so: object, words: str) -> None:
    if not is_so:
        raise Disorder(f"expected {words}")


def within(values: NDArray, low: int, end: int, words: str) -> None:
    """All of them are from `low` on and below `end`."""
    if len(values):
        expect(low <= int(values.min()) and int(values.max()) < end, f"{words} from {low} on and below {end}")


def rising(values: NDArray, words: str) -> None:
    """None is below the one before it."""
    expect(bool((values[1:] >= values[:-1]).all()), f"{words} in order")


def size_of_two(size: int, words: str) -> None:
    expect(size > 0 and size & (size - 1) == 0, f"a power of two of {words}, not {size}")


def same_length(words: str, *arrays: Any) -> None:
    expect(len({len(one) for one in arrays}) == 1, f"{words} of one length")


def chained(heads: NDArray, following: NDArray, seen: NDArray, words: str) -> int:
    """Walk from each head (negative: none) until the next is negative: inside, and nothing twice. How many.

    seen: bool by place; those that were met before are not met again.
    """
    count = int(walk_chains(np.ascontiguousarray(heads, np.int64), following, seen))
    expect(count >= 0, f"{words} that come to an end")
    return count


def distinct(values: NDArray, size: int, words: str) -> None:
    """Numbers below `size`, each once."""
    within(values, 0, size, words)
    if size > 8 * len(values) + MANY:
        found = np.sort(values)
        expect(bool((found[1:] > found[:-1]).all()), f"{words}, each once")
        return
    seen = np.zeros(size, np.bool_)
    seen[values] = True
    expect(int(np.count_nonzero(seen)) == len(values), f"{words}, each once")

"""Boundaries of hopping queries whose ROWS windows are kept in common: which, and how far to tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.engine.rows.hops import Hops

from .window_member import WindowMember

MOST_ROWS = 1 << 18  # given to one member in one step


def hops_until(members: Iterable[WindowMember], told: int, end: int, first: int | None) -> int:
    """Boundaries below this can be told of now, of those below `end`, if those below `told` have been; fewer
    if windows are given whole and that would be very much. first: the ts of the first row; None: no rows.
    """
    until = end
    for member in members:
        hops = member.node.hops
        if hops is not None and member.node.whole and not member.node.changed and first is not None:
            begin = max(hops.last(told - 1), hops.first(first) - hops.size)
            most = max(1, MOST_ROWS // member.node.size)
            until = min(until, begin + most * hops.size + 1)
    return max(until, told)


def boundaries_between(hops: Hops, told: int, until: int, first: int) -> Iterator[int]:
    """Those from `told` on, and not before the row at `first`, below `until`."""
    boundary = hops.first(max(told, first))
    while boundary < until:
        yield boundary
        boundary += hops.size


def boundaries_of(hops: Hops, ts: NDArray, until: int, since: int) -> list[int]:
    """Those below `until` at which rows of these times are first seen by who is told from `since` on."""
    seen = hops.up(ts)
    found: list[int] = np.unique(np.maximum(seen[seen < until], since)).tolist()
    return found

"""Where a chain of slices is cut so that it costs least (State-Slice, section 5.2).

    ends     0 ---- ends[0] ---- ends[1] ---- ends[2]
    nodes    0         1            2            3         an edge (1, 3) is one slice from ends[0] to ends[2]

Costs of slices that do not overlap are independent (lemma 2), so the cheapest chain is the shortest path from
node 0 to the last. Nodes are ordered and edges lead on, so one pass over the edges finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

End = TypeVar("End")

ROUNDING = 1e-12  # costs closer than this, as a share, are equal: sums of the same terms differ by as much


def cheapest_chain(ends: Sequence[object], cost: Callable[[int, int], float]) -> tuple[int, ...]:
    """The nodes at which the slices of the cheapest chain end; the last is len(ends).

    cost(i, j): of one slice from node i to node j > i. Of equally cheap chains, one with the most slices: a
    merged slice may keep rows that nobody needs, a cut one never does.

    >>> cheapest_chain(["1 s", "2 s", "30 s"], lambda i, j: [[1, 1, 9], [0, 1, 9], [0, 0, 1]][i][j - 1])
    (2, 3)
    """
    count = len(ends)
    return cheapest_chain_by_row(
        count, lambda i: np.array([cost(i, j) for j in range(i + 1, count + 1)], np.float64)
    )


def cheapest_chain_by_row(count: int, costs: NDArray | Callable[[int], NDArray]) -> tuple[int, ...]:
    """The same for `count` ends with the costs of many edges at once.

    costs: float64 (count + 1, count + 1), of which [i, j] with j > i is used; or a function that gives the
    costs of the edges from node i to the nodes i + 1 .. count.
    """
    into = np.empty(
        (count + 1, count + 1)
    )  # by the node an edge leads to, so that a node's edges are side by side
    if isinstance(costs, np.ndarray):
        assert costs.shape == into.shape, f"expected costs of {count} ends, found {costs.shape}"
        into[:] = costs.T
    else:
        for i in range(count):
            into[i + 1 :, i] = costs(i)
    best = np.zeros(count + 1)
    slices = np.zeros(count + 1, np.int64)
    before = np.zeros(count + 1, np.int64)
    for j in range(1, count + 1):
        reach = best[:j] + into[j, :j]
        least = float(reach.min())
        assert not math.isnan(least), f"expected the cost of a slice that ends at node {j}, found NaN"
        if least == math.inf:
            best[j] = least
            continue
        equal = np.flatnonzero(reach <= least + ROUNDING * abs(least))
        i = equal[slices[equal].argmax()]
        best[j], slices[j], before[j] = reach[i], slices[i] + 1, i
    assert best[count] < math.inf, "expected a chain of finite cost, found none"
    chain = []
    node = count
    while node:
        chain.append(node)
        node = int(before[node])
    return tuple(reversed(chain))


def coarsen(ends: Sequence[End], most: int) -> tuple[End, ...]:
    """At most `most` of the ends, evenly by their number, always with the last: a search over few is cheap.

    >>> coarsen([1, 2, 3, 4, 5, 6, 7], 3)
    (3, 5, 7)
    """
    assert most > 0, f"expected to keep at least one end, found {most}"
    if len(ends) <= most:
        return tuple(ends)
    return tuple(ends[math.ceil(place * len(ends) / most) - 1] for place in range(1, most + 1))

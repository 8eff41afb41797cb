"""Links between places of an array, of which nobody knows yet whether they lead anywhere."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel


@kernel
def walk_chains(heads, following, seen):  # type: ignore[no-untyped-def]
    """Walk from each of `heads` (int64, negative: none) by `following` (int64) until a negative one.

    seen: bool by place, True for those that must not be met; whoever is met becomes True. Returns how many
    were met, -1 if one was met twice or lies outside.
    """
    count = 0
    for i in range(len(heads)):
        at = heads[i]
        while at >= 0:
            if at >= len(seen) or seen[at]:
                return -1
            seen[at] = True
            count += 1
            at = following[at]
    return count


@kernel
def walk_trees(roots, child, used):  # type: ignore[no-untyped-def]
    """How many nodes are below `roots` (int64, 0: none) by `child` (int64 by node, two; 0: none).

    Nodes have one node above them at most and lie within `used`; what is in a circle is not counted.
    """
    waiting = np.empty(used + 1, np.int64)
    count = 0
    for i in range(len(roots)):
        held = 0
        if roots[i]:
            waiting[0] = roots[i]
            held = 1
        while held:
            held -= 1
            node = waiting[held]
            count += 1
            for side in range(2):
                if child[node, side]:
                    waiting[held] = child[node, side]
                    held += 1
    return count


@kernel
def are_apart(begins, sizes, end):  # type: ignore[no-untyped-def]
    """Whether blocks of places (int64 each: where one begins, and how many), all below `end`, have none in
    common."""
    taken = np.zeros(end, np.bool_)
    for i in range(len(begins)):
        for at in range(begins[i], begins[i] + sizes[i]):
            if taken[at]:
                return False
            taken[at] = True
    return True

"""What a join costs per second of stream time (Kang, Naughton, Viglas: Evaluating Window Joins, section 4).

The two directions are independent (equation 2): A -> B concerns only the index on B, which A's rows search
and B's rows enter and leave. So the index of each window is chosen alone. Costs are in seconds of one core
per second of stream: 1.0 is a core fully busy.

A cost is rows accessed times the weight of an access. How many are accessed is said here, once, for the cost
model and for the calibration which fits the weights to it; what an access takes is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.kernels.base.node_size import BTREE_NODE, TTREE_NODE

from .weights import Weights


@dataclass(frozen=True, slots=True)
class Direction:
    """Who probes and what is probed; rates in rows per second, `rows` in the probed window.

    matches: pairs per probe that the index finds.
    """

    probe_rate: float
    insert_rate: float
    rows: float
    matches: float


@dataclass(frozen=True, slots=True)
class Layout:
    """How indexes are built.

    ttree_node, btree_node: entries per node, N. bucket: rows per hash bucket, B/|B|; None: at least as many
    buckets as rows. scan_start: beginning a scan takes as long as so many rows of it (measured; vector code
    goes through the first rows slowly).
    """

    ttree_node: int = TTREE_NODE
    btree_node: int = BTREE_NODE
    bucket: float | None = None
    scan_start: float = 100


@dataclass(frozen=True, slots=True)
class Accesses:
    """Rows accessed by a probe and by a row's entering and leaving; matches a probe walks along in a tree."""

    search: float
    update: float
    walk: float = 0.0


OURS = Layout()


def scan_accesses(rows: float, matches: float, layout: Layout) -> Accesses:
    """Equation 3: a probe looks at every row of the window; entering and leaving is one access each."""
    return Accesses(layout.scan_start + rows, 2)


def hash_accesses(rows: float, matches: float, layout: Layout) -> Accesses:
    """Equation 4: a probe looks at its bucket.

    The paper's buckets are of a given size. Ours are at least as many as the rows, on average twice as many:
    one access to find the bucket, one for each match, one for a foreign row every other time.
    """
    bucket = 1 + matches + 0.5 * min(1.0, rows) if layout.bucket is None else layout.bucket
    return Accesses(bucket, 2)


def btree_accesses(rows: float, matches: float, layout: Layout) -> Accesses:
    """Equation 5, and the walk along the matches, which the paper leaves out."""
    touched = btree_height(rows, layout.btree_node) * math.ceil(math.log2(layout.btree_node))
    return Accesses(touched, 2 * touched, matches)


def ttree_accesses(rows: float, matches: float, layout: Layout) -> Accesses:
    """Equation 6, and the walk along the matches.

    As printed, equation 6 and the crossovers 9 and 10 count the search within the node once for insertion and
    removal together; Table 3 counts it for each of the two, and so does this.
    """
    nodes = max(1, math.ceil(rows / layout.ttree_node))
    above = 1.5 * max(0, math.ceil(math.log2(nodes)) - 1)
    touched = above + math.ceil(math.log2(layout.ttree_node))
    return Accesses(touched, 2 * touched, matches)


def btree_height(rows: float, node: int) -> int:
    """Levels of a B+tree of this many rows: those above its leaves, and the leaves."""
    leaves = math.ceil(rows / node)
    height, reach = 1, 1
    while reach < leaves:  # whole numbers: a logarithm may round across a power of node + 1
        height, reach = height + 1, reach * (node + 1)
    return height


ACCESSES: dict[str, Callable[[float, float, Layout], Accesses]] = {
    "scan": scan_accesses,
    "hash": hash_accesses,
    "t-tree": ttree_accesses,
    "b+tree": btree_accesses,
}


def direction_cost(kind: str, direction: Direction, weights: Weights, layout: Layout = OURS) -> float:
    """Cost of one direction with the given index on the probed window."""
    accesses = ACCESSES[kind](direction.rows, direction.matches, layout)
    search, update = weights.of(kind)
    probe = accesses.search * search + accesses.walk * weights.walk(kind)
    return direction.probe_rate * probe + direction.insert_rate * accesses.update * update


def key_count_cost(direction: Direction, slices: int, counters: int, weights: Weights) -> float:
    """The same where pairs are counted by key: a row enters and leaves slices, a probe adds up counters.

    slices: of age, that a row passes; counters: of a key, by slice and leaf.
    """
    probe = weights.key_count + counters * weights.route
    return direction.probe_rate * probe + direction.insert_rate * (1 + slices) * weights.key_count

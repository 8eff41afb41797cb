"""What a join costs per second of stream time (Kang, Naughton, Viglas: Evaluating Window Joins, section 4).

The two directions are independent (equation 2): A -> B concerns only the index on B, which A's rows search and
B's rows enter and leave. So the index of each window is chosen alone. Costs are in seconds of one core per
second of stream: 1.0 is a core fully busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.engine.kernels.node_size import BTREE_NODE, TTREE_NODE

from .weights import Weights


@dataclass(frozen=True, slots=True)
class Direction:
    """Who probes and what is probed; rates in rows per second, `rows` in the probed window.

    matches: pairs per probe that the index finds. bucket: rows a hash probe has to look at, B/|B|.
    """

    probe_rate: float
    insert_rate: float
    rows: float
    matches: float

    @property
    def bucket(self) -> float:
        # As many buckets as rows at least: a foreign row every other probe, besides the matches.
        return self.matches + 0.5 * min(1.0, self.rows)


def scan_cost(d: Direction, w: Weights) -> float:
    """Equation 3: every row of the window is looked at; entering and leaving is one access each."""
    return d.probe_rate * d.rows * w.scan_search + 2 * d.insert_rate * w.scan_update


def hash_cost(d: Direction, w: Weights) -> float:
    """Equation 4; at least one access to find the bucket empty."""
    return d.probe_rate * (1 + d.bucket) * w.hash_search + 2 * d.insert_rate * w.hash_update


def btree_cost(d: Direction, w: Weights) -> float:
    """Equation 5, and the walk along the matches, which the paper leaves out."""
    touched = btree_height(d.rows) * math.ceil(math.log2(BTREE_NODE))
    walk = d.probe_rate * d.matches * w.tree_walk
    return d.probe_rate * touched * w.btree_search + 2 * d.insert_rate * touched * w.btree_update + walk


def ttree_cost(d: Direction, w: Weights) -> float:
    """Equation 6, with the brackets the text means: twice the search for insertion and removal."""
    nodes = max(1, math.ceil(d.rows / TTREE_NODE))
    touched = 1.5 * max(0, math.ceil(math.log2(nodes)) - 1) + math.ceil(math.log2(TTREE_NODE))
    walk = d.probe_rate * d.matches * w.tree_walk
    return d.probe_rate * touched * w.ttree_search + 2 * d.insert_rate * touched * w.ttree_update + walk


def btree_height(rows: float) -> int:
    """Levels of a B+tree of this many rows."""
    leaves = max(1, math.ceil(rows / BTREE_NODE))
    return math.ceil(math.log(leaves, BTREE_NODE + 1)) + 1 if leaves > 1 else 1


FORMULAS = {"scan": scan_cost, "hash": hash_cost, "t-tree": ttree_cost, "b+tree": btree_cost}


def direction_cost(kind: str, direction: Direction, weights: Weights) -> float:
    """Cost of one direction with the given index on the probed window."""
    return FORMULAS[kind](direction, weights)

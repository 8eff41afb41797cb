"""Ranges by a B+tree: all entries in a chain of leaves, above them nodes of separators.

See kernels/indexes/btree.py. Nodes are freed when they are empty, not merged before; see tree.py for what
bounds the memory of sparse leaves.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.base.node_size import BTREE_NODE
from penstock.engine.kernels.indexes.btree import (
    HEIGHT,
    INNER_COLUMNS,
    INNER_FREE,
    INNER_IN_USE,
    INNER_USED,
    LINK_COLUMNS,
    ROOT,
    run_btree,
)
from penstock.engine.kernels.indexes.nodes import COUNT, IN_USE, NEXT, PREV, USED

from .index import Probes
from .tree import TreeIndex

Entry = tuple[int, int]


class BPlusTreeIndex(TreeIndex):
    """Rows by key in a B+tree, for any range of keys."""

    kind: ClassVar[str] = "b+tree"

    def _new_nodes(self, nodes: int) -> tuple[NDArray, ...]:
        # An inner node has 32 children or more unless leaves have been freed; if there are too few, all
        # arrays double.
        inner = nodes // 16 + 4
        return (
            np.zeros((nodes, LINK_COLUMNS), np.int64),
            np.empty((nodes, BTREE_NODE), np.int64),
            np.empty((nodes, BTREE_NODE), np.int64),
            np.zeros((inner, INNER_COLUMNS), np.int64),
            np.empty((inner, BTREE_NODE), np.int64),
            np.empty((inner, BTREE_NODE), np.int64),
            np.empty((inner, BTREE_NODE), np.int64),
        )

    def _run(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, found: int, counting: bool
    ) -> int:
        found = run_btree(
            self._nodes, self._state, self._keys.data, self._keys.base, probes.key_low, probes.key_high,
            probes.row_from, probes.row_until, probes.end, floor, probes.cursor, out_prober, out_row,
            found, counting,
        )  # fmt: skip
        return int(found)

    def _clear(self, first_row: int, nodes: int) -> None:
        """An empty leaf as the root."""
        super()._clear(first_row, nodes)
        links = self._nodes[0]
        links[0, PREV] = links[0, NEXT] = 1
        self._state[IN_USE] = 1
        self._state[USED] = 2
        self._state[ROOT] = 1
        self._state[INNER_USED] = 1

    def _check_tree(self, chain: list[int]) -> None:
        links, inner_links, state = self._nodes[0], self._nodes[3], self._state
        leaves: list[int] = []
        inner: list[int] = []
        self._check_below(int(state[ROOT]), int(state[HEIGHT]), None, None, leaves, inner)
        assert leaves == chain, "the tree and the chain have different orders"
        for leaf in chain:
            assert links[leaf, COUNT] > 0 or chain == [leaf], f"leaf {leaf} is empty"
        assert len(chain) > 1 or state[HEIGHT] == 0, "inner nodes above a single leaf"
        assert not inner or inner_links[state[ROOT], COUNT] > 1, "the root has a single child"
        free = self._follow(inner_links, int(state[INNER_FREE]))
        assert len(inner) == state[INNER_IN_USE], "inner nodes in use are miscounted"
        both = sorted(inner + free)
        assert both == list(range(1, state[INNER_USED])), "an inner node is neither free nor in use, or both"

    def _check_below(
        self,
        node: int,
        height: int,
        low: Entry | None,
        high: Entry | None,
        leaves: list[int],
        inner: list[int],
    ) -> None:
        """Assert that entries below `node` are within [low, high); collect the nodes in order."""
        if height == 0:
            links, keys, rows = self._nodes[:3]
            leaves.append(node)
            separators, last = keys[node], int(links[node, COUNT])
            bounds = [(int(separators[i]), int(rows[node, i])) for i in range(last)]
        else:
            links, keys, rows, children = self._nodes[3:]
            inner.append(node)
            count = int(links[node, COUNT])
            assert 0 < count <= BTREE_NODE, f"inner node {node} has {count} children"
            bounds = [(int(keys[node, i]), int(rows[node, i])) for i in range(1, count)]
            for i in range(count):
                self._check_below(
                    int(children[node, i]),
                    height - 1,
                    bounds[i - 1] if i > 0 else low,
                    bounds[i] if i + 1 < count else high,
                    leaves,
                    inner,
                )
        assert bounds == sorted(set(bounds)), f"node {node} is not sorted"
        assert low is None or not bounds or low <= bounds[0], f"node {node} has an entry below {low}"
        assert high is None or not bounds or bounds[-1] < high, f"node {node} has an entry from {high} on"

"""Ranges by a T-tree: a balanced binary tree of nodes with many entries each (see kernels/ttree.py)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.node_size import TTREE_NODE
from ..kernels.nodes import COUNT
from ..kernels.ttree import HEIGHT, LEAST, LEFT, LINK_COLUMNS, PARENT, RIGHT, run_ttree
from .index import Probes
from .tree import TreeIndex


class TTreeIndex(TreeIndex):
    """Rows by key in a T-tree, for any range of keys."""

    kind: ClassVar[str] = "t-tree"

    def _new_nodes(self, nodes: int) -> tuple[NDArray, ...]:
        return (
            np.zeros((nodes, LINK_COLUMNS), np.int64),
            np.empty((nodes, TTREE_NODE), np.int64),
            np.empty((nodes, TTREE_NODE), np.int64),
        )

    def _run(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, found: int, counting: bool
    ) -> int:
        found = run_ttree(
            self._nodes, self._state, self._keys.data, self._keys.base, probes.key_low, probes.key_high,
            probes.row_from, probes.row_until, probes.end, floor, probes.cursor, out_prober, out_row,
            found, counting,
        )  # fmt: skip
        return int(found)

    def _check_tree(self, chain: list[int]) -> None:
        links, keys, _ = self._nodes
        assert links[0, HEIGHT] == 0, "the absence of a node has a height"
        assert links[0, COUNT] == 0, "the absence of a node has entries"
        in_order: list[int] = []
        above: list[int] = []
        parent, node = 0, int(links[0, LEFT])
        while node or above:
            if node:
                assert links[node, PARENT] == parent, f"node {node} does not know its parent {parent}"
                above.append(node)
                parent, node = node, int(links[node, LEFT])
            else:
                parent = above.pop()
                in_order.append(parent)
                node = int(links[parent, RIGHT])
        assert in_order == chain, "the tree and the chain have different orders"
        for node in chain:
            left, right = (int(links[links[node, side], HEIGHT]) for side in (LEFT, RIGHT))
            assert abs(left - right) <= 1, f"node {node} is out of balance: {left} and {right}"
            assert links[node, HEIGHT] == 1 + max(left, right), f"node {node} has a wrong height"
            assert links[node, COUNT] > 0, f"node {node} is empty"
            assert links[node, LEAST] == keys[node, 0], f"node {node} does not know its least key"

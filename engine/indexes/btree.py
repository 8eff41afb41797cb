"""x"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.btree import BTREE_SLOTS, INNER_COLUMNS, INNER_USED, LINK_COLUMNS, ROOT, run_btree
from ..kernels.nodes import IN_USE, NEXT, NODE_ROWS, PREV, USED
from .index import Probes
from .tree import TreeIndex


class BPlusTreeIndex(TreeIndex):
    """Rows by key in a B+tree, for any range of keys."""

    kind: ClassVar[str] = "b+tree"

    def _new_nodes(self, nodes: int) -> tuple[NDArray, ...]:
        inner = nodes // 16 + 4
        return (
            np.zeros((nodes, LINK_COLUMNS), np.int64),
            np.empty((nodes, NODE_ROWS), np.int64),
            np.empty((nodes, NODE_ROWS), np.int64),
            np.zeros((inner, INNER_COLUMNS), np.int64),
            np.empty((inner, NODE_ROWS), np.int64),
            np.empty((inner, NODE_ROWS), np.int64),
            np.empty((inner, NODE_ROWS), np.int64),
        )

    def _run(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, found: int, counting: bool
    ) -> int:
        return int(
            run_btree(
                self._nodes, self._state, self._keys.data, self._keys.base, probes.key_low, probes.key_high,
                probes.row_from, probes.row_until, probes.end, floor, probes.cursor, out_prober, out_row,
                found, counting,
            )
        )  # fmt: skip

    def _clear(self, first_row: int, nodes: int) -> None:
        super()._clear(first_row, nodes)
        links = self._nodes[0]
        links[0, PREV] = links[0, NEXT] = 1
        self._state[IN_USE] = 1
        self._state[ROOT] = 1
        self._state[USED] = 2
        self._state[INNER_USED] = 1

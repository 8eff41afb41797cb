"""x"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.nodes import NODE_ROWS
from ..kernels.ttree import LINK_COLUMNS, run_ttree
from .index import Probes
from .tree import TreeIndex


class TTreeIndex(TreeIndex):
    """Rows by key in a T-tree, for any range of keys."""

    kind: ClassVar[str] = "t-tree"

    def _new_nodes(self, nodes: int) -> tuple[NDArray, ...]:
        return (
            np.zeros((nodes, LINK_COLUMNS), np.int64),
            np.empty((nodes, NODE_ROWS), np.int64),
            np.empty((nodes, NODE_ROWS), np.int64),
        )

    def _run(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, found: int, counting: bool
    ) -> int:
        return int(
            run_ttree(
                self._nodes, self._state, self._keys.data, self._keys.base, probes.key_low, probes.key_high,
                probes.row_from, probes.row_until, probes.end, floor, probes.cursor, out_prober, out_row,
                found, counting,
            )
        )  # fmt: skip

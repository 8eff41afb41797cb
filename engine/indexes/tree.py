"""What the two tree indexes share: the live keys, nodes that come and go, and when to build anew.

State: the live keys by row, the arrays of nodes, and a few counters which the kernel keeps (see
kernels/nodes.py). Expiry removes entries one by one, as the probers' row_from or a purge says.

The kernel stops when it might run out of nodes; then the arrays double. Nodes that fall empty are used
again. When the live rows fill less than a quarter of the nodes in use, or these are less than a quarter
of what is allocated, the tree is built anew from the live keys: that takes an insertion per live row,
after at least as many removals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ..buffer import RowBuffer
from ..kernels.nodes import EXPIRED, IN_USE, INSERTED, NODE_ROWS, SHORT, STATE_SLOTS, USED
from .index import Probes

MIN_NODES = 8
NOBODY = np.empty(0, np.int64)


class TreeIndex(ABC):
    """Rows by key in sorted nodes; the tree above the nodes is the subclass's."""

    def __init__(self, first_row: int = 0) -> None:
        self._keys = RowBuffer("int64", first_row)
        self._clear(first_row, MIN_NODES)

    @abstractmethod
    def _new_nodes(self, nodes: int) -> tuple[NDArray, ...]:
        """Arrays for so many nodes; the first is `links`."""

    @abstractmethod
    def _run(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, found: int, counting: bool
    ) -> int:
        """Call the kernel: after all probers, rows below `floor` are removed."""

    def extend(self, keys: NDArray) -> None:
        self._keys.append(keys)

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        return self._serve(probes, self._keys.tail, out_prober, out_row, counting)

    def purge(self, row: int) -> None:
        self._keys.drop(row)
        tail = self._keys.tail
        if tail > self._state[EXPIRED]:
            end = max(int(self._state[INSERTED]), tail)
            self._serve(Probes(NOBODY, NOBODY, NOBODY, NOBODY, end), tail, NOBODY, NOBODY, False)
        rows = int(self._state[INSERTED] - self._state[EXPIRED])
        in_use, allocated = int(self._state[IN_USE]), len(self._nodes[0])
        if allocated > MIN_NODES and (4 * rows < in_use * NODE_ROWS or 4 * in_use < allocated):
            self._rebuild()

    @property
    def keys(self) -> NDArray:
        return self._keys.live

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + sum(int(array.nbytes) for array in (*self._nodes, self._state))

    def _serve(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, counting: bool
    ) -> int:
        found = self._run(probes, floor, out_prober, out_row, 0, counting)
        while self._state[SHORT]:
            nodes = self._new_nodes(2 * len(self._nodes[0]))
            for new, old in zip(nodes, self._nodes, strict=True):
                new[: len(old)] = old
            self._nodes = nodes
            found = self._run(probes, floor, out_prober, out_row, found, counting)
        return found

    def _clear(self, first_row: int, nodes: int) -> None:
        self._nodes = self._new_nodes(nodes)
        self._state = np.zeros(STATE_SLOTS, np.int64)
        self._state[EXPIRED] = self._state[INSERTED] = first_row
        self._state[USED] = 1

    def _rebuild(self) -> None:
        start, end = int(self._state[EXPIRED]), int(self._state[INSERTED])
        self._clear(start, max(MIN_NODES, 2 * (end - start) // NODE_ROWS))
        self._serve(Probes(NOBODY, NOBODY, NOBODY, NOBODY, end), start, NOBODY, NOBODY, False)

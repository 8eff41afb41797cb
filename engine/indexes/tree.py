"""What the two tree indexes share: the live keys, nodes that come and go, and when to build anew.

State: the live keys by row, the arrays of nodes, and a few counters which the kernel keeps (see
kernels/indexes/nodes.py). Expiry removes entries one by one, as the probers' row_from or a purge says; the
work is in proportion to what expires.

The kernel stops when it might run out of nodes; then the arrays double. Nodes that fall empty are used
again. When the live rows fill less than a quarter of the nodes in use, or these are less than a quarter
of what is allocated, the tree is built anew from the live keys: an insertion per live row, after several
removals for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.indexes.nodes import (
    COUNT,
    EXPIRED,
    FREE,
    IN_USE,
    INSERTED,
    NEXT,
    PREV,
    SHORT,
    STATE_SLOTS,
    USED,
)
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.buffer import RowBuffer

from .index import Probes

MIN_NODES = 8
NOBODY = np.empty(0, np.int64)


class TreeIndex(ABC):
    """Rows by key in sorted nodes; the tree above them is the subclass's."""

    _owned: ClassVar[tuple[str, ...]] = ("_state",)

    _nodes: tuple[NDArray, ...]
    _state: NDArray

    def __init__(self, first_row: int = 0) -> None:
        self._keys = RowBuffer("int64", first_row)
        self._clear(first_row, MIN_NODES)

    @abstractmethod
    def _new_nodes(self, nodes: int) -> tuple[NDArray, ...]:
        """Arrays for so many nodes: links, keys, rows, and others the tree has."""

    @abstractmethod
    def _run(
        self, probes: Probes, floor: int, out_prober: NDArray, out_row: NDArray, found: int, counting: bool
    ) -> int:
        """Call the kernel once; after the last prober, rows below `floor` are removed."""

    @abstractmethod
    def _check_tree(self, chain: list[int]) -> None:
        """Assert that the tree leads to the nodes of the chain, in their order."""

    def extend(self, keys: NDArray) -> None:
        self._keys.append(keys)

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        probes.check(self._keys.tail, self._keys.end, int(self._state[INSERTED]))
        return self._serve(probes, self._keys.tail, out_prober, out_row, counting)

    def purge(self, row: int) -> None:
        tail = min(max(self._keys.tail, row), self._keys.end)
        if tail > self._state[EXPIRED]:  # entries are found by their keys, so before these are dropped
            self._advance(max(int(self._state[INSERTED]), tail), tail)
        self._keys.drop(tail)
        start, end, in_use = (int(self._state[slot]) for slot in (EXPIRED, INSERTED, IN_USE))
        allocated, size = self._nodes[1].shape
        if allocated > MIN_NODES and (4 * (end - start) < in_use * size or 4 * in_use < allocated):
            self._clear(start, max(MIN_NODES, 2 * (end - start) // size))
            self._advance(end, start)

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

    def _advance(self, end: int, floor: int) -> None:
        """Insert rows below `end`, remove those below `floor`, without probing."""
        self._serve(Probes(NOBODY, NOBODY, NOBODY, NOBODY, end), floor, NOBODY, NOBODY, False)

    def _clear(self, first_row: int, nodes: int) -> None:
        """An empty tree with room for so many nodes, node 0 included."""
        self._nodes = self._new_nodes(nodes)
        self._state = np.zeros(STATE_SLOTS, np.int64)
        self._state[EXPIRED] = self._state[INSERTED] = first_row
        self._state[USED] = 1

    def _check(self) -> None:
        self._keys._check()
        links, keys, rows = self._nodes[:3]
        state = self._state
        expired, inserted = int(state[EXPIRED]), int(state[INSERTED])
        assert self._keys.tail <= expired <= inserted <= self._keys.end, "entries without keys"
        # 1. the chain is a ring through node 0, and what is not in it is free
        chain = [0, *self._follow(links, int(links[0, NEXT]))]
        for before, after in zip(chain, [*chain[1:], 0], strict=True):
            assert links[after, PREV] == before, f"node {after} has another before it than node {before}"
        free = self._follow(links, int(state[FREE]))
        assert len(chain) == 1 + state[IN_USE], "nodes in use are miscounted"
        assert sorted(chain + free) == list(range(state[USED])), "a node is neither free nor in use, or both"
        # 2. the entries are the live rows, in order
        entries: list[tuple[int, int]] = []
        for node in chain[1:]:
            count = int(links[node, COUNT])
            assert 0 <= count <= keys.shape[1], f"node {node} has {count} entries"
            entries += zip(keys[node, :count].tolist(), rows[node, :count].tolist(), strict=True)
        live = self._keys.data[expired - self._keys.base : inserted - self._keys.base].tolist()
        wanted = sorted(zip(live, range(expired, inserted), strict=True))
        assert entries == wanted, "the entries are not the live rows in order"
        self._check_tree(chain[1:])

    def _follow(self, links: NDArray, node: int) -> list[int]:
        """The nodes from `node` on, by NEXT."""
        nodes: list[int] = []
        while node:
            nodes.append(node)
            assert len(nodes) < len(links), "a chain of nodes does not end"
            node = int(links[node, NEXT])
        return nodes

    def _check_restored(self) -> None:
        """The tree is built anew: that takes less than to find out whether it is one."""
        expect(len(self._state) == STATE_SLOTS, "what a kernel remembers")
        expired, inserted = int(self._state[EXPIRED]), int(self._state[INSERTED])
        expect(self._keys.data.dtype == np.int64, "keys")
        expect(self._keys.tail <= expired <= inserted <= self._keys.end, "entries with keys")
        self._clear(expired, max(MIN_NODES, len(self._nodes[0])))
        self._advance(inserted, expired)

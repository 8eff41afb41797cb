"""Ranges by a T-tree: a balanced binary tree of nodes with many entries each (see kernels/indexes/ttree.py).

State: the live keys by row, the nodes and the tree over them. Expiry moves a pointer; entries of expired rows
stay in their nodes for a while (see kernels/indexes/sorted_nodes.py). When nodes run out, or far fewer would
do, the live entries are packed into new ones.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.indexes.sorted_nodes import (
    EXPIRED,
    HEIGHT,
    INSERTED,
    MAX_KEY,
    NO_ROW,
    NODE_ROWS,
    PACKED_ROWS,
    ROOT,
    SHORT,
    STATE_SLOTS,
    USED,
    allocate_nodes,
)
from penstock.engine.kernels.indexes.ttree import allocate_links, pack_ttree, run_ttree
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.buffer import RowBuffer

from .index import Probes

MIN_NODES = 8


class TTreeIndex:
    """Rows by key in a T-tree, for any range of keys."""

    kind: ClassVar[str] = "t-tree"

    def __init__(self, first_row: int = 0) -> None:
        self._keys = RowBuffer("int64", first_row)
        self._nodes = allocate_nodes(MIN_NODES)
        self._links = allocate_links(MIN_NODES)
        self._state = np.zeros(STATE_SLOTS, np.int64)
        self._state[EXPIRED] = self._state[INSERTED] = first_row
        self._state[USED] = 2
        self._state[ROOT] = self._state[HEIGHT] = 1

    def extend(self, keys: NDArray) -> None:
        self._keys.append(keys)

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        probes.check(self._keys.tail, self._keys.end, int(self._state[INSERTED]))
        found = 0
        while True:
            found = run_ttree(
                self._nodes, self._links, self._state, self._keys.data, self._keys.base, probes.key_low,
                probes.key_high, probes.row_from, probes.row_until, probes.end, self._keys.tail,
                probes.cursor, out_prober, out_row, found, counting,
            )  # fmt: skip
            if not self._state[SHORT]:
                return int(found)
            self._move(len(self._nodes.least) * 3 // 2)

    def purge(self, row: int) -> None:
        tail = min(max(self._keys.tail, row), self._keys.end)
        # Rows which nobody will see need not be inserted, and their keys may be gone when it is their turn.
        self._state[EXPIRED] = max(int(self._state[EXPIRED]), tail)
        self._state[INSERTED] = max(int(self._state[INSERTED]), tail)
        self._keys.drop(tail)
        allocated = len(self._nodes.least)
        is_sparse = 4 * self._live < int(self._state[USED]) * NODE_ROWS
        if allocated > MIN_NODES and (is_sparse or 6 * self._live < allocated * NODE_ROWS):
            self._move(max(MIN_NODES, 2 * (self._live // PACKED_ROWS + 2)))

    @property
    def keys(self) -> NDArray:
        return self._keys.live

    @property
    def nbytes(self) -> int:
        arrays = (*self._nodes, *self._links, self._state)
        return self._keys.nbytes + sum(int(array.nbytes) for array in arrays)

    @property
    def _live(self) -> int:
        """Entries of rows that have not expired."""
        return int(self._state[INSERTED] - self._state[EXPIRED])

    def _move(self, nodes: int) -> None:
        """Move the live entries to so many new nodes."""
        new, links = allocate_nodes(nodes), allocate_links(nodes)
        pack_ttree(self._nodes, new, links, self._state)
        self._nodes, self._links = new, links

    def _check(self) -> None:
        self._keys._check()
        nodes, state = self._nodes, self._state
        expired, inserted = int(state[EXPIRED]), int(state[INSERTED])
        assert self._keys.tail <= expired <= inserted <= self._keys.end, "entries without keys"
        # 1. the chain is a ring through node 0 and all nodes used
        chain = [0]
        while nodes.after[chain[-1]]:
            chain.append(int(nodes.after[chain[-1]]))
            assert len(chain) <= state[USED], "the chain does not end"
        assert sorted(chain) == list(range(state[USED])), "a node is not in the chain"
        for before, after in zip(chain, [*chain[1:], 0], strict=True):
            assert nodes.before[2 * after] == before, f"node {after} has another before it than {before}"
            assert nodes.before[2 * after + 1] == after, f"node {after} does not know its number"
        # 2. the entries are in order, and the live ones are the live rows
        entries: list[tuple[int, int]] = []
        for node in chain:
            count = int(nodes.size[node])
            keys, rows = (all_[node * NODE_ROWS :][:NODE_ROWS].tolist() for all_ in (nodes.keys, nodes.rows))
            assert 0 <= count <= (NODE_ROWS if node else 0), f"node {node} has {count} entries"
            assert set(keys[count:]) <= {MAX_KEY}, f"node {node} has keys in spare slots"
            assert set(rows[count:]) <= {NO_ROW}, f"node {node} has rows in spare slots"
            least = int(nodes.least[node])
            if node:
                assert not entries or entries[-1][0] <= least, f"a key before node {node} is above its least"
                assert not count or least <= keys[0], f"node {node} has a key below its least"
            else:
                assert least == MAX_KEY, "the end of the chain is not above all keys"
            entries += zip(keys[:count], rows[:count], strict=True)
        assert entries == sorted(set(entries)), "the entries are not in order"
        live = self._keys.data[expired - self._keys.base : inserted - self._keys.base].tolist()
        wanted = sorted(zip(live, range(expired, inserted), strict=True))
        assert [entry for entry in entries if entry[1] >= expired] == wanted, "entries are not the live rows"
        self._check_tree(chain[1:])

    def _check_tree(self, chain: list[int]) -> None:
        parents, heights = self._links.parent, self._links.height
        in_order: list[int] = []
        above: list[int] = []
        parent, node = 0, int(self._state[ROOT])
        while node or above:
            if node:
                assert parents[node] == parent, f"node {node} does not know its parent {parent}"
                above.append(node)
                parent, node = node, self._child(node, 0)
            else:
                parent = above.pop()
                in_order.append(parent)
                node = self._child(parent, 1)
        assert in_order == chain, "the tree and the chain have different orders"
        for node in chain:
            left, right = (
                int(heights[below]) if below else 0 for below in map(self._child, (node,) * 2, (0, 1))
            )
            assert abs(left - right) <= 1, f"node {node} is out of balance: {left} and {right}"
            assert heights[node] == 1 + max(left, right), f"node {node} has a wrong height"
        assert self._state[HEIGHT] == heights[self._state[ROOT]], "the tree does not know its height"

    def _child(self, node: int, side: int) -> int:
        """A child of a node; 0 if there is none."""
        child = int(self._links.child[2 * node + side])
        return 0 if child == node else child

    def _check_restored(self) -> None:
        """The tree is built anew: that takes less than to find out whether it is one."""
        expect(len(self._state) == STATE_SLOTS, "what a kernel remembers")
        expired, inserted = int(self._state[EXPIRED]), int(self._state[INSERTED])
        expect(self._keys.data.dtype == np.int64, "keys")
        expect(self._keys.tail <= expired <= inserted <= self._keys.end, "entries with keys")
        fresh = TTreeIndex(expired)
        fresh.extend(self._keys.run(expired, inserted).copy())
        nobody = np.empty(0, np.int64)
        fresh.run(Probes(nobody, nobody, nobody, nobody, inserted), nobody, nobody, False)
        self._nodes, self._links, self._state = fresh._nodes, fresh._links, fresh._state

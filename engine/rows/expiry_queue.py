"""Entries by the time they are due: the arrays of kernels/rows/expiry.py and their growth."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.rows import expiry as kernels
from penstock.engine.kernels.rows.expiry import HEAD, HEAP, LISTED, NEVER, RING
from penstock.engine.restoring.in_order import chained, distinct, expect, rising, size_of_two

MIN_ENTRIES = 256


class ExpiryQueue:
    """Kernels push and pop; `arrays` is what they take: ring ets, ring id, heap ets, lists, meta."""

    _owned: ClassVar[tuple[str, ...]] = ("_ring", "_heap_ets", "_lists", "meta")

    def __init__(self) -> None:
        self._ring = [np.empty(MIN_ENTRIES, np.int64) for _ in range(2)]
        self._heap_ets = np.empty(MIN_ENTRIES, np.int64)
        self._lists = np.full((MIN_ENTRIES, 7), -1, np.int64)
        self.meta = np.zeros(8, np.int64)
        self.meta[[kernels.FREE_NODE, kernels.FREE_LIST]] = -1

    @property
    def arrays(self) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
        return self._ring[0], self._ring[1], self._heap_ets, self._lists, self.meta

    def __len__(self) -> int:
        return int(self.meta[RING] + self.meta[LISTED])

    @property
    def first(self) -> int:
        """When the earliest entry is due; NEVER if there is none."""
        due = int(self._ring[0][self.meta[HEAD]]) if self.meta[RING] else NEVER
        return min(due, int(self._heap_ets[0])) if self.meta[HEAP] else due

    def reserve(self, entries: int) -> None:
        """Make room for so many more."""
        size, count = len(self._ring[0]), int(self.meta[RING])
        if count + entries > size:
            while count + entries > size:
                size *= 2
            at = (int(self.meta[HEAD]) + np.arange(count)) & (len(self._ring[0]) - 1)
            for number, old in enumerate(self._ring):
                self._ring[number] = np.empty(size, np.int64)
                self._ring[number][:count] = old[at]
            self.meta[HEAD] = 0
        size, count = len(self._lists), int(self.meta[LISTED])
        if count + entries > size:
            while count + entries > size:
                size *= 2
            self._grow_lists(size)

    def _grow_lists(self, size: int) -> None:
        """More room for lists: nodes and lists stay where they are, buckets are filled anew."""
        used = len(self._lists)
        lists = np.full((size, 7), -1, np.int64)
        lists[:used] = self._lists
        lists[:, kernels.BUCKET] = -1
        heap_ets = np.empty(size, np.int64)
        heap_ets[:used] = self._heap_ets
        self._heap_ets, self._lists = heap_ets, lists
        kernels.fill_buckets(lists, self.meta)

    def entries(self) -> tuple[NDArray, NDArray]:
        """Times and ids of all entries, in no order."""
        head, count = int(self.meta[HEAD]), int(self.meta[RING])
        parts = [slice(head, head + count), slice(0, max(head + count - len(self._ring[0]), 0))]
        times, ids = ([ring[part] for part in parts] for ring in self._ring)
        for place in range(int(self.meta[HEAP])):
            node = self._lists[self._lists[place, kernels.LIST], kernels.FIRST]
            while node >= 0:
                times.append(self._heap_ets[place : place + 1])
                ids.append(self._lists[node : node + 1, kernels.ID])
                node = self._lists[node, kernels.NEXT]
        return np.concatenate(times), np.concatenate(ids)

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays)

    def _check(self) -> None:
        count = int(self.meta[HEAP])
        heap = self._heap_ets[:count]
        if count > 1:
            assert bool(np.all(heap[(np.arange(1, count) - 1) >> 1] <= heap[1:])), "the heap is out of order"
        assert len(set(heap.tolist())) == count, "a time is in the heap twice"
        held = self._lists[self._lists[:count, kernels.LIST]]
        assert bool(np.all(held[:, kernels.TIME] == heap)), "a list is in the wrong place of the heap"
        assert bool(np.all(held[:, kernels.FIRST] >= 0)), "a list without entries is kept"
        times, _ = self.entries()
        assert len(times) == len(self), "entries are not counted right"
        ring = times[: int(self.meta[RING])]
        assert bool(np.all(ring[1:] >= ring[:-1])), "the ring is out of order"

    def _check_restored(self) -> None:
        size, room = len(self._ring[0]), len(self._lists)
        expect(len(self._ring) == 2 and len(self._ring[1]) == size and len(self.meta) == 8, "a ring")
        size_of_two(size, "entries")
        size_of_two(room, "lists")
        expect(len(self._heap_ets) == room and self._lists.shape[1] == 7, "lists")
        head, ring, heap, listed, nodes, _, lists, _ = self.meta.tolist()
        expect(0 <= head < size and 0 <= ring <= size, "entries in the ring")
        expect(0 <= heap <= lists <= room and 0 <= listed <= nodes <= room, "entries in lists")
        rising(self._ring[0][(head + np.arange(ring)) & (size - 1)], "the ring")
        times = self._heap_ets[:heap]
        expect(bool((times[(np.arange(1, heap) - 1) >> 1] < times[1:]).all()), "a heap of times")
        held = self._lists[:heap, kernels.LIST]
        distinct(held, lists, "lists")
        ordered = np.sort(times)
        expect(bool((ordered[1:] > ordered[:-1]).all()), "a list for each time")
        expect(np.array_equal(self._lists[held, kernels.TIME], times), "lists by their times")
        expect(bool((self._lists[held, kernels.FIRST] >= 0).all()), "entries in each list")
        following = np.ascontiguousarray(self._lists[:, kernels.NEXT])
        seen = np.arange(room) >= nodes
        expect(chained(self._lists[held, kernels.FIRST], following, seen, "lists") == listed, "all entries")
        free = chained(self.meta[kernels.FREE_NODE : kernels.FREE_NODE + 1], following, seen, "free entries")
        expect(free + listed == nodes, "every entry free or not")
        seen = np.arange(room) >= lists
        seen[held] = True
        chains = np.ascontiguousarray(self._lists[:, kernels.CHAIN])
        free = chained(self.meta[kernels.FREE_LIST : kernels.FREE_LIST + 1], chains, seen, "free lists")
        expect(free + heap == lists, "every list free or not")
        self._lists[:, kernels.BUCKET] = -1
        kernels.fill_buckets(self._lists, self.meta)

"""Naive twins of the join indexes: the same contract in plain Python, a whole batch at a time."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from penstock.engine.indexes.index import Probes


class NaiveScan:
    """All rows ever seen with their keys; matches in order of rows, by linear search."""

    def __init__(self, first_row: int) -> None:
        self.first_row = self.tail = first_row
        self.all_keys: list[int] = []

    @property
    def end(self) -> int:
        return self.first_row + len(self.all_keys)

    def extend(self, keys: list[int]) -> None:
        self.all_keys += keys

    def purge(self, row: int) -> None:
        self.tail = max(self.tail, min(row, self.end))

    @property
    def keys(self) -> list[int]:
        return self.all_keys[self.tail - self.first_row :]

    def pairs(self, probes: Probes) -> list[tuple[int, int]]:
        """All (prober, row) in the order in which the index must find them."""
        probers = range(len(probes.key_low))
        return [(prober, row) for prober in probers for row in self.matches(probes, prober)]

    def seen(self, probes: Probes, prober: int) -> Iterator[tuple[int, int]]:
        """(key, row) of what the prober sees, oldest first."""
        for row in range(int(probes.row_from[prober]), int(probes.row_until[prober])):
            yield self.all_keys[row - self.first_row], row

    def matches(self, probes: Probes, prober: int) -> list[int]:
        low, high = int(probes.key_low[prober]), int(probes.key_high[prober])
        return [row for key, row in self.seen(probes, prober) if low <= key <= high]


class NaiveHash(NaiveScan):
    """Equality only, newest first."""

    def matches(self, probes: Probes, prober: int) -> list[int]:
        if probes.key_low[prober] != probes.key_high[prober]:
            return []
        return super().matches(probes, prober)[::-1]


class NaiveTree(NaiveScan):
    """In order of (key, row): a sorted list, cut by bisection."""

    def matches(self, probes: Probes, prober: int) -> list[int]:
        entries = sorted(self.seen(probes, prober))
        low = bisect.bisect_left(entries, int(probes.key_low[prober]), key=lambda entry: entry[0])
        high = bisect.bisect_right(entries, int(probes.key_high[prober]), key=lambda entry: entry[0])
        return [row for _, row in entries[low:high]]


NAIVE_TWINS = {"scan": NaiveScan, "hash": NaiveHash, "t-tree": NaiveTree, "b+tree": NaiveTree}

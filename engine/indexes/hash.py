"""Equality by hashing: constant work per insert and per match, nothing at all on expiry.

State: the keys, a link per row to the bucket's previous row, the newest row of each bucket.

    place   [ dropped . . | live . . . . . . | to be inserted . . | free . . ]
             origin        tail               inserted             end              (row numbers)

There are at least as many buckets as rows were live before the last batch came; when the window outgrows
them, or shrinks to a sixteenth of them, the links are laid anew. When the free part is used up, the live rows
move to the front of new arrays, and links and heads are moved by the same distance.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.indexes.find_rows import find_rows
from penstock.engine.kernels.indexes.hash_rounds import (
    count_ages,
    count_cells,
    count_pairs,
    find_pairs,
)
from penstock.engine.kernels.indexes.most_alike import most_alike
from penstock.engine.kernels.joins.slices import Slices
from penstock.engine.kernels.rows.hash import link_rows, run_hash
from penstock.engine.restoring.in_order import FAR, expect, size_of_two
from penstock.engine.rows.buffer import RowBuffer

from .index import Probes

MIN_ROWS = 256
MANY_ROWS = 65_536
MIN_BUCKETS = 256
MAX_PLACES = 1 << 31

Work: TypeAlias = tuple[
    NDArray, NDArray, NDArray, int, int, NDArray, NDArray, NDArray, NDArray, int, NDArray
]  # fmt: skip


class HashIndex:
    """Rows by key, for equality only."""

    _owned: ClassVar[tuple[str, ...]] = ("_keys", "_heads", "_links")

    kind: ClassVar[str] = "hash"

    def __init__(self, first_row: int = 0) -> None:
        self._keys = np.empty(MIN_ROWS, np.int64)
        self._links = np.empty(MIN_ROWS, np.int32)
        self._heads = np.full(MIN_BUCKETS, -1, np.int32)
        self._origin = first_row
        self._tail = self._inserted = self._end = 0  # as places: row numbers less the origin

    def extend(self, keys: NDArray) -> None:
        known = self._inserted - self._tail
        expected = max(known, len(keys) // 2)  # the window may hold as many of them as it held before
        if expected > len(self._heads):
            self._spread(2 * expected)
        if self._end + len(keys) > len(self._keys):
            self._compact(len(keys))
        self._keys[self._end : self._end + len(keys)] = keys
        self._end += len(keys)

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        self._check_probes(probes)
        if counting:
            found, self._inserted = count_pairs(*self._work(probes))
            return int(found)
        if not probes.one_by_one:
            found, self._inserted = find_pairs(*self._work(probes), out_prober, out_row)
            if found or probes.done:
                return int(found)
            probes.walk_alone()
        found, self._inserted = run_hash(*self._work(probes), out_prober, out_row)
        return int(found)

    def _check_probes(self, probes: Probes) -> None:
        origin = self._origin
        probes.check(origin + self._tail, origin + self._end, origin + self._inserted)

    def _work(self, probes: Probes) -> Work:
        """What is there and who probes, a tuple as the kernels take it."""
        return (
            self._keys, self._links, self._heads, self._origin, self._inserted,
            probes.key_low, probes.key_high, probes.row_from, probes.row_until, probes.end, probes.cursor,
        )  # fmt: skip

    def find(
        self,
        keys: NDArray,
        probers: NDArray,
        row_from: NDArray,
        row_until: NDArray,
        cursor: NDArray,
        out_seeker: NDArray,
        out_row: NDArray,
    ) -> int:
        """Find rows by key for seekers in any order, when all rows have been inserted; how many were found.

        keys, probers: int64 per seeker; a seeker sees the rows that its prober sees. The cursor says whether
        all are served and where to go on, as for `run`; out_seeker has positions of seekers.
        """
        return int(
            find_rows(
                self._keys, self._links, self._heads, self._origin,
                keys, probers, row_from, row_until, cursor, out_seeker, out_row,
            )
        )  # fmt: skip

    def most_alike(self, row: int) -> int:
        """The most rows that have one key, of the keys of rows from this one on; all have been inserted."""
        first = max(row - self._origin, self._tail)
        return int(most_alike(self._keys, self._links, self._tail, first, self._end))

    def insert(self, keys: NDArray) -> None:
        """Take the keys of the rows that come next, and insert these at once."""
        self.extend(keys)
        link_rows(self._keys, self._links, self._heads, self._inserted, self._end)
        self._inserted = self._end

    @property
    def end(self) -> int:
        """The row that comes next."""
        return self._origin + self._end

    def run_ages(
        self, probes: Probes, times: NDArray, pos: RowBuffer, slices: Slices, histogram: NDArray
    ) -> int:
        """Serve all probers, counting each pair in the slice of its age; how many pairs were found.

        times: int64 per prober; pos: int64, when each row came; an age is the difference.
        """
        self._check_probes(probes)
        found, self._inserted = count_ages(
            *self._work(probes), times, pos.data, pos.base, slices.ends, slices.first, slices.shift, histogram
        )
        return int(found)

    def run_cells(
        self,
        probes: Probes,
        times: NDArray,
        pos: RowBuffer,
        slices: Slices,
        histogram: NDArray,
        cells: tuple[NDArray, RowBuffer, int],
    ) -> int:
        """The same, each pair in the slice of its age for the leaves of its rows.

        Each combination of leaves has slices of its own: `cells` are (where those of each prober begin,
        int64; leaves of the rows, int32; by how much they are moved per leaf).
        """
        self._check_probes(probes)
        of_prober, leaves, stride = cells
        found, self._inserted = count_cells(
            *self._work(probes), times, pos.data, pos.base, slices.ends, slices.first, slices.shift,
            histogram, of_prober, leaves.data, leaves.base, stride,
        )  # fmt: skip
        return int(found)

    def purge(self, row: int) -> None:
        self._tail = min(max(self._tail, row - self._origin), self._end)
        # Rows which nobody will see need not be inserted, and their keys may be gone when it is their turn.
        self._inserted = max(self._inserted, self._tail)
        live = self._end - self._tail
        if len(self._keys) > max(MANY_ROWS, 16 * live):  # a burst is over: give its memory back
            self._compact(0)
        if len(self._heads) > max(MIN_BUCKETS, 16 * live):
            self._spread(2 * live)

    @property
    def keys(self) -> NDArray:
        return self._keys[self._tail : self._end]

    @property
    def nbytes(self) -> int:
        return int(self._keys.nbytes + self._links.nbytes + self._heads.nbytes)

    def _spread(self, rows: int) -> None:
        """Lay the links anew over enough buckets for `rows`."""
        self._heads = np.full(1 << (max(rows, MIN_BUCKETS) - 1).bit_length(), -1, np.int32)
        link_rows(self._keys, self._links, self._heads, self._tail, self._inserted)

    def _compact(self, rows: int) -> None:
        """Move the live rows to the front of arrays with room for them, `rows` more and as many again."""
        moved = self._tail
        live = self._end - moved
        places = max(MIN_ROWS, 2 * (live + rows))
        assert places < MAX_PLACES, f"expected a window of fewer rows, found {live + rows}"
        keys, links = np.empty(places, np.int64), np.empty(places, np.int32)
        keys[:live] = self._keys[moved : self._end]
        np.maximum(self._links[moved : self._end] - moved, -1, out=links[:live])
        self._heads = np.maximum(self._heads - moved, -1)
        self._keys, self._links = keys, links
        self._origin += moved
        self._inserted -= moved
        self._end = live
        self._tail = 0

    def _check(self) -> None:
        assert 0 <= self._tail <= self._inserted <= self._end <= len(self._keys), "rows outside the arrays"
        reached = set()
        for newest in self._heads:
            place = int(newest)
            while place >= self._tail:
                assert place not in reached, f"row {self._origin + place} is reached twice"
                reached.add(place)
                assert self._links[place] < place, "a link does not lead back"
                place = int(self._links[place])
        live = set(range(self._tail, self._inserted))
        assert reached == live, f"{len(live - reached)} live rows cannot be reached"

    def _check_restored(self) -> None:
        size_of_two(len(self._heads), "chains")
        expect(
            len(self._heads) > 1 and len(self._links) == len(self._keys) < MAX_PLACES, "a link for each key"
        )
        expect(0 <= self._origin < FAR, "a number of the first row")
        expect(0 <= self._tail <= self._inserted <= self._end <= len(self._keys), "rows inside their arrays")
        self._heads[:] = -1
        link_rows(self._keys, self._links, self._heads, self._tail, self._inserted)

"""Rows of one side that no row of some other side can meet yet: on the disk, until that is about to come.

In:   rows of the side that lead: their keys are above all that have come of another side.
Out:  the same rows, stored, before the first row is worked whose key is not less on the side that is behind.
Kept: rows in a spool, block by block, with the keys that each has; the last of them in memory, until they are
      a block.

    b has come to 7        a   stored  5 7 6     on the disk  (9 8 11)(10 12 14)
    b comes to 8           (9 8 11) is stored, then b is worked

Law: a row on the disk can be part of no result: some side has had no row with its key, and its frontier has
not passed it. So it makes no difference where the row is, not even for when a result comes.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.ordered_memory.backlog import values_of
from penstock.engine.restoring.in_order import expect
from penstock.engine.spool.spool import Spool
from penstock.engine.spool.spool_folder import SpoolFolder

from .ordered_side import Examined, OrderedSide


class LeadingRows:
    """Of one side."""

    def __init__(self, side: OrderedSide, folder: SpoolFolder) -> None:
        self.spool = Spool(folder)
        self.last_rows = 0
        """Rows that wait to be written, in memory."""
        self._side = side
        self._last: list[pa.RecordBatch] = []
        self._least_of_last: int | None = None
        self._try_at = 0
        self._taken = self._written = 0
        """Blocks, ever."""
        self._least: deque[tuple[int, int]] = deque()
        """Blocks by number that have a lesser key than all behind them, and that key."""

    @property
    def is_empty(self) -> bool:
        return not self._last and not len(self.spool)

    @property
    def rows(self) -> int:
        return self.spool.rows + self.last_rows

    def put_away(self, examined: Examined, rows: NDArray, numbers: NDArray, block: int) -> None:
        """Keep these rows, of those that take part, outside of the store."""
        if len(rows):
            self._put(*self._side.stored_form(examined, rows, numbers), block)

    def put_away_stored(self, key: int, block: int) -> None:
        """Keep what is stored and has a greater key outside of the store, before all that comes."""
        assert self.is_empty, "rows that came later are put away already"
        ts, arrays = self._side.lift(key)
        if len(ts):
            self._put(ts, arrays, block)

    def _put(self, ts: NDArray, arrays: list[pa.Array], block: int) -> None:
        least = int(values_of(arrays[0]).min())
        self._least_of_last = least if self._least_of_last is None else min(least, self._least_of_last)
        arrays = [pa.array(ts), *arrays]
        names = [str(place) for place in range(len(arrays))]
        self._last.append(pa.RecordBatch.from_arrays(arrays, names))
        self.last_rows += len(ts)
        if self.last_rows >= max(block, self._try_at):
            self._write(block)

    def _write(self, block: int) -> None:
        """Let what waits go to the disk, so many rows in a block."""
        waiting = pa.Table.from_batches(self._last).combine_chunks().to_batches(max_chunksize=block)
        self._forget_last()
        for at, rows in enumerate(waiting):
            codes = values_of(rows.column(1))
            least = int(codes.min())
            if not self.spool.append(rows, least, int(codes.max())):
                self._keep_unwritten(waiting[at:])
                return
            while self._least and self._least[-1][1] >= least:
                self._least.pop()
            self._least.append((self._written, least))
            self._written += 1

    def _keep_unwritten(self, batches: list[pa.RecordBatch]) -> None:
        """There was no room for these on the disk."""
        self._last = batches
        self.last_rows = sum(rows.num_rows for rows in batches)
        self._least_of_last = min(int(values_of(rows.column(1)).min()) for rows in batches)
        self._try_at = 2 * self.last_rows

    def _forget_last(self) -> None:
        self._last, self.last_rows, self._least_of_last, self._try_at = [], 0, None, 0

    def bring_back(self, key: int) -> None:
        """Store all rows up to this key, and those before them."""
        until = self._taken
        for number, least in self._least:
            if least <= key:
                until = number + 1
        is_last_needed = self._least_of_last is not None and self._least_of_last <= key
        if is_last_needed:
            until = self._written
        while self._taken < until:
            self._store(self.spool.take())
            self._taken += 1
        while self._least and self._least[0][0] < self._taken:
            self._least.popleft()
        if is_last_needed:
            for rows in self._last:
                self._store(rows)
            self._forget_last()

    def store_unwritten(self) -> None:
        """Store what there was no room for on the disk."""
        if self._try_at:
            for rows in self._last:
                self._store(rows)
            self._forget_last()

    def _store(self, rows: pa.RecordBatch) -> None:
        self._side.store(values_of(rows.column(0)), rows.columns[1:])

    def clear(self) -> None:
        """Nobody asks for these rows any more."""
        self.spool.clear()
        self._taken = self._written
        self._least.clear()
        self._forget_last()

    def _check(self) -> None:
        self.spool._check()
        assert self._written - self._taken == len(self.spool), "blocks that were not taken"
        assert self.last_rows == sum(one.num_rows for one in self._last), "rows that wait to be written"
        least = [one for _, one in self._least]
        assert least == sorted(set(least)), "least keys that do not rise"

    def _check_restored(self) -> None:
        expect(self._written - self._taken == len(self.spool), "blocks that were not taken")
        expect(self.last_rows == sum(one.num_rows for one in self._last), "rows that wait to be written")
        numbers = [number for number, _ in self._least]
        expect(numbers == sorted(set(numbers)), "blocks in order")
        expect(all(self._taken <= number < self._written for number in numbers), "blocks that there are")
        expect(bool(numbers) == bool(len(self.spool)), "a least key of all blocks")

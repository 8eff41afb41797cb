"""Rows that wait on the disk, first in, first out.

In:      batches of rows, each with the least and the greatest of what its owner looks for it by.
Out:     the same batches, in order, once each.
Kept:    where each is; one file is written at a time, and the next begun when that is large enough.
Dropped: a file when all that is in it was taken.

Law: what was taken comes never again, and what was appended comes once: also from a checkpoint, which knows
blocks by their file and place, and reads again what was there then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.engine.restoring.in_order import FAR, expect

from .block import Block
from .block_file import FRONT, pack, read
from .spool_folder import SpoolFolder

SEGMENT_BYTES = 4 << 20


class Spool:
    """Of one owner."""

    def __init__(self, folder: SpoolFolder) -> None:
        self.folder = folder
        self.rows = 0
        self.rows_in = 0
        """All that were ever written."""
        self._blocks: deque[Block] = deque()
        self._writing: str | None = None

    def append(self, rows: pa.RecordBatch, least: int, greatest: int) -> bool:
        """Write rows behind the others; False, and nothing is changed, if there is no room for them."""
        assert rows.num_rows, "a block without rows"
        parts = pack(rows)
        written = self.folder.write(self._writing, parts)
        if written is None:
            return False
        path, at = written
        size = sum(memoryview(one).nbytes for one in parts)
        self._blocks.append(Block(path, at, size, rows.num_rows, least, greatest))
        self.rows += rows.num_rows
        self.rows_in += rows.num_rows
        self._writing = path if at + size < SEGMENT_BYTES else None
        return True

    def take(self) -> pa.RecordBatch:
        """The first batch, which is gone from here."""
        found = read(self._blocks[0])
        self._pop()
        return found

    def clear(self) -> None:
        """Nobody asks for these rows any more."""
        while self._blocks:
            self._pop()

    def _pop(self) -> None:
        block = self._blocks.popleft()
        self.rows -= block.rows
        if self._blocks and self._blocks[0].path == block.path:
            return
        if block.path == self._writing:
            self._writing = None
        self.folder.remove(block.path)

    @property
    def first(self) -> Block | None:
        """The next that will be taken."""
        return self._blocks[0] if self._blocks else None

    def __len__(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.size for block in self._blocks)

    def __getstate__(self) -> dict[str, Any]:
        """Who is restored writes no file on that another engine may be writing."""
        return self.__dict__ | {"_writing": None}

    def _check(self) -> None:
        assert self.rows == sum(block.rows for block in self._blocks), "rows that wait on the disk"
        for one, other in zip(self._blocks, list(self._blocks)[1:], strict=False):
            assert one.path != other.path or one.at + one.size == other.at, "blocks behind one another"

    def _check_restored(self) -> None:
        expect(self._writing is None, "no file that is being written")
        for block in self._blocks:
            expect(0 < block.rows < FAR and 0 <= block.at < FAR, "blocks of rows")
            expect(FRONT.size <= block.size < FAR, "blocks with a front")
            expect(self.folder.has(block.path, block.at + block.size), "blocks in files of the folder")
        expect(self.rows == sum(block.rows for block in self._blocks), "rows that wait on the disk")
        expect(self.rows <= self.rows_in < FAR, "rows that were written")

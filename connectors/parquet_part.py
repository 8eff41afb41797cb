"""A Parquet file on its way: beside its place, under a name of its own, until it is whole and on the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engine.checkpoints.write_whole import open_part, remove_leftovers, sync_folder

GROUP_ROWS = 1 << 17
GROUP_BYTES = 32 << 20  # of wide rows


class ParquetPart:
    """Rows are gathered into row groups, the file is finished or dropped; raises OSError."""

    def __init__(self, target: Path, schema: pa.Schema, group_rows: int = GROUP_ROWS) -> None:
        import pyarrow.parquet as pq

        remove_leftovers(target)
        self._file = open_part(target)
        self._path = Path(self._file.name)
        self._schema = schema
        self._group_rows = group_rows
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self.rows = 0
        try:
            self._writer: Any = pq.ParquetWriter(self._file, schema)
        except BaseException:
            self.drop()
            raise

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += len(batch)
        self._held.append(batch)
        self._held_rows += len(batch)
        self._held_bytes += batch.nbytes
        if self._held_rows >= self._group_rows or self._held_bytes >= GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=GROUP_ROWS)

    @property
    def size(self) -> int:
        """Bytes written so far, without the row group that is being gathered."""
        return self._file.tell()

    def finish(self, target: Path) -> None:
        """Whole and on the disk, then in its place."""
        if self._held:
            self._write_group()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._path, target)  # still locked
        self._file.close()
        sync_folder(target.parent)

    def drop(self) -> None:
        """Nothing of it stays."""
        for name in ("_writer", "_file"):  # a full disk refuses to close them as well
            with suppress(AttributeError, OSError, pa.ArrowException):
                getattr(self, name).close()
        with suppress(OSError):
            os.unlink(self._path)

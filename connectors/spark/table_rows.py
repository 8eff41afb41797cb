"""Rows of static tables: read from files, and compared with those that a saved engine has worked with."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.api import Engine
from penstock.connectors.inputs import Input
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.rows.errors import UsageError

from .file_log import whole_files
from .pack_rows import one_chunk
from .schema import own_type

Stamp = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A table in files, read when it is needed."""

    pattern: str
    schema: pa.Schema

    def toArrow(self) -> pa.Table:
        """All rows; the name is that of a DataFrame's method, which tables may be as well."""
        source = Input(whole_files(self.pattern), self.schema, None, [])
        try:
            batches = []
            while (batch := source.read()) is not None:
                batches.append(batch.data)
        finally:
            source.close()
        return pa.Table.from_batches(batches, self.schema)

    def stamps(self) -> tuple[Stamp, ...]:
        """Other ones when the files have been written again."""
        found = []
        for path in whole_files(self.pattern):
            if os.path.exists(path):  # if not, reading says so
                status = os.stat(path)
                found.append((path, status.st_size, status.st_mtime_ns))
        return tuple(found)


def check_rows(now: Engine, before: Engine) -> None:
    """Refuses a table whose rows are others than those of a saved engine, which would go on with its own."""
    for name in now.tables:
        found, saved = now.table_rows(name), before.table_rows(name)
        if digest_rows(found) != digest_rows(saved):
            raise UsageError(
                f"Expected the {saved.num_rows:,} rows of table `{name}` that the saved state was made with, "
                f"found {found.num_rows:,} that differ: go on with those, or start anew without saved state"
            )


def digest_rows(table: pa.Table) -> str:
    """Stands for the rows in whatever order: Spark gives those of a DataFrame in any."""
    columns = [one_chunk(column.combine_chunks()) for column in table.columns]
    one, two = fingerprint(columns, list(map(own_type, table.schema)), table.num_rows)
    order = np.lexsort([one, two])
    return hashlib.sha256(one[order].tobytes() + two[order].tobytes()).hexdigest()[:32]

"""Rows on their way through Spark's engine: packed, a blob of Arrow per stream and bucket.

Spark's stateful operators look at rows one by one, in Python. So a task packs what it has read, and the
shuffle, the operator and the state see a few blobs: each in time order, in the types that were declared.

    bucket  the name of the bucket (buckets.py)
    stream  whose rows they are
    at      the latest time in them, moved AHEAD: Spark drops what is older than its watermark without a
            word, and which rows are late is for the stream to say
    rows    Arrow IPC
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.intake.declared import Declared
from penstock.engine.rows.types import SqlType

from .buckets import bucket_names, bucket_of
from .schema import INSTANT, label_instants
from .settle import settle

AHEAD = datetime.timedelta(days=36_500)
QUERY = "query"
RESULTS = (QUERY, "rows")
"""What a bucket gives: the new results of a query in one blob."""
LEFT_OUT = ("rows_late", "rows_without_time")
"""Or, without a query, how many rows it has left out."""
GIVEN = f"{QUERY} STRING, rows BINARY, {', '.join(f'{name} BIGINT' for name in LEFT_OUT)}"
ROWS_AT_A_TIME = 1 << 18
SQUEEZED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Packer:
    """For mapInArrow: the rows of a stream, packed by bucket."""

    stream: str
    columns: tuple[str, ...]
    types: tuple[SqlType, ...]
    time_column: int
    key_column: int
    buckets: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= ROWS_AT_A_TIME:
                yield self.pack(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
        if rows:
            yield self.pack(pa.Table.from_batches(waiting))
        settle("rows")

    def pack(self, table: pa.Table) -> pa.RecordBatch:
        """A row per bucket that has any."""
        table = Declared(self.stream, self.columns, self.types).take(table).combine_chunks()
        times = table.column(self.time_column)
        key = table.column(self.key_column).combine_chunks()
        buckets = bucket_of(one_chunk(key), self.types[self.key_column], self.buckets)
        order = np.lexsort([np.asarray(times.cast(pa.int64()).fill_null(0)), buckets])
        table = table.take(pa.array(order))
        here, starts = np.unique(buckets[order], return_index=True)
        names = bucket_names(self.buckets)
        parts = [
            table.slice(start, end - start)
            for start, end in zip(starts, [*starts[1:], table.num_rows], strict=True)
        ]
        ahead = pa.scalar(AHEAD, pa.duration("us"))
        latest = [pc.max(part.column(self.time_column)) for part in parts]
        columns = [
            pa.array([names[bucket] for bucket in here], pa.int32()),
            pa.array([self.stream] * len(parts)),
            pc.add(pa.array(latest, pa.timestamp("us")).fill_null(0), ahead).cast(INSTANT),
            pa.array(map(to_blob, parts), pa.binary()),
        ]
        return pa.record_batch(columns, ["bucket", "stream", "at", "rows"])


@dataclass(frozen=True, slots=True)
class Unpacker:
    """For mapInArrow: the results of one query among those of all."""

    query: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for query, rows in unpack(batches):
            if query == self.query:
                yield from rows.to_batches()


@dataclass(frozen=True, slots=True)
class NamedUnpacker:
    """The same for queries whose results have the same columns; one more has the name of the query."""

    queries: frozenset[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for query, rows in unpack(batches):
            if query in self.queries:
                named = rows.append_column(QUERY, pa.repeat(query, rows.num_rows))
                yield from named.to_batches()


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Queries and results."""
    for batch in batches:
        for query, blob in zip(batch[QUERY].to_pylist(), batch["rows"], strict=True):
            yield query, label_instants(from_blob(blob.as_buffer()))


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def to_blob(table: pa.Table) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema, options=SQUEEZED) as writer:
        writer.write_table(table)
    return bytes(stream.getvalue())


def from_blob(blob: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def from_blobs(blobs: Sequence[bytes]) -> pa.Table:
    return pa.concat_tables(map(from_blob, blobs))

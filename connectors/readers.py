"""One file as record batches: the declared columns, in the declared order, still in the file's own types.

Every reader gives batches of bounded size whatever the size of the file, knows which share of the file it
has given, and raises a DataError naming the file and the row, counted from 1 without the header. Turning
the values into the declared types is `convert.py`'s part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from penstock.engine.rows.errors import FileError

from .batch import Int64s
from .convert import check_types, match_columns
from .read_rules import STRICT, ReadRules
from .source import FORMAT_NAMES, IPC_FILE_MAGIC, PARQUET_MAGIC, Source, reading, show_path

BATCH_ROWS = 1 << 16
BATCH_BYTES = 8 << 20  # of rows that are wide: fewer of them are a batch
FIRST_ROWS = 64


class Reader(Protocol):
    """What all formats have in common; is_written: there is nothing but text, also for numbers."""

    is_written: bool

    numbers: Int64s | None
    """Of the rows of the batch that was given last, where rows before them or among them were left out."""

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def text_of(self, row: int) -> str | None:
        """The row, by its number, as it stands in a file of text; None for other files."""

    def share_done(self) -> float:
        """The part of the file given so far, from 0 to 1; 0 throughout where the end is not known."""

    def close(self) -> None: ...


def rows_of_batch(width: float) -> int:
    """How many rows of so many bytes each make a batch."""
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(width, 1.0))))


def open_reader(path: str, schema: pa.Schema, rules: ReadRules = STRICT) -> Reader:
    """The reader for the format of `path` (`-` is standard input), columns matched against `schema`."""
    from .csv_reader import CsvReader
    from .jsonlines import JsonLinesReader

    source = Source(path, rules.wake)
    try:
        kind = source.detect_format()
        with reading(path, FORMAT_NAMES[kind]):
            match kind:
                case "parquet":
                    return ParquetReader(source, schema)
                case "ipc":
                    return IpcReader(source, schema)
                case "jsonl":
                    return JsonLinesReader(source, schema, rules)
                case _:
                    return CsvReader(source, schema, "\t" if kind == "tsv" else ",", rules)
    except BaseException:
        source.close()
        raise


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, if its columns have the memory they need; who converts it looks at what is in it."""
    batch.validate()
    return batch


class ParquetReader:
    """Parquet, only the declared columns, without ever holding a whole row group decoded."""

    is_written = False
    numbers: Int64s | None = None

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._source = source
        head = source.peek(len(PARQUET_MAGIC))
        if head != PARQUET_MAGIC:
            raise FileError("Expected Parquet, found something else", source=show_path(source.path))
        # buffer_size makes Arrow read a column chunk piece by piece, so that one huge row group is fine too;
        # with pre_buffer, which some versions begin with, it would keep all that it has read of the file.
        self.file = pq.ParquetFile(source.as_seekable(), buffer_size=1 << 20, pre_buffer=False)
        names = self.file.schema_arrow.names
        order = match_columns(schema.names, names, show_path(source.path))
        check_types(schema, self.file.schema_arrow, order, show_path(source.path))
        self.columns = [names[at] for at in order]
        self._rows_done = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        size = rows_of_batch(self._row_bytes())
        for batch in self.file.iter_batches(batch_size=size, columns=self.columns):
            self._rows_done += len(batch)
            yield batch.select(self.columns)

    def _row_bytes(self) -> float:
        """How wide a row is: as the file stores it, or as the first ones are, which may stand there as
        numbers of a dictionary and be a thousand times as long."""
        metadata = self.file.metadata
        wanted = set(self.columns)
        leaves = [self.file.schema.column(at).path for at in range(metadata.num_columns)]
        places = [at for at, name in enumerate(leaves) if name in wanted]
        stored = sum(
            metadata.row_group(number).column(place).total_uncompressed_size
            for number in range(metadata.num_row_groups)
            for place in places
        )
        first = next(self.file.iter_batches(batch_size=FIRST_ROWS, columns=self.columns), None)
        decoded = first.nbytes / len(first) if first is not None and len(first) else 0.0
        return max(stored / max(1, metadata.num_rows), decoded)

    def text_of(self, row: int) -> None:
        """It is no text."""

    def share_done(self) -> float:
        return self._rows_done / max(1, self.file.metadata.num_rows)

    def close(self) -> None:
        self.file.close()
        self._source.close()


class IpcReader:
    """Arrow IPC, the file format (seeks) as well as the stream format (does not)."""

    is_written = False
    numbers: Int64s | None = None

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        import pyarrow.ipc as ipc

        self._source = source
        self._is_file = source.peek(len(IPC_FILE_MAGIC)) == IPC_FILE_MAGIC
        self._batches_done = 0
        path = show_path(source.path)
        if self._is_file:
            # A mapped file is read where rows are looked at: one batch may be larger than memory.
            self._bytes = pa.memory_map(source.path) if source.is_seekable else source.as_seekable()
            self._file: Any = ipc.open_file(self._bytes)
        else:
            self._file = ipc.open_stream(source.as_stream())
        self._order = match_columns(schema.names, self._file.schema.names, path)
        check_types(schema, self._file.schema, self._order, path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if not self._is_file:
            for batch in self._file:
                yield sound(batch.select(self._order))
            return
        for number in range(self._file.num_record_batches):
            held = pa.total_allocated_bytes()
            batch = self._file.get_batch(number).select(self._order)
            if number == 0 and pa.total_allocated_bytes() > held:
                self._read_declared()
            self._batches_done += 1
            yield sound(batch)

    def _read_declared(self) -> None:
        """Columns are copied, or decompressed: from now on only those that are declared."""
        import pyarrow.ipc as ipc

        fields = sorted(self._order)
        self._bytes.seek(0)
        self._file = ipc.open_file(self._bytes, options=ipc.IpcReadOptions(included_fields=fields))
        self._order = [fields.index(field) for field in self._order]

    def text_of(self, row: int) -> None:
        """It is no text."""

    def share_done(self) -> float:
        if self._is_file:
            return self._batches_done / max(1, self._file.num_record_batches)
        return self._source.share_done

    def close(self) -> None:
        self._source.close()

"""Results as CSV and JSON lines: under their own name from the start, so that they can be followed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from .json_text import to_json_lines
from .line_file import LineFile, last_line_end, open_lines
from .quoted_records import last_record_end
from .writing import writing


class TextWriter:
    """What both have in common: lines, on the disk whenever it is time."""

    def __init__(self, path: str, last_end: Callable[[bytes], int] = last_line_end) -> None:
        self.path = path
        self._file: LineFile = open_lines(path, last_end)

    def write(self, batch: pa.RecordBatch) -> None:
        with writing(self.path):
            self._file.write(self._to_text(batch))

    def _to_text(self, batch: pa.RecordBatch) -> bytes:
        return to_json_lines(batch)

    def flush(self) -> None:
        with writing(self.path):
            self._file.sync()

    def close(self) -> None:
        with writing(self.path):
            self._file.close()

    def merge(self) -> None:
        """It is one file already."""


class JsonLinesWriter(TextWriter):
    """A JSON object per line."""


class CsvWriter(TextWriter):
    """A header, then a line per row; text is quoted, NULL is an empty field."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        super().__init__(path, last_record_end)
        with writing(path):
            self._file.write(_to_csv(schema.empty_table(), include_header=True))

    def _to_text(self, batch: pa.RecordBatch) -> bytes:
        return _to_csv(batch, include_header=False)


def _to_csv(rows: pa.RecordBatch | pa.Table, *, include_header: bool) -> bytes:
    import pyarrow.csv as pa_csv

    text = pa.BufferOutputStream()
    pa_csv.write_csv(rows, text, pa_csv.WriteOptions(include_header=include_header))
    return text.getvalue().to_pybytes()

"""Text in blocks that end where a line does, as soon as they are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.engine.rows.errors import DataError

from .quoted_records import end_by_fields, is_open, last_record_end, opens_fields
from .sizes import show_bytes
from .source import Source, show_path

BLOCK_BYTES = 4 << 20
LINE_BYTES = 64 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
RECORD_BYTES = 1 << 20
RECORD_LINES = 1000


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """How long a record with quotes may be."""

    most_bytes: int = RECORD_BYTES
    most_lines: int | None = RECORD_LINES

    def is_passed(self, size: int, line_ends: int) -> bool:
        return size > self.most_bytes or (self.most_lines is not None and line_ends > self.most_lines)

    def error(self, source: str, row: int | None = None) -> DataError:
        lines = "" if self.most_lines is None else f" and {self.most_lines:,} lines"
        return DataError(
            f"Expected a quoted record of at most {show_bytes(self.most_bytes)}{lines}, found a longer one",
            source=source,
            row=row,
            hint="A quote that opens there may never close; --max-record 64MB lets longer ones in",
        )


class Rest(bytes):
    """The last block, if no line end that is outside quotes ends it: its one record may have been cut."""


DEFAULT_LIMIT = RecordLimit()


def cut_blocks(source: Source, *, delimiter: str = "", limit: RecordLimit = DEFAULT_LIMIT) -> Iterator[bytes]:
    """Blocks that are not blank; with a delimiter, a line end within a quoted field ends no line.

    What comes after the last line end is a Rest. A record that is cut by the end of what has been
    read and longer than `limit` is refused without its row, after all before it have been given.
    """
    parts: list[bytes] = []
    held = lines = quotes = 0
    is_start = is_plain = True
    while data := source.read(BLOCK_BYTES):
        if is_start:
            data = data.removeprefix(BYTE_ORDER_MARK)
            is_start = False
        if delimiter and is_plain:
            before = parts[-1][-1:] if parts else b"\n"
            is_plain = opens_fields(before + data, quotes % 2, delimiter)
        if delimiter and not is_plain:
            parts, data = [], b"".join((*parts, data))
            held = lines = 0
            cut = end_by_fields(data, delimiter)
        else:
            cut = last_record_end(data, quotes % 2) if delimiter else data.rfind(b"\n") + 1
        if cut:
            block = b"".join((*parts, data[:cut]))
            parts, held, lines, quotes = [], 0, 0, 0
            if block.strip():
                yield block
        if cut < len(data):
            parts.append(data[cut:])
            held += len(data) - cut
            if delimiter:
                lines += data.count(b"\n", cut)
                quotes += data.count(b'"', cut)
        if delimiter and limit.is_passed(held, lines):
            is_within = quotes % 2 == 1 if is_plain else is_open(b"".join(parts), delimiter)
            if is_within:
                raise limit.error(show_path(source.path))
        if held > max(LINE_BYTES, limit.most_bytes):
            raise DataError(
                f"Expected rows of at most {show_bytes(LINE_BYTES)}, found a longer one",
                source=show_path(source.path),
            )
    rest = Rest(b"".join(parts))
    if rest.strip():
        yield rest

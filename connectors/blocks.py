"""Text in blocks that end where a line does, as soon as they are there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.engine.errors import DataError

from .source import Source, show_path

BLOCK_BYTES = 4 << 20
LINE_BYTES = 64 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
QUOTE = ord('"')


def cut_blocks(source: Source, *, delimiter: str = "") -> Iterator[bytes]:
    """Blocks that are not blank; with a delimiter, a line end within a quoted field ends no line."""
    parts: list[bytes] = []
    held = quotes = 0
    is_start = is_plain = True
    while data := source.read(BLOCK_BYTES):
        if is_start:
            data = data.removeprefix(BYTE_ORDER_MARK)
            is_start = False
        if delimiter and is_plain:
            before = parts[-1][-1:] if parts else b"\n"
            is_plain = _opens_fields(before + data, quotes % 2, delimiter)
        if delimiter and not is_plain:
            parts, data = [], b"".join((*parts, data))
            held = 0
            cut = _end_by_fields(data, delimiter)
        else:
            cut = last_record_end(data, quotes % 2) if delimiter else data.rfind(b"\n") + 1
        if cut:
            block = b"".join((*parts, data[:cut]))
            parts, held, quotes = [], 0, 0
            if block.strip():
                yield block
        if cut < len(data):
            parts.append(data[cut:])
            held += len(data) - cut
            quotes += data.count(b'"', cut) if delimiter else 0
        if held > LINE_BYTES:
            longest = f"{LINE_BYTES >> 20} MB"
            raise DataError(
                f"Expected rows of at most {longest}, found a longer one or a quote that never closes",
                source=show_path(source.path),
            )
    block = b"".join(parts)
    if block.strip():
        yield block


def _opens_fields(data: bytes, is_open: int, delimiter: str) -> bool:
    """Whether every other quote opens a field, or stands right behind one that seemed to close it.

    Then those before a place say whether it is within quotes. A quote within a field that has none around it
    is a character like any other. The first byte is that before the data.
    """
    if b'"' not in data[1:]:
        return True
    text = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(text[1:] == QUOTE)  # also those of the bytes before them
    opening = text[places[is_open::2]]
    return bool(np.isin(opening, np.frombuffer(f'{delimiter}\r\n"'.encode(), np.uint8)).all())


def last_record_end(data: bytes, is_open: int = 0) -> int:
    """The place after the last line end outside quotes, 0 if none; `is_open`: data starts within quotes."""
    end = data.rfind(b"\n") + 1
    inside = (is_open + data.count(b'"', 0, end)) % 2
    while end and inside:
        quote = data.rfind(b'"', 0, end)
        earlier = data.rfind(b"\n", 0, max(quote, 0)) + 1
        inside = (inside + data.count(b'"', earlier, end)) % 2
        end = earlier
    return end


def _end_by_fields(data: bytes, delimiter: str) -> int:
    """The same for data that starts with a row, field by field: slower, and right wherever quotes stand."""
    before = f"{delimiter}\r\n".encode()
    end = at = 0
    while (quote := data.find(b'"', at)) >= 0:
        at = quote + 1
        if quote and data[quote - 1] not in before:
            continue
        end = max(end, data.rfind(b"\n", end, quote) + 1)
        while (close := data.find(b'"', at)) >= 0 and data[close + 1 : close + 2] == b'"':
            at = close + 2
        if close < 0:
            return end
        at = close + 1
    return max(end, data.rfind(b"\n", at) + 1)

"""Records of CSV with quotes in them: where one ends, and whether one is longer than anybody would mean.

A quote that is never closed makes one record of all that follows. So a record with quotes has a limit in
bytes and lines; lines without quotes have that of every line.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

QUOTE = ord('"')
NEWLINE = ord("\n")


def opens_fields(data: bytes, is_open: int, delimiter: str) -> bool:
    """Whether every other quote opens a field, or stands right behind one that seemed to close it.

    Then those before a place say whether it is within quotes. A quote within a field that has none around it
    is a character like any other. The first byte is that before the data.
    """
    if b'"' not in data[1:]:
        return True
    text = np.frombuffer(data, np.uint8)
    places = np.flatnonzero(text[1:] == QUOTE)  # also those of the bytes before them
    opening = text[places[is_open::2]]
    return bool(_before_fields(delimiter)[opening].all())


@cache
def _before_fields(delimiter: str) -> npt.NDArray[np.bool_]:
    """By byte: whether a quote right behind it opens a field, or seemed to close one."""
    found = np.zeros(256, bool)
    found[list(f'{delimiter}\r\n"'.encode())] = True
    return found


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


def end_by_fields(data: bytes, delimiter: str) -> int:
    """The same for data that starts with a record, field by field: slower, right wherever quotes stand."""
    return _walk_fields(data, delimiter)[0]


def is_open(record: bytes, delimiter: str) -> bool:
    """Whether the data, which starts with a record, ends within quotes."""
    return b'"' in record and _walk_fields(record, delimiter)[1]


def _walk_fields(data: bytes, delimiter: str) -> tuple[int, bool]:
    before = f"{delimiter}\r\n".encode()
    end = at = closed = 0  # closed: the place after the last field with quotes
    while (quote := data.find(b'"', at)) >= 0:
        at = quote + 1
        if quote and data[quote - 1] not in before:
            continue
        end = max(end, data.rfind(b"\n", closed, quote) + 1)
        while (close := data.find(b'"', at)) >= 0 and data[close + 1 : close + 2] == b'"':
            at = close + 2
        if close < 0:
            return end, True
        at = closed = close + 1
    return max(end, data.rfind(b"\n", closed) + 1), False


def find_long(block: bytes, delimiter: str, most_bytes: int, most_lines: int | None) -> int | None:
    """Where the first record begins that has quotes and is longer than that; None if there is none.

    From the start of a record we leap as far as one may reach, and back to the last end on the way.
    """
    if b'"' not in block:
        return None
    if len(block) <= most_bytes and (most_lines is None or block.count(b"\n") <= most_lines):
        return None
    is_plain = opens_fields(b"\n" + block, 0, delimiter)
    newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == NEWLINE) if most_lines is not None else None
    start = 0
    while start < len(block):
        reach = start + most_bytes
        if newlines is not None and most_lines is not None:
            last = int(np.searchsorted(newlines, start)) + most_lines - 1
            reach = min(reach, int(newlines[last]) + 1 if last < len(newlines) else len(block))
        if reach >= len(block):
            return None
        data = block[start:reach]
        end = last_record_end(data) if is_plain else end_by_fields(data, delimiter)
        if not end and b'"' not in data:  # it may have one further on
            end = (block.find(b"\n", reach) + 1 or len(block)) - start
            data = block[start : start + end]
            end = 0 if b'"' in data else end
        if not end:
            return start
        start += end
    return None


def split_records(block: bytes, delimiter: str) -> list[bytes]:
    """The records of a block, blank lines left out."""
    records: list[bytes] = []
    held: list[bytes] = []
    for line in block.split(b"\n"):
        held.append(line)
        record = b"\n".join(held)
        if not is_open(record, delimiter):
            held = []
            if record.strip(b"\r"):
                records.append(record)
    return [*records, b"\n".join(held)] if held else records

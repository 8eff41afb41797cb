"""Record batches as JSON lines, column by column: Python never sees a single row.

Times are ISO text in UTC with six decimals and a Z, so that they sort as text and no reader takes them for
local time. What JSON has no number for is text: "NaN", "Infinity", "-Infinity".
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

ROWS_AT_ONCE = 1 << 16
YEAR_0000_US = -62_167_219_200_000_000
YEAR_10000_US = 253_402_300_800_000_000
NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'


def to_json_lines(batch: pa.RecordBatch, query: str | None = None) -> bytes:
    """One JSON object and a line end per row; with `query`, its name comes first, under the key `query`.

    A result column of that name keeps it; the query's name is then under `_query`.
    """
    parts = []
    for start in range(0, len(batch), ROWS_AT_ONCE):
        parts.append(_write(batch.slice(start, ROWS_AT_ONCE), query))
    return b"".join(parts)


def _write(batch: pa.RecordBatch, query: str | None) -> bytes:
    pieces: list[pa.Array | str] = []
    before = "{"
    if query is not None:
        key = "_query" if "query" in batch.schema.names else "query"
        before = f'{{"{key}": {json.dumps(query, ensure_ascii=False)}, '
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        pieces += [f"{before}{json.dumps(name, ensure_ascii=False)}: ", _values(column)]
        before = ", "
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    # No line is NULL, so the lines stand one after the other in the data buffer of the array.
    start, end = lines.offset, lines.offset + len(lines)
    offsets = memoryview(lines.buffers()[1]).cast("i")
    return bytes(memoryview(lines.buffers()[2])[offsets[start] : offsets[end]])


def _values(column: pa.Array) -> pa.Array:
    """The column's values as JSON text."""
    type_ = column.type
    if pa.types.is_timestamp(type_):
        text = _times(column)
    elif pa.types.is_floating(type_):
        text = _numbers(column)
    elif pa.types.is_string(type_):
        text = _texts(column)
    else:
        text = column.cast(pa.string())
    return text.fill_null("null")


def _times(column: pa.Array) -> pa.Array:
    """ISO text; whole microseconds, as a number, for the years that ISO's four digits cannot write."""
    ticks = column.cast(pa.int64())
    text = pc.binary_replace_slice(column.cast(pa.string()), start=10, stop=11, replacement="T")
    text = pc.binary_join_element_wise('"', text, 'Z"', "")
    ends = pc.min_max(ticks).as_py()
    if ends["min"] is None or (ends["min"] >= YEAR_0000_US and ends["max"] < YEAR_10000_US):
        return text
    is_iso = pc.and_(pc.greater_equal(ticks, YEAR_0000_US), pc.less(ticks, YEAR_10000_US))
    return pc.if_else(is_iso, text, ticks.cast(pa.string()))


def _numbers(column: pa.Array) -> pa.Array:
    """Doubles, a whole one with `.0`: readers that guess types should see the same one in every row."""
    text = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    if pc.all(pc.is_finite(column), min_count=0).as_py() is not False:
        return text
    for found, written in (("nan", '"NaN"'), ("inf", '"Infinity"'), ("-inf", '"-Infinity"')):
        text = pc.if_else(pc.equal(text, found), written, text)
    return text


def _texts(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, NEEDS_ESCAPE), min_count=0).as_py():
        encoded = column.dictionary_encode()
        words = [json.dumps(word, ensure_ascii=False) for word in encoded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(encoded.indices)
    return pc.binary_join_element_wise('"', column, '"', "")

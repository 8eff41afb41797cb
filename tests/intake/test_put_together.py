"""Columns in many chunks become the same columns in one, and what they say of themselves is looked at."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.intake.put_together import put_column
from penstock.engine.rows.errors import DataError

NUMBERS = st.integers(-(2**63), 2**63 - 1)
KINDS: dict[pa.DataType, Any] = {
    pa.int64(): NUMBERS,
    pa.uint8(): st.integers(0, 255),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.timestamp("us"): NUMBERS,
    pa.timestamp("ns", "UTC"): NUMBERS,
    pa.date32(): st.integers(-1000, 1000),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.decimals(-1000, 1000, places=2),
    pa.string(): st.text(max_size=3),
    pa.large_string(): st.text(max_size=3),
    pa.string_view(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=3),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from("abc"),
}


@given(st.data(), st.sampled_from(list(KINDS)), st.booleans())
def test_a_column_is_the_same_in_one_chunk(data: st.DataObject, kind: pa.DataType, has_nulls: bool) -> None:
    value = st.none() | KINDS[kind] if has_nulls else KINDS[kind]
    parts = data.draw(st.lists(st.lists(value, max_size=6), min_size=2, max_size=6))
    behind = data.draw(st.integers(0, 2))
    chunks = [pa.array([*part[:behind], *part], kind)[min(behind, len(part)) :] for part in parts]
    column = pa.chunked_array(chunks, kind)
    column.validate(full=True)
    found = put_column(column, "x", "s")
    assert found.type == kind
    assert getattr(found, "num_chunks", 1) == 1
    same = found.cast(kind.value_type) if pa.types.is_dictionary(kind) else found
    wanted = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    if pa.types.is_timestamp(kind):  # Python has no value for some
        same, wanted = same.cast(pa.int64()), wanted.cast(pa.int64())
    assert repr(same.to_pylist()) == repr(wanted.to_pylist())


def short_column(rows: int) -> pa.Array:
    """Integers that say there are `rows` of them, and have memory for one: Arrow's streams can hold such."""
    table = pa.table({"k": pa.array(range(rows), pa.int64())})
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole = bytearray(sink.getvalue().to_pybytes())
    at = whole.rindex(struct.pack("<q", 8 * rows), 0, len(whole) - 8 * rows)
    struct.pack_into("<q", whole, at, 8)
    return ipc.open_stream(bytes(whole)).read_all().column(0).chunk(0)


@pytest.mark.parametrize("sound", [0, 5])
def test_memory_beyond_a_chunk_is_not_read(sound: int) -> None:
    chunks = [*[pa.array([1, 2, 3])] * sound, short_column(1_000), pa.array([4])]
    with pytest.raises(DataError, match="column `k`") as caught:
        put_column(pa.chunked_array(chunks), "k", "s")
    assert "`s`" in str(caught.value)


def test_texts_of_few_rows_are_looked_at_value_by_value() -> None:
    """Offsets in the middle that lead far away, which Arrow sees if asked to look at all."""
    offsets = pa.py_buffer(np.array([0, 10**9, 3], np.int32))
    far = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    far.validate()
    with pytest.raises(DataError, match="column `t`"):
        put_column(pa.chunked_array([far, pa.array(["a"])]), "t", "s")

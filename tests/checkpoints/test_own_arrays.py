"""Arrays that classes write to in place come back in the hands of one object alone; what was compressed is as
long as it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.checkpoints import checkpoint
from penstock.engine.checkpoints.object_builder import Build
from penstock.engine.checkpoints.object_graph import Walk
from penstock.engine.indexes.hash import HashIndex
from penstock.engine.restoring.in_order import Disorder
from penstock.engine.restoring.restorable import Unknown, restorable
from penstock.engine.rows.arrow_stream import read_table
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.expiry_queue import ExpiryQueue
from penstock.engine.rows.store import FixedColumn
from penstock.engine.rows.types import SqlType


def taken_apart(value: Any) -> tuple[int, list[Any], list[bytes], list[Any]]:
    walk = Walk(restorable())
    number = walk.take(value)
    arrays = walk.arrays()
    return number, walk.records, [bytes(one) for one in walk.buffers], arrays


def built(number: int, records: list[Any], buffers: list[bytes], arrays: list[Any]) -> Any:
    return Build(restorable(), records, buffers, arrays).all()[number]


def place_of(records: list[Any], name: str) -> tuple[list[Any], int]:
    """The record of the object that has an attribute, and where in it."""
    for record in records:
        if record[0] == "object" and name in records[record[2]][1].split():
            return record, 3 + records[record[2]][1].split().index(name)
    raise AssertionError(name)


def test_links_are_in_the_hands_of_one_index() -> None:
    index = HashIndex(0)
    index.insert(np.arange(300) % 7)
    number, records, buffers, arrays = taken_apart(index)
    assert isinstance(built(number, records, buffers, arrays), HashIndex)
    record, links = place_of(records, "_links")
    _, heads = place_of(records, "_heads")
    other = [list(one) for one in records]
    other[records.index(record)][heads] = record[links]  # the same record for both
    with pytest.raises((Disorder, Unknown), match="of one owner"):
        built(number, other, buffers, arrays)
    other = [list(one) for one in records]
    other[record[heads]][1] = records[record[links]][1]  # the same array in two records
    with pytest.raises((Disorder, Unknown), match="of one owner"):
        built(number, other, buffers, arrays)
    mine, yours = arrays[records[record[links]][1]], arrays[records[record[heads]][1]]
    yours[3:5] = mine[3:5]  # two arrays in one place
    with pytest.raises((Disorder, Unknown), match="of one owner"):
        built(number, records, buffers, arrays)


@pytest.mark.parametrize(("field", "value"), [(2, [0]), (2, [16]), (5, False)])
def test_what_is_written_in_place_has_no_gaps(field: int, value: Any) -> None:
    queue = ExpiryQueue()
    number, records, buffers, arrays = taken_apart(queue)
    record, meta = place_of(records, "meta")
    entry = arrays[records[record[meta]][1]]
    entry[field] = value
    if value == [16]:
        buffers[entry[3]] *= 2
    with pytest.raises(Disorder, match="without gaps"):
        built(number, records, buffers, arrays)


def test_a_buffer_and_what_others_see_of_it_part() -> None:
    """As two buffers would not: each would write what the other has looked at."""
    column = FixedColumn(SqlType.BIGINT)
    column.append(pa.array([1, 2, 3]))
    found, view = (lambda one: (one[0], one[1]))(built(*taken_apart([column, column.view()])))
    found.values.data[:] = 9
    assert view.take(np.arange(3)).to_pylist() == [1, 2, 3]
    buffers = RowBuffer("int64"), RowBuffer("int64")
    buffers[0].append(np.arange(5))
    buffers[1].data, buffers[1].end = buffers[0].data, 5
    with pytest.raises(Disorder, match="one buffer of rows in a place"):
        built(*taken_apart(list(buffers)))


def test_parts_of_lists_that_hold_themselves_are_looked_at_once() -> None:
    queue = ExpiryQueue()
    number, records, buffers, arrays = taken_apart(queue)
    record, ring = place_of(records, "_ring")
    at = len(records)
    records.append(["list", at])
    record[ring] = at
    with pytest.raises((Disorder, Unknown)):
        built(number, records, buffers, arrays)


@pytest.mark.parametrize("length", [999, 1001, 2000, 100_000])
def test_what_was_compressed_is_as_long_as_it_says(length: int) -> None:
    """Beyond what was written there would be memory of anybody in this process."""
    stored = pa.compress(bytes(1000), codec="lz4", asbytes=True)
    assert bytes(checkpoint.unpack(memoryview(stored), 1000)) == bytes(1000)
    with pytest.raises(ValueError, match="expected"):
        checkpoint.unpack(memoryview(stored), length)


def stream_of(table: pa.Table, compression: str | None) -> bytes:
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, table.schema, options=options) as to:
        to.write_table(table)
    return bytes(out.getvalue().to_pybytes())


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_arrow_data_is_not_compressed(rows: int) -> None:
    """A few bytes could be said to be as many as the machine has room for."""
    table = pa.table({"a": pa.array(range(rows), pa.int64()), "b": pa.array(["x"] * rows)})
    assert read_table(stream_of(table, None)).equals(table)
    for compression in ("lz4", "zstd"):
        if rows:
            with pytest.raises(ValueError, match="compressed"):
                read_table(stream_of(table, compression))
    coded = pa.table({"a": pa.array(["x"] * rows).dictionary_encode()})
    if rows:
        with pytest.raises(ValueError, match="compressed"):
            read_table(stream_of(coded, None))

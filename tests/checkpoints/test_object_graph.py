"""Objects written down and made again: identity, circles, overlapping arrays; what is not ours is refused."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.checkpoints.object_builder import Build, Unknown
from penstock.engine.checkpoints.object_graph import Walk
from penstock.engine.expressions.expression import Column, Literal
from penstock.engine.flow.queue import Outlet, Queue, nobody
from penstock.engine.flow.scheduler import Ready
from penstock.engine.restoring.restorable import restorable
from penstock.engine.rows.array_memory import Room
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.errors import UsageError
from penstock.engine.rows.types import SqlType
from penstock.engine.selects.union import Union


def written(value: Any) -> tuple[Any, ...]:
    walk = Walk(restorable())
    number = walk.take(value)
    arrays = walk.arrays()
    records, arrays = msgpack.unpackb(msgpack.packb([walk.records, arrays]), strict_map_key=False)
    return number, records, [bytes(one) for one in walk.buffers], arrays


def back(value: Any) -> Any:
    number, records, buffers, arrays = written(value)
    return Build(KNOWN, records, buffers, arrays).all()[number]


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, -(2**63), 2**64 - 1, 2**70, -(2**90), 1.5, "text", b"\0", (), (1, (2,)),
        [1, 1.0, True, "1"], {"a": [1], 2: {3}}, frozenset({1, 2}), deque([1]), Counter("aab"),
        range(2, 9, 3),
        SqlType.DOUBLE, Column(SqlType.BIGINT, 0, "k"), Literal(SqlType.DOUBLE, 1.0),
        {Column(SqlType.BIGINT, 0, "k"): 1}, np.int64(3), np.dtype("int32"), pa.schema([("a", pa.int64())]),
        pa.timestamp("us"), pa.array(["a", None]), pa.table({"a": [1, 2]}), nobody,
        pa.record_batch({"a": pa.array([], pa.int64())}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_come_back(value: Any) -> None:
    found = back(value)
    assert type(found) is type(value)
    assert found == value


def test_zeros_and_nan_keep_their_bits() -> None:
    assert list(map(repr, back([0.0, -0.0, float("nan")]))) == ["0.0", "-0.0", "nan"]


def test_what_is_common_stays_common_and_circles_close() -> None:
    queue, outlet, ready = Queue(), Outlet(), Ready()
    outlet.queues.append(queue)
    union = Union((queue,), "u")
    ready.enter(union)
    assert ready.take(union)
    one, two, made, again = back((outlet, queue, [outlet], ready))
    assert one.queues == [two] and made[0] is one
    two.wake()
    (operator,) = again.all()
    assert operator.inputs == (two,), "the method is one of what came back"


def test_a_counter_goes_on() -> None:
    numbers = itertools.count(5)
    next(numbers)
    assert next(back(numbers)) == 6


def test_arrays_that_overlap_stay_one() -> None:
    whole = np.arange(20)
    apart = np.arange(5)
    first, square, lone, odd = back([whole[:10], whole[4:16].reshape(3, 4), apart, whole[1:12:2]])
    first[4] = 99
    assert square[0, 0] == 99 and odd.tolist() == [1, 3, 5, 7, 9, 11] and lone.tolist() == apart.tolist()
    square[0, 1] = 77
    assert odd[2] == 77


def test_arrays_keep_shape_order_and_whether_they_may_be_written() -> None:
    frozen = np.arange(3)
    frozen.flags.writeable = False
    for array in (
        frozen,
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(9)[::-2],
    ):
        found = back(array)
        assert found.dtype == array.dtype and found.tolist() == array.tolist()
        assert found.shape == array.shape and found.flags.writeable == array.flags.writeable


def test_of_a_part_only_the_part_is_written() -> None:
    _, _, buffers, _ = written(np.arange(1000)[100:110])
    assert sum(map(len, buffers)) == 80


def test_memory_lives_as_long_as_what_is_to_be_written() -> None:
    """A time that a whole batch has in common takes one place; written down it is a copy nobody else has."""
    walk = Walk(restorable())
    walk.take(np.broadcast_to(np.int64(7), 1000))
    walk.arrays()
    (buffer,) = walk.buffers
    del walk
    others = [np.zeros(1000, np.int64) for _ in range(100)]
    assert bytes(buffer) == np.full(1000, 7).tobytes()
    assert not any(map(np.any, others))


def test_a_restored_buffer_slides_again_when_it_has_memory_of_its_own() -> None:
    buffer = RowBuffer("int64")
    buffer.slides = True
    buffer.append(np.arange(200))
    held, restored = back([buffer.run(0, 200), buffer])
    restored.append(np.arange(200, 210))  # those who came back with it may hold rows: it moves
    assert restored.data.base is None and held.tolist() == list(range(200))
    size = len(restored.data)
    for first in range(210, 10_000, 10):
        restored.drop(first - 50)
        restored.append(np.arange(first, first + 10))
        assert restored.live.tolist() == list(range(first - 50, first + 10))
    assert len(restored.data) <= size, "it slid"


def test_of_a_buffer_only_live_rows_are_written() -> None:
    rows = RowBuffer("int64")
    rows.append(np.arange(1000))
    rows.drop(990)
    _, _, buffers, _ = written(rows)
    assert sum(map(len, buffers)) == 80
    found = back(rows)
    found._check()
    found.append(np.array([5]))
    assert found.live.tolist() == [*range(990, 1000), 5] and (found.tail, found.end) == (990, 1001)


def test_of_a_room_only_what_is_used() -> None:
    found = back(Room(np.arange(8).reshape(4, 2), 1))
    assert found.shape == (4, 2) and found[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    "value", [lambda: None, object(), open, Exception, np.random.default_rng(1), (i for i in "a"), print]
)
def test_what_is_not_ours_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="Expected what a checkpoint can hold, found"):
        written([value])


KNOWN = restorable()
FINE = [["", "engine.flow.queue.Outlet"], ["", "queues punctuation closed"], ["list"], ["", 5], ["", False]]


def build(
    records: list[Any], arrays: list[Any] | None = None, buffers: list[bytes] | None = None
) -> list[Any]:
    return Build(KNOWN, records, buffers or [], arrays or []).all()


@pytest.mark.parametrize(
    "record",
    [
        ["object", 0, 0], ["function", 0], ["class", 0], ["value", 0, 0], ["named", 0], ["enum", 0, "x"],
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "name",
    [
        "os.system", "builtins.eval", "penstock.engine.flow.queue.deque", "engine.flow.queue.deque",
        "engine.x",
        "connectors.writers.CsvWriter", "engine.write_whole.write_whole", "engine.array_memory.Room",
    ],
)  # fmt: skip
def test_nothing_else_is_looked_up(record: list[Any], name: str) -> None:
    with pytest.raises(Unknown):
        build([["", name], record])


def test_methods_are_those_of_the_class() -> None:
    with pytest.raises(Unknown):
        build([["", "x"], ["method", 0, "format"]])
    for name in ("api.Engine.checkpoint", "query.Query.subscribe", "cli.main.main"):  # what users are given
        with pytest.raises(Unknown, match="can be restored"):
            KNOWN.function(name)


def test_an_object_has_the_attributes_of_its_class() -> None:
    made = build([*FINE, ["object", 0, 1, 2, 3, 4]])[5]
    assert (made.queues, made.punctuation, made.closed) == ([], 5, False)
    for record in (
        ["object", 0, 1, 2, 4, 3],  # of other types
        ["object", 0, 1, 2, 3],  # too few
        ["object", 0, 1, 2, 3, 4, 4],
        ["object", 0, 1, 2, 3, 9],  # a record that is not there
        ["object", 0, 1, 2, 3, -1],
        ["object", 0, 1, 2, 3, 4.0],
        ["object", 3, 1],
        ["value", 0, 1, 2, 3, 4],  # made in another way
        ["named", 0, 2, 3, 4],
    ):
        with pytest.raises((Unknown, ValueError)):
            build([*FINE, record])
    with pytest.raises(Unknown, match="Expected `Outlet` with"):
        build([FINE[0], ["", "queues"], ["list"], ["object", 0, 1, 2]])
    with pytest.raises(Unknown, match="Expected each attribute once"):
        build([FINE[0], ["", "closed closed"], ["", True], ["object", 0, 1, 2, 2]])


@pytest.mark.parametrize(
    "records",
    [
        [["tuple", 1], ["tuple", 0]],  # parts of each other
        [["tuple", 0]],
        [["tuple"], *(["tuple", n] for n in range(600))],  # whose hash is one call in another
        [["tuple"], *(["tuple", n, n] for n in range(40))],  # 2 ** 40 parts
        [["list", 3]], [["", []]], [["", 1, 2]], [["nothing"]], [[]], [3], [[None]],
        [["wide", "x"]], [["range", 1, 2]], [["scalar", "|O", b"12345678"]], [["dtype", "|O"]],
        [["", "x"], ["count", 0]], [["array", 0]], [["array", -1]], [["objects", [2], 0]], [["table", 0]],
    ],
)  # fmt: skip
def test_records_that_are_not_in_order_are_refused(records: list[Any]) -> None:
    with pytest.raises((Unknown, ValueError, TypeError)):
        build(records)


@pytest.mark.parametrize(
    "entry",
    [
        ["<i8", [3], None, 0, 0, True],  # 16 bytes are there
        ["<i8", [2], None, 0, 8, True], ["<i8", [2], None, 0, -8, True], ["<i8", [1], None, 0, 4, True],
        ["<i8", [2], [-8], 0, 0, True], ["<i8", [2], [16], 0, 0, True], ["<i8", [2], [4], 0, 0, True],
        ["<i8", [1 << 40], [0], 0, 0, True], ["<i8", [-1], None, 0, 0, True],
        ["<i8", [1 << 62], None, 0, 0, True],
        ["<i8", [1, 1, 1, 1, 1], None, 0, 0, True], ["<i8", [2], [8, 8], 0, 0, True],
        ["<i8", 2, None, 0, 0, True],
        ["<i8", [2], None, 1, 0, True], ["<i8", [2], None, -2, 0, True], ["<i8", [2], None, "0", 0, True],
        ["|O", [2], None, 0, 0, True], ["<M8[us]", [2], None, 0, 0, True],
        [[["a", "<i8"]], [2], None, 0, 0, True],
    ],
)  # fmt: skip
def test_arrays_are_inside_their_buffers(entry: list[Any]) -> None:
    assert build([["array", 0]], [["<i8", [2], None, 0, 0, True]], [bytes(16)])[0].tolist() == [0, 0]
    with pytest.raises((ValueError, TypeError)):
        build([["array", 0]], [entry], [bytes(16)])


def test_room_has_an_end() -> None:
    used = [["<i8", [2], None, 0, 0, True]]
    assert build([["room", 0, 4]], used, [bytes(16)])[0].tolist() == [0, 0, 0, 0]
    for rows in (1, -1, 1 << 28, 1 << 62):
        with pytest.raises(Unknown, match="Expected room"):
            build([["room", 0, rows]], used, [bytes(16)])


def test_arrow_data_is_looked_at() -> None:
    """An offset that leads out of the text, where all else is as it was."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"": pa.array(["some", "text", "here"])})
    with pa.ipc.new_stream(sink, batch.schema) as to:
        to.write_batch(batch)
    data = sink.getvalue().to_pybytes()
    assert build([["arrow", 0]], [], [data])[0].to_pylist() == ["some", "text", "here"]
    offsets = np.array([0, 4, 8, 12], np.int32).tobytes()
    far = np.array([0, 4, 1 << 20, 12], np.int32).tobytes()
    assert data.count(offsets) == 1
    with pytest.raises(pa.ArrowInvalid):
        build([["arrow", 0]], [], [data.replace(offsets, far)])

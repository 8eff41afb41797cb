"""Arrow data made wrong, by mistake or on purpose: DataError, nothing taken, nothing foreign read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import rows_of
from test_ingest import make, snapshot

import penstock
from penstock import DataError
from penstock.connectors.open_inputs import load_tables
from penstock.engine.intake.sound import is_sound

STREAM = "CREATE STREAM s (ts TIMESTAMP, t VARCHAR, k BIGINT)"


def text(offsets: list[int], data: bytes, kind: Any = None, valid: bytes | None = None) -> pa.Array:
    """A text array of any offsets over any bytes."""
    kind = kind or pa.string()
    width = np.int64 if kind == pa.large_string() else np.int32
    bits = None if valid is None else pa.py_buffer(valid)
    buffers = [bits, pa.py_buffer(np.array(offsets, width)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def by_number(indices: Any, values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices), values, safe=False)


def views(place: int, value: int) -> pa.Array:
    """Two long texts as views, one number in the first of them changed."""
    sound = pa.array(
        ["a text of more than twelve letters", "another text, as long as the first"], pa.string_view()
    )
    _, found, *data = sound.buffers()
    changed = np.frombuffer(found, np.int32).copy()
    changed[place] = value
    return pa.Array.from_buffers(pa.string_view(), 2, [None, pa.py_buffer(changed), *data])


WORDS = pa.array(["a", "b"])
HOSTILE: dict[str, tuple[pa.Array, int | None]] = {
    "not UTF-8": (text([0, 1, 2], b"a\xff"), 2),
    "not UTF-8, large": (text([0, 1, 2], b"a\xff", pa.large_string()), 2),
    "half a letter": (text([0, 1, 2], "ü".encode()), 1),
    "half a letter at the end": (text([0, 1, 2], b"a\xc3"), 2),
    "a letter in two halves": (text([0, 1, 2, 3], "aü".encode()), 2),
    "offsets out of order": (text([0, 3, 1, 4], b"abcd"), 2),
    "an offset far away": (text([0, 10**9, 2, 3], b"abc"), 1),
    "large offsets out of order": (text([0, 1 << 40, 1, 2], b"abc", pa.large_string()), 1),
    "an index beyond the dictionary": (by_number([0, 5], WORDS), 2),
    "an index below zero": (by_number([-1, 0], WORDS), 1),
    "an index into nothing": (by_number([0], WORDS[:0]), 1),
    "an index far away": (by_number(np.array([0, 2**62]), WORDS), 2),
    "a dictionary that is not UTF-8": (by_number([0, 1], text([0, 1, 2], b"a\xff")), 1),
    "an index beyond a dictionary's dictionary": (by_number([0, 1], by_number([0, 7], WORDS)), 1),
    "a view of another buffer": (views(2, 9), 1),
    "a view before its buffer": (views(2, -1), 1),
    "a view beyond its buffer": (views(3, 10**8), 1),
    "a view of minus two letters": (views(0, -2), 1),
    "bytes that are not UTF-8": (pa.array([b"a", b"\xff"]), 2),
}  # fmt: skip


def table_of(column: pa.Array) -> pa.Table:
    n = len(column)
    return pa.table({"ts": list(range(1, n + 1)), "t": column, "k": list(range(n))})


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_push_is_refused_and_nothing_taken(kind: str) -> None:
    column, row = HOSTILE[kind]
    engine, (query,) = make(STREAM, "SELECT t, k FROM s")
    engine.push("s", {"ts": [0], "t": ["x"], "k": [0]})
    before = snapshot(engine)
    for table in (table_of(column), pa.Table.from_batches(table_of(column).to_batches())):
        with pytest.raises(DataError) as caught:
            engine.push("s", table)
        assert "`s`" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert row is None or caught.value.row == row
    assert snapshot(engine) == before
    engine.push("s", {"ts": [9], "t": ["ü"], "k": [1]})
    assert rows_of(query.results()) == [(0, "x", 0), (9, "ü", 1)]


@pytest.mark.parametrize("kind", HOSTILE)
def test_cut_into_many_chunks_as_well(kind: str) -> None:
    column, _ = HOSTILE[kind]
    engine, _ = make(STREAM, "SELECT t, k FROM s")
    rows = [table_of(column).set_column(0, "ts", pa.array([0] * len(column))) for _ in range(40)]
    with pytest.raises(DataError):
        engine.push("s", pa.concat_tables(rows))
    assert engine.stats()["streams"]["s"]["rows_in"] == 0


@pytest.mark.parametrize("new", [ipc.new_file, ipc.new_stream], ids=["file", "stream"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_arrow_files_are_refused(kind: str, new: Callable[..., Any], tmp_path: Path) -> None:
    column, _ = HOSTILE[kind]
    try:
        with new(str(tmp_path / "f.arrow"), pa.schema([("t", column.type)])) as writer:
            writer.write_table(pa.table({"t": column}))
    except (pa.ArrowException, OSError):
        pytest.skip("Arrow writes no such file")
    engine = penstock.Engine()
    engine.execute("CREATE TABLE t (t VARCHAR)")
    with pytest.raises(DataError):
        load_tables(engine, {"t": [[str(tmp_path / "f.arrow")]]})


def test_columns_that_nobody_reads_are_not_looked_at() -> None:
    engine, (query,) = make("CREATE STREAM s (ts TIMESTAMP)", "SELECT ts FROM s")
    engine.push("s", table_of(HOSTILE["not UTF-8"][0]))
    assert query.count == 2


def test_what_lies_behind_a_null_may_be_anything() -> None:
    engine, (query,) = make(STREAM, "SELECT t FROM s")
    engine.push("s", table_of(text([0, 1, 2, 3], b"a\xffb", valid=b"\x05")))
    assert [row[1] for row in rows_of(query.results())] == ["a", None, "b"]


def test_a_view_behind_a_null_is_not_followed() -> None:
    sound = pa.array(["a", None, "a text of more than twelve letters"], pa.string_view())
    bits, found, *data = sound.buffers()
    changed = np.frombuffer(found, np.int32).copy()
    changed[4] = -(2**31)
    array = pa.Array.from_buffers(pa.string_view(), 3, [bits, pa.py_buffer(changed), *data])
    assert push_text(array) == sound.to_pylist()
    assert push_text(array.slice(1)) == sound.to_pylist()[1:]


TYPES_NOT_READ = [
    pa.array([[1], [2]]),
    pa.array([{"a": 1}, {"a": 2}]),
    pa.RunEndEncodedArray.from_arrays([1, 2], pa.array([1, 2])),
    pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "2"])),
    pa.array([b"abcd"] * 2, pa.binary(4)),
]


@pytest.mark.parametrize("column", TYPES_NOT_READ, ids=[str(one.type) for one in TYPES_NOT_READ])
def test_types_that_are_never_read_are_refused_by_name(column: pa.Array) -> None:
    engine, _ = make(STREAM)
    for name in ("ts", "t", "k"):
        table = table_of(WORDS)
        table = table.set_column(table.schema.names.index(name), name, column)
        with pytest.raises(penstock.SchemaError, match=f"in column `{name}`, found "):
            engine.push("s", table)


def test_two_columns_of_one_name() -> None:
    engine, (query,) = make(STREAM, "SELECT t FROM s")
    table = table_of(WORDS)
    with pytest.raises(penstock.SchemaError, match="Expected one column `t`, found `t` and `t`"):
        engine.push("s", table.append_column("t", WORDS))
    engine.push("s", table.append_column("T", WORDS).append_column(" t", WORDS))  # the exact one goes before
    engine.push("s", table.rename_columns(["Ts", "T", "K"]).set_column(0, "ts", pa.array([8, 9])))
    with pytest.raises(penstock.SchemaError, match="Expected one column `t`, found `T` and ` t`"):
        engine.push("s", table.rename_columns(["ts", "T", "k"]).append_column(" t", WORDS))
    assert query.count == 4


def test_chunks_there_are_none_of() -> None:
    engine, (query,) = make(STREAM, "SELECT t FROM s")
    none = {"ts": pa.int64(), "t": pa.dictionary(pa.int8(), pa.string()), "k": pa.decimal128(9, 2)}
    engine.push("s", pa.table({name: pa.chunked_array([], kind) for name, kind in none.items()}))
    assert query.count == 0


LETTERS = st.sampled_from(["a", "ü", "€", "🌍", "", b"\xff", b"\xc3", b"\xa9", b"\xed\xa0\x80"])


@given(st.lists(st.lists(LETTERS, max_size=3), max_size=5), st.lists(st.integers(0, 9), max_size=3))
def test_text_against_what_arrow_finds_value_by_value(words: list[list[Any]], nulls: list[int]) -> None:
    parts = [b"".join(c.encode() if isinstance(c, str) else c for c in word) for word in words]
    offsets = np.cumsum([0, *map(len, parts)]).tolist()
    bits = np.packbits(
        np.array([n not in nulls for n in range(len(parts))], bool), bitorder="little"
    ).tobytes()
    array = text(offsets, b"".join(parts) + b"\xff", valid=bits if parts else None)
    for start in range(len(parts) + 1):
        part = array.slice(start)
        try:
            part.validate(full=True)
        except pa.ArrowInvalid:
            assert not is_sound(part)
            with pytest.raises(DataError):
                push_text(part)
        else:
            assert push_text(part) == part.to_pylist()


def push_text(array: pa.Array) -> list[Any]:
    engine = penstock.Engine()
    engine.execute("CREATE TABLE t (t VARCHAR)")
    engine.push("t", pa.table({"t": array}))
    return engine.table_rows("t")["t"].to_pylist()


@pytest.mark.slow
def test_arrow_files_with_any_byte_changed_never_crash(tmp_path: Path) -> None:
    """Refused or read; foreign memory that is read would end the process sooner or later."""
    words = ["a", "ü", None, "a text of more than twelve letters"]
    columns = {
        "t": pa.array(words),
        "l": pa.array(words, pa.large_string()),
        "v": pa.array(words, pa.string_view()),
        "d": pa.array(words).dictionary_encode(),
        "k": pa.array([1, 2, None, 4]),
    }
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    whole = sink.getvalue().to_pybytes()
    dice = np.random.default_rng(5)
    outcomes = {True: 0, False: 0}
    for _ in range(10_000):
        changed = bytearray(whole)
        for place in dice.integers(8, len(whole), dice.integers(1, 4)):
            changed[place] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, int(dice.integers(256))])
        (tmp_path / "f.arrow").write_bytes(changed)
        engine = penstock.Engine()
        engine.execute("CREATE TABLE t (t VARCHAR, l VARCHAR, v VARCHAR, d VARCHAR, k BIGINT)")
        try:
            load_tables(engine, {"t": [[str(tmp_path / "f.arrow")]]})
            engine.table_rows("t").validate(full=True)
            outcomes[True] += 1
        except DataError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 100, outcomes

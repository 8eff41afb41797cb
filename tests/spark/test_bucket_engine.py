"""A bucket's engine and its state: whatever worker runs a step, and however often, results are the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_help import BEGIN, SECOND, bag, draw_stream

import penstock
from penstock.connectors.spark import bucket_engine, bucket_state
from penstock.connectors.spark.bucket_engine import BucketEngine
from penstock.connectors.spark.pack_rows import Packer, from_blob
from penstock.connectors.spark.start_engine import Setup
from penstock.engine.rows.errors import CheckpointError
from penstock.engine.rows.types import SqlType

DECLARED = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, name VARCHAR, "
    "WATERMARK FOR ts AS ts - 2 SECONDS);"
    for name in "ab"
)
QUERIES = """
CREATE QUERY pairs AS
  SELECT l.id AS l, r.id AS r FROM a [RANGE 3 SECONDS] AS l JOIN b [NOW] AS r ON l.k = r.k;
CREATE QUERY totals AS SELECT k, COUNT(*) AS n FROM b [RANGE 2 SECONDS] GROUP BY k;
"""
STREAMS = {"a": draw_stream(7, 120, 20), "b": draw_stream(8, 120, 20)}
TYPES = (SqlType.TIMESTAMP, SqlType.BIGINT, SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR)
LEFT_OUT: Counter[str] = Counter()
"""Rows that steps have said they left out."""
LATER_MS = (BEGIN + 100 * SECOND) // 1000


class Store:
    """Spark's state of one bucket, as the handle shows it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.timers: set[int] = set()

    def getValueState(self, name: str, schema: str) -> Cell:
        return Cell(self, name)

    getListState = getValueState

    def registerTimer(self, at: int) -> None:
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:
        self.timers.remove(at)

    def copy(self) -> Store:
        made = Store()
        made.values = {name: list(v) if isinstance(v, list) else v for name, v in self.values.items()}
        made.timers = set(self.timers)
        return made


class Cell:
    """A value or a list."""

    def __init__(self, store: Store, name: str) -> None:
        self._values, self._name = store.values, name

    def get(self) -> Any:
        return self._values.get(self._name, None if self._name == "head" else [])

    def update(self, value: Any) -> None:
        self._values[self._name] = value

    put = update

    def appendValue(self, value: Any) -> None:
        self._values.setdefault(self._name, []).append(value)

    def clear(self) -> None:
        self._values[self._name] = []


class Moment:
    def __init__(self, watermark_ms: int) -> None:
        self._watermark_ms = watermark_ms

    def getCurrentWatermarkInMs(self) -> int:
        return self._watermark_ms


class Blob:
    """A row of Spark's."""

    def __init__(self, stream: str, rows: bytes) -> None:
        self.stream, self.rows = stream, rows


def pack(stream: str, table: pa.Table) -> list[Blob]:
    packed = Packer(stream, tuple(table.schema.names), TYPES, 0, 2, 1).pack(table)
    return [Blob(stream, blob.as_py()) for blob in packed["rows"]]


def step(
    store: Store, blobs: list[Blob], watermark_ms: int, queries: str = QUERIES, layout: str = "one"
) -> dict[str, Counter[Any]]:
    processor = BucketEngine(Setup(DECLARED + queries, {}, {}), layout, queries, 1)
    processor.init(store)  # type: ignore[arg-type]
    moment: Any = Moment(watermark_ms)
    if blobs:
        rows = processor.handleInputRows((0,), iter(blobs), moment)  # type: ignore[arg-type]
    else:
        rows = processor.handleExpiredTimer((0,), moment, moment)
    assert store.timers == {watermark_ms + 1}
    found = {}
    for row in rows:
        if row.query is None:
            LEFT_OUT.update({"late": row.rows_late, "without_time": row.rows_without_time})
        else:
            found[row.query] = bag(from_blob(row.rows))
    return found


def whole(queries: str = QUERIES) -> dict[str, Counter[Any]]:
    engine = penstock.Engine()
    engine.execute(DECLARED + queries)
    for name, table in STREAMS.items():
        engine.push(name, table)
    engine.advance(LATER_MS * 1000)
    return {name: bag(query.results()) for name, query in engine.queries.items()}


def add(found: dict[str, Counter[Any]], more: dict[str, Counter[Any]]) -> None:
    for name, rows in more.items():
        found.setdefault(name, Counter()).update(rows)


EVENTS = st.tuples(
    st.integers(0, 3),  # of ten parts, how many more of a
    st.integers(0, 3),
    st.sampled_from(["", "", "elsewhere", "again", "again elsewhere"]),
)


@given(st.lists(EVENTS, max_size=12), st.integers(0, 3), st.sampled_from([0, 3000, 1 << 18]))
@settings(max_examples=25)
def test_workers_come_and_go(events: list[tuple[int, int, str]], most_steps: int, least_bytes: int) -> None:
    """elsewhere: another worker has the bucket. again: the batch failed after its step; Spark undoes it."""
    patch = pytest.MonkeyPatch()
    patch.setattr(bucket_state, "MOST_STEPS", most_steps)
    patch.setattr(bucket_state, "LEAST_LOG_BYTES", least_bytes)
    bucket_engine._at_hand.clear()
    store, found = Store(), dict[str, Counter[Any]]()
    places, latest = {"a": 0, "b": 0}, {"a": 0, "b": 0}
    for a, b, event in [*events, (10, 10, ""), (0, 0, "")]:
        watermark_ms = max(0, min(latest.values()) // 1000 - 2000)
        blobs = []
        for name, parts in (("a", a), ("b", b)):
            part = STREAMS[name].slice(places[name], parts * 12)
            places[name] += part.num_rows
            if part.num_rows:
                blobs += pack(name, part)
                latest[name] = max(latest[name], *part["ts"].cast(pa.int64()).to_pylist())
        if "again" in event:
            step(store.copy(), blobs, watermark_ms)
        if "elsewhere" in event:
            bucket_engine._at_hand.clear()
        add(found, step(store, blobs, watermark_ms))
    add(found, step(store, [], LATER_MS))
    patch.undo()
    assert found == whole()


@pytest.mark.parametrize("size", [0, 999, 1001, 1 << 62, -1])
def test_the_size_of_a_checkpoint_is_that_of_its_bytes(size: int) -> None:
    """Whatever somebody has written before them: no more room is made than they can fill."""
    packed = pa.compress(bytes(1000), codec="lz4", asbytes=True)
    assert bytes(bucket_state.unpacked((1000).to_bytes(8, "little") + packed)) == bytes(1000)
    with pytest.raises(CheckpointError, match="in the state of a bucket"):
        bucket_state.unpacked((size % (1 << 64)).to_bytes(8, "little") + packed)


def test_a_query_comes_and_goes() -> None:
    """The log is of the queries before: it is gone over with them, and begun anew."""
    bucket_engine._at_hand.clear()
    store = Store()
    first, rest = {}, {}
    for name, table in STREAMS.items():
        first[name], rest[name] = pack(name, table.slice(0, 40)), pack(name, table.slice(40))
    step(store, first["a"], 0)
    step(store, first["b"], 0)  # in the log
    more = (
        "CREATE QUERY more AS SELECT l.id AS l FROM a [RANGE 1 SECOND] AS l JOIN b [NOW] AS r ON l.k = r.k;"
    )
    queries = QUERIES.split("CREATE QUERY totals")[0] + more
    found = step(store, rest["a"] + rest["b"], 0, queries)
    bucket_engine._at_hand.clear()
    add(found, step(store, [], LATER_MS, queries))
    assert set(found) == {"pairs", "more"}
    expected = whole(queries)
    assert expected["more"].total() > 20
    assert not found["more"] - expected["more"]
    assert (expected["more"] - found["more"]).total() < expected["more"].total() / 2


def test_what_no_restart_may_change() -> None:
    bucket_engine._at_hand.clear()
    store = Store()
    step(store, pack("a", STREAMS["a"]), 0, layout="2 buckets by `a.k`")
    with pytest.raises(
        penstock.UsageError, match=r"Expected 2 buckets by `a\.k` as in the checkpoint, found 3 b"
    ):
        step(store, [], 0, layout="3 buckets by `a.k`")
    changed = QUERIES.replace("COUNT", "SUM")
    with pytest.raises(penstock.UsageError, match="found another text"):
        step(store, [], 0, changed.replace("SUM(*)", "SUM(id)"), "2 buckets by `a.k`")


def test_late_rows_are_dropped_unless_a_query_refuses_them() -> None:
    """Older than Spark's watermark, though not older than what this bucket has seen.

    A query that has refused them can be told to drop them, on the same state.
    """
    bucket_engine._at_hand.clear()
    LEFT_OUT.clear()
    late = pack("a", STREAMS["a"].slice(0, 5))
    every = "CREATE QUERY every AS SELECT id FROM a;"
    assert step(Store(), late, LATER_MS, every) == {}
    assert LEFT_OUT == {"late": 5, "without_time": 0}
    store = Store()
    strict = every.replace(";", " LATE ERROR;")
    assert step(store, pack("a", STREAMS["a"]), 0, strict)["every"].total() > 60
    with pytest.raises(penstock.LateError, match="Expected rows in time order"):
        step(store.copy(), late, LATER_MS, strict)
    LEFT_OUT.clear()
    step(store, late, LATER_MS, strict.replace("ERROR", "/* now */ DROP"))
    assert LEFT_OUT["late"] == 5


def test_a_column_that_is_new() -> None:
    """A bucket that has state leaves it aside, one that begins does not know better, both give the same."""
    bucket_engine._at_hand.clear()
    table = STREAMS["b"]
    wide = table.append_column("more", pa.array(range(table.num_rows)))
    declared = DECLARED.replace("name VARCHAR", "name VARCHAR, more BIGINT")
    first, rest = pack("b", table.slice(0, 60)), []
    packer = Packer("b", (*table.schema.names, "more"), (*TYPES, SqlType.BIGINT), 0, 2, 1)
    for blob in packer.pack(wide.slice(60))["rows"]:
        rest.append(Blob("b", blob.as_py()))
    store = Store()
    found = step(store, first, 0)
    for blobs, watermark_ms in ((rest, 0), ([], LATER_MS)):
        processor = BucketEngine(Setup(declared + QUERIES, {}, {}), "one", "wide", 1)
        processor.init(store)  # type: ignore[arg-type]
        moment: Any = Moment(watermark_ms)
        given = processor.handleInputRows((0,), iter(blobs), moment)  # type: ignore[arg-type]
        add(found, {row.query: bag(from_blob(row.rows)) for row in given if row.query})
        bucket_engine._at_hand.clear()  # the log is gone over, with blobs of both kinds
    assert found["totals"] == whole()["totals"]


def test_rows_without_a_time_are_left_out() -> None:
    """Counted once, also when the step is gone over again elsewhere."""
    bucket_engine._at_hand.clear()
    LEFT_OUT.clear()
    table = STREAMS["a"].slice(0, 3)
    odd = table.set_column(0, "ts", pa.array([None, BEGIN, None], table.schema.field("ts").type))
    every = "CREATE QUERY every AS SELECT id FROM a;"
    store = Store()
    step(store, pack("a", odd), 0, every)
    step(store, pack("a", odd.slice(2)), 0, every)
    bucket_engine._at_hand.clear()
    assert step(store, [], LATER_MS, every) == {"every": Counter([(BEGIN, table["id"][1].as_py())])}
    assert LEFT_OUT == {"late": 0, "without_time": 3}


def test_a_restart_with_another_slack_is_refused() -> None:
    """The saved engine would go on with the slack it was made with, and call rows late that are not."""

    def setup(slack: str) -> Setup:
        sql = f"CREATE STREAM s (ts TIMESTAMP, x BIGINT, WATERMARK FOR ts AS ts - {slack});"
        return Setup(f"{sql} CREATE QUERY q AS SELECT x FROM s;", {}, {})

    saved = setup("2 SECONDS").go_on(None)
    assert setup("2000 ms").go_on(saved) is saved
    with pytest.raises(penstock.UsageError, match=r"`ts less 2 SECONDS`, found `ts less 1 MINUTE`"):
        setup("1 MINUTE").go_on(saved)
    with pytest.raises(
        penstock.UsageError, match=r"found `ts less 2 SECONDS ahead at most 1 DAY after 10 rows`"
    ):
        setup("2 SECONDS AHEAD AT MOST 1 DAY").go_on(saved)

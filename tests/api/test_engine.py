"""The Python API as docs/reference/calls.md has it: every name, what it promises, and what it refuses."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rows_of
from test_ingest import snapshot

import penstock

STREAMS = "CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
JOIN = "SELECT a.k, a.ts AS ats, b.ts AS bts FROM a [RANGE 10 us] JOIN b [RANGE 10 us] ON a.k = b.k"


def make(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute(STREAMS)
    return engine


def join_stats(engine: penstock.Engine, query: penstock.Query) -> dict[str, Any]:
    """The statistics of a query's join."""
    stats = engine.stats()
    shared = [
        one for group in stats["groups"] if query.name in group["queries"] for one in group["operators"]
    ]
    operators = stats["queries"][query.name]["operators"] + shared
    return next(one for one in operators if one["kind"] == "WindowJoin")


def rows(*ts: int, k: int = 1) -> dict[str, list[int]]:
    return {"ts": list(ts), "k": [k] * len(ts)}


# -- statements ---------------------------------------------------------------------------------------


def test_execute_takes_any_number_of_statements() -> None:
    engine = penstock.Engine()
    engine.execute("")
    engine.execute(f"-- nothing but a comment\n;;{STREAMS};\n/* and */ CREATE QUERY q AS SELECT k FROM a;")
    assert list(engine.streams) == ["a", "b"]
    assert engine.streams["a"] == pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
    assert list(engine.queries) == ["q"]
    assert engine.time_column("A") == "ts"


@pytest.mark.parametrize(
    "wrong", ["CREATE QUERY p AS SELECT z FROM a", "DROP QUERY z", "CREATE STREAM A (ts TIMESTAMP)", "CREATE"]
)
def test_execute_is_atomic(wrong: str) -> None:
    engine = make()
    engine.execute("CREATE QUERY old AS SELECT k FROM a")
    before, explained = snapshot(engine), engine.explain()
    with pytest.raises(penstock.QueryError):
        engine.execute(
            f"CREATE STREAM c (ts TIMESTAMP); CREATE QUERY new AS SELECT ts FROM c; DROP QUERY old; {wrong}"
        )
    assert (list(engine.streams), list(engine.queries)) == (["a", "b"], ["old"])
    assert (snapshot(engine), engine.explain()) == (before, explained)
    engine.push("a", rows(1))
    assert engine.queries["old"].count == 1


def test_a_script_may_drop_and_create_the_same_name() -> None:
    engine = make()
    engine.execute("CREATE QUERY q AS SELECT k FROM a")
    engine.execute(
        "DROP QUERY q; CREATE QUERY q AS SELECT k + 1 AS n FROM a; CREATE QUERY p AS SELECT k FROM b"
    )
    engine.push("a", rows(1))
    assert engine.queries["q"].results()["n"].to_pylist() == [2]


def test_two_queries_of_one_name() -> None:
    engine = make()
    engine.query("SELECT k FROM a", name="q")
    for again in (
        lambda: engine.query("SELECT k FROM a", name="Q"),
        lambda: engine.execute("CREATE QUERY q AS SELECT k FROM a"),
    ):
        with pytest.raises(penstock.BindError, match=r"(?i)found a query `q` already") as caught:
            again()
        assert caught.value.exit_code == 3
    assert list(engine.queries) == ["q"]


def test_a_query_knows_what_it_is() -> None:
    engine = make()
    sql = "SELECT k, k / 2 AS half, 'x' AS t, k > 1 AS big, ts FROM a"
    query = engine.query(sql, name="Named")
    assert (query.name, query.sql) == ("Named", sql)
    types = [pa.timestamp("us"), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us")]
    assert query.schema.names == ["_ts", "k", "half", "t", "big", "ts"]
    assert query.schema.types == types
    assert query.results().schema == query.schema
    assert engine.query("SELECT k FROM a").name != engine.query("SELECT k FROM a").name
    engine.push("a", rows(*range(1234)))
    assert repr(query) == "<Query Named: 1,234 results>"


# -- results ------------------------------------------------------------------------------------------


def test_results_are_what_is_new() -> None:
    engine = make()
    query = engine.query("SELECT k FROM a")
    engine.push("a", rows(1, 2))
    assert (query.results().num_rows, query.results().num_rows) == (2, 0)
    engine.push("a", rows(3))
    assert rows_of(query.results()) == [(3, 1)]
    assert query.count == 3


def test_subscribe_takes_the_place_of_results() -> None:
    engine = make()
    query = engine.query("SELECT k FROM a")
    engine.push("a", rows(1))
    seen: list[pa.RecordBatch] = []
    query.subscribe(seen.append)
    assert [batch.num_rows for batch in seen] == [1]  # what had come before
    engine.push("a", rows(2, 3))
    also: list[pa.RecordBatch] = []
    query.subscribe(also.append)
    engine.push("a", rows(4))
    assert all(isinstance(batch, pa.RecordBatch) and batch.schema == query.schema for batch in seen)
    assert [ts for batch in seen for ts, _ in rows_of(pa.table(batch))] == [1, 2, 3, 4]
    assert [ts for batch in also for ts, _ in rows_of(pa.table(batch))] == [4]
    assert query.results().num_rows == 0
    assert query.count == 4


def test_count_only_counts_and_keeps_nothing() -> None:
    engine = make()
    sqls = [
        "SELECT k FROM a WHERE k > 0",
        "SELECT k FROM a [ROWS 2]",
        "SELECT x FROM (SELECT k AS x FROM a UNION ALL SELECT k FROM b) AS u WHERE x > 1",
        JOIN,
        f"{JOIN} WHERE a.k + b.k > 0",
        f"{JOIN} AND a.ts = b.ts",
        f"{JOIN} UNION ALL {JOIN}",
    ]
    pairs = [(engine.query(sql), engine.query(sql, count_only=True)) for sql in sqls]
    for ts in range(0, 60, 3):
        engine.push("a", rows(ts, ts, ts + 1, k=ts % 4))
        engine.push("b", rows(ts, ts + 2, k=ts % 4))
    engine.close()
    for kept, counted in pairs:
        assert counted.count == kept.count == kept.results().num_rows > 0, kept.sql
        with pytest.raises(penstock.UsageError, match="only counts"):
            counted.results()
        with pytest.raises(penstock.UsageError, match="only counts"):
            counted.subscribe(print)
        assert engine.stats()["queries"][counted.name]["operators"][-1]["state_rows"] == 0


# -- life cycle ---------------------------------------------------------------------------------------


def test_drop_stops_a_query_and_frees_its_name() -> None:
    engine = make()
    query, other = engine.query("SELECT k FROM a", name="q"), engine.query("SELECT k FROM a", name="other")
    engine.push("a", rows(1))
    query.drop()
    assert list(engine.queries) == ["other"]
    assert "q" not in engine.stats()["queries"]
    assert "q  EMIT" not in engine.explain()
    with pytest.raises(penstock.UsageError, match="dropped"):
        query.drop()
    engine.push("a", rows(2))
    assert (query.count, other.count) == (1, 2)
    assert query.results().num_rows == 1  # what had come before can be read
    again = engine.query("SELECT k FROM a", name="q")
    engine.push("a", rows(3))
    assert again.count == 1


def test_closed_is_closed() -> None:
    engine = make()
    query = engine.query(JOIN)
    engine.push("a", rows(1))
    engine.push("b", rows(1, 5))
    engine.close()
    engine.close()
    for what in (
        lambda: engine.push("a", rows(9)),
        lambda: engine.advance(9),
        lambda: engine.query("SELECT k FROM a"),
        lambda: engine.execute("CREATE STREAM c (ts TIMESTAMP)"),
    ):
        with pytest.raises(penstock.UsageError, match="closed") as caught:
            what()
        assert caught.value.exit_code == 2
    assert query.results().num_rows == 2
    assert engine.stats()["streams"]["a"]["rows_in"] == 1
    assert "WindowJoin" in engine.explain(analyze=True)


def test_with_closes() -> None:
    with make() as engine:
        query = engine.query("SELECT k FROM a [ROWS 1]")
        engine.push("a", rows(1))
        assert query.count == 0
    assert query.count == 1
    with pytest.raises(penstock.UsageError):
        engine.advance(5)


def test_close_brings_time_to_the_latest_row_and_no_further() -> None:
    engine = make()
    query = engine.query(JOIN)
    engine.push("a", rows(1))
    engine.push("b", rows(8))
    engine.close()
    assert rows_of(query.results())[0][0] == 8
    # a's row lives until 11: it is not expired
    assert join_stats(engine, query)["state_rows"] == 2
    assert engine.stats()["streams"]["a"]["watermark"] == 8


def test_times_are_datetimes_or_microseconds() -> None:
    moment = datetime.datetime(2020, 1, 1)
    zone = datetime.timezone(datetime.timedelta(hours=-7))
    us = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    utc = moment.replace(tzinfo=datetime.UTC)
    numpy_times = [np.datetime64("2020-01-01"), np.int64(us)]
    pandas_times = [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC")]
    for same in (us, moment, utc, utc.astimezone(zone), *numpy_times, *pandas_times):
        engine = make()
        engine.advance(same)
        assert engine.stats()["streams"]["a"]["watermark"] == us, repr(same)
    for wrong in (1.5, "2020-01-01", None, True, datetime.date(2020, 1, 1), 2**62, -(2**62)):
        engine = make()
        with pytest.raises(penstock.UsageError):
            engine.advance(wrong)  # type: ignore[arg-type]
        assert engine.stats()["streams"]["a"]["watermark"] is None


def test_advance_never_goes_back() -> None:
    engine = make()
    engine.advance(10)
    engine.advance(5)
    assert engine.stats()["streams"]["a"]["watermark"] == 10


# -- a query started in the middle --------------------------------------------------------------------


def test_complete_from_is_none_from_the_start() -> None:
    engine = make()
    assert engine.query(JOIN).complete_from is None
    engine.push("b", rows(50))
    assert engine.query("SELECT k FROM a").complete_from is None


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), min_size=4, max_size=40), st.data())
def test_from_complete_from_on_the_answers_are_exact(
    moves: list[tuple[str, int]], data: st.DataObject
) -> None:
    """A join started in the middle against one that was there from the start."""
    engine = make()
    sql = JOIN.replace("a [RANGE 10 us]", f"a [RANGE {data.draw(st.integers(1, 20))} us]")
    whole = engine.query(sql)
    start = data.draw(st.integers(1, len(moves)))
    now = {"a": 0, "b": 0}
    late: penstock.Query | None = None
    for place, (stream, step) in enumerate(moves):
        if place == start:
            late = engine.query(sql)
        now[stream] += step
        engine.push(stream, rows(now[stream]))
    engine.close()
    if late is None:
        return
    since = late.complete_from
    us = -1 if since is None else (since - EPOCH) // datetime.timedelta(microseconds=1)
    expected = Counter(row for row in rows_of(whole.results()) if row[0] >= us)
    assert Counter(row for row in rows_of(late.results()) if row[0] >= us) == expected


# -- insight ------------------------------------------------------------------------------------------

OPERATOR_FIELDS = {
    "name",
    "kind",
    "rows_in",
    "rows_out",
    "state_rows",
    "state_bytes",
    "queue_rows",
    "steps",
    "busy_s",
}


def test_stats_say_what_was_done() -> None:
    engine = make()
    engine.execute(
        f"CREATE QUERY j AS {JOIN} WHERE a.k > 0; CREATE QUERY u AS SELECT k FROM a UNION ALL SELECT k FROM b"
    )
    engine.push("a", {"ts": [1, 2, 3], "k": [1, 0, 1]})
    engine.push("b", rows(2))
    stats = engine.stats()
    assert stats["streams"]["a"] == {
        "rows_in": 3,
        "rows_processed": 3,
        "rows_late": 0,
        "rows_ahead": 0,
        "rows_held": 0,
        "bytes_held": 0,
        "watermark": 3,
        "time_jumps": 0,
    }
    assert set(stats["queries"]) == {"j", "u"}
    for query in stats["queries"].values():
        assert query["error"] is None
        for operator in query["operators"]:
            assert operator.keys() - {"indexes"} == OPERATOR_FIELDS
            assert operator["busy_s"] >= 0
    by_kind = {one["kind"]: one for one in stats["queries"]["j"]["operators"]}
    join = by_kind["WindowJoin"]
    # b is at 2: a's row at 3 waits in the queue, its row with k = 0 was filtered on the way in
    assert (join["rows_in"], join["rows_out"], join["queue_rows"], join["state_rows"]) == (3, 1, 1, 2)
    assert len(join["indexes"]) == 2
    assert by_kind["Sink"]["rows_in"] == stats["queries"]["j"]["results"] == 1
    union = {one["kind"]: one for one in stats["queries"]["u"]["operators"]}["Union"]
    assert (union["rows_in"], union["rows_out"], union["queue_rows"]) == (3, 3, 1)


def test_stats_and_explain_change_nothing() -> None:
    engine = make()
    query = engine.query(JOIN)
    engine.push("a", rows(1))
    before = snapshot(engine)
    for _ in range(2):
        engine.stats()["streams"].clear()
        engine.explain(analyze=True)
        engine.explain(json=True)
    assert snapshot(engine) == before
    assert query.results().num_rows == 0


def test_options_are_checked() -> None:
    for option, value in (
        ("sharing", "sometimes"),
        ("expiry", "never"),
        ("index", "tree"),
        ("index", ("hash", "tree")),
    ):
        with pytest.raises(penstock.UsageError, match=f"Expected {option} to be") as caught:
            make(**{option: value})
        assert (caught.value.exit_code, "\n" in str(caught.value)) == (2, False)
    engine = make(index=("hash", "b+tree"))
    query = engine.query(JOIN)
    assert join_stats(engine, query)["indexes"] == ["hash", "b+tree"]


def test_set_rate_is_heard_by_the_cost_model() -> None:
    slow, fast = make(), make()
    for stream in ("a", "b"):
        fast.set_rate(stream, 10_000_000)
    band = JOIN.replace("a.k = b.k", "ABS(a.k - b.k) < 3").replace("10 us", "10 MILLISECONDS")
    indexes = [join_stats(engine, engine.query(band))["indexes"] for engine in (slow, fast)]
    assert indexes[0] == ["scan", "scan"]
    assert "scan" not in indexes[1]
    with pytest.raises(penstock.UsageError, match="Expected a declared stream"):
        slow.set_rate("nowhere", 5)


# -- a query that fails on the data -------------------------------------------------------------------

WINDOWED = "a [RANGE 9 us] JOIN b [RANGE 9 us]"
LARGEST = 2**63 - 1
FAILING = {
    "SELECT 10 // k AS x FROM a": "Division by zero in `10 // a.k`",
    "SELECT k FROM a WHERE 10 % k = 1": "Division by zero in `10 % a.k`",
    f"SELECT k + {LARGEST} AS x FROM a": f"int64 overflow in `a.k + {LARGEST}`",
    f"SELECT a.k FROM {WINDOWED} ON 10 // a.k = b.k": "Division by zero",
    f"SELECT a.k FROM {WINDOWED} ON a.k <= b.k AND 10 // (a.k * b.k) > 1": "Division by zero",
    "SELECT k FROM a UNION ALL SELECT 10 // k FROM a": "Division by zero",
}


@pytest.mark.parametrize("sql", FAILING)
@pytest.mark.parametrize("first", [True, False])
def test_a_query_that_fails_on_the_data_stops_alone(sql: str, first: bool) -> None:
    engine = make()
    good = engine.query(JOIN, name="good") if first else None
    bad = engine.query(sql, name="bad")
    good = good or engine.query(JOIN, name="good")
    engine.push("b", rows(1, 2, 3))
    with pytest.raises(penstock.StoppedError, match=re.escape(FAILING[sql])) as caught:
        engine.push("a", {"ts": [1, 2, 3], "k": [1, 0, 1]})
    assert caught.value.exit_code == 4
    # the rows are in, and the other query has seen them
    assert engine.stats()["streams"]["a"]["rows_in"] == 3
    assert good.results().num_rows == 6
    engine.push("b", rows(4))
    engine.push("a", rows(4))
    assert good.results().num_rows == 2 + 4
    if bad.count:  # by rows before the bad one
        assert bad.results().num_rows == bad.count
    with pytest.raises(penstock.StoppedError, match=re.escape(FAILING[sql])):
        bad.results()
    assert FAILING[sql] in engine.stats()["queries"]["bad"]["error"]
    assert engine.stats()["queries"]["good"]["error"] is None
    bad.drop()
    again = engine.query("SELECT k FROM a", name="bad")
    engine.push("a", rows(5))
    engine.close()
    assert again.count == 1


def test_two_queries_failing_on_one_push_are_both_told_of() -> None:
    engine = make()
    one, two = engine.query("SELECT 1 // k AS x FROM a"), engine.query("SELECT 2 // k AS x FROM a")
    with pytest.raises(penstock.StoppedError, match="Division by zero"):
        engine.push("a", rows(1, k=0))
    engine.push("a", rows(2, k=0))  # nobody is left to fail
    for query in (one, two):
        with pytest.raises(penstock.StoppedError, match="Division by zero"):
            query.results()

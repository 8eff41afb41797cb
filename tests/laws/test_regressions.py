"""Mistakes that were made once: each a named case."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from oracle import Oracle, Reference, rows_of

import penstock
from penstock.engine.flow import scheduler
from penstock.engine.flow.scheduler import RoundRobin
from penstock.engine.indexes.build import INDEX_KINDS, build_index
from penstock.engine.indexes.index import Probes
from penstock.engine.intake.reorder import Reorder
from penstock.engine.joins import found_pairs
from penstock.engine.rows.batch import Batch
from penstock.engine.selects import select
from penstock.query import NEVER

DECLARE = "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR)"
PAIRS = "FROM a [RANGE 1 SECOND] AS x JOIN b [RANGE 1 SECOND] AS y ON {}"


@pytest.fixture
def engine() -> penstock.Engine:
    engine = penstock.Engine()
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    return engine


def rows(ts: Any, k: Any = 1, v: float = 0.0, s: str = "") -> dict[str, Any]:
    count = len(ts)
    ks = k if isinstance(k, list) else [k] * count
    return {"ts": list(ts), "id": list(range(count)), "k": ks, "v": [v] * count, "s": [s] * count}


def test_long_texts_come_out_in_batches_that_fit(
    engine: penstock.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets of Arrow's strings have 32 bits: 400 x 400 pairs of 66 kB each would wrap around."""
    monkeypatch.setattr(found_pairs, "MAX_TEXT_BYTES", 1_000)
    query = engine.query(f"SELECT x.s, y.s AS t {PAIRS.format('x.k = y.k')}")
    sizes: list[int] = []
    query.subscribe(lambda batch: sizes.append(batch.num_rows))
    engine.push("a", rows(range(20), s="y" * 90))
    engine.push("b", rows(range(20), s="z" * 10))
    engine.close()
    assert sum(sizes) == 400
    assert max(sizes) <= 10
    assert len(sizes) <= 80


def test_what_was_pushed_may_be_reused_by_the_caller(engine: penstock.Engine) -> None:
    query = engine.query("SELECT k FROM a")
    k = np.array([5, 6])
    frame = pd.DataFrame(rows([3, 4]) | {"k": np.array([7, 8])})
    engine.push("a", rows([1, 2]) | {"k": k})
    engine.push("a", frame)
    k[:] = 99
    frame.loc[:, "k"] = 99
    assert query.results()["k"].to_pylist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    "condition",
    [
        "y.v BETWEEN x.v + 1000 - 1000.2 AND x.v + 1e6 - 999999.8",
        "y.v + 1 >= x.v + 1",
        "y.v - 0.1 <= x.v + 0.2",
    ],
)
def test_constants_that_cancel_in_a_band_of_doubles(engine: penstock.Engine, condition: str) -> None:
    """What they cancel to says nothing of what rounding they cost."""
    values = [i / 10 for i in range(25)] + [1e-20, 2e-20]
    streams = {
        name: pa.table(rows(range(len(values))) | {"v": pa.array(values), "s": pa.array([""] * len(values))})
        for name in ("a", "b")
    }
    oracle = Oracle(streams, [Reference("a", "x", "range", 10**6), Reference("b", "y", "range", 10**6)])
    query = engine.query(f"SELECT x.id, y.id AS yid {PAIRS.format(condition)}")
    for name, table in streams.items():
        engine.push(name, table)
    assert Counter(rows_of(query.results())) == oracle.inserts("x.id, y.id", condition)


def test_both_branches_of_a_union_fail_in_one_round(engine: penstock.Engine) -> None:
    other = engine.query("SELECT k FROM a")
    query = engine.query("SELECT 1 // k AS y FROM a UNION ALL SELECT 2 // k AS y FROM a", name="halves")
    with pytest.raises(penstock.StoppedError, match="in query `halves`"):
        engine.push("a", rows([1], 0))
    with pytest.raises(penstock.StoppedError, match="in query `halves`"):
        query.results()
    assert other.count == 1


def test_results_made_before_a_failure_can_be_read(engine: penstock.Engine) -> None:
    query = engine.query("SELECT 10 // k AS y FROM a")
    engine.push("a", rows([1], 5))
    with pytest.raises(penstock.StoppedError):
        engine.push("a", rows([2], 0))
    assert query.results()["y"].to_pylist() == [2]
    with pytest.raises(penstock.StoppedError):
        query.results()


def test_complete_from_waits_until_windows_hold_new_rows_only(engine: penstock.Engine) -> None:
    fresh = engine.query("SELECT k FROM a")
    engine.push("a", rows([1, 2, 3]))
    plain = engine.query("SELECT k FROM a")
    last = engine.query("SELECT x.id FROM a [ROWS 3] AS x JOIN a [NOW] AS y ON x.k = y.k")
    ever = engine.query("SELECT x.id FROM a [RANGE UNBOUNDED] AS x JOIN a [NOW] AS y ON x.k = y.k")
    long = engine.query("SELECT x.id FROM a [RANGE 53375990 DAYS] AS x JOIN a [NOW] AS y ON x.k = y.k")

    def at(us: int) -> datetime.datetime:
        return datetime.datetime(1970, 1, 1, 0, 0, 0, us, tzinfo=datetime.UTC)

    assert fresh.complete_from is None
    assert plain.complete_from == at(4)  # rows at 3 came before it
    assert last.complete_from == ever.complete_from == long.complete_from == NEVER
    engine.push("a", rows([5, 6, 7, 8]))
    engine.advance(9)
    assert last.complete_from == at(7)
    assert [row[0] for row in rows_of(last.results())].count(8) == 3


def test_an_old_handle_does_not_drop_a_new_query(engine: penstock.Engine) -> None:
    old = engine.query("SELECT k FROM a", name="one")
    old.drop()
    new = engine.query("SELECT k FROM a", name="one")
    with pytest.raises(penstock.UsageError, match="dropped already"):
        old.drop()
    engine.push("a", rows([1]))
    assert new.count == 1


def test_a_query_without_a_name_finds_one(engine: penstock.Engine) -> None:
    engine.query("SELECT k FROM a", name="q1")
    engine.query("SELECT k FROM a", name="q2")
    assert engine.query("SELECT k FROM a").name == "q3"


def test_a_subscriber_that_raises_harms_nobody_else(engine: penstock.Engine) -> None:
    seen: list[int] = []
    query = engine.query("SELECT k FROM a")

    def broken(_: pa.RecordBatch) -> None:
        raise RuntimeError("not today")

    query.subscribe(broken)
    query.subscribe(lambda batch: seen.extend(batch["k"].to_pylist()))
    other = engine.query("SELECT x.k FROM a [NOW] AS x JOIN a [NOW] AS y ON x.k = y.k")
    with pytest.raises(penstock.SubscriberError, match="not today"):
        engine.push("a", rows([1], 7))
    assert seen == [7]
    assert other.count == 1
    kept = engine.query("SELECT k FROM b")
    engine.push("b", rows([1], 8))
    with pytest.raises(RuntimeError, match="not today"):
        kept.subscribe(broken)
    assert kept.results()["k"].to_pylist() == [8]


@pytest.mark.parametrize(
    "ts",
    [pd.NaT, np.datetime64("NaT"), np.float64(1.9), np.True_, True, np.array([1, 2]), "1970-01-01", None],
)
def test_what_is_no_time_is_refused(engine: penstock.Engine, ts: Any) -> None:
    with pytest.raises(penstock.UsageError, match="Expected a datetime or int microseconds"):
        engine.advance(ts)


@pytest.mark.parametrize("rate", [-5, 0, "fast", float("inf"), float("nan"), None])
def test_what_is_no_rate_is_refused(engine: penstock.Engine, rate: Any) -> None:
    with pytest.raises(penstock.UsageError, match="Expected a rate above 0"):
        engine.set_rate("a", rate)


@pytest.mark.parametrize(
    "data",
    [
        rows([1]) | {"k": 5},
        rows([1]) | {"k": None},
        rows([1]) | {"k": [2**64]},
        {5: [1], **rows([1])},
        pd.DataFrame(rows([1, 2]) | {"k": [1, "x"]}),
        pd.Series([1, 2]),
        pl.Series([1, 2]),
        5,
        None,
    ],
)
def test_what_is_no_table_is_refused_in_one_line(engine: penstock.Engine, data: Any) -> None:
    with pytest.raises(penstock.PenstockError) as caught:
        engine.push("a", data)
    assert "Expected" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_columns_of_one_name_are_refused(engine: penstock.Engine) -> None:
    table = pa.table(rows([1]))
    with pytest.raises(penstock.SchemaError, match="Expected one column `k`, found `k` and `k`"):
        engine.push("a", table.append_column("k", pa.array([2])))
    query = engine.query("SELECT k FROM a")
    engine.push("a", table.append_column("K", pa.array([2])))
    assert query.results()["k"].to_pylist() == [1]


@pytest.mark.parametrize("index", [None, 5, ("hash",), ("hash", "scan", "hash"), ("hash", "tree")])
def test_what_is_no_index_is_refused(index: Any) -> None:
    with pytest.raises(penstock.UsageError, match="Expected"):
        penstock.Engine(index=index)


def test_words_that_are_no_text_are_refused(engine: penstock.Engine) -> None:
    for call in (
        lambda: engine.execute(None),  # type: ignore[arg-type]
        lambda: engine.query(5),  # type: ignore[arg-type]
        lambda: engine.query("SELECT k FROM a", name=5),  # type: ignore[arg-type]
        lambda: engine.push(5, rows([1])),  # type: ignore[arg-type]
    ):
        with pytest.raises(penstock.UsageError, match="as text, found"):
            call()


def test_late_after_advance_says_how_late(engine: penstock.Engine) -> None:
    engine.execute("CREATE STREAM c (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 3 MICROSECONDS)")
    engine.query("SELECT ts FROM c")
    engine.advance(10)
    with pytest.raises(penstock.LateError, match=r"00:00:00\.000009`, 1 MICROSECOND behind"):
        engine.push("c", {"ts": [9]})


def test_held_rows_are_few_runs_whatever_the_pushes() -> None:
    """A push of one row must not cost sorting all that is held."""
    held = Reorder()
    rng = np.random.default_rng(5)
    ts = rng.integers(0, 1_000, 3_000)
    for place, one in enumerate(ts):
        held.add(Batch(np.array([one]), [pa.array([place])]))
        assert len(held._runs) <= 13
    released = [held.release(bound) for bound in (100, 100, 500, 999)]
    assert released[1] is None
    places = [place for part in released if part is not None for place in part.column(0).to_pylist()]
    assert places == list(np.argsort(ts, kind="stable"))
    assert len(held) == 0


def test_registering_many_queries_does_not_look_at_all_the_others(engine: penstock.Engine) -> None:
    """Counts calls, not time: what one more query costs must not depend on how many there are."""
    import sys

    def calls_to_register() -> int:
        count = 0

        def profile(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(profile)
        try:
            engine.query("SELECT k FROM a WHERE k > 1")
        finally:
            sys.setprofile(None)
        return count

    calls_to_register()
    few = calls_to_register()
    for _ in range(100):
        engine.query("SELECT k FROM a WHERE k > 1")
    assert calls_to_register() <= few + 5


@pytest.mark.parametrize("kind", INDEX_KINDS)
def test_large_batches_through_a_small_window(kind: str) -> None:
    """The keys' memory shrinks when a batch is through; a tree removes entries by key, so before that."""
    rng = np.random.default_rng(9)
    keys = rng.integers(0, 50, 300_000)
    index = build_index(kind)
    nothing = np.empty(0, np.int64)
    tail = end = 0
    for burst in (100_000, 10, 90_000, 1_000):
        index.extend(keys[end : end + burst])
        row_until = np.arange(end, end + burst) + 1
        row_from = np.maximum(row_until - 200, tail)
        wanted = keys[end : end + burst]
        end += burst
        probes = Probes(wanted, wanted, row_from, row_until, end)
        found = index.run(probes, nothing, nothing, True)
        expected = sum(
            np.count_nonzero(keys[end - burst + back : end] == keys[end - burst : end - back])
            for back in range(200)
        )
        if tail == 0:
            assert found == expected
        tail = end - 50
        index.purge(tail)
        index._check()
        assert np.array_equal(index.keys, keys[tail:end])
    assert index.nbytes < 1_000_000  # the keys of a batch alone are more, kept twice


def test_an_error_of_any_kind_stops_its_own_query_only(
    engine: penstock.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = engine.query("SELECT k + 1 AS n FROM a", name="broken")
    other = engine.query("SELECT k FROM a")

    def fail(*_: Any) -> None:
        raise MemoryError("no\nroom")

    monkeypatch.setattr(select, "evaluate", fail)
    with pytest.raises(penstock.StoppedError, match=r"\(no room\), in query `broken`"):
        engine.push("a", rows([1]))
    monkeypatch.undo()
    engine.push("a", rows([2]))
    assert other.count == 2
    with pytest.raises(penstock.StoppedError, match="no room"):
        query.results()


def test_two_queries_fail_in_one_push(engine: penstock.Engine) -> None:
    engine.query("SELECT 1 // k AS n FROM a", name="one")
    engine.query("SELECT 2 // k AS n FROM a", name="two")
    with pytest.raises(penstock.StoppedError, match="in query `one`") as caught:
        engine.push("a", rows([1], 0))
    assert "in query `two`" in caught.value.__notes__[0]


@pytest.mark.parametrize("quantum", [100, 1_000, 65_536])
@pytest.mark.parametrize("bad", [0, 1, 32_767, 32_768, 39_999])
def test_what_came_before_a_failure_depends_on_the_data_only(quantum: int, bad: int) -> None:
    """Not on the scheduler, nor on where batches are cut: every row before the first bad one is answered."""
    engine = penstock.Engine(scheduler=RoundRobin(quantum))
    engine.execute(DECLARE.format("a"))
    query = engine.query("SELECT id, 10 // k AS n FROM a")
    with pytest.raises(penstock.StoppedError):
        engine.push("a", rows(range(40_000), [int(i != bad) for i in range(40_000)]))
    if bad:
        assert query.results()["id"].to_pylist() == list(range(bad))
    with pytest.raises(penstock.StoppedError):
        query.results()


def test_a_query_dropped_by_its_own_subscriber_is_silent(engine: penstock.Engine) -> None:
    query = engine.query("SELECT k FROM a")
    seen: list[int] = []

    def once(batch: pa.RecordBatch) -> None:
        seen.append(batch.num_rows)
        query.drop()

    query.subscribe(once)
    engine.push("a", rows(range(100_000)))
    assert seen == [32_768]


def test_a_failed_query_has_no_say_about_late_rows(engine: penstock.Engine) -> None:
    strict = engine.query("SELECT 1 // k AS n FROM a LATE ERROR")
    engine.query("SELECT k FROM a LATE DROP")
    with pytest.raises(penstock.StoppedError):
        engine.push("a", rows([5], 0))
    engine.push("a", rows([1]))
    assert engine.stats()["streams"]["a"]["rows_late"] == 1
    strict.drop()
    engine.push("a", rows([2]))
    assert engine.stats()["streams"]["a"]["rows_late"] == 2


def test_a_push_steps_only_operators_that_it_concerns(engine: penstock.Engine) -> None:
    """With a thousand queries over one stream, rows of another must not cost a turn of each."""
    queries = [engine.query("SELECT k FROM a WHERE k > 1") for _ in range(3)]
    engine.push("a", rows([1]))
    steps = [one.counters.steps for query in queries for one in query._pipeline.all_operators]
    taken: list[object] = []
    original = scheduler.take_turn

    def count(operator: Any, *arguments: Any) -> None:
        taken.append(operator)
        original(operator, *arguments)

    scheduler.take_turn = count
    try:
        engine.push("b", rows([1]))
    finally:
        scheduler.take_turn = original
    assert taken == []
    assert steps == [one.counters.steps for query in queries for one in query._pipeline.all_operators]


def test_what_keeps_rows_asks_for_a_window(engine: penstock.Engine) -> None:
    for sql in (
        "SELECT COUNT(*) FROM a HOP BY 1 MINUTE",
        "SELECT COUNT(*) FROM a",
        "SELECT k FROM a EMIT CHANGES",
        "SELECT x.k FROM a AS x JOIN b AS y ON x.k = y.k",
    ):
        with pytest.raises(penstock.QueryError, match="Expected a window on `a`, found none"):
            engine.query(sql)


def test_queries_by_name_fold_case(engine: penstock.Engine) -> None:
    engine.execute("CREATE QUERY Muggy AS SELECT k FROM a")
    assert engine.queries["muggy"] is engine.queries["MUGGY"]
    assert list(engine.queries) == ["Muggy"]
    with pytest.raises(KeyError, match="Did you mean `Muggy`"):
        engine.queries["mugy"]


@pytest.mark.parametrize("sharing", ["auto", "mem-opt", "pull-up", "push-down", "chain"])
def test_the_second_query_that_reads_a_column_does_not_take_rows_that_lack_it(sharing: str) -> None:
    """The first one made the join keep the column; rows from before that are still there without it."""
    engine = penstock.Engine(sharing=sharing)
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, s VARCHAR)")
    joined = "FROM a [RANGE UNBOUNDED] AS x JOIN b [RANGE UNBOUNDED] AS y ON x.id <> y.id"
    engine.query(f"SELECT x.id, y.id AS yid {joined}")
    engine.push("a", {"ts": [0], "id": [0], "s": ["old"]})
    late = []
    for at in (1, 2, 3):
        engine.push("b", {"ts": [at], "id": [at], "s": ["new"]})
        late.append(engine.query(f"SELECT x.id, y.id AS yid, x.s {joined}"))
    engine.push("a", {"ts": [4], "id": [9], "s": ["young"]})
    engine.close()
    for query in late:
        assert {row["s"] for row in query.results().to_pylist()} == {"young"}


@pytest.mark.parametrize("expiry", ["auto", "ita", "nta", "time-message", "piggyback"])
def test_pairs_leave_up_to_the_end_of_the_stream_that_ends_last(expiry: str) -> None:
    """
    a   1 s |=========| 2 s             2.5 s |=
    b     1.2 s |=========| 2.2 s
    """
    engine = penstock.Engine(expiry=expiry)
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    query = engine.query(f"SELECT COUNT(*) {PAIRS.format('x.k = y.k')} EMIT CHANGES")
    engine.push("a", rows([1_000_000]))
    engine.push("b", rows([1_200_000]))
    engine.push("a", rows([2_500_000], k=2))
    engine.close()
    changes = query.results()
    assert list(zip(*(changes[i].cast("int64").to_pylist() for i in range(3)), strict=True))[-2:] == [
        (2_000_000, -1, 1),
        (2_000_000, 1, 0),
    ]


@pytest.mark.parametrize("windows", [(2,), (2, 9)], ids=["one shelf", "shelves by lifetime"])
@pytest.mark.parametrize("equal", ["x.s = y.s", "x.s = y.s AND x.k = y.k", "x.k = y.k AND x.v = y.v"])
def test_keys_of_one_hash_are_told_apart(
    engine: penstock.Engine, equal: str, windows: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all keys have one hash, every row is found for every other."""
    monkeypatch.setattr("penstock.engine.shelves.side.combine", lambda parts: np.zeros_like(parts[0]))
    ask = f"SELECT x.id AS i, y.id AS j FROM a AS x JOIN b AS y ON {equal}"
    for window in windows:  # a selection each, so that lifetimes differ
        engine.query(f"{ask} WHERE x.id > {window} WINDOW {window} SECONDS", name=f"q{window}")
    data = [(n // 2, n, n % 3, float(n % 4), "ab"[n % 2] * (n % 5)) for n in range(40)]
    columns = dict(zip(("ts", "id", "k", "v", "s"), map(list, zip(*data, strict=True)), strict=True))
    columns["ts"] = [n * 1_000_000 for n in columns["ts"]]
    for name in ("a", "b"):
        engine.push(name, columns)
    engine.close()
    key = {"x.s = y.s": (4,), "x.s = y.s AND x.k = y.k": (4, 2)}.get(equal, (2, 3))
    for window in windows:
        expected = Counter(
            (x[1], y[1])
            for x in data
            for y in data
            if all(x[k] == y[k] for k in key) and abs(x[0] - y[0]) < window and x[1] > window
        )
        found = engine.queries[f"q{window}"].results().to_pylist()
        assert Counter((row["i"], row["j"]) for row in found) == expected


@pytest.mark.parametrize("sharing", ["auto", "push-down", "chain"])
def test_rows_of_an_instant_that_time_has_reached_already_are_joined_at_once(sharing: str) -> None:
    """Windows of different lengths: two slices. Only the first finds a pair, and no time passes."""
    engine = penstock.Engine(sharing=sharing)
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    query = engine.query("SELECT x.k FROM a [RANGE 1 SECOND] AS x JOIN b [RANGE 2 SECONDS] AS y ON x.k = y.k")
    engine.advance(15)
    engine.push("a", rows([15, 17], k=[1, 2]))
    for count in (1, 2):
        engine.push("b", rows([15]))
        assert query.count == count


def test_a_total_does_not_begin_at_a_time_that_was_over() -> None:
    """Rows at 9 and 10 wait for stragglers, time has come to 5; that it has come to -2 is no news then."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' MICROSECOND)")
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 7 us] EMIT CHANGES")
    engine.push("a", {"ts": [9, 10]})
    engine.advance(-2)
    engine.push("a", {"ts": [14]})
    assert rows_of(total.results()) == [(9, 1, 1)]

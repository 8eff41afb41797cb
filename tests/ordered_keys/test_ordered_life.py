"""Joins without windows as they begin, share, fail, end and come back; what breaks a declaration."""

from __future__ import annotations

import datetime

import pytest
from test_ordered_join import engine_of, join_of
from work_of import sub_plans_of

import penstock
from penstock import Engine, LateError, StoppedError


def rows(first: int, count: int = 5) -> dict[str, list[object]]:
    keys = list(range(first, first + count))
    return {"ts": keys, "k": keys, "r": keys, "s": [f"{key}" for key in keys]}


def push_both(engine: Engine, first: int, count: int = 5) -> None:
    for name in "ab":
        engine.push(name, rows(first, count))


def test_a_row_that_breaks_a_declaration_is_refused_with_its_push() -> None:
    engine = engine_of(["ORDERED WITHIN 1 ROWS", "ORDERED"])
    query = engine.query("SELECT k FROM a JOIN b USING (k)")
    with pytest.raises(
        LateError, match=r"`k` in order WITHIN 1 ROWS \(now from `8` on\), found `5`, in `a`, row 4"
    ):
        engine.push("a", {"ts": [1, 2, 3, 4], "k": [6, 7, 8, 5], "r": [0] * 4, "s": [""] * 4})
    assert engine.stats()["streams"]["a"]["rows_in"] == 0
    engine.push("a", {"ts": [1, 2, 3], "k": [6, 8, 7], "r": [0] * 3, "s": [""] * 3})
    engine.push("b", {"ts": [4, 5], "k": [6, 7], "r": [0] * 2, "s": [""] * 2})
    engine.advance(5)
    assert query.results()["k"].to_pylist() == [6, 7]


def test_late_drop_takes_such_rows_and_counts_them() -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS", "ORDERED WITHIN 5 ROWS"])
    query = engine.query("SELECT k FROM a JOIN b USING (k) LATE DROP")
    engine.push("b", {"ts": [1, 2], "k": [4, 5], "r": [0] * 2, "s": [""] * 2})
    engine.push("a", {"ts": [3, 4, 5], "k": [5, 9, 4], "r": [0] * 3, "s": [""] * 3})
    engine.advance(5)
    assert query.results()["k"].to_pylist() == [5], "the 4 of b had gone"
    assert engine.stats()["streams"]["a"]["ordered"][0]["rows_broken"] == 1
    facts = engine.stats()["queries"]["q1"]["oblivious"]
    assert (facts["rows_late_key"], facts["results_missed_at_most"]) == (1, 1)
    assert query.accuracy == facts["accuracy_at_least"] == 0.5
    assert "1 rows came too late for their partners, at most 1 results missed" in engine.explain(analyze=True)


def test_joins_of_the_same_columns_are_run_once() -> None:
    """However they are written, and whatever is said of the rows that are found."""
    engine = engine_of(["ORDERED", "ORDERED"])
    one = engine.query("SELECT k, a.r FROM a JOIN b USING (k) WHERE a.r + b.r > 3")
    two = engine.query("SELECT b.r AS l, a.r * a.k AS m FROM b JOIN a ON a.k = b.k")
    assert len(sub_plans_of(engine)) == 1
    push_both(engine, 0)
    assert one.results()["k"].to_pylist() == [2, 3, 4]
    assert two.results()["l"].to_pylist() == [0, 1, 2, 3, 4]
    one.drop()
    push_both(engine, 5)
    assert two.count == 10 and len(sub_plans_of(engine)) == 1
    two.drop()
    assert not len(sub_plans_of(engine))
    assert not any(one.readers for stream in "ab" for one in engine._runtime.streams[stream].frontiers)


def test_a_hundred_queries_hold_the_rows_once() -> None:
    engine = engine_of(["ORDERED WITHIN 50 ROWS", "ORDERED WITHIN 50 ROWS"])
    queries = [
        engine.query(f"SELECT k, a.r AS x, b.r AS y FROM a JOIN b USING (k) WHERE a.r + b.r > {least}")
        for least in range(100)
    ]
    push_both(engine, 0, 40)
    assert join_of(engine).state_rows == 80
    assert [query.count for query in queries] == [
        sum(2 * k > least for k in range(40)) for least in range(100)
    ]


def test_a_late_query_with_an_equal_join_lacks_nothing() -> None:
    engine = engine_of(["ORDERED", "ORDERED"])
    engine.query("SELECT k, b.r FROM a JOIN b USING (k)")
    engine.push("a", rows(0))
    engine.push("b", rows(0, 2))
    late = engine.query("SELECT k FROM a JOIN b USING (k) WHERE a.k + b.r <> 6")
    assert late.complete_from == datetime.datetime(1970, 1, 1, microsecond=5, tzinfo=datetime.UTC)
    engine.push("b", rows(2, 4))
    assert late.results()["k"].to_pylist() == [2, 4]


def test_a_late_query_of_its_own_says_from_when_on_it_is_exact() -> None:
    """What came before it began has keys up to 4; when both frontiers have passed that, it lacks nothing."""
    engine = engine_of(["ORDERED WITHIN 0 ROWS", "ORDERED WITHIN 0 ROWS"])
    push_both(engine, 0)
    late = engine.query("SELECT k FROM a JOIN b USING (k)")
    engine.push("a", rows(5))
    assert late.complete_from == datetime.datetime(1970, 1, 1, microsecond=5, tzinfo=datetime.UTC)
    behind = engine.query("SELECT a.k, a.r + 1 AS x, b.r AS y FROM a JOIN b USING (k)")
    assert behind.complete_from == penstock.query.NEVER, "b can still have a 9, and the 9 of a came before"
    engine.push("b", rows(5, 6))
    engine.push("a", rows(10))
    assert behind.complete_from == datetime.datetime(1970, 1, 1, microsecond=10, tzinfo=datetime.UTC)


def test_one_query_fails_and_the_other_goes_on() -> None:
    engine = engine_of(["ORDERED", "ORDERED"])
    bad = engine.query("SELECT k FROM a JOIN b USING (k) WHERE 10 / (a.r - 3) > -100")
    filtered = engine.query(
        "SELECT a.k FROM (SELECT k FROM a WHERE CAST(s AS BIGINT) >= 0) a JOIN b USING (k)"
    )
    good = engine.query("SELECT k FROM a JOIN b USING (k)")
    engine.push("b", rows(0, 10))
    with pytest.raises(penstock.TakenError):
        engine.push("a", {**rows(0), "s": ["0", "1", "2", "3", "x"]})
    engine.push("a", rows(5))
    assert good.count == 10
    for query, given in ((filtered, [0, 1, 2, 3]),):
        assert query.results()["k"].to_pylist() == given
        with pytest.raises(StoppedError):
            query.results()
    assert bad.count <= 10


def test_what_it_keeps_is_seen() -> None:
    engine = engine_of(["ORDERED WITHIN 100 ROWS", "ORDERED WITHIN 3"])
    engine.query("SELECT k, a.s FROM a JOIN b USING (k) WHERE a.r >= 0")
    push_both(engine, 0, 50)
    operator = engine.stats()["queries"]["q1"]["operators"][0]
    assert (operator["kind"], operator["state_rows"]) == ("OrderedJoin", join_of(engine).state_rows)
    assert operator["state_bytes"] > 0
    text = engine.explain(analyze=True)
    assert "OrderedJoin a.k = b.k" in text
    assert (
        "a.k: ORDERED WITHIN 100 ROWS, declared, factor 0 measured, up to 1 alike, frontier none yet" in text
    )
    assert "b.k: ORDERED WITHIN 3, declared, factor 0 measured, up to 1 alike, frontier at `46`" in text
    assert "50 rows predicted, 50 held" in text and "where a.r >= 0" in text
    (side, other) = engine.stats()["queries"]["q1"]["oblivious"]["sides"]
    assert (side["k"], side["rows"], side["predicted_rows"]) == (100, 4, 104)
    assert (other["k"], other["rows"], other["order"]) == (0, 50, "within")


def test_fifo_needs_its_word() -> None:
    with pytest.raises(penstock.UsageError, match="Expected evict to be one of key, fifo, found `lru`"):
        Engine(evict="lru")
    assert Engine(evict="fifo").options["evict"] == "fifo"

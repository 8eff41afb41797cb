"""Final answers as queries begin, share, fail and end, and what is seen of them."""

from __future__ import annotations

import datetime

import pytest
from test_ordered_join import engine_of
from work_of import sub_plans_of

import penstock
from penstock import Engine
from penstock.query import NEVER

LEFT = "SELECT a.k, b.r FROM a LEFT JOIN b USING (k)"
GROUPS = "SELECT k, COUNT(*) AS n, SUM(r) AS t FROM a GROUP BY k"


def rows(*keys: int | None, first: int = 0, text: str = "7") -> dict[str, list[object]]:
    ts = list(range(first, first + len(keys)))
    return {"ts": list(ts), "k": list(keys), "r": list(ts), "s": [text] * len(keys)}


def instant(ts: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, microsecond=ts, tzinfo=datetime.UTC)


def test_equal_plans_are_run_once() -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS"] * 2)
    one = engine.query(LEFT)
    two = engine.query("SELECT k, b.r * 2 AS y FROM b RIGHT JOIN a USING (k) WHERE b.r IS NULL")
    assert len(sub_plans_of(engine)) == 1, "RIGHT is LEFT the other way round"
    four = engine.query(GROUPS)
    five = engine.query("SELECT SUM(r) * 2 AS z, COUNT(*) AS n FROM a GROUP BY k HAVING SUM(r) > 2")
    engine.push("a", rows(1, 2, 3))
    engine.push("b", rows(1, 3, 4, first=3))
    engine.close()
    assert [one.count, two.count, four.count, five.count] == [3, 1, 3, 0]
    for query in (one, two, four, five):
        query.drop()
    assert not len(sub_plans_of(engine))
    assert not any(one.readers for stream in "ab" for one in engine._runtime.streams[stream].frontiers)


def test_a_late_query_is_exact_when_what_came_before_has_been_passed() -> None:
    engine = engine_of(["ORDERED WITHIN 1 ROWS"] * 2)
    engine.push("b", rows(5))
    engine.push("a", rows(1, 5, first=1))
    join, groups = engine.query(LEFT), engine.query(GROUPS)
    engine.push("a", rows(6, first=3))
    assert groups.complete_from == instant(4), "the group of 5 lacks a row, that of 6 does not"
    assert join.complete_from == NEVER, "the 5 of b had come before, and a row of a with 5 could wait for it"
    engine.push("b", rows(6, 7, first=4))
    engine.push("a", rows(7, first=5))
    assert join.complete_from == instant(6)
    assert join.results()["k"].to_pylist() == [6, 7]
    engine.push("a", rows(8, first=6))
    assert groups.results()["n"].to_pylist() == [1, 1]


def test_a_late_query_with_an_equal_plan_reads_what_is_given_from_then_on() -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS"] * 2)
    engine.query(GROUPS)
    engine.push("a", rows(1, 1, 2) | {"k": [1, 2, 3]})
    late = engine.query("SELECT k, COUNT(*) AS n, SUM(r) AS t FROM a GROUP BY k HAVING COUNT(*) > 0")
    assert len(sub_plans_of(engine)) == 1
    engine.push("a", rows(4, first=3))
    assert late.results()["t"].to_pylist() == [3]
    assert late.complete_from == instant(3)


def test_one_query_fails_and_gives_what_came_before() -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS"] * 2)
    residual = engine.query(
        "SELECT a.k, b.r FROM a LEFT JOIN b ON a.k = b.k AND CAST(b.s AS BIGINT) < a.r + b.r"
    )
    groups = engine.query("SELECT k, SUM(CAST(s AS BIGINT)) AS t FROM a GROUP BY k")
    good = engine.query(LEFT)
    engine.push("a", rows(1, 2, 3))
    with pytest.raises(penstock.TakenError):
        engine.push("a", {"ts": [3, 4], "k": [4, 5], "r": [3, 4], "s": ["8", "x"]})
    assert groups.results()["t"].to_pylist() == [7, 7, 7, 8]
    with pytest.raises(penstock.StoppedError):
        groups.results()
    engine.push("b", rows(2, 4, first=5) | {"s": ["9", "x"]})
    with pytest.raises(penstock.PenstockError, match="`x`"):
        engine.advance(6)
    assert residual.results()["k"].to_pylist() == [1, 2], "the 3 would be given when it fails"
    with pytest.raises(penstock.StoppedError):
        residual.results()
    engine.close()
    assert good.count == 5


def test_what_waits_is_seen() -> None:
    engine = engine_of(["ORDERED WITHIN 1 ROWS"] * 2)
    engine.query("SELECT a.k, b.r FROM a FULL JOIN b ON a.k = b.k AND a.r < b.r")
    engine.query(GROUPS)
    engine.push("a", rows(1, 2, 3, 4))
    engine.push("b", rows(2, 3, first=4))
    engine.advance(6)
    text = engine.explain(analyze=True)
    assert "FinalJoin FULL a.k = b.k" in text and "partners where a.r < b.r" in text
    assert "rows of either without a partner when the other has come past them" in text
    assert "FinalGroups a.k: COUNT(*), SUM(a.r)" in text
    assert "frontier at `4`, 1 groups open, 0 rows too late" in text
    facts = engine.stats()["queries"]["q2"]["oblivious"]
    assert (facts["groups_open"], facts["rows_late_key"], facts["accuracy_at_least"]) == (1, 0, 1.0)
    join, groups = (engine.stats()["queries"][name]["operators"][0] for name in ("q1", "q2"))
    assert (join["kind"], join["state_rows"]) == ("FinalJoin", 2) and join["state_bytes"] > 0
    assert (groups["kind"], groups["state_rows"]) == ("FinalGroups", 2), "a group, and its row"


def test_subscribers_are_given_each_row_once() -> None:
    engine = engine_of(["ORDERED WITHIN 1 ROWS"] * 2)
    found: list[object] = []
    engine.query(LEFT).subscribe(lambda batch: found.extend(batch["k"].to_pylist()))
    engine.query(GROUPS).subscribe(lambda batch: found.extend(batch["t"].to_pylist()))
    engine.push("a", rows(10, 20, 20, None))
    assert found == [0, 3], "of two groups, as none with 20 can come"
    engine.advance(4)
    assert found == [0, 3, None], "without a key there is none to wait for"
    before = list(found)
    engine.push("b", rows(30, 31, first=4))
    engine.advance(6)
    assert found == [*before, 10, 20, 20], "the three of a, none of which has a partner"
    engine.close()
    assert len(found) == 4 + 3


@pytest.mark.parametrize("key", [-(1 << 62), 1 << 62, (1 << 63) - 1])
def test_groups_of_keys_that_are_too_great(key: int) -> None:
    engine = engine_of(["ORDERED WITHIN 5 ROWS"])
    query = engine.query(GROUPS)
    with pytest.raises(penstock.TakenError):
        engine.push("a", rows(key))
    with pytest.raises(penstock.PenstockError, match="Expected keys between"):
        query.results()


def test_keys_at_the_ends() -> None:
    engine = engine_of(["ORDERED WITHIN 5 ROWS"])
    query = engine.query(GROUPS)
    least, most = 1 - (1 << 62), (1 << 62) - 1
    engine.push("a", rows(least, least, 0, most))
    engine.close()
    assert query.results()["k"].to_pylist() == [least, 0, most]


def test_it_is_silent_where_nothing_comes() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT ORDERED)")
    query = engine.query("SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    engine.close()
    assert query.results().num_rows == 0 and query.accuracy == 1.0

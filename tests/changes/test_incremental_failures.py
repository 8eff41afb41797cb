"""Incremental queries that fail on the data: who stops, with which answer, and who goes on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incremental_help import APPROACHES, TIMELY, answer, changes, make_engine, net_of, push

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled

MOST = (1 << 63) - 1


def test_a_failure_stops_those_with_the_sub_plan_and_nobody_else() -> None:
    """`x` and `y` have the aggregate in common; `z` and `w` do without it."""
    engine = make_engine()
    quotient = "SELECT k, SUM(v // k) AS s FROM a [RANGE 5 us] GROUP BY k"
    x = engine.query(f"{quotient} EMIT CHANGES", name="x")
    y = engine.query(f"SELECT k FROM ({quotient}) AS q WHERE s > 2 EMIT CHANGES", name="y")
    z = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] EMIT CHANGES", name="z")
    w = engine.query("SELECT k FROM a WHERE v > 4", name="w")
    push(engine, "a", (1, 1, 4), (1, 2, 4))
    with pytest.raises(penstock.StoppedError) as raised:
        push(engine, "a", (2, 1, 5), (3, 2, 4), (3, 0, 5), (3, 1, 1), (4, 2, 5))
    assert str(raised.value).startswith("Division by zero in `a.v // a.k`, in query `x`. What was pushed is")
    assert raised.value.queries == ("x", "y")
    assert raised.value.__notes__ == ["also: Division by zero in `a.v // a.k`, in query `y`"]
    assert changes(x) == [(1, 1, 1, 4), (1, 1, 2, 2), (2, -1, 1, 4), (2, 1, 1, 9)], "up to instant 2, whole"
    assert changes(y) == [(1, 1, 1)]
    for query in (x, y):
        for _ in range(2):
            with pytest.raises(penstock.StoppedError, match=f"Division by zero .* in query `{query.name}`"):
                query.results()
    push(engine, "a", (5, 0, 5))
    engine.advance(20)
    assert answer(changes(z)) == Counter([(0,)])
    assert [row[0] for row in changes(w)] == [2, 3, 4, 5]
    assert "Division by zero" in engine.stats()["queries"]["x"]["error"]
    x.drop()
    again = engine.query(f"{quotient} EMIT CHANGES", name="x")
    push(engine, "a", (30, 3, 9))
    assert changes(again) == [(30, 1, 3, 3)]


FAILING = [
    "SELECT k, SUM(v // k) AS s FROM a [RANGE 5 us] GROUP BY k",
    "SELECT COUNT(*) AS n FROM a [RANGE 5 us] WHERE 7 // k < 9",
    "SELECT DISTINCT 12 // k AS s FROM a [RANGE 5 us]",
    "SELECT x.k, y.v FROM a [RANGE 5 us] AS x LEFT JOIN a [RANGE 5 us] AS y ON x.v = y.v AND 7 // y.k < x.k",
    "SELECT COUNT(*) AS n FROM a [RANGE 5 us] AS x JOIN t ON x.v = 7 AND 7 // (x.k + t.k) >= 0",
    "SELECT COUNT(*) AS n FROM a [ROWS 3] AS x JOIN a [ROWS 2] AS y ON x.v = y.v AND 7 // (x.k + y.k) > -9",
    "SELECT k, SUM(v * 4611686018427387904) AS s FROM a [RANGE 5 us] WHERE k > 0 GROUP BY k",
    "SELECT s FROM (SELECT k, SUM(v) AS s FROM a [RANGE 5 us] GROUP BY k) AS g WHERE 10 // (s - 3) > 0",
]


@settings(max_examples=24)
@given(st.data())
@pytest.mark.parametrize("sql", FAILING)
def test_a_failing_query_answers_up_to_its_failure(sql: str, data: st.DataObject) -> None:
    """However the rows are cut and whoever runs when: what changes before it is the same."""
    draw = data.draw
    ts, instants = 0, []
    for _ in range(draw(st.integers(1, 6))):
        ts += draw(st.sampled_from([1, 1, 3]))
        values = st.tuples(st.sampled_from([0, 1, 1, 2, 3]), st.integers(0, 3))
        instants.append([(ts, *row) for row in draw(st.lists(values, min_size=1, max_size=3))])

    def run(cut: Any, scheduler: Any) -> tuple[str | None, list[tuple[Any, ...]]]:
        engine = make_engine(draw(st.sampled_from(TIMELY)), scheduler=scheduler)
        engine.push("t", {"k": [1, 0], "name": ["one", "none"]})
        query = engine.query(f"{sql} EMIT CHANGES", name="q")
        at, why = 0, None
        try:
            while at < len(instants):
                size = cut()
                push(engine, "a", *(row for rows in instants[at : at + size] for row in rows))
                at += size
            engine.advance(ts + 20)
        except penstock.StoppedError as error:
            why = str(error)
        try:
            return why, changes(query)
        except penstock.StoppedError:
            return why, []

    whole = run(lambda: len(instants), RoundRobin())
    cut = run(lambda: draw(st.integers(1, 3)), Shuffled(draw(st.integers(0, 1 << 20)), 3))
    single = run(lambda: 1, RoundRobin(1))
    assert (whole[0] is None) == (cut[0] is None) == (single[0] is None)
    came = [net_of(part) for _, part in (whole, cut, single)]
    if sql.startswith(("SELECT s", "SELECT COUNT(*) AS n FROM a [RANGE 5 us] WHERE")) or "ROWS" in sql:
        # some of the instant of the failure may be out: that nothing was counted until then, too
        last = max((row[0] for part in came for row in part), default=0)
        came = [{row: n for row, n in part.items() if row[0] < last} for part in came]
    assert came[0] == came[1] == came[2]


ABOVE = [
    "SELECT k, SUM(v) AS s FROM a [RANGE 5 us] GROUP BY k HAVING 10 // (SUM(v) - 3) > -99",
    "SELECT 10 // (s - 3) AS q FROM (SELECT k, SUM(v) AS s FROM a [RANGE 5 us] GROUP BY k) AS g",
    "SELECT 10 // n AS q FROM (SELECT COUNT(*) - 2 AS n FROM a [RANGE 5 us]) AS g",
    "SELECT g.k FROM (SELECT k, SUM(v) AS s FROM a [RANGE 5 us] GROUP BY k) AS g JOIN t "
    "ON g.k = t.k AND 10 // (g.s - t.k - 2) > -99",
    "SELECT SUM(10 // (s - 3)) AS t FROM (SELECT k, SUM(v) AS s FROM a [RANGE 5 us] GROUP BY k) AS g",
]


@settings(max_examples=36)
@given(st.data())
@pytest.mark.parametrize("sql", ABOVE)
def test_what_is_not_there_when_its_instant_is_over_fails_nobody(sql: str, data: st.DataObject) -> None:
    """An instant in one push, or cut anywhere: the same failure or none, and the same changes before it."""
    draw = data.draw
    ts, rows = 0, []
    for _ in range(draw(st.integers(1, 10))):
        ts += draw(st.sampled_from([0, 0, 1, 3]))
        rows.append((ts, draw(st.integers(0, 1)), draw(st.integers(0, 4))))
    expiry = draw(st.sampled_from(TIMELY))

    def run(cuts: list[int], scheduler: Any) -> tuple[bool, dict[tuple[Any, ...], int]]:
        engine = make_engine(expiry, scheduler=scheduler)
        engine.push("t", {"k": [1, 0], "name": ["one", "none"]})
        query = engine.query(f"{sql} EMIT CHANGES", name="q")
        failed, came = False, []
        try:
            for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
                if stop > start:
                    push(engine, "a", *rows[start:stop])
            engine.advance(ts + 20)
        except penstock.StoppedError:
            failed = True
        if query._pipeline.sink.state_rows:
            came = changes(query)
        engine._runtime._check()
        return failed, net_of(came)

    begins = [i for i in range(1, len(rows)) if rows[i][0] > rows[i - 1][0]]
    whole = run(begins, RoundRobin())
    anywhere = sorted(draw(st.sets(st.integers(1, len(rows)))))
    cut = run([one for one in anywhere if one < len(rows)], Shuffled(draw(st.integers(0, 1 << 20)), 3))
    assert whole[0] == cut[0]
    until = max((row[0] for one in (whole, cut) for row in one[1]), default=0) + (not whole[0])
    before = [{row: n for row, n in part.items() if row[0] < until} for _, part in (whole, cut)]
    assert before[0] == before[1]


@pytest.mark.parametrize("expiry", APPROACHES)
def test_sum_beyond_bigint(expiry: str) -> None:
    """It is said when it is so at the end of an instant; on the way through one it may go beyond."""
    engine = make_engine(expiry)
    total = engine.query("SELECT SUM(v) AS s FROM a [RANGE 5 us] EMIT CHANGES", name="total")
    push(engine, "a", (1, 1, MOST), (1, 1, 5), (1, 1, -7))
    assert changes(total) == [(1, 1, MOST - 2)]
    with pytest.raises(penstock.StoppedError, match=r"^int64 overflow in `SUM`, in query `total`\. What"):
        push(engine, "a", (2, 1, 1), (3, 1, 1), (3, 1, 1))
    assert changes(total) == [(2, -1, MOST - 2), (2, 1, MOST - 1)], "up to the instant before"
    with pytest.raises(penstock.StoppedError, match="int64 overflow"):
        total.results()
    push(engine, "a", (4, 1, 1))

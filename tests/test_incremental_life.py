"""Incremental queries through the public API: how they start, fail, share, let go of rows and end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rows_of
from query_trees import Trees

import penstock
from penstock.engine.scheduler import RoundRobin, Shuffled

DECLARE = """
    CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT);
    CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT);
    CREATE STREAM c (ts TIMESTAMP, k BIGINT, v BIGINT);
    CREATE TABLE t (k BIGINT, name VARCHAR);
"""
APPROACHES = ["auto", "ita", "nta", "time-message", "piggyback"]
TIMELY = [one for one in APPROACHES if one != "ita"]
MOST = (1 << 63) - 1


def make_engine(expiry: str = "auto", **options: Any) -> penstock.Engine:
    engine = penstock.Engine(expiry=expiry, **options)
    engine.execute(DECLARE)
    return engine


def push(engine: penstock.Engine, stream: str, *rows: tuple[Any, ...]) -> None:
    """Rows as (ts, k, v)."""
    names = engine.streams[stream].names
    columns = zip(*rows, strict=True)
    schema = engine.streams[stream]
    table = dict(zip(names, map(list, columns), strict=True))
    engine.push(stream, pa.table({name: pa.array(table[name], schema.field(name).type) for name in names}))


def changes(query: penstock.Query) -> list[tuple[Any, ...]]:
    return rows_of(query.results())


def answer(rows: list[tuple[Any, ...]], now: int = 1 << 60) -> Counter[tuple[Any, ...]]:
    """The bag that changes (ts, diff, ...) fold to."""
    bag: Counter[tuple[Any, ...]] = Counter()
    for ts, diff, *row in rows:
        if ts <= now:
            bag[tuple(row)] += diff
    assert all(count >= 0 for count in bag.values()), "a row left that had not entered"
    return +bag


def net_of(rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    """By how many each row changes at each time."""
    net: Counter[tuple[Any, ...]] = Counter()
    for ts, diff, *row in rows:
        net[ts, *row] += diff
    return {row: count for row, count in net.items() if count}


# Failures


def test_a_failure_stops_those_with_the_sub_plan_and_nobody_else() -> None:
    """`x` and `y` have the aggregate in common; `z` and `w` do without it."""
    engine = make_engine()
    quotient = "SELECT k, SUM(v // k) AS s FROM a [RANGE 5 us] GROUP BY k"
    x = engine.query(f"{quotient} EMIT CHANGES", name="x")
    y = engine.query(f"SELECT k FROM ({quotient}) AS q WHERE s > 2 EMIT CHANGES", name="y")
    z = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] EMIT CHANGES", name="z")
    w = engine.query("SELECT k FROM a WHERE v > 4", name="w")
    push(engine, "a", (1, 1, 4), (1, 2, 4))
    with pytest.raises(penstock.DataError) as raised:
        push(engine, "a", (2, 1, 5), (3, 2, 4), (3, 0, 5), (3, 1, 1), (4, 2, 5))
    assert str(raised.value) == "Division by zero in `a.v // a.k`, in query `x`"
    assert raised.value.__notes__ == ["also: Division by zero in `a.v // a.k`, in query `y`"]
    assert changes(x) == [(1, 1, 1, 4), (1, 1, 2, 2), (2, -1, 1, 4), (2, 1, 1, 9)], "up to instant 2, whole"
    assert changes(y) == [(1, 1, 1)]
    for query in (x, y):
        for _ in range(2):
            with pytest.raises(penstock.DataError, match=f"Division by zero .* in query `{query.name}`"):
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


@settings(max_examples=40)
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
        except penstock.DataError as error:
            why = str(error)
        try:
            return why, changes(query)
        except penstock.DataError:
            return why, []

    whole = run(lambda: len(instants), RoundRobin())
    cut = run(lambda: draw(st.integers(1, 3)), Shuffled(draw(st.integers(0, 1 << 20)), 3))
    single = run(lambda: 1, RoundRobin(1))
    assert (whole[0] is None) == (cut[0] is None) == (single[0] is None)
    came = [net_of(part) for _, part in (whole, cut, single)]
    if sql.startswith("SELECT s") or "ROWS" in sql:  # some of the instant of the failure may be out
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


@settings(max_examples=60)
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
        except penstock.DataError:
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
    with pytest.raises(penstock.DataError, match=r"^int64 overflow in `SUM`, in query `total`$"):
        push(engine, "a", (2, 1, 1), (3, 1, 1), (3, 1, 1))
    assert changes(total) == [(2, -1, MOST - 2), (2, 1, MOST - 1)], "up to the instant before"
    with pytest.raises(penstock.DataError, match="int64 overflow"):
        total.results()
    push(engine, "a", (4, 1, 1))


# Sub-plans in common


def test_equal_sub_plans_run_once() -> None:
    """Three queries over one GROUP BY: it is at work once, and stays as long as anybody reads it."""
    engine = make_engine()
    grouped = "SELECT k, COUNT(*) AS n FROM a [RANGE 5 us] GROUP BY k"
    one = engine.query(f"{grouped} EMIT CHANGES", name="one")
    two = engine.query(f"SELECT k FROM ({grouped}) AS g WHERE n > 1 EMIT CHANGES", name="two")
    three = engine.query(f"SELECT MAX(n) AS most FROM ({grouped}) AS g EMIT CHANGES", name="three")
    push(engine, "a", (1, 1, 0), (2, 1, 0), (3, 2, 0))
    groups = [one for one in engine.stats()["groups"] if one["strategy"] == "equal sub-plans"]
    assert [(group["queries"], [op["kind"] for op in group["operators"]]) for group in groups] == [
        (["one", "two", "three"], ["GroupBy"])
    ]
    kinds = Counter(
        operator["kind"]
        for part in (*groups, *engine.stats()["queries"].values())
        for operator in part["operators"]
    )
    assert kinds["GroupBy"] == 2, "the one in common, and that of `three` above it"
    assert groups[0]["operators"][0]["rows_in"] == 3
    one.drop()
    push(engine, "a", (4, 2, 0))
    assert answer(changes(two)) == Counter([(1,), (2,)])
    seen = changes(three)
    assert answer(seen) == Counter([(2,)])
    two.drop()
    assert not [group for group in engine.stats()["groups"] if group["strategy"] == "equal sub-plans"]
    engine.advance(8)
    assert answer(seen + changes(three)) == Counter([(1,)])
    three.drop()
    assert not engine._runtime.parts
    assert not engine.stats()["groups"]


LATER = [
    "SELECT COUNT(*) AS n FROM a [RANGE 50 us]",
    "SELECT k, MAX(v) AS m FROM a [RANGE 50 us] GROUP BY k",
    "SELECT k, MIN(CAST(v AS VARCHAR)) AS m FROM a [RANGE 50 us] GROUP BY k",
    "SELECT k, v FROM a [RANGE 50 us]",
    "SELECT k, v FROM a [ROWS 3]",
    "SELECT DISTINCT k FROM a [RANGE 50 us]",
    "SELECT k FROM a [RANGE 50 us] INTERSECT ALL SELECT k FROM b [RANGE 50 us]",
    "SELECT a.k, b.v FROM a [RANGE 50 us] LEFT JOIN b [RANGE 50 us] ON a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 50 us] JOIN b [RANGE 50 us] ON a.k = b.k",
    "SELECT a.k, name FROM a [RANGE 50 us] JOIN t ON a.k = t.k",
    "SELECT a.k, name FROM a [ROWS 3] JOIN t ON a.k = t.k",
]


@pytest.mark.parametrize("sql", LATER)
@pytest.mark.parametrize("expiry", TIMELY)
def test_a_query_that_comes_later_goes_on_from_what_is_at_work(expiry: str, sql: str) -> None:
    """It is told the answer as it stands and reads the same operators from then on: exact at once."""
    engine = make_engine(expiry)
    engine.push("t", {"k": [1, 1, 2], "name": ["one", "uno", "two"]})
    one = engine.query(f"{sql} EMIT CHANGES", name="one")
    for ts in range(1, 5):
        push(engine, "a", (ts, ts % 3, ts), (ts, 1, 7))
        push(engine, "b", (ts, ts % 2, ts))
    engine.advance(6)
    two = engine.query(f"{sql} EMIT CHANGES", name="two")
    groups = [one for one in engine.stats()["groups"] if one["strategy"] == "equal sub-plans"]
    assert [group["queries"] for group in groups] == [["one", "two"]]
    push(engine, "a", (7, 2, 9))
    push(engine, "b", (7, 2, 9))
    engine.advance(8)
    came, joined = changes(one), changes(two)
    assert answer(joined) == answer(came) != Counter()
    assert all(row[0] >= 6 for row in joined)
    assert answer(joined, 6) == answer(came, 6)
    assert two.complete_from is not None and two.complete_from.microsecond <= 7
    engine.advance(200)
    assert answer(joined + changes(two)) == answer(came + changes(one))


def test_a_query_that_is_started_by_a_subscriber_takes_nothing_that_is_on_its_way() -> None:
    """What is at work cannot say what it holds while it works."""
    engine = make_engine()
    sql = "SELECT k, COUNT(*) AS n FROM a [RANGE 50 us] GROUP BY k EMIT CHANGES"
    one = engine.query(sql, name="one")
    started: list[penstock.Query] = []
    one.subscribe(lambda _: None if started else started.append(engine.query(sql, name="two")))
    push(engine, "a", (1, 1, 1))
    push(engine, "a", (2, 1, 1))
    assert started[0].complete_from is not None and started[0].complete_from.microsecond > 50
    assert answer(changes(started[0])) == Counter([(1, 1)])


def test_a_query_that_comes_later_finds_what_was_there_before_all_time() -> None:
    """Rows of tables and totals went to those who were there: a sub-plan that gave them is not taken again.

    Time has begun with b; of a, which the queries read, nothing has come.
    """
    engine = make_engine()
    engine.push("t", {"k": [1, 1, 2], "name": ["one", "one", "two"]})
    texts = [
        "SELECT a.v, d.name FROM a [RANGE 5 us] LEFT JOIN (SELECT DISTINCT k, name FROM t) AS d ON a.k = d.k",
        "SELECT k FROM t EXCEPT SELECT k FROM a [RANGE 5 us]",
        "SELECT COUNT(*) AS n FROM a [RANGE 5 us]",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM a [RANGE 5 us] JOIN t ON a.k = t.k) AS g WHERE n < 9",
    ]
    early = [engine.query(f"{sql} EMIT CHANGES") for sql in texts]
    push(engine, "b", (1, 1, 1))
    late = [engine.query(f"{sql} EMIT CHANGES") for sql in texts]
    push(engine, "a", (3, 1, 7))
    late += [engine.query(f"{sql} EMIT CHANGES") for sql in texts]
    push(engine, "a", (4, 2, 8))
    expected = [[(7, "one"), (8, "two")], [], [(2,)], [(3,)]]
    for queries in (early, late[:4], late[4:]):
        assert [answer(changes(query)) for query in queries] == [Counter(rows) for rows in expected]


@settings(max_examples=30)
@given(st.data())
def test_dropping_one_of_two_leaves_the_other_exact(data: st.DataObject) -> None:
    """The same drawn query twice, one of them dropped on the way; a third engine runs it alone."""
    draw = data.draw
    trees = Trees(draw, ["a", "b"], windows=("range", "rows"), tables=False)
    sql = trees.tree(draw(st.integers(1, 3))).penstock + " EMIT CHANGES"
    ts, rows = 0, []
    for _ in range(draw(st.integers(2, 14))):
        ts += draw(st.sampled_from([0, 1, 3]))
        rows.append((draw(st.sampled_from("ab")), ts, draw(st.integers(0, 2)), draw(st.integers(0, 3))))
    gone_at = draw(st.integers(0, len(rows)))
    expiry = draw(st.sampled_from(APPROACHES))
    together, alone = make_double_engine(expiry), make_double_engine(expiry)
    going, staying = together.query(sql), together.query(sql)
    reference = alone.query(sql)
    for number, (stream, *row) in enumerate(rows):
        if number == gone_at:
            going.drop()
        for engine in (together, alone):
            push(engine, stream, tuple(row))
        together._runtime._check()
    for engine in (together, alone):
        engine.advance(ts + 30)
        engine.close()
    assert Counter(changes(staying)) == Counter(changes(reference))


def make_double_engine(expiry: str) -> penstock.Engine:
    """Streams as the drawn queries want them: v is a DOUBLE."""
    engine = penstock.Engine(expiry=expiry)
    engine.execute("".join(f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, v DOUBLE);" for s in "ab"))
    return engine


# Letting go

VARIED = [
    "SELECT k, v FROM a [RANGE 5 us]",
    "SELECT COUNT(*) AS n, MAX(v) AS most FROM a [RANGE 5 us]",
    "SELECT k, MIN(v) AS least, SUM(DISTINCT v) AS s, AVG(v) AS m FROM a [RANGE 5 us] GROUP BY k",
    "SELECT k, COUNT(DISTINCT v) AS n FROM a [RANGE 5 us] GROUP BY k HAVING COUNT(*) > 1",
    "SELECT DISTINCT k FROM a [RANGE 5 us]",
    "SELECT k FROM a [RANGE 5 us] UNION SELECT k FROM b [RANGE 7 us]",
    "SELECT k FROM a [RANGE 5 us] INTERSECT ALL SELECT k FROM b [RANGE 7 us]",
    "SELECT k FROM a [RANGE 5 us] EXCEPT SELECT k FROM b [RANGE 7 us]",
    "SELECT a.k, b.v FROM a [RANGE 5 us] JOIN b [RANGE 7 us] ON a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 5 us] JOIN b [RANGE 7 us] ON a.v < b.v",
    "SELECT a.k, b.v FROM a [RANGE 5 us] LEFT JOIN b [RANGE 7 us] ON a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 5 us] RIGHT JOIN b [RANGE 7 us] ON a.k = b.k AND a.v < b.v",
    "SELECT a.k, b.v FROM a [RANGE 5 us] FULL JOIN b [RANGE 7 us] ON a.k = b.k",
    "SELECT k FROM a [RANGE 5 us] WHERE EXISTS (SELECT * FROM b [RANGE 7 us] WHERE b.k = a.k)",
    "SELECT k FROM a [RANGE 5 us] WHERE NOT EXISTS (SELECT * FROM b [RANGE 7 us] WHERE b.k = a.k)",
    "SELECT a.k FROM a [RANGE 5 us] JOIN b [RANGE 7 us] ON a.k = b.k JOIN c [RANGE 2 us] ON c.k = b.k",
    "SELECT MAX(n) AS most FROM (SELECT k, COUNT(*) AS n FROM a [RANGE 5 us] GROUP BY k) AS g",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM a [RANGE 5 us] UNION ALL SELECT k FROM b [NOW]) AS g",
]


@pytest.mark.parametrize("expiry", APPROACHES)
def test_no_state_is_left_when_all_windows_have_passed(expiry: str) -> None:
    """Every operator has let go of every row; ITA hears of it only at the end."""
    engine = make_engine(expiry)
    queries = [engine.query(f"{sql} EMIT CHANGES") for sql in VARIED]
    for ts in range(20):
        for stream, step in (("a", 1), ("b", 2), ("c", 3)):
            push(engine, stream, (ts, ts * step % 4, ts % 3), (ts, None, ts % 5))
    held = engine.stats()
    assert sum(op["state_rows"] for query in held["queries"].values() for op in query["operators"]) > 0
    engine.advance(100)
    if expiry == "ita":
        engine.close()
    for query in queries:
        left = answer(changes(query))
        totals = [row for row in left if row and row[0] in (0, None)]
        assert len(left) == len(totals) <= 1, query.sql
    engine._runtime._check()
    stats = engine.stats()
    for part in (*stats["queries"].values(), *stats["groups"]):
        for operator in part["operators"]:
            assert operator["state_rows"] == 0, operator
            assert operator["queue_rows"] == 0, operator


@pytest.mark.parametrize("expiry", APPROACHES)
def test_a_total_is_there_before_and_after_all_rows(expiry: str) -> None:
    """(0, NULL) from the first time that is heard of, and again when all has left."""
    engine = make_engine(expiry)
    total = engine.query("SELECT COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 5 us] EMIT CHANGES")
    assert changes(total) == [], "no time has been heard of"
    engine.advance(3)
    assert changes(total) == [(3, 1, 0, None)]
    push(engine, "a", (4, 1, 7))
    assert changes(total) == [(4, -1, 0, None), (4, 1, 1, 7)]
    engine.advance(20)
    if expiry == "ita":
        engine.close()
    assert changes(total) == [(9, -1, 1, 7), (9, 1, 0, None)]


def test_a_total_whose_rows_come_at_once_never_was_zero() -> None:
    """The first instant's net changes only."""
    engine = make_engine()
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] EMIT CHANGES")
    counting = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] EMIT CHANGES", count_only=True)
    push(engine, "a", (4, 1, 7), (4, 1, 8))
    assert changes(total) == [(4, 1, 2)]
    assert counting.count == total.count == 1


def test_a_total_at_the_end_without_rows() -> None:
    engine = make_engine()
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] WHERE k > 5 EMIT CHANGES")
    push(engine, "a", (4, 1, 7))
    engine.close()
    assert changes(total) == [(4, 1, 0)]


# Tables


def test_rows_of_a_table_after_time_has_begun() -> None:
    for begin in (lambda e: push(e, "a", (1, 1, 1)), lambda e: e.advance(1)):
        engine = make_engine()
        begin(engine)
        with pytest.raises(
            penstock.UsageError, match=r"^Expected rows of the table `t` before those of any stream"
        ):
            engine.push("t", {"k": [1], "name": ["one"]})


def test_rows_that_are_not_those_of_the_table() -> None:
    """Refused whole, and the table can still be loaded."""
    engine = make_engine()
    for wrong in ({"k": [1], "nom": ["one"]}, {"k": [1]}, {"k": ["x"], "name": ["one"]}):
        with pytest.raises(penstock.SchemaError, match="in `t`"):
            engine.push("t", wrong)
    engine.push("t", {"k": [1], "name": ["one"]})
    query = engine.query("SELECT a.v, t.name FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES")
    push(engine, "a", (1, 1, 7))
    assert changes(query) == [(1, 1, 7, "one")]


@pytest.mark.parametrize("expiry", APPROACHES)
def test_a_table_loaded_in_several_pushes(expiry: str) -> None:
    """Before and after the query started; a query that starts later finds all of it."""
    engine = make_engine(expiry)
    engine.push("t", {"k": [1, 2], "name": ["one", "two"]})
    sql = "SELECT a.v, t.name FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES"
    early = engine.query(sql)
    engine.push("t", {"k": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    engine.push("t", {"k": [1, None], "name": ["uno", "nobody"]})
    push(engine, "a", (1, 1, 7), (1, None, 8), (2, 2, 9))
    late = engine.query(sql)
    push(engine, "a", (3, 1, 10))
    first = Counter([(7, "one"), (7, "uno"), (9, "two")])
    last = Counter([(10, "one"), (10, "uno")])
    assert answer(changes(early)) == first + last
    came = changes(late)
    assert answer(came, 2) == first
    assert answer(came) == first + last


@pytest.mark.parametrize("expiry", APPROACHES)
def test_an_empty_table(expiry: str) -> None:
    """No pair, every row unmatched, nothing to take away."""
    engine = make_engine(expiry)
    inner = engine.query("SELECT a.v FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES")
    left = engine.query("SELECT a.v, t.name FROM a [RANGE 5 us] LEFT JOIN t ON a.k = t.k EMIT CHANGES")
    rest = engine.query("SELECT k FROM a [RANGE 5 us] EXCEPT SELECT k FROM t EMIT CHANGES")
    total = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] JOIN t ON a.k = t.k EMIT CHANGES")
    push(engine, "a", (1, 1, 7))
    assert changes(inner) == []
    assert changes(left) == [(1, 1, 7, None)]
    assert changes(rest) == [(1, 1, 1)]
    assert changes(total) == [(1, 1, 0)]


# Inserts, outer joins, ALTER, counting


@pytest.mark.parametrize("expiry", APPROACHES)
def test_inserts_of_a_join_of_three(expiry: str) -> None:
    """Each triple when its last row comes, never again.

    ::

        a   1 |====| 6
        b     2 |====| 7
        c          5 |====| 10       c at 6 comes too late for a
    """
    engine = make_engine(expiry)
    triples = engine.query(
        "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 5 us] JOIN b [RANGE 5 us] ON a.k = b.k "
        "JOIN c [RANGE 5 us] ON b.k = c.k EMIT INSERTS"
    )
    push(engine, "a", (1, 1, 10), (3, 2, 11))
    push(engine, "b", (2, 1, 20))
    push(engine, "c", (5, 1, 30), (6, 1, 31))
    engine.advance(30)
    assert rows_of(triples.results()) == [(5, 10, 20, 30)]


@pytest.mark.parametrize("expiry", APPROACHES)
@pytest.mark.parametrize("window", ["", "[RANGE 5 us]", "[RANGE UNBOUNDED]", "[NOW]"])
def test_inserts_of_a_stream_joined_to_a_table(expiry: str, window: str) -> None:
    """One row for each row of the stream that has a partner, as it comes; the window makes no difference."""
    engine = make_engine(expiry)
    engine.push("t", {"k": [1], "name": ["one"]})
    query = engine.query(f"SELECT a.v, t.name FROM a {window} JOIN t ON a.k = t.k")
    push(engine, "a", (1, 1, 7), (2, 2, 8), (2, 1, 9))
    engine.advance(30)
    assert rows_of(query.results()) == [(1, 7, "one"), (2, 9, "one")]
    operators = engine.stats()["queries"][query.name]["operators"]
    assert sum(op["state_rows"] for op in operators) <= 3 + 1, "the table, and what is not read yet"


def test_an_outer_join_asks_for_a_window_also_with_a_table() -> None:
    engine = make_engine()
    with pytest.raises(penstock.BindError, match=r"^Expected a window on `a`, found none"):
        engine.query("SELECT a.v FROM a LEFT JOIN t ON a.k = t.k")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT COUNT(*) AS n FROM a [RANGE 5 us]", "an aggregate changes its rows"),
        (
            "SELECT a.k FROM a [RANGE 5 us] LEFT JOIN b [RANGE 5 us] ON a.k = b.k",
            "a LEFT JOIN takes a row back",
        ),
    ],
)
def test_inserts_of_what_takes_rows_back(sql: str, why: str) -> None:
    with pytest.raises(penstock.BindError, match=f"^Expected EMIT CHANGES, because {why}"):
        make_engine().query(f"{sql} EMIT INSERTS")


@pytest.mark.parametrize("expiry", TIMELY)
def test_left_join_gives_one_null_row_per_unmatched_row(expiry: str) -> None:
    """Withdrawn when a partner comes, there again when the last one has left.

    ::

        a   1 |====================| 21     two rows of k = 1 and one of k = NULL
        b      3 |====| 8
        b         5 |====| 10
    """
    engine = make_engine(expiry)
    query = engine.query(
        "SELECT a.v, b.v AS w FROM a [RANGE 20 us] LEFT JOIN b [RANGE 5 us] ON a.k = b.k EMIT CHANGES"
    )
    push(engine, "a", (1, 1, 10), (1, 1, 11), (1, None, 12))
    engine.advance(2)
    assert sorted(changes(query), key=str) == [(1, 1, 10, None), (1, 1, 11, None), (1, 1, 12, None)]
    push(engine, "b", (3, 1, 20))
    engine.advance(3)
    expected = Counter({(3, -1, 10, None): 1, (3, -1, 11, None): 1, (3, 1, 10, 20): 1, (3, 1, 11, 20): 1})
    assert Counter(changes(query)) == expected
    push(engine, "b", (5, 1, 21))
    engine.advance(5)
    assert Counter(changes(query)) == Counter([(5, 1, 10, 21), (5, 1, 11, 21)])
    engine.advance(8)
    assert Counter(changes(query)) == Counter([(8, -1, 10, 20), (8, -1, 11, 20)])
    engine.advance(12)
    came = changes(query)
    assert Counter(came) == Counter(
        [(10, -1, 10, 21), (10, -1, 11, 21), (10, 1, 10, None), (10, 1, 11, None)]
    )
    engine.advance(40)
    assert Counter(changes(query)) == Counter([(21, -1, v, None) for v in (10, 11, 12)])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM a [RANGE UNBOUNDED]",
        "SELECT k FROM a [RANGE UNBOUNDED] UNION ALL SELECT k FROM b [RANGE 5 us]",
        "SELECT a.k FROM a [RANGE UNBOUNDED] JOIN t ON a.k = t.k",
        "SELECT a.k FROM a [RANGE UNBOUNDED] JOIN b [RANGE UNBOUNDED] ON a.k = b.k",
    ],
)
def test_alter_of_what_nobody_keeps_is_refused_by_name(sql: str) -> None:
    """And the query goes on as it was."""
    engine = make_engine()
    query = engine.query(f"{sql} EMIT CHANGES", name="q")
    with pytest.raises(penstock.UnsupportedError, match=r"^ALTER QUERY of a query whose answer nobody keeps"):
        engine.execute("ALTER QUERY q SET WINDOW 9 us")
    push(engine, "a", (1, 1, 1))
    assert query.complete_from is None


def test_alter_of_an_incremental_query_that_only_counts_is_refused_by_name() -> None:
    engine = make_engine()
    engine.query("SELECT k FROM a [RANGE 5 us] EMIT CHANGES", name="q", count_only=True)
    with pytest.raises(penstock.UnsupportedError, match=r"^ALTER QUERY of an incremental query that only"):
        engine.execute("ALTER QUERY q SET WINDOW 9 us")


@settings(max_examples=60)
@given(st.data())
def test_counting_counts_what_is_delivered(data: st.DataObject) -> None:
    """count_only and not, over the same drawn query: as many changes, wherever rows are cut."""
    draw = data.draw
    trees = Trees(draw, ["a", "b"], tables=False)
    sql = trees.tree(draw(st.integers(0, 3))).penstock + " EMIT CHANGES"
    engine = make_double_engine(draw(st.sampled_from(APPROACHES)))
    delivering = engine.query(sql)
    counting = engine.query(sql, count_only=True)
    delivered, ts = 0, 0
    for _ in range(draw(st.integers(1, 12))):
        stream, rows = draw(st.sampled_from("ab")), []
        for _ in range(draw(st.integers(1, 4))):
            ts += draw(st.sampled_from([0, 0, 1, 3]))
            rows.append((ts, draw(st.integers(0, 2)), draw(st.sampled_from([None, 0.5, 1.5]))))
        push(engine, stream, *rows)
        delivered += delivering.results().num_rows
        assert counting.count == delivering.count == delivered
    engine.advance(ts + 30)
    engine.close()
    delivered += delivering.results().num_rows
    assert counting.count == delivering.count == delivered
    with pytest.raises(penstock.UsageError, match="which only counts"):
        counting.results()


def test_a_stream_joined_with_a_table_needs_no_window() -> None:
    """Rows meet the table and are forgotten."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT); CREATE TABLE names (k BIGINT, name VARCHAR)")
    query = engine.query("SELECT s.k, name FROM s JOIN names ON s.k = names.k")
    with pytest.raises(penstock.QueryError, match="Expected a window on `s`, found none"):
        engine.query("SELECT name, COUNT(*) FROM s JOIN names ON s.k = names.k GROUP BY name")
    engine.push("names", {"k": [1, 2, 2], "name": ["one", "two", "zwei"]})
    for ts in range(100):
        engine.push("s", {"ts": [ts] * 10, "k": [ts % 4] * 10})
    assert query.count == 25 * 10 * 3
    operators = engine.stats()["queries"][query.name]["operators"]
    (join,) = (one for one in operators if one["kind"] == "ChangeJoin")
    assert join["state_rows"] <= 3 + 10, "rows of the stream are kept"

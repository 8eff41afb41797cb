"""Queries that start while equal parts of others are at work, against DuckDB: drawn trees and moments."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import plain, rows_of
from query_trees import Drawn, Trees
from test_changes_oracle import APPROACHES, arrivals, drive, expected, make_engine, make_oracle, same
from work_of import sub_plans_of

import penstock
from penstock.optimizer.plan.modes import MODES
from penstock.query import EPOCH, NEVER

ABOVE = [
    "{}",
    "SELECT k, v FROM ({}) AS late WHERE k > 0",
    "SELECT DISTINCT k, v FROM ({}) AS late",
    "SELECT COUNT(*) AS k, MAX(v) AS v FROM ({}) AS late",
    "SELECT x.k, y.v FROM ({}) AS x JOIN (SELECT k, v FROM t) AS y ON x.k = y.k",
    "SELECT * FROM ({}) AS x EXCEPT ALL SELECT k, v FROM t",
]
OVER_THE_SAME_COLUMNS = [
    "SELECT k, SUM(v) AS v FROM ({}) AS late GROUP BY k",
    "SELECT k, MAX(v) AS v FROM ({}) AS late GROUP BY k",
    "SELECT k, CAST(COUNT(DISTINCT v) AS DOUBLE) AS v FROM ({}) AS late GROUP BY k",
]


def above(draw: Any, query: Drawn) -> Drawn:
    """The query itself, or another that has it as a part."""
    text = draw(st.sampled_from(ABOVE + 2 * OVER_THE_SAME_COLUMNS))
    return Drawn(text.format(query.penstock), text.format(query.duck))


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("emit", ["CHANGES", "DELTA", "COMPLETE"])
def test_late_queries_oracle(emit: str, data: st.DataObject) -> None:
    draw = data.draw
    streams = {"a": draw(arrivals(20)), "b": draw(arrivals(20))}
    hop, origin = (1, 0) if emit == "CHANGES" else (draw(st.integers(1, 6)), draw(st.sampled_from([0, 3])))
    tail = f"EMIT {emit}" if emit == "CHANGES" else f"HOP BY {hop} us ORIGIN {origin} EMIT {emit}"
    trees = Trees(draw, list(streams), windows=("range", "rows", "unbounded"))
    if draw(st.booleans()):
        query = trees.tree(draw(st.integers(0, 3)))
    else:  # what keeps nothing itself: a window, pairs
        query = trees.scan() if draw(st.booleans()) else trees.double("join", trees.scan(), trees.scan())
    if not trees.references:
        return
    engine = make_engine(draw, draw(st.sampled_from(APPROACHES)), streams)
    engine._setting = replace(engine._setting, panes=draw(st.booleans()))

    def start(one: Drawn) -> tuple[Drawn, penstock.Query]:
        modes = draw(st.sampled_from(["auto", "auto", *MODES])) if emit != "CHANGES" else None
        return one, engine.query(f"{one.penstock} {tail}", modes=modes)

    running = [start(above(draw, query)) for _ in range(draw(st.integers(1, 2)))]
    for _ in drive(draw, engine, streams):
        if len(running) < 4 and draw(st.integers(0, 2)) == 0:
            running.append(start(above(draw, query)))
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    end = max(ts for table in streams.values() for ts in table["ts"].to_pylist())
    for ahead in (1, 13, 30):
        engine.advance(end + ahead)
        engine._runtime._check()
    engine.close()
    oracle = make_oracle(streams, trees)
    for one, started in running:
        since = started.complete_from
        if since == NEVER:
            continue
        begin = min(times) if since is None else round((since - EPOCH).total_seconds() * 1e6)
        check(draw, started, oracle, one, range(begin + (origin - begin) % hop, end + 14, hop), emit)


def check(draw: Any, query: penstock.Query, oracle: Any, drawn: Drawn, instants: range, emit: str) -> None:
    rows = rows_of(query.results())
    if emit == "COMPLETE":
        rows = [(row[0], 1, *row[1:]) for row in rows]
    for instant in draw(st.permutations(instants))[:6]:
        answer: Counter[Any] = Counter()
        for ts, diff, *row in rows:
            if ts == instant if emit == "COMPLETE" else ts <= instant:
                answer[same(plain(tuple(row)))] += diff
        assert all(count >= 0 for count in answer.values()), "a row left that had not entered"
        assert +answer == expected(oracle, drawn.duck, instant), f"{drawn.penstock} at {instant}"


@settings(max_examples=60)
@given(st.data())
def test_what_was_there_is_given_at_once_oracle(data: st.DataObject) -> None:
    """A query that is exact from where its streams stand has given what its windows hold there by the time
    it has begun: nobody pushes a row or advances time."""
    draw = data.draw
    streams = {"a": draw(arrivals(20)), "b": draw(arrivals(20))}
    trees = Trees(draw, list(streams), windows=("range", "range", "unbounded"))
    query = trees.tree(draw(st.integers(0, 3)))
    if not trees.references:
        return
    engine = make_engine(draw, draw(st.sampled_from([one for one in APPROACHES if one != "ita"])), streams)
    read = {one.stream for one in trees.references}
    engine.query(f"{above(draw, query).penstock} EMIT CHANGES")
    for at in drive(draw, engine, streams):
        if draw(st.integers(0, 2)) > 0:
            continue
        one = above(draw, query)
        late = engine.query(f"{one.penstock} EMIT CHANGES")
        now = min(engine._runtime.streams[name].watermark for name in read)
        since = now if late.complete_from is None else micros(late)
        if since > now or not any(at[name] for name in read):
            continue
        come = {name: table.slice(0, at[name]) for name, table in streams.items()}
        answer = Counter({same(row): n for row, n in folded(rows_of(late.results()), now).items()})
        assert answer == expected(make_oracle(come, trees), one.duck, now), f"{one.penstock} at {now}"


def micros(query: penstock.Query) -> int:
    since = query.complete_from
    assert since is not None
    return round((since - EPOCH).total_seconds() * 1e6)


AT_ONCE = [
    "SELECT k, COUNT(*) AS n, MAX(v) AS s FROM {a} GROUP BY k",
    "SELECT COUNT(*) AS n, SUM(v) AS s FROM {a}",
    "SELECT k, v FROM {a} WHERE v > 1",
    "SELECT DISTINCT k, k AS v FROM {a}",
    "SELECT a.k, b.v FROM {a} JOIN {b} ON a.k = b.k",
    "SELECT a.k, b.v FROM {a} LEFT JOIN {b} ON a.k = b.k AND a.v < b.v",
    "SELECT k, v FROM {a} EXCEPT ALL SELECT k, v + 1 FROM {b}",
]


@pytest.mark.parametrize("expiry", APPROACHES)
@pytest.mark.parametrize("sql", AT_ONCE)
def test_a_late_query_gives_its_first_answer_at_once(sql: str, expiry: str) -> None:
    """Beside another like it, as of the last time there was, and once only.

    ::

        a, b     1   2     4         late begins: |==4==|, the row at 1 is in its window until 6
    """
    engine = penstock.Engine(expiry=expiry)
    engine.execute("".join(f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, v BIGINT);" for s in "ab"))
    text = sql.format(a="a [RANGE 5 us]", b="b [RANGE 5 us]") + " EMIT CHANGES"
    early = engine.query(text)
    for ts in (1, 2, 4):
        for stream in "ab":
            engine.push(stream, {"ts": [ts], "k": [ts % 2], "v": [ts]})
    late = engine.query(text)
    assert micros(late) <= 5
    first = rows_of(late.results())
    assert first and {ts for ts, *_ in first} == {4}
    changes = rows_of(early.results())
    assert folded(first, 4) == folded(changes, 4)
    engine.push("a", {"ts": [5], "k": [1], "v": [5]})
    engine.advance(30)
    engine.close()
    first += rows_of(late.results())
    changes += rows_of(early.results())
    for instant in range(4, 13):
        assert folded(first, instant) == folded(changes, instant), f"at {instant}"


def test_a_first_answer_that_fails_stops_the_query_alone() -> None:
    """The sum of what is there is no BIGINT: `query` gives the query, whose results say so."""
    engine = penstock.Engine(expiry="nta")
    engine.execute("CREATE STREAM a (ts TIMESTAMP, v BIGINT)")
    kept = engine.query("SELECT v FROM a [RANGE 5 us] EMIT CHANGES")
    engine.push("a", {"ts": [1, 1], "v": [2**62, 2**62]})
    late = engine.query("SELECT SUM(v) AS s FROM a [RANGE 5 us]", name="late")
    assert [row[2] for row in rows_of(late.results())] == [None]  # the total before any row
    with pytest.raises(penstock.StoppedError, match="`SUM`, in query `late`"):
        late.results()
    again = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
    for one in (engine, again):
        with pytest.raises(penstock.StoppedError, match="in query `late`"):
            one.push("a", {"ts": [2], "v": [1]})
    engine.push("a", {"ts": [3], "v": [1]})
    assert folded(rows_of(kept.results()), 3) == {(2**62,): 2, (1,): 2}


@pytest.mark.parametrize("expiry", APPROACHES)
def test_what_keeps_nothing_is_read_from_now_on(expiry: str) -> None:
    """A window below aggregates and the pairs of a join, which nobody can tell; they run once all the same.

    ::

        a, b    1 2       each row until 5 later
        late       3      SUM lacks the rows of 1 and 2, until 7, unless windows are kept in common
        again         6   another SUM comes to read the one at work and is told what that holds
    """
    engine = penstock.Engine(expiry=expiry)
    engine.execute("".join(f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, v BIGINT);" for s in "ab"))
    rows = "SELECT k, v FROM a [RANGE 5 us] WHERE v > 0"
    pairs = "SELECT b.k, a.v FROM a [RANGE 5 us] JOIN b [RANGE 5 us] ON a.k = b.k"
    texts = [
        "SELECT MAX(k) AS k, {1}(v) AS s FROM ({0}) AS q",
        "SELECT k, {1}(v) AS s FROM ({0}) AS q GROUP BY k",
    ]

    def start(call: str) -> list[penstock.Query]:
        return [engine.query(text.format(below, call)) for below in (rows, pairs) for text in texts]

    def both(ts: int) -> None:
        for stream in "ab":
            engine.push(stream, {"ts": [ts], "k": [1], "v": [ts]})

    start("COUNT")
    both(1)
    both(2)
    parts = len(sub_plans_of(engine))
    late = start("SUM")
    assert len(sub_plans_of(engine)) == parts + len(late), "the sums alone are new"
    both(3)
    both(6)
    again = start("SUM")
    assert len(sub_plans_of(engine)) == parts + len(late)
    engine.advance(7)
    both(8)
    # what a store or an Expire keeps can be told
    kept = {"auto": (2, 7), "nta": (2, 2), "time-message": (2, 7)}.get(expiry, (7, 7))
    for queries, since in zip((late[:2], late[2:]), kept, strict=True):
        assert {one.complete_from for one in queries} == {EPOCH.replace(microsecond=since)}
    for one, other in zip(late, again, strict=True):
        assert other.complete_from == max(one.complete_from, EPOCH.replace(microsecond=6))
        came, told = rows_of(one.results()), rows_of(other.results())
        for now, total in ((7, 3 + 6), (8, 6 + 8)):  # every row of a meets two of b
            ((*_, found),) = folded(came, now)
            assert found == total * (1 if one in late[:2] else 2)
            assert folded(told, now) == folded(came, now)


def folded(changes: list[tuple[Any, ...]], now: int) -> Counter[Any]:
    answer: Counter[Any] = Counter()
    for ts, diff, *row in changes:
        answer[tuple(row)] += diff if ts <= now else 0
    return +answer


@pytest.mark.parametrize(("emit", "other", "own"), [
    ("COMPLETE", "s [RANGE 1 us] AS t", 0), ("COMPLETE", "t", 3), ("DELTA", "s [RANGE 1 us] AS t", 1),
])  # fmt: skip
def test_whole_answers_of_parts_at_work_are_shared(emit: str, other: str, own: int) -> None:
    """Whatever says all there is at every boundary can be read from the next one on.

    With a table, who reads changes leaves out boundaries without rows, and is made of other parts.

    ::

        s       1 2 3 4 5 6 7 8 9    a row each
        early   |RANGE 6, HOP 2
        late              |          the answer at 8; changes also at 6, which is not over yet
    """
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT); CREATE TABLE t (k BIGINT)")
    engine.push("t", {"k": [0, 1]})
    sql = (
        f"SELECT DISTINCT s.k, t.k AS l FROM s [RANGE 6 us] LEFT JOIN {other} ON s.k = t.k HOP BY 2 us EMIT "
    )
    early = engine.query(sql + "COMPLETE", modes="CICO")
    for ts in range(1, 7):
        engine.push("s", {"ts": [ts], "k": [ts]})
    parts = len(sub_plans_of(engine))
    late = engine.query(sql + emit, modes="CIDO")
    assert len(sub_plans_of(engine)) == parts + own  # of DELTA what has changed since the hop before
    for ts in range(7, 10):
        engine.push("s", {"ts": [ts], "k": [ts]})
    assert late.complete_from == EPOCH.replace(microsecond=6 + (emit == "COMPLETE"))
    whole = Counter(row[1:] for row in rows_of(early.results()) if row[0] == 8)
    found: Counter[Any] = Counter()
    for _, *row in rows_of(late.results()):
        found[tuple(row[emit == "DELTA" :])] += row[0] if emit == "DELTA" else 1
    assert +found == whole and len(whole) == 6

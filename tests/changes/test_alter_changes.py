"""ALTER QUERY of incremental queries against DuckDB: drawn trees, windows and moments.

Until the new windows are full the changes fold to the answer over the old ones, from `complete_from` on to
the answer over the new ones; and no row leaves that had not entered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Reference, plain, rows_of
from query_trees import Trees
from test_changes_oracle import APPROACHES, Folded, arrivals, drive, expected, found, make_engine, same
from test_changes_oracle import make_oracle as oracle_of
from work_of import panes_of

import penstock
from penstock.query import EPOCH, NEVER

UNBOUNDED = "ALTER QUERY of a query whose answer nobody keeps"
MODES = ["auto", "auto", "DIDO", "DICO", "CICO", "CIDO"]


class Altered:
    """A query whose windows change, and which windows it has answered for since when."""

    def __init__(self, query: penstock.Query, trees: Trees) -> None:
        self.query = query
        self.trees = trees
        self.spans: list[tuple[int | None, list[Reference]]] = [(None, trees.references)]
        self.next: list[Reference] | None = None

    def alter(self, engine: penstock.Engine, kind: str, size: int) -> None:
        unit = "us" if kind == "range" else "ROWS"
        engine.execute(f"ALTER QUERY {self.query.name} SET WINDOW {size} {unit}")
        last = self.spans[-1][1]
        self.next = [replace(one, kind=kind, size=size, partition="", lifetimes={}) for one in last]
        self.look()

    def look(self) -> None:
        """Whether the new windows are in force."""
        since = self.query.complete_from
        if self.next is not None and since != NEVER:
            start = None if since is None else round((since - EPOCH).total_seconds() * 1e6)
            if start is None:
                self.spans.clear()
            self.spans.append((start, self.next))
            self.next = None

    def periods(self, begin: int, end: int) -> Any:
        """(references, first instant, instant after the last) of each."""
        for number, (start, references) in enumerate(self.spans):
            later = [since for since, _ in self.spans[number + 1 :] if since is not None]
            yield references, begin if start is None else max(start, begin), min([*later, end])

    def oracle(self, streams: dict[str, pa.Table], references: list[Reference]) -> Any:
        return oracle_of(streams, replace(self.trees, references=references))


def drawn(draw: Any, windows: tuple[str, ...], emit: str, approach: str) -> Any:
    streams = {"a": draw(arrivals(24)), "b": draw(arrivals(24))}
    trees = Trees(draw, list(streams), windows=windows)
    query = trees.tree(draw(st.integers(0, 4)))
    engine = make_engine(draw, approach, streams)
    if emit.startswith("HOP"):
        modes, execution = draw(st.sampled_from(MODES)), draw(st.sampled_from(["waat", "taat"]))
        engine._forced = replace(engine._forced, modes=modes, execution=execution)
        engine._setting = replace(engine._setting, panes=draw(st.booleans()))
    if not trees.references:
        return None
    return streams, query, engine, Altered(engine.query(f"{query.penstock} {emit}", name="q"), trees)


def times_of(streams: dict[str, pa.Table], trees: Trees) -> tuple[list[int], int]:
    """Of the streams it reads, and the last of any."""
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    return times, max((ts for table in streams.values() for ts in table["ts"].to_pylist()), default=0)


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("approach", APPROACHES)
def test_altered_oracle(approach: str, data: st.DataObject) -> None:
    draw = data.draw
    made = drawn(draw, ("range", "range", "rows", "partition", "unbounded"), "EMIT CHANGES", approach)
    if made is None:
        return
    streams, query, engine, altered = made
    folded = Folded(altered.query)

    def maybe() -> bool:
        if draw(st.integers(0, 5)) == 0:
            kind = draw(st.sampled_from(["range", "range", "rows"]))
            try:
                altered.alter(engine, kind, draw(st.integers(1, 10 if kind == "range" else 4)))
            except penstock.UnsupportedError as error:
                if str(error).startswith(UNBOUNDED) and "UNBOUNDED" in query.penstock:
                    return False
                raise
        return True

    if not maybe():
        return
    for _ in drive(draw, engine, streams):
        folded.read()
        altered.look()
        if not maybe():
            return
    times, end = times_of(streams, altered.trees)
    if not times:
        return
    for ahead in (1, 2, 13, 30):
        engine.advance(end + ahead)
        engine._runtime._check()
        altered.look()
    engine.close()
    folded.read()
    for references, begin, stop in altered.periods(min(times), end + 20):
        oracle = altered.oracle(streams, references)
        ends = {ets for one in references for pair in one.lifetimes.values() for ets in pair}
        instants = sorted({ts for ts in (*times, *ends, begin, stop - 1) if begin <= ts < stop})
        for instant in draw(st.permutations(instants))[:5]:
            answer = expected(oracle, query.duck, instant)
            assert found(folded, instant) == answer, f"{query.penstock} at {instant}, {altered.spans}"


@settings(max_examples=60)
@given(st.data())
@pytest.mark.parametrize("emit", ["COMPLETE", "DELTA"])
def test_altered_hops_oracle(emit: str, data: st.DataObject) -> None:
    draw = data.draw
    hop, origin = draw(st.integers(1, 7)), draw(st.sampled_from([0, 0, 3]))
    tail = f"HOP BY {hop} us ORIGIN {origin} EMIT {emit}"
    windows = draw(st.sampled_from([("range",), ("range", "rows", "partition")]))
    made = drawn(draw, windows, tail, draw(st.sampled_from(["auto", "nta"])))
    if made is None:
        return
    streams, query, engine, altered = made
    for _ in drive(draw, engine, streams):
        altered.look()
        if draw(st.integers(0, 5)) == 0:
            kind = draw(st.sampled_from(["range", "range", "rows"]))
            altered.alter(engine, kind, draw(st.integers(1, 10 if kind == "range" else 4)))
    times, end = times_of(streams, altered.trees)
    if not times:
        return
    for ahead in (1, 2, 13, 30):
        engine.advance(end + ahead)
        engine._runtime._check()
        altered.look()
    engine.close()
    results = rows_of(altered.query.results())
    if emit == "COMPLETE":
        rows = [(row[0], 1, same(plain(row[1:]))) for row in results]
    else:
        rows = [(row[0], row[1], same(plain(row[2:]))) for row in results]
    assert all((row[0] - origin) % hop == 0 for row in rows)
    for references, begin, stop in altered.periods(min(times), end + 20):
        oracle = altered.oracle(streams, references)
        for boundary in range(begin + (origin - begin) % hop, stop, hop):
            answer: Counter[Any] = Counter()
            for ts, diff, row in rows:
                if ts == boundary if emit == "COMPLETE" else ts <= boundary:
                    answer[row] += diff
            assert all(count >= 0 for count in answer.values()), "a row left that had not entered"
            assert +answer == expected(oracle, query.duck, boundary), f"{query.penstock} {tail} at {boundary}"


# By hand


def engine_of(*queries: str, expiry: str = "auto") -> penstock.Engine:
    engine = penstock.Engine(expiry=expiry)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT)")
    for number, sql in enumerate(queries):
        engine.query(sql, name=f"q{number}")
    return engine


def push(engine: penstock.Engine, *rows: tuple[int, int, int]) -> None:
    ts, k, v = zip(*rows, strict=True)
    engine.push("s", {"ts": list(ts), "k": list(k), "v": list(v)})


@pytest.mark.parametrize("expiry", ["ita", "piggyback"])
def test_the_difference_comes_when_the_new_window_is_full(expiry: str) -> None:
    """Nobody keeps the rows of an aggregate's window, unless windows are kept in common.

    ::

        s       1 2 3 4 5 6 7 8       a row each
        q0      |RANGE 4  |RANGE 2    altered after 4, full and in force at 6
    """
    engine = engine_of("SELECT k, SUM(v) AS s FROM s [RANGE 4 us] GROUP BY k EMIT CHANGES", expiry=expiry)
    query = engine.queries["q0"]
    for ts in range(1, 5):
        push(engine, (ts, 1, ts))
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    assert query.complete_from == NEVER
    for ts in range(5, 9):
        push(engine, (ts, 1, ts))
    assert query.complete_from == EPOCH.replace(microsecond=6)
    folded = Folded(query)
    folded.read()
    assert [sorted(folded.at(ts))[0][1] for ts in range(4, 9)] == [10, 14, 11, 13, 15]


def test_the_rows_of_an_aggregate_are_kept_in_common() -> None:
    """::

    s       1 2 3 4 5 6 7 8 9      a row each
    q0      |RANGE 4|RANGE 2|RANGE 5
                         in force at once, and when the rows since 5 are five: at 9
    """
    sql = "SELECT k, SUM(v) AS s FROM s [RANGE 4 us] GROUP BY k EMIT CHANGES"
    engine = engine_of(sql, "SELECT COUNT(*) AS n FROM s [RANGE 1 us]")
    query = engine.queries["q0"]
    for ts in range(1, 5):
        push(engine, (ts, 1, ts))
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    assert query.complete_from == EPOCH.replace(microsecond=4)
    for ts in range(5, 7):
        push(engine, (ts, 1, ts))
    engine.execute("ALTER QUERY q0 SET WINDOW 5 us")
    assert query.complete_from == NEVER
    for ts in range(7, 11):
        push(engine, (ts, 1, ts))
    assert query.complete_from == EPOCH.replace(microsecond=9)
    folded = Folded(query)
    folded.read()
    assert [sorted(folded.at(ts))[0][1] for ts in range(3, 11)] == [6, 7, 9, 11, 13, 15, 35, 40]


@pytest.mark.parametrize("expiry", [one for one in APPROACHES if one != "ita"])
def test_a_shorter_window_of_which_rows_are_kept_is_in_force_at_once(expiry: str) -> None:
    """::

    s       1 2 3 4 5 6 7 8       a row each
    q0      |RANGE 4|RANGE 2      altered after 4: rows at 1 and 2 leave
    """
    engine = engine_of("SELECT v FROM s [RANGE 4 us] EMIT CHANGES", expiry=expiry)
    query = engine.queries["q0"]
    for ts in range(1, 5):
        push(engine, (ts, 1, ts))
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    assert query.complete_from == EPOCH.replace(microsecond=4)
    assert Counter(rows_of(query.results())[4:]) == Counter([(4, -1, 1), (4, -1, 2)])
    push(engine, (5, 1, 5))
    assert Counter(rows_of(query.results())) == Counter([(5, -1, 3), (5, 1, 5)])


@pytest.mark.parametrize("expiry", [one for one in APPROACHES if one != "ita"])
def test_a_longer_window_waits_for_what_it_lacks_alone(expiry: str) -> None:
    """The rows of the last 4 are there at 9, those of the last 6 from 11 on."""
    engine = engine_of("SELECT v FROM s [RANGE 4 us] EMIT CHANGES", expiry=expiry)
    query = engine.queries["q0"]
    for ts in range(1, 10):
        push(engine, (ts, 1, ts))
    engine.execute("ALTER QUERY q0 SET WINDOW 6 us")
    for ts in range(10, 13):
        push(engine, (ts, 1, ts))
    assert query.complete_from == EPOCH.replace(microsecond=11)
    folded = Folded(query)
    folded.read()
    assert [sum(folded.at(ts).values()) for ts in (9, 10, 11, 12)] == [4, 4, 6, 6]


def test_before_anything_has_come_the_new_window_is_in_force_at_once() -> None:
    engine = engine_of("SELECT COUNT(*) AS n FROM s [RANGE 4 us] EMIT CHANGES")
    query = engine.queries["q0"]
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    assert query.complete_from is None
    for ts in range(1, 5):
        push(engine, (ts, 1, ts))
    assert rows_of(query.results()) == [(1, 1, 1), (2, -1, 1), (2, 1, 2)]


def test_of_two_alterations_the_last_counts() -> None:
    engine = engine_of("SELECT COUNT(*) AS n FROM s [RANGE 4 us] EMIT CHANGES", expiry="piggyback")
    query = engine.queries["q0"]
    push(engine, (1, 1, 1))
    engine.execute("ALTER QUERY q0 SET WINDOW 100 us; ALTER QUERY q0 SET WINDOW 2 us")
    for ts in range(2, 8):
        push(engine, (ts, 1, ts))
    assert query.complete_from == EPOCH.replace(microsecond=3)
    assert rows_of(query.results())[-1] == (3, 1, 2)
    assert not engine._runtime.is_replanned("q0")


def test_an_alteration_by_a_subscriber_waits_until_the_push_is_worked_off() -> None:
    engine = engine_of(
        "SELECT k, COUNT(*) AS n FROM s [RANGE 4 us] GROUP BY k EMIT CHANGES", expiry="piggyback"
    )
    query, seen = engine.queries["q0"], []

    def alter(rows: pa.RecordBatch) -> None:
        if not seen:
            engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
        seen.append(rows)

    query.subscribe(alter)
    for ts in range(1, 8):
        push(engine, (ts, 1, ts))
    assert query.complete_from == EPOCH.replace(microsecond=3)
    assert rows_of(pa.Table.from_batches(seen))[-1] == (3, 1, 1, 2)


def test_a_query_dropped_on_the_way_leaves_nothing_behind() -> None:
    engine = engine_of(
        "SELECT k, COUNT(*) AS n FROM s [RANGE 4 us] GROUP BY k EMIT CHANGES", expiry="piggyback"
    )
    push(engine, (1, 1, 1))
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    assert engine._runtime.is_replanned("q0")
    engine.execute("DROP QUERY q0")
    runtime = engine._runtime
    assert not list(runtime.shared) and not runtime.at_work.owners
    assert all(not stream.output.queues for stream in runtime.streams.values())


def test_what_fails_with_the_new_window_stops_no_query_of_a_like_name() -> None:
    """A plan that catches up is known by itself, not by a name that some query may have."""
    engine = engine_of()
    altered = engine.query("SELECT SUM(v) AS s FROM s [RANGE 2 us] HOP BY 2 us", name="q")
    other = engine.query("SELECT v FROM s", name="q.next")
    push(engine, (1, 1, 1), (20, 1, 1 << 62))  # the row at 1 is gone, and the new window is not full
    engine.execute("ALTER QUERY q SET WINDOW 90 us")
    push(engine, (24, 1, 1 << 62))
    with pytest.raises(penstock.StoppedError, match="int64 overflow in `SUM`, in query `q`"):
        push(engine, (27, 1, 1))
    push(engine, (28, 1, 1))
    assert [row[1] for row in rows_of(other.results())] == [1, 1 << 62, 1 << 62, 1, 1]
    altered.results()
    with pytest.raises(penstock.StoppedError, match="int64 overflow"):
        altered.results()


def test_what_fails_with_the_new_window_alone_stops_the_query() -> None:
    """The sum of two rows is beyond BIGINT; the old window never held two."""
    engine = engine_of(
        "SELECT SUM(v) AS s FROM s [RANGE 2 us] EMIT CHANGES", "SELECT v FROM s [NOW]", expiry="piggyback"
    )
    push(engine, (1, 1, 1 << 62))
    engine.execute("ALTER QUERY q0 SET WINDOW 9 us")
    push(engine, (3, 1, 1 << 62))
    with pytest.raises(penstock.StoppedError, match="int64 overflow in `SUM`, in query `q0`"):
        push(engine, (5, 1, 1 << 62))
    assert rows_of(engine.queries["q0"].results()) == [(1, 1, 1 << 62)]
    push(engine, (6, 1, 1))
    assert engine.queries["q1"].count == 4


def test_other_queries_notice_nothing() -> None:
    """`q1` reads the same aggregate as `q0` before, and goes on with it."""
    sql = "SELECT k, COUNT(*) AS n FROM s [RANGE 4 us] GROUP BY k EMIT CHANGES"
    engine, alone = (engine_of(*texts, expiry="piggyback") for texts in ((sql, sql), (sql,)))
    for ts in range(1, 20):
        for one in (engine, alone):
            push(one, (ts, ts % 3, ts))
        if ts == 7:
            engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    assert rows_of(engine.queries["q1"].results()) == rows_of(alone.queries["q0"].results())
    assert engine.queries["q0"].complete_from == EPOCH.replace(microsecond=9)


# Hopping queries by hand


HOPS = "SELECT k, SUM(v) AS s FROM s [RANGE 4 us] GROUP BY k HOP BY 2 us EMIT "


@pytest.mark.parametrize("counting", [False, True])
def test_an_altered_query_lets_its_share_in_the_panes_go(counting: bool) -> None:
    """::

    s       1 2 3 4 5 6 7 8 9      a row each
    q0      |RANGE 4    |RANGE 2   altered after 5; the panes have edges at its beginnings
    """
    engine = engine_of()
    query = engine.query(HOPS + "COMPLETE", "q0", count_only=counting)
    other = engine.query(HOPS + "COMPLETE", "q1")
    for ts in range(1, 6):
        push(engine, (ts, 1, ts))
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    for ts in range(6, 10):
        push(engine, (ts, 1, ts))
    assert query.complete_from == EPOCH.replace(microsecond=6)
    (panes,) = panes_of(engine)
    assert {(one.name, one.node.size) for one in panes.members} == {("q0", 2), ("q1", 4)}
    assert query.count == 4
    if not counting:
        assert rows_of(query.results()) == [(2, 1, 3), (4, 1, 10), (6, 1, 11), (8, 1, 15)]
    assert rows_of(other.results()) == [(2, 1, 3), (4, 1, 10), (6, 1, 18), (8, 1, 26)]
    engine.execute("DROP QUERY q0; DROP QUERY q1")
    assert not panes_of(engine) and not engine._runtime.at_work.owners


def test_deltas_of_panes_go_on_from_what_was_said() -> None:
    """The panes have an edge at 2, so the answer at 10 is whole; no row enters and leaves there at once."""
    engine = engine_of()
    query = engine.query(HOPS + "DELTA", "q0")
    for ts in range(1, 7):
        push(engine, (ts, ts % 2, 1))
    engine.execute("ALTER QUERY q0 SET WINDOW 8 us")
    for ts in range(7, 20):
        push(engine, (ts, ts % 2, 1))
    assert query.complete_from == EPOCH.replace(microsecond=10)
    changes = rows_of(query.results())
    assert Counter(changes[-4:]) == Counter(
        [(10, -1, k, 2) for k in (0, 1)] + [(10, 1, k, 4) for k in (0, 1)]
    )


def test_a_delta_goes_over_from_panes_to_rows_and_back() -> None:
    """A window of more than 40 hops is not worth panes."""
    engine = engine_of()
    query = engine.query("SELECT COUNT(*) AS n FROM s [RANGE 4 us] HOP BY 1 us EMIT DELTA", "q0")
    sizes = {60: 80, 180: 4, 200: 3}
    for ts in range(1, 260):
        push(engine, (ts, 1, 1))
        if ts in sizes:
            assert bool(panes_of(engine)) is (ts != 180)
            engine.execute(f"ALTER QUERY q0 SET WINDOW {sizes[ts]} us")
    folded = Folded(query)
    folded.read()
    assert [list(folded.at(ts)) for ts in (50, 130, 179, 190, 250)] == [[(n,)] for n in (4, 4, 80, 4, 3)]


def test_the_modes_of_a_query_stay_when_it_is_altered() -> None:
    engine = engine_of()
    engine.query(HOPS + "COMPLETE", "q0", modes="CICO")
    push(engine, (1, 1, 1))
    engine.execute("ALTER QUERY q0 SET WINDOW 2 us")
    for ts in range(2, 9):
        push(engine, (ts, 1, 1))
    assert not engine._runtime.is_replanned("q0")
    assert "aggregate 1 CICO" in engine.explain() and not panes_of(engine)


def test_what_fails_by_panes_with_the_new_window_alone_stops_the_query() -> None:
    engine = engine_of()
    for emit in ("COMPLETE", "DELTA"):
        engine.query(HOPS.replace("RANGE 4", "RANGE 2") + emit, emit)
    other = engine.query(HOPS.replace("RANGE 4", "RANGE 2") + "COMPLETE", "other")
    push(engine, (1, 1, 1 << 62))
    engine.execute("ALTER QUERY complete SET WINDOW 9 us; ALTER QUERY delta SET WINDOW 9 us")
    push(engine, (3, 1, 1 << 62))
    with pytest.raises(penstock.StoppedError, match="int64 overflow in `SUM`, in query `COMPLETE`"):
        push(engine, (5, 1, 1 << 62), (7, 1, 1))
    push(engine, (9, 1, 1))
    assert other.count == 4
    assert {one.name for panes in panes_of(engine) for one in panes.members} == {"other"}

"""Hopping aggregates by panes against DuckDB at every boundary, and against the operators that keep rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, Reference, last_hop, plain, rows_of
from test_changes_oracle import expected, same
from test_hopping_oracle import complete_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.panes import pane_texts
from penstock.engine.panes import panes as panes_module
from penstock.engine.plan.plan import PaneAggregateNode
from penstock.engine.plan.plan_parts import plan_nodes

SCHEMA = pa.schema(
    [
        ("ts", pa.int64()), ("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("s", pa.string()),
        ("b", pa.bool_()), ("t", pa.timestamp("us")),
    ]
)  # fmt: skip
DECLARE = "CREATE STREAM a (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, b BOOLEAN, t TIMESTAMP)"
GROUPINGS = [(), ("k",), ("s",), ("k", "s"), ("b",), ("k % 2",), ("v",), ("t",)]
CALLS = [
    "COUNT(*)", "COUNT(v)", "COUNT(s)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "SUM(k)", "AVG(k)", "MIN(k)",
    "MAX(k)", "MIN(b)", "MAX(b)", "MIN(t)", "MAX(t)", "MAX(k + id)", "SUM(id)",
    "MIN(s)", "MAX(s)", "MAX(s || 'q')",
]  # fmt: skip
FILTERS = ["", "", " WHERE a.v > 0", " WHERE a.k IS NOT NULL AND a.id % 3 <> 1"]


@pytest.fixture(autouse=True)
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that nobody refers to are let go after a few rows; edges are kept by what has changed."""
    monkeypatch.setattr(pane_texts, "MIN_TEXTS", 3)
    monkeypatch.setattr(panes_module, "FEW_SLOTS", 0)
    monkeypatch.setattr(panes_module, "EDGE_SLOTS", 0)


@st.composite
def arrivals(draw: st.DrawFn, most: int = 14) -> pa.Table:
    """Ties, gaps long and short, duplicates, NULLs, NaN; sums are exact, also where they are rounded."""
    ts, rows = draw(st.integers(-3, 3)), []
    for id_ in range(draw(st.integers(0, most))):
        ts += draw(st.sampled_from([0, 0, 1, 1, 2, 7, 60]))
        rows.append(
            (
                ts,
                id_,
                draw(st.one_of(st.none(), st.integers(-1, 2))),
                draw(st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 3.75, -2.5, float("nan")]))),
                draw(st.sampled_from([None, "", "x", "yy"])),
                draw(st.sampled_from([None, True, False])),
                draw(st.sampled_from([None, -5, 3, 9])),
            )
        )
    columns = list(zip(*rows, strict=True)) if rows else [[]] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


class Drawn:
    """A hopping aggregate, for both engines."""

    def __init__(self, draw: Any, windows: Any = None) -> None:
        keys = draw(st.sampled_from(GROUPINGS))
        calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4, unique=True))
        self.size = draw(st.integers(1, 40) if windows is None else windows)
        self.hop, self.origin = draw(st.integers(1, 15)), draw(st.sampled_from([0, 0, 3, 1000]))
        chosen = ", ".join(f"{one} AS c{i}" for i, one in enumerate([*keys, *calls]))
        having = draw(st.sampled_from(["", "", "", " HAVING COUNT(*) > 1"]))
        where = draw(st.sampled_from(FILTERS))
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        self.duck = f"SELECT {chosen} FROM a{where}{by}{having}"
        self.penstock = (
            f"SELECT {chosen} FROM a [RANGE {self.size} us]{where}{by}{having} "
            f"HOP BY {self.hop} us ORIGIN {self.origin}"
        )

    def boundaries(self, first: int, end: int) -> range:
        return range(first + (self.origin - first) % self.hop, end + 1, self.hop)


def make_engine(draw: Any, panes: bool = True) -> penstock.Engine:
    seed = draw(st.integers(0, 1 << 20))
    scheduler = RoundRobin(draw(st.sampled_from([1, 3, 65_536]))) if seed % 2 else Shuffled(seed)
    engine = penstock.Engine(scheduler=scheduler, panes=panes)
    engine.execute(DECLARE)
    return engine


def runs_by_panes(query: penstock.Query) -> bool:
    return any(isinstance(node, PaneAggregateNode) for node in plan_nodes(query._pipeline.plan))


def cut(draw: Any, engine: penstock.Engine, table: pa.Table) -> Any:
    """Push the table cut anywhere, time advanced now and then; yields after each."""
    at = 0
    while at < table.num_rows:
        size = draw(st.integers(1, 6))
        engine.push("a", table.slice(at, size))
        at += size
        engine._runtime._check()
        yield at
        if at < table.num_rows and draw(st.integers(0, 2)) == 0:
            engine.advance(table["ts"][at].as_py())
            engine._runtime._check()
            yield at


def oracle_of(table: pa.Table, size: int) -> Oracle:
    return Oracle({"a": table}, [Reference("a", "a", "range", size)])


def folds(query: penstock.Query) -> list[tuple[int, int, Any]]:
    return [(row[0], row[1], same(plain(row[2:]))) for row in rows_of(query.results())]


@settings(max_examples=60)
@given(st.data())
def test_every_hop_oracle(data: st.DataObject) -> None:
    """Complete answers equal DuckDB's, deltas fold to them."""
    draw = data.draw
    table, one = draw(arrivals()), Drawn(draw)
    engine = make_engine(draw)
    complete, delta = engine.query(one.penstock), engine.query(f"{one.penstock} EMIT DELTA")
    assert runs_by_panes(complete) and runs_by_panes(delta)
    for _ in cut(draw, engine, table):
        pass
    if not table.num_rows:
        engine.advance(50)
        assert complete.results().num_rows == delta.results().num_rows == 0
        return
    times = table["ts"].to_pylist()
    ahead, drain = draw(st.sampled_from([None, None, 0, 1, 25, 90])), draw(st.booleans())
    if ahead is not None:
        engine.advance(times[-1] + ahead)
    passed = engine._runtime.streams["a"].watermark
    engine.close(drain=drain)
    engine._runtime._check()
    end = last_hop([times[-1] + (one.size if drain else 0)], passed, one.hop, one.origin)
    found, changes, oracle = complete_of(complete), folds(delta), oracle_of(table, one.size)
    answer: Counter[Any] = Counter()
    for boundary in one.boundaries(times[0], end):
        wanted = expected(oracle, one.duck, boundary)
        assert found.pop(boundary, Counter()) == wanted, f"{one.penstock} at {boundary}"
        for ts, diff, row in changes:
            if ts == boundary:
                answer[row] += diff
        answer = Counter({row: count for row, count in answer.items() if count})
        assert answer == wanted, f"delta of {one.penstock} at {boundary}"
    assert not found, f"{one.penstock}: an answer at no boundary, or after {end}"
    assert {ts for ts, _, _ in changes} <= set(one.boundaries(times[0], end))


@settings(max_examples=80)
@given(st.data())
def test_panes_give_what_rows_give(data: st.DataObject) -> None:
    """The same, also where nobody asks DuckDB: counts, and the very changes of each hop."""
    draw = data.draw
    table, one = draw(arrivals(25)), Drawn(draw)
    tail = draw(st.sampled_from(["", " EMIT DELTA"]))
    given: list[Counter[Any]] = []
    for panes in (True, False):
        engine = make_engine(draw, panes)
        query = engine.query(one.penstock + tail)
        counted = engine.query(one.penstock + tail, count_only=True)
        assert runs_by_panes(query) is panes
        for _ in cut(draw, engine, table):
            pass
        engine.close()
        rows = rows_of(query.results())
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
        assert counted.count == len(rows) == query.count
        given.append(Counter(same(row) for row in rows))
    assert given[0] == given[1], one.penstock + tail


@settings(max_examples=60)
@given(st.data())
def test_queries_that_come_and_go(data: st.DataObject) -> None:
    """Whoever comes late is exact from `complete_from` on; nobody notices who else is there."""
    draw = data.draw
    table = draw(arrivals(25))
    engine = make_engine(draw)
    running: list[tuple[Drawn, penstock.Query, penstock.Query]] = []

    def change() -> None:
        if running and draw(st.integers(0, 3)) == 0:
            for query in running.pop(draw(st.integers(0, len(running) - 1)))[1:]:
                query.drop()
        while len(running) < 4 and draw(st.booleans()):
            one = Drawn(draw)
            running.append((one, engine.query(one.penstock), engine.query(f"{one.penstock} EMIT DELTA")))

    change()
    for _ in cut(draw, engine, table):
        change()
        engine._runtime._check()
    if not table.num_rows:
        return
    times = table["ts"].to_pylist()
    ahead, drain = draw(st.sampled_from([None, 60])), draw(st.booleans())
    if ahead is not None:
        engine.advance(times[-1] + ahead)
    passed = engine._runtime.streams["a"].watermark
    engine.close(drain=drain)
    for one, complete, delta in running:
        end = last_hop([times[-1] + (one.size if drain else 0)], passed, one.hop, one.origin)
        found, changes, oracle = complete_of(complete), folds(delta), oracle_of(table, one.size)
        for boundary in one.boundaries(exact_from(complete, times[0]), end):
            wanted = expected(oracle, one.duck, boundary)
            assert found.get(boundary, Counter()) == wanted, f"{one.penstock} at {boundary}"
        for boundary in one.boundaries(exact_from(delta, times[0]), end):
            answer: Counter[Any] = Counter()
            for ts, diff, row in changes:
                if ts <= boundary:
                    answer[row] += diff
            wanted = expected(oracle, one.duck, boundary)
            assert Counter({row: n for row, n in answer.items() if n}) == wanted, f"delta, {one.penstock}"
        assert max([*found, *(ts for ts, _, _ in changes)], default=end) <= end, f"after {end}"


def exact_from(query: penstock.Query, first: int) -> int:
    since = query.complete_from
    return first if since is None else round(since.timestamp() * 1e6)


def shown(row: tuple[Any, ...]) -> str:
    """A row as a text to compare, NaN included; a group of 0.0 and -0.0 may show either."""
    return repr(tuple(value + 0.0 if isinstance(value, float) else value for value in row))


@settings(max_examples=60)
@given(st.data())
def test_rows_out_of_order(data: st.DataObject) -> None:
    """With slack rows are held and sorted, late ones dropped; a second query comes on the way."""
    draw = data.draw
    table, one, two = draw(arrivals(25)), Drawn(draw), Drawn(draw)
    ahead = [ts + draw(st.integers(0, 12)) for ts in table["ts"].to_pylist()]
    table = table.take(pa.array(sorted(range(len(ahead)), key=ahead.__getitem__), pa.int64()))
    cuts = [draw(st.integers(1, 6)) for _ in range(table.num_rows)]
    comes = draw(st.integers(0, 5))
    given: list[list[list[Any]]] = []
    for panes in (True, False):
        engine = penstock.Engine(panes=panes)
        engine.execute(DECLARE[:-1] + ", WATERMARK FOR ts AS ts - INTERVAL 8 MICROSECONDS)")
        queries = [engine.query(one.penstock + " LATE DROP")]
        at = 0
        for number, size in enumerate(cuts):
            if number == comes:
                queries.append(engine.query(two.penstock + " EMIT DELTA LATE DROP"))
            engine.push("a", table.slice(at, size))
            engine._runtime._check()
            at += size
            if at >= table.num_rows:
                break
        engine.close()
        given.append([sorted(map(shown, rows_of(query.results()))) for query in queries[:1]])
        if len(queries) > 1:
            folded: Counter[Any] = Counter()
            for _, diff, row in folds(queries[1]):
                folded[row] += diff
            assert all(n in (0, 1) for n in folded.values())
    assert given[0] == given[1], one.penstock


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, COUNT(DISTINCT v) FROM a [RANGE 5 us] GROUP BY k HOP BY 1 us",
        "SELECT k, COUNT(*) FROM a [RANGE UNBOUNDED] GROUP BY k HOP BY 1 us",
        "SELECT k, COUNT(*) FROM a [RANGE 257 us] GROUP BY k HOP BY 1 us",
        "SELECT k, COUNT(*) FROM a [RANGE 41 us] GROUP BY k HOP BY 1 us EMIT DELTA",
    ],
)
def test_what_panes_cannot_do_is_done_by_rows(sql: str) -> None:
    with penstock.Engine() as engine:
        engine.execute(DECLARE)
        assert not runs_by_panes(engine.query(sql))

"""Differential: an engine that was checkpointed and restored at a drawn moment, against one that went on.

Queries of every kind, drawn pushes and cuts, queries that come, change and go; the restored engine is itself
restored again. Results in order, counts, plans, row counters and invariants are the same for ever after.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from checkpoint_help import Twins, again
from hypothesis import given, settings
from hypothesis import strategies as st
from query_trees import Trees

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.optimizer.plan.modes import MODES

STRATEGIES = ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain", "chain-cpu", "unshared"]
APPROACHES = ["auto", "ita", "nta", "time-message", "piggyback"]
CONDITIONS = ["x.k = y.k", "x.k = y.k", "x.k < y.k", "x.k BETWEEN y.k - 1 AND y.k", "x.s = y.s", "x.v <> y.v"]
FILTERS = [
    "", "", " WHERE x.v > 0", " WHERE x.v > 0.5", " WHERE y.v <= 1.5 AND x.k > 0", " WHERE x.s = 'a'",
    " WHERE x.s LIKE 'b%'", " WHERE CAST(y.s AS BIGINT) = 1",
]  # fmt: skip
SELECTS = ["k > 0", "v > 0.5", "s = 'a'", "k = 1 AND v < 1", "s LIKE 'b%'"]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())])
TABLE = pa.table({"k": pa.array([1, 1, 2, None], pa.int64()), "v": pa.array([0.5, 0.5, None, 1.0])})
WINDOWS = ("range", "rows", "partition", "unbounded")
CALLS = ["COUNT(*)", "COUNT(v)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "MAX(k)", "SUM(k)", "MAX(s)"]
KEYS = st.one_of(st.none(), st.integers(0, 3), st.integers(0, 1))
VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.5, -2.0, float("nan")]))
TEXTS = st.sampled_from(["1", "1", "2", "1", "a", "bc", "", None])


def window(draw: Any, number: int) -> str:
    return (f"RANGE {number} MICROSECONDS", f"RANGE {number} MICROSECONDS", f"ROWS {number}", "NOW")[
        draw(st.integers(0, 3))
    ]


def drawn_query(draw: Any) -> str:
    kinds = ["join", "join", "join", "select", "rows", "tree", "tree", "hop", "hop", "panes"]
    kind = draw(st.sampled_from(kinds))
    if kind == "join":
        sides = [f"{stream} [{window(draw, draw(st.integers(1, 9)))}]" for stream in ("a", "b")]
        columns = draw(st.sampled_from(["x.k, y.v", "x.s, y.k AS k2, x.v", "y.s"]))
        on, where = draw(st.sampled_from(CONDITIONS)), draw(st.sampled_from(FILTERS))
        return f"SELECT {columns} FROM {sides[0]} AS x JOIN {sides[1]} AS y ON {on}{where}"
    if kind == "select":
        stream, where = draw(st.sampled_from("ab")), draw(st.sampled_from(SELECTS))
        return f"SELECT {draw(st.sampled_from(['k, s', 'v', 'k + 1 AS k']))} FROM {stream} WHERE {where}"
    if kind == "rows":
        return f"SELECT k, s FROM a [ROWS {draw(st.integers(1, 4))}] WHERE k > 0"
    trees = Trees(draw, ["a", "b"], windows=WINDOWS if kind == "hop" else ("range", "rows"))
    text = trees.tree(draw(st.integers(0, 4))).penstock
    if kind == "tree":
        return f"{text} EMIT CHANGES"
    if kind == "panes":
        calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True))
        chosen = ", ".join(["k", *(f"{call} AS c{place}" for place, call in enumerate(calls))])
        text = f"SELECT {chosen} FROM a [RANGE {draw(st.integers(1, 9))} MICROSECONDS] GROUP BY k"
    return f"{text} HOP BY {draw(st.integers(1, 5))} MICROSECONDS{draw(st.sampled_from(['', ' EMIT DELTA']))}"


def drawn_options(draw: Any, sql: str) -> dict[str, Any]:
    """How a query runs; of hopping ones also in which mode."""
    options: dict[str, Any] = {"count_only": draw(st.booleans())}
    if "HOP BY" in sql:
        options["modes"] = draw(st.sampled_from(["auto", "auto", *MODES]))
        options["execution"] = draw(st.sampled_from(["waat", "taat"]))
    return options


def drawn_rows(draw: Any, now: int, slack: int) -> pa.Table:
    """Ties, gaps, NULLs; out of order within the slack, and now and then beyond it."""
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        now += draw(st.sampled_from([0, 0, 1, 2, 6]))
        behind = draw(st.integers(0, slack)) if slack else draw(st.sampled_from([0] * 30 + [9]))
        rows.append((now - behind, draw(KEYS), draw(VALUES), draw(TEXTS)))
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def change_queries(draw: Any, twins: Twins, names: list[str]) -> None:
    """Maybe start, drop or alter a query."""
    what = draw(st.sampled_from(["start", "start", "drop", "alter", "nothing"]))
    if what == "start" and len(names) < 8:
        name, sql = f"n{len(names)}", drawn_query(draw)
        options = drawn_options(draw, sql)
        started = twins.do(lambda engine: engine.query(sql, name, **options))
        if isinstance(started, penstock.Query):
            names.append(name)
    elif names and what == "drop":
        name = draw(st.sampled_from(names))
        if name in twins.one.queries:
            twins.do(lambda engine: engine.execute(f"DROP QUERY {name}"))
    elif names and what == "alter":
        name, size = draw(st.sampled_from(names)), draw(st.integers(1, 9))
        twins.do(lambda engine: engine.execute(f"ALTER QUERY {name} SET WINDOW {size} MICROSECONDS"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=20)
@given(st.data())
def test_restored_engines_go_on_where_they_were(strategy: str, data: st.DataObject) -> None:
    draw = data.draw
    seed, slack = draw(st.integers(0, 1 << 20)), draw(st.sampled_from([0, 0, 3]))
    engine = penstock.Engine(
        sharing=strategy,
        expiry=draw(st.sampled_from(APPROACHES)),
        index=draw(st.sampled_from(["auto", "auto", "hash", "scan"])),
        panes=draw(st.sampled_from([True, True, False])),
        scheduler=RoundRobin(draw(st.sampled_from([1, 65_536]))) if seed % 2 else Shuffled(seed),
    )
    watermark = f", WATERMARK FOR ts AS ts - INTERVAL '{slack}' MICROSECOND" if slack else ""
    for stream in "ab":
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v DOUBLE, s VARCHAR{watermark})")
    engine.execute("CREATE TABLE t (k BIGINT, v DOUBLE)")
    engine.push("t", TABLE)
    names: list[str] = []
    alone = Twins(engine, engine)
    for _ in range(draw(st.integers(1, 4))):
        sql, name = drawn_query(draw), f"n{len(names)}"
        try:
            engine.query(sql, name, **drawn_options(draw, sql))
        except penstock.PenstockError:
            continue  # a tree over tables alone, say
        names.append(name)
    now = dict.fromkeys("ab", 0)
    twins, steps = alone, draw(st.integers(2, 12))
    moment = draw(st.integers(0, steps - 1))
    for step in range(steps):
        if step == moment:
            twins = Twins(engine, again(engine))
            twins.compare(read=draw(st.booleans()))
        elif step > moment and draw(st.integers(0, 5)) == 0:
            twins = Twins(twins.one, again(twins.two))
        if step >= moment:
            change_queries(draw, twins, names)
        stream = draw(st.sampled_from("ab"))
        rows = drawn_rows(draw, now[stream], slack)
        now[stream] = max(now[stream], *rows["ts"].to_pylist())
        both = twins.do if step >= moment else single(engine)
        both(lambda one: one.push(stream, rows))  # noqa: B023
        if draw(st.integers(0, 3)) == 0:
            both(lambda one: one.advance(min(now.values())))
        if step >= moment and draw(st.booleans()):
            twins.compare()
    twins.do(lambda one: one.advance(max(now.values()) + 12))
    twins.compare()
    twins.do(lambda one: one.close())
    twins.compare()


def single(engine: penstock.Engine) -> Any:
    """Before there are two."""

    def do(action: Any) -> None:
        with contextlib.suppress(penstock.PenstockError):  # late rows, a query that failed
            action(engine)

    return do

"""Joins of three and more streams: answers against DuckDB, each query against itself alone, and what is kept.

a   1 . . . 5 . .       all within 4 us:  (5, 2, 3) at 5
b   . 2 . . . 6 .                         (5, 6, 3) at 6
c   . . 3 . . . .       1 has left when 5 comes
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from checkpoint_help import again
from hypothesis import given, settings
from hypothesis import strategies as st
from many_streams import (
    KEYED,
    SHAPES,
    STREAMS,
    Asked,
    Rows,
    Window,
    engine_of,
    is_keyed,
    many_joins,
    push_rows,
)
from oracle import SCHEMA, rows_of
from test_join_oracle import arrivals
from test_sharing import microseconds
from test_sharing_mixed import cut
from work_of import joins_of

from penstock.engine.indexes.hash import HashIndex
from penstock.engine.kernels.base.cursor import CURSOR_SLOTS, DONE
from penstock.engine.many_joins.probe_order import Step, Within, order_probes
from penstock.engine.plan.plan import Between
from penstock.engine.rows.band import Band

STRATEGIES = ["auto", "unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain"]
FILTERS = ["x.v > 0", "y.v <= 0.5", "z.s IS NOT NULL", "x.v BETWEEN 0 AND 1", "y.k = 1", "1 = 0"]
ROWS = st.sampled_from([1, 2, 3, 3, 5, 30]).map(Rows)
BETWEEN = ["x.id <> z.id", "x.v < y.v", "z.v >= x.v"]


@st.composite
def asked(draw: st.DrawFn, shape: str, streams: dict[str, str]) -> Asked:
    counting, changes = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    sizes: st.SearchStrategy[Window] = st.sampled_from([1, 2, 4, 9, 9, 20, None])
    if not changes:
        sizes = draw(st.sampled_from([sizes, ROWS, st.one_of(sizes, ROWS)]))
    same = draw(st.booleans())
    one = draw(sizes)
    windows = {alias: one if same else draw(sizes) for alias in "xyz"}
    keys = draw(st.permutations(SHAPES[shape]))
    filters = draw(st.lists(st.sampled_from(FILTERS), max_size=2, unique=True))
    checked = BETWEEN if is_keyed(keys) else BETWEEN[:1]  # else comparisons are part of the join
    between = draw(st.lists(st.sampled_from(checked), max_size=1))
    order = draw(st.permutations(list("xyz")))
    return Asked(windows, [*keys, *filters, *between], order, counting, changes, streams)


@st.composite
def sets(draw: st.DrawFn) -> list[Asked]:
    """Queries that differ in all but the streams and what is equal."""
    shape = draw(st.sampled_from(sorted(SHAPES)))
    streams = dict(STREAMS) if draw(st.integers(0, 3)) else {"x": "a", "y": "a", "z": "c"}
    return draw(st.lists(asked(shape, streams), min_size=1, max_size=5))


def check(one: Asked, rows: list[tuple[Any, ...]], tables: dict[str, pa.Table], since: int) -> None:
    """What came of a query from a time on is what DuckDB says."""
    wanted, ends = one.lived(tables)
    if not one.changes:
        came = Counter(row for row in rows if row[0] >= since)
        assert came == Counter({row: n for row, n in wanted.items() if row[0] >= since})
        return
    for now in range(since, last_of(tables) + 1):
        there: Counter[tuple[Any, ...]] = Counter()
        for row, count in wanted.items():
            if row[0] <= now < ends[row]:
                there[row[1:]] += count
        folded: Counter[tuple[Any, ...]] = Counter()
        for ts, diff, *values in rows:
            if ts <= now:
                folded[tuple(values)] += diff
        assert +folded == there, f"at {now}"


def nodes_of(data: Any) -> Iterator[dict[str, Any]]:
    """All that is described, at any depth."""
    if isinstance(data, dict):
        yield data
    for below in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from nodes_of(below)


def last_of(tables: dict[str, pa.Table]) -> int:
    return max((ts for table in tables.values() for ts in table.column("ts").to_pylist()), default=0)


@settings(max_examples=90)
@given(st.sampled_from(STRATEGIES), sets(), arrivals(12), arrivals(12), arrivals(12), st.data())
def test_oracle_and_alone(
    strategy: str, asks: list[Asked], a: pa.Table, b: pa.Table, c: pa.Table, data: st.DataObject
) -> None:
    """After every push each query has what it has alone, also with joins two by two; all that came is what
    DuckDB says."""
    tables = {"a": a, "b": b, "c": c}
    together = engine_of(strategy)
    alone = [engine_of("unshared", multiway=data.draw(st.booleans())) for _ in asks]
    for number, (one, own) in enumerate(zip(asks, alone, strict=True)):
        for engine in (together, own):
            engine.query(one.sql, name=f"q{number}", count_only=one.counting)
    if strategy != "unshared":
        kinds = {one.kinds for one in asks}  # x and y of one stream may be taken for each other
        least = kinds if asks[0].streams == STREAMS else {tuple(sorted(one[:2])) + one[2:] for one in kinds}
        assert len(least) <= len(joins_of(together)) <= len(kinds), "spelt otherwise, the same join"
        assert len(many_joins(together)) == len(joins_of(together))
    for push in cut(data.draw, tables):
        for engine in (together, *alone):
            engine.push(*push)
        together._runtime._check()
        counts = [query.count for query in together.queries.values()]
        assert counts == [own.queries[f"q{number}"].count for number, own in enumerate(alone)]
        if data.draw(st.integers(0, 5)) == 0:
            together = again(together)
    together.close()
    for number, one in enumerate(asks):
        query = together.queries[f"q{number}"]
        if one.counting:
            assert query.count == one.entered(tables).total()
        else:
            rows = rows_of(query.results())
            assert [row[0] for row in rows] == sorted(row[0] for row in rows), "out of time order"
            check(one, rows, tables, min((row[0] for row in rows), default=0))


@settings(max_examples=90)
@given(
    st.sampled_from(["auto", "pull-up", "mem-opt"]),
    sets(),
    arrivals(16),
    arrivals(16),
    arrivals(16),
    st.data(),
)
def test_oracle_of_queries_that_come_go_and_change(
    strategy: str, asks: list[Asked], a: pa.Table, b: pa.Table, c: pa.Table, data: st.DataObject
) -> None:
    """A query that comes or is altered while data flows is exact from its complete_from on."""
    tables = {"a": a, "b": b, "c": c}
    engine = engine_of(strategy)
    waiting = [one for one in asks if not one.counting]
    alive: dict[str, Asked] = {}
    came: dict[str, list[tuple[Any, ...]]] = {}
    for number, push in enumerate(cut(data.draw, tables)):
        event = data.draw(st.sampled_from(["", "", "come", "go", "alter"]))
        if event == "come" and waiting:
            one = waiting.pop()
            alive[f"q{number}"], came[f"q{number}"] = one, []
            engine.query(one.sql, name=f"q{number}")
        elif event == "go" and len(alive) > 1:
            gone = data.draw(st.sampled_from(sorted(alive)))
            engine.queries[gone].drop()
            del alive[gone]
        elif event == "alter" and (names := [n for n, one in alive.items() if may_alter(one)]):
            name = data.draw(st.sampled_from(names))
            window: Window = data.draw(st.sampled_from([1, 3, 8, 30]))
            if not alive[name].changes:
                window = data.draw(st.one_of(st.just(window), ROWS))
            size = f"{window.size} ROWS" if isinstance(window, Rows) else f"{window} MICROSECONDS"
            engine.execute(f"ALTER QUERY {name} SET WINDOW {size}")
            alive[name].windows = dict.fromkeys("xyz", window)
        engine.push(*push)
        engine._runtime._check()
        for name in alive:
            came[name] += rows_of(engine.queries[name].results())
    engine.close()
    last = last_of(tables)
    for name, one in alive.items():
        query = engine.queries[name]
        rows = came[name] + rows_of(query.results())
        since = query.complete_from
        first = -100 if since is None else microseconds(since)
        if first <= last:
            check(one, rows, tables, first)


def may_alter(one: Asked) -> bool:
    """Of an answer that nobody keeps, it is not known what has been given."""
    return not one.changes or any(one.windows.values())


@pytest.mark.parametrize("keys", ["texts", "two keys", "a chain"])
def test_keys_whose_hashes_are_equal_are_compared(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts and several keys are found by hash; here all hashes are one, and only equal keys may meet."""
    monkeypatch.setattr(
        "penstock.engine.keys.keys.hash_text", lambda starts, data: np.zeros(len(starts) - 1, np.int64)
    )
    monkeypatch.setattr("penstock.engine.keys.keys.combine_hashes", lambda one, two: np.zeros_like(one))
    one = Asked(dict.fromkeys("xyz", 50), list(SHAPES[keys]), list("xyz"), False, False, STREAMS)
    engine = engine_of()
    query = engine.query(one.sql)
    rows = [(ts, ts // 3 % 3, "abcd"[ts // 3 % 4] * (1 + ts // 3 % 2)) for ts in range(30)]
    tables = {
        name: pa.Table.from_pylist(
            [{"ts": ts, "id": ts, "k": k, "v": 1.0, "s": s} for ts, k, s in rows[at::3]], schema=SCHEMA
        )
        for at, name in enumerate("abc")
    }
    for name, table in tables.items():
        engine.push(name, table)
    engine.close()
    wanted = one.entered(tables)
    assert Counter(rows_of(query.results())) == wanted
    assert 0 < wanted.total() < 1_000


def test_the_picture_above() -> None:
    engine = engine_of()
    query = engine.query(f"{KEYED} WINDOW 4 MICROSECONDS")
    for name, times in (("a", [1, 5]), ("b", [2, 6]), ("c", [3])):
        push_rows(engine, name, [(ts, 0) for ts in times])
    engine.close()
    assert rows_of(query.results()) == [(3, 0, 0, 0), (5, 1, 0, 0), (6, 1, 1, 0)]


@pytest.mark.parametrize("strategy", ["auto", "mem-opt", "cpu-opt", "pull-up"])
def test_rows_windows_keep_rows_once_by_place(strategy: str) -> None:
    """Of 40 rows a stream, one each us; of a, those with an even `id` leave after 12 rows, others after 3."""
    engine = engine_of(strategy)
    where = "WHERE x.k = y.k AND y.k = z.k"
    engine.query(f"SELECT x.id FROM a [ROWS 3] AS x, b [ROWS 3] AS y, c [RANGE 9 us] AS z {where}")
    engine.query(
        f"SELECT x.id FROM a [ROWS 12] AS x, b [ROWS 5] AS y, c [RANGE 4 us] AS z {where} AND x.id % 2 = 0"
    )
    for name in "abc":
        push_rows(engine, name, [(ts, ts) for ts in range(40)])
    engine.advance(40)
    (join,) = many_joins(engine)
    of_a = [place for place in range(40) if 39 - place < (3 if place % 2 else 12)]
    assert [len(side) for side in join.sides] == [12 if strategy == "pull-up" else len(of_a), 5, 8]
    engine.advance(1_000)
    assert len(join.sides[2]) == 0, "rows of ROWS windows stay"
    assert len(join.sides[1]) == 5


@pytest.mark.parametrize("strategy", ["auto", "mem-opt", "cpu-opt", "pull-up"])
def test_rows_are_kept_once_as_long_as_somebody_needs_them(strategy: str) -> None:
    """Of 40 rows a stream, one each us; those of a that are older than 12 us only if `id` is below 25."""
    engine = engine_of(strategy)
    for size in (3, 7, 12):
        engine.query(f"{KEYED} WINDOW {size} MICROSECONDS")
    engine.query(f"{KEYED} AND x.id < 25 WINDOW 20 MICROSECONDS")
    for name in "abc":
        push_rows(engine, name, [(ts, ts) for ts in range(40)])
    (join,) = many_joins(engine)
    if strategy == "pull-up":
        assert [len(side) for side in join.sides] == [20, 20, 20]
    else:
        of_a = [ts for ts in range(40) if 39 - ts < (20 if ts < 25 else 12)]
        assert [len(side) for side in join.sides] == [len(of_a), 20, 20]
    engine.advance(1_000)
    assert join.state_rows == 0


def test_rows_leave_at_a_few_ages() -> None:
    """A threshold for each of 20 windows, higher for longer ones: rows would live 19 different times. Each
    lifetime is one more place to look up, so that with `auto` there are 8; `mem-opt` has them all."""
    kept = {}
    for strategy in ("auto", "mem-opt"):
        engine = engine_of(strategy)
        for size in range(1, 21):
            engine.query(f"{KEYED} AND x.id >= {5 * size} WINDOW {size} MICROSECONDS", count_only=True)
        for name in "abc":
            push_rows(engine, name, [(ts // 100, ts) for ts in range(100)])
        (join,) = many_joins(engine)
        kept[strategy] = len(join.sides[0].shelves), [query.count for query in engine.queries.values()]
        assert ("merges" in engine.explain()) == (strategy == "auto")
    assert [shelves for shelves, _ in kept.values()] == [8, 19]
    assert kept["auto"][1] == kept["mem-opt"][1]


def test_one_join_for_all_spellings_of_a_join_of_a_stream_with_itself() -> None:
    """Each of three has the same two keys, and which is equal to which goes around."""
    around = ["x.k = y.id", "y.k = z.id", "z.k = x.id"]
    engine, streams = engine_of(), dict.fromkeys("xyz", "a")
    for order in ("xyz", "zxy", "yzx", "xzy"):
        engine.query(Asked(dict.fromkeys("xyz", 9), around, list(order), False, False, streams).sql)
    back = ["y.k = x.id", "z.k = y.id", "x.k = z.id"]
    engine.query(Asked(dict.fromkeys("xyz", 9), back, list("xyz"), False, False, streams).sql)
    assert len(many_joins(engine)) == 1


def test_one_join_for_windows_of_two_kinds_on_one_stream() -> None:
    """Which of the two is ROWS is part of the join, in whichever order they are written."""
    streams = {"x": "a", "y": "a", "z": "c"}
    engine = engine_of()
    for windows in ({"x": Rows(3), "y": 9, "z": 9}, {"x": 5, "y": Rows(7), "z": 4}):
        for order in ("xyz", "yxz", "zyx"):
            engine.query(Asked(windows, list(SHAPES["one key"]), list(order), False, False, streams).sql)
    assert len(many_joins(engine)) == 1


@pytest.mark.parametrize("shape", [name for name, said in SHAPES.items() if not is_keyed(said)])
def test_what_comparisons_connect(shape: str) -> None:
    """Every value beside every other one, within bounds and outside of them."""
    one = Asked({"x": 12, "y": Rows(7), "z": 9}, list(SHAPES[shape]), list("zxy"), False, False, STREAMS)
    engine = engine_of()
    query = engine.query(one.sql)
    values = [0.0, 0.5, -0.5, 1.0, float("nan"), -0.0, 0.75, None, float("inf")]
    tables = {
        name: pa.Table.from_pylist(
            [
                {"ts": i // 2, "id": i, "k": i % 2, "v": values[(i + at) % 9], "s": "ab"[i // 3 % 2]}
                for i in range(24)
            ],
            schema=SCHEMA,
        )
        for at, name in enumerate("abc")
    }
    for name, table in tables.items():
        engine.push(name, table)
    engine.close()
    wanted = one.entered(tables)
    assert len(many_joins(engine)) == 1
    assert wanted.total() > 10 and Counter(rows_of(query.results())) == wanted


@pytest.mark.parametrize("third", ["z.k = y.k", "z.k >= x.k", "z.id > x.id"])
def test_an_equality_that_no_key_says_is_checked(third: str) -> None:
    """x.k and x.id are equal by way of y: one of them is x's key, the other is looked at on what is found,
    also where it is compared with a third stream."""
    conditions = ["x.k = y.k", "x.id = y.k", third]
    one = Asked(dict.fromkeys("xyz", 50), conditions, list("xyz"), False, False, STREAMS)
    engine = engine_of()
    query = engine.query(one.sql)
    rows = [{"ts": i, "id": i, "k": (i + i % 2) % 5, "v": 1.0, "s": ""} for i in range(10)]
    tables = {name: pa.Table.from_pylist(rows, schema=SCHEMA) for name in "abc"}
    for name, table in tables.items():
        engine.push(name, table)
    engine.close()
    wanted = one.entered(tables)
    assert wanted.total() > 0 and Counter(rows_of(query.results())) == wanted


def test_state_of_pairs_is_not_kept() -> None:
    """A thousand rows of a and b that all meet: a million pairs, of which none is kept."""
    engine = engine_of()
    query = engine.query(f"{KEYED} WINDOW 10 SECONDS", count_only=True)
    for name in "ab":
        push_rows(engine, name, [(ts, 0) for ts in range(1_000)])
    push_rows(engine, "c", [(1_000, 0), (1_000, 1)])
    engine.close()
    (join,) = many_joins(engine)
    assert (query.count, join.state_rows) == (1_000_000, 2_002)


def test_a_query_alone_and_with_others_is_explained() -> None:
    engine = engine_of("mem-opt")
    engine.query(f"{KEYED} WINDOW 10 SECONDS", name="short")
    assert "WindowJoin x.k = y.k = z.k" in engine.explain()
    engine.query(f"{KEYED} AND x.v > 5 WINDOW 30 SECONDS", name="long")
    push_rows(engine, "a", [(1, 1)])
    for analyze in (False, True):
        text = engine.explain(analyze=analyze)
        assert "Shared join 1  a.k = b.k = c.k" in text
        assert "a [RANGE 30 SECONDS]  slices 1 to 2 of 2" in text
        assert "2  [10, 30 SECONDS)" in text
        assert "finds b by b.k, then c by c.k" in text
        for strategy in ("unshared", "pull-up", "mem-opt"):
            assert strategy in text
    assert '"node": "SharedJoin"' in engine.explain(json=True)
    chain = engine_of("chain")
    for size in (10, 20):
        chain.query(f"{KEYED} WINDOW {size} SECONDS")
    assert "chain is for two streams: rows of more are kept by lifetime" in chain.explain()


def test_rows_windows_and_comparisons_are_explained() -> None:
    engine = engine_of()
    where = "WHERE x.k = y.k AND z.v > x.v + 1 AND z.v < x.v + 3"
    for size in (5, 20):
        engine.query(
            f"SELECT x.id FROM a [ROWS {size}] AS x, b [RANGE 9 s] AS y, c [ROWS {size}] AS z {where}"
        )
    text = engine.explain()
    assert "Shared join 1  a.k = b.k AND 1.0 < c.v - a.v < 3.0" in text
    assert "finds b by b.k, then c by c.v" in text and "finds a by a.v, then b by b.k" in text
    assert "a  longest window 20 ROWS" in text and "2  [5, 20 ROWS)" in text
    assert json.loads(engine.explain(json=True))["groups"][0]["sides"][0]["unit"] == "rows"


@pytest.mark.parametrize(("often", "is_better"), [(True, True), (False, False)])
def test_explain_shows_where_two_by_two_would_cost_less(often: bool, is_better: bool) -> None:
    """a and b never meet; c meets all rows of b, or none: to find pairs of b and c again and again costs more
    than to keep what a and b have found, which is nothing."""
    engine = engine_of()
    sql = "SELECT x.id FROM a AS x, b AS y, c AS z WHERE x.k = y.k AND y.s = z.s WINDOW 2 SECONDS"
    engine.query(sql)
    texts = {"a": "", "b": "same", "c": "same" if often else "other"}
    for at, name in enumerate("abc"):
        rows = [
            {"ts": 1_000 * i, "id": i, "k": 10_000 * at + i, "v": 0.0, "s": texts[name]} for i in range(2_000)
        ]
        engine.push(name, pa.Table.from_pylist(rows, schema=SCHEMA))
    (join,) = [one for one in nodes_of(json.loads(engine.explain(json=True))) if "two_by_two" in one]
    assert (join["two_by_two"]["cost_cores"] < join["cost_cores"] / 2) == is_better


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x.id FROM a [ROWS 5] AS x, b [ROWS 5] AS y, c [ROWS 5] AS z WHERE x.k = y.k AND y.k = z.k "
        "EMIT CHANGES",
        "SELECT x.id FROM a AS x, b AS y, c [PARTITION BY k ROWS 1] AS z WHERE x.k = y.k AND y.k = z.k "
        "WINDOW 10 SECONDS",
        "SELECT x.id FROM a AS x, b AS y, c AS z WHERE x.k = y.k WINDOW 10 SECONDS",
        "SELECT x.id FROM a AS x, b AS y, c AS z WHERE x.k = y.k AND z.v <> x.v WINDOW 10 SECONDS",
        "SELECT x.id FROM a AS x LEFT JOIN b AS y ON x.k = y.k JOIN c AS z ON y.k = z.k WINDOW 10 SECONDS",
        "SELECT x.id FROM a AS x, b AS y, c AS z WHERE x.k = y.k AND y.k = z.k WINDOW 9 DAYS HOP BY 9 DAYS",
    ],
)
def test_what_is_joined_two_by_two(sql: str) -> None:
    """ROWS windows of answers that rows leave, or by partition, streams that nothing connects, outer joins,
    hops: as before, and they run."""
    engine = engine_of()
    engine.query(sql)
    assert not many_joins(engine)
    for name in "abc":
        push_rows(engine, name, [(ts, 0) for ts in range(3)])
    engine.close()


def test_aggregates_over_many_streams_share_the_join() -> None:
    engine = engine_of()
    for size in (5, 9):
        engine.query(
            f"SELECT COUNT(*) AS n, SUM(y.v) AS total FROM ({KEYED.replace('x.id,', 'x.id, y.v,')}) AS y "
            f"WINDOW {size} MICROSECONDS",
            name=f"q{size}",
        )
    for name in "abc":
        push_rows(engine, name, [(ts, 0) for ts in range(12)])
    engine.close()
    assert len(many_joins(engine)) == 1
    for size in (5, 9):
        folded: Counter[tuple[Any, ...]] = Counter()
        for _, diff, *row in rows_of(engine.queries[f"q{size}"].results()):
            folded[tuple(row)] += diff
        assert +folded == Counter({(size**3, float(size**3)): 1})


@pytest.mark.twin("find_rows.find_rows")
@given(
    st.lists(st.integers(0, 4), max_size=40),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=4, max_size=4),
    st.integers(0, 10),
    st.integers(1, 7),
)
def test_find_rows(
    keys: list[int], seekers: list[tuple[int, int]], seen: list[tuple[int, int]], gone: int, room: int
) -> None:
    """Whatever fits at once, the same rows in the same order."""
    first, gone = 100, min(gone, len(keys))
    index = HashIndex(first)
    index.insert(np.array(keys[: len(keys) // 2], np.int64))
    index.insert(np.array(keys[len(keys) // 2 :], np.int64))
    index.purge(first + gone)
    row_from = np.array([max(first + low, first + gone) for low, _ in seen])
    row_until = np.array(
        [
            min(max(first + high, low), first + len(keys))
            for (_, high), low in zip(seen, row_from, strict=True)
        ]
    )
    sought = np.array([key for key, _ in seekers], np.int64)
    probers = np.array([prober for _, prober in seekers], np.int64)
    naive = [
        (at, row)
        for at, (key, prober) in enumerate(seekers)
        for row in range(first + len(keys) - 1, first + gone - 1, -1)
        if row_from[prober] <= row < row_until[prober] and keys[row - first] == key
    ]
    came: list[tuple[int, int]] = []
    cursor = np.zeros(CURSOR_SLOTS, np.int64)
    while not cursor[DONE]:
        at, rows = np.empty(room, np.int64), np.empty(room, np.int64)
        count = index.find(sought, probers, row_from, row_until, cursor, at, rows)
        came += zip(at[:count].tolist(), rows[:count].tolist(), strict=True)
    assert came == naive


def test_whoever_finds_fewest_comes_first() -> None:
    """Of sides that can be reached, the one of which fewest rows are found; by all keys that are known."""
    variables = [(0, 1), (0,), (1,), (0, 1)]
    found = {(1, (0,)): 5.0, (2, (0,)): 1.0, (3, (0, 1)): 3.0}
    steps = order_probes(0, variables, (), lambda step: found[step.side, step.keys])
    assert [step.side for step in steps] == [2, 3, 1]
    assert steps[1] == Step(3, (0, 1), ((0, 0), (0, 1)))


def test_what_a_comparison_connects_is_looked_for_within_its_bounds() -> None:
    """x.k = y.k AND z.v - y.v > 2: z by way of y, from either of its streams."""
    variables, bands = [(0,), (0, 1), (2,)], [Between(1, 2, Band(2, False, None, True))]
    orders = [order_probes(first, variables, bands, lambda step: 1.0) for first in range(3)]
    above, below = Within(0, (1, 1), bands[0].band), Within(1, (2, 0), Band(None, True, -2, False))
    assert orders[0] == (Step(1, (0,), ((0, 0),)), Step(2, (), (), (above,)))
    assert orders[1] == (Step(0, (0,), ((1, 0),)), Step(2, (), (), (above,)))
    assert orders[2] == (Step(1, (), (), (below,)), Step(0, (0,), ((1, 0),)))

"""A join that runs together or apart gives what one that is always together gives, whoever comes and goes.

Apart: a join for each query.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from joins_apart import CREATE, feed, part_always
from work_of import joins_of

import penstock
from penstock.engine.flow.scheduler import Shuffled
from penstock.query import EPOCH, NEVER

FILTERS = ["", " AND a.v > 1", " AND a.v <= 1 AND b.v = 2", " AND b.v < 3", " AND a.s || b.s <> 'xy'"]
COLUMNS = ["a.k", "a.v, b.v AS w", "b.s, a.ts AS at"]
WINDOWS = [
    *(f"a, b WINDOW {size} MICROSECONDS" for size in range(1, 9)),
    *(f"a, b WINDOW {size} ROWS" for size in (1, 2, 3, 5)),
    "a [RANGE 3 MICROSECONDS], b [ROWS 2]",
    "a [ROWS 4], b [RANGE 5 MICROSECONDS]",
]
QUERY = st.tuples(
    st.sampled_from(WINDOWS),
    st.sampled_from(FILTERS),
    st.sampled_from(COLUMNS),
    st.sampled_from([False, False, True]),
)
ROW = st.tuples(*[st.integers(0, 3)] * 3)
PUSH = st.tuples(st.sampled_from("ab"), st.lists(ROW, min_size=1, max_size=12))
STEP = (
    PUSH
    | PUSH
    | st.tuples(st.just("add"), QUERY)
    | st.tuples(st.just("drop"), st.integers(0, 9))
    | st.tuples(st.just("alter"), st.tuples(st.integers(0, 9), st.sampled_from(WINDOWS[:12])))
    | st.tuples(st.just("look"), st.none())
)


@dataclass
class Given:
    """What a query gave, if it only counts how many, and from when on that is exact."""

    times: list[datetime]
    rows: list[str]
    count: int | None
    since: datetime

    @classmethod
    def by(cls, query: penstock.Query) -> Given:
        since = query.complete_from or EPOCH
        if query._counting:
            return cls([], [], query.count, since)
        table = query.results()
        times = [ts.replace(tzinfo=UTC) for ts in table["_ts"].to_pylist()]
        assert times == sorted(times), "out of time order"
        return cls(times, list(map(repr, table.to_pylist())), None, since)

    def from_(self, since: datetime) -> list[str]:
        return sorted(row for ts, row in zip(self.times, self.rows, strict=True) if ts >= since)


def run(sharing: str, steps: list[Any], seed: int) -> list[Given]:
    """What each query gave that was there. With every other seed joins are checked after each step, and take
    changes in at once; else these wait for the next rows."""
    engine = penstock.Engine(sharing=sharing, scheduler=Shuffled(seed, 9))
    engine.execute(CREATE)
    queries: list[penstock.Query] = []
    found: list[Given] = []
    now = 0
    for kind, what in steps:
        if kind == "add":
            windows, condition, columns, counting = what
            streams, is_tail, tail = windows.partition(" WINDOW ")
            text = f"SELECT {columns} FROM {streams} WHERE a.k = b.k{condition}{is_tail}{tail}"
            queries.append(engine.query(text, count_only=counting))
        elif kind == "drop" and queries:
            query = queries.pop(what % len(queries))
            found.append(Given.by(query))
            query.drop()
        elif kind == "alter" and queries:
            name = queries[what[0] % len(queries)].name
            engine.execute(f"ALTER QUERY {name} SET {what[1].removeprefix('a, b ')}")
        elif kind == "look":
            engine._adapter.look_at_plans()
        elif kind == "pass":
            now += 1
            engine.advance(now)
        elif kind in ("a", "b"):
            ts = now + np.cumsum([gap for gap, _, _ in what])
            now = int(ts[-1])
            keys, values = [k for _, k, _ in what], [v for _, _, v in what]
            engine.push(kind, {"ts": ts, "k": keys, "v": values, "s": ["xyz"[k % 3] for k in keys]})
        if seed % 2 == 0:
            engine._runtime._check()
    engine._runtime._check()
    engine.close()
    return [*found, *map(Given.by, queries)]


def assert_same(mine: list[Given], theirs: list[Given], is_strict: bool) -> None:
    """Of what is exact; if strict, of all."""
    for one, two in zip(mine, theirs, strict=True):
        since = EPOCH if is_strict else max(one.since, two.since)
        assert one.from_(since) == two.from_(since)
        assert one.since == two.since if is_strict else one.since <= two.since
        assert one.count == two.count or since > EPOCH


SOME = [(1, i % 4, i % 4) for i in range(8)]
ALTERED = [
    ("a", SOME),
    ("b", SOME),
    ("look", None),
    ("a", SOME),
    ("b", SOME),
    ("alter", (0, WINDOWS[7])),
    ("a", SOME),
    ("b", SOME),
]


def asks(*windows: str) -> list[Any]:
    """Queries that give rows, all of the same columns."""
    return [(window, FILTERS[0], COLUMNS[0], False) for window in windows]


RANGE_8, ROWS_1, ROWS_2, ROWS_5 = WINDOWS[7], WINDOWS[8], WINDOWS[9], WINDOWS[11]
PLACES_OF_ROWS = [  # that came together from joins of RANGE windows are known to one with ROWS windows
    ("a", [(0, 0, 0)]),
    ("b", [(0, 0, 0)]),
    ("add", (WINDOWS[0], FILTERS[0], COLUMNS[0], False)),
    ("a", [(0, 0, 0)]),
    ("add", (ROWS_1, FILTERS[0], COLUMNS[0], False)),
]

AHEAD_OF_WHO_STAYS = [  # rows at 0 were worked by who has gone, and wait for who has stayed
    ("a", [(0, 0, 0)]),
    ("b", [(0, 0, 0)]),
    ("drop", 0),
    ("add", (WINDOWS[0], FILTERS[0], COLUMNS[0], False)),
]

ONE_MORE = ("add", (WINDOWS[0], FILTERS[0], COLUMNS[0], False))
AHEAD_OF_THE_OTHER = [  # rows at 0 lack columns that the last one reads; a has come further than b
    ("a", [(0, 0, 0)]),
    ("b", [(0, 0, 0)]),
    ONE_MORE,
    ONE_MORE,
    ("a", [(0, 0, 0)]),
    ("alter", (0, ROWS_1)),
    ONE_MORE,
    ("a", [(1, 0, 0)]),
    ("add", (WINDOWS[0], FILTERS[0], COLUMNS[1], False)),
    ("alter", (5, WINDOWS[1])),
]


@given(
    st.lists(STEP, max_size=16), st.lists(QUERY, min_size=2, max_size=4), st.integers(0, 99),
)  # fmt: skip
@example(
    ALTERED,
    [(WINDOWS[2], FILTERS[0], COLUMNS[0], False), (WINDOWS[4], FILTERS[1], COLUMNS[0], True)],
    0,
)
@example(AHEAD_OF_WHO_STAYS, asks(WINDOWS[0], ROWS_1, ROWS_2), 0)
@example(AHEAD_OF_THE_OTHER, asks(WINDOWS[0], WINDOWS[0]), 0)
@example(PLACES_OF_ROWS, asks(WINDOWS[0], WINDOWS[0]), 0)
def test_apart_is_as_good_as_together(steps: list[Any], first: list[Any], seed: int) -> None:
    """With ROWS windows, one that comes late may find rows of the instant in which it comes still waiting."""
    steps = [*(("add", query) for query in first), *steps]
    has_rows = any("ROWS" in str(what) for kind, what in steps if kind in ("add", "alter"))
    expected = run("mem-opt", steps, seed % 2)
    with pytest.MonkeyPatch.context() as patch:
        part_always(patch)
        assert_same(run("auto", steps, seed), expected, not has_rows)


def test_one_comes_when_all_who_were_apart_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes in between: what is there is what the last of them had."""
    part_always(monkeypatch)
    engine = penstock.Engine()
    engine.execute(CREATE)
    text = "SELECT a.k FROM a, b WHERE a.k = b.k WINDOW"
    apart = [engine.query(f"{text} {window}") for window in ("5 SECONDS", "6 SECONDS")]
    rng = np.random.default_rng(3)
    feed(engine, 1, rng, 20)
    late = engine.query(f"{text} 4 SECONDS")
    for query in apart:
        query.drop()
    feed(engine, 1, rng, 20)
    (group,) = joins_of(engine)
    assert len(group.joins) == 1
    assert late.count


def test_queries_that_have_little_in_common_part_and_come_together_for_another() -> None:
    """Disjoint conditions on both sides: of the pairs one join would find, an eighth is taken."""
    engine = penstock.Engine()
    engine.execute(CREATE)
    texts = [
        f"SELECT a.k FROM a, b WHERE a.k = b.k AND a.v // 100 = {i} AND b.v // 100 = {i} WINDOW 5 SECONDS"
        for i in range(8)
    ]
    queries = [engine.query(text) for text in texts]
    rng = np.random.default_rng(3)
    feed(engine, 4, rng, 20)
    (group,) = joins_of(engine)
    assert len(group.joins) == 8
    assert "strategy auto: unshared" in engine.explain()
    assert "joins: q1 " in engine.explain(analyze=True)
    late = engine.query(texts[0].replace("5 SECONDS", "4 SECONDS"))
    feed(engine, 1, rng, 20)
    since = late.complete_from
    assert since is not None and since < NEVER
    feed(engine, 4, rng, 20)
    assert all(len(query.results()) for query in [*queries, late])


@pytest.mark.parametrize("condition", ["", " AND a.v < 700"])
def test_queries_that_have_much_in_common_stay_together(condition: str) -> None:
    engine = penstock.Engine()
    engine.execute(CREATE)
    for size in (3, 4, 5):
        where = condition if size > 3 else ""
        engine.query(f"SELECT a.k FROM a, b WHERE a.k = b.k{where} WINDOW {size} SECONDS")
    feed(engine, 4, np.random.default_rng(3), 2_000)
    (group,) = joins_of(engine)
    assert len(group.joins) == 1

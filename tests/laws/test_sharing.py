"""Queries that share a join: each gets what it would get alone, whatever the strategy and whoever is there.

Sets of queries are drawn, added, dropped and altered at drawn moments between drawn batches. From its
`complete_from` on each equals DuckDB's answer over the lifetimes of the rows, and its solo run; before, it
gives no row that is not in the answer. Who is there from the start equals its solo run throughout.
"""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DECLARE, Oracle, Reference, rows_of
from test_join_oracle import arrivals
from work_of import joins_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.indexes.build import INDEX_KINDS
from penstock.engine.members.query_index import QueryIndex
from penstock.query import EPOCH, NEVER

STRATEGIES = ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain", "chain-cpu", "unshared"]

CONDITIONS = {
    "x.k = y.k": ["x.k = y.k", "y.k = x.k"],
    "x.k < y.k": ["x.k < y.k", "y.k > x.k"],
    "x.s = y.s AND x.k = y.k": ["x.s = y.s AND x.k = y.k", "y.k = x.k AND y.s = x.s"],
    "x.v + 1 >= y.v": ["x.v + 1 >= y.v"],
    "x.id <> y.id": ["x.id <> y.id"],
}
FILTERS = [
    "", "", "", "", "", "", "x.v > 0", "x.v > 0.5", "0 < x.v", "x.v <= 1.5", "y.v >= 0.5", "x.k = 1",
    "y.k BETWEEN 0 AND 2", "x.v > 0 AND y.v < 2", "x.s = 'a'", "x.s = 'b' AND y.v > 0", "x.s LIKE 'a%'",
    "x.v IS NULL OR x.k > 1", "y.v IS NOT NULL", "1 = 0", "y.s = 'a' AND x.k % 2 = 1", "x.id < y.id",
]  # fmt: skip
OUTPUTS = ["x.id, y.id AS yid", "x.id, y.id AS yid, x.s, y.k", "x.id, y.id AS yid, y.v"]


@dataclass
class Span:
    """Windows as they were, from when on exact, how many results had come when they were changed.

    until: no row below this came later, so all results below it have come.
    """

    refs: list[Reference]
    since: datetime.datetime | None
    count: int
    until: int


@dataclass
class Ask:
    """A query of the set, as text and as what DuckDB must answer."""

    name: str
    refs: list[Reference]
    condition: str
    spelling: str
    where: str
    outputs: str
    swapped: bool
    counting: bool
    query: Any = None
    is_first: bool = False
    """There from the start."""
    dropped: bool = False
    spans: list[Span] = field(default_factory=list)
    marks: list[tuple[int, int, int, list[Reference]]] = field(default_factory=list)
    """Times before which all is worked off: how many results there are, from when on exact, the windows."""

    answers: dict[int, Counter[tuple[Any, ...]]] = field(default_factory=dict)
    """DuckDB's, by the id of the windows they are of."""

    def answer(self, refs: list[Reference], streams: dict[str, pa.Table]) -> Counter[tuple[Any, ...]]:
        if id(refs) not in self.answers:
            columns = self.outputs.replace(" AS yid", "")
            self.answers[id(refs)] = Oracle(streams, refs).inserts(columns, self.everything)
        return self.answers[id(refs)]

    def mark(self, ts: int) -> None:
        self.marks.append((ts, self.query.count, microseconds(self.query.complete_from), self.refs))

    @cached_property
    def results(self) -> pa.Table:
        """All of them."""
        return self.query.results()

    @property
    def sql(self) -> str:
        one, two = reversed(self.refs) if self.swapped else self.refs
        tail = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {self.outputs} FROM {one.penstock} JOIN {two.penstock} ON {self.spelling}{tail}"

    @property
    def everything(self) -> str:
        return f"({self.condition})" + (f" AND ({self.where})" if self.where else "")


def references(draw: Any, kinds: list[str], self_join: bool) -> list[Reference]:
    found = []
    for stream, alias, kind in (("a", "x", kinds[0]), ("a" if self_join else "b", "y", kinds[1])):
        if kind == "any":
            kind = draw(st.sampled_from(["range", "range", "rows"]))
        size = draw(st.integers(1, 14) if kind == "range" else st.integers(1, 5))
        unbounded = kind == "range" and draw(st.integers(0, 14)) == 0
        found.append(Reference(stream, alias, kind, None if unbounded else size))
    return found


def ask(draw: Any, number: int, condition: str, kinds: list[str], self_join: bool, counting: str) -> Ask:
    return Ask(
        f"q{number}",
        references(draw, kinds, self_join),
        condition,
        draw(st.sampled_from(CONDITIONS[condition])),
        draw(st.sampled_from(FILTERS)),
        draw(st.sampled_from(OUTPUTS)),
        draw(st.booleans()),
        counting == "all" or (counting == "some" and draw(st.booleans())),
    )


MIXED = ["any", "any"]  # each query has its own kinds of windows
START, END = -(1 << 62), 1 << 62


def microseconds(when: datetime.datetime | None) -> int:
    if when is None:
        return START
    if when == NEVER:
        return END
    return (when - EPOCH) // datetime.timedelta(microseconds=1)


@settings(max_examples=150)
@given(st.data())
def test_drawn_sets_of_queries_that_come_and_go(data: st.DataObject) -> None:
    draw = data.draw
    strategy = draw(st.sampled_from(STRATEGIES))
    self_join = draw(st.integers(0, 4)) == 0
    condition = draw(st.sampled_from(list(CONDITIONS)))
    kinds = draw(
        st.sampled_from([["range", "range"]] * 2 + [["rows", "rows"], ["range", "rows"], MIXED, MIXED])
    )
    streams = {name: draw(arrivals(24)) for name in ("a" if self_join else "ab")}
    index = draw(st.sampled_from(["auto", *INDEX_KINDS]))
    scheduler = draw(st.sampled_from([None, Shuffled(draw(st.integers(0, 99)), 8), RoundRobin(3)]))
    engine = penstock.Engine(sharing=strategy, index=index, scheduler=scheduler)
    for name in streams:
        engine.execute(DECLARE.format(name=name))
    counting = draw(st.sampled_from(["none", "none", "some", "all"]))
    asks: list[Ask] = []

    at = dict.fromkeys(streams, 0)
    pushes: list[tuple[str, pa.Table]] = []

    def add() -> None:
        one = ask(draw, len(asks), condition, kinds, self_join, counting)
        one.is_first = not pushes
        one.query = engine.query(one.sql, name=one.name, count_only=one.counting)
        asks.append(one)

    def close_span(one: Ask) -> None:
        last = [table["ts"][min(at[name], table.num_rows) - 1].as_py() if at[name] else START
                for name, table in streams.items()]  # fmt: skip
        one.spans.append(Span(one.refs, one.query.complete_from, 0, min(last)))

    for _ in range(draw(st.integers(1, 5))):
        add()
    while any(at[name] < table.num_rows for name, table in streams.items()):
        name = draw(st.sampled_from(sorted(n for n, t in streams.items() if at[n] < t.num_rows)))
        size = draw(st.integers(1, 6))
        pushes.append((name, streams[name].slice(at[name], size)))
        engine.push(*pushes[-1])
        at[name] += size
        engine._runtime._check()
        what = draw(st.sampled_from(["", "", "", "add", "drop", "alter", "look"]))
        alive = [one for one in asks if not one.dropped]
        quiet = quiet_time(streams, at)
        if quiet is not None and draw(st.booleans()):
            engine.advance(quiet)
            for one in alive:
                one.mark(quiet)
        if what == "add":
            add()
        elif what == "drop" and len(alive) > 1:
            one = draw(st.sampled_from(alive))
            close_span(one)
            one.query.drop()
            one.dropped = True
            one.spans[-1].count = one.query.count
        elif what == "alter":
            one = draw(st.sampled_from(alive))
            close_span(one)
            kind = draw(st.sampled_from(["range", "rows"])) if kinds is MIXED else kinds[0]
            one.refs = references(draw, [kind, kind], self_join)
            for two in one.refs:
                two.size = one.refs[0].size
            if kinds[0] != kinds[1] or one.refs[0].size is None:
                one.refs = one.spans.pop().refs
            else:
                unit = " MICROSECONDS" if kind == "range" else " ROWS"
                engine.execute(f"ALTER QUERY {one.name} SET WINDOW {one.refs[0].size}{unit}")
                one.spans[-1].count = one.query.count
        elif what == "look":
            engine.explain(analyze=True)
        engine._runtime._check()
    engine.close()
    engine._runtime._check()
    for one in asks:
        if not one.dropped:
            one.mark(END)
        check(one, streams)
        if not one.spans and not one.counting:
            check_alone(one, list(streams), pushes)


def quiet_time(streams: dict[str, pa.Table], at: dict[str, int]) -> int | None:
    """A time after all rows that have come and not after any that come, if there is one."""
    times = {name: table["ts"].to_pylist() for name, table in streams.items()}
    come = [ts for name, of_stream in times.items() for ts in of_stream[: at[name]]]
    to_come = [ts for name, of_stream in times.items() for ts in of_stream[at[name] :]]
    return min(to_come) if come and to_come and max(come) < min(to_come) else None


def check_counts(one: Ask, streams: dict[str, pa.Table]) -> None:
    """Of two times the results between them are counted, whoever came, went or changed."""
    marks = [(START, 0, START, one.marks[0][3]), *one.marks] if one.marks else []
    for (start, before, _, refs), (end, after, since, same) in pairwise(marks):
        is_whole = start > START or not one.spans
        if refs is same and is_whole and since <= start:
            wanted = one.answer(refs, streams)
            assert after - before == sum(n for row, n in wanted.items() if start <= row[0] < end), one.sql


def check(one: Ask, streams: dict[str, pa.Table]) -> None:
    spans = [*one.spans]
    if not one.dropped:
        spans.append(Span(one.refs, one.query.complete_from, one.query.count, END))
    check_counts(one, streams)
    if one.counting and len(spans) > 1:
        return  # who only counts cannot tell when each result came
    results = [] if one.counting else rows_of(one.results)
    assert [row[0] for row in results] == sorted(row[0] for row in results), "out of time order"
    start, began = 0, START
    for span in spans:
        wanted = one.answer(span.refs, streams)
        since = max(microseconds(span.since), began)
        exact = Counter({row: n for row, n in wanted.items() if since <= row[0] < span.until})
        if one.counting:
            assert exact.total() <= span.count <= wanted.total(), one.sql
        else:
            came = Counter(results[start : span.count])
            assert came <= wanted, (one.sql, "rows that are not in the answer", came - wanted)
            assert exact <= came, (one.sql, "rows that did not come", exact - came)
        start, began = span.count, span.until


def check_alone(one: Ask, streams: list[str], pushes: list[tuple[str, pa.Table]]) -> None:
    """Whoever was neither dropped nor altered has what it has with nobody else there, from the start on."""
    engine = penstock.Engine()
    for name in streams:
        engine.execute(DECLARE.format(name=name))
    alone = engine.query(one.sql)
    for name, rows in pushes:
        engine.push(name, rows)
    engine.close()
    since = START if one.is_first else microseconds(one.query.complete_from)
    shared, solo = (
        Counter(row for row in rows_of(table) if row[0] >= since) for table in (one.results, alone.results())
    )
    assert shared == solo, one.sql


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_join_serves_spellings_sides_windows_filters_and_columns(strategy: str) -> None:
    """Which queries share, seen in the number of joins that run."""
    engine = penstock.Engine(sharing=strategy)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    for sql in (
        "SELECT x.id FROM a [RANGE 3 SECONDS] AS x JOIN b [RANGE 3 SECONDS] AS y ON x.k = y.k",
        "SELECT y.v FROM b [RANGE 5 SECONDS] AS y, a [RANGE 1 SECOND] AS x WHERE y.k = x.k AND x.v > 3",
        "SELECT b.s, a.s AS t FROM a, b WHERE b.k = a.k AND a.v + b.v > 3 AND b.s LIKE 'x%' WINDOW 9 SECONDS",
        "SELECT a.id FROM b JOIN a USING (k) WHERE a.v < 1 WINDOW 2 SECONDS",
        "SELECT p.id FROM (SELECT id, k FROM a WHERE v > 0) AS p, b WHERE NOT p.k <> b.k WINDOW 4 SECONDS",
    ):
        engine.query(sql)
    engine.query("SELECT x.id FROM a [ROWS 3] AS x JOIN b [ROWS 3] AS y ON x.k = y.k")
    engine.query("SELECT x.id FROM a [RANGE 3 SECONDS] AS x JOIN b [RANGE 3 SECONDS] AS y ON x.k = y.id")
    sizes = sorted(len(group.members) for group in joins_of(engine))
    assert sizes == ([1] * 7 if strategy == "unshared" else [1, 1, 5])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_newcomer_is_exact_from_the_instant_on_that_needs_no_row_that_has_left(strategy: str) -> None:
    """At 10 the row at 5 has just left the window of 5; the last whose window of 8 needs it is 12.

    short    6 ------- 10
    long   5 .. missing .. 12      6 ------------- 13 exact
    """
    engine = penstock.Engine(sharing=strategy)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    pairs = "SELECT x.id, y.id AS yid FROM a AS x JOIN b AS y ON x.k = y.k"

    def push(start: int, stop: int) -> None:
        for name in "ab":
            times = list(range(start, stop))
            columns = {"ts": times, "id": times, "k": [0] * len(times), "v": [0.0] * len(times)}
            engine.push(name, {**columns, "s": ["a"] * len(times)})

    engine.query(f"{pairs} WINDOW 5 us")
    push(0, 11)
    long = engine.query(f"{pairs} WINDOW 8 us")
    push(11, 20)
    engine.close()
    came = Counter(row[0] for row in rows_of(long.results()))
    is_alone = strategy == "unshared"  # what others keep is not there for it
    assert microseconds(long.complete_from) == (18 if is_alone else 13)
    assert [came[ts] for ts in (12, 13)] == ([3, 5] if is_alone else [13, 15])
    assert [came[ts] for ts in (18, 19)] == [15, 15]


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "unshared"])
@pytest.mark.parametrize("counting", [False, True])
def test_a_late_query_over_rows_says_when_its_window_is_full(strategy: str, counting: bool) -> None:
    """Others have kept the last 5 rows: with 4 more, all of the last 9 are there."""
    engine = penstock.Engine(sharing=strategy)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    join = "SELECT x.id, y.id AS yid FROM a AS x JOIN b AS y ON x.k = y.k"
    engine.query(f"{join} WINDOW 5 ROWS")

    def push(start: int, end: int) -> None:
        rows = [{"ts": i, "id": i, "k": 0, "v": 0.0, "s": ""} for i in range(start, end)]
        for name in "ab":
            engine.push(name, pa.Table.from_pylist(rows))

    push(0, 20)
    late = engine.query(f"{join} WINDOW 9 ROWS", count_only=counting)
    assert late.complete_from == NEVER
    push(20, 40)
    assert microseconds(late.complete_from) == 22


LATE = {
    # what others ask and select, for 60 us since the start or since 80; what a late one asks, its window
    "ranges that cover it together": (["x.v > 2 AND x.v <= 5", "x.v > 5"], [], ("x.v > 3", "x.v", 60)),
    "each side kept by another": (["x.v > 2", "y.v > 5 AND x.v > 4"], [], ("y.v > 6 AND x.v > 4", "x.v", 60)),
    "a column stored for long enough": (["x.v > 2"], [("x.v > 8", "x.id")], ("x.v > 8", "x.id", 20)),
}


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "unshared"])
@pytest.mark.parametrize("case", LATE)
def test_a_late_query_is_exact_as_soon_as_what_is_there_allows(strategy: str, case: str) -> None:
    """All that it needs is there, and so it is exact from the next instant on."""
    others, later, (where, columns, window) = LATE[case]
    engine = penstock.Engine(sharing=strategy)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    join = "SELECT {} FROM a AS x JOIN b AS y ON x.k = y.k WHERE {} WINDOW {} MICROSECONDS"
    rows = [{"ts": i, "id": i, "k": i % 3, "v": float(i % 10), "s": ""} for i in range(140)]

    def push(start: int, end: int) -> None:
        for name in "ab":
            engine.push(name, pa.Table.from_pylist(rows[start:end]))

    for one in others:
        engine.query(join.format("x.v", one, 60))
    push(0, 80)
    for one, read in later:
        engine.query(join.format(read, one, 60))
    push(80, 101)
    late = engine.query(join.format(columns, where, window))
    assert microseconds(late.complete_from) == 101
    push(101, 140)
    engine.close()
    refs = [Reference("a", "x", "range", window), Reference("b", "y", "range", window)]
    wanted = Oracle(dict.fromkeys("ab", pa.Table.from_pylist(rows)), refs).inserts(
        columns, f"x.k = y.k AND {where}"
    )
    assert Counter(rows_of(late.results())) == Counter({r: n for r, n in wanted.items() if r[0] >= 101})


CHANGES = {
    # windows of two queries from the start; what happens to q0 when 100 rows have come; when it is exact then
    "a longer one comes": ([60, 5], ["CREATE 90"], 100 - 60 + 90 - 1),
    "a longer window": ([60, 5], ["ALTER 90"], 100 - 60 + 90 - 1),
    "a longer window, kept by another": ([60, 90], ["ALTER 90"], 100),
    "a shorter window": ([60, 5], ["ALTER 9"], 100),
    "twice longer": ([60, 5], ["ALTER 70", "ALTER 90"], 100 - 60 + 90 - 1),
    "a shorter window, then a longer one": ([60, 5], ["ALTER 10", "PUSH", "ALTER 90"], 110 - 10 + 90 - 1),
}


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "unshared"])
@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("counting", [False, True])
def test_complete_from_is_the_first_exact_instant(strategy: str, case: str, counting: bool) -> None:
    """A row of each stream at every instant, all with one key: what is missing shows at once.

    rows of the window of 60, at 99    |- gone -|=========|          complete_from 129: at 128 row 39 is
                                       0        39        99         in a window of 90, and gone
    """
    windows, changes, exact_from = CHANGES[case]
    engine = penstock.Engine(sharing=strategy)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    join = "SELECT x.id, y.id AS yid FROM a AS x JOIN b AS y ON x.k = y.k WINDOW {} MICROSECONDS"
    at = 0

    def push(count: int) -> None:
        nonlocal at
        rows = [{"ts": i, "id": i, "k": 0, "v": 0.0, "s": ""} for i in range(at, at + count)]
        at += count
        for name in "ab":
            engine.push(name, pa.Table.from_pylist(rows))

    queries = [
        engine.query(join.format(window), name=f"q{i}", count_only=counting)
        for i, window in enumerate(windows)
    ]
    push(100)
    size = 0
    for what, _, window in (change.partition(" ") for change in changes):
        size = int(window or size)
        if what == "CREATE":
            queries[0] = engine.query(join.format(size), count_only=counting)
        elif what == "ALTER":
            engine.execute(f"ALTER QUERY q0 SET WINDOW {size} MICROSECONDS")
        else:
            push(10)
    changed = queries[0]
    assert microseconds(changed.complete_from) == exact_from
    given = []
    for _ in range(at, exact_from + 5):
        before = changed.count
        push(1)
        given.append(changed.count - before)
    first = at - len(given)
    for ts, count in enumerate(given, first):
        # at an instant each row meets the rows of the other window: 2 * size - 1 pairs
        assert (count == 2 * min(size, ts + 1) - 1) == (ts >= exact_from), ts
    assert queries[1].count == sum(2 * min(windows[1], ts + 1) - 1 for ts in range(at))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_that_is_altered_before_it_has_met_a_row_has_kept_nothing(strategy: str) -> None:
    """At 19 rows from 15 on are kept for the window of 5; of that of 10 there was never a row."""
    engine = penstock.Engine(sharing=strategy)
    for name in "ab":
        engine.execute(DECLARE.format(name=name))
    join = "SELECT x.id, y.id AS yid FROM a AS x JOIN b AS y ON x.k = y.k WINDOW {} MICROSECONDS"
    engine.query(join.format(5))
    for name in "ab":
        rows = [{"ts": i, "id": i, "k": 0, "v": 0.0, "s": ""} for i in range(20)]
        engine.push(name, pa.Table.from_pylist(rows))
    late = engine.query(join.format(10), name="late")
    engine.execute("ALTER QUERY late SET WINDOW 12 MICROSECONDS")
    assert microseconds(late.complete_from) == (19 + 12 if strategy == "unshared" else 14 + 12)


def test_no_query_is_tried_for_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many that are given rows are looked up; only pull-up and push-down try each, as the paper's do."""
    tried: list[int] = []
    report_each = QueryIndex.report_each

    def noted(self: QueryIndex, *pairs: Any) -> tuple[int, int]:
        tried.append(1)
        return report_each(self, *pairs)

    monkeypatch.setattr(QueryIndex, "report_each", noted)
    found = {}
    for strategy in ("auto", "mem-opt", "cpu-opt", "pull-up"):
        tried.clear()
        engine = penstock.Engine(sharing=strategy)
        for name in "ab":
            engine.execute(DECLARE.format(name=name))
        queries = [
            engine.query(f"SELECT x.id FROM a AS x, b AS y WHERE x.k = y.k AND x.v > {i} WINDOW {i + 1} us")
            for i in range(40)
        ]
        rows = [{"ts": i, "id": i, "k": i % 3, "v": float(i % 41), "s": ""} for i in range(200)]
        for name in "ab":
            engine.push(name, pa.Table.from_pylist(rows))
        found[strategy] = [query.count for query in queries]
        assert bool(tried) == (strategy == "pull-up"), strategy
    assert all(one == found["pull-up"] for one in found.values())

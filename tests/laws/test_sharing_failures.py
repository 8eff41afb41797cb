"""One of several queries with a join in common fails on the data, or acts while rows flow: the others notice
nothing.

Rows of a come at even times, those of b at odd ones, so that no two rows share a ts:

    a   0   2   4   ...  60   ...        row BAD of a has a `v` and an `s` on which expressions fail
    b     1   3   5  ...   61   ...      and so has row BAD of b
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_of import joins_of

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Scheduler, Shuffled
from penstock.engine.joins.window_join import WindowJoin
from penstock.query import EPOCH
from penstock.turns import TAKEN

STRATEGIES = ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain", "chain-cpu", "unshared"]
DECLARE = "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT, s VARCHAR)"
ROWS, BAD = 60, 30
HALF = 1 << 62  # twice this is no BIGINT
BAD_WINDOW = 12

Pairs = list[tuple[int, int, int]]
"""(ts, id of a, id of b)."""


def joined(window: int, where: str = "", outputs: str = "x.id, y.id AS yid", on: str = "x.k = y.k") -> str:
    tail = f" WHERE {where}" if where else ""
    return f"SELECT {outputs} FROM a [RANGE {window} us] AS x JOIN b [RANGE {window} us] AS y ON {on}{tail}"


GOOD = {
    "short": joined(5),
    "long": joined(20, "x.v < 1"),
    "middle": joined(9, "y.v >= 1", "x.id, y.id AS yid, y.s"),
    "counted": joined(16, "y.v + x.v > 0"),
}
FILTERS = {
    "filter of left overflows": (joined(BAD_WINDOW, f"x.v * {HALF} <= {HALF}"), "int64 overflow in `a.v * "),
    "filter of right is no number": (joined(BAD_WINDOW, "CAST(y.s AS BIGINT) >= 0"), "found `oops`"),
}
OUTPUTS = {
    "output is no number": (
        joined(BAD_WINDOW, outputs="x.id, y.id AS yid, CAST(x.s AS BIGINT) AS n"),
        "found `oops`",
    )
}
PAIRWISE = {
    "residual overflows": (joined(BAD_WINDOW, f"(x.v + y.id * 0) * {HALF} <= {HALF}"), "int64 overflow in"),
    **OUTPUTS,
}
FAILING = FILTERS | PAIRWISE
DRAWN = [sql for sql, _ in FAILING.values()] + [
    joined(BAD_WINDOW, "7 // (x.v - 2) < 0 AND 7 // (y.v - 2) < 0"),
    joined(3, "7 // (x.v + y.id * 0 - 2) < 0 AND y.v >= 0"),
    joined(40, outputs=f"x.id, y.id AS yid, y.v * {HALF} AS n"),
]


@functools.cache
def rows(stream: str, count: int = ROWS, keys: int = 3, bad: int | None = BAD) -> pa.Table:
    rng = np.random.default_rng(ord(stream))
    v, s = rng.integers(0, 2, count), [str(i % 4) for i in range(count)]
    if bad is not None:
        v[bad], s[bad] = 2, "oops"
    ts = 2 * np.arange(count) + (stream == "b")
    return pa.table({"ts": ts, "id": np.arange(count), "k": rng.integers(0, keys, count), "v": v, "s": s})


def make(strategy: str, scheduler: Scheduler | None = None) -> penstock.Engine:
    engine = penstock.Engine(sharing=strategy, scheduler=scheduler)
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    return engine


def feed(engine: penstock.Engine, cuts: list[int], a: pa.Table, b: pa.Table) -> list[Exception]:
    """Push both streams in pieces of these sizes, over and over; what was raised."""
    raised: list[Exception] = []
    at = turn = 0
    while at < max(a.num_rows, b.num_rows):
        size = cuts[turn % len(cuts)]
        for name, table in (("a", a), ("b", b)):
            try:
                engine.push(name, table.slice(at, size))
            except Exception as error:
                raised.append(error)
            engine._runtime._check()
        at, turn = at + size, turn + 1
    return raised


def answer(query: penstock.Query) -> Any:
    """What a query has given, as it compares: its rows, those of one ts in any order, or their number."""
    if query._counting:
        return query.count
    table = query.results()
    ts = table["_ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(ts) >= 0).all(), "out of time order"
    return table.sort_by([(name, "ascending") for name in table.column_names])


def answers(queries: dict[str, penstock.Query]) -> dict[str, Any]:
    return {name: answer(query) for name, query in queries.items()}


def pairs(query: penstock.Query) -> Pairs:
    if not query.count:
        return []
    found = query.results()
    ts = found["_ts"].cast(pa.int64()).to_pylist()
    return sorted(zip(ts, found["id"].to_pylist(), found["yid"].to_pylist(), strict=True))


def start_good(engine: penstock.Engine) -> dict[str, penstock.Query]:
    return {name: engine.query(sql, name=name, count_only=name == "counted") for name, sql in GOOD.items()}


@functools.cache
def answers_without(strategy: str) -> dict[str, Any]:
    """What the good queries answer if there is no other."""
    engine = make(strategy)
    good = start_good(engine)
    assert not feed(engine, [ROWS], rows("a"), rows("b"))
    engine.close()
    return answers(good)


# -- one fails, the others go on -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("kind", "counting"),
    [
        (kind, counting)
        for kind in FAILING
        for counting in (False, True)
        if not (counting and kind in OUTPUTS)
    ],
)
def test_the_others_answer_as_without_it(strategy: str, kind: str, counting: bool) -> None:
    """And it can be dropped, its name and its join used again."""
    sql, message = FAILING[kind]
    engine = make(strategy)
    good = start_good(engine)
    bad = engine.query(sql, name="bad", count_only=counting)
    (error,) = feed(engine, [25], rows("a"), rows("b"))
    # 1. it has stopped
    assert isinstance(error, penstock.StoppedError)
    assert message in str(error) and error.queries == ("bad",)
    why = engine.stats()["queries"]["bad"]["error"]
    assert why.endswith("in query `bad`") and str(error) == f"{why}. {TAKEN}"
    assert all(engine.stats()["queries"][name]["error"] is None for name in good)
    assert all("bad" not in group["queries"] for group in engine.stats()["groups"])
    if bad.count and not counting:  # what came before comes first, then the error
        assert bad.results().num_rows == bad.count
    with pytest.raises(penstock.StoppedError, match=re.escape(why)):
        bad.results()
    # 2. and can be followed by another
    bad.drop()
    with pytest.raises(penstock.UsageError, match="dropped already"):
        bad.drop()
    engine.advance(2 * ROWS)
    assert answers(good) == answers_without(strategy)
    again = engine.query(joined(BAD_WINDOW), name="bad")
    later = {"id": [1000], "k": [1], "v": [1], "s": ["1"]}
    engine.push("a", {"ts": [1_000], **later})
    engine.push("b", {"ts": [1_001], **later})
    engine.advance(1_001)
    assert pairs(again) == [(1_001, 1_000, 1_000)]
    assert pairs(good["short"]) == [(1_001, 1_000, 1_000)]
    engine._runtime._check()


def naive(window: int, takes: Callable[[int, int], bool]) -> Pairs:
    """All pairs of rows with equal keys within a window that are taken, by their numbers in a and b."""
    a, b = (rows(name)["k"].to_pylist() for name in ("a", "b"))
    return sorted(
        (max(2 * i, 2 * j + 1), i, j)
        for i in range(ROWS)
        for j in range(ROWS)
        if a[i] == b[j] and abs(2 * i - 2 * j - 1) < window and takes(i, j)
    )


CUT = "what a failing filter of a join leaves behind depends on where batches are cut"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", FILTERS)
def test_what_a_filter_let_through_before_it_failed_is_answered(strategy: str, kind: str) -> None:
    """All pairs found by rows before the bad one, and none found later, wherever batches are cut."""
    first_bad = 2 * BAD + (kind == "filter of right is no number")
    expected = [pair for pair in naive(BAD_WINDOW, lambda i, j: True) if pair[0] < first_bad]
    for cuts in ([9], [ROWS]):
        engine = make(strategy)
        start_good(engine)
        bad = engine.query(FILTERS[kind][0], name="bad")
        assert len(feed(engine, cuts, rows("a"), rows("b"))) == 1
        assert pairs(bad) == expected, cuts


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", PAIRWISE)
def test_pairs_before_the_one_that_fails_are_answered(strategy: str, kind: str) -> None:
    """All pairs of earlier times; of those at the same time, which came first is not said."""
    everything = naive(BAD_WINDOW, lambda i, j: True)
    fails_at = min(ts for ts, i, _ in everything if i == BAD)
    before = {pair for pair in everything if pair[0] < fails_at}
    at_most = before | {pair for pair in everything if pair[0] == fails_at and pair[1] != BAD}
    for cuts in ([9], [ROWS]):
        engine = make(strategy)
        start_good(engine)
        bad = engine.query(FAILING[kind][0], name="bad")
        assert len(feed(engine, cuts, rows("a"), rows("b"))) == 1
        given = pairs(bad)
        assert len(set(given)) == len(given)
        assert before <= set(given) <= at_most, cuts


@settings(max_examples=20)
@given(
    st.sampled_from(STRATEGIES),
    st.sampled_from(DRAWN),
    st.lists(st.integers(1, 25), min_size=1, max_size=5),
    st.integers(0, 99),
    st.booleans(),
)
def test_whatever_the_schedule(strategy: str, sql: str, cuts: list[int], seed: int, late: bool) -> None:
    """The failing query first or last, cut and scheduled in any way: the others answer the same."""
    engine = make(strategy, Shuffled(seed, 16) if seed % 3 else RoundRobin(1 + seed))
    bad = None if late else engine.query(sql, name="bad")
    good = start_good(engine)
    bad = bad or engine.query(sql, name="bad")
    assert len(feed(engine, cuts, rows("a"), rows("b"))) == 1
    engine.close()
    engine._runtime._check()
    assert answers(good) == answers_without(strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_several_fail_at_one_row(strategy: str) -> None:
    """Two with one and the same filter, a third with another: each is told of under its own name."""
    engine = make(strategy)
    good = start_good(engine)
    same, other = FAILING["filter of left overflows"][0], joined(3, f"x.v + {2 * HALF - 2} < 0")
    for name, sql in (("one", same), ("two", same.replace("12 us", "4 us")), ("three", other)):
        engine.query(sql, name=name)
    (error,) = feed(engine, [ROWS], rows("a"), rows("b"))
    told = [str(error), *error.__notes__]
    assert sorted(re.findall(r"in query `(\w+)`", " ".join(told))) == ["one", "three", "two"]
    for name in ("one", "two", "three"):
        said = engine.stats()["queries"][name]["error"]
        assert said.startswith("int64 overflow in") and said.endswith(f"in query `{name}`")
        engine.queries[name].drop()
    engine.close()
    assert answers(good) == answers_without(strategy)


@pytest.mark.parametrize("strategy", ["auto", "mem-opt", "chain", "pull-up", "unshared"])
def test_what_only_it_needed_is_forgotten(strategy: str) -> None:
    engine, without = make(strategy), make(strategy)
    for one in (engine, without):
        one.query(joined(5), name="short", count_only=True)
    engine.query(joined(10_000, f"x.v * {HALF} <= {HALF}"), name="bad", count_only=True)
    for one in (engine, without):
        feed(one, [ROWS], rows("a"), rows("b"))

    def held(one: penstock.Engine) -> int:
        stats = one.stats()
        parts = [*stats["groups"], stats["queries"]["short"]]
        return sum(operator["state_rows"] for part in parts for operator in part["operators"])

    assert held(engine) == held(without) > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_query_that_reads_what_nobody_read_before(strategy: str) -> None:
    """It cannot take the rows that are there, and the others take them as before."""
    engine, without = make(strategy), make("unshared")
    firsts = [
        [one.query(joined(4)), one.query(joined(8, "x.v = 1")), one.query(joined(6, "y.v = 0"))]
        for one in (engine, without)
    ]
    for at in range(0, ROWS, 6):
        for one in (engine, without):
            one.push("a", rows("a").slice(at, 6))
            one.push("b", rows("b").slice(at, 6))
        if at == 24:
            engine.query(joined(12, "x.v = 1", "x.id, y.id AS yid, x.s"))
    for one in (engine, without):
        one.close()
    assert [pairs(query) for query in firsts[0]] == [pairs(query) for query in firsts[1]]


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "unshared"])
@pytest.mark.parametrize(("size", "exact_from"), [(4, 10), (8, 10), (12, 14)])
@pytest.mark.parametrize("unit", ["MICROSECONDS", "ROWS"])
def test_rows_that_came_before_it_do_not_stop_a_query(
    strategy: str, size: int, exact_from: int, unit: str
) -> None:
    """What it asks fails on row 2, which another has kept: it begins with the rows after that one.

    row         0 1 2 3 4 5 6 7 8 9 | 10 11 ...
    window 4    . . ! . . . [ 7 8 9 | 10          exact at once
    window 12   . . ! 3 4 5 6 7 8 9 | 10 ...      exact from 14 on, when row 2 would have left
    """
    engine = make(strategy)
    join = "SELECT x.id, y.id AS yid FROM a AS x JOIN b AS y ON x.k = y.k"
    engine.query(f"{join} WINDOW 100 {unit}", name="all")

    def push(start: int, end: int) -> None:
        numbers = list(range(start, end))
        for name in "ab":
            zeros = [0] * len(numbers)
            engine.push(
                name, {"ts": numbers, "id": numbers, "k": zeros, "v": zeros, "s": [""] * len(numbers)}
            )

    push(0, 10)
    late = engine.query(f"{join} WHERE 10 % (x.id - 2) >= 0 WINDOW {size} {unit}", name="late")
    push(10, 30)
    engine.close()
    since = late.complete_from
    assert since is not None
    assert (since - EPOCH).microseconds == exact_from
    found = pairs(late)
    wanted = [(max(x, y), x, y) for x in range(30) for y in range(30) if abs(x - y) < size and x > 2]
    assert set(found) <= set(wanted)
    assert [one for one in found if one[0] >= exact_from] == sorted(
        one for one in wanted if one[0] >= exact_from
    )


# -- the key of the join fails -------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cut", [7, ROWS])
def test_a_key_that_fails_stops_all_that_have_it(strategy: str, cut: int) -> None:
    engine = make(strategy)
    key = f"x.v * {HALF} = y.k"
    names = [f"q{window}" for window in (5, 9, 20)]
    for name in names:
        where = "y.v = 1" if name == "q9" else ""
        engine.query(joined(int(name[1:]), where, on=key), name=name, count_only=name == "q20")
    good = start_good(engine)
    raised = feed(engine, [cut], rows("a"), rows("b"))
    told = [text for error in raised for text in (str(error), *getattr(error, "__notes__", []))]
    assert {name for text in told for name in re.findall(r"in query `(\w+)`", text)} == set(names)
    for name in names:
        assert "int64 overflow" in engine.stats()["queries"][name]["error"]
        engine.queries[name].drop()
    # the join is gone, and there can be a new one
    assert {group.common for group in joins_of(engine)} == {
        group.common for group in joins_of(engine) if group.members
    }
    again = engine.query(joined(9, on=key), name="again")
    engine.push("a", {"ts": [1_000], "id": [7], "k": [1], "v": [0], "s": ["1"]})
    engine.push("b", {"ts": [1_001], "id": [8], "k": [0], "v": [0], "s": ["1"]})
    engine.advance(1_001)
    assert pairs(again) == [(1_001, 7, 8)]
    engine._runtime._check()
    again.drop()
    engine.close()
    assert answer(good["long"]) == answers_without(strategy)["long"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_key_is_not_asked_of_rows_that_no_query_takes(strategy: str) -> None:
    engine = make(strategy)
    queries = [engine.query(joined(w, "x.v < 2", on=f"x.v * {HALF} = y.k")) for w in (5, 9)]
    assert not feed(engine, [ROWS], rows("a"), rows("b"))
    assert [query._pipeline.error for query in queries] == [None, None]


# -- subscribers ---------------------------------------------------------------------------------------

MANY = 240  # rows of one key: the pairs of one batch come out in many pieces
STAYING = {
    "short": joined(20),
    "long": joined(220, "x.v < 1"),
    "middle": joined(100, "y.v >= 1"),
    "counted": joined(290, "y.v >= 1"),
}


class Scene:
    """Queries that stay, an actor whose subscriber acts at its second batch, and another one."""

    def __init__(self, strategy: str, act: Callable[[Scene], None], cut: int, seed: int | None) -> None:
        self.engine = make(strategy, None if seed is None else Shuffled(seed, 100))
        self.staying = {
            name: self.engine.query(sql, name=name, count_only=name == "counted")
            for name, sql in STAYING.items()
        }
        self.actor = self.engine.query(joined(260), name="actor")
        self.other = self.engine.query(joined(320, "x.v = 1"), name="other")
        self.new: list[penstock.Query] = []
        self.batches: list[pa.RecordBatch] = []
        self.was_working = False
        self._act = act
        self.actor.subscribe(self._take)
        self.raised = feed(self.engine, [cut], *(rows(name, MANY, 1, None) for name in ("a", "b")))
        self.engine.close()
        self.engine._runtime._check()

    def _take(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        if len(self.batches) == 2:
            joins = [join for group in joins_of(self.engine) for join in group.joins]
            self.was_working = any(isinstance(join, WindowJoin) and join._working for join in joins)
            self._act(self)

    @property
    def answers(self) -> dict[str, Any]:
        return answers(self.staying)


def drop_itself(scene: Scene) -> None:
    scene.actor.drop()


def drop_the_other(scene: Scene) -> None:
    scene.other.drop()


def start_a_longer_one(scene: Scene) -> None:
    scene.new.append(scene.engine.query(joined(300, "y.v = 1", "x.id, y.id AS yid, x.s")))


def start_one_that_counts(scene: Scene) -> None:
    scene.new.append(scene.engine.query(joined(7), count_only=True))


def replace_all(scene: Scene) -> None:
    scene.other.drop()
    start_a_longer_one(scene)
    scene.actor.drop()
    start_one_that_counts(scene)
    scene.new.pop(0).drop()


def change_windows(scene: Scene) -> None:
    scene.engine.execute("ALTER QUERY other SET WINDOW 30 us; ALTER QUERY actor SET WINDOW 310 us")


def look_around(scene: Scene) -> None:
    assert scene.engine.stats()["queries"]["short"]["error"] is None
    assert "other" in scene.engine.explain(analyze=True)
    assert all(query.count >= 0 for query in scene.staying.values())


def fail(scene: Scene) -> None:
    raise RuntimeError("no more")


ACTS = [
    drop_itself, drop_the_other, start_a_longer_one, start_one_that_counts, replace_all, change_windows,
    look_around, fail,
]  # fmt: skip


@functools.cache
def undisturbed() -> dict[str, Any]:
    return Scene("unshared", lambda scene: None, MANY, None).answers


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("act", ACTS)
def test_a_subscriber_acts_while_rows_flow(strategy: str, act: Callable[[Scene], None]) -> None:
    scene = Scene(strategy, act, 200, None)
    assert len(scene.batches) >= 2, "it never acted"
    if strategy in ("auto", "mem-opt", "cpu-opt", "pull-up"):
        assert scene.was_working, "expected the join in the middle of a batch"
    assert [str(error.__cause__) for error in scene.raised] == (["no more"] if act is fail else [])
    assert scene.answers == undisturbed()
    if act is drop_itself:
        assert len(scene.batches) == 2
    if act is fail:  # its trouble is not its query's
        assert sum(batch.num_rows for batch in scene.batches) == scene.actor.count


@settings(max_examples=20)
@given(
    st.sampled_from(STRATEGIES),
    st.sampled_from(ACTS[:-1]),
    st.integers(40, 100),
    st.integers(0, 99),
)
def test_a_subscriber_acts_whatever_the_schedule(
    strategy: str, act: Callable[[Scene], None], cut: int, seed: int
) -> None:
    scene = Scene(strategy, act, cut, seed)
    assert not scene.raised
    assert scene.answers == undisturbed()

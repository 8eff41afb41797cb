"""What `auto` does with joins in common as measurements come in: slices are merged or taken apart when that
pays, indexes change, and nobody's answer does.

Twelve queries over the same streams; the longer a query's window, the fewer of a's rows it takes:

    v < 12/12   [0, w1)
    v < 11/12   [0, w2)          few matches: probing twelve shelves is dear, one shelf for all is cheaper
       ...         ...           many matches: what a pair costs counts, and shelves keep fewer rows
    v <  1/12   [0, w12)
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_plans import WEIGHTS
from work_of import joins_of

import penstock
from penstock import adapt
from penstock.adapt import FIRST_LOOK_ROWS
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.plan.plan import MemberNode
from penstock.engine.rows.window import Window
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.share import lay_out_joins
from penstock.optimizer.share.lay_out_joins import ENTER_GAIN, EVERY_WINDOW, LEAVE_GAIN
from penstock.query import EPOCH, NEVER

MILLISECOND = 1_000
QUERIES = 12
DECLARE = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v DOUBLE)"
PINNED = Weights(
    scan_search=2e-10, scan_update=2e-9, hash_search=5e-9, hash_update=4e-9, ttree_search=6e-9,
    ttree_update=7e-9, btree_search=4e-9, btree_update=5e-9, tree_walk=1e-9, pair=1e-8, row=3.5e-8,
    slice_row=6e-9, shelf_probe=4e-9, route=8e-10,
)  # fmt: skip


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices are looked at here: queries stay in one join."""
    monkeypatch.setattr(lay_out_joins, "may_run_apart", lambda join: False)


def make(rate: float | None = None, **options: Any) -> penstock.Engine:
    """An engine that expects `rate` rows per second of each stream."""
    engine = penstock.Engine(**{"weights": PINNED, **options})
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
        if rate is not None:
            engine.set_rate(name, rate)
    return engine


def start(engine: penstock.Engine, unit_us: int, count: int = QUERIES) -> list[penstock.Query]:
    """The queries of the picture, windows `unit_us` apart; every fourth is read, the others count."""
    return [
        engine.query(
            f"SELECT a.ts AS ats, b.ts AS bts FROM a [RANGE {unit_us * (i + 1)} us] "
            f"JOIN b [RANGE {unit_us * (i + 1)} us] ON a.k = b.k WHERE a.v < {(count - i) / count!r}",
            name=f"q{i}",
            count_only=i % 4 != 3,
        )
        for i in range(count)
    ]


def join_of(engine: penstock.Engine) -> WindowJoin:
    """The join they have in common, with what was asked of it taken in."""
    (group,) = joins_of(engine)
    (join,) = group.joins
    join.refresh()
    return join


class Feed:
    """A row of each stream every millisecond, keys drawn from so many."""

    def __init__(self, engine: penstock.Engine) -> None:
        self.engine = engine
        self.at = 0
        self._rng = np.random.default_rng(3)

    def push(self, count: int, keys: int) -> None:
        ts = np.arange(self.at, self.at + count) * MILLISECOND
        self.at += count
        for name in ("a", "b"):
            rows = {"ts": ts, "k": self._rng.integers(0, keys, count), "v": self._rng.random(count)}
            self.engine.push(name, rows)


def answers(queries: list[penstock.Query]) -> list[Any]:
    """What each has given: how many rows, and of those that are read a sum which tells pairs apart."""
    given: list[Any] = []
    for query in queries:
        if query._counting:
            given.append(query.count)
            continue
        table = query.results()
        ats, bts = (table[name].cast("int64").to_numpy() for name in ("ats", "bts"))
        given.append((table.num_rows, int((ats * 31 % 1_000_003 * (bts * 17 % 1_000_003)).sum())))
    return given


def run(
    sharing: str, unit_us: int, phases: list[tuple[int, int]], rate: float | None = None
) -> tuple[list[Any], list[Any]]:
    """(answers, ends after each push) with rows in phases of (count, keys)."""
    engine = make(rate, sharing=sharing)
    queries = start(engine, unit_us)
    ends: list[Any] = [] if sharing == "unshared" else [join_of(engine).layout.ends]
    feed = Feed(engine)
    for count, keys in phases:
        feed.push(count, keys)
        engine._runtime._check()
        if sharing != "unshared":
            ends.append(join_of(engine).layout.ends)
    engine.close()
    return answers(queries), ends


# -- when it pays --------------------------------------------------------------------------------------

FEW, MANY = 10_000_000, 50  # keys to draw from: next to no matches, and plenty
PIECE = FIRST_LOOK_ROWS // 8
FAST = 20_000.0  # rows per second: twenty times as many as come


def test_slices_are_merged_when_there_is_little_to_find() -> None:
    """Windows of seconds: a match per row and query was expected, none comes."""
    phases = [(PIECE, FEW)] * 6
    given, ends = run("auto", 1_000 * MILLISECOND, phases)
    looked = FIRST_LOOK_ROWS // (2 * PIECE)  # pushes before the first look
    assert ends[:looked] == [EVERY_WINDOW] * looked
    assert len(set(ends[looked:])) == 1 and ends[-1] != EVERY_WINDOW
    left, _ = ends[-1]
    assert left is not None and len(left) < QUERIES and left[-1] == QUERIES * 1_000 * MILLISECOND
    assert given == run("mem-opt", 1_000 * MILLISECOND, phases)[0]
    assert given == run("unshared", 1_000 * MILLISECOND, phases)[0]


def test_slices_are_taken_apart_when_there_is_much_to_find() -> None:
    """Windows of tenths of seconds: next to nothing was expected, several matches per row come."""
    phases = [(PIECE, MANY)] * 6
    given, ends = run("auto", 100 * MILLISECOND, phases)
    looked = FIRST_LOOK_ROWS // (2 * PIECE)
    assert ends[0] != EVERY_WINDOW and set(ends[:looked]) == {ends[0]}
    assert set(ends[looked:]) == {EVERY_WINDOW}
    assert given == run("cpu-opt", 100 * MILLISECOND, phases)[0]
    assert given == run("unshared", 100 * MILLISECOND, phases)[0]


def test_there_and_back_again() -> None:
    """First few matches, later many, looked at whenever the rows have doubled."""
    phases = [(PIECE, FEW)] * 5 + [(PIECE, MANY)] * 12
    given, ends = run("auto", 100 * MILLISECOND, phases, FAST)
    kinds = [kind for kind, _ in itertools.groupby(one == EVERY_WINDOW for one in ends)]
    assert kinds == [True, False, True]
    assert given == run("mem-opt", 100 * MILLISECOND, phases, FAST)[0]


def test_what_was_long_ago_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much to find for a long time, then little, then much again: slices follow within a look or two.

    A day of rows must not have to pass before a day of other rows is noticed.
    """
    monkeypatch.setattr(adapt, "MOST_ROWS", FIRST_LOOK_ROWS)
    monkeypatch.setattr(adapt, "MOST_ROWS_EACH", 1)
    per_look = FIRST_LOOK_ROWS // (2 * PIECE)
    phases = [(PIECE, MANY)] * 8 * per_look + [(PIECE, FEW)] * 3 * per_look + [(PIECE, MANY)] * 3 * per_look
    given, ends = run("auto", 100 * MILLISECOND, phases)
    kinds = [one == EVERY_WINDOW for one in ends[per_look:]]
    assert [kind for kind, _ in itertools.groupby(kinds)] == [True, False, True]
    assert given == run("mem-opt", 100 * MILLISECOND, phases)[0]


def test_cpu_opt_merges_and_mem_opt_never_does() -> None:
    phases = [(PIECE, FEW)] * 5
    _, merged = run("cpu-opt", 100 * MILLISECOND, phases)
    assert all(one != EVERY_WINDOW for one in merged)
    _, kept = run("mem-opt", 100 * MILLISECOND, phases)
    assert set(kept) == {EVERY_WINDOW}


def test_queries_without_selections_are_never_merged() -> None:
    """All rows are needed for the longest window: there is one shelf, and nothing to merge."""
    engine = make()
    for i in range(QUERIES):
        engine.query(f"SELECT a.k FROM a, b WHERE a.k = b.k WINDOW {i + 1} MILLISECONDS", count_only=True)
    feed = Feed(engine)
    for _ in range(5):
        feed.push(PIECE, FEW)
        assert join_of(engine).layout.ends == EVERY_WINDOW
        assert [len(side.shelves) for side in join_of(engine).sides] == [1, 1]


# -- and not back and forth ----------------------------------------------------------------------------


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What merging was reckoned to save, each time it was thought over."""
    seen: list[float] = []
    estimate = lay_out_joins.estimate_strategies

    def spy(*arguments: Any) -> Any:
        costs = estimate(*arguments)
        seen.append(1 - costs["cpu-opt"].cores / costs["mem-opt"].cores)
        return costs

    monkeypatch.setattr(lay_out_joins, "estimate_strategies", spy)
    return seen


def waver(rate: float | None, keys: tuple[int, int], sharing: str = "auto") -> tuple[list[Any], list[Any]]:
    """(answers, ends after each look): what is found alternates, in ever longer pieces, each looked at."""
    engine = make(rate, sharing=sharing)
    queries = start(engine, 100 * MILLISECOND)
    feed = Feed(engine)
    ends = [join_of(engine).layout.ends] if sharing == "auto" else []
    for number in range(12):
        feed.push(int(1_500 * 1.3**number), keys[number % 2])
        engine._adapter.look_at_plans()
        if sharing == "auto":
            ends.append(join_of(engine).layout.ends)
    engine.close()
    return answers(queries), ends


def crossings(gains: list[float], threshold: float) -> int:
    """How often a threshold was crossed."""
    return sum((one < threshold) != (two < threshold) for one, two in itertools.pairwise(gains))


WAVERING = {
    "around the gain at which slices are merged": (FAST, (500, 190), ENTER_GAIN, [True, False]),
    "around the gain at which they are taken apart": (None, (200, 40), LEAVE_GAIN, [False, True]),
}


@pytest.mark.parametrize("case", WAVERING)
def test_slices_are_not_merged_and_taken_apart_in_turn(case: str, gains: list[float]) -> None:
    """The gain goes to and fro over the line; slices change once, and no answer is lost or doubled."""
    rate, keys, threshold, expected = WAVERING[case]
    given, ends = waver(rate, keys)
    assert crossings(gains, threshold) >= 4, f"expected gains about {threshold}, found {gains}"
    assert [kind for kind, _ in itertools.groupby(one == EVERY_WINDOW for one in ends)] == expected
    assert given == waver(rate, keys, "unshared")[0]


def test_merged_slices_stay_as_they_are_unless_others_are_clearly_cheaper() -> None:
    """What merging saves changes by a hundredth or two; every change lays out all rows anew."""
    _, ends = waver(FAST, (500, 190))
    merged = [one for one in ends if one != EVERY_WINDOW]
    assert len(list(itertools.groupby(merged))) == 1


# -- queries come and go while slices are merged -------------------------------------------------------


def held(engine: penstock.Engine) -> list[int]:
    """Lifetimes of the shelves that hold rows."""
    return [shelf.lifetime for side in join_of(engine).sides for shelf in side.shelves if len(shelf)]


@pytest.mark.parametrize("sharing", ["cpu-opt", "auto"])
def test_rows_leave_when_the_longest_window_has_gone(sharing: str) -> None:
    """Slices are merged; the queries go one by one, the longest first."""
    engine = make(sharing=sharing)
    queries = start(engine, 100 * MILLISECOND)
    feed = Feed(engine)
    feed.push(3_000, FEW)
    assert join_of(engine).layout.ends != EVERY_WINDOW
    while len(queries) > 6:
        queries.pop().drop()
        engine._runtime._check()
        assert max(held(engine)) <= 100 * MILLISECOND * len(queries)
        feed.push(100, FEW)
        engine._runtime._check()


@pytest.mark.parametrize("sharing", ["auto", "cpu-opt", "mem-opt"])
def test_queries_that_come_while_slices_are_merged(sharing: str) -> None:
    """Longer and shorter windows than any before: from complete_from on they answer as if alone."""
    engine, alone = make(sharing=sharing), make(sharing="unshared")
    feeds = Feed(engine), Feed(alone)
    start(engine, 100 * MILLISECOND)
    late: list[tuple[penstock.Query, penstock.Query]] = []
    for i, window in enumerate((5_000, 30, 1_250, 2_000)):
        for feed in feeds:
            feed.push(1_500, 500)
        sql = (
            f"SELECT a.ts AS ats, b.ts AS bts FROM a [RANGE {window} ms] JOIN b [RANGE {window} ms] "
            f"ON a.k = b.k WHERE a.v < {0.1 * i + 0.05!r}"
        )
        late.append((engine.query(sql), alone.query(sql)))
        engine._runtime._check()
    for feed in feeds:
        feed.push(8_000, 500)
        feed.engine.close()
    for shared, single in late:
        since = max(query.complete_from or EPOCH for query in (shared, single))
        assert since < NEVER
        tables = [query.results() for query in (shared, single)]
        rows = [
            sorted(row for row in zip(*(column.to_pylist() for column in table.columns), strict=True))
            for table in tables
        ]
        exact = [[row for row in part if row[0] >= since.replace(tzinfo=None)] for part in rows]
        assert exact[0] == exact[1] and len(exact[0]) > 20


# -- indexes -------------------------------------------------------------------------------------------


def skewed(engine: penstock.Engine) -> tuple[list[Any], list[tuple[str, ...]]]:
    """(answers, indexes after each push): streams a thousand times as fast as assumed."""
    condition = "b.k BETWEEN a.k - 20 AND a.k + 20"
    queries = [
        engine.query(
            f"SELECT a.ts AS ats, b.ts AS bts FROM a [RANGE {size} us] JOIN b [RANGE {size} us] "
            f"ON {condition} WHERE {where}",
            count_only=size == 700,
        )
        for size, where in (
            (2_000, "a.v < 0.3"),
            (1_500, "a.v >= 0"),
            (700, "b.v < 0.7"),
            (300, "a.v < 0.9 AND b.v > 0.1"),
        )
    ]
    rng = np.random.default_rng(11)
    kinds = [join_of(engine).layout.indexes]
    piece = FIRST_LOOK_ROWS // 4
    for at in range(0, 2 * FIRST_LOOK_ROWS, piece):
        for name in ("a", "b"):
            rows = {
                "ts": np.arange(at, at + piece),
                "k": rng.integers(0, 100_000, piece),
                "v": rng.random(piece),
            }
            engine.push(name, rows)
        engine._runtime._check()
        kinds.append(join_of(engine).layout.indexes)
        assert all(
            side.kept.index_kind == kind for side, kind in zip(join_of(engine).sides, kinds[-1], strict=True)
        )
    engine.close()
    return answers(queries), kinds


def test_indexes_change_while_they_are_shared() -> None:
    """Two rows were expected in a window, two thousand come."""
    forced, kept = skewed(make(index="scan", weights=WEIGHTS))
    assert set(kept) == {("scan", "scan")}
    for sharing in ("auto", "pull-up"):
        changed, kinds = skewed(make(sharing=sharing, weights=WEIGHTS))
        assert kinds[0] == ("scan", "scan")
        assert set(kinds[-1]) <= {"t-tree", "b+tree"}
        assert len(list(itertools.groupby(kinds))) == 2, "changed more than once"
        assert changed == forced
    assert all((one if isinstance(one, int) else one[0]) > 1_000 for one in forced)


# -- ten thousand queries ------------------------------------------------------------------------------

THOUSANDS = 10_000


def start_many(engine: penstock.Engine, left_us: NDArray, right_us: NDArray) -> list[penstock.Query]:
    """Queries that count, with these windows; all but the first from its plan, to spare parsing."""
    first = engine.query(
        f"SELECT a.k FROM a [RANGE {left_us[0]} us] JOIN b [RANGE {right_us[0]} us] ON a.k = b.k",
        name="q0",
        count_only=True,
    )
    plan = first._pipeline.plan
    assert isinstance(plan, MemberNode) and not plan.swapped
    alone = engine._plan(first._bound, True, "q0")
    queries = [first]
    for number, windows in enumerate(zip(left_us[1:].tolist(), right_us[1:].tolist(), strict=True), 1):
        left, right = (
            dataclasses.replace(side, window=Window("range", size))
            for side, size in zip(plan.sides, windows, strict=True)
        )
        other = dataclasses.replace(plan, sides=(left, right))
        engine._start(f"q{number}", first._bound, alone.with_node(other), True)
        queries.append(engine.queries[f"q{number}"])
    return queries


def test_ten_thousand_windows_oracle() -> None:
    """A pair belongs to the queries whose window is longer than its age: numpy counts the ages."""
    rng = np.random.default_rng(5)
    left_us, right_us = rng.permutation(THOUSANDS) + 1, rng.permutation(THOUSANDS) * 3 + 1
    engine = make()
    queries = start_many(engine, left_us, right_us)
    rows = 3_000
    ts = {name: np.sort(rng.integers(0, 60_000, rows)) for name in ("a", "b")}
    keys = {name: rng.integers(0, 20, rows) for name in ("a", "b")}
    for at in range(0, rows, 500):
        for name in ("a", "b"):
            part = slice(at, at + 500)
            engine.push(name, {"ts": ts[name][part], "k": keys[name][part], "v": np.zeros(500)})
    halfway = [query.count for query in queries[:10]]
    engine.close()
    ages = (ts["b"][None, :] - ts["a"][:, None])[keys["a"][:, None] == keys["b"][None, :]]
    of_left, of_right = np.sort(ages[ages >= 0]), np.sort(-ages[ages < 0])
    expected = of_left.searchsorted(left_us) + of_right.searchsorted(right_us)
    assert [query.count for query in queries] == expected.tolist()
    assert all(one <= two for one, two in zip(halfway, expected.tolist(), strict=False))
    assert len(np.unique(expected)) > THOUSANDS // 2
    # one join, and rows are kept once
    (group,) = engine.stats()["groups"]
    assert len(group["queries"]) == THOUSANDS
    assert sum(operator["rows_in"] for operator in group["operators"]) == 2 * rows

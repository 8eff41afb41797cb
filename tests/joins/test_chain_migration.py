"""Members of a chain come, go and change at any moment, with rows and pairs in every queue."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_chain import (
    ALL,
    ARROW,
    ASKS,
    CONDITIONS,
    Ask,
    Asks,
    Condition,
    Drive,
    K,
    Row,
    Setting,
    asks_of,
    drives,
    naive,
    streams,
)

import penstock
from penstock.engine.chain.slice_join import MAX_PAIRS
from penstock.engine.expressions.expression import Call, Literal
from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.flow.scheduler import Ready, RoundRobin, Shuffled
from penstock.engine.kernels.chain.slice_join import IS_PROBING, KIND, MALE, ROW
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import FOREVER, MAX_TS
from penstock.optimizer.share import lay_out_joins

MOMENTS = ["add", "add", "drop", "alter", "feed", "feed", "promise", "turns", "turns", "settle"]


def exact_from(drive: Drive, name: str) -> int:
    start = drive.members[name].complete_from
    return BEGINNING if start is None else start


@settings(max_examples=180)
@given(st.data())
def test_members_come_go_and_change(data: st.DataObject) -> None:
    """Each has the plain join's answer from when it is complete; the others notice nothing."""
    drive = data.draw(drives())
    draw = data.draw
    asked: dict[str, list[Ask]] = {}
    turned: dict[str, list[int]] = {}
    starts: dict[str, list[int]] = {}
    dropped: dict[str, int] = {}

    def add() -> None:
        name = f"q{len(asked)}"
        asked[name] = [draw(asks_of(drive.setting))]
        turned[name], starts[name] = [], []
        drive.add(name, asked[name][0], draw(st.sampled_from([(0,), (0, 2)])))

    add()
    for move in draw(st.lists(st.sampled_from(MOMENTS), max_size=25)):
        if drive.random.random() < 0.5:
            drive.feed()
            drive.turns(drive.random.randint(0, 4))
        here = sorted(set(asked) - set(dropped))
        match move:
            case "add" if len(here) < 5:
                add()
            case "drop" if len(here) > 1:
                name = draw(st.sampled_from(here))
                drive.collect()
                starts[name].append(exact_from(drive, name))
                drive.group.settle()
                drive.group.drop(drive.members[name])
                dropped[name] = drive.members[name].output.punctuation
            case "alter":
                name = draw(st.sampled_from(here))
                former = asked[name][-1]
                ask = replace(draw(asks_of(drive.setting)), swapped=former.swapped, counting=former.counting)
                member = drive.members[name]
                starts[name].append(exact_from(drive, name))
                turned[name].append(drive.group.head.now)
                member.started = drive.starts()
                columns = member.node.sides[0].columns
                drive.group.alter(member, drive.setting.node(ask, columns))
                asked[name].append(ask)
            case "feed":
                drive.feed()
            case "promise":
                drive.promise(draw(st.integers(0, 5)))
            case "turns":
                drive.turns(draw(st.integers(1, 8)))
            case "settle":
                drive.settle()
        drive.group._check()
    drive.finish()
    for name, asks in asked.items():
        if name not in dropped:
            starts[name].append(exact_from(drive, name))
        given_ = Counter((row[0], row[1], row[1 + len(row) // 2]) for row in drive.results[name])
        answers = [drive.expected(ask) for ask in asks]
        # 1. nothing that is in no answer, nothing twice
        for pair, count in given_.items():
            assert count == 1 and any(pair in answer for answer in answers), (name, pair)
        # 2. everything, while it is complete
        if asks[0].counting:
            exact = answers[0]
            if len(asks) == 1 and starts[name] == [BEGINNING] and name not in dropped:
                assert drive.members[name].found == sum(exact.values())
            continue
        borders = [BEGINNING, *turned[name], dropped.get(name, MAX_TS)]
        for n, answer in enumerate(answers):
            low, high = max(starts[name][n], borders[n]), min(borders[n + 1 :])
            expected = {pair for pair in answer if low <= pair[0] < high}
            assert {pair for pair in given_ if low <= pair[0] < high} == expected, (name, n, low, high)


@settings(max_examples=40)
@given(drives(), st.data())
def test_who_stays_notices_nothing(drive: Drive, data: st.DataObject) -> None:
    """A member's results, batch by batch put together, are those it has alone, whoever comes and goes."""
    mine = replace(data.draw(asks_of(drive.setting)), counting=False)
    alone = Drive(drive.setting, drive.rows, drive.seed)
    alone.add("mine", mine)
    alone.finish()
    drive.add("mine", mine)
    others: list[str] = []
    while drive.feed():
        drive.turns(drive.random.randint(0, 6))
        if drive.random.random() < 0.6:
            others.append(f"q{len(drive.members)}")
            drive.add(others[-1], data.draw(asks_of(drive.setting)))
        drive.turns(drive.random.randint(0, 3))
        if others and drive.random.random() < 0.6:
            drive.group.drop(drive.members[others.pop(drive.random.randrange(len(others)))])
    drive.finish()
    assert Counter(drive.results["mine"]) == Counter(alone.results["mine"])


# -- named cases ------------------------------------------------------------------------------------------


def plain(rows: int = 40) -> Drive:
    stream = [Row(n, n, 1, float(n % 2), "a") for n in range(rows)]
    return Drive(Setting(("range", "range"), CONDITIONS[0]), (stream, stream), 1)


def ends(drive: Drive) -> list[tuple[int, int]]:
    return [(slice_.start, slice_.end) for slice_ in drive.group.slices]


def test_split_shrinks_the_end_and_purging_fills_the_new_slice() -> None:
    drive = plain()
    drive.add("long", Ask((10, 10)))
    drive.push(0, 20)
    drive.push(1, 20)
    drive.settle()
    assert ends(drive) == [(0, 10)]
    before = drive.group.slices[0].females(0).tolist()
    drive.add("short", Ask((4, 4)))
    assert ends(drive) == [(0, 4), (4, 10)]
    first, second = drive.group.slices
    assert first.females(0).tolist() == before and second.state_rows == 0 and not second.queue.batches
    drive.push(0, 1)
    drive.push(1, 1)
    drive.settle()
    assert first.females(0).tolist() == [17, 18, 19, 20]
    assert second.females(0).tolist() == [11, 12, 13, 14, 15, 16]
    assert drive.members["short"].complete_from == 20  # all it needs was there


def test_merge_drains_what_is_between_and_keeps_the_rest() -> None:
    drive = plain()
    for window in (4, 10, 16):
        drive.add(f"q{window}", Ask((window, window)))
    drive.push(0, 30)
    drive.push(1, 30)
    drive.group.head.step(100)
    for _ in range(12):
        drive.group.slices[0].step(7)
        drive.group.slices[1].step(2)
    between, after = drive.group.slices[1], drive.group.slices[2]
    assert between.waiting.shape[1] and after.waiting.shape[1]
    on_the_way = drive.group.slices[0].waiting
    drive.group.drop(drive.members["q4"])
    assert ends(drive) == [(0, 10), (10, 16)]
    assert drive.group.slices[0].waiting.tolist() == on_the_way.tolist()
    assert drive.group.slices[1] is after
    drive.finish()
    for window in (10, 16):
        expected = drive.expected(Ask((window, window)))
        assert Counter(drive.results[f"q{window}"]) == expected


def test_the_longest_goes_and_comes_back() -> None:
    """What only it needed is forgotten; coming back it is complete once its window has passed.

    long   |======== 0 .. 20 ========|          |... from 41 on complete ...
    short  |====================================================
    """
    drive = plain(60)
    drive.add("short", Ask((3, 3)))
    drive.add("long", Ask((20, 20)))
    drive.push(0, 31)
    drive.push(1, 31)
    drive.settle()
    assert drive.group.state_rows == 40
    drive.group.drop(drive.members["long"])
    assert ends(drive) == [(0, 3)]
    drive.group._check()
    drive.promise(0)
    again = drive.add("again", Ask((20, 20)))
    assert again.complete_from == 30 - 3 + 20
    drive.finish()
    expected = {pair for pair in drive.expected(Ask((20, 20))) if pair[0] >= 47}
    assert {pair for pair in drive.results["again"] if pair[0] >= 47} == expected
    assert Counter(drive.results["short"]) == drive.expected(Ask((3, 3)))


def test_rows_on_their_way_live_longer_for_a_longer_window() -> None:
    """Females in states and queues take the lifetime a new member gives them."""
    drive = plain()
    drive.add("short", Ask((5, 5)))
    drive.push(0, 20)
    drive.push(1, 20)
    drive.group.head.step(100)
    drive.turns(3)
    late = drive.add("long", Ask((15, 15)))
    drive.finish()
    assert late.complete_from == 19 - 5 + 15
    expected = {pair for pair in drive.expected(Ask((15, 15))) if pair[0] >= 29}
    assert {pair for pair in drive.results["long"] if pair[0] >= 29} == expected


def test_rows_on_their_way_are_worked_before_a_member_changes() -> None:
    """What has been taken in belongs to the member as it was, what comes later to what it is now."""
    drive = plain()
    member = drive.add("q", Ask((10, 10)))
    drive.add("other", Ask((5, 5)))
    drive.push(0, 20)
    drive.push(1, 20)
    drive.group.head.step(100)
    drive.turns(4)
    member.started = drive.starts()
    drive.group.alter(member, drive.setting.node(Ask((3, 3))))
    assert ends(drive) == [(0, 3), (3, 5)]
    assert member.complete_from == 20
    drive.finish()
    now = {pair for pair in drive.expected(Ask((3, 3))) if pair[0] >= 20}
    before = {pair for pair in drive.expected(Ask((10, 10))) if pair[0] < 20}
    assert Counter(drive.results["q"]) == Counter(now | before)
    assert Counter(drive.results["other"]) == drive.expected(Ask((5, 5)))


@pytest.mark.parametrize("condition", CONDITIONS[1:3])
def test_keys_found_equal_by_hash_are_verified(condition: Condition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all keys have one hash, every row is found for every other."""
    monkeypatch.setattr("penstock.engine.shelves.side.combine", lambda parts: np.zeros_like(parts[0]))
    rows = [Row(n // 2, n, n % 3, 1.0, "ab"[n % 2] * (n % 5)) for n in range(40)]
    drive = Drive(Setting(("range", "range"), condition), (rows, rows), 1)
    for window in (2, 9):
        drive.add(f"q{window}", Ask((window, window)))
    drive.finish()
    for window in (2, 9):
        assert Counter(drive.results[f"q{window}"]) == drive.expected(Ask((window, window)))


def test_slices_merged_by_choice_and_back() -> None:
    """mem-opt to cpu-opt and back: the ends change while the members stay."""
    drive = plain(60)
    chosen: list[int] = []
    drive.ends = lambda windows: [w for w in windows if w in chosen or w == windows[-1]]
    drive.__post_init__()
    chosen[:] = [3, 6, 9]
    for window in (3, 6, 9):
        drive.add(f"q{window}", Ask((window, window)))
    for step, few in enumerate(([3, 6], [], [6], [3, 6])):
        drive.push(0, 7)
        drive.push(1, 7)
        drive.turns(6)
        chosen[:] = few
        name = f"other{step}"
        drive.add(name, Ask((9, 9)))  # a member without a window of its own
        assert [end for _, end in ends(drive)] == [*few, 9]
        drive.group._check()
    drive.finish()
    for window in (3, 6, 9):
        assert Counter(drive.results[f"q{window}"]) == drive.expected(Ask((window, window)))


def test_a_column_nobody_read_before() -> None:
    """Who reads a column that was not kept sees the rows that come after it; the others go on."""
    drive = plain()
    drive.add("narrow", Ask((10, 10)))
    drive.push(0, 15)
    drive.push(1, 15)
    drive.turns(4)
    wide = drive.add("wide", Ask((10, 10), (ASKS[2], ALL)), (0, 2))
    drive.finish()
    assert wide.complete_from == 14 + 10
    assert Counter(drive.results["narrow"]) == drive.expected(Ask((10, 10)))
    given_ = Counter((row[0], row[1], row[3]) for row in drive.results["wide"] if row[0] >= 24)
    expected = drive.expected(Ask((10, 10), (ASKS[2], ALL)))
    assert given_ == Counter({pair: n for pair, n in expected.items() if pair[0] >= 24})
    assert all(row[2] == row[1] % 2 for row in drive.results["wide"])


def test_nobody_left_and_a_new_beginning() -> None:
    drive = plain()
    drive.add("first", Ask((10, 10)))
    drive.push(0, 15)
    drive.push(1, 15)
    drive.turns(4)
    drive.group.drop(drive.members["first"])
    assert drive.group.operators == [drive.group.head] and drive.group.state_rows == 0
    assert not drive.group.head.step(5)
    later = drive.add("later", Ask((5, 5)))
    drive.finish()
    assert later.complete_from == 14 + 5
    expected = {pair for pair in drive.expected(Ask((5, 5))) if pair[0] >= 19}
    assert {pair for pair in drive.results["later"] if pair[0] >= 19} == expected


# -- failures ---------------------------------------------------------------------------------------------

TOO_MUCH = 2**63 - 4
FAILS = Asks(
    Call(
        SqlType.BOOLEAN,
        "greater",
        (
            Call(SqlType.BIGINT, "add", (K, Literal(SqlType.BIGINT, TOO_MUCH))),
            Literal(SqlType.BIGINT, 0),
        ),
    ),
    lambda row: row.k is not None,
    "overflows",
)


@settings(max_examples=50)
@given(drives(Setting(("range", "range"), CONDITIONS[-1])), st.integers(0, 1), st.integers(1, 6))
def test_a_member_whose_predicate_fails_has_what_came_before(drive: Drive, side: int, window: int) -> None:
    """The sum overflows from k = 4 on. Wherever batches are cut, the same rows come out before the end."""
    rows = [list(one) for one in drive.rows]
    if rows[side]:
        at = drive.seed % len(rows[side])
        rows[side][at] = replace(rows[side][at], k=4)
    drive = Drive(drive.setting, (rows[0], rows[1]), drive.seed, drive.ends)
    bad = Ask((window, window), (FAILS, ALL) if side == 0 else (ALL, FAILS))
    good = Ask((4, 7), (ASKS[2], ALL))
    drive.add("good", good)
    drive.add("bad", bad)
    drive.finish()
    assert Counter(drive.results["good"]) == drive.expected(good)
    if not rows[side]:
        assert not drive.failed
        return
    assert set(drive.failed) == {"bad"} and "overflow" in str(drive.failed["bad"]).lower()
    # Which rows of the failing one's own instant come before it depends on how they arrive.
    failing = rows[side][at]
    before = [[row for row in one if row.ts <= failing.ts] for one in rows]
    before[side] = rows[side][:at]
    possible = naive(drive.setting, bad, before[0], before[1])
    given_ = Counter(drive.results["bad"])
    assert given_ <= possible
    assert all(given_[pair] for pair in possible if pair[0] < failing.ts)


# -- bounded output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [CONDITIONS[0], CONDITIONS[1]])
def test_a_male_with_many_matches_stops_and_goes_on(condition: Condition) -> None:
    """Output comes in pieces, and members may change in the middle of one male's matches."""
    many = 3 * MAX_PAIRS
    left = [Row(0, n, 1, 1.0, "a") for n in range(many)]
    right = [Row(1, 0, 1, 1.0, "a"), Row(2, 1, 1, 1.0, "a")]
    drive = Drive(Setting(("range", "range"), condition), (left, right), 1)
    drive.add("count", Ask((FOREVER, FOREVER), counting=True))
    drive.push(0, many)
    drive.push(1, 2)
    drive.promise(0)
    while drive.group.head.step(10**6):
        pass
    (only,) = drive.group.slices
    only.takes_all = only.run = None  # pairs are made, as if somebody were given them
    pieces = 0
    while only.step(10**6):
        pieces += 1
        assert (
            max((queue.batches[-1].length for queue in only.loose.queues if queue.batches), default=0)
            <= MAX_PAIRS
        )
        if only._cursor[IS_PROBING]:
            break
    assert only.waiting[[KIND, ROW], 0].tolist() == [MALE + 1, 0], "expected the first male half worked"
    late = drive.add("late", Ask((1, 5), counting=True))  # splits the slice the male is in
    assert ends(drive) == [(0, 1), (1, 5), (5, FOREVER)]
    drive.group._check()
    drive.settle(10**6)
    drive.group.settle()
    assert drive.members["count"].found == 2 * many
    assert late.found == 0
    assert np.array_equal(np.sort(drive.group.slices[1].females(0)), np.arange(many))


# -- scheduled as in production ---------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.data(), st.integers(0, 99))
def test_woken_by_queues_alone(data: st.DataObject, seed: int) -> None:
    """With the engine's schedulers nobody needs to be asked twice, also after members have come and gone."""
    drive = data.draw(drives())
    asks = data.draw(st.lists(asks_of(drive.setting), min_size=2, max_size=4))
    scheduler = Shuffled(seed, 6) if seed % 2 else RoundRobin(4)
    ready, known = Ready(), list[Operator]()

    def run() -> None:
        for operator in known:
            if operator not in drive.group.operators:
                ready.leave(operator)
        for operator in drive.group.operators:
            if operator in known:
                ready.add(operator)
            else:
                ready.enter(operator)
        known[:] = drive.group.operators
        scheduler.run(ready, lambda: 0.0, raise_it)
        drive.group._check()
        drive.collect()

    drive.add("q0", asks[0])
    others = [f"q{n}" for n in range(1, len(asks))]
    for name, ask in zip(others, asks[1:], strict=True):
        run()
        drive.add(name, ask)
        drive.feed()
        run()
    drive.group.drop(drive.members[others[0]])
    while drive.feed():
        run()
    for queue in drive.queues:
        queue.close()
    run()
    drive.group.settle()
    assert drive.members["q0"].found == sum(drive.expected(asks[0]).values())
    assert drive.members["q0"].output.closed


def raise_it(operator: Operator, error: Exception) -> None:
    raise error


# -- through SQL -------------------------------------------------------------------------------------------

SQL = [
    "SELECT a.id, b.id AS bid FROM a [RANGE 5 us] JOIN b [RANGE 5 us] ON a.k = b.k",
    "SELECT a.id, b.v FROM a [RANGE 9 us] JOIN b [RANGE 2 us] ON a.k = b.k WHERE a.v > 0.5",
    "SELECT b.s, a.id FROM b [RANGE 3 us] JOIN a [RANGE 9 us] ON b.k = a.k WHERE b.v <= 1 AND a.s = 'a'",
    "SELECT a.id, b.id AS bid FROM a [RANGE 7 us] JOIN b [RANGE 7 us] ON ABS(a.k - b.k) <= 1",
    "SELECT a.id, b.id AS bid FROM a [ROWS 3] JOIN b [ROWS 2] ON a.k = b.k AND a.s = b.s",
    "SELECT a.id, b.id AS bid FROM a [ROWS 4] JOIN b [ROWS 4] ON a.k = b.k AND a.s = b.s WHERE a.v < 2",
    "SELECT x.id, y.id AS bid FROM a [RANGE 4 us] AS x JOIN a [RANGE 6 us] AS y ON x.s = y.s",
    "SELECT a.id, b.id AS bid FROM a [RANGE 4 us] JOIN b [RANGE UNBOUNDED] ON a.v < b.v",
]


def make_engine(sharing: str, scheduler: Any = None) -> penstock.Engine:
    engine = penstock.Engine(sharing=sharing, scheduler=scheduler)
    for name in ("a", "b"):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR)")
    return engine


@pytest.fixture(params=["chain", "chain-cpu"], scope="module")
def sharing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@settings(max_examples=15)
@given(st.data(), st.integers(0, 99))
def test_engine_gives_the_same_answers_in_a_chain(sharing: str, data: st.DataObject, seed: int) -> None:
    rows = data.draw(streams()), data.draw(streams())
    dice = random.Random(seed)
    late, gone = dice.sample(range(len(SQL)), 2)
    answers = []
    for engine in (make_engine(sharing, Shuffled(seed, 6)), make_engine("unshared")):
        queries = {n: engine.query(sql, name=f"q{n}") for n, sql in enumerate(SQL) if n != late}
        counted = {n: engine.query(sql, name=f"c{n}", count_only=True) for n, sql in enumerate(SQL)}
        cuts, at = random.Random(seed + 1), [0, 0]
        while any(at[n] < len(rows[n]) for n in (0, 1)):
            side = cuts.choice([n for n in (0, 1) if at[n] < len(rows[n])])
            some = rows[side][at[side] : at[side] + cuts.choice([1, 2, 4])]
            at[side] += len(some)
            columns = zip(*((row.ts, *row.values) for row in some), strict=True)
            names = ("ts", "id", "k", "v", "s")
            types = (pa.int64(), *ARROW)
            table = {n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)}
            engine.push("ab"[side], pa.table(table))
            engine._runtime._check()
            if at[0] + at[1] >= 6 and late not in queries:
                queries[late] = engine.query(SQL[late], name=f"q{late}")
                queries[gone].drop()
        engine.close()
        results = {n: query.results().to_pydict() for n, query in queries.items() if n not in (late, gone)}
        answers.append((
            {n: Counter(zip(*map(tuple, result.values()), strict=True)) for n, result in results.items()},
            {n: query.count for n, query in counted.items()},
        ))  # fmt: skip
    assert answers[0] == answers[1]


def test_counts_stay_right_when_many_slices_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are on their way through the slices: what they find in merged ones is not everybody's."""
    merged = False

    def one_slice(number: int, costs: object) -> tuple[int, ...]:
        return (number,) if merged else tuple(range(1, number + 1))

    monkeypatch.setattr(lay_out_joins, "cheapest_chain_by_row", one_slice)
    monkeypatch.setattr(lay_out_joins, "CHAIN_GAIN", -np.inf)  # whatever it costs
    counts = []
    for sharing in ("chain-cpu", "unshared"):
        merged = False
        engine = penstock.Engine(sharing=sharing, index="scan")
        engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
        pairs = "SELECT x.k FROM a AS x JOIN b AS y ON x.k = y.k WINDOW {} us"
        queries = [engine.query(pairs.format(40 * n), count_only=True) for n in range(1, 13)]
        merged = True
        for start in range(0, 6_000, 60):
            ts = np.arange(start, start + 60)
            for stream in ("a", "b"):
                engine.push(stream, {"ts": ts, "k": ts * 7 % 5})
        counts.append([query.count for query in queries])
    assert counts[0] == counts[1]


def test_a_query_that_is_dropped_keeps_its_count(sharing: str) -> None:
    """Nobody had asked for it before."""
    engine = make_engine(sharing)
    queries = [engine.query(SQL[0], name=f"q{n}", count_only=True) for n in range(2)]
    for stream in ("a", "b"):
        engine.push(
            stream, {"ts": [1, 2, 3], "id": [1, 2, 3], "k": [1, 1, 1], "v": [1.0] * 3, "s": ["a"] * 3}
        )
    for query in queries:
        query.drop()
    assert [query.count for query in queries] == [9, 9]

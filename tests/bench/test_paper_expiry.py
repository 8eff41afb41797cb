"""The worked timelines of the incremental-evaluation paper (Figures 1 to 6 and 11), tick by tick.

A tick is a microsecond, windows are 5 ticks and half-open: a row at T is gone at T + 5. `Shown` folds the
changes of a query as a user does who reads `results()` after each tick. The drawings are not in the paper's
text, so that rows which the prose does not name are chosen here; each test says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import rows_of

import penstock
from penstock.engine.changes.change_join import ChangeJoin
from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Queue
from penstock.engine.flow.scheduler import Clock, Failed, Ready, take_turn
from penstock.engine.plan.plan import ChangeJoinNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

APPROACHES = ["auto", "ita", "nta", "time-message", "piggyback"]
TIMELY = [one for one in APPROACHES if one != "ita"]
Ticks = Mapping[int, Mapping[str, Sequence[tuple[Any, ...]]]]


class Starving:
    """Gives turns to all but those it starves; these stay ready."""

    def __init__(self) -> None:
        self.starved: Callable[[Operator], bool] = lambda operator: False

    def run(self, ready: Ready, clock: Clock, failed: Failed) -> None:
        while turns := [one for one in ready.all() if not self.starved(one)]:
            for operator in turns:
                take_turn(operator, 1, ready, clock, failed)


class Shown:
    """An engine with one query, and what a user sees of it."""

    def __init__(self, approach: str, declare: str, sql: str, scheduler: Starving | None = None) -> None:
        self.engine = penstock.Engine(expiry=approach, scheduler=scheduler)
        self.engine.execute(declare)
        self._sql = sql
        self.changes: list[tuple[Any, ...]] = []
        self._bag: Counter[tuple[Any, ...]] = Counter()

    def start(self) -> Shown:
        self.query = self.engine.query(f"{self._sql} EMIT CHANGES", name="q")
        return self

    def tick(self, now: int, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> Any:
        """Push a tick's rows, let time come to it on every stream, read."""
        for stream, values in rows.items():
            names = self.engine.streams[stream].names
            columns = zip(*((now, *value) for value in values), strict=True)
            self.engine.push(stream, dict(zip(names, map(list, columns), strict=True)))
        self.engine.advance(now)
        self.engine._runtime._check()
        return self.read()

    def read(self) -> Any:
        """The answer: sorted rows, single values plain; of a query that gives one row, that."""
        for ts, diff, *row in rows_of(self.query.results()):
            assert not self.changes or self.changes[-1][0] <= ts, "changes out of time order"
            self.changes.append((ts, diff, *row))
            self._bag[tuple(row)] += diff
        assert all(count >= 0 for count in self._bag.values()), "a row left that had not entered"
        rows = sorted(self._bag.elements(), key=str)
        return [row[0] if len(row) == 1 else row for row in rows]

    def ticks(self, ticks: Ticks, end: int) -> list[Any]:
        return [self.tick(now, ticks.get(now, {})) for now in range(end)]

    def operator(self, kind: str) -> dict[str, Any]:
        """The counters of the only operator of a kind, or of the last."""
        found = [one for one in self.engine.stats()["queries"]["q"]["operators"] if one["kind"] == kind]
        return found[-1]

    @property
    def operators(self) -> list[Operator]:
        return self.engine._runtime.pipelines["q"].all_operators

    def inside(self, kind: str) -> Operator:
        """The only operator of a kind, itself."""
        return next(one for one in self.operators if type(one).__name__ == kind)


def sales(values: Sequence[int | None]) -> Ticks:
    """A sale of an item per tick; None: no sale."""
    return {now: {"sales": [(item,)]} for now, item in enumerate(values) if item is not None}


def favourites(approach: str, scheduler: Starving | None = None) -> Shown:
    """Q1: the number of favourite items, 4 and 5, that were sold in the last 5 ticks."""
    shown = Shown(
        approach,
        "CREATE STREAM sales (ts TIMESTAMP, item BIGINT); CREATE TABLE favourites (item BIGINT)",
        "SELECT COUNT(*) AS n FROM sales [RANGE 5 us] AS s JOIN favourites AS f ON s.item = f.item",
        scheduler,
    )
    shown.engine.push("favourites", {"item": [4, 5]})
    return shown.start()


def test_figure_1_the_input_triggered_approach_is_late() -> None:
    """Q1 under ITA: nothing passes the join from T5 on, and COUNT does not hear that rows have left.

    ::

        T              0  1  2  3  4  5  6  7  8
        S1, sales      4  5  5  2  4  2  2  2  5
        S2, the join   4  5  5     4           5
        S3, ITA        1  2  3  3  4  4  4  4  2     late from T5 on, right again when 5 passes at T8
        C, correct     1  2  3  3  4  3  2  1  2

    Given: 4 at T0, 5 at T1, a count of 4 at T4 and 3 at T5, 2 at T5. Chosen: T2 to T4, what comes from T6 on.
    """
    shown = favourites("ita")
    answers = shown.ticks(sales([4, 5, 5, 2, 4, 2, 2, 2, 5]), 9)
    assert answers == [[1], [2], [3], [3], [4], [4], [4], [4], [2]]
    delays = shown.engine.stats()["queries"]["q"]["output_delay"]["stream_time"]
    assert delays["max_us"] == 3, "3 came out at T8, which was due at T5"
    # Late, and not wrong: what came out at T8 says what was when.
    assert folded(shown.changes, range(9)) == [[1], [2], [3], [3], [4], [3], [2], [1], [2]]


@pytest.mark.parametrize("approach", TIMELY)
def test_figure_2_the_negative_tuples_approach_is_not(approach: str) -> None:
    """Q1 under NTA: 4 leaves at T5 as 4-, which joins, and COUNT answers 3 at once; so do all others.

    ::

        T              0  1  2  3  4  5   6   7   8
        S1, sales      4  5  5  2  4  2   2   2   5
        S2, the join   4  5  5     4  4-  5-  5-  5
        S3, NTA        1  2  3  3  4  3   2   1   2      = C
    """
    shown = favourites(approach)
    answers = shown.ticks(sales([4, 5, 5, 2, 4, 2, 2, 2, 5]), 9)
    assert answers == [[1], [2], [3], [3], [4], [3], [2], [1], [2]]
    assert shown.engine.stats()["queries"]["q"]["output_delay"]["stream_time"]["max_us"] == 0
    join, count = shown.operator("ChangeJoin"), shown.operator("GroupBy")
    if approach == "nta":
        # 4 sales of 9 have left at T8, one of them, 2, without a partner.
        assert (join["rows_in"], join["rows_out"]) == (2 + 9 + 4, 5 + 3)
        assert count["state_rows"] == 0, "COUNT keeps no rows when each of them is withdrawn"
    else:
        assert (join["rows_in"], join["rows_out"]) == (2 + 9, 5)
        assert count["state_rows"] == 2
    if approach == "time-message":
        assert count["messages_in"] == 3, "one for each sale that had a partner"


@pytest.mark.parametrize("approach", ["ita", *TIMELY])
def test_figure_1_and_2_as_delays(approach: str) -> None:
    """A tick is a microsecond of the stream and ten seconds of the machine; two changes at each tick.

    ::

        T       0  1  2  4  5  6  7  8     15 changes, the first is alone
        ITA     0  0  0  0  3  2  1  0     ticks late
    """
    shown = favourites(approach)
    now, runtime = 0.0, shown.engine._runtime
    runtime._clock = shown.query._pipeline.sink.clock._clock = lambda: now
    ticks = sales([4, 5, 5, 2, 4, 2, 2, 2, 5])
    for tick in range(9):
        now = 10.0 * tick
        shown.tick(tick, ticks[tick])
    late = [3, 3, 2, 2, 1, 1] if approach == "ita" else [0]
    delays = shown.engine.stats()["queries"]["q"]["output_delay"]
    for time, unit in (("stream_time", 1), ("processing_time", 1e7)):
        assert delays[time]["average_us"] == pytest.approx(unit * sum(late) / 15)
        assert delays[time]["max_us"] == delays[time]["p99_us"] == pytest.approx(unit * max(late))


def test_figure_3_an_intersection_goes_on_with_another_copy() -> None:
    """S and R intersected: 1 leaves S at T6 just as 5 comes, and another 1 takes its place in the output.

    ::

        T        0   1   2   3   4   5   6
        S            1           1       5
        R        1       1   5
        min n,m  0   1   1   1   2   1   1  of 1      R's first 1 leaves at T5, S's first at T6
                                         1  of 5

    Given: 1 at T1 and 5 at T6 in S, a 1 in the output from T1 on that has to be replaced at T6. Chosen: R,
    and S's second 1. ITA is late at T5, where nothing comes in.
    """
    ticks: Ticks = {
        0: {"r": [(1,)]},
        1: {"s": [(1,)]},
        2: {"r": [(1,)]},
        3: {"r": [(5,)]},
        4: {"s": [(1,)]},
        6: {"s": [(5,)]},
    }
    correct = [[], [1], [1], [1], [1, 1], [1], [1, 5]]
    for approach in APPROACHES:
        shown = Shown(
            approach,
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT); CREATE STREAM r (ts TIMESTAMP, v BIGINT)",
            "SELECT v FROM s [RANGE 5 us] INTERSECT ALL SELECT v FROM r [RANGE 5 us]",
        ).start()
        answers = shown.ticks(ticks, 7)
        if approach == "ita":
            assert answers[5] == [1, 1]
            answers[5] = correct[5]
        assert answers == correct, approach
        assert [change for change in shown.changes if change[0] == 6] == [(6, 1, 5)], "1 stays as it is"
        assert folded(shown.changes, range(7)) == correct


STORES: Ticks = {
    1: {"s1": [(6, 1.0)]},
    2: {"s2": [(6, 10.0)]},
    3: {"s2": [(6, 30.0)]},
    4: {"s2": [(6, 20.0)]},
}


def highest_price(approach: str) -> Shown:
    """Q2: the highest price in S2 of what was sold in a store that S1 has sold in too."""
    return Shown(
        approach,
        "CREATE STREAM s1 (ts TIMESTAMP, store BIGINT, price DOUBLE);"
        "CREATE STREAM s2 (ts TIMESTAMP, store BIGINT, price DOUBLE)",
        "SELECT MAX(s2.price) AS most FROM s1 [RANGE 5 us] JOIN s2 [RANGE 5 us] ON s1.store = s2.store",
    ).start()


@pytest.mark.parametrize("approach", APPROACHES)
def test_figure_4_one_message_in_place_of_three_negatives(approach: str) -> None:
    """Q2: a row of S1 joins three of S2, and takes all three pairs with it when it leaves at T6.

    ::

        T               1    2    3    4    5    6
        S1, store       6                        6-
        S2, store            6    6    6
        S2, price            10   30   20
        join, NTA            +    +    +         - - -
        join, message        +    +    +         one message
        MAX                  10   30   30   30   NULL

    Chosen: the prices.
    """
    shown = highest_price(approach)
    answers = shown.ticks(STORES, 8)
    late = [30.0] if approach == "ita" else [None]
    assert answers[1:] == [[None], [10.0], [30.0], [30.0], [30.0], late, late]
    top = shown.operator("GroupBy")
    match approach:
        case "nta":
            join = shown.operator("ChangeJoin")
            assert (join["rows_in"], join["rows_out"]) == (4 + 2, 3 + 3), "6- joins again: 3 negatives"
            assert top["rows_in"] == 6
            assert "messages_in" not in top
        case "time-message" | "piggyback":
            assert top["rows_in"] == 3
            assert (top["messages_in"], top["messages_purged"]) == (1, 0), "one for all three pairs"
        case _:
            assert top["rows_in"] == 3
            assert "messages_in" not in top


def as_batch(ts: int, key: int) -> Batch:
    return Batch(np.array([ts]), [pa.array([key])], None, np.array([ts + 5]))


def test_figure_5_the_reference_count_says_who_sends_a_message() -> None:
    """t_i at T1 in S1 joins t_j at T3 in S2: the pair leaves with t_i, and only t_i sends a message.

    ::

        T          1     3            6             8
        S1         t_i |==============| message
        S2               t_j |======================| none: its reference count is 0
        the pair         |============|
    """
    types = (SqlType.BIGINT,)
    node = ChangeJoinNode("inner", SourceNode("s1", types), SourceNode("s2", types), (0,), (0,), None)
    one, two, out = Queue(), Queue(), Queue()
    join = ChangeJoin(node, (one, two), (types, types), "join", "promises", messages=True)
    join.output.queues.append(out)

    def tick(now: int) -> list[int]:
        for queue in (one, two):
            queue.promise(now)
        while join.step(100):
            join._check()
        return out.take_messages(now)

    told = {}
    for now in range(10):
        if now == 1:
            one.put(as_batch(1, 7))
        if now == 3:
            two.put(as_batch(3, 7))
        told[now] = tick(now)
    assert {now: times for now, times in told.items() if times} == {6: [6]}
    pair = out.pop()
    assert (pair.ts.tolist(), pair.ends.tolist()) == ([3], [6])
    assert not out.batches
    assert join.state_rows == 0


def test_figure_5_one_message_for_all_that_leave_at_once() -> None:
    """lastTM: two rows of S1 at one time, each with a pair, make one message; a row without a pair none."""
    types = (SqlType.BIGINT,)
    node = ChangeJoinNode("inner", SourceNode("s1", types), SourceNode("s2", types), (0,), (0,), None)
    one, two, out = Queue(), Queue(), Queue()
    join = ChangeJoin(node, (one, two), (types, types), "join", "promises", messages=True)
    join.output.queues.append(out)
    for queue, ts, keys in ((one, 1, [7, 8]), (one, 2, [9]), (two, 3, [7, 8])):
        for key in keys:
            queue.put(as_batch(ts, key))
    for now in range(3, 10):
        for queue in (one, two):
            queue.promise(now)
        while join.step(100):
            join._check()
    assert out.take_messages(100) == [6], "both pairs at T6; nothing for the row of T2"


def test_figure_6_piggybacking() -> None:
    """Q1 with piggybacking: messages while nothing passes the join, merged into rows when some do.

    ::

        T             1  2  3  4  5  6   7   8   9  10    11  12  13  14
        S1, sales     4  5  5  2  4  2   2   2   5  4     2   2   2   5
        after JOIN    4  5  5     4  4-  5-  5-  5  4-4+              5-5+
        to COUNT      +  +  +     +  m   m   m   +  +                 +
        COUNT         1  2  3  3  4  3   2   1   2  2     2   2   2   2

    Given: 4-, 5-, 5- at T6 to T8 by themselves, 4- and 4+ at T10. Chosen: what leaves and comes in one tick
    the second time (T14, in the figure T11).
    """
    scheduler = Starving()
    shown = favourites("piggyback", scheduler)
    values = [None, 4, 5, 5, 2, 4, 2, 2, 2, 5, 4, 2, 2, 2, 5]
    answers = shown.ticks(sales(values), 15)
    assert answers[1:] == [[1], [2], [3], [3], [4], [3], [2], [1], [2], [2], [2], [2], [2], [2]]
    top = shown.operator("GroupBy")
    assert top["rows_in"] == 7
    assert top["messages_in"] - top["messages_purged"] >= 3, "T6, T7 and T8 are read by themselves"
    assert top["messages_purged"] >= 0


def test_figure_6_a_row_purges_the_message_before_it() -> None:
    """While COUNT gets no turn, its queue holds at most one message, the last thing in it; 4+ purges 4-.

    ::

        T                  0  1  2  3  4  5  6  7  8  9
        sales              4  5           2  2     4
        COUNT's queue                     m5 m6 m6 4+     m: a message; at T8 only 4+ is left
        COUNT                       (starved)      1
    """
    scheduler = Starving()
    shown = favourites("piggyback", scheduler)
    assert shown.ticks(sales([4, 5]), 5) == [[1], [2], [2], [2], [2]]
    top = shown.inside("GroupBy")
    queue = top.inputs[0]
    scheduler.starved = lambda operator: operator is top
    seen = []
    for now, item in ((5, 2), (6, 2), (7, None), (8, 4)):
        assert shown.tick(now, {} if item is None else {"sales": [(item,)]}) == [2]
        seen.append((list(queue.messages), queue.rows))
    assert seen == [([5], 0), ([6], 0), ([6], 0), ([], 1)]
    assert queue.merged == [6]
    scheduler.starved = lambda operator: False
    assert shown.tick(9, {}) == [1], "4+ alone told COUNT that 4 and 5 had left"
    assert folded(shown.changes, range(10)) == [[1], [2], [2], [2], [2], [1], [0], [0], [1], [1]]


def total(approach: str, scheduler: Starving) -> Shown:
    return Shown(
        approach,
        "CREATE STREAM s1 (ts TIMESTAMP, v BIGINT)",
        "SELECT SUM(v) AS total FROM s1 [RANGE 5 us] WHERE v > 0",
        scheduler,
    ).start()


@pytest.mark.parametrize("approach", APPROACHES)
@pytest.mark.parametrize("starved", ["Select", "Arrive", "Expire", "GroupBy"])
def test_figure_11_no_operator_goes_by_a_global_clock(approach: str, starved: str) -> None:
    """7 is received at T4 and gets to SUM at T7: SUM must not let 5 go at T5 as if 7 had not come.

    ::

        T                0   1   2   3   4   5   6   7
        S1               5       8       7
        S2, with delay   5       8                   7
        a global clock   5       13          8       15      8 was never the answer
        C, correct       5   5   13  13  20  15  15  7

    Given: 5 at T0, 7 at T4 and its delay, the wrong 8 at T5. Chosen: 8 at T2. The delay is an operator that
    gets no turn from T4 to T6.
    """
    scheduler = Starving()
    shown = total(approach, scheduler)
    rows: Ticks = {0: {"s1": [(5,)]}, 2: {"s1": [(8,)]}, 4: {"s1": [(7,)]}}
    correct = [[5], [5], [13], [13], [20], [15], [15], [7]]
    assert [shown.tick(now, rows.get(now, {})) for now in range(4)] == correct[:4]
    names = {type(one).__name__ for one in shown.operators}
    if starved in names:
        scheduler.starved = lambda operator: type(operator).__name__ == starved
        during = [shown.tick(now, rows.get(now, {})) for now in range(4, 7)]
        assert during == [[13]] * 3, "as it was at T3, the last that has been heard"
    else:
        for now in range(4, 7):
            assert shown.tick(now, rows.get(now, {})) != [8]
    scheduler.starved = lambda operator: False
    shown.tick(7, {})
    shown.engine.close()
    assert shown.read() == [7]
    assert all(change[2:] != (8,) for change in shown.changes)
    assert folded(shown.changes, range(8)) == correct


def test_a_dropped_row_passes_on_the_time_that_was_merged_into_it() -> None:
    """Section 6: if a flagged row yields no output, a time-message is sent in its place.

    The filter above the union drops b's row at T6, which has purged the message of T5 from its queue.

    ::

        a   0 |====| 5         7 (dropped)
        b     0 (dropped)    6 (dropped)
        m                   5
    """
    scheduler = Starving()
    shown = Shown(
        "piggyback",
        "CREATE STREAM a (ts TIMESTAMP, v BIGINT); CREATE STREAM b (ts TIMESTAMP, v BIGINT)",
        "SELECT COUNT(*) AS n FROM (SELECT v FROM a [RANGE 5 us] UNION ALL SELECT v FROM b [RANGE 5 us]) "
        "AS u WHERE v > 0",
        scheduler,
    ).start()
    assert shown.tick(0, {"a": [(1,)], "b": [(0,)]}) == [1]
    queue = shown.inside("Union").output.queues[0]
    shown.engine.push("a", {"ts": [7], "v": [0]})
    scheduler.starved = lambda operator: queue in operator.inputs
    for ts in (5, 6, 8):
        shown.engine.push("b", {"ts": [ts], "v": [0]})
    assert queue.merged and not queue.messages, "a row has purged the message"
    scheduler.starved = lambda operator: False
    shown.engine.push("b", {"ts": [8], "v": [0]})
    assert shown.read() == [0]


@pytest.mark.parametrize("approach", TIMELY)
def test_a_message_is_heard_while_the_row_that_purged_it_waits(approach: str) -> None:
    """a has come to T7 and b to T6: a's row at T7 waits for b, and that 1 left a at T5 is known all the same.

    ::

        a   0 |====| 5  7
        b      3 |====| 8      time comes to 6
    """
    shown = Shown(
        approach,
        "CREATE STREAM a (ts TIMESTAMP, v BIGINT); CREATE STREAM b (ts TIMESTAMP, v BIGINT)",
        "SELECT v FROM a [RANGE 5 us] INTERSECT SELECT v FROM b [RANGE 5 us]",
    ).start()
    for stream, ts, value in (("a", 0, 1), ("b", 3, 1), ("a", 7, 2)):
        shown.engine.push(stream, {"ts": [ts], "v": [value]})
    assert shown.read() == [1]
    shown.engine.advance(6)
    assert shown.read() == []


def folded(changes: Sequence[tuple[Any, ...]], instants: range) -> list[list[Any]]:
    """The answer at each instant, from all changes."""
    answers = []
    for now in instants:
        bag: Counter[Any] = Counter()
        for ts, diff, value in changes:
            if ts <= now:
                bag[value] += diff
        answers.append(sorted(bag.elements(), key=str))
    return answers

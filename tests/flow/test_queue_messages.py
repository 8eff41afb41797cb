"""Time-messages: the queue that carries them, what a sender remembers, what a reader makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.flow.due_times import DueTimes
from penstock.engine.flow.heard_time import HeardTime
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.flow.told_times import ToldTimes
from penstock.engine.intake.static_table import TABLE_TIME
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.window import FOREVER


def rows(*ts: int) -> Batch:
    return Batch(np.array(ts, np.int64), [pa.array(ts)])


def piggyback() -> Queue:
    queue = Queue()
    queue.piggyback = True
    return queue


def test_messages_are_read_up_to_a_bound() -> None:
    queue = Queue()
    queue.tell([3, 5])
    queue.tell([8])
    assert queue.read_messages(2) == BEGINNING
    assert queue.messages == [3, 5, 8]
    assert queue.read_messages(5) == 5
    assert queue.take_messages(7) == []
    assert queue.take_messages(8) == [8]
    assert (queue.messages_in, queue.messages_purged) == (3, 0)


def test_without_piggyback_rows_leave_messages_alone() -> None:
    queue = Queue()
    queue.tell([3])
    queue.put(rows(4))
    assert queue.messages == [3]
    assert queue.merged == []


def test_with_piggyback_a_row_purges_the_message_and_has_its_time() -> None:
    queue = piggyback()
    queue.put(rows(1))
    queue.tell([3, 4])
    assert queue.messages == [4]
    queue.tell([6])
    assert queue.messages == [6]
    queue.put(rows(7))
    assert queue.messages == []
    assert queue.merged == [6]
    assert (queue.messages_in, queue.messages_purged) == (3, 3)
    assert queue.read_messages(5) == 5, "who knows of 6 knows of 5"
    assert queue.read_messages(6) == 6, "heard of, also while the row waits"
    assert queue.merged == []


def test_no_messages_are_no_message() -> None:
    """An empty list of them leaves the one that waits where it is, and is not counted."""
    for queue in (Queue(), piggyback()):
        queue.tell([5])
        queue.tell([])
        assert queue.messages == [5]
        assert (queue.messages_in, queue.messages_purged) == (1, 0)


def test_a_batch_without_rows_purges_nothing() -> None:
    queue = piggyback()
    queue.tell([5])
    queue.put(Batch(np.empty(0, np.int64), [pa.array([], pa.int64())]))
    assert queue.messages == [5]


def test_clear_forgets_messages() -> None:
    queue = Queue()
    queue.tell([5])
    queue.put(rows(6))
    queue.clear()
    assert (queue.messages, queue.merged, queue.rows, list(queue.batches)) == ([], [], 0, [])


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[str, list[int]]]:
    """What a producer does, in time order: rows, messages, promises; and what a consumer does in between."""
    steps: list[tuple[str, list[int]]] = []
    now = draw(st.integers(-3, 3))
    for _ in range(draw(st.integers(0, 30))):
        kind = draw(st.sampled_from(["put", "put", "tell", "tell", "promise", "take", "read"]))
        times = []
        for _ in range(draw(st.integers(0 if kind == "tell" else 1, 3)) if kind in ("put", "tell") else 1):
            now += draw(st.integers(0 if kind == "put" else 1, 2))
            times.append(now)
        steps.append((kind, times))
    return steps


@given(traffic(), st.booleans())
def test_queue_against_a_plain_list(steps: list[tuple[str, list[int]]], merged: bool) -> None:
    """The twin is a list of rows and messages in the order they came.

    With piggyback there is never more than one message, and it stands behind all rows: what is left of the
    twin after dropping every message with anything behind it. What was dropped for a row can still be read,
    and what is beyond where a reader may go tells that time has come as far as it may.
    """
    queue = Queue()
    queue.piggyback = merged
    twin: list[tuple[str, int]] = []
    dropped: list[int] = []
    told, heard = 0, BEGINNING
    for kind, times in steps:
        last = times[-1] if times else 0
        match kind:
            case "put":
                queue.put(rows(*times))
                dropped += [ts for what, ts in twin if what == "message" and merged]
                twin += [("row", ts) for ts in times]
            case "tell":
                queue.tell(times)
                told += len(times)
                twin += [("message", ts) for ts in times]
            case "promise":
                queue.promise(last)
            case "take":
                batch = queue.take(last, True)
                taken = [ts for what, ts in twin if what == "row" and ts <= last]
                assert ([] if batch is None else batch.ts.tolist()) == taken
                twin = [(what, ts) for what, ts in twin if what == "message" or ts > last]
            case "read":
                expected = [ts for what, ts in twin if what == "message" and ts <= last]
                expected = sorted([*(ts for ts in dropped if ts <= last), *expected])
                later = [ts for what, ts in twin if what == "message"] + dropped
                if merged and heard < last < max(later, default=last):
                    expected.append(last)
                assert queue.read_messages(last) == (expected[-1] if expected else BEGINNING)
                heard = max([heard, *expected])
                twin = [(what, ts) for what, ts in twin if what == "row" or ts > last]
                dropped = [ts for ts in dropped if ts > last]
        if merged:
            twin = [one for place, one in enumerate(twin) if one[0] == "row" or place == len(twin) - 1]
            assert len(queue.messages) <= 1
            if queue.messages and queue.batches:
                assert queue.messages[0] >= queue.batches[-1].ts[-1], "a row that is younger stands before it"
        assert queue.messages == [ts for what, ts in twin if what == "message"]
        assert queue.rows == sum(what == "row" for what, _ in twin)
        assert queue.messages_in == told
        assert 0 <= queue.messages_purged <= told - len(queue.messages)


@given(st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=1), st.booleans(), st.integers(0, 6))))
def test_due_times_against_a_set(steps: list[tuple[list[int], bool, int]]) -> None:
    """Each time once, in order; FOREVER never."""
    due, twin, now = DueTimes(), set[int](), 0
    for ends, in_order, by in steps:
        ets = [now + 1 + end for end in (sorted(ends) if in_order else ends)]
        ets += [FOREVER] * (by % 2)
        due.add(np.array(ets, np.int64))
        twin |= {one for one in ets if one < FOREVER}
        assert len(due) == len(twin)
        now += by
        assert due.take(now) == sorted(one for one in twin if one <= now)
        twin = {one for one in twin if one > now}
    assert due.take(FOREVER - 1) == sorted(twin)
    assert len(due) == 0


@given(st.lists(st.tuples(st.lists(st.integers(0, 40)), st.integers(0, 6), st.integers(0, 3))))
def test_told_times_against_a_set(steps: list[tuple[list[int], int, int]]) -> None:
    """As above, and none is told again: the paper's lastTM."""
    told, twin, now, last = ToldTimes(), set[int](), 0, BEGINNING
    for ends, by, more in steps:
        ets = [now + 1 + end for end in ends]
        told.add(np.array(ets, np.int64))
        twin |= set(ets)
        now += by
        extra = [now - one for one in range(more)]
        expected = sorted({one for one in (*twin, *extra) if last < one <= now})
        assert told.until(now, np.array(extra, np.int64)) == expected
        twin = {one for one in twin if one > now}
        last = expected[-1] if expected else last
        told._check()


def learned(how: Any, queues: list[Queue], bound: int, taken: list[Batch | None] | None = None) -> int:
    return HeardTime(how, queues).learn(bound, taken or [None] * len(queues))


def test_known_time_of_one_input() -> None:
    """The stream has come to 9, a row of 7 was taken, a message of 8 waits."""
    for how, expected in (("promises", 9), ("messages", 8), ("rows", 7)):
        queue = Queue()
        queue.promise(9)
        queue.tell([8])
        assert learned(how, [queue], 9, [rows(3, 7)]) == expected
        queue = Queue()
        queue.promise(9)
        queue.tell([8])
        nothing = {"promises": 9, "messages": 8, "rows": BEGINNING}[how]
        assert learned(how, [queue], 9) == nothing, "no row came"


def test_known_time_ends_at_what_was_taken() -> None:
    """What is beyond the bound, rows, messages or promises, is not known yet."""
    for how, expected in (("promises", 5), ("messages", 4), ("rows", BEGINNING)):
        queue = Queue()
        queue.put(rows(7))
        queue.promise(9)
        queue.tell([4, 8])
        assert learned(how, [queue], 5) == expected
        assert queue.messages == ([8] if how == "messages" else [4, 8])


def test_known_time_only_grows() -> None:
    queue = Queue()
    known = HeardTime("rows", [queue])
    queue.promise(9)
    assert known.learn(9, [rows(9)]) == 9
    assert known.learn(9, [None]) == 9
    assert known.ts == 9


def test_known_time_of_two_inputs() -> None:
    """Promises: the input that is behind decides; `bound` has held rows and messages back to that."""
    for how, expected in (("promises", 4), ("messages", 4), ("rows", 3)):
        one, two = Queue(), Queue()
        one.promise(9)
        two.promise(4)
        two.tell([4])
        one.tell([8])
        assert learned(how, [one, two], 4, [rows(3), rows(1)]) == expected


def test_known_time_with_a_table() -> None:
    """A table is at its end from the start: the stream alone tells the time."""
    for how, expected in (("promises", 9), ("messages", 8), ("rows", 7)):
        stream, table = Queue(), Queue()
        table.promise(TABLE_TIME)
        table.close()
        stream.promise(9)
        stream.tell([8])
        assert learned(how, [stream, table], 9, [rows(7), rows(BEGINNING)]) == expected
    for how in ("promises", "messages", "rows"):
        stream, table = Queue(), Queue()
        table.promise(TABLE_TIME)
        table.close()
        assert learned(how, [stream, table], BEGINNING) == BEGINNING, "time has not begun"


def test_known_time_at_the_end() -> None:
    """The end of all inputs tells the time in any case: as far as the one that came furthest."""
    for how in ("promises", "messages", "rows"):
        one, two = Queue(), Queue()
        for queue, ts in ((one, 9), (two, 4)):
            queue.promise(ts)
            queue.close()
        assert learned(how, [one, two], FOREVER >> 1) == 9


def test_known_time_before_the_last_rows_are_taken() -> None:
    """An input that is closed and still has rows is not at its end."""
    for how, expected in (("promises", 5), ("messages", BEGINNING), ("rows", BEGINNING)):
        queue = Queue()
        queue.put(rows(7))
        queue.promise(9)
        queue.close()
        assert learned(how, [queue], 5) == expected


def take_in(queue: Queue, kind: str, times: list[int]) -> None:
    """What a producer does, up to these times."""
    if kind == "put":
        queue.put(rows(*times))
    elif kind == "tell":
        queue.tell(times)
    if times:
        queue.promise(times[-1])


@settings(max_examples=50)
@given(traffic(), st.booleans())
def test_messages_and_rows_tell_no_less_when_merged(
    steps: list[tuple[str, list[int]]], starved: bool
) -> None:
    """A reader that takes all there is knows the same time with and without piggyback, whenever it reads."""
    plain, merged = Queue(), piggyback()
    readers = [(HeardTime("messages", [queue]), queue) for queue in (plain, merged)]
    for kind, times in steps:
        for queue in (plain, merged):
            take_in(queue, kind, times)
        if not starved or kind == "read":
            one, two = (known.learn(q.punctuation, [q.take(q.punctuation, True)]) for known, q in readers)
            assert one == two


@given(traffic(), st.data())
def test_a_reader_that_is_held_back_hears_no_later_when_merged(
    steps: list[tuple[str, list[int]]], data: st.DataObject
) -> None:
    """Another input lets it go up to some time only; messages beyond have purged those it waits for."""
    plain, merged = Queue(), piggyback()
    readers = [(HeardTime("messages", [queue]), queue) for queue in (plain, merged)]
    bound = BEGINNING
    for kind, times in steps:
        for queue in (plain, merged):
            take_in(queue, kind, times)
        if kind == "read":
            bound = max(bound, plain.punctuation - data.draw(st.integers(0, 6)))
            one, two = (known.learn(bound, [queue.take(bound, True)]) for known, queue in readers)
            assert one <= two <= bound


def test_a_message_that_purged_others_tells_of_the_time_before_it() -> None:
    queue = piggyback()
    queue.tell([24, 31])
    assert queue.read_messages(25) == 25
    assert queue.read_messages(25) == BEGINNING, "told once"
    assert queue.messages == [31]
    assert queue.read_messages(40) == 31

"""Delays of results: their percentiles, and what counts as late."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.flow.delays import STEPS, Delays
from penstock.engine.flow.queue import BEGINNING, Outlet
from penstock.engine.intake.stream_clock import MAX_PUSHES, Progress, StreamClock

STEP = 2.0 ** (1 / STEPS)


def test_no_delays() -> None:
    assert Delays().summary() == {"average_us": 0.0, "max_us": 0.0, "p99_us": 0.0}


def test_all_on_time() -> None:
    delays = Delays()
    delays.add_one(0.0, 1_000)
    assert delays.summary() == {"average_us": 0.0, "max_us": 0.0, "p99_us": 0.0}
    assert delays.number == 1_000


def test_a_delay_is_taken_in_as_often_as_it_is_said() -> None:
    one, two = Delays(), Delays()
    one.add_one(3.0, 4)
    one.add_one(50.0, 4)
    for _ in range(4):
        two.add(np.array([50.0, 3.0]))
    one.add(np.empty(0))
    assert one.summary() == two.summary()
    assert one.number == two.number == 8
    assert one.average == pytest.approx(26.5)


@given(
    st.lists(st.one_of(st.floats(0, 1e3), st.floats(0, 1e18), st.integers(0, 64).map(float)), min_size=1),
    st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99, 1.0]),
)
def test_percentiles_are_right_to_within_an_eighth(values: list[float], share: float) -> None:
    """The percentile is the smallest delay that `share` of all do not exceed, or up to an eighth more.

    Delays below a microsecond count as one.
    """
    delays = Delays()
    delays.add(np.array(values))
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    found = delays.percentile(share)
    assert found <= delays.max == max(values)
    assert found >= exact or found == pytest.approx(exact)
    assert found <= max(exact, 1.0) * STEP * (1 + 1e-12)
    assert STEP < 1.125
    assert delays.average == pytest.approx(sum(values) / len(values))


class Machine:
    """A clock set by hand, and streams."""

    def __init__(self, streams: int = 1) -> None:
        self.now = 0.0
        self.began = 0.0
        self.outlets = [Outlet() for _ in range(streams)]
        self.streams = [Progress(outlet) for outlet in self.outlets]
        self.stream, self.processing = Delays(), Delays()
        self.clock = StreamClock(self.streams, lambda: self.now, lambda: self.began)

    def push(self, ts: int, seconds: float, stream: int = 0) -> None:
        """A push begins that brings a stream to `ts`."""
        self.now = self.began = seconds
        self.streams[stream].begin(ts)
        self.outlets[stream].promise(ts)

    def done(self) -> None:
        for progress in self.streams:
            progress.note(progress.come, self.began)

    def out(self, ts: list[int], after: float) -> None:
        """Changes come out, some seconds after the push began."""
        self.now = self.began + after
        self.clock.note(np.array(ts), self.stream, self.processing)


def test_what_a_push_brings_is_on_time() -> None:
    """It took 2 seconds to work it off: no delay in stream time, 2 seconds in that of the machine."""
    machine = Machine()
    machine.push(10, 100.0)
    machine.out([3, 3, 10], 2.0)
    assert (machine.stream.max, machine.stream.number) == (0.0, 3)
    assert machine.processing.summary()["max_us"] == pytest.approx(2e6)
    assert machine.processing.average == pytest.approx(2e6)


def test_what_comes_with_a_later_push_is_late() -> None:
    """Due at 4 with the push that came to 10; it comes out with the one that comes to 30."""
    machine = Machine()
    machine.push(10, 100.0)
    machine.done()
    machine.push(30, 107.0)
    machine.out([4], 1.0)
    assert machine.stream.max == 26, "the streams are at 30"
    assert machine.processing.max == pytest.approx(8e6), "since 100 s, now it is 108 s"
    machine.out([30, 30, 30], 1.0)
    assert machine.stream.number == 4
    assert machine.stream.max == 26
    assert machine.processing.average == pytest.approx((8e6 + 3 * 1e6) / 4)


@pytest.mark.parametrize("waits", [False, True])
def test_a_change_of_the_last_instant_is_late_unless_more_of_it_has_come(waits: bool) -> None:
    """What was due at 10 comes with the push to 30: 20 late, if it is not of rows at 10 that came just now.

    Where instants have to be over, it was not due before time had passed 10.
    """
    machine = Machine()
    machine.clock.waits = waits
    machine.push(10, 100.0)
    machine.done()
    machine.push(30, 107.0)
    machine.out([10], 1.0)
    assert machine.stream.max == (0 if waits else 20)
    assert machine.processing.max == pytest.approx(1e6 if waits else 8e6)
    machine.done()
    machine.push(40, 110.0)
    machine.streams[0].fresh = 30
    machine.out([30], 1.0)
    assert machine.stream.max == (0 if waits else 20), "a row of 30 came with the push to 40"


def test_late_and_on_time_in_one_batch() -> None:
    machine = Machine()
    machine.push(10, 100.0)
    machine.done()
    machine.push(20, 101.0)
    machine.out([5, 5, 9, 12, 15], 0.5)
    assert machine.stream.average == pytest.approx((15 + 15 + 11) / 5)
    assert machine.processing.average == pytest.approx((3 * 1.5e6 + 2 * 0.5e6) / 5)


def test_a_change_is_due_once_every_stream_has_come_to_it() -> None:
    """One stream is at 50 and the other at 10: nothing after 10 is due yet."""
    machine = Machine(2)
    machine.push(50, 100.0, 0)
    machine.done()
    machine.push(10, 101.0, 1)
    machine.done()
    machine.push(40, 103.0, 1)
    machine.out([12, 40], 1.0)
    assert machine.stream.max == 0
    machine.out([7], 1.0)
    assert machine.stream.max == 33, "the later of both is at 40"
    assert machine.processing.max == pytest.approx(3e6), "both had come to 7 at 101 s"


def test_the_answer_begins_with_the_first_time_heard_of() -> None:
    machine = Machine(2)
    assert machine.clock.first is None
    machine.push(50, 100.0, 0)
    assert machine.clock.first == 50
    machine.push(40, 101.0, 1)
    assert machine.clock.first == 40
    machine.done()
    late = StreamClock(machine.streams, lambda: 0.0, lambda: 0.0, passed=50)
    assert late.first == 50, (
        "a query that starts when rows up to 50 have gone has no answer for the time before"
    )


def test_progress_forgets_the_oldest_pushes() -> None:
    progress = Progress(Outlet())
    for ts in range(3 * MAX_PUSHES):
        progress.note(ts, float(ts))
    progress.note(5, 0.0)
    assert progress.settled == 3 * MAX_PUSHES - 1
    assert len(progress._times) <= MAX_PUSHES
    assert progress.reached(progress.settled) == progress.settled
    assert progress.reached(progress.settled + 1) is None
    assert progress.reached(BEGINNING) == progress._began[0]

"""ExpiryQueue: entries come out by the time they are due, whatever the order they came in."""

from __future__ import annotations

import heapq
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.kernels.rows.expiry import NEVER, pop_due, push_due
from penstock.engine.rows.expiry_queue import ExpiryQueue

STEPS = st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 12), st.integers(1, 40))), max_size=60)


@given(STEPS)
def test_as_a_sorted_list(steps: list[tuple[int, int] | None]) -> None:
    """A number and how often: pushed; None: one comes out."""
    queue, naive, number = ExpiryQueue(), [], 0
    held: dict[int, Counter[int]] = {}
    for step in steps:
        if step is not None:
            ets, times = step
            queue.reserve(times)
            for _ in range(times):
                number += 1
                push_due(*queue.arrays, ets, number)
                heapq.heappush(naive, ets)
                held.setdefault(ets, Counter())[number] += 1
        elif naive:
            ets = heapq.heappop(naive)
            assert queue.first == ets
            held[ets] -= Counter({int(pop_due(*queue.arrays)): 1})
        queue._check()
        assert len(queue) == len(naive)
        assert sum(map(Counter.total, held.values())) == len(naive), "an id of another time came out"
    assert queue.first == (naive[0] if naive else NEVER)
    assert sorted(queue.entries()[0].tolist()) == sorted(naive)


def test_room_is_used_again() -> None:
    """Out of order for ever: nodes and lists are taken from what has been given back."""
    queue = ExpiryQueue()
    for round_ in range(500):
        queue.reserve(20)
        for number in range(20):
            push_due(*queue.arrays, 100 * round_ + 50 - number, number)
        while queue.first <= 100 * round_ + 50:
            pop_due(*queue.arrays)
    assert queue.nbytes < 50_000
    queue._check()


def test_what_waits_in_order_is_still_there_when_room_grows() -> None:
    """In order, more come than go: the ring has gone round when it grows."""
    queue, pushed, popped = ExpiryQueue(), 0, 0
    for _ in range(60):
        queue.reserve(50)
        for _ in range(50):
            push_due(*queue.arrays, 10 * pushed, pushed)
            pushed += 1
        for _ in range(40):
            assert queue.first == 10 * popped
            assert int(pop_due(*queue.arrays)) == popped
            popped += 1
        queue._check()
    assert sorted(queue.entries()[1].tolist()) == list(range(popped, pushed))

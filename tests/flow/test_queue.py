"""How far a consumer may go in one step: about as many rows as it is asked for, never beyond a promise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.flow.queue import Queue, bound_of, instants_of
from penstock.engine.rows.batch import Batch


def queue_of(*batches: list[int], punctuation: int = 20) -> Queue:
    queue = Queue()
    for ts in batches:
        queue.put(Batch(np.array(ts, np.int64), [pa.array(ts)]))
    queue.promise(punctuation)
    return queue


@pytest.mark.parametrize(
    ("rows", "bound"), [(1, 3), (3, 3), (4, 6), (6, 6), (7, 9), (9, 9), (10, 20), (99, 20)]
)
def test_a_step_is_about_as_many_rows(rows: int, bound: int) -> None:
    queue = queue_of([1, 2, 3], [4, 5, 6], [7, 9], [9])
    assert bound_of([queue], rows) == bound
    assert bound_of([queue_of(), queue], rows) == bound
    assert instants_of([queue], rows) == (20 if bound == 20 else bound + 1)


def test_a_step_is_no_longer_than_the_shortest() -> None:
    early, late = queue_of([1, 2], [3, 4]), queue_of([5, 6], [7, 8])
    assert bound_of([early, late], 3) == bound_of([late, early], 3) == 4
    assert instants_of([early, late], 3) == instants_of([late, early], 3) == 5


def test_what_is_not_promised_is_no_part_of_a_step() -> None:
    queue = queue_of([1, 2, 3], [4, 5, 6], punctuation=2)
    assert (bound_of([queue], 1), bound_of([queue], 5)) == (2, 2)
    assert instants_of([queue_of([1, 2], [2, 3], punctuation=2)], 3) == 2
    queue.close()
    assert (bound_of([queue], 1), bound_of([queue], 4)) == (3, 6)


def test_whatever_comes_wakes_the_consumer() -> None:
    queue, woken = Queue(), list[str]()
    for what, come in (
        ("rows", lambda: queue.put(Batch(np.array([1], np.int64), [pa.array([1])]))),
        ("a message", lambda: queue.tell([1])),
        ("a promise", lambda: queue.promise(2)),
        ("the end", queue.close),
    ):
        queue.wake = lambda what=what: woken.append(what)  # type: ignore[misc]
        come()
    assert woken == ["rows", "a message", "a promise", "the end"]

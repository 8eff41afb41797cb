"""What slices of the literal chain cost here: a row to pass one more of them, a pair to be told apart in one.

Measured with the operators themselves, in pushes of the size that a query's queue gives them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.slice_join import (
    CLOCK,
    FEMALE,
    FIELDS,
    HIGH_KEY,
    KEY,
    KIND,
    LIFETIME,
    LOW_KEY,
    MALE,
    POS,
    REACH,
    ROW,
    TS,
    count_ages,
    fit_windows,
)
from penstock.engine.kernels.slices import build_slices
from penstock.engine.operators.side import Side
from penstock.engine.operators.slice_join import SliceJoin
from penstock.engine.operators.slice_pairs import Pairs, References
from penstock.engine.plan import CommonSide
from penstock.engine.queue import BEGINNING, Queue
from penstock.engine.types import SqlType

from .weights import TURN_ROWS

PUSH_ROWS, PUSHES = TURN_ROWS, 8
SLICES = 16
KEYS = 40  # one pair of rows in so many match, as in the paper's trials of many queries


def references(number: int, keys: int) -> NDArray:
    """A push: rows of left and right in turn, one a microsecond, each a male and a female."""
    table = np.zeros((FIELDS, 2 * PUSH_ROWS), np.int64)
    rows = number * PUSH_ROWS + np.arange(PUSH_ROWS)
    sides = rows % 2
    males, females = table[:, 0::2], table[:, 1::2]
    males[TS] = females[TS] = rows
    males[ROW] = females[ROW] = rows // 2
    males[KIND], females[KIND] = MALE + sides, FEMALE + sides
    males[CLOCK] = females[POS] = rows
    males[LOW_KEY] = males[HIGH_KEY] = females[KEY] = np.random.default_rng(number).integers(
        0, keys, len(rows)
    )
    males[REACH] = females[LIFETIME] = SLICES * PUSH_ROWS
    return table


def chain_of(ends: list[int]) -> tuple[Queue, list[SliceJoin], list[Queue]]:
    """The first queue of a chain, its slices, and what they find."""
    left, right = (Side(n, CommonSide("s", "range", ()), [SqlType.BIGINT], Queue(), None) for n in (0, 1))
    left.size = right.size = ends[-1]
    first = queue = Queue()
    slices, found = [], []
    for start, end in zip([0, *ends], ends, strict=False):
        slices.append(SliceJoin(start, end, queue, (left, right), "slice", BEGINNING))
        slices[-1].timed = False
        found.append(Queue())
        slices[-1].output.queues.append(found[-1])
        if end != ends[-1]:
            queue = Queue()
            slices[-1].onward.queues.append(queue)
    return first, slices, found


def run_chain(ends: list[int], keys: int, counting: bool, clock: Callable[[], float]) -> tuple[float, int]:
    """Seconds of all pushes once the first slice is full, and the pairs found in them."""
    first, slices, found = chain_of(ends)
    parts = build_slices(np.arange(1, 5) * ends[-1] // 5)
    windows, since = np.full(2, ends[-1] // 2), np.zeros(2, np.int64)
    for slice_ in slices:
        slice_.takes_all = since if counting else None
    seconds, pairs = 0.0, 0
    for number in range(2 * PUSHES):
        table = references(number, keys)
        began = clock()
        first.put(References(table))
        for slice_ in slices:
            slice_.drain()
        for queue in found:
            while queue.batches:
                batch = queue.pop()
                if isinstance(batch, Pairs):  # once for all who only count, and once for one who asks more
                    counts, fits = np.zeros(5, np.int64), np.empty(batch.length, np.uint8)
                    count_ages(batch.table, parts.ends, parts.first, parts.shift, counts)
                    fit_windows(batch.table, batch.records, windows, since, fits)
                pairs += batch.length if number >= PUSHES else 0
        seconds += clock() - began if number >= PUSHES else 0.0
    return seconds, pairs


def slice_time(runs: int, clock: Callable[[], float]) -> float:
    """Seconds for a row to pass one more slice: its male through a queue, purging, and probing next to
    nothing; its female likewise."""
    width = PUSH_ROWS // 16

    def seconds(slices: int) -> float:
        ends = [width * (n + 1) for n in range(slices)]
        return min(run_chain(ends, 1 << 40, True, clock)[0] for _ in range(runs))

    return max(seconds(SLICES) - seconds(1), 1e-9) / ((SLICES - 1) * PUSHES * PUSH_ROWS)


def slice_pair_time(runs: int, clock: Callable[[], float]) -> float:
    """Seconds by which a pair that has to be told apart costs more than one that is counted with others."""
    ends = [4 * PUSH_ROWS]
    apart = [run_chain(ends, KEYS, False, clock) for _ in range(runs)]
    counted = min(run_chain(ends, KEYS, True, clock)[0] for _ in range(runs))
    return max(min(seconds for seconds, _ in apart) - counted, 1e-9) / apart[0][1]

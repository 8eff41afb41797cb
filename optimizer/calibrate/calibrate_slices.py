"""What slices of the literal chain cost here: a row to pass one more of them, a turn of one, a pair to be
told apart in one.

Measured with the operators themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from penstock.engine.chain.slice_counts import SliceCounts
from penstock.engine.chain.slice_join import SliceJoin
from penstock.engine.chain.slice_pairs import References
from penstock.engine.chain.slice_run import SliceRun
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.kernels.chain.slice_join import (
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
)
from penstock.engine.plan.plan import CommonSide
from penstock.engine.rows.types import SqlType
from penstock.engine.shelves.side import Side
from penstock.optimizer.costs.weights import TURN_ROWS

FEW_ROWS, MANY_ROWS = 32, TURN_ROWS  # of a push
ALL_ROWS = 4_096  # of all pushes
SLICES = 16
KEYS = 40  # one pair of rows in so many match, as in the paper's trials of many queries


def references(number: int, push_rows: int, keys: int, reach: int) -> NDArray:
    """A push: rows of left and right in turn, one a microsecond, each a male and a female."""
    table = np.zeros((FIELDS, 2 * push_rows), np.int64)
    rows = number * push_rows + np.arange(push_rows)
    sides = rows % 2
    males, females = table[:, 0::2], table[:, 1::2]
    males[TS] = females[TS] = rows
    males[ROW] = females[ROW] = rows // 2
    males[KIND], females[KIND] = MALE + sides, FEMALE + sides
    males[CLOCK] = females[POS] = rows
    males[LOW_KEY] = males[HIGH_KEY] = females[KEY] = np.random.default_rng(number).integers(
        0, keys, len(rows)
    )
    males[REACH] = females[LIFETIME] = reach
    return table


def chain_of(ends: list[int], inner: list[int]) -> tuple[Queue, SliceRun, SliceCounts]:
    """The first queue of a chain of which everybody counts all pairs, its slices, and where they are counted.

    inner: windows that end within the slices.
    """
    left, right = (Side(n, CommonSide("s", "range", ()), [SqlType.BIGINT], Queue(), None) for n in (0, 1))
    for side in (left, right):
        side.keep_for(ends[-1])
    tally = SliceCounts()
    tally.renew(np.union1d(ends, inner).astype(np.int64), (), np.empty(0, np.int64))
    first = queue = Queue()
    slices = []
    for start, end in zip([0, *ends], ends, strict=False):
        slices.append(SliceJoin(start, end, queue, (left, right), "slice", BEGINNING, tally))
        slices[-1].takes_all = np.zeros(2, np.int64)
        slices[-1].is_apart = any(start < window < end for window in inner)
        if end != ends[-1]:
            queue = Queue()
            slices[-1].onward.queues.append(queue)
    return first, SliceRun(slices, (left, right), tally), tally


def run_chain(
    ends: list[int], inner: list[int], push_rows: int, keys: int, clock: Callable[[], float]
) -> tuple[float, int]:
    """Seconds of all pushes once the slices are full, and the pairs found in them."""
    first, run, tally = chain_of(ends, inner)
    filling, pushes = -(-ends[-1] // push_rows), ALL_ROWS // push_rows
    seconds = 0.0
    for number in range(filling + pushes):
        if number == filling:
            tally.counts[:] = 0
        table = References(references(number, push_rows, keys, ends[-1]))
        began = clock()
        first.put(table)
        run.slices[0].step(table.length)
        seconds += clock() - began if number >= filling else 0.0
    return seconds, int(tally.counts.sum())


def slice_times(runs: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds for a row to pass one more slice: its male through a queue, purging, and probing next to
    nothing; its female likewise. And for one more slice to be given a turn."""
    width = FEW_ROWS

    def seconds(slices: int, push_rows: int) -> float:
        ends = [width * (n + 1) for n in range(slices)]
        return min(run_chain(ends, [], push_rows, 1 << 40, clock)[0] for _ in range(runs))

    few, many = (
        max(seconds(SLICES, rows) - seconds(1, rows), 1e-9) / ((SLICES - 1) * ALL_ROWS)
        for rows in (FEW_ROWS, MANY_ROWS)
    )
    turn = max((few - many) / (1 / FEW_ROWS - 1 / MANY_ROWS), 1e-9)
    return max(many - turn / MANY_ROWS, 1e-10), turn


def slice_pair_time(runs: int, clock: Callable[[], float]) -> float:
    """Seconds by which a pair that has to be told apart by age costs more than one that is counted."""
    end = 4 * MANY_ROWS
    inner = [end * n // 5 for n in range(1, 5)]
    apart = [run_chain([end], inner, MANY_ROWS, KEYS, clock) for _ in range(runs)]
    counted = min(run_chain([end], [], MANY_ROWS, KEYS, clock)[0] for _ in range(runs))
    return max(min(seconds for seconds, _ in apart) - counted, 1e-9) / apart[0][1]

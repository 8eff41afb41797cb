"""The join of changes alone, without an engine around it: what rows that leave by themselves save it.

The same rows come twice: with the time at which they leave, of which the join then sends time-messages, and
without, so that each is withdrawn by a -1 for which the join has to find its partners again.

The paper's join doubles its capacity with messages: there a negative costs as much as a positive, because the
join makes output tuples, and that dwarfs the rest. Ours writes two row numbers per pair, and columns are
gathered by who needs them. What a row costs is to be hashed, stored, linked, and unlinked when it leaves, and
that is the same either way; what messages save, its partners found a second time, is a small part of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.changes.change_join import ChangeJoin
from penstock.engine.flow.queue import Queue
from penstock.engine.plan.plan import ChangeJoinNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

from .expiry_trials import Side

TYPES = (SqlType.BIGINT, SqlType.BIGINT)
QUANTUM = 65_536


@dataclass(frozen=True, slots=True)
class Changes:
    """Batches of both sides, in steps of time, and what is promised after each."""

    steps: list[tuple[Batch | None, Batch | None, int]]
    messages: bool


def with_ends(side: Side, size_us: int) -> tuple[NDArray, NDArray, NDArray | None, NDArray | None]:
    """ts, numbers of rows, signs and ends."""
    return side.ts, np.arange(len(side.ts)), None, side.ts + size_us


def with_withdrawals(
    side: Side, size_us: int, until: int
) -> tuple[NDArray, NDArray, NDArray | None, NDArray | None]:
    """The same, each row followed by a -1 if it leaves up to `until`; at one time those come first."""
    rows = np.arange(len(side.ts))
    gone = rows[side.ts + size_us <= until]
    ts = np.concatenate([side.ts[gone] + size_us, side.ts])
    sign = np.concatenate([np.full(len(gone), -1, np.int8), np.ones(len(rows), np.int8)])
    order = np.argsort(ts, kind="stable")
    return ts[order], np.concatenate([gone, rows])[order], sign[order], None


def changes_of(sides: tuple[Side, Side], size_us: int, step_us: int, withdrawn: bool) -> Changes:
    """Both sides cut into steps of time."""
    until = max(int(side.ts[-1]) for side in sides)
    kinds = [
        with_withdrawals(side, size_us, until) if withdrawn else with_ends(side, size_us) for side in sides
    ]
    bounds = np.arange(step_us, until + step_us + 1, step_us)
    batches: list[list[Batch | None]] = []
    for side, (ts, rows, sign, ets) in zip(sides, kinds, strict=True):
        stops = np.searchsorted(ts, bounds)
        cut: list[Batch | None] = []
        for i, j in zip([0, *stops[:-1]], stops, strict=True):
            columns = [pa.array(side.store[rows[i:j]]), pa.array(side.price[rows[i:j]])]
            signs, ends = (None if one is None else one[i:j] for one in (sign, ets))
            cut.append(Batch(ts[i:j], columns, signs, ends) if j > i else None)
        batches.append(cut)
    return Changes(list(zip(*batches, bounds.tolist(), strict=True)), not withdrawn)


def start(changes: Changes) -> tuple[ChangeJoin, Queue]:
    """A join of the two sides by store, and where its results go."""
    source = SourceNode("s", TYPES)
    node = ChangeJoinNode("inner", source, source, (0,), (0,), None, False)
    learning = "messages" if changes.messages else "promises"
    join = ChangeJoin(node, (Queue(), Queue()), (TYPES, TYPES), "join", learning, changes.messages)  # type: ignore[arg-type]
    result = Queue()
    join.output.queues.append(result)
    return join, result


def drive(join: ChangeJoin, result: Queue, changes: Changes) -> int:
    """All steps; how many pairs entered. Their columns are not read, as nobody needs them but a sink."""
    entered = 0
    for left, right, bound in changes.steps:
        for queue, batch in zip(join.inputs, (left, right), strict=True):
            if batch is not None:
                queue.put(batch)
            queue.promise(bound)
        while join.step(QUANTUM):
            pass
        while result.batches:
            batch = result.pop()
            entered += batch.length if batch.sign is None else int(np.count_nonzero(batch.sign > 0))
        result.messages.clear()
    return entered


def drive_time(changes: Changes) -> tuple[float, int]:
    """Processor time of one run, and the pairs that entered."""
    join, result = start(changes)
    began = time.process_time()
    entered = drive(join, result, changes)
    return time.process_time() - began, entered

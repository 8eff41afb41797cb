"""What the output of a plan at work holds now, from what its operators keep.

Most operators that keep something know what they have said. What is not kept can be found again from what is
kept below: a select passes its input's rows on, a join finds the pairs of the rows on its sides.

    windows of the RANGE kind   rows in the window, where they are kept in common
                                else by whoever reads them: their readers are asked
    ROWS windows                the rows in it
    Expire                      its rows, and those of its input that do not leave by themselves
    aggregates, set operations  what they said last; by panes, if differences are asked for
    joins                       the pairs of what the sides keep; a side that keeps nothing: of its input
    shared window joins         not known
    rows of a stream itself     not known: nobody keeps them

Only between two pushes, when every operator has worked off what has come. What waits in a queue has not been
passed on yet, and does not count above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.changes.change_join import ChangeJoin
from penstock.engine.changes.expire import Expire
from penstock.engine.changes.group_by import GroupBy
from penstock.engine.changes.set_operation import SetOperator
from penstock.engine.flow.queue import Queue
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.hopping.hop_delta import HopDelta
from penstock.engine.intake.static_table import StaticTable
from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.keys.net_changes import cancel_equal
from penstock.engine.plan.plan import ArriveNode, LifetimeNode, PlanNode, TableNode, UnionNode
from penstock.engine.plan.plan_parts import plan_inputs, plan_nodes, plan_types
from penstock.engine.plan.tellable import is_known
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.rows.window import FOREVER
from penstock.engine.selects.select import Select
from penstock.engine.windows.rows_window import RowsWindow

from .build_operator import build_operator
from .pipeline import PlanAtWork


class Contents:
    """Asks the operators of one plan and of the parts it reads; all rows are given the time `at`."""

    def __init__(self, tables: dict[str, StaticTable], at: int) -> None:
        self._tables = tables
        self._at = at

    def of(self, part: PlanAtWork, number: int = 0, standing: bool = False) -> Batch | None:
        """What a node's output holds, by its number in the plan of the part; None: nobody knows.

        Rows that leave by themselves come with their ets. standing: without them.
        """
        if number in part.readings:
            work, reader = part.readings[number]
            return work.content(reader, self._at, standing)
        node = list(plan_nodes(part.plan))[number]
        if isinstance(node, TableNode):
            return self._table(node)
        operator = part.operators.get(number)
        match operator:
            case RowsWindow() | GroupBy() | SetOperator() | HopDelta():
                return stamped(operator.content(), node, self._at)
            case Expire():
                rest = self._read(part, number, 0, True)
                return (
                    None if rest is None else self._sum([stamped(operator.content(), node, self._at), rest])
                )
            case ChangeJoin():
                return self._pairs(part, number, operator, standing)
            case Select():
                below = self._read(part, number, 0, standing)
                return None if below is None else operator.apply(below)
        if isinstance(node, UnionNode):
            parts = [self._read(part, number, side, standing) for side in range(len(node.inputs))]
            known = [one for one in parts if one is not None]
            return self._sum(known) if len(known) == len(parts) else None
        if standing and isinstance(node, ArriveNode | LifetimeNode) and is_known(node, True):
            return empty(plan_types(node), self._at)
        return None

    def answer(self, part: PlanAtWork, queue: Queue, waiting: Sequence[Batch]) -> Batch | None:
        """What has been read of a plan's output from `queue`, less what is `waiting` besides."""
        whole = self.of(part)
        types = plan_types(part.plan)
        return None if whole is None else less(whole, [*queue.batches, *waiting], types, self._at)

    def _read(self, part: PlanAtWork, number: int, side: int, standing: bool) -> Batch | None:
        """What an operator has read from one of its inputs."""
        nodes = list(plan_nodes(part.plan))
        below = number + 1
        for one in plan_inputs(nodes[number])[:side]:
            below += len(list(plan_nodes(one)))
        whole = self.of(part, below, standing)
        if whole is None:
            return None
        operator = part.operators[number]
        waiting = list(operator.inputs[side].batches)
        if isinstance(operator, Select) and operator.held is not None:
            waiting.append(operator.held)
        if standing:
            waiting = [batch.take(np.flatnonzero(batch.ends == FOREVER)) for batch in waiting]
        return less(whole, waiting, plan_types(nodes[below]), self._at)

    def _table(self, node: TableNode) -> Batch:
        table = self._tables[node.table]
        rows = table.rows.combine_chunks() if table.is_sealed else table.rows.slice(0, 0)
        columns = range(rows.num_columns) if node.columns is None else node.columns
        arrays = [pa.concat_arrays(rows.column(i).chunks) if rows.num_rows else None for i in columns]
        if not rows.num_rows:
            return empty(plan_types(node), self._at)
        return Batch(np.full(rows.num_rows, self._at), arrays)

    def _sum(self, batches: list[Batch]) -> Batch:
        """All of these; what an Expire gives does not leave by itself."""
        return concatenate(batches) if len(batches) > 1 else batches[0]

    def _pairs(self, part: PlanAtWork, number: int, join: ChangeJoin, standing: bool) -> Batch | None:
        """Find the pairs again, with a join that is given the rows of both sides at once."""
        node = join.node
        queues = Queue(self._at), Queue(self._at)
        for side, kept in enumerate(join.contents()):
            input_ = plan_inputs(node)[side]
            rows = (
                self._read(part, number, side, standing) if kept is None else stamped(kept, input_, self._at)
            )
            if rows is None:
                return None
            ends = rows.ends
            is_there = ends == FOREVER if standing else ends > self._at
            queues[side].put(rows.take(np.flatnonzero(is_there)))
        again = build_operator(replace(node, instants=False), queues, join.name, "promises")
        found = Queue()
        again.output.queues.append(found)
        while again.step(QUANTUM_ROWS):
            pass
        batches = list(found.batches)
        if not batches:
            return empty(plan_types(node), self._at)
        return less(empty(plan_types(node), self._at), batches, plan_types(node), self._at, by=1)


def stamped(batch: Batch | None, node: PlanNode, at: int) -> Batch:
    """The rows of a node's output, all at one time; None: there are none."""
    if batch is None:
        return empty(plan_types(node), at)
    return Batch(np.full(batch.length, at), batch.lazy_columns, None, batch.ets)


def empty(types: Sequence[SqlType], at: int) -> Batch:
    """No rows."""
    return Batch(np.full(0, at), [pa.array([], ARROW_TYPES[one]) for one in types])


def less(whole: Batch, taken: Sequence[Batch], types: Sequence[SqlType], at: int, by: int = -1) -> Batch:
    """The rows of `whole` as they were before the changes `taken`; by=1: as they are after them."""
    if not any(batch.length for batch in taken):
        return whole
    rows = concatenate([whole, *taken])
    signs = np.concatenate([whole.signs, *(by * batch.signs for batch in taken)])
    there = np.flatnonzero(rows.ends > at)  # what has left by itself is in neither
    rows, signs = rows.take(there), signs[there]
    columns = [rows.column(i) for i in range(rows.width)]
    a, b = fingerprint(columns, types, rows.length, [rows.ends])
    kept = np.flatnonzero(cancel_equal(np.zeros(rows.length, np.int64), signs, a, b))
    assert bool((signs[kept] > 0).all()), "a row left that was not there"
    found = rows.take(kept)
    return Batch(np.full(found.length, at), found.lazy_columns, None, found.ets)


def difference(old: Batch, new: Batch, types: Sequence[SqlType], at: int) -> Batch:
    """The changes from one answer to another, at one time."""
    rows = concatenate([old, new])
    signs = np.concatenate([np.full(old.length, -1, np.int8), np.full(new.length, 1, np.int8)])
    a, b = fingerprint([rows.column(i) for i in range(rows.width)], types, rows.length)
    kept = np.flatnonzero(cancel_equal(np.zeros(rows.length, np.int64), signs, a, b))
    changes = rows.take(kept)
    return Batch(np.full(changes.length, at), changes.lazy_columns, signs[kept])

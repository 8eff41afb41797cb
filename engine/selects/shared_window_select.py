"""Filters of many queries over ROWS windows of one stream, whatever the sizes of these.

In:   rows of the stream.
Out:  to each query the rows that enter its window and satisfy its predicate.
Kept: nothing but counts, and in its queue the rows of an instant that is not over.

A row enters a window of n rows unless n rows of its own instant came after it (see rows_entering.py). So that
is a condition like any other: of a row it is known how many of its instant are behind it, and a query asks
for fewer than n. Sizes are constants of a dimension like all others, looked up together in one search.

    three rows at one instant    behind   2   1   0         ROWS 2 asks for behind < 2

A query that comes while an instant is open takes no rows from before it: it asks for their places, too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.engine.expressions.expression import Call, Column, Expression, Literal, conjunction, conjuncts
from penstock.engine.flow.queue import instants_of
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.types import SqlType

from .shared_select import Share, SharedSelect

# Two columns after those of the stream.
BEHIND = Column(SqlType.BIGINT, -2, "rows behind")
PLACE = Column(SqlType.BIGINT, -1, "place")


def entering(predicate: Expression | None, size: int) -> Expression:
    """What is asked of a row by a query with this predicate over a window of `size` rows."""
    enters = Call(SqlType.BOOLEAN, "less", (BEHIND, Literal(SqlType.BIGINT, size)))
    both = conjunction((*conjuncts(predicate), enters))
    assert both is not None, "nothing is asked"
    return both


class SharedWindowSelect(SharedSelect):
    """Takes rows by whole instants."""

    _come = 0
    """Rows taken out of the queue so far."""

    def add(self, share: Share) -> None:
        """Let a query in: it takes part from the next row on."""
        if self.inputs[0].rows:
            since = Literal(SqlType.BIGINT, self._come + self.inputs[0].rows)
            came_later = Call(SqlType.BOOLEAN, "greater_equal", (PLACE, since))
            share.narrow(came_later)
        self._admit(share)

    def step(self, quantum: int) -> bool:
        batch = self.inputs[0].take(instants_of(self.inputs, quantum), False)
        if batch is not None:
            self.refresh()
            self.counters.took(batch.length)
            places = np.arange(batch.length)
            behind = np.searchsorted(batch.ts, batch.ts, side="right") - 1 - places
            known = [pa.array(behind), pa.array(places + self._come)]
            self._come += batch.length
            self._select(Batch(batch.ts, [*batch.lazy_columns, *known]))
        return self._pass_time() or batch is not None

"""Other plans for queries at work, by what was measured: looked for between two pushes, now and then.

Joins are arranged anew and ways of expiry thought over whenever twice as many rows have come, and every few
million rows: by what has come since the look before, as rates and matches change. Modes of hopping queries
are looked at every few thousand rows, as long as they were not forced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.optimizer.choose_expiry import choose_expiry
from penstock.optimizer.completeness import complete_from

if TYPE_CHECKING:
    from penstock.api import Engine
    from penstock.optimizer.assign_modes import Assigned
    from penstock.query import Query

FIRST_LOOK_ROWS = 20_000  # pushed before joins and expiry are thought over, then again at every doubling
MOST_ROWS = (
    1 << 22
)  # pushed between two of these looks, or so many for each query, of which a look takes 20 us:
MOST_ROWS_EACH = 1 << 16  # a hundredth of the time that the rows take
LOOK_ROWS = 4_096  # pushed between two looks at the modes of a hopping query
LOOK_ROWS_EACH = 16_384  # and for each hopping query more: a look costs some 40 us


class Adapter:
    """When to look, and at which queries."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.look_after = FIRST_LOOK_ROWS
        self.look_at_modes_after = LOOK_ROWS
        self._hopping: dict[str, Query] = {}
        """Those whose modes are ours to choose."""

    def add(self, query: Query) -> None:
        """A query has begun."""
        if query._watch is not None and query._hopping[0] == "auto":
            self._hopping[query.name] = query

    def drop(self, query: Query) -> None:
        """A query is no more."""
        self._hopping.pop(query.name, None)

    def look(self) -> None:
        """After a push: what is due is looked at."""
        rows = self._engine._runtime.rows_in
        if rows >= self.look_after:
            most = max(MOST_ROWS, MOST_ROWS_EACH * len(self._engine._queries))
            self.look_after = min(2 * rows, rows + most)
            self.look_at_plans()
        if self._hopping and rows >= self.look_at_modes_after:
            self.look_at_modes_after = rows + LOOK_ROWS + (len(self._hopping) - 1) * LOOK_ROWS_EACH
            for query in self._hopping.values():
                self._look_at_modes_of(query)

    def shown(self, query: Query) -> dict[str, Assigned]:
        """What the operators of a hopping query have shown."""
        if query._decided is None or query._watch is None:
            return {}
        engine = self._engine
        return query._watch.shown(query._decided, query._pipeline, engine._runtime.streams, engine._weights)

    def look_at_plans(self) -> None:
        """Let every join be arranged anew, and ways of expiry be thought over."""
        for group in self._engine._runtime.groups.values():
            for join in group.joins:
                join.reconsider()
        if self._engine._expiry == "auto":
            for query in self._engine._queries.values():
                self._look_at_expiry(query)

    def _look_at_modes_of(self, query: Query) -> None:
        """Let a hopping query run in other modes, if those are clearly cheaper."""
        engine, pipeline = self._engine, query._pipeline
        decided, watch = query._how(), query._watch
        is_free = pipeline.error is None and not engine._runtime.is_replanned(query.name)
        if decided is None or watch is None or not is_free:
            return
        found = watch.look(decided, pipeline, engine._runtime.streams, engine._weights)
        if found is None:
            return
        planned = engine._plan(
            query._bound, query._counting, query.name, None, query._hopping, lambda *_: found
        )
        query._keep_complete_from()
        query._next_decided = planned.node, found
        engine._runtime.replan(query.name, planned.node, planned.approach, complete_from, planned.netting)

    def _look_at_expiry(self, query: Query) -> None:
        """Let a query hear of expiry in another way, if that is clearly cheaper."""
        engine, pipeline = self._engine, query._pipeline
        if pipeline.error is not None or query._bound.hop is not None:
            return
        approach = choose_expiry(pipeline, engine._weights)
        if approach == pipeline.approach or engine._runtime.is_replanned(query.name):
            return
        planned = engine._plan(query._bound, query._counting, query.name, approach)
        query._keep_complete_from()
        engine._runtime.replan(query.name, planned.node, approach, complete_from)

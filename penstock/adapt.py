"""Other plans for queries at work, by what was measured: looked for between two pushes, now and then.

A query that has the only window over a stream keeps what it needs by itself, if that takes less time. When
another window comes, rows are kept in common, and it goes over to that as soon as they are all there.

Joins are arranged anew and ways of expiry thought over whenever twice as many rows have come, and every few
million rows: by what has come since the look before, as rates and matches change; expiry of a few queries
after each push, so that none takes much longer. Modes of hopping queries are looked at every few thousand
rows, as long as they were not forced.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.plan.plan import ChangeJoinNode, LifetimeNode
from penstock.engine.plan.plan_parts import keeps_rows, plan_nodes

if TYPE_CHECKING:
    from penstock.engine.plan.plan import PlanNode
    from penstock.optimizer.hopping.assign_modes import Assigned
    from penstock.optimizer.plan.plan_query import Planned
    from penstock.optimizer.planning.passes import Draft

    from .api import Engine
    from .query import Query

FIRST_LOOK_ROWS = 20_000  # pushed before joins and expiry are thought over, then again at every doubling
MOST_ROWS = (
    1 << 22
)  # pushed between two of these looks, or so many for each query, of which a look takes 20 us:
MOST_ROWS_EACH = 1 << 16  # a hundredth of the time that the rows take
LOOKS_AT_EXPIRY = 64  # queries whose way of expiry is thought over after one push
LOOK_ROWS = 4_096  # pushed between two looks at the modes of a hopping query
LOOK_ROWS_EACH = 16_384  # and for each hopping query more: a look costs some 40 us


Readers = frozenset["PlanNode"]


class Windows(NamedTuple):
    """The streams of which a query has windows whose rows can be kept in common, and what reads them."""

    streams: frozenset[str]
    readers: Readers


class Adapter:
    """When to look, and at which queries."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.look_after = FIRST_LOOK_ROWS
        self.look_at_modes_after = LOOK_ROWS
        self._hopping: dict[str, Query] = {}
        """Those whose modes are ours to choose."""
        self._expiring: dict[str, Query] = {}
        """Those that read a join and hear of expiry in a way that is ours to choose."""
        self._due: list[str] = []
        """Those of them whose way of expiry is still to be thought over."""
        self._windows: dict[str, Windows] = {}
        """Of queries that have windows whose rows can be kept in common."""
        self._on_stream: dict[str, Counter[Readers]] = {}
        """By stream, what reads such windows, and how many queries have it."""
        self._alone: set[str] = set()
        """Those of the queries that keep what they need by themselves."""
        self._has_company = False
        """Whether some of these are not alone any more."""

    def add(self, query: Query, plan: Planned) -> None:
        """A query has begun; plan: that which it would have alone."""
        if query._watch is not None and query._forced.modes == "auto":
            self._hopping[query.name] = query
        self._note_expiry(query, plan)
        self._count_windows(query, plan, query._pipeline.plan)

    def drop(self, query: Query) -> None:
        """A query is no more."""
        self._hopping.pop(query.name, None)
        self._expiring.pop(query.name, None)
        self._forget_windows(query)

    def alter(self, query: Query, alone: Draft) -> Planned:
        """Of a query that is to have other windows, the plan; `alone`: as if it were the only one."""
        from penstock.optimizer.planning.planner import plan_with_others

        self._forget_windows(query)
        self._note_expiry(query, alone.plan)
        planned = plan_with_others(alone)
        self._count_windows(query, alone.plan, planned.node)
        return planned

    def _note_expiry(self, query: Query, plan: Planned) -> None:
        """Whether there is a choice in how it hears of expiry."""
        is_free = query._bound.hop is None and query._forced.expiry == "auto"
        if is_free and reads_expiring_join(plan.node):
            self._expiring[query.name] = query
        else:
            self._expiring.pop(query.name, None)

    def _forget_windows(self, query: Query) -> None:
        self._alone.discard(query.name)
        if (windows := self._windows.pop(query.name, None)) is not None:
            for stream in windows.streams:
                self._on_stream[stream][windows.readers] -= 1
                self._on_stream[stream] += Counter()  # without those that are none

    def is_met(self, streams: frozenset[str], readers: Readers) -> bool:
        """Whether other queries have windows over the same streams, and not just the same with it; or rows of
        these are kept in common already."""
        from penstock.engine.sharing.shared_windows import SharedWindows

        at_work = self._engine._runtime.shared
        return any(
            at_work.has(SharedWindows, one) or self._on_stream.get(one, {}).keys() - {readers}
            for one in streams
        )

    def _count_windows(self, query: Query, alone: Planned, plan: PlanNode) -> None:
        """Note the windows of a query, by the plan that it would have alone, and whether it has that. Who had
        the only ones may go over."""
        if query._forced.sharing == "unshared" or alone.approach != "promises":
            return
        if not keeps_rows(alone.node):
            return
        from penstock.optimizer.share.share_windows import readers_of, share_windows, shared_streams

        windows = Windows(shared_streams(share_windows(alone.node)), readers_of(alone.node))
        if not windows.streams:
            return
        self._windows[query.name] = windows
        for stream in windows.streams:
            self._on_stream.setdefault(stream, Counter())[windows.readers] += 1
        if not shared_streams(plan):
            self._alone.add(query.name)
        self._has_company |= bool(self._alone) and self.is_met(*windows)
        if self._has_company:
            self._look_at_windows()

    def _look_at_windows(self) -> None:
        """Let queries that are not alone any more keep their rows in common with others."""
        self._has_company = False
        for name in sorted(self._alone):
            if self.is_met(*self._windows[name]):
                self._go_over(self._engine._queries[name.lower()])

    def _go_over(self, query: Query) -> None:
        """Let a query keep its rows in common with others, as soon as they are there."""
        from penstock.optimizer.explain.completeness import complete_from
        from penstock.optimizer.planning.planner import plan_with_others

        engine, runtime = self._engine, self._engine._runtime
        if runtime.is_replanned(query.name):
            self._has_company = True  # another time
            return
        self._alone.remove(query.name)
        if query._pipeline.error is not None:
            return
        decided = query._how()
        alone = engine._plan(query._bound, query._counting, query.name, None, query._forced, decided)
        planned = plan_with_others(alone)
        if not query.count and not any(runtime.streams[one].rows_in for one in query.streams):
            runtime.start_again(query.name, planned.node)
            return
        query._keep_complete_from()
        runtime.replan(query.name, planned.node, planned.approach, complete_from, planned.netting)

    def look(self) -> None:
        """After a push: what is due is looked at."""
        rows = self._engine._runtime.rows_in
        if self._has_company:
            self._look_at_windows()
        if rows >= self.look_after:
            most = max(MOST_ROWS, MOST_ROWS_EACH * len(self._engine._queries))
            self.look_after = min(2 * rows, rows + most)
            self.look_at_plans()
        elif self._due:
            self._look_at_expiry()
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
        from penstock.engine.sharing.shared_join import SharedJoin

        for shared_join in self._engine._runtime.shared.of(SharedJoin):
            for join in shared_join.joins:
                join.reconsider()
        self._due = list(dict.fromkeys([*self._due, *self._expiring]))  # who has waited first
        self._look_at_expiry()

    def _look_at_expiry(self) -> None:
        """Think over ways of expiry, of as many queries as a push may wait for."""
        looked, self._due = self._due[:LOOKS_AT_EXPIRY], self._due[LOOKS_AT_EXPIRY:]
        for name in looked:
            if (query := self._expiring.get(name)) is not None:
                self._look_at_expiry_of(query)

    def _look_at_modes_of(self, query: Query) -> None:
        """Let a hopping query run in other modes, if those are clearly cheaper."""
        from penstock.optimizer.explain.completeness import complete_from

        engine, pipeline = self._engine, query._pipeline
        decided, watch = query._how(), query._watch
        is_free = pipeline.error is None and not engine._runtime.is_replanned(query.name)
        if decided is None or watch is None or not is_free:
            return
        found = watch.look(decided, pipeline, engine._runtime.streams, engine._weights)
        if found is None:
            return
        alone = engine._plan(query._bound, query._counting, query.name, None, query._forced, found)
        planned = self.alter(query, alone)
        query._keep_complete_from()
        query._decide_on_next(planned.node, found)
        engine._runtime.replan(query.name, planned.node, planned.approach, complete_from, planned.netting)

    def _look_at_expiry_of(self, query: Query) -> None:
        """Let a query hear of expiry in another way, if that is clearly cheaper."""
        from penstock.optimizer.explain.completeness import complete_from
        from penstock.optimizer.plan.choose_expiry import choose_expiry

        engine, pipeline = self._engine, query._pipeline
        if pipeline.error is not None:
            return
        approach = choose_expiry(pipeline.facts().shown, engine._weights)
        if approach == pipeline.approach or engine._runtime.is_replanned(query.name):
            return
        alone = engine._plan(query._bound, query._counting, query.name, approach, query._forced)
        planned = self.alter(query, alone)
        query._keep_complete_from()
        engine._runtime.replan(query.name, planned.node, approach, complete_from)


def reads_expiring_join(plan: PlanNode) -> bool:
    return any(isinstance(node, LifetimeNode | ChangeJoinNode) for node in plan_nodes(plan))

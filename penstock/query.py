"""What a user holds of a query: its results, and what is known of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from penstock.engine.rows.errors import UsageError, did_you_mean
from penstock.optimizer.planning.forced import Forced

from .turns import Turns, change, turn

if TYPE_CHECKING:
    from penstock.engine.plan.plan import PlanNode
    from penstock.engine.sharing.pipeline import Pipeline
    from penstock.optimizer.hopping.optimize_hopping import HoppingPlan
    from penstock.optimizer.hopping.reassign_modes import Watch
    from penstock.optimizer.plan.decided import Decided
    from penstock.optimizer.tree import logical

    from .api import Engine

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class Query:
    """A continuous query at work; made by `Engine.query` or CREATE QUERY."""

    _bound: logical.Query
    _pipeline: Pipeline
    _forced: Forced

    def __init__(self, engine: Engine, name: str, counting: bool) -> None:
        self._engine = engine
        self._name = name
        self._counting = counting
        self._not_begun: str | None = "begins when the running call is done"
        """What keeps it from being at work; None: it is."""
        self._replanned_from: tuple[int | None] | None = None
        """From when on it was exact before its plan was changed for another of the same answer, or from when
        on it has the answer of its new windows."""
        self._decided: HoppingPlan | None = None
        """How a hopping query runs, and what else there was."""
        self._next_decided: tuple[PlanNode, HoppingPlan] | None = None
        """A plan that is catching up, and how it will run then."""
        self._watch: Watch | None = None
        """What its operators have shown."""

    @property
    def _turns(self) -> Turns:
        return self._engine._turns

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def _begin(self, bound: logical.Query, pipeline: Pipeline, forced: Forced) -> None:
        """From now on it is at work."""
        self._bound, self._pipeline, self._forced = bound, pipeline, forced
        self._not_begun = None

    def _take_name(self, name: str) -> None:
        """Its name was taken by another."""
        self._name = name

    def _ask_for(self, bound: logical.Query) -> None:
        """It asks for something else, or says it in other words."""
        self._bound = bound

    def _decide_on_next(self, plan: PlanNode, decided: HoppingPlan) -> None:
        """Run as was decided as soon as this plan is at work."""
        self._next_decided = plan, decided

    def _could_not_begin(self, error: Exception) -> None:
        if self._not_begun is not None:
            self._not_begun = f"could not be started: {error}"

    def _require_begun(self) -> None:
        if self._not_begun is not None:
            raise UsageError(f"Expected a query at work, found `{self.name}`, which {self._not_begun}")

    def _decide_on(self, decided: Decided | None) -> None:
        """Run as was decided; modes that were not forced may be changed while it runs."""
        self._decided, self._next_decided, self._watch = cast("HoppingPlan | None", decided), None, None
        if decided is not None:
            from penstock.optimizer.hopping.reassign_modes import Watch

            self._watch = Watch()

    def _how(self) -> HoppingPlan | None:
        """How a hopping query runs now."""
        if self._next_decided is not None and self._pipeline.plan is self._next_decided[0]:
            self._decide_on(self._next_decided[1])
        return self._decided

    @property
    @turn
    def sql(self) -> str:
        """The text it was made from."""
        self._require_begun()
        return self._bound.sql

    @property
    @turn
    def streams(self) -> tuple[str, ...]:
        """The streams it reads."""
        from penstock.optimizer.tree.logical import streams_of

        self._require_begun()
        return streams_of(self._bound.root)

    @property
    @turn
    def tables(self) -> tuple[str, ...]:
        """The tables it reads."""
        from penstock.optimizer.tree.logical import tables_of

        self._require_begun()
        return tables_of(self._bound.root)

    @property
    @turn
    def schema(self) -> pa.Schema:
        """Columns of its results: `_ts`, then what it selects."""
        self._require_begun()
        return self._pipeline.sink.schema

    @property
    @turn
    def count(self) -> int:
        """Result rows so far, read or not."""
        return 0 if self._not_begun else self._pipeline.count

    @property
    @turn
    def complete_from(self) -> datetime.datetime | None:
        """From when on the answers are exact (UTC); None: from the start, NEVER (datetime.max): not yet."""
        from penstock.optimizer.explain.completeness import complete_from

        if self._not_begun:
            return NEVER
        replanned = self._replanned_from
        since = complete_from(self._pipeline) if replanned is None else replanned[0]
        if since is None:
            return None
        try:
            return EPOCH + datetime.timedelta(microseconds=since)
        except OverflowError:  # never, or later than there are dates
            return NEVER

    @property
    @turn
    def accuracy(self) -> float:
        """What part of the results that there are it has found, at least.

        1.0 but for joins on ORDERED columns, if keys come further out of order than was known.
        """
        joins = [] if self._not_begun else self._pipeline.ordered_joins
        groups = [] if self._not_begun else self._pipeline.final_groups
        if not joins and not groups:
            return 1.0
        from penstock.engine.ordered_keys.facts import accuracy_of, each_makes

        each = each_makes(self._pipeline.plan, self._engine._runtime.tables)
        return accuracy_of(self._pipeline.count, joins, groups, each)

    @turn
    def results(self) -> pa.Table:
        """What is new since the last call; a query that failed gives what it had before, then its error."""
        self._require_begun()
        sink, error = self._pipeline.sink, self._pipeline.error
        if error is not None and not sink.state_rows:
            raise error.with_traceback(None)
        if self._counting:
            raise UsageError(f"Expected a query that keeps rows, found `{self.name}`, which only counts")
        return sink.drain()

    def subscribe(self, callback: Callable[[pa.RecordBatch], None]) -> None:
        """Call back with each batch of results, in place of keeping them for `results`."""
        if self._counting:
            raise UsageError(f"Expected a query that delivers rows, found `{self.name}`, which only counts")
        if not callable(callback):
            raise UsageError(f"Expected a function to call with each batch, found `{callback!r}`")
        self._subscribe(callback)

    @change
    def _subscribe(self, callback: Callable[[pa.RecordBatch], None]) -> None:
        self._require_begun()
        self._pipeline.sink.subscribe(self._turns.heard(self.name, callback))

    def drop(self) -> None:
        """Stop the query and forget its state; the other queries go on. It calls its subscribers no more."""
        if self._turns.is_ours and self._not_begun is None:
            self._pipeline.sink.subscribers.clear()
        self._drop()

    @change
    def _drop(self) -> None:
        self._require_begun()
        if self._engine._queries.get(self.name.lower()) is not self:
            raise UsageError(f"Expected a query at work, found `{self.name}` dropped already")
        self._engine._drop(self.name)

    def _begins_anew(self) -> None:
        """It keeps no rows, whatever it did: when answers are exact is a matter of its plan."""
        self._replanned_from = None

    def _waits(self) -> None:
        """New windows are asked for and not in force yet."""
        from penstock.engine.rows.window import MAX_TS

        self._replanned_from = (MAX_TS,)

    def _goes_over(self, since: int | None) -> None:
        """New windows are in force."""
        self._replanned_from = (since,)

    def _keep_complete_from(self) -> None:
        """Another plan of the same answer is to come."""
        from penstock.optimizer.explain.completeness import complete_from

        if self._replanned_from is None:
            self._replanned_from = (complete_from(self._pipeline),)

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.count:,} results>"


class UnknownQueryError(UsageError, KeyError):
    """No query of that name. A mapping's KeyError, whose text is not shown in quotes."""

    __str__ = Exception.__str__


class Queries(Mapping[str, Query]):
    """Queries by name, in the order they were started."""

    def __init__(self, queries: dict[str, Query]) -> None:
        self._queries = dict(queries)

    def __getitem__(self, name: str) -> Query:
        found = self._queries.get(name.lower()) if isinstance(name, str) else None
        if found is None:
            hint = did_you_mean(str(name), self) if self._queries else "No query has been started"
            hint = hint or "list(engine.queries) names them"
            raise UnknownQueryError(f"Expected the name of a query, found `{name}`. {hint}")
        return found

    def __iter__(self) -> Iterator[str]:
        return (query.name for query in self._queries.values())

    def __len__(self) -> int:
        return len(self._queries)

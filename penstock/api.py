"""The public face: an Engine that takes SQL and Arrow and gives Arrow.

Nothing heavy is loaded before the first Engine is made: `import penstock` costs about what pyarrow costs.
"""

from __future__ import annotations

import datetime
import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from penstock.engine.rows.errors import BindError, FileError, HopsError, UsageError, did_you_mean
from penstock.engine.rows.types import ARROW_TYPES

from .query import Forced, Queries, Query
from .turns import DEADLOCK_AFTER_S, Turns, between, change, turn

if TYPE_CHECKING:
    from penstock.engine.flow.scheduler import Scheduler
    from penstock.engine.plan.approach import Approach
    from penstock.optimizer.bind.catalog import Catalog, StreamDef, TableDef
    from penstock.optimizer.costs.weights import Weights
    from penstock.optimizer.plan.decided import Decided
    from penstock.optimizer.planning.passes import Draft
    from penstock.optimizer.read import statements
    from penstock.optimizer.tree import logical


class Engine:
    """Streams, queries and what connects them; any number of threads may use it (turns.py).

    Examples:
        >>> engine = Engine()
        >>> engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT)")
        >>> query = engine.query("SELECT x FROM s WHERE x > 1")
        >>> engine.push("s", {"ts": [1, 2, 3], "x": [1, 2, 3]})
        >>> query.results()["x"].to_pylist()
        [2, 3]
    """

    def __init__(
        self,
        *,
        index: str | tuple[str, str] = "auto",
        sharing: str = "auto",
        expiry: str = "auto",
        modes: str | Mapping[str, str] = "auto",
        execution: str = "waat",
        optimize: str = "exhaustive",
        late: str = "error",
        weights: Weights | None = None,
        scheduler: Scheduler | None = None,
        panes: bool = True,
        multiway: bool = True,
        without: Collection[str] = (),
        evict: str = "key",
        disorder: str = "auto",
        memory_limit: str | int | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_limit: str | int | None = None,
        deadlock_after_s: float = DEADLOCK_AFTER_S,
    ) -> None:
        """`index`: auto, scan, hash, t-tree, b+tree, or one for each side of a join (left, right).

        `modes`: that of all operators of hopping queries, or of some by the names EXPLAIN shows, which every
        one of these queries must have; `execution`: how operators that read changes take rows;
        `optimize`: how the order of their joins and the places of differences are searched for.
        `late`: error or drop, what becomes of late rows of streams of which no query says so.
        `panes`: whether aggregates of hopping queries may be put together from panes.
        `multiway`: whether three or more streams may be joined by one operator; else two by two.
        `without`: passes of planning to leave out, by name; answers stay the same.
        `evict`: when rows of joins on ORDERED columns go: by key; or fifo, as the paper's buffers do.
        `disorder`: auto, none, msf, dbf or hybrid, how these joins keep within memory (memory_rules.py).
        `memory_limit`: of these joins together, `200 MB`, `100000 rows` or an integer of bytes.
        `spool`: a folder to which their rows may go, of at most `spool_limit` bytes.
        `deadlock_after_s`: how long other threads wait for a subscriber that does not return.
        """
        from penstock.engine.running.runtime import Runtime
        from penstock.optimizer.bind.catalog import Catalog
        from penstock.optimizer.costs.statistics import Rates
        from penstock.optimizer.costs.weights import load
        from penstock.optimizer.planning.passes import Setting
        from penstock.optimizer.share.lay_out_joins import LayoutChooser

        from .adapt import Adapter
        from .compile_notice import compile_notice
        from .memory_options import check_memory
        from .options import check_forced, check_option, check_passes, check_seconds
        from .running_clock import RunningClock

        compile_notice.listen()
        self._forced = check_forced(
            Forced(), modes=modes, execution=execution, sharing=sharing, expiry=expiry, index=index
        )
        check_option("optimize", optimize)
        check_seconds("deadlock_after_s", deadlock_after_s)
        check_option("late", late)
        check_option("evict", evict)
        check_option("disorder", disorder)
        self._memory = check_memory(disorder, memory_limit, spool, spool_limit)
        self._late = late
        self._weights = weights or load()
        self._forced_weights = weights
        self._rates = Rates()
        choose_layout = LayoutChooser(sharing, self._forced.index, self._rates, self._weights)
        self._runtime = Runtime(
            RunningClock(), sharing, choose_layout, scheduler, self._forget_lateness, self._memory.rules
        )
        self._catalog: Catalog = Catalog()
        self._queries: dict[str, Query] = {}
        self._closed = False
        self._adapter = Adapter(self)
        self._setting = Setting(
            self._rates,
            self._weights,
            self._forced,
            optimize,
            panes,
            multiway,
            check_passes(without),
            evict,
            self._adapter,
        )
        self._lateness: dict[str, Counter[str | None]] = {}
        self._unnamed = 0
        self._note: dict[str, Any] = {}
        self._deadlock_after_s = deadlock_after_s
        self._turns = Turns(self._runtime, deadlock_after_s)

    # -- statements ---------------------------------------------------------------------------------

    def execute(self, sql: str) -> None:
        """Run any number of statements; if one is wrong, none has any effect."""
        from penstock.optimizer.read.parse import parse_script

        require_text("statements", sql)
        self._execute(parse_script(sql))

    @change
    def _execute(self, script: Sequence[statements.Statement]) -> None:
        from .script import run_script

        run_script(self, script)

    def query(
        self,
        sql: str,
        name: str | None = None,
        *,
        count_only: bool = False,
        modes: str | Mapping[str, str] | None = None,
        execution: str | None = None,
        sharing: str | None = None,
        expiry: str | None = None,
        index: str | tuple[str, str] | None = None,
    ) -> Query:
        """Start a query. With `count_only` results are counted and never made, which is cheaper.

        `modes` forces the mode of all operators of a hopping query, or of some by the names EXPLAIN shows.
        The others are the engine's keywords, for this query: it shares joins with those that force the same.
        A subscriber is given a query that begins when the running call is done.
        """
        from penstock.optimizer.read.parse import parse_query

        from .options import check_forced

        require_text("the text of a query", sql)
        if name is not None:
            require_text("a name", name)
            if not name.strip():
                raise UsageError(f"Expected a name, found `{name}`")
        asked = {"modes": modes, "execution": execution, "sharing": sharing, "expiry": expiry, "index": index}
        asked = {option: value for option, value in asked.items() if value is not None}
        forced = check_forced(self._forced, **asked)
        query = Query(self, name or self._free_name(), count_only)
        self._query(query, parse_query(sql), forced, asked, is_named=name is not None)
        return query

    @turn
    def _free_name(self) -> str:
        while True:
            self._unnamed += 1
            name = f"q{self._unnamed}"
            if name not in self._queries:
                return name

    @change
    def _query(
        self,
        query: Query,
        statement: statements.SelectStatement,
        forced: Forced,
        asked: Mapping[str, object],
        is_named: bool,
    ) -> None:
        """Start a query that somebody holds already; `asked` was forced of it alone."""
        from penstock.optimizer.bind.bind import bind_query

        from .options import refuse_unused

        try:
            self._refuse_closed("a query can be started")
            if query.name.lower() in self._queries:
                if is_named:
                    raise BindError(f"Expected a new name, found a query `{query.name}` already")
                query._take_name(self._free_name())
            bound = bind_query(statement, self._catalog)
            if bound.hop is None and not asked.keys().isdisjoint(("modes", "execution")):
                raise UsageError(
                    "Expected modes and execution with a query that has HOP BY, found one without"
                )
            planned = self._plan(bound, query._counting, query.name, None, forced)
            refuse_unused(asked, planned.node)
            self._start(query.name, bound, planned, query._counting, forced, query)
        except Exception as error:
            query._could_not_begin(error)
            raise

    @property
    @turn
    def queries(self) -> Mapping[str, Query]:
        """The queries at work, by name, whatever its case."""
        return Queries(self._queries)

    @property
    @turn
    def streams(self) -> Mapping[str, pa.Schema]:
        """The declared streams and what is to be pushed to them."""
        return {
            stream.name: pa.schema([column.field for column in stream.columns])
            for stream in self._catalog.streams
        }

    @property
    @turn
    def tables(self) -> Mapping[str, pa.Schema]:
        """The declared tables and what is to be pushed to them, before any stream."""
        return {
            table.name: pa.schema([column.field for column in table.columns])
            for table in self._catalog.tables
        }

    @turn
    def table_rows(self, table: str) -> pa.Table:
        """The rows that a table has."""
        found = self._relation(table)
        if found.name not in self._runtime.tables:
            raise UsageError(f"Expected the name of a table, found the stream `{found.name}`")
        return self._runtime.tables[found.name].rows

    @turn
    def time_column(self, stream: str) -> str:
        """The column that says when a row happened."""
        found = self._stream(stream)
        return found.columns[found.time_column].name

    @turn
    def slack(self, stream: str) -> datetime.timedelta:
        """How late a row of the stream may be, as its WATERMARK says."""
        return datetime.timedelta(microseconds=self._stream(stream).slack_us)

    @turn
    def ahead(self, stream: str) -> datetime.timedelta | None:
        """How far ahead of the others a row of the stream may be, None: as far as it likes."""
        found = self._stream(stream).ahead
        return None if found is None else datetime.timedelta(microseconds=found.limit_us)

    @turn
    def latest(self, stream: str) -> int | None:
        """The latest time of a row of the stream that was taken, in microseconds; None: there was none."""
        found = self._runtime.streams[self._stream(stream).name]
        return None if found.first_ts is None else found.last_ts

    @turn
    def partition_key(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """The column by which each stream can be split over engines, for all queries; some may be given."""
        from penstock.optimizer.split.find_partition_key import find_partition_key

        bound = {name: query._bound for name, query in self._queries.items()}
        fixed = {self._stream(name).name: column for name, column in (given or {}).items()}
        return find_partition_key(bound, self._catalog, fixed)

    # -- data ---------------------------------------------------------------------------------------

    def push(self, stream: str, data: Any) -> None:
        """Push rows: a pyarrow Table or RecordBatch, pandas, polars, or a dict of columns.

        Raises DataError, with nothing taken in, if the rows are not what the stream was declared to be; and
        TakenError when all are taken in, if they stopped a query or a subscriber raised.
        """
        if not isinstance(data, pa.Table):
            from .inputs import to_table

            data = to_table(data, stream)
        self._push(stream, data)

    @change
    def _push(self, stream: str, table: pa.Table) -> None:
        self._refuse_closed("rows can be pushed")
        name = stream if stream in self._runtime.streams else self._relation(stream).name
        self._runtime.push(name, table)
        self._adapter.look()

    @change
    def advance(self, ts: int | datetime.datetime, stream: str | None = None) -> None:
        """Time has come this far on every stream, or on the one named, with or without rows."""
        from .inputs import to_microseconds

        self._refuse_closed("time can be advanced")
        name = None if stream is None else self._stream(stream).name
        self._runtime.advance(to_microseconds(ts), name)

    @change
    def close(self, *, drain: bool = False) -> None:
        """End the streams: whatever is pending comes out, of hopping queries the hop that is not over too.

        `drain`: time goes on until all bounded windows are empty. Results can still be read.
        """
        if not self._closed:
            self._closed = True
            try:
                self._runtime.close(drain)
            except HopsError:  # nothing was done
                self._closed = False
                raise

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- insight ------------------------------------------------------------------------------------

    @turn
    def explain(self, *, analyze: bool = False, json: bool = False) -> str:
        """The plan of every query; `analyze` adds measured against estimated, `json` is for programs."""
        from penstock.engine.sharing.facts import find_waiting
        from penstock.engine.sharing.shared_join import SharedJoin
        from penstock.optimizer.explain.description import write_json, write_tree
        from penstock.optimizer.explain.explain import Explainer
        from penstock.optimizer.explain.explain_sharing import SharedJoins

        shared = SharedJoins(self._rates, self._weights, analyze)
        limited = self._memory.rules.is_needed
        explainer = Explainer(self._rates, self._weights, analyze, shared.take, limited)
        queries = [
            explainer.query(
                query._bound,
                query._pipeline.facts(),
                query.complete_from,
                query._how(),
                self._adapter.shown(query) if analyze else {},
                query._forced.expiry,
                query._forced.differing(self._forced),
                find_waiting(query._pipeline, self._runtime.streams),
            )
            for query in self._queries.values()
        ]
        shared_joins = [
            shared.shared_join(one) for one in self._runtime.shared.of(SharedJoin) if len(one.members) > 1
        ]
        if json:
            return write_json(queries, shared_joins)
        return "\n\n".join(write_tree(one) for one in [*queries, *shared_joins]) or "No queries."

    @turn
    def stats(self) -> dict[str, Any]:
        """Per stream and per operator: rows in and out, state rows and bytes, queue length, busy time."""
        from .stats import collect_stats

        return collect_stats(self._runtime)

    @turn
    def dropped(self) -> dict[str, tuple[int, int]]:
        """Of each stream, how many rows were dropped as late, and as too far ahead: a part of `stats`."""
        from .stats import rows_dropped

        return rows_dropped(self._runtime)

    @change
    def set_rate(self, stream: str, rows_per_second: float) -> None:
        """Tell the cost model how fast a stream is, before any of it has come."""
        if not isinstance(rows_per_second, int | float) or not 0 < rows_per_second < math.inf:
            raise UsageError(f"Expected a rate above 0 in rows per second, found `{rows_per_second!r}`")
        self._rates.set(self._stream(stream).name, rows_per_second)

    @change
    def plan_again(self) -> None:
        """Plan every query anew for the rates that are known now; before any rows have come."""
        if self._runtime.rows_in:
            raise UsageError("Expected no rows yet, found some: plans adapt by themselves while rows flow")
        for query in list(self._queries.values()):
            self._drop(query.name)
            planned = self._plan(query._bound, query._counting, query.name, None, query._forced)
            self._start(query.name, query._bound, planned, query._counting, query._forced)

    # -- checkpoints --------------------------------------------------------------------------------

    @between
    def checkpoint(self, path: str | os.PathLike[str], *, note: Mapping[str, Any] | None = None) -> None:
        """Write everything to a file, in place of what was there, all at once or not at all.

        Subscribers are not part of it: subscribe again after `restore`. `note`: a few values to find again.
        """
        from penstock.engine.checkpoints.checkpoint import write_file

        try:
            write_file(path, self._dump(note))
        except FileError:
            self._memory.no_checkpoint()
            raise

    @between
    def checkpoint_bytes(self, *, note: Mapping[str, Any] | None = None) -> bytes:
        """The same as bytes."""
        return b"".join(self._dump(note))

    @staticmethod
    def restore(path: str | os.PathLike[str]) -> Engine:
        """An engine as it was when `checkpoint` wrote the file; raises CheckpointError."""
        from penstock.engine.checkpoints.checkpoint import read_file

        return Engine._load(read_file(path), str(path))

    @staticmethod
    def restore_bytes(data: bytes, source: str = "bytes given") -> Engine:
        """The same from what `checkpoint_bytes` gave; `source`: what messages call them.

        Examples:
            >>> engine = Engine()
            >>> engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT)")
            >>> query = engine.query("SELECT SUM(x) AS total FROM s [RANGE UNBOUNDED]", name="totals")
            >>> engine.push("s", {"ts": [1, 2], "x": [10, 20]})
            >>> again = Engine.restore_bytes(engine.checkpoint_bytes(note={"batch": 7}))
            >>> again.push("s", {"ts": [3], "x": [30]})
            >>> again.queries["totals"].results()["total"].to_pylist()[-1], again.note
            (60, {'batch': 7})
        """
        return Engine._load(data, source)

    @property
    @turn
    def options(self) -> dict[str, Any]:
        """The keywords it was made with, all but `scheduler`; `weights` only if they were given.

        Examples:
            >>> Engine(sharing="chain").options["sharing"]
            'chain'
        """
        forced = self._forced
        return {
            "index": tuple(kind or "auto" for kind in forced.index),
            "sharing": forced.sharing,
            "expiry": forced.expiry,
            "modes": forced.modes,
            "execution": forced.execution,
            "optimize": self._setting.optimize,
            "late": self._late,
            "deadlock_after_s": self._deadlock_after_s,
            "weights": self._forced_weights,
            "panes": self._setting.panes,
            "multiway": self._setting.multiway,
            "without": tuple(sorted(self._setting.without)),
            "evict": self._setting.evict,
            **self._memory.said,
        }

    @property
    @turn
    def note(self) -> dict[str, Any]:
        """What was noted with the checkpoint the engine was restored from; empty if it was not."""
        return dict(self._note)

    def _dump(self, note: Mapping[str, Any] | None) -> list[Any]:
        from penstock import __version__
        from penstock.engine.checkpoints.checkpoint import dump

        self._memory.before_checkpoint()
        return dump(self, {} if note is None else note, __version__)

    @staticmethod
    def _load(data: bytes, source: str) -> Engine:
        from penstock import __version__
        from penstock.engine.checkpoints.checkpoint import load
        from penstock.engine.rows.errors import CheckpointError

        engine, note = load(data, __version__, source)
        if not isinstance(engine, Engine):
            raise CheckpointError(f"Expected an engine, found `{type(engine).__name__}`", source=source)
        engine._go_on(note, source)
        return engine

    def _go_on(self, note: dict[str, Any], source: str) -> None:
        """It has come back from a checkpoint, with this note."""
        self._note = note
        self._memory.after_restoring(source)
        self._runtime.come_back()
        self._turns = Turns(self._runtime, self._deadlock_after_s)

    def __getstate__(self) -> dict[str, Any]:
        """Of a checkpoint who waits for the engine is no part; what is noted goes with it by itself."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_turns", "_note")}

    # -- inside -------------------------------------------------------------------------------------

    def _plan(
        self,
        bound: logical.Query,
        counting: bool,
        name: str,
        approach: Approach | None = None,
        forced: Forced | None = None,
        decided: Decided | None = None,
    ) -> Draft:
        """The plan that a query would have alone."""
        from penstock.optimizer.plan.choose_expiry import first_expiry
        from penstock.optimizer.planning.passes import Asked
        from penstock.optimizer.planning.planner import plan_alone

        forced = forced or self._forced
        approach = approach or first_expiry(forced.expiry)
        return plan_alone(self._setting, Asked(bound, name, counting, forced, approach, decided))

    def _start(
        self,
        name: str,
        bound: logical.Query,
        alone: Draft,
        counting: bool,
        forced: Forced | None = None,
        query: Query | None = None,
    ) -> None:
        """`alone`: the plan it would have alone; `query`: who holds it already, if somebody does."""
        from penstock.optimizer.planning.planner import plan_with_others

        plan = plan_with_others(alone)
        changes = bound.emit in ("changes", "delta")
        fields = [("_ts", pa.timestamp("us")), *([("_diff", pa.int8())] if changes else [])]
        fields += [(one.name, ARROW_TYPES[one.type]) for one in bound.fields]
        pipeline = self._runtime.add_query(
            name, plan.node, pa.schema(fields), counting, changes, plan.netting, plan.approach
        )
        query = query or Query(self, name, counting)
        query._begin(bound, pipeline, forced or self._forced)
        query._decide_on(plan.decided)
        self._queries[name.lower()] = query
        self._adapter.add(query, alone.plan)
        self._count_lateness(query, 1)
        self._memory.warn_of(name, pipeline.plan)
        self._runtime.give_first(pipeline)

    def _alter(self, name: str, bound: logical.Query, counting: bool) -> None:
        from penstock.optimizer.explain.completeness import complete_from
        from penstock.optimizer.plan.plan_query import is_incremental

        query = self._queries[name.lower()]
        query._ask_for(bound)
        if not is_incremental(bound, self._setting.multiway):
            query._begins_anew()
            self._adapter.drop(query)  # it keeps no rows, whatever it did
            alone = self._plan(bound, counting, query.name, None, query._forced)
            self._runtime.alter_query(query.name, alone.node)
            return
        alone = self._plan(bound, counting, query.name, query._pipeline.approach, query._forced)
        planned = self._adapter.alter(query, alone)
        query._decide_on(planned.decided)
        query._waits()
        self._runtime.alter_changes(
            query.name, planned.node, planned.approach, complete_from, query._goes_over
        )

    def _declare(self, relation: StreamDef | TableDef) -> None:
        from penstock.engine.intake.ingest import StreamSchema
        from penstock.engine.intake.static_table import StaticTable
        from penstock.optimizer.bind.catalog import StreamDef

        self._catalog.add(relation)
        names = tuple(column.name for column in relation.columns)
        types = tuple(column.type for column in relation.columns)
        units = tuple(column.unit for column in relation.columns)
        if not isinstance(relation, StreamDef):
            self._runtime.add_table(StaticTable(relation.name, names, types, units))
        else:
            schema = StreamSchema(
                relation.name,
                names,
                types,
                relation.time_column,
                relation.slack_us,
                ahead=relation.ahead,
                idle_us=relation.idle_us,
                units=units,
                ordered=tuple(
                    (place, column.order)
                    for place, column in enumerate(relation.columns)
                    if column.order is not None
                ),
            )
            self._runtime.add_stream(schema)
            self._judge_lateness(relation.name)

    def _drop(self, name: str) -> None:
        query = self._queries.pop(name.lower())
        self._adapter.drop(query)
        self._runtime.drop_query(query.name)
        if query._pipeline.error is None:
            self._count_lateness(query, -1)

    def _forget_lateness(self, name: str) -> None:
        """A query that failed has no say any more."""
        self._count_lateness(self._queries[name.lower()], -1)

    def _count_lateness(self, query: Query, by: int) -> None:
        """A stream refuses late rows if a query of it says so, drops them if one says that, else does as
        `late` says."""
        for stream in query.streams:
            self._lateness.setdefault(stream, Counter())[query._bound.late] += by
            self._judge_lateness(stream)

    def _judge_lateness(self, stream: str) -> None:
        said = self._lateness.setdefault(stream, Counter())
        is_dropping = not said["error"] if self._late == "drop" else said["drop"] > 0 and not said["error"]
        self._runtime.streams[stream].judge_late("drop" if is_dropping else "error")

    def _drop_late(self, late: str) -> None:
        """Another word on late rows of streams of which no query says so."""
        self._late = late
        for stream in self._runtime.streams:
            self._judge_lateness(stream)

    def _wait_at_most(self, deadlock_after_s: float) -> None:
        """How long others wait from now on for a subscriber that does not return."""
        self._deadlock_after_s = deadlock_after_s
        self._turns.wait_at_most(deadlock_after_s)

    def _write_again(self, query: Query, sql: str, late: Literal["drop", "error"] | None) -> None:
        """Another text of the same query, which may say otherwise what becomes of late rows."""
        from dataclasses import replace

        is_at_work = query._pipeline.error is None
        if is_at_work:
            self._count_lateness(query, -1)
        query._ask_for(replace(query._bound, sql=sql, late=late))
        if is_at_work:
            self._count_lateness(query, 1)

    def _stream(self, name: str) -> StreamDef:
        from penstock.optimizer.bind.catalog import StreamDef

        found = self._relation(name)
        if not isinstance(found, StreamDef):
            raise UsageError(f"Expected a stream, found the table `{name}`")
        return found

    def _relation(self, name: str) -> StreamDef | TableDef:
        require_text("the name of a stream", name)
        found = self._catalog.find(name)
        if found is not None:
            return found
        known = self._catalog.names
        hint = did_you_mean(name, known) if known else "Declare it with CREATE STREAM"
        raise UsageError(f"Expected a declared stream, found `{name}`. {hint or ''}".rstrip())

    def _refuse_closed(self, what: str) -> None:
        if self._closed:
            raise UsageError(f"Expected an open engine, found it closed: only before close() {what}")


def require_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise UsageError(f"Expected {what} as text, found {type(value).__name__}")

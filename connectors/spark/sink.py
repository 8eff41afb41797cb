"""A sink for foreachBatch: every micro-batch goes through an engine, results come out as DataFrames.

What happens in batch N, and in this order:

    0  Spark has written the batch's offsets and watermark to its checkpoint
    1  the engine as it was after N-1: at hand, or restored from the state folder
    2  rows to Arrow, split by stream, put into time order
    3  Spark's watermark as a punctuation, then the rows: advance, push
    4  results of all queries written, as those of batch N
    5  the engine saved as `batch-N`, whole or not at all; `batch-(N-2)` goes
    6  Spark notes in its checkpoint that N is done

After a crash Spark begins with the first batch that step 6 has not noted, with the same rows and the same
watermark:

    crash in 1 to 4   N again, from the state after N-1: what 4 has written is removed, then written anew
    crash after 5     N again all the same, from the state after N-1, which is still there: 4 and 5 replace
                      what is there with its equal, as the same rows on the same state give the same results
    crash after 6     N+1, from the state after N

So files have every result exactly once. A function of the user's may be called more than once with the same
batch id and the same rows, and makes that the same as once by replacing what it did for that id.

An exception in a batch stops the streaming query. The engine has taken in part of the batch then, so it is
let go; a restart of the query, in this process or another, is a start like any other. So it is with a query
of ours that fails on the data: taken out of `queries`, the others go on. Rows that are late, too far ahead or
without a time are no exception: they are left out and counted (start_engine.py, dropped.py).

Two sinks at work on one state folder would overwrite each other: the second is refused (owner.py).

A bounded input ends while rows are still held, for slack or because the other stream has not come as far,
and within a hop. `close` brings out their results, and the answer of the hop as far as it goes, as those of
batch N+1, from an engine that is then let go. Should the query be started again with more input, it goes on
from the state after N, and the true batch N+1 replaces all of that: the hop comes again, whole, in the batch
that brings time beyond it, or once more as far as it goes with the next `close`.

    hop 10, batches     0: rows at 1, 11    close: hop 10 was of batch 0, hop 20 is of batch 1
    again with          1: rows at 12       of batch 1 there is nothing; close: hop 20 is of batch 2
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import penstock
from penstock.connectors.push_steps import push_in_steps
from penstock.engine.rows.errors import UsageError

from .at_hand import EnginesAtHand
from .dropped import Dropped, dropped_by, warn
from .outputs import Callbacks, Files, Output, Taker
from .owner import Owner
from .running_batch import is_running, is_running_here, running_batch
from .saved_states import SavedStates
from .schema import declare_stream, order_of
from .split_batch import split_batch
from .start_engine import Setup, take_watermark, telling_how_to_go_on

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PHASES = ("read", "sort", "push", "results", "save")


class Sink:
    """The function for foreachBatch; made by `sink`."""

    def __init__(self, setup: Setup, states: SavedStates, output: Output) -> None:
        self.rows = 0
        """Taken in so far."""
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        """Where the time went."""
        self._setup = setup
        self._states = states
        self._output = output
        self._at_hand = EnginesAtHand()
        """The engine as it is after batch `_done`; none if a batch was stopped in its midst, or long ago."""
        self._done = -1
        self._session: SparkSession | None = None
        self._untimed: Counter[str] = Counter()
        """Rows without a time that the state's queries have left out so far, by stream."""
        self._dropped: dict[str, Dropped] = {}
        self._lock = threading.Lock()
        output.check(setup.result_schemas)
        states.claim.look(is_running_here)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take in a micro-batch; Spark calls this."""
        with self._lock:
            self._session = frame.sparkSession
            running = running_batch(frame.sparkSession)
            engine = self._at_hand.take(None, batch_id - 1)
            if engine is None:
                with self._claimed(frame.sparkSession, running.query_id):
                    engine = self._start(frame.sparkSession, batch_id, running.query_id)
            before = dropped_by(engine, self._untimed)
            with self._timed("read"):
                table = frame.toArrow()
            with self._timed("sort"):
                parts = split_batch(table, self._setup.time_columns, self._untimed)
            with self._timed("push"), telling_how_to_go_on():
                if running.watermark_us is not None:
                    take_watermark(engine, running.watermark_us)
                for stream, part in parts.items():
                    push_in_steps(engine, stream, part)
            self._states.claim.check()
            self._write(frame.sparkSession, engine, batch_id)
            with self._timed("save"):
                self._states.save(engine, batch_id, running.query_id, self._untimed)
            self._dropped = dropped_by(engine, self._untimed)
            warn(before, self._dropped, f"Batch {batch_id}")
            self.rows += table.num_rows
            self._done = batch_id
            self._at_hand.keep(None, batch_id, engine)

    def close(self, session: SparkSession | None = None) -> None:
        """The input has ended, for now: whatever is pending comes out, as the results of one more batch.

        Nothing of this is saved: started again with more input, the query goes on from its last batch.
        Another sink may have the state then. `session`: needed if no batch has come since the sink was made.
        """
        with self._lock:
            session = session or self._session
            if session is None:
                raise UsageError("Expected a batch before close, or a session to close with, found neither")
            engine = self._at_hand.take(None, self._done)
            if engine is None:
                batches = self._states.batches()
                if not batches:
                    return
                with self._claimed(session, None):
                    self._done = batches[-1]
                    engine = self._start(session, self._done + 1, None)
            self._states.claim.check()
            engine.close()
            self._write(session, engine, self._done + 1)
            self._states.claim.release()

    def stats(self) -> dict[str, Any]:
        """Rows taken in by this sink, and by stream those left out since the state began: `late`, too far
        `ahead`, `without_time`."""
        return {"rows": self.rows, "dropped": {name: asdict(one) for name, one in self._dropped.items()}}

    @contextmanager
    def _claimed(self, session: SparkSession, query_id: str | None) -> Iterator[None]:
        """The state is ours from now on, unless it turns out not to be for us."""
        self._states.claim.make(Owner(query_id), partial(is_running, session))
        try:
            yield
        except BaseException:
            self._states.claim.release()
            raise

    def _start(self, session: SparkSession, batch_id: int, query_id: str | None) -> penstock.Engine:
        restored = self._states.load(batch_id, query_id)
        engine = self._setup.go_on(restored)
        self._untimed = Counter({} if restored is None else restored.note["without_time"])
        self._dropped = dropped_by(engine, self._untimed)
        self._output.begin(session, batch_id)
        return engine

    def _write(self, session: SparkSession, engine: penstock.Engine, batch_id: int) -> None:
        with self._timed("results"):
            results: dict[str, pa.Table] = {}
            for name, query in engine.queries.items():
                table = query.results()
                if table.num_rows:
                    results[name] = table
            self._output.write(session, results, batch_id)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - start


def sink(
    queries: str,
    *,
    state: str | Path | fs.FileSystem,
    streams: Mapping[str, DataFrame | StructType] | None = None,
    tables: Mapping[str, Any] | None = None,
    path: str | Path | None = None,
    format: str = "parquet",
    options: Mapping[str, Any] | None = None,
    results: Mapping[str, Taker] | Callable[[str, DataFrame, int], None] | None = None,
    ordered: Mapping[str, Mapping[str, str]] | None = None,
    engine: Mapping[str, Any] | None = None,
) -> Sink:
    """A function for foreachBatch that runs `queries` over the micro-batches.

    `queries`: statements, CREATE QUERY and whatever else; streams are declared by them, or by `streams`, the
    DataFrames by name. `tables`: rows of the declared tables. `state`: a folder for the engine's state, or
    what pyarrow.fs can open, which belongs to this query's checkpointLocation. Results go to files, `path`
    in a `format` of Spark's with its `options`; or to `results`, a function (DataFrame, batch id) by query,
    or one for all (name, DataFrame, batch id). `ordered`: columns of `streams` that grow, with what stands
    behind ORDERED, as {"s": {"n": "WITHIN 5 ROWS"}}. `engine`: keywords of `penstock.Engine`; late="drop" is
    the default here.
    """
    if (path is None) == (results is None):
        found = "neither" if path is None else "both"
        raise UsageError(f"Expected a `path` for results or functions in `results`, found {found}")
    growing = order_of(streams or {}, ordered)
    declared = [declare_stream(name, frame, ordered=growing[name]) for name, frame in (streams or {}).items()]
    setup = Setup("\n".join([*declared, queries]), tables or {}, engine or {})
    output: Output = Callbacks(results) if results is not None else Files(str(path), format, options or {})
    return Sink(setup, SavedStates(state), output)

"""An engine per bucket, run by Spark's transformWithState: the same shared plan for each one's keys.

What a batch has for a bucket is a step (bucket_state.py): Spark's watermark as a punctuation, then the rows.
A bucket without rows hears of time by a timer: one is always set for the millisecond after the watermark, and
fires with the next batch whose watermark is later.

After a step the engine stays in the worker, under the step's mark, and the next batch goes on with it if the
state in Spark's store has the same mark. Else it is another worker's bucket now, or a batch is given again
after a failure: then the engine is restored from the store, which has what Spark has noted as done and
nothing else. An executor with several cores has a worker for each and hands buckets to them as they
come, so there engines are restored often; with one core each, hardly ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from penstock.api import Engine
from penstock.engine.rows.errors import UsageError

from .at_hand import EnginesAtHand
from .bucket_state import BucketState, Head, Step
from .dropped import Dropped, dropped_by, log, sum_up
from .pack_rows import to_blob
from .running_batch import BATCH_ID, QUERY_ID
from .scaled_frame import PARTITIONS, check_partitions
from .settle import is_settled, settle
from .start_engine import Setup

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

ENGINES = "engines"
_at_hand = EnginesAtHand()
"""By Spark's query and bucket; marked with the mark of the step."""
_warned: tuple[str | None, str | None] | None = None
"""Query and batch of the last warning."""


class BucketEngine(StatefulProcessor):
    """What Spark calls, for each bucket of a partition in each batch."""

    def __init__(self, setup: Setup, layout: str, queries: str, buckets: int) -> None:
        """layout: the key and the buckets, which no restart may change; queries: stands for their text."""
        self._setup = setup
        self._buckets = buckets
        self._layout = layout
        self._queries = queries

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = BucketState(handle)

    def handleInputRows(
        self, key: tuple[int], rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        blobs: dict[str, list[bytes]] = defaultdict(list)
        for row in rows:
            blobs[row.stream].append(bytes(row.rows))
        return self._work(key[0], Step(timerValues.getCurrentWatermarkInMs(), blobs))

    def handleExpiredTimer(
        self, key: tuple[int], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        return self._work(key[0], Step(timerValues.getCurrentWatermarkInMs(), {}))

    def close(self) -> None:
        pass

    def _work(self, bucket: int, step: Step) -> Iterator[Row]:
        # 1. the engine as it was after the step before
        head = self._state.head()
        place = query_id(), bucket
        at_hand = _at_hand.take(place, head and head.mark)
        engine = self._engine_after(head, at_hand)
        # 2. time and rows in, results out
        before = dropped_by(engine, {})
        after = dropped_by(engine, step.run(engine, self._setup.time_columns))
        results = {name: query.results() for name, query in engine.queries.items()}
        # 3. the state
        saved = self._state.save(head, step, engine, self._layout, self._queries)
        if is_settled(ENGINES):
            _at_hand.keep(place, saved.mark, engine)
        del engine, at_hand
        settle(ENGINES)
        given = [given_row(name, to_blob(one)) for name, one in results.items() if one.num_rows]
        left_out = sum_up(after[stream].since(before[stream]) for stream in after)
        if left_out.rows:
            self._warn(left_out)
            given.append(given_row(late=left_out.late, without_time=left_out.without_time))
        return iter(given)

    def _warn(self, left_out: Dropped) -> None:
        """Once for a batch, of all buckets this worker has."""
        global _warned
        batch = query_id(), property_of_task(BATCH_ID)
        if batch != _warned:
            _warned = batch
            log.warning("Batch %s: left out rows, in a first bucket %s", batch[1], left_out)

    def _engine_after(self, head: Head | None, at_hand: Engine | None) -> Engine:
        if head is None:
            if property_of_task(BATCH_ID) == "0":
                check_partitions(property_of_task(PARTITIONS), self._buckets)
            return self._setup.go_on(None)
        if head.layout != self._layout:
            raise UsageError(
                f"Expected {head.layout} as in the checkpoint, found {self._layout}: "
                "give the same `key` and `buckets`, or start anew with another checkpointLocation"
            )
        engine = at_hand or self._state.restore(self._setup.time_columns)
        return engine if head.queries == self._queries else self._setup.go_on(engine)


def given_row(
    query: str | None = None, rows: bytes | None = None, late: int = 0, without_time: int = 0
) -> Row:
    """As GIVEN says."""
    return Row(query=query, rows=rows, rows_late=late, rows_without_time=without_time)


def query_id() -> str | None:
    """Spark's name of the streaming query whose task this is."""
    return property_of_task(QUERY_ID)


def property_of_task(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)

"""A DataFrame whose streaming query is started with as many shuffle partitions as its buckets can use.

Spark's default is 200, and each of them has a state store that is opened, written and noted in every batch:
with a few buckets nearly all of that is for nothing. The number is a setting of the session's, taken when a
query is started and kept in its checkpoint for good. So it is set while the query is started, and then put
back. A query that goes on from a checkpoint has the number it began with.

Spark makes plain DataFrames of what is selected from this one. Their queries begin with the session's number:
the buckets refuse one that is far too great, in batch 0, when nothing is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from penstock.engine.rows.errors import UsageError

from .buckets import SPREAD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTITIONS = "spark.sql.shuffle.partitions"
MOST_PER_BUCKET = 4
_setting = threading.Lock()


def partitions_for(buckets: int, given: int) -> int:
    """As many as were given if there are buckets for all, else the most over which buckets spread evenly."""
    return given if given <= buckets else max(n for n in range(1, buckets + 1) if SPREAD % n == 0)


def check_partitions(given: str | None, buckets: int) -> None:
    """Refuses partitions most of which would never have a bucket."""
    if given is not None and given.isdecimal() and int(given) > MOST_PER_BUCKET * buckets:
        raise UsageError(
            f"Expected at most {MOST_PER_BUCKET * buckets} in {PARTITIONS} for {buckets} buckets, "
            f"found {given}, and each costs a state store in every batch. Start the very frame that "
            f"scale_out gives, or set {PARTITIONS} to {buckets}; with another checkpointLocation, as "
            "this one has kept it"
        )


class ScaledFrame(DataFrame):
    """Results of a scaled-out query; made by `of`."""

    _buckets: int

    @classmethod
    def of(cls, frame: Any, buckets: int) -> ScaledFrame:
        """The frame, as one that knows its buckets."""
        made = cls(frame._jdf, frame.sparkSession)
        made._buckets = buckets
        return made

    @property
    def writeStream(self) -> DataStreamWriter:
        return ScaledWriter(self, self._buckets)


class ScaledWriter(DataStreamWriter):
    """Starts the query with partitions for so many buckets."""

    def __init__(self, frame: DataFrame, buckets: int) -> None:
        super().__init__(frame)
        self._buckets = buckets

    def start(self, *arguments: Any, **named: Any) -> StreamingQuery:
        return self._start(super().start, *arguments, **named)

    def toTable(self, *arguments: Any, **named: Any) -> StreamingQuery:
        return self._start(super().toTable, *arguments, **named)

    def _start(self, start: Callable[..., StreamingQuery], *arguments: Any, **named: Any) -> StreamingQuery:
        session = self._spark
        with partitions_set(session, self._buckets):
            return start(*arguments, **named)


@contextmanager
def partitions_set(session: SparkSession, buckets: int) -> Iterator[None]:
    """The session's setting, as it has to be when a query is started."""
    with _setting:
        before = session.conf.get(PARTITIONS)
        session.conf.set(PARTITIONS, str(partitions_for(buckets, int(before or 200))))
        try:
            yield
        finally:
            session.conf.set(PARTITIONS, before)

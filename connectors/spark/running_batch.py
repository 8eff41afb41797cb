"""What Spark knows of the batch at work: whose it is, and its watermark.

A batch's DataFrame carries neither. The query is a property of the thread that calls the sink; its
watermark is what Spark wrote to the checkpoint's offsets before it began the batch, so a replay has the
same. It is a promise of the batches before: the latest time of each input less its delay, and the least (or
as `spark.sql.streaming.multipleWatermarkPolicy` says, the greatest) of all inputs. 0: none was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.rows.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Properties of Spark's tasks."""


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch of a streaming query; without a query if the sink was called by hand."""

    query_id: str | None
    watermark_us: int | None


def running_batch(session: SparkSession) -> RunningBatch:
    """The batch in which this is called."""
    if not hasattr(session, "_jsparkSession"):
        raise UsageError("Expected a session in the driver's own process, found one of Spark Connect")
    query_id = session.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        return RunningBatch(None, None)
    for query in session._jsparkSession.sharedState().activeStreamingQueries().values():
        if query.id().toString() == query_id:
            watermark_ms = query.lastExecution().offsetSeqMetadata().batchWatermarkMs()
            return RunningBatch(query_id, watermark_ms * 1000 if watermark_ms > 0 else None)
    return RunningBatch(query_id, None)


def is_running(session: SparkSession, query_id: str) -> bool:
    """Whether a query of Spark's is at work in this process."""
    active = session._jsparkSession.sharedState().activeStreamingQueries().values()
    return any(query.id().toString() == query_id for query in active)


def is_running_here(query_id: str) -> bool:
    """The same where nobody has given a session yet."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return session is not None and hasattr(session, "_jsparkSession") and is_running(session, query_id)

"""What Spark's Python processes have loaded is set aside once, and nothing in a process of the user's."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import test_bucket_engine as buckets

from penstock.connectors.spark import bucket_engine, settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Task:
    """Spark's, as Python code sees it."""

    @staticmethod
    def get() -> Any:
        return Task()

    def getLocalProperty(self, name: str) -> str | None:
        return None


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is called of gc."""
    called: list[str] = []
    monkeypatch.setattr(settle.gc, "collect", lambda: called.append("collect"))
    monkeypatch.setattr(settle.gc, "freeze", lambda: called.append("freeze"))
    monkeypatch.setattr(settle, "_settled", set())
    return called


def test_only_where_spark_runs_a_task(monkeypatch: pytest.MonkeyPatch, frozen: list[str]) -> None:
    settle.settle("engines")
    assert settle.is_settled("engines") and frozen == []
    monkeypatch.setattr(settle, "TaskContext", Task)
    assert not settle.is_settled("engines")
    for _ in range(2):
        settle.settle("engines")
    settle.settle("rows")
    assert frozen == ["collect", "freeze"] * 2


def test_no_engine_is_set_aside(monkeypatch: pytest.MonkeyPatch, frozen: list[str]) -> None:
    """The first step's engine is gone when all is set aside, and the second step restores it."""
    engines: list[int] = []
    bucket_engine._at_hand.clear()
    monkeypatch.setattr(settle, "TaskContext", Task)
    monkeypatch.setattr(settle.gc, "freeze", lambda: engines.append(len(bucket_engine._at_hand)))
    store = buckets.Store()
    found: dict[str, Any] = {}
    for name, table in buckets.STREAMS.items():
        buckets.add(found, buckets.step(store, buckets.pack(name, table), 0))
    buckets.add(found, buckets.step(store, [], buckets.LATER_MS))
    assert engines == [0]
    assert len(bucket_engine._at_hand) == 1
    assert found == buckets.whole()


def test_in_a_process_of_spark(spark: SparkSession) -> None:
    from penstock.connectors.spark.pack_rows import Packer
    from penstock.engine.rows.types import SqlType

    packer = Packer("s", ("ts", "k"), (SqlType.TIMESTAMP, SqlType.BIGINT), 0, 1, 2)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packed = sum(part.num_rows for part in packer(batches))
        yield pa.record_batch({"packed": [packed], "aside": [gc.get_freeze_count()]})

    frame = spark.sql("SELECT timestamp_micros(id) AS ts, id AS k FROM range(9)").coalesce(1)
    [(packed, aside)] = frame.mapInArrow(count, "packed BIGINT, aside BIGINT").collect()
    assert packed == 2
    assert aside > 10_000

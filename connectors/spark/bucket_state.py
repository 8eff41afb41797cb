"""The state of a bucket in Spark's state store: a checkpoint of its engine and the steps since.

    full   the checkpoint, in chunks     rewritten when the log has become as large as it is
    log    the steps since               each appended once
    head   what the two belong to, and a mark that is new with every step

A step takes what a batch has for a bucket, Spark's watermark and rows. What the engine is after it follows
from what it was before, whoever runs it; so going over the log gives the engine as it was, and a step costs
the store no more than its rows, and once in a while as much again.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import msgpack
import pyarrow as pa

from penstock.api import Engine
from penstock.connectors.push_steps import push_in_steps
from penstock.engine.checkpoints.checkpoint import decompressed, unpack_values
from penstock.engine.rows.array_memory import Buffer
from penstock.engine.rows.errors import CheckpointError

from .dropped import with_time
from .pack_rows import from_blobs
from .split_batch import in_time_order

if TYPE_CHECKING:
    from pyspark.sql.streaming import StatefulProcessorHandle

HEAD = (
    "mark STRING, layout STRING, queries STRING, "
    "full_bytes BIGINT, log_bytes BIGINT, steps INT, timer_ms BIGINT"
)
BLOB = "blob BINARY"
CHUNK_BYTES = 1 << 20
LEAST_LOG_BYTES = 1 << 18
MOST_STEPS = 50  # in the log: all are gone over again when the engine is needed elsewhere
SIZE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Head:
    """What is in the state, and what it belongs to."""

    mark: str
    layout: str
    queries: str
    full_bytes: int
    log_bytes: int
    steps: int
    timer_ms: int


@dataclass(frozen=True, slots=True)
class Step:
    """A watermark, 0 if there is none yet, and blobs of rows by stream."""

    watermark_ms: int
    blobs: Mapping[str, list[bytes]]

    def run(self, engine: Engine, time_columns: Mapping[str, str]) -> Counter[str]:
        """Time first: rows older than the watermark are late. Those without a time are left out, counted."""
        untimed: Counter[str] = Counter()
        if self.watermark_ms > 0:
            engine.advance(self.watermark_ms * 1000)
        for stream in sorted(self.blobs):
            whole = from_blobs(self.blobs[stream])
            rows = with_time(whole, time_columns[stream])
            untimed[stream] += whole.num_rows - rows.num_rows
            push_in_steps(engine, stream, in_time_order(rows, time_columns[stream]))
        return untimed


class BucketState:
    """The state of whatever bucket is at work: Spark has one handle for all of them."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._head = handle.getValueState("head", HEAD)
        self._full = handle.getListState("full", BLOB)
        self._log = handle.getListState("log", BLOB)

    def head(self) -> Head | None:
        found = self._head.get()
        return None if found is None else Head(*found)

    def restore(self, time_columns: Mapping[str, str]) -> Engine:
        """The engine after the last step."""
        whole = b"".join(bytes(chunk) for (chunk,) in self._full.get())
        engine = Engine.restore_bytes(unpacked(whole))
        for (entry,) in self._log.get():
            Step(*unpack_values(entry)).run(engine, time_columns)
            for query in engine.queries.values():
                query.results()  # given already
        return engine

    def save(self, before: Head | None, step: Step, engine: Engine, layout: str, queries: str) -> Head:
        """The engine after the step; `before` is what was there before it."""
        mark, timer_ms = uuid.uuid4().hex, step.watermark_ms + 1
        entry = msgpack.packb([step.watermark_ms, dict(step.blobs)])
        if before is None or before.queries != queries or is_too_long(before, len(entry)):
            full_bytes = self._rewrite(engine)
            head = Head(mark, layout, queries, full_bytes, 0, 0, timer_ms)
        else:
            self._log.appendValue((entry,))
            log_bytes = before.log_bytes + len(entry)
            head = Head(mark, layout, queries, before.full_bytes, log_bytes, before.steps + 1, timer_ms)
        self._head.update(astuple(head))
        if before is not None and before.timer_ms != timer_ms:
            self._handle.deleteTimer(before.timer_ms)
        self._handle.registerTimer(timer_ms)
        return head

    def _rewrite(self, engine: Engine) -> int:
        data = engine.checkpoint_bytes()
        whole = len(data).to_bytes(SIZE_BYTES, "little") + pa.compress(data, codec="lz4", asbytes=True)
        chunks = range(0, len(whole), CHUNK_BYTES)
        self._full.put([(whole[start : start + CHUNK_BYTES],) for start in chunks])
        self._log.clear()
        return len(whole)


def unpacked(whole: bytes) -> Buffer:
    """The checkpoint, with no more room made for it than what is compressed can fill."""
    size = int.from_bytes(whole[:SIZE_BYTES], "little")
    try:
        return decompressed(whole[SIZE_BYTES:], size)
    except (ValueError, OSError) as error:
        raise CheckpointError(f"Expected a checkpoint in the state of a bucket: {error}") from None


def is_too_long(head: Head, more_bytes: int) -> bool:
    """Whether the log, with this much more, costs as much as a new checkpoint would."""
    log_bytes = head.log_bytes + more_bytes
    return head.steps >= MOST_STEPS or log_bytes > max(head.full_bytes, LEAST_LOG_BYTES)

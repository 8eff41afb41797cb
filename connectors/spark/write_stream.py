"""A stream of Spark fed to queries: `df.writeStream.format("penstock")`.

Tasks put their rows aside under `stateLocation`, in files of their own. When all tasks of batch N are done,
one process pushes them in time order into the engine as it was after batch N-1, writes the results of every
query under `outputLocation` and saves the engine as `batch-N`, in this order. Spark gives a batch again that
it has not noted as done, with the same rows: then the engine starts from N-1 again, and results and state are
replaced by their equals. So every result is there once (the protocol of sink.py, whose files have the same
layout):

    <outputLocation>/query=<name>/batch=<id>/results.parquet

The rows are those of one stream, or of several, tagged by `tag_streams`. Spark does not tell a format its
watermark: time comes as far as the rows of each stream show, and a silent stream holds up a join. The sink
for foreachBatch hears of it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.connectors.push_steps import push_in_steps

from .at_hand import EnginesAtHand
from .dropped import dropped_by, warn
from .outputs import folder_name
from .owner import Owner
from .request import Request
from .running_batch import BATCH_ID, QUERY_ID
from .saved_states import SavedStates
from .schema import declare_stream, label_instants
from .settle import settle
from .split_batch import split_batch
from .start_engine import Setup, telling_how_to_go_on
from .table_rows import TableFiles

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ASIDE = "rows"

_at_hand = EnginesAtHand()
"""By folder; marked with what the engine was asked, its tables, and the last batch it has seen."""


@dataclass(frozen=True)
class RowsAside(WriterCommitMessage):
    """Where a task has put its rows, and for which query of Spark's."""

    path: str
    query_id: str | None


class EngineFeed(DataSourceStreamArrowWriter):
    """Spark makes one for each task, which writes, and one for each batch, which commits."""

    def __init__(self, request: Request, schema: StructType) -> None:
        self._folder = request.require("stateLocation")
        self._output = request.require("outputLocation")
        declared = f"{declare_stream(request.stream, schema)}\n" if request.stream else ""
        self._asked = f"{declared}{request.sql} {dict(request.engine_options)}"
        bare = Setup(declared + request.sql, {}, request.engine_options)
        self._tables = {
            name: TableFiles(pattern, bare.tables[name])
            for name, pattern in request.tables(bare.tables).items()
        }
        self._setup = bare.with_tables(self._tables)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        batch_id = context.getLocalProperty(BATCH_ID) if context else None
        query_id = context.getLocalProperty(QUERY_ID) if context else None
        path = Path(self._folder, ASIDE, f"batch-{batch_id}", f"{uuid.uuid4().hex}.arrow")
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = None
        for batch in iterator:
            if writer is None:
                writer = pa.ipc.new_stream(path, batch.schema)
            writer.write_batch(batch)
        settle("aside")
        if writer is None:
            return RowsAside("", query_id)
        writer.close()
        return RowsAside(str(path), query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        aside = [one for one in messages if isinstance(one, RowsAside)]
        query_id = next((one.query_id for one in aside), None)
        # 1. the engine as it was after the batch before
        states = SavedStates(self._folder)
        tables = tuple(one.stamps() for one in self._tables.values())
        engine = _at_hand.take(self._folder, (self._asked, tables, batchId - 1))
        if engine is None:
            if query_id is not None:
                states.claim.make(Owner.of_query(query_id), lambda _: True)
            engine = self._setup.go_on(states.load(batchId, query_id))
        before, untimed = dropped_by(engine, {}), Counter[str]()
        # 2. the rows, in time order
        parts = [pa.ipc.open_stream(one.path).read_all() for one in aside if one.path]
        if parts:
            table = pa.concat_tables(parts)
            for stream, rows in split_batch(table, self._setup.time_columns, untimed).items():
                with telling_how_to_go_on():
                    push_in_steps(engine, stream, rows)
        # 3. results, then state
        for name, query in engine.queries.items():
            self._replace(
                Path(self._output, f"query={folder_name(name)}", f"batch={batchId}"), query.results()
            )
        states.save(engine, batchId, query_id)
        warn(before, dropped_by(engine, untimed), f"Batch {batchId}")
        _at_hand.keep(self._folder, (self._asked, tables, batchId), engine)
        shutil.rmtree(Path(self._folder, ASIDE), ignore_errors=True)  # also what failed tasks have left

    @staticmethod
    def _replace(folder: Path, results: pa.Table) -> None:
        """The results of a batch, whole or not at all, in place of what an earlier try has written."""
        if not results.num_rows:
            shutil.rmtree(folder, ignore_errors=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*"):  # by one that was killed
            left.unlink(missing_ok=True)
        made = folder / f".{uuid.uuid4().hex}"
        pq.write_table(label_instants(results), made)
        os.replace(made, folder / "results.parquet")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        shutil.rmtree(Path(self._folder, ASIDE, f"batch-{batchId}"), ignore_errors=True)

"""Files of what scale-out gives in a batch: a folder for each query and batch, laid out as those of the sink.

Parquet on a file system that all machines mount is written by the workers straight from Arrow, the results of
all queries in one job of Spark's. Nobody sees those files until the job is done; then the driver puts them in
their places:

    <path>/.unfinished-<id>/<name>.parquet   -->   <path>/query=<name>/batch=<id>/part-<n>.parquet

Other formats are written by Spark, one job for all queries whose results have the same columns. Either way a
batch that is given again replaces what it wrote before.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.engine.rows.errors import UsageError

from .outputs import check_columns, folder_name, is_plain_parquet, local_path
from .pack_rows import QUERY, NamedUnpacker, unpack
from .schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN = f"{QUERY} STRING, file STRING"


class ScaledFiles:
    """The function for foreachBatch; made by `ScaledOut.write`."""

    def __init__(
        self, schemas: Mapping[str, pa.Schema], path: str, format: str, options: Mapping[str, Any]
    ) -> None:
        check_columns(schemas)
        self._schemas = schemas
        self._alike = queries_by_columns(schemas)
        self._path = path
        self._format = format
        self._options = options
        self._is_plain: bool | None = None
        """Parquet for the workers to write; asked of Java once."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch of packed results; Spark calls this."""
        if self._is_plain is None:
            self._is_plain = is_plain_parquet(frame.sparkSession, self._path, self._format, self._options)
        if self._is_plain:
            write_directly(frame, Path(local_path(self._path)).absolute(), batch_id)
        elif len(self._alike) == 1:
            self._save(frame, self._alike[0], batch_id)
        else:
            frame.persist()
            try:
                having = set(frame.select(QUERY).toArrow()[QUERY].to_pylist())
                for names in self._alike:
                    if having & names:
                        self._save(frame, names, batch_id)
            finally:
                frame.unpersist()

    def _save(self, frame: DataFrame, names: frozenset[str], batch_id: int) -> None:
        columns = spark_schema(self._schemas[min(names)]).add(QUERY, spark.StringType())
        results = frame.mapInArrow(NamedUnpacker(names), columns).withColumn("batch", F.lit(batch_id))
        writer = results.write.format(self._format).partitionBy(QUERY, "batch").mode("overwrite")
        # Dynamic: what is replaced is the folders that the batch has results for, no others.
        writer.options(**{"partitionOverwriteMode": "dynamic", **self._options}).save(self._path)


def queries_by_columns(schemas: Mapping[str, pa.Schema]) -> list[frozenset[str]]:
    """Their names; those whose results have the same columns are together."""
    alike: dict[pa.Schema, list[str]] = defaultdict(list)
    for name, schema in schemas.items():
        alike[schema].append(name)
    return [frozenset(names) for names in alike.values()]


@dataclass(frozen=True, slots=True)
class FileWriter:
    """For mapInArrow: writes a file for each query that a task has results of, and says where."""

    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[str, str] = {}
        writers: dict[str, pq.ParquetWriter] = {}
        try:
            for query, rows in unpack(batches):
                if query not in writers:
                    os.makedirs(self.folder, exist_ok=True)
                    files[query] = os.path.join(self.folder, f"{uuid.uuid4().hex}.parquet")
                    writers[query] = pq.ParquetWriter(files[query], rows.schema)
                writers[query].write_table(rows)
        finally:
            for writer in writers.values():
                writer.close()
        if files:
            yield pa.record_batch([pa.array(list(files)), pa.array(list(files.values()))], [QUERY, "file"])


def write_directly(frame: DataFrame, path: Path, batch_id: int) -> None:
    """One job that writes, then files into their places."""
    unfinished = path / f".unfinished-{batch_id}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a try that was killed
    done = frame.mapInArrow(FileWriter(str(unfinished)), WRITTEN).toArrow()
    for stale in path.glob(f"query=*/batch={batch_id}"):
        shutil.rmtree(stale)
    for number, (query, file) in enumerate(
        zip(done[QUERY].to_pylist(), done["file"].to_pylist(), strict=True)
    ):
        folder = path / f"query={folder_name(query)}" / f"batch={batch_id}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(file, folder / f"part-{number}.parquet")
        except FileNotFoundError:
            raise UsageError(
                f"Expected a path that the driver and all executors mount, found `{path}`: "
                "a worker has written there what the driver does not see"
            ) from None
    shutil.rmtree(unfinished, ignore_errors=True)

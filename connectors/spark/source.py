"""`format("penstock")` of Spark: queries over files as a DataFrame or a stream, and streams fed to queries.

    spark.read.format("penstock").option("queries", sql).option("input.trades", "trades/*.parquet").load()
    spark.readStream.format("penstock")  ... the same, for folders that grow; see read_stream.py
    df.writeStream.format("penstock")    ... see write_stream.py

Spark makes one of these for every step, in Python processes of its own, so it keeps nothing but the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)

from penstock.connectors.merge import read_in_time_order
from penstock.connectors.open_inputs import load_tables, open_feeds, push_batch

from .file_log import whole_files
from .request import Request
from .schema import label_instants, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "penstock"


class PenstockSource(DataSource):
    """The format; register it once per session with `register`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self._request = Request.of(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(self._request.only_query(self._request.engine()).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return FileReader(self._request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .read_stream import ResultStream

        return ResultStream(self._request)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from .write_stream import EngineFeed

        return EngineFeed(self._request, schema)


def register(session: SparkSession) -> None:
    """Let `format("penstock")` be known in this session."""
    session.dataSource.register(PenstockSource)


class FileReader(DataSourceReader):
    """All results of a query over whole files, as they come: one task, since one engine sees all rows."""

    def __init__(self, request: Request) -> None:
        self._request = request
        engine = request.engine()
        request.only_query(engine)
        request.named_inputs(engine)  # what is wrong with the options is said before a task is started

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        engine = self._request.engine()
        query = self._request.only_query(engine)
        files = {name: [whole_files(one)] for name, one in self._request.named_inputs(engine).items()}
        load_tables(engine, files)
        feeds = open_feeds(engine, files)
        try:
            for step in read_in_time_order(feeds):
                if step.batch is not None:
                    push_batch(engine, step.stream, step.batch)
                if step.reached_us is not None:
                    engine.advance(step.reached_us)
                yield from label_instants(query.results()).to_batches()
        finally:
            for feed in feeds:
                feed.close()
        engine.close()
        yield from label_instants(query.results()).to_batches()

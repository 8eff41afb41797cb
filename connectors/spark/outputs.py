"""Where results go: files of any Spark format, or the user's own functions, as DataFrames.

Files stand under `<path>/query=<name>/batch=<id>`, so that a query's results are one table,
`spark.read.parquet("<path>/query=<name>")`, and a batch that is given again replaces what it wrote before.

A job of Spark costs more than most results do. So Parquet on the driver's own file system is written by the
driver, and for the rest queries that have the same columns are written by one job.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from penstock.engine.rows.errors import UsageError, did_you_mean

from .schema import label_instants
from .state_folder import path_of_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Taker = Callable[["DataFrame", int], None]
ROWS_PER_PARTITION = 250_000
DIRECT = "spark.sql.execution.arrow.localRelationThreshold"
"""Tables of more bytes than this go to Spark as Arrow; smaller ones as rows, one by one."""


class Output(Protocol):
    """Takes what the queries gave in a batch; called again with the same batch, it must end up the same."""

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """The queries and their results' columns, once, before any batch."""

    def begin(self, session: SparkSession, batch_id: int) -> None:
        """The first batch since the start: an earlier run may have given some of it, and of the next."""

    def write(self, session: SparkSession, results: Mapping[str, pa.Table], batch_id: int) -> None:
        """Results of a batch by query; those without rows are left out."""


def to_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """The table as a DataFrame, in as few partitions as make sense."""
    before = session.conf.get(DIRECT)
    session.conf.set(DIRECT, "0")
    try:
        frame = session.createDataFrame(label_instants(table))
    finally:
        session.conf.set(DIRECT, before)
    most = session.sparkContext.defaultParallelism
    return frame.coalesce(max(1, min(most, table.num_rows // ROWS_PER_PARTITION)))


class Callbacks:
    """A function per query, called with a DataFrame of its results and the batch's id."""

    def __init__(self, takers: Mapping[str, Taker] | Callable[[str, DataFrame, int], None]) -> None:
        self._takers = takers

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        if isinstance(self._takers, Mapping):
            for name in self._takers:
                if name not in schemas:
                    hint = did_you_mean(name, schemas) or ""
                    raise UsageError(f"Expected a query in `results`, found `{name}`. {hint}".rstrip())

    def begin(self, session: SparkSession, batch_id: int) -> None:
        pass

    def write(self, session: SparkSession, results: Mapping[str, pa.Table], batch_id: int) -> None:
        for name, table in results.items():
            if not isinstance(self._takers, Mapping):
                self._takers(name, to_frame(session, table), batch_id)
            elif name in self._takers:
                self._takers[name](to_frame(session, table), batch_id)


class Files:
    """Folders by query and batch, in a format of Spark's."""

    def __init__(self, path: str, format: str, options: Mapping[str, Any]) -> None:
        self._path = path
        self._format = format
        self._options = options
        self._for_driver: bool | None = None
        """Whether the driver writes the files itself; asked of Java once."""

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        check_columns(schemas)

    def begin(self, session: SparkSession, batch_id: int) -> None:
        """Removes what this batch, and a `close` after the one before, may have written."""
        jvm, settings = session.sparkContext._jvm, session.sparkContext._jsc.hadoopConfiguration()
        pattern = jvm.org.apache.hadoop.fs.Path(f"{self._path}/query=*/batch=*")
        files = pattern.getFileSystem(settings)
        stale = []
        for status in files.globStatus(pattern) or ():
            folder = status.getPath()
            number = re.fullmatch(r"batch=(\d+)", folder.getName())
            found = int(number[1]) if number else -1
            if found > batch_id + 1:
                raise UsageError(
                    f"Expected results of batches before {batch_id} in `{self._path}`, found batch {found}: "
                    "it has results of another run"
                )
            if found >= batch_id:
                stale.append(folder)
        for folder in stale:
            files.delete(folder, True)

    def write(self, session: SparkSession, results: Mapping[str, pa.Table], batch_id: int) -> None:
        if self._for_driver is None:
            self._for_driver = is_plain_parquet(session, self._path, self._format, self._options)
        if self._for_driver:
            for name, table in results.items():
                folder = Path(local_path(self._path), f"query={folder_name(name)}", f"batch={batch_id}")
                write_parquet(label_instants(table), folder)
            return
        alike: dict[pa.Schema, dict[str, pa.Table]] = defaultdict(dict)
        for name, table in results.items():
            alike[table.schema][name] = table
        for tables in alike.values():
            if len(tables) == 1:
                [(name, table)] = tables.items()
                frame = to_frame(session, table)
                self._writer(frame).save(f"{self._path}/query={folder_name(name)}/batch={batch_id}")
                continue
            named = [
                table.append_column("query", pa.repeat(name, table.num_rows))
                for name, table in tables.items()
            ]
            frame = to_frame(session, pa.concat_tables(named)).withColumn("batch", F.lit(batch_id))
            self._writer(frame).partitionBy("query", "batch").save(self._path)

    def _writer(self, frame: DataFrame) -> Any:
        return frame.write.format(self._format).options(**self._options).mode("append")


def is_plain_parquet(session: SparkSession, path: str, format: str, options: Mapping[str, Any]) -> bool:
    """Parquet as it comes, to files of an ordinary file system: no need for Spark to write them."""
    if format != "parquet" or options:
        return False
    found = session.sparkContext._jvm.org.apache.hadoop.fs.Path(path)
    return bool(found.getFileSystem(session.sparkContext._jsc.hadoopConfiguration()).getScheme() == "file")


def check_columns(schemas: Mapping[str, pa.Schema]) -> None:
    """Refuses results that have a column by the name of a level of folders."""
    for name, schema in schemas.items():
        for column in schema.names:
            if column.lower() in ("query", "batch"):
                raise UsageError(
                    f"Expected no result column `{column}`, as files are laid out by query and batch, "
                    f"found one in query `{name}`: name it otherwise with AS"
                )


def local_path(path: str) -> str:
    """A path of this machine's files, as such or as a URI: of `/tmp/x` and `file:///tmp/x`, `/tmp/x`."""
    return path_of_file(path) if path.lower().startswith("file:") else path


def write_parquet(table: pa.Table, folder: Path) -> None:
    """One file in a folder of its own; readers see it whole or not at all."""
    folder.mkdir(parents=True)
    unfinished = folder / ".part-0.parquet"  # Spark overlooks names with a dot
    pq.write_table(table, unfinished)
    unfinished.replace(folder / "part-0.parquet")


# What Spark itself escapes in the name of a partition's folder.
ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")


def folder_name(name: str) -> str:
    """The name of a query as Spark writes it in `query=<name>`."""
    return ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)

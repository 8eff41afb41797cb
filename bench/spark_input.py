"""W1 as files for Spark, one per stream and micro-batch, and the queries over it."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from .join import KEYS, RATE, WINDOW_US
from .streams import cut_by_rows, poisson_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN_US = 1_767_600_000_000_000  # 5 January 2026: Spark's first watermark is 1970
NAMES = ("a", "b")


class W1Files:
    """Both streams, drawn and written once."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int, batches: int) -> None:
        self.rows = rows * len(NAMES)
        self.batches = batches
        self._spark = spark
        self._folder = folder
        self.slices: dict[str, list[pa.Table]] = {}
        for seed, name in enumerate(NAMES, 1):
            (folder / name).mkdir(parents=True)
            stream = poisson_stream(rows, RATE, KEYS, seed)
            ts = pa.array(stream.ts + BEGIN_US, pa.timestamp("us", "UTC"))
            table = pa.table({"ts": ts, "key": stream.key, "value": stream.value})
            cuts = cut_by_rows(rows, -(-rows // batches))
            self.slices[name] = [table.slice(start, stop - start) for start, stop in cuts]
            for number, part in enumerate(self.slices[name]):
                path = folder / name / f"{number}.parquet"
                pq.write_table(part, path)
                os.utime(path, (number, number))

    @cached_property
    def streams(self) -> dict[str, DataFrame]:
        """As streams of Spark, a file per micro-batch, rows in time order."""
        return {
            name: self._spark.readStream.schema("ts TIMESTAMP, key BIGINT, value DOUBLE")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._folder / name))
            .withWatermark("ts", "0 seconds")
            for name in NAMES
        }


_numbers = itertools.count()


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder for one run."""
    path = folder / f"run{next(_numbers)}"
    path.mkdir()
    yield path
    shutil.rmtree(path)


def feed(frame: DataFrame, function: Callable[[Any, int], None], folder: Path) -> None:
    """All micro-batches through a function, then stop."""
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def windows_us(number: int) -> list[int]:
    """W*i/N: the longest one last."""
    return [WINDOW_US * n // number for n in range(1, number + 1)]


def write_queries(number: int) -> str:
    """As many joins, each with its own window."""
    return "\n".join(
        f"CREATE QUERY q{n} AS SELECT a.key, a.value AS left_value, b.value AS right_value "
        f"FROM a JOIN b ON a.key = b.key WINDOW {size} MICROSECONDS;"
        for n, size in enumerate(windows_us(number))
    )


def count_results(path: Path, numbers: Iterable[int]) -> int:
    """Rows in the result files of these queries, each weighted with its place: an answer to compare."""
    total = 0
    for place, number in enumerate(numbers, 1):
        for folder in (path / f"query=q{number}", path / f"q{number}"):
            total += place * sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))
    return total

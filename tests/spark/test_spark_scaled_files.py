"""Files of scale-out's results, written by workers: a batch given again replaces its own, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.connectors.spark.pack_rows import to_blob
from penstock.connectors.spark.scaled_files import ScaledFiles, queries_by_columns, write_directly


class Packed:
    """A batch of packed results, of which every task has some; what mapInArrow makes of it, without Spark."""

    def __init__(self, *tasks: list[tuple[str, list[int]]]) -> None:
        self._tasks = tasks
        self._outcome: list[pa.RecordBatch] = []

    def mapInArrow(self, function: Callable[..., Any], schema: str) -> Packed:
        for task in self._tasks:
            rows = [to_blob(pa.table({"id": pa.array(ids, pa.int64())})) for _, ids in task]
            packed = pa.record_batch(
                [pa.array([name for name, _ in task]), pa.array(rows)], ["query", "rows"]
            )
            self._outcome += function([packed.slice(at, 1) for at in range(packed.num_rows)])
        return self

    def toArrow(self) -> pa.Table:
        columns = pa.schema([("query", pa.string()), ("file", pa.string())])
        return pa.Table.from_batches(self._outcome, columns)


def found(path: Path) -> dict[str, list[int]]:
    """The ids under each folder of a query and batch."""
    return {
        str(folder.relative_to(path)): sorted(
            id_ for file in folder.iterdir() for id_ in pq.ParquetFile(file).read()["id"].to_pylist()
        )
        for folder in sorted(path.glob("query=*/batch=*"))
    }


def test_a_batch_replaces_its_own_files(tmp_path: Path) -> None:
    first = Packed([("one", [1]), ("two/2", [2]), ("one", [3])], [("one", [4])], [])
    write_directly(first, tmp_path, 0)
    expected = {"query=one/batch=0": [1, 3, 4], "query=two%2F2/batch=0": [2]}
    assert found(tmp_path) == expected
    write_directly(Packed([("one", [5])]), tmp_path, 1)
    write_directly(Packed(), tmp_path, 2)
    expected["query=one/batch=1"] = [5]
    assert found(tmp_path) == expected
    (tmp_path / ".unfinished-1").mkdir()
    (tmp_path / ".unfinished-1" / "rest.parquet").touch()  # a driver was killed here
    write_directly(Packed([("two/2", [6])]), tmp_path, 1)
    del expected["query=one/batch=1"]
    assert found(tmp_path) == {**expected, "query=two%2F2/batch=1": [6]}
    assert not list(tmp_path.glob(".*"))


def test_a_path_that_is_not_shared(tmp_path: Path) -> None:
    class Elsewhere(Packed):
        def toArrow(self) -> pa.Table:
            for file in tmp_path.glob(".unfinished-0/*"):
                file.unlink()
            return super().toArrow()

    with pytest.raises(penstock.UsageError, match="Expected a path that the driver and all executors mount"):
        write_directly(Elsewhere([("one", [1])]), tmp_path, 0)


def test_columns_of_queries() -> None:
    schemas = {"a": pa.schema([("x", pa.int64())]), "b": pa.schema([("y", pa.int64())])}
    assert queries_by_columns({**schemas, "c": schemas["a"]}) == [frozenset("ac"), frozenset("b")]
    with pytest.raises(penstock.UsageError, match="Expected no result column `batch`"):
        ScaledFiles({"q": pa.schema([("batch", pa.int64())])}, "out", "parquet", {})

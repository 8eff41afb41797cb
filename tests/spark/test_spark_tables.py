"""Static tables on Spark: a restart with other rows is refused by name, with the same it goes on."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock import UsageError
from penstock.connectors.spark.start_engine import Setup
from penstock.connectors.spark.table_rows import TableFiles, digest_rows

SQL = """
CREATE STREAM s (ts TIMESTAMP, k BIGINT);
CREATE TABLE names (k BIGINT, name VARCHAR);
CREATE QUERY named AS SELECT names.name FROM s JOIN names ON s.k = names.k;
"""
NAMES = pa.table({"k": [1, 2, None], "name": ["one", None, "none"]})
REFUSED = r"Expected the 3 rows of table `names` that the saved state was made with, found {} that differ"

TABLES = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, "", "a", "aä"])))


def as_table(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    columns = [
        pa.array([one for one, _ in rows], pa.int64()),
        pa.array([two for _, two in rows], pa.string()),
    ]
    return pa.Table.from_arrays(columns, ["k", "name"])


@given(TABLES, TABLES, st.randoms())
def test_a_digest_is_of_the_rows_in_any_order(one: Any, other: Any, random: Any) -> None:
    shuffled = random.sample(one, len(one))
    cut = len(one) // 2
    pieces = pa.concat_tables([as_table(shuffled[:cut]), as_table(shuffled[cut:])])
    assert digest_rows(as_table(one)) == digest_rows(pieces)
    same = Counter(one) == Counter(other)
    assert (digest_rows(as_table(one)) == digest_rows(as_table(other))) == same


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        (NAMES.slice(0, 2), 2),
        (pa.concat_tables([NAMES, NAMES.slice(0, 1)]), 4),
        (NAMES.set_column(1, "name", pa.array(["one", "", "none"])), 3),
        (NAMES.slice(0, 0), 0),
    ],
)
def test_a_restart_with_other_rows_is_refused(rows: pa.Table, count: int) -> None:
    saved = Setup(SQL, {"names": NAMES}, {}).go_on(None)
    saved.push("s", {"ts": [1], "k": [1]})
    saved = penstock.Engine.restore_bytes(saved.checkpoint_bytes())
    with pytest.raises(UsageError, match=REFUSED.format(count)):
        Setup(SQL, {"names": rows}, {}).go_on(saved)
    if count == 0:
        with pytest.raises(UsageError, match=REFUSED.format(0)):
            Setup(SQL, {}, {}).go_on(saved)
    assert Setup(SQL, {"names": NAMES.take([2, 0, 1])}, {}).go_on(saved) is saved


def write_names(folder: Path, table: pa.Table) -> None:
    """In two files; their time moves on, also if they are written within a tick of the clock."""
    for number, part in enumerate((table.slice(0, 1), table.slice(1))):
        path = folder / f"names{number}.parquet"
        before = path.stat().st_mtime_ns if path.exists() else 0
        pq.write_table(part, path)
        os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_tables_in_files(tmp_path: Path) -> None:
    write_names(tmp_path, NAMES)
    files = TableFiles(str(tmp_path / "names*.parquet"), NAMES.schema)
    assert files.toArrow() == NAMES
    stamps = files.stamps()
    assert files.stamps() == stamps
    write_names(tmp_path, NAMES)
    assert files.stamps() != stamps
    assert TableFiles(str(tmp_path / "none.parquet"), NAMES.schema).stamps() == ()
    with pytest.raises(penstock.DataError, match="Expected a file at"):
        TableFiles(str(tmp_path / "none.parquet"), NAMES.schema).toArrow()


def options(folder: Path) -> dict[str, str]:
    return {
        "queries": SQL,
        "input.names": str(folder / "names*.parquet"),
        "stateLocation": str(folder / "state"),
    }


@pytest.mark.parametrize("in_process", [True, False], ids=["same process", "another"])
def test_files_of_a_table_that_change_under_a_feed(tmp_path: Path, in_process: bool) -> None:
    from pyspark.sql.types import StructType

    from penstock.connectors.spark import PenstockSource, write_stream

    def commit(batch: int) -> None:
        if not in_process:
            write_stream._at_hand.clear()
        given = options(tmp_path) | {"outputLocation": str(tmp_path / "out")}
        made = PenstockSource(given).streamWriter(StructType([]), False)
        rows = pa.table({"ts": pa.array([10 * batch + 1], pa.timestamp("us", "UTC")), "k": [1]})
        made.commit([made.write(iter(rows.to_batches()))], batch)

    write_names(tmp_path, NAMES)
    commit(0)
    write_names(tmp_path, NAMES)  # the same rows
    commit(1)
    write_names(tmp_path, NAMES.slice(0, 2))
    with pytest.raises(UsageError, match=REFUSED.format(2)):
        commit(2)
    write_names(tmp_path, NAMES.take([2, 1, 0]))
    commit(2)
    assert [len(list(tmp_path.glob(f"out/query=named/batch={n}/*"))) for n in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("in_process", [True, False], ids=["same process", "another"])
def test_files_of_a_table_that_change_under_a_stream_of_results(tmp_path: Path, in_process: bool) -> None:
    from penstock.connectors.spark import PenstockSource, read_stream

    def read(batch: int, queries: str = SQL) -> list[str]:
        if not in_process:
            read_stream._at_hand.clear()
        given = options(tmp_path) | {"queries": queries, "input.s": str(tmp_path / "s*.parquet")}
        source = PenstockSource(given)
        made = source.streamReader(source.schema())
        rows = pa.table({"ts": pa.array([10 * batch + 1], pa.timestamp("us")), "k": [1]})
        pq.write_table(rows, tmp_path / f"s{batch}.parquet")
        made.latestOffset(made.initialOffset(), made.getDefaultReadLimit())
        [part] = made.partitions({"s": batch}, {"s": batch + 1})
        return [name for one in made.read(part) for name in one["name"].to_pylist()]

    write_names(tmp_path, NAMES)
    assert read(0) == ["one"]
    write_names(tmp_path, NAMES.take([1, 0, 2]))
    assert read(1) == ["one"]
    write_names(tmp_path, NAMES.slice(0, 1))
    with pytest.raises(UsageError, match=REFUSED.format(1)):
        read(2)
    write_names(tmp_path, NAMES)
    with pytest.raises(UsageError, match="Expected the watermark of `s` that was saved, `ts`, found"):
        read(2, SQL.replace("k BIGINT);", "k BIGINT, WATERMARK FOR ts AS ts - 1 SECOND);", 1))
    assert read(2) == ["one"]

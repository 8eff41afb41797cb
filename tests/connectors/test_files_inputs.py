"""Which files an input names, in which order they are read, and the rate estimated from them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from files_help import SCHEMA, make_table, write_as

from penstock.connectors import inputs
from penstock.connectors.inputs import expand, natural_key, parse_input
from penstock.connectors.merge import Feed
from penstock.connectors.rates import estimate_rate
from penstock.engine.rows.errors import FileError, UsageError


def test_parse_input(tmp_path: Path) -> None:
    assert parse_input("t= a=b.csv ") == inputs.InputSpec("t", ("a=b.csv",))
    assert parse_input("t=-").paths == ("-",)
    for bad in ("t", "t=", "=x.csv", "", " = "):
        with pytest.raises(UsageError) as caught:
            parse_input(bad)
        assert str(caught.value) == f"Expected `-i stream=file`, found `-i {bad}`"


def test_patterns_expand_in_natural_order(tmp_path: Path) -> None:
    for name in ("part10.csv", "part2.csv", "part1.csv", "other.txt", "a[1].csv"):
        (tmp_path / name).touch()
    (tmp_path / "part3.csv").mkdir()
    names = [os.path.basename(path) for path in expand(str(tmp_path / "part*.csv"))]
    assert names == ["part1.csv", "part2.csv", "part10.csv"]
    assert expand(str(tmp_path / "a[1].csv")) == [str(tmp_path / "a[1].csv")]
    assert sorted(["b", "a10", "a9", "10", "9", "a"], key=natural_key) == ["9", "10", "a", "a9", "a10", "b"]
    with pytest.raises(FileError) as caught:
        expand(str(tmp_path / "no*.csv"))
    assert str(caught.value) == f"Expected files matching `{tmp_path}/no*.csv`, found none"


def test_files_of_one_input_follow_each_other_whatever_their_formats(tmp_path: Path) -> None:
    table = make_table(300)
    paths = []
    for place, kind in enumerate(("csv", "parquet", "jsonl")):
        path = write_as(kind, table.slice(place * 100, 100), tmp_path)
        paths.append(path.rename(tmp_path / f"part{place}.{kind}"))
    feed = Feed("s", [[str(path) for path in paths]], SCHEMA, "ts")
    first, second, third = feed.read(), feed.read(), feed.read()
    assert first is not None
    assert second is not None
    assert third is not None
    assert pa.Table.from_batches([first.data, second.data, third.data]) == table
    assert second.place(7) == (str(paths[1]), 7)
    assert feed.read() is None
    assert feed.bytes_worked(len(table)) == feed.bytes_total == sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_rates_are_estimated_from_the_file(kind: str, tmp_path: Path) -> None:
    path = write_as(kind, make_table(1001, step_us=2_000), tmp_path)
    assert estimate_rate([str(path)], SCHEMA, "ts") == pytest.approx(500)


def test_the_rate_of_one_row_is_not_known(tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        for rows in (0, 1):
            assert estimate_rate([str(write_as(kind, make_table(rows), tmp_path))], SCHEMA, "ts") is None

"""The parts of the Spark sink that need no Spark: rows by stream and time, folders of saved states."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.connectors.spark.outputs import folder_name, local_path
from penstock.connectors.spark.saved_states import SavedStates
from penstock.connectors.spark.split_batch import split_batch

KINDS = (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))


@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5))),
    cuts=st.lists(st.integers(0, 20)),
    kind=st.sampled_from(KINDS),
)
def test_rows_by_stream_and_time(rows: list[tuple[str, int]], cuts: list[int], kind: pa.DataType) -> None:
    """Against Python's own sort, which keeps the order of equals, whatever pieces the rows came in."""
    tags, times = (
        pa.array([tag for tag, _ in rows], pa.string()),
        pa.array([ts for _, ts in rows], pa.int64()),
    )
    columns = {"At": times.cast(kind), "id": range(len(rows)), "_stream": tags}
    whole = pa.table(columns)
    ends = sorted(min(one, len(rows)) for one in cuts)
    pieces = [
        whole.slice(start, stop - start) for start, stop in zip([0, *ends], [*ends, len(rows)], strict=True)
    ]
    found = split_batch(pa.concat_tables(pieces), {"A": "at", "b": "AT", "c": "At"})
    expected: dict[str, list[int]] = {}
    for number in sorted(range(len(rows)), key=lambda n: rows[n][1]):
        expected.setdefault("A" if rows[number][0] == "a" else rows[number][0], []).append(number)
    assert {stream: part["id"].to_pylist() for stream, part in found.items()} == expected
    assert all(part.schema.names == ["At", "id"] for part in found.values())


def test_one_stream_needs_no_tag() -> None:
    table = pa.table({"ts": [3, 1, 2]})
    assert split_batch(table, {"s": "ts"})["s"]["ts"].to_pylist() == [1, 2, 3]
    assert split_batch(table.slice(0, 0), {"s": "ts"}) == {}
    tagged = table.append_column("_stream", pa.array(["s", None, "s"]))
    with pytest.raises(
        penstock.DataError, match="Expected one of `s` in column `_stream`, found `NULL`, row 2"
    ):
        split_batch(tagged, {"s": "ts"})


def test_two_states_are_kept(tmp_path: Path) -> None:
    states = SavedStates(tmp_path / "new")
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT)")
    assert states.load(0, "q") is None
    for batch in range(4):
        states.save(engine, batch, "q")
        assert states.batches() == list(range(max(0, batch - 1), batch + 1))
    states.save(engine, 3, "q")
    assert states.batches() == [2, 3]
    for batch in (3, 4):
        restored = states.load(batch, "q")
        noted = {"batch": batch - 1, "query": "q", "without_time": {}}
        assert restored is not None and restored.note == noted
    for batch in (1, 2, 5):
        with pytest.raises(
            penstock.UsageError, match=f"Expected the state after batch {batch - 1} in .*2, 3"
        ):
            states.load(batch, "q")
    with pytest.raises(
        penstock.UsageError, match=r"Expected the state of Spark query `other`.*found that of `q`"
    ):
        states.load(0, "other")
    states.save(engine, 0, "q")
    assert states.batches() == [0], "those of a longer run are not of this one"


def test_a_state_that_is_damaged_is_refused(tmp_path: Path) -> None:
    states = SavedStates(tmp_path)
    engine = penstock.Engine()
    states.save(engine, 0, None)
    file = tmp_path / "batch-0.penstock"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(penstock.PenstockError):
        states.load(1, None)


def test_paths() -> None:
    assert [local_path(one) for one in ("/a", "file:/a", "file:///a", "a:b")] == ["/a", "/a", "/a", "a:b"]
    assert folder_name("a/b=c%") == "a%2Fb%3Dc%25"

"""Several inputs in the order of time: of one stream row by row, of many by batches, and replayed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from files_help import SCHEMA, make_table, write_as
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors import readers
from penstock.connectors.merge import Feed, read_in_time_order, replay

ORDER_SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("input", pa.int64()), ("number", pa.int64())])


def write_times(folder: Path, times: list[list[int]]) -> list[list[str]]:
    """One CSV file per list of times, rows numbered."""
    paths = []
    for at, own in enumerate(times):
        path = folder / f"in{at}.csv"
        rows = [f"{ts},{at},{number}" for number, ts in enumerate(own)]
        path.write_text("\n".join(["ts,input,number", *rows]) + "\n")
        paths.append([str(path)])
    return paths


@given(
    times=st.lists(st.lists(st.integers(0, 30), max_size=25), min_size=1, max_size=4),
    batch_rows=st.integers(1, 8),
)
@settings(max_examples=60, deadline=None)
def test_inputs_of_one_stream_merge_row_by_row(
    times: list[list[int]], batch_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Against a sort: by the latest time so far in the row's own input, then the input, then the row."""
    folder = tmp_path_factory.mktemp("merge")
    keyed = []
    for at, own in enumerate(times):
        for number, ts in enumerate(own):
            keyed.append((max(own[: number + 1]), at, number, ts))
    expected = [(ts, at, number) for _, at, number, ts in sorted(keyed)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BATCH_ROWS", batch_rows)
        feed = Feed("s", write_times(folder, times), ORDER_SCHEMA, "ts")
        found = []
        while (batch := feed.read()) is not None:
            assert len(batch) > 0
            for place, row in enumerate(batch.data.to_pylist(), start=1):
                assert batch.place(place) == (str(folder / f"in{row['input']}.csv"), row["number"] + 1)
                found.append((row["ts"].microsecond, row["input"], row["number"]))
    assert found == expected


@given(
    times=st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=4),
    batch_rows=st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_the_stream_that_is_behind_is_read_first(
    times: list[list[int]], batch_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    times = [sorted(own) for own in times]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BATCH_ROWS", batch_rows)
        paths = write_times(folder, times)
        feeds = [Feed(str(at), [path], ORDER_SCHEMA, "ts") for at, path in enumerate(paths)]
        given_rows = [0] * len(times)
        for step in read_in_time_order(feeds):
            at = int(step.stream)
            unfinished = [n for n, own in enumerate(times) if given_rows[n] < len(own)]
            come = [times[n][given_rows[n] - 1] if given_rows[n] else -1 for n in unfinished]
            own_come = times[at][given_rows[at] - 1] if given_rows[at] else -1
            assert own_come == min(come)
            assert step.batch is not None
            given_rows[at] += len(step.batch)
            if step.reached_us is not None:  # nothing before it is still to come
                for own, count in zip(times, given_rows, strict=True):
                    assert all(ts >= step.reached_us for ts in own[count:])
        assert given_rows == [len(own) for own in times]


def test_slack_holds_time_back(tmp_path: Path) -> None:
    (path,) = write_times(tmp_path, [[10, 20, 15]])
    (step,) = read_in_time_order([Feed("s", [path], ORDER_SCHEMA, "ts", slack_us=8)])
    assert step.reached_us == 12


def test_replay_gives_each_row_at_its_time(tmp_path: Path) -> None:
    """
    stream a   0 .5      2.0        at 2x:  0 .25      1.0
    stream b      .5  1.0           at 2x:    .25  .5
    """
    second = 1_000_000
    paths = write_times(tmp_path, [[0, second // 2, 2 * second], [second // 2, second]])
    feeds = [Feed(name, [path], ORDER_SCHEMA, "ts") for name, path in zip("ab", paths, strict=True)]
    now = [100.0]

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= 0.2
        now[0] += seconds

    seen = []
    for step in replay(feeds, 2.0, lambda: now[0], sleep):
        if step.batch is not None:
            seen += [(step.stream, int(ts), round(now[0] - 100, 2)) for ts in step.batch.times]
        else:
            assert step.reached_us == pytest.approx((now[0] - 100) * 2 * second, abs=1)
    assert [(stream, ts) for stream, ts, _ in seen] == [
        ("a", 0),
        ("a", second // 2),
        ("b", second // 2),
        ("b", second),
        ("a", 2 * second),
    ]
    for _, ts, at in seen:
        assert ts / second / 2 <= at <= ts / second / 2 + 0.05


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "arrow", "arrows"])
def test_what_was_only_read_ahead_is_not_counted_as_done(kind: str, tmp_path: Path) -> None:
    table = make_table(250_000, 10)
    path = write_as(kind, table, tmp_path)
    feed = Feed("s", [[str(path)]], SCHEMA, "ts")
    assert feed.bytes_total == path.stat().st_size
    rows = 0
    while (batch := feed.read()) is not None:
        for worked in (rows, rows + len(batch) // 2, rows + len(batch)):
            share = feed.bytes_worked(worked) / feed.bytes_total
            assert abs(share - worked / len(table)) < 0.1
        rows += len(batch)
    assert rows == len(table)
    assert feed.bytes_worked(rows) == feed.bytes_total
    feed.close()

"""One row from a clock that is wrong: hops without rows cost nothing, very many answers are refused.

hop 1 s, COUNT(*)     rows   1  2                      5 h                 50 years
                      hops   1  2  17,998 without rows 5 h  1,577,862,000  |       refused
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cli_help import invoke
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.connectors.push_steps import push_in_steps
from penstock.engine.running import hop_limit

S = 1_000_000
YEARS_50 = int(50 * 365.25 * 86_400) * S
DECLARED = """
CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT); CREATE STREAM r (ts TIMESTAMP, k BIGINT, v BIGINT);
CREATE TABLE t (k BIGINT, w BIGINT)
"""
MODES = ["auto", "DIDO", "DICO", "CICO", "CIDO"]
EMPTY_IN_BETWEEN = {
    "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k": 22,
    "SELECT k, MAX(v) AS n FROM s [RANGE 10 SECONDS] GROUP BY k": 22,
    "SELECT k FROM s [RANGE 10 SECONDS]": 31,
    "SELECT DISTINCT k FROM s [RANGE 10 SECONDS]": 22,
    "SELECT k FROM s [RANGE 10 SECONDS] EXCEPT SELECT v FROM s [RANGE 3 SECONDS]": 17,
    "SELECT k FROM s [RANGE 10 SECONDS] EXCEPT SELECT v + 9 FROM s [ROWS 3]": 22,
    "SELECT k FROM s [RANGE 10 SECONDS] INTERSECT SELECT k FROM s [ROWS 3]": 22,
    "SELECT k FROM s [RANGE 10 SECONDS] UNION ALL SELECT k FROM s [RANGE 3 SECONDS]": 41,
    "SELECT a.k FROM s [RANGE 10 SECONDS] AS a JOIN r [RANGE 10 SECONDS] AS b ON a.k = b.k": 49,
    "SELECT a.k FROM s [RANGE 10 SECONDS] AS a LEFT JOIN s [RANGE 9 SECONDS] AS b ON a.k = b.v": 31,
    "SELECT a.k FROM s [RANGE 10 SECONDS] AS a JOIN s [ROWS 3] AS b ON a.k = b.k": 51,
    "SELECT a.k FROM s [RANGE 10 SECONDS] AS a JOIN s [RANGE UNBOUNDED] AS b ON a.k = b.k": 52,
    "SELECT a.k, t.w FROM s [RANGE 10 SECONDS] AS a JOIN t ON a.k = t.k": 31,
    "SELECT t.k, COUNT(*) AS n FROM s [RANGE 10 SECONDS] AS a JOIN t ON a.k = t.k GROUP BY t.k": 22,
    "SELECT a.k FROM s [RANGE 10 SECONDS] AS a WHERE NOT EXISTS (SELECT * FROM t WHERE t.w = a.k)": 31,
    "SELECT a.n FROM (SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS]) AS a "
    "JOIN s [RANGE 10 SECONDS] AS b ON b.k = a.n": 3,
}
"""And how many rows all answers have."""
NEVER_EMPTY = [
    "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS]",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS]) AS a WHERE n > 0",
    "SELECT k, v FROM s [ROWS 3]",
    "SELECT k, v FROM s [PARTITION BY k ROWS 3]",
    "SELECT k, COUNT(*) AS n FROM s [RANGE UNBOUNDED] GROUP BY k",
    "SELECT t.w FROM t LEFT JOIN s [RANGE 10 SECONDS] AS a ON a.k = t.k",
    "SELECT t.w FROM t WHERE NOT EXISTS (SELECT * FROM s [RANGE 10 SECONDS] AS a WHERE a.k = t.k)",
    "SELECT k FROM s [ROWS 2] EXCEPT SELECT v + 9 FROM s [RANGE 10 SECONDS]",
]
START = {"ts": [0, S, 2 * S], "k": [1, 1, 2], "v": [1, 2, 3]}


def row(ts: int) -> dict[str, list[int]]:
    return {"ts": [ts], "k": [1], "v": [5]}


def engine_with(
    text: str, declared: str = DECLARED, **options: Any
) -> tuple[penstock.Engine, penstock.Query]:
    engine = penstock.Engine(**options)
    engine.execute(declared)
    query = engine.query(text, name="watched")
    if "t" in engine.tables:
        engine.push("t", {"k": [1, 2], "w": [7, 8]})
    return engine, query


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("sql", EMPTY_IN_BETWEEN)
def test_fifty_years_without_rows_are_one_step(sql: str, modes: str) -> None:
    """Against the rows that all answers together have; at each of 1.6e9 hops this would take minutes."""
    engine, query = engine_with(f"{sql} HOP BY 1 SECONDS", modes=modes)
    for rows in (START, row(YEARS_50)):
        engine.push("s", rows)
        engine.push("r", rows)
    engine.close()
    assert query.results().num_rows == EMPTY_IN_BETWEEN[sql]


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("sql", [*EMPTY_IN_BETWEEN, *NEVER_EMPTY])
def test_differences_pass_them_in_one_step_whatever_the_query(sql: str, modes: str) -> None:
    engine, query = engine_with(f"{sql} HOP BY 1 SECONDS EMIT DELTA", modes=modes)
    for rows in (START, row(YEARS_50)):
        engine.push("s", rows)
        engine.push("r", rows)
    assert query.count < 100


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("sql", NEVER_EMPTY)
def test_more_than_a_million_answers_are_refused_before_anything_is_taken(sql: str, modes: str) -> None:
    engine, query = engine_with(f"{sql} HOP BY 1 SECONDS", modes=modes)
    engine.push("s", START)
    before = engine.stats()["streams"]
    with pytest.raises(penstock.HopsError) as refused:
        engine.push("s", {"ts": [3 * S, YEARS_50], "k": [1, 1], "v": [5, 5]})
    assert re.match(
        r"Expected at most 1,000,000 hops without rows in one call, found 1,577,87\d,\d{3} of query "
        r"`watched`, HOP BY 1 SECOND, as the row is at `2020-01-01 12:00:00`, in `s`, row 2\. .* AHEAD AT ",
        str(refused.value),
    )
    assert isinstance(refused.value, penstock.DataError) and refused.value.exit_code == 4
    assert engine.stats()["streams"] == before
    engine.push("s", row(4 * S))
    assert query.results().num_rows > 0


def test_rows_in_a_window_count_as_long_as_they_are_in_it() -> None:
    engine, _ = engine_with("SELECT k FROM s [RANGE 10 SECONDS] HOP BY 1 MICROSECONDS")
    engine.push("s", row(0))
    with pytest.raises(penstock.HopsError, match="found 10,000,000 of query"):
        engine.push("s", row(600 * S))
    short, again = engine_with("SELECT k FROM s [RANGE 10 us] HOP BY 1 MICROSECONDS")
    short.push("s", row(0))
    short.push("s", row(600 * S))
    assert again.count == 10


@pytest.fixture
def at_most_five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_limit, "MOST_HOPS", 5)


COUNT = "SELECT COUNT(*) AS n FROM s [RANGE 3 us] HOP BY 10 us"


@pytest.mark.usefixtures("at_most_five")
def test_exactly_as_many_as_may_be_are_given() -> None:
    engine, query = engine_with(COUNT)
    engine.push("s", row(0))
    engine.push("s", row(60))  # 0, then 10 to 50
    assert query.count == 6
    with pytest.raises(penstock.HopsError, match="found 6 of query"):
        engine.push("s", row(121))
    engine.push("s", row(120))
    assert query.count == 12  # 60, which has a row, then 70 to 110


@pytest.mark.usefixtures("at_most_five")
def test_hops_with_rows_do_not_count() -> None:
    engine, query = engine_with(COUNT)
    engine.push("s", {"ts": range(0, 1000, 10), "k": [1] * 100, "v": [1] * 100})
    assert query.count == 99


@pytest.mark.usefixtures("at_most_five")
def test_time_that_is_advanced_is_looked_at_too() -> None:
    engine, query = engine_with(COUNT)
    engine.push("s", row(0))
    for stream in (None, "s"):
        with pytest.raises(penstock.HopsError, match="found 8 of query `watched`, HOP BY 10 MICRO"):
            engine.advance(81, stream)
    engine.advance(51)
    engine.advance(81)
    assert query.count == 9


@pytest.mark.usefixtures("at_most_five")
@pytest.mark.parametrize("modes", MODES)
def test_the_end_of_the_input_too_and_the_engine_stays_open(modes: str) -> None:
    """Rows of `s` wait for `r`, which comes to them when both end."""
    text = "SELECT COUNT(*) AS n FROM s [RANGE 3 us] AS a LEFT JOIN r [NOW] AS b ON a.k = b.k HOP BY 10 us"
    engine, query = engine_with(text, modes=modes)
    engine.push("r", row(0))
    engine.push("s", {"ts": [0, 100], "k": [1, 1], "v": [1, 1]})
    with pytest.raises(penstock.HopsError, match="of query `watched`"):
        engine.close()
    engine.advance(51, "r")
    engine.close()
    assert query.count == 11


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize(
    "inner",
    ["s [ROWS 2]", "(SELECT k, COUNT(*) AS n FROM s [RANGE UNBOUNDED] GROUP BY k)", "s [RANGE 1 DAYS]"],
)
def test_what_a_part_gives_while_another_stream_is_silent_counts(inner: str, modes: str) -> None:
    """A window is told whole at each hop by the time of its own stream, if what is above reads it so."""
    text = f"SELECT a.k FROM {inner} AS a JOIN r [RANGE 1 us] AS b ON a.k = b.k HOP BY 10 us"
    engine, query = engine_with(text, modes=modes)
    engine.push("s", row(0))
    with suppress(penstock.HopsError):
        engine.push("s", row(YEARS_50))
    assert engine.stats()["streams"]["s"]["rows_in"] in (1, 2)
    assert query.count == 0


@pytest.mark.usefixtures("at_most_five")
def test_a_drained_window_too() -> None:
    engine, query = engine_with("SELECT k FROM s [RANGE 1000 us] HOP BY 10 us")
    engine.push("s", row(0))
    with pytest.raises(penstock.HopsError):
        engine.close(drain=True)
    engine.close()
    assert query.count == 1


@pytest.mark.usefixtures("at_most_five")
def test_streams_that_are_raised_by_others_are_looked_at() -> None:
    declared = """CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT);
                  CREATE STREAM r (ts TIMESTAMP, k BIGINT, v BIGINT, IDLE AFTER 10 us)"""
    text = "SELECT a.k FROM s [ROWS 2] AS a LEFT JOIN r [NOW] AS b ON a.k = b.k HOP BY 10 us"
    engine, _ = engine_with(text, declared)
    engine.push("r", row(0))
    engine.push("s", row(0))
    before = engine.stats()["streams"]
    with pytest.raises(penstock.HopsError):
        engine.push("s", row(1000))
    assert engine.stats()["streams"] == before
    engine.push("s", row(60))


@pytest.mark.usefixtures("at_most_five")
def test_only_rows_that_are_taken_move_time() -> None:
    declared = """CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT,
                    WATERMARK FOR ts AS ts - INTERVAL '20' us AHEAD AT MOST INTERVAL '100' us)"""
    engine, query = engine_with(COUNT + " LATE DROP", declared)
    engine.push("s", row(0))
    engine.push("s", {"ts": [500, 30, 75], "k": [1] * 3, "v": [1] * 3})  # 500 is dropped; time is at 55
    assert engine.stats()["streams"]["s"]["rows_ahead"] == 1
    assert query.count == 6
    with pytest.raises(penstock.HopsError, match=r"in `s`, row 3\."):
        engine.push("s", {"ts": [900, 1, 160], "k": [1] * 3, "v": [1] * 3})


@pytest.mark.usefixtures("at_most_five")
def test_queries_that_stopped_or_went_have_no_say() -> None:
    engine, query = engine_with(COUNT)
    engine.push("s", row(0))
    other = engine.query("SELECT k FROM s")
    query.drop()
    engine.push("s", row(1000))
    assert other.count == 1
    engine.query(COUNT, name="later")
    engine.push("s", row(1040))
    with pytest.raises(penstock.HopsError, match="`later`"):
        engine.push("s", row(2000))


def test_a_restored_engine_refuses_alike(at_most_five: None) -> None:
    engine, _ = engine_with(COUNT)
    engine.push("s", row(0))
    with pytest.raises(penstock.HopsError):
        penstock.Engine.restore_bytes(engine.checkpoint_bytes()).push("s", row(100))


@pytest.mark.usefixtures("at_most_five")
def test_who_reads_files_or_gets_batches_pushes_in_steps(tmp_path: Path) -> None:
    """Three gaps of four hops are too many for one push; a gap of nine is for any."""
    engine, query = engine_with(COUNT)
    times = [0, 50, 100, 150]
    rows = pa.table({"ts": times, "k": [1] * 4, "v": [1] * 4})
    with pytest.raises(penstock.HopsError, match=r"row 3\."):
        engine.push("s", rows)
    push_in_steps(engine, "s", rows)
    assert query.count == 15
    with pytest.raises(penstock.HopsError, match=r"row 1\."):
        push_in_steps(engine, "s", pa.table({"ts": [160, 260], "k": [1, 1], "v": [1, 1]}))
    assert engine.latest("s") == 160
    (tmp_path / "q.sql").write_text(f"{DECLARED}; CREATE QUERY q AS {COUNT}")
    for end, code in ((150, 0), (260, 4)):
        (tmp_path / "s.csv").write_text("ts,k,v\n" + "".join(f"{ts},1,1\n" for ts in (*times[:3], end)))
        words = ["run", str(tmp_path / "q.sql"), "-q", "-i", f"s={tmp_path / 's.csv'}"]
        result = invoke(*words, code=code)
        assert len(result.stdout.splitlines()) == (16 if code == 0 else 10)
    assert "`q`, HOP BY 10 MICROSECONDS" in result.stderr
    assert "s.csv`, row 4. " in result.stderr


@given(data=st.data())
def test_what_is_refused_and_what_is_given_by_counting(data: st.DataObject) -> None:
    """COUNT(*) answers each hop. Those of an engine that refuses nothing, less those that see a row first."""
    limited, query = engine_with(COUNT)
    free, every = engine_with(COUNT)
    taken: list[int] = []
    for _ in range(data.draw(st.integers(1, 6))):
        latest = max(taken, default=0)
        times = sorted(data.draw(st.lists(st.integers(latest, latest + 150), min_size=1, max_size=6)))
        rows = {"ts": times, "k": [1] * len(times), "v": [1] * len(times)}
        every.results()
        free.push("s", rows)
        hops = set(every.results()["_ts"].cast("int64").to_pylist())
        without = hops - {-(-ts // 10) * 10 for ts in (*taken, *times)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hop_limit, "MOST_HOPS", 7)
            if len(without) > 7:
                with pytest.raises(penstock.HopsError, match=f"found {len(without)} of"):
                    limited.push("s", rows)
                return
            limited.push("s", rows)
        taken += times
        assert query.count == every.count

"""Integers for times: in which unit they are, and when that is asked for instead of guessed."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cli_help import invoke
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.connectors.open_inputs import load_tables
from penstock.engine.intake.time_units import guess_unit

UNITS = {"SECONDS": 1_000_000_000, "MILLISECONDS": 1_000_000, "MICROSECONDS": 1_000, "NANOSECONDS": 1}
S = 1_475_323_200  # 2016-10-01 12:00:00
NOON = datetime.datetime(2016, 10, 1, 12)


def make(columns: str) -> tuple[penstock.Engine, penstock.Query]:
    engine = penstock.Engine()
    engine.execute(f"CREATE STREAM s ({columns})")
    return engine, engine.query("SELECT * FROM s")


@given(
    st.sampled_from(list(UNITS)),
    st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=5),
    st.sampled_from([pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.int64())]),
)
def test_integers_in_a_unit_against_python(unit: str, values: list[int | None], kind: pa.DataType) -> None:
    engine = penstock.Engine()
    engine.execute(f"CREATE TABLE t (c TIMESTAMP UNIT {unit})")
    found = pa.array(values, pa.int64())
    column = found.dictionary_encode() if pa.types.is_dictionary(kind) else found.cast(kind)
    expected = [None if v is None else v * UNITS[unit] // 1_000 for v in values]
    bad = next((n for n, v in enumerate(expected) if v is not None and not -(2**63) <= v < 2**63), None)
    if bad is not None:
        with pytest.raises(penstock.SchemaError, match=f"whole {unit.lower()} since 1970") as caught:
            engine.push("t", pa.table({"c": column}))
        assert caught.value.row == bad + 1
    else:
        engine.push("t", pa.table({"c": column}))
        assert engine.table_rows("t")["c"].cast(pa.int64()).to_pylist() == expected


@pytest.mark.parametrize("unit", UNITS)
def test_real_times_and_iso_text_have_a_unit_of_their_own(unit: str) -> None:
    engine, query = make(f"ts TIMESTAMP UNIT {unit}")
    for times in (
        [NOON],
        [NOON.isoformat()],
        pa.array([S], pa.timestamp("s")),
        pa.array([S], pa.timestamp("s", "UTC")),
    ):
        engine.push("s", {"ts": times})
    assert query.results()["ts"].to_pylist() == [NOON] * 4


NANOSECONDS: list[Any] = [
    pa.array([1001, -1, 1999], pa.timestamp("ns")),
    pa.array([1001, -1, 1999], pa.timestamp("ns", "Asia/Tokyo")),
    ["1970-01-01 00:00:00.000001001", "1969-12-31T23:59:59.999999999Z", "1970-01-01 00:00:00.000001999"],
    [1001, -1, 1999],
]


@pytest.mark.parametrize("column", NANOSECONDS, ids=["times", "in a zone", "ISO text", "integers"])
def test_nanoseconds_are_cut_if_the_stream_says_so(column: Any) -> None:
    engine = penstock.Engine()
    engine.execute("CREATE TABLE t (c TIMESTAMP UNIT NANOSECONDS); CREATE TABLE u (c TIMESTAMP)")
    engine.push("t", {"c": column})
    assert engine.table_rows("t")["c"].cast(pa.int64()).to_pylist() == [1, -1, 1]
    if column is not NANOSECONDS[-1]:
        with pytest.raises(penstock.SchemaError) as caught:
            engine.push("u", {"c": column})
        assert caught.value.row == 1


DOUBTED = [
    (S, "SECONDS", "1970-01-01 00:24:35.32"),
    (S * 1_000, "MILLISECONDS", "1970-01-18 01:48:43"),
    (S * 1_000_000_000, "NANOSECONDS", "not of our age"),
]


@pytest.mark.parametrize(("value", "unit", "seen"), DOUBTED, ids=[case[1] for case in DOUBTED])
@pytest.mark.parametrize("name", ["ts", "sent"])
def test_a_first_integer_of_another_unit_is_refused(value: int, unit: str, seen: str, name: str) -> None:
    """In the time column and in every other TIMESTAMP column."""
    engine, query = make("ts TIMESTAMP, sent TIMESTAMP")
    rows: dict[str, list[Any]] = {"ts": [5, 6], "sent": [None, None]}
    rows[name] = [value - 1, value] if name == "ts" else [None, value]
    with pytest.raises(penstock.SchemaError) as caught:
        engine.push("s", rows)
    message = str(caught.value)
    for part in (
        f"`{name}`",
        seen,
        "as " + unit.lower(),
        "2016-10-01",
        f"`{name} TIMESTAMP UNIT {unit}`",
        "--time-unit",
    ):
        assert part in message, message
    assert caught.value.row == (1 if name == "ts" else 2)
    assert engine.stats()["streams"]["s"]["rows_in"] == query.count == 0
    fitting, declared = make(f"ts TIMESTAMP UNIT {unit}, sent TIMESTAMP UNIT {unit}")
    fitting.push("s", rows)
    assert declared.results()[name].to_pylist()[-1].replace(microsecond=0) == NOON


def test_only_the_first_integer_is_looked_at() -> None:
    engine, query = make("ts TIMESTAMP, sent TIMESTAMP")
    engine.push("s", {"ts": [1, 2], "sent": [None, None]})
    engine.push("s", {"ts": pa.array([NOON]), "sent": [7]})
    with pytest.raises(penstock.LateError):
        engine.push("s", {"ts": [S], "sent": [S]})  # late, and not of another unit
    engine.push("s", {"ts": [S * 1_000_000], "sent": [S]})
    assert query.results()["sent"].cast(pa.int64()).to_pylist() == [None, None, 7, S]


def test_a_refused_push_has_not_been_looked_at() -> None:
    engine, _ = make("ts TIMESTAMP, k BIGINT")
    with pytest.raises(penstock.SchemaError, match="`k`"):
        engine.push("s", {"ts": [1], "k": ["x"]})
    with pytest.raises(penstock.SchemaError, match="UNIT SECONDS"):
        engine.push("s", {"ts": [S], "k": [1]})


def test_a_push_refused_as_late_has_not_been_looked_at_either() -> None:
    engine, _ = make("ts TIMESTAMP, k BIGINT")
    with pytest.raises(penstock.LateError):
        engine.push("s", {"ts": [5, 3], "k": [1, 1]})
    with pytest.raises(penstock.SchemaError, match="UNIT SECONDS"):
        engine.push("s", {"ts": [S], "k": [1]})


def test_small_numbers_and_microseconds_are_what_they_were() -> None:
    low, high = 978_307_200, 2_208_988_800
    assert [guess_unit(one) for one in (low - 1, low, high - 1, high)] == [None, "s", "s", None]
    assert [guess_unit(one * 1_000) for one in (low - 1, low, high - 1, high)] == [None, "ms", "ms", None]
    for value in (0, 7, -5, 10**8, 10**10, S * 1_000_000, 2**61):
        assert guess_unit(value) is None
        engine, query = make("ts TIMESTAMP")
        engine.push("s", {"ts": [value]})
        assert query.count == 1


def test_numpy_and_text() -> None:
    for times in (np.array([S]), [str(S)], pa.array([S], pa.uint32()), pa.array([S]).dictionary_encode()):
        engine, _ = make("ts TIMESTAMP")
        with pytest.raises(penstock.SchemaError, match="UNIT SECONDS"):
            engine.push("s", {"ts": times})


def test_unit_is_a_name_like_any_other() -> None:
    engine = penstock.Engine()
    engine.execute(
        "CREATE STREAM s (ts TIMESTAMP unit seconds, unit TIMESTAMP UNIT MILLISECONDS, WATERMARK FOR unit)"
    )
    engine.execute("CREATE STREAM unit (unit VARCHAR, ts TIMESTAMP)")
    query = engine.query("SELECT unit, ts FROM s")
    engine.push("s", {"ts": [S], "unit": [S * 1_000]})
    assert query.results().to_pylist() == [{"_ts": NOON, "unit": NOON, "ts": NOON}]


def test_what_is_no_unit() -> None:
    for text, words in (
        ("k BIGINT UNIT SECONDS", "Expected TIMESTAMP before UNIT, found BIGINT in column `k`"),
        (
            "k TIMESTAMP UNIT HOURS",
            "Expected `SECONDS`, `MILLISECONDS`, `MICROSECONDS` or `NANOSECONDS`, found `HOURS`",
        ),
        ("k TIMESTAMP UNIT", "or `NANOSECONDS`, found `)`"),
        ("k TIMESTAMP UNIT SECONDS UNIT SECONDS", "Expected `,` or `)`"),
    ):
        with pytest.raises(penstock.QueryError) as caught:
            penstock.Engine().execute(f"CREATE STREAM s (ts TIMESTAMP, {text})")
        assert words in str(caught.value)


def test_units_and_what_was_looked_at_are_in_a_checkpoint(tmp_path: Path) -> None:
    engine, _ = make("ts TIMESTAMP UNIT SECONDS, sent TIMESTAMP")
    engine.push("s", {"ts": [S], "sent": [7]})
    engine.checkpoint(tmp_path / "c")
    again = penstock.Engine.restore(tmp_path / "c")
    again.push("s", {"ts": [S + 1], "sent": [S]})
    assert again.queries["query_1" if "query_1" in again.queries else next(iter(again.queries))].results()[
        "ts"
    ].to_pylist() == [NOON, NOON + datetime.timedelta(seconds=1)]
    assert again.streams["s"].field("ts").metadata == {b"penstock.unit": b"s"}


# -- files and the command --------------------------------------------------------------------------------

SQL = "CREATE STREAM s (ts TIMESTAMP, k BIGINT); CREATE QUERY q AS SELECT k FROM s;"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.sql").write_text(SQL)
    (tmp_path / "s.csv").write_text(f"ts,k\n{S * 1_000},1\n{S * 1_000 + 500},2\n")
    return tmp_path


def times_of(text: str) -> list[str]:
    return [json.loads(line)["_ts"] for line in text.splitlines()]


def test_the_command_refuses_and_is_told(here: Path) -> None:
    result = invoke("run", "q.sql", "-i", "s=s.csv", code=4)
    assert result.stdout == ""
    error = result.stderr.splitlines()[-1]
    for part in ("`ts`", "as milliseconds 2016-10-01 12:00:00", "`s.csv`", "row 1", "--time-unit STREAM=ms"):
        assert part in error, error
    expected = ["2016-10-01T12:00:00.000000Z", "2016-10-01T12:00:00.500000Z"]
    for unit in ("s=ms", "S=milliseconds"):
        assert times_of(invoke("run", "q.sql", "-i", "s=s.csv", "--time-unit", unit).stdout) == expected
    (here / "q.sql").write_text(SQL.replace("ts TIMESTAMP", "ts TIMESTAMP UNIT MILLISECONDS"))
    for words in ([], ["--time-unit", "s=ms"]):
        assert times_of(invoke("run", "q.sql", "-i", "s=s.csv", *words).stdout) == expected
    assert "1.5" not in invoke("explain", "q.sql", "-i", "s=s.csv").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--time-unit", "ms"], "Expected `--time-unit stream=unit`, the unit s, ms, us or ns, found `ms`"),
        (["--time-unit", "s=h"], "the unit s, ms, us or ns, found `s=h`"),
        (["--time-unit", "t=ms"], "Expected a declared stream in `--time-unit t=ms`, found `t`"),
        (
            ["--time-unit", "s=ms", "--time-unit", "s=s"],
            "Expected one --time-unit of `s`, found `ms` and `s`",
        ),
    ],
)
def test_time_units_that_are_none(words: list[str], said: str, here: Path) -> None:
    assert said in invoke("run", "q.sql", "-i", "s=s.csv", *words, code=2).stderr


def test_a_unit_against_the_declared_one_is_refused(here: Path) -> None:
    (here / "q.sql").write_text(SQL.replace("ts TIMESTAMP", "ts TIMESTAMP UNIT SECONDS"))
    line = invoke("run", "q.sql", "-i", "s=s.csv", "--time-unit", "s=ms", code=2).stderr
    assert "Expected a column of times in MILLISECONDS, found SECONDS declared for `ts`" in line


def test_explain_reads_files_in_a_unit(here: Path) -> None:
    assert "--time-unit" in invoke("explain", "q.sql", "-i", "s=s.csv", code=4).stderr
    assert "Stream s" in invoke("explain", "q.sql", "-i", "s=s.csv", "--time-unit", "s=ms").stdout


def test_tables_too(here: Path) -> None:
    engine = penstock.Engine()
    engine.execute("CREATE TABLE t (ts TIMESTAMP)")
    with pytest.raises(penstock.DataError, match="as milliseconds"):
        load_tables(engine, {"t": [["s.csv"]]})
    load_tables(engine, {"t": [["s.csv"]]}, {"t": "ms"})
    assert engine.table_rows("t")["ts"].to_pylist()[0] == NOON

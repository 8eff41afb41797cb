"""Types of Spark and ours, both ways: values, NULLs and times are exact, whatever zone the session shows."""

from __future__ import annotations

import datetime
import math
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

import penstock
from penstock.connectors.spark.schema import (
    FROM_SPARK,
    declare_stream,
    label_instants,
    spark_schema,
    sql_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu")
SUMMER = datetime.datetime(2024, 7, 1, 12, 0, 0, 123456)

VALUES = """
SELECT * FROM VALUES
  (TIMESTAMP '2024-07-01 12:00:00.123456Z', 1Y, 2S, 3, 4L, CAST(0.5 AS FLOAT), 1.25D, true, 'ä', 'vc', 'ch ',
   TIMESTAMP_NTZ '2024-07-01 12:00:00.123456', DATE '2024-07-01'),
  (TIMESTAMP '2024-07-01 12:00:01Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (TIMESTAMP '2024-07-01 12:00:02Z', -128Y, -32768S, -2147483648, -9223372036854775808L, CAST('NaN' AS FLOAT),
   CAST('-Infinity' AS DOUBLE), false, '', 'x', 'y', TIMESTAMP_NTZ '1969-12-31 23:59:59.999999',
   DATE '1969-12-31')
AS t (ts, b, s, i, l, f, d, o, text, vc, ch, wall, day)
"""
TYPES = {
    **dict.fromkeys(("b", "s", "i", "l"), "BIGINT"),
    **dict.fromkeys(("f", "d"), "DOUBLE"),
    "o": "BOOLEAN",
    **dict.fromkeys(("text", "vc", "ch"), "VARCHAR"),
    **dict.fromkeys(("ts", "wall", "day"), "TIMESTAMP"),
}


@pytest.fixture(params=ZONES)
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_values_reach_the_engine_and_come_back(zoned: SparkSession) -> None:
    frame = zoned.sql(VALUES)
    assert {name: str(type_) for name, type_ in sql_columns(frame.schema, "s").items()} == TYPES
    engine = penstock.Engine()
    engine.execute(declare_stream("s", frame))
    query = engine.query("SELECT * FROM s")
    engine.push("s", frame.toArrow())
    results = query.results()

    first, nothing, last = results.drop_columns(["_ts"]).to_pylist()
    assert first == {
        "ts": SUMMER,
        "b": 1,
        "s": 2,
        "i": 3,
        "l": 4,
        "f": 0.5,
        "d": 1.25,
        "o": True,
        "text": "ä",
        "vc": "vc",
        "ch": "ch ",
        "wall": SUMMER,
        "day": datetime.datetime(2024, 7, 1),
    }
    assert set(nothing) - {"ts"} == {name for name, value in nothing.items() if value is None}
    assert math.isnan(last["f"]) and last["d"] == -math.inf
    assert (last["b"], last["s"], last["i"], last["l"]) == (-128, -32768, -(2**31), -(2**63))
    assert last["wall"] == datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert last["day"] == datetime.datetime(1969, 12, 31)

    back = zoned.createDataFrame(label_instants(results))
    assert back.schema == spark_schema(results.schema)
    again = back.toArrow()
    assert again.schema.field("_ts").type == pa.timestamp("us", "UTC")
    for name in results.schema.names:
        ours, theirs = results[name], again[name]
        if pa.types.is_timestamp(ours.type):
            ours, theirs = ours.cast(pa.int64()), theirs.cast(pa.int64())
        assert repr(ours.to_pylist()) == repr(theirs.to_pylist()), name


@pytest.mark.parametrize(("column", "last"), [("wall", SUMMER), ("day", datetime.datetime(2024, 7, 1))])
def test_wall_clocks_and_dates_as_event_times(zoned: SparkSession, column: str, last: Any) -> None:
    """Taken as UTC, wherever the session is; Spark has watermarks on neither."""
    frame = zoned.sql(f"SELECT {column}, i FROM ({VALUES}) WHERE {column} IS NOT NULL ORDER BY {column}")
    engine = penstock.Engine()
    engine.execute(declare_stream("s", frame, time_column=column))
    query = engine.query("SELECT i FROM s")
    engine.push("s", frame.toArrow())
    results = label_instants(query.results())
    assert results["i"].to_pylist() == [-(2**31), 3]
    assert results["_ts"].type == pa.timestamp("us", "UTC")
    assert results["_ts"][1].as_py() == last.replace(tzinfo=datetime.UTC)
    back = zoned.createDataFrame(results).selectExpr("unix_micros(_ts) AS us").toArrow()["us"]
    assert back.to_pylist() == results["_ts"].cast(pa.int64()).to_pylist()


def test_instants_are_those_duckdb_reads(zoned: SparkSession, tmp_path: Any) -> None:
    """What Spark writes to Parquet, DuckDB reads as the same microseconds that reach the engine."""
    frame = zoned.sql("SELECT ts, i FROM (" + VALUES + ")")
    frame.write.parquet(str(tmp_path / "rows"))
    engine = penstock.Engine()
    engine.execute(declare_stream("s", frame))
    query = engine.query("SELECT i, ts FROM s")
    engine.push("s", frame.toArrow())
    sql = f"SELECT epoch_us(ts) FROM '{tmp_path}/rows/*.parquet' ORDER BY ts"
    expected = [one for (one,) in duckdb.sql(sql).fetchall()]
    assert query.results()["ts"].cast(pa.int64()).to_pylist() == expected


@pytest.mark.parametrize(
    ("expression", "found", "hint"),
    [
        ("CAST(1 AS DECIMAL(10,2))", "decimal(10,2)", "Cast it to double, or to bigint"),
        ("array(1)", "array<int>", "Cast it, or leave it out"),
        ("map('a', 1)", "map<string,int>", "Cast it, or leave it out"),
        ("named_struct('a', 1)", "struct<a:int>", "Select the fields you need"),
        ("X'00'", "binary", "Cast it to string if it is text"),
        ("INTERVAL '1' DAY", "interval day", "Cast it, or leave it out"),
        ("INTERVAL '1' MONTH", "interval month", "Cast it, or leave it out"),
        ("parse_json('1')", "variant", "Cast it, or leave it out"),
        ("NULL", "void", "Cast it, or leave it out"),
        ("'a' COLLATE UTF8_LCASE", "string collate UTF8_LCASE", "Cast it to string"),
    ],
)
def test_other_types_are_refused_by_name(spark: SparkSession, expression: str, found: str, hint: str) -> None:
    frame = spark.sql(f"SELECT timestamp_micros(1) AS ts, {expression} AS odd")
    with pytest.raises(penstock.SchemaError) as caught:
        declare_stream("s", frame)
    said = (
        "Expected a number, boolean, string, timestamp or date in column `odd`, "
        f"found `{found}`, in `s`. {hint}"
    )
    assert str(caught.value).startswith(said)


def test_every_type_there_is_is_carried_or_refused() -> None:
    """By what PySpark has, so that a new type of Spark's cannot slip through."""
    number = spark_types.LongType()
    made: dict[str, list[Any]] = {"ArrayType": [number], "MapType": [number, number]}
    made |= {"CharType": [3], "VarcharType": [3], "GeographyType": [4326], "GeometryType": [4326]}
    abstract = {"DataType", "AtomicType", "NumericType", "IntegralType", "FractionalType", "DatetimeType"}
    abstract |= {"AnyTimeType", "SpatialType", "AnsiIntervalType", "UserDefinedType", "StructField"}
    carried = set()
    for name, kind in vars(spark_types).items():
        if not isinstance(kind, type) or not issubclass(kind, spark_types.DataType) or name in abstract:
            continue
        field = spark_types.StructField("odd", kind(*made.get(name, [])))
        if kind in FROM_SPARK:
            carried.add(name.removesuffix("Type"))
            continue
        said = f"in column `odd`, found `{field.dataType.simpleString()}`, in `s`"
        with pytest.raises(penstock.SchemaError, match=re.escape(said)):
            sql_columns(spark_types.StructType([field]), "s")
    numbers = {"Byte", "Short", "Integer", "Long", "Float", "Double"}
    assert carried == numbers | {"Boolean", "String", "Varchar", "Char", "Timestamp", "TimestampNTZ", "Date"}


def test_a_stream_from_a_schema(spark: SparkSession) -> None:
    frame = spark.sql("SELECT timestamp_micros(1) AS At, 1 AS `a \"b\"`, 'x' AS `select`")
    declared = 'CREATE STREAM "my s" ("At" TIMESTAMP, "a ""b""" BIGINT, "select" VARCHAR, '
    declared += 'WATERMARK FOR "At" AS "At");'
    assert declare_stream("my s", frame, time_column="at") == declared
    engine = penstock.Engine()
    engine.execute(declared)
    query = engine.query('SELECT "a ""b""", "select" FROM "my s"')
    engine.push("my s", frame.toArrow())
    assert query.results().to_pylist()[0]["select"] == "x"


def test_the_watermark_of_spark_is_the_slack(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load().withWatermark("timestamp", "2 minutes 500 milliseconds")
    declared = declare_stream("s", frame)
    assert declared.endswith('WATERMARK FOR "timestamp" AS "timestamp" - 120500 MILLISECONDS);')
    engine = penstock.Engine()
    engine.execute(declared)
    assert engine.slack("s") == datetime.timedelta(seconds=120.5)
    exact = declare_stream("s", frame, slack=datetime.timedelta(0))
    assert exact.endswith('WATERMARK FOR "timestamp" AS "timestamp");')


def test_bad_declarations() -> None:
    schema = spark_types.StructType([spark_types.StructField("time", spark_types.TimestampType())])
    with pytest.raises(penstock.SchemaError) as caught:
        declare_stream("s", schema, time_column="tiem")
    said = "Expected a time column `tiem`, found none, in `s`. Did you mean `time`?"
    assert str(caught.value) == said
    with pytest.raises(penstock.UsageError, match="Expected a slack of 0 or more"):
        declare_stream("s", schema, time_column="time", slack=datetime.timedelta(seconds=-1))
    twice = spark_types.StructType([*schema.fields, spark_types.StructField("TIME", spark_types.LongType())])
    with pytest.raises(penstock.SchemaError, match="Expected one column `TIME`, found two, in `s`"):
        declare_stream("s", twice, time_column="time")


def test_intervals_are_microseconds(spark: SparkSession) -> None:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT)")
    query = engine.query("SELECT ts - TIMESTAMP '1970-01-01 00:00:01' AS since, NULL AS nothing FROM s")
    engine.push("s", {"ts": [1_500_000], "x": [1]})
    table = label_instants(query.results())
    frame = spark.createDataFrame(table)
    assert frame.schema == spark_schema(query.schema)
    assert frame.schema.simpleString() == "struct<_ts:timestamp,since:bigint,nothing:string>"
    assert [tuple(row)[1:] for row in frame.collect()] == [(500_000, None)]

"""Types of Spark and types of ours, both ways, and CREATE STREAM from the schema of a DataFrame.

| Spark                          | Penstock                               | back in Spark |
| ------------------------------ | -------------------------------------- | ------------- |
| tinyint, smallint, int, bigint | BIGINT                                 | bigint        |
| float, double                  | DOUBLE                                 | double        |
| boolean                        | BOOLEAN                                | boolean       |
| string, varchar, char          | VARCHAR                                | string        |
| timestamp                      | TIMESTAMP                              | timestamp     |
| timestamp_ntz                  | TIMESTAMP, its wall clock taken as UTC | timestamp     |
| date                           | TIMESTAMP, midnight UTC                | timestamp     |
|                                | INTERVAL (results only)                | bigint, in microseconds |

Everything else is refused by name, with its column. A timestamp of Spark is an instant, microseconds since
1970 UTC, and reaches Arrow as such: the session's time zone is only how Spark shows it, and touches nothing
here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark

from penstock.engine.rows.errors import SchemaError, UsageError, did_you_mean
from penstock.engine.rows.types import SqlType, from_arrow
from penstock.engine.rows.write_times import write_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FROM_SPARK: dict[type[spark.DataType], SqlType] = {
    spark.ByteType: SqlType.BIGINT,
    spark.ShortType: SqlType.BIGINT,
    spark.IntegerType: SqlType.BIGINT,
    spark.LongType: SqlType.BIGINT,
    spark.FloatType: SqlType.DOUBLE,
    spark.DoubleType: SqlType.DOUBLE,
    spark.BooleanType: SqlType.BOOLEAN,
    spark.StringType: SqlType.VARCHAR,
    spark.VarcharType: SqlType.VARCHAR,
    spark.CharType: SqlType.VARCHAR,
    spark.TimestampType: SqlType.TIMESTAMP,
    spark.TimestampNTZType: SqlType.TIMESTAMP,
    spark.DateType: SqlType.TIMESTAMP,
}
TO_SPARK: dict[SqlType, spark.DataType] = {
    SqlType.BIGINT: spark.LongType(),
    SqlType.DOUBLE: spark.DoubleType(),
    SqlType.BOOLEAN: spark.BooleanType(),
    SqlType.VARCHAR: spark.StringType(),
    SqlType.TIMESTAMP: spark.TimestampType(),
}
HINTS: dict[type[spark.DataType], str] = {
    spark.DecimalType: "Cast it to double, or to bigint in the smallest unit",
    spark.BinaryType: "Cast it to string if it is text",
    spark.StructType: "Select the fields you need",
    spark.StringType: "Cast it to string",
}
BINARY_COLLATION = "UTF8_BINARY"  # compares bytes, as Penstock does
INSTANT = pa.timestamp("us", "UTC")
WATERMARK_DELAY = "spark.watermarkDelayMs"
"""Key of what `withWatermark` notes with a column."""


def sql_type(field: spark.StructField, source: str) -> SqlType:
    """The type in which we carry a column of Spark, or a SchemaError that names what it is."""
    kind = type(field.dataType)
    found = FROM_SPARK.get(kind)
    collation = getattr(field.dataType, "collation", BINARY_COLLATION)
    if found is not None and collation == BINARY_COLLATION:
        return found
    raise SchemaError(
        f"Expected a number, boolean, string, timestamp or date in column `{field.name}`, "
        f"found `{field.dataType.simpleString()}`",
        source=source,
        hint=HINTS.get(kind, "Cast it, or leave it out with select"),
    )


def sql_columns(schema: spark.StructType, source: str) -> dict[str, SqlType]:
    """Names and types in which we carry the columns of a DataFrame; raises SchemaError for what we cannot."""
    columns: dict[str, SqlType] = {}
    for field in schema.fields:
        if any(field.name.lower() == name.lower() for name in columns):
            raise SchemaError(f"Expected one column `{field.name}`, found two", source=source)
        columns[field.name] = sql_type(field, source)
    return columns


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """What results of this schema are as a DataFrame; `_diff` is a tinyint, an INTERVAL its microseconds."""
    fields = []
    for field in carried_schema(schema):
        type_ = spark.ByteType() if field.type == pa.int8() else TO_SPARK[own_type(field)]
        fields.append(spark.StructField(field.name, type_))
    return spark.StructType(fields)


def own_type(field: pa.Field) -> SqlType:
    """Our type of a column of an engine's stream, or of a query's results."""
    ours = from_arrow(field.type)
    assert ours is not None, f"no stream has and no query gives {field.type}"
    return ours


def carried_schema(schema: pa.Schema) -> pa.Schema:
    """The Arrow types in which results go to Spark.

    Times are marked as UTC, without which Spark would take them for wall clocks. Intervals are microseconds,
    as in our other files: Parquet has no such type.
    """
    changed = {pa.timestamp("us"): INSTANT, pa.duration("us"): pa.int64()}
    return pa.schema([pa.field(field.name, changed.get(field.type, field.type)) for field in schema])


def label_instants(table: pa.Table) -> pa.Table:
    """Results as they go to Spark: times marked as UTC, intervals as microseconds."""
    return table.cast(carried_schema(table.schema))


def declare_stream(
    name: str,
    frame: DataFrame | spark.StructType,
    *,
    time_column: str | None = None,
    slack: datetime.timedelta | None = None,
    ordered: Mapping[str, str] | None = None,
) -> str:
    """CREATE STREAM for rows of this DataFrame.

    The time column is the one given, else the one of `withWatermark`, else `ts`. The slack, how late a row
    may be, is the one given, else the delay of `withWatermark`, else none. `ordered`: columns that grow, and
    what stands behind ORDERED, as {"n": "WITHIN 5 ROWS"}.
    """
    schema = frame if isinstance(frame, spark.StructType) else frame.schema
    columns = sql_columns(schema, name)
    delays = {
        one.name: one.metadata[WATERMARK_DELAY] for one in schema.fields if WATERMARK_DELAY in one.metadata
    }
    if time_column is None:
        time_column = next(iter(delays), "ts")
    found = next((one for one in columns if one.lower() == time_column.lower()), None)
    if found is None:
        hint = did_you_mean(time_column, columns) or "Name it with `time_column`"
        raise SchemaError(f"Expected a time column `{time_column}`, found none", source=name, hint=hint)
    slack_us = delays.get(found, 0) * 1000
    if slack is not None:
        slack_us = slack // datetime.timedelta(microseconds=1)
        if slack_us < 0:
            raise UsageError(f"Expected a slack of 0 or more, found `{slack}`")
    growing = order_words(columns, ordered or {}, name)
    written = [f"{quote(column)} {type_}{growing.get(column, '')}" for column, type_ in columns.items()]
    lateness = f" - {write_duration(slack_us)}" if slack_us else ""
    written.append(f"WATERMARK FOR {quote(found)} AS {quote(found)}{lateness}")
    return f"CREATE STREAM {quote(name)} ({', '.join(written)});"


def order_of(
    streams: Iterable[str], ordered: Mapping[str, Mapping[str, str]] | None
) -> dict[str, Mapping[str, str]]:
    """What was said of each stream's columns that grow."""
    names = list(streams)
    for name in ordered or {}:
        if name not in names:
            hint = did_you_mean(name, names) or ""
            raise UsageError(f"Expected one of the `streams` in `ordered`, found `{name}`. {hint}".rstrip())
    return {name: (ordered or {}).get(name, {}) for name in names}


def order_words(columns: Iterable[str], ordered: Mapping[str, str], name: str) -> dict[str, str]:
    """What stands behind the types of columns that grow."""
    names = {column.lower(): column for column in columns}
    words = {}
    for column, rule in ordered.items():
        if column.lower() not in names:
            what = f"Expected a column `{column}`, which is to be ORDERED, found none"
            raise SchemaError(what, source=name, hint=did_you_mean(column, names.values()))
        words[names[column.lower()]] = f" ORDERED {rule}".rstrip()
    return words


def quote(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'

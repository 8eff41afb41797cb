"""Several streaming DataFrames as one, each row tagged with its stream.

A foreachBatch sink has one DataFrame as its input, and a join needs two. So all go through in one: the column
`_stream` says whose a row is, and a column that a stream does not have is NULL in its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from penstock.engine.rows.errors import SchemaError, UsageError
from penstock.engine.rows.types import SqlType

from .schema import sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAG = "_stream"


def tag_streams(streams: Mapping[str, DataFrame]) -> DataFrame:
    """One DataFrame of the rows of all, with the column `_stream`; watermarks stay with their streams."""
    if not streams:
        raise UsageError("Expected at least one DataFrame by the name of its stream, found none")
    known: dict[str, tuple[StructField, str]] = {}
    for stream, frame in streams.items():
        for field in frame.schema.fields:
            first, owner = known.setdefault(field.name.lower(), (field, stream))
            _check_together(field, stream, first, owner)
    tagged = [frame.select(F.lit(stream).alias(TAG), "*") for stream, frame in streams.items()]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)


def _check_together(field: StructField, stream: str, first: StructField, owner: str) -> None:
    """Columns of one name become one: in types that Spark widens without loss and without a time zone."""
    if field.name.lower() == TAG:
        raise SchemaError(f"Expected no column `{TAG}`: it will say whose a row is", source=stream)
    ours, others = sql_type(field, stream), sql_type(first, owner)
    if ours is not others or (ours is SqlType.TIMESTAMP and field.dataType != first.dataType):
        raise SchemaError(
            f"Expected column `{field.name}` to be `{first.dataType.simpleString()}` as in `{owner}`, "
            f"found `{field.dataType.simpleString()}`",
            source=stream,
            hint="Cast one of them, or rename it with withColumnRenamed",
        )

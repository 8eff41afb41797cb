"""Rows and times as users have them.

NumPy arrays and pandas frames are copied, because their owner may change them. Arrow and polars data is taken
as it is: do not change memory under it.
"""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.rows.errors import SchemaError, UsageError
from penstock.engine.rows.window import MAX_TS

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def to_table(data: Any, stream: str) -> pa.Table:
    """Anything with Arrow's C stream interface, a record batch, or a dict of columns, as a table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, dict):
        return from_columns(data, stream)
    module = type(data).__module__
    if hasattr(data, "columns") and not hasattr(data, "collect"):
        try:
            if module.startswith("pandas"):
                return pa.Table.from_pandas(data.copy())
            if hasattr(data, "__arrow_c_stream__"):
                return pa.table(data)
        except UNREADABLE as error:
            raise SchemaError(
                f"Expected columns of one type each, found: {one_line(error)}", source=stream
            ) from None
    if not hasattr(data, "columns") and hasattr(data, "__arrow_c_stream__") and not hasattr(data, "name"):
        with suppress(*UNREADABLE):  # one column, say, and not a table
            return pa.table(data)
    hint = ""
    if isinstance(data, list):
        hint = "; rows as dicts become a table with pyarrow.Table.from_pylist(rows)"
    elif hasattr(data, "collect"):
        hint = "; call .collect() first"
    raise UsageError(
        f"Expected a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a dict of columns "
        f"for `{stream}`, found {type(data).__name__}{hint}"
    )


def from_columns(data: dict[str, Any], stream: str) -> pa.Table:
    """Lists or NumPy arrays by column name."""
    arrays = {}
    for name, values in data.items():
        if not isinstance(name, str):
            raise SchemaError(f"Expected names of columns, found `{name!r}`", source=stream)
        if isinstance(values, str) or not hasattr(values, "__len__"):
            raise SchemaError(
                f"Expected a list or array in column `{name}`, found one value; write `[{values!r}]`",
                source=stream,
            )
        try:
            arrays[name] = pa.array(values.copy() if isinstance(values, np.ndarray) else values)
        except OverflowError:
            raise SchemaError(
                f"Expected integers of 64 bits in column `{name}`, found a larger one", source=stream
            ) from None
        except UNREADABLE as error:
            raise SchemaError(
                f"Expected a list or array of one type in column `{name}`, found: {one_line(error)}",
                source=stream,
            ) from None
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        raise SchemaError(f"Expected columns of one length, found {found}", source=stream)
    return pa.table(arrays)


def one_line(error: BaseException) -> str:
    """The error's own words, as one line."""
    words = error.args if len(error.args) > 1 else (error,)
    return " ".join("; ".join(map(str, words)).split())


def to_microseconds(ts: Any) -> int:
    """A moment as microseconds since the epoch; without a zone it is UTC."""
    if isinstance(ts, datetime.datetime) and ts == ts:  # NaT is a datetime, and equals nothing
        moment = ts if ts.tzinfo is not None else ts.replace(tzinfo=datetime.UTC)
        return (moment - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(ts, np.datetime64) and not np.isnat(ts):
        ts = int(ts.astype("datetime64[us]").astype("int64"))
    elif isinstance(ts, np.integer):
        ts = int(ts)
    if isinstance(ts, bool) or not isinstance(ts, int):
        raise UsageError(f"Expected a datetime or int microseconds, found `{ts!r}`")
    if not -MAX_TS < ts < MAX_TS:
        raise UsageError(f"Expected a time within {MAX_TS:,} microseconds of the epoch, found `{ts}`")
    return ts

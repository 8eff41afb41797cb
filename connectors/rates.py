"""How fast a stream's rows come, estimated from its files without reading them whole."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

import pyarrow as pa
import pyarrow.compute as pc

from .convert import convert_column
from .inputs import Input
from .readers import ParquetReader, open_reader


def estimate_rate(paths: Sequence[str], schema: pa.Schema, time_column: str) -> float | None:
    """Rows per second of stream time, None if there are too few rows to tell.

    Parquet says how many rows it has and, where statistics were written, between which times; for the rest
    the first batch stands for all. Files of one input follow each other, so the first is enough.
    """
    field = schema.field(time_column)
    if paths[0].lower().endswith((".parquet", ".pq")):
        with closing(open_reader(paths[0], pa.schema([field]))) as reader:
            assert isinstance(reader, ParquetReader), "the extension decides"
            rows, span_us = _measure_parquet(reader, field)
            if span_us:
                return (rows - 1) / (span_us / 1e6)
    with closing(Input(paths[:1], schema, time_column, [])) as sample:
        batch = sample.read()
    if batch is None:
        return None
    span_us = _span_us(batch.data.column(schema.get_field_index(time_column)))
    return (len(batch) - 1) / (span_us / 1e6) if span_us else None


def _measure_parquet(reader: ParquetReader, field: pa.Field) -> tuple[int, int]:
    """All rows of the file and the microseconds between its first and its last time, 0 if it does not say."""
    metadata = reader.file.metadata
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    bounds = []
    with suppress(ValueError):  # no such leaf, or bounds that Python's datetime cannot hold
        column = paths.index(reader.columns[0])
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is None or not statistics.has_min_max:
                return metadata.num_rows, 0
            bounds += [statistics.min, statistics.max]
        if bounds:
            return metadata.num_rows, _span_us(convert_column(pa.array(bounds), field))
    return metadata.num_rows, 0


def _span_us(times: pa.Array) -> int:
    ends = pc.min_max(times.cast(pa.int64()))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return high - low if low is not None else 0

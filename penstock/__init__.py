"""Penstock: many continuous SQL queries over the same streams, for little more than the price of one."""

from penstock.api import Engine, Query
from penstock.engine.errors import (
    BindError,
    CheckpointError,
    DataError,
    FileError,
    LateError,
    ParseError,
    PenstockError,
    QueryError,
    SchemaError,
    UnsupportedError,
    UsageError,
)

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "CheckpointError",
    "DataError",
    "Engine",
    "FileError",
    "LateError",
    "ParseError",
    "PenstockError",
    "Query",
    "QueryError",
    "SchemaError",
    "UnsupportedError",
    "UsageError",
    "__version__",
]

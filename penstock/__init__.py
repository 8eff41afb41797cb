"""Penstock: many continuous SQL queries over the same streams, for little more than the price of one."""

from typing import TYPE_CHECKING

from penstock.engine.rows.errors import (
    AheadError,
    BindError,
    CheckpointError,
    DataError,
    DeadlockError,
    FileError,
    HopsError,
    LateError,
    ParseError,
    PenstockError,
    PenstockWarning,
    QueryError,
    SchemaError,
    StoppedError,
    SubscriberError,
    TakenError,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    from .api import Engine
    from .query import Query

__version__ = "0.1.0"

__all__ = [
    "AheadError",
    "BindError",
    "CheckpointError",
    "DataError",
    "DeadlockError",
    "Engine",
    "FileError",
    "HopsError",
    "LateError",
    "ParseError",
    "PenstockError",
    "PenstockWarning",
    "Query",
    "QueryError",
    "SchemaError",
    "StoppedError",
    "SubscriberError",
    "TakenError",
    "UnsupportedError",
    "UsageError",
    "__version__",
]

if not TYPE_CHECKING:  # a type checker would take every name for known

    def __getattr__(name: str) -> object:
        """What needs Arrow is loaded when it is asked for: the command line answers an interrupt before."""
        if name not in ("Engine", "Query"):
            raise AttributeError(f"module `penstock` has no attribute `{name}`")
        from .api import Engine, Query

        globals().update(Engine=Engine, Query=Query)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

"""A push in several, where one would give a query more hops without rows than there may be in a call.

Who reads files or gets batches does not choose how much comes at once. What may not be is one gap of so many
hops between two rows, which is refused however it is cut.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.api import Engine
from penstock.engine.rows.errors import HopsError


def push_in_steps(engine: Engine, stream: str, rows: pa.Table) -> None:
    """Rows into a stream, which has those before the one that an error is about."""
    try:
        engine.push(stream, rows)
    except HopsError as error:
        if error.row is None or error.row == 1:
            raise
        push_in_steps(engine, stream, rows.slice(0, error.row - 1))
        push_in_steps(engine, stream, rows.slice(error.row - 1))

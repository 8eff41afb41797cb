"""Whether a call that was restored is one that can be evaluated: the function is there and takes these
arguments.

It is tried on a row of NULLs, with columns in place of the calls among its arguments, which are tried
themselves.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES

from .evaluate import evaluate
from .expression import Call, Column, Expression


def check_call(call: Call) -> None:
    """Raise something unless it can be evaluated."""
    _try(Call(call.type, call.function, tuple(map(_leaf, call.arguments, range(len(call.arguments))))))


def _leaf(argument: Expression, place: int) -> Expression:
    return argument if not isinstance(argument, Call | Column) else Column(argument.type, place, "")


@lru_cache(maxsize=4096)
def _try(call: Call) -> None:
    columns = [pa.nulls(1, ARROW_TYPES[argument.type]) for argument in call.arguments]
    try:
        found = evaluate(call, columns.__getitem__, 1)
    except DataError:  # of a constant: it may fail for each row
        return
    expect(found.type == ARROW_TYPES[call.type], f"`{call.function}` as {call.type}")

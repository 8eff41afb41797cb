"""What each function of an expression means: FUNCTIONS, by the names the binder writes.

Meaning is DuckDB's, as the tests measure it. A function takes its call and the rows, and gives a Datum of
the call's type. Most want all their arguments evaluated first and are written as plain functions of those;
the few that choose which rows their arguments see (CASE, AND ...) evaluate them themselves.

Read first: `values.py`, what functions work on; a new one is written in the file of its theme.

    arithmetic, comparison, conditional, strings, times, casts   the functions, by theme
    parsing, parsing_times, printing                             text to values and back, for casts
    values                                                       what they work on
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.expressions.expression import Call

from .arithmetic import ARITHMETIC
from .casts import cast, is_castable
from .comparison import COMPARISON, in_
from .conditional import case, coalesce, connective, may_raise, nullif, select
from .strings import STRINGS
from .times import TIMES, TRUNCATIONS
from .values import Datum, as_array, selected

if TYPE_CHECKING:
    from penstock.engine.expressions.evaluate import Rows

__all__ = [
    "FUNCTIONS",
    "TRUNCATIONS",
    "Datum",
    "Function",
    "as_array",
    "is_castable",
    "may_raise",
    "select",
    "selected",
]

Function = Callable[[Call, "Rows"], Datum]


def eager(function: Callable[..., Datum]) -> Function:
    """The function with its arguments evaluated first; of constants only, it is called for a single row."""

    def apply(call: Call, rows: Rows) -> Datum:
        arguments = [rows.value(argument) for argument in call.arguments]
        if all(isinstance(argument, pa.Scalar) for argument in arguments):
            return function(call, as_array(arguments[0], 1), *arguments[1:])[0]
        return function(call, *arguments)

    return apply


EAGER: dict[str, Callable[..., Datum]] = {
    **ARITHMETIC,
    **COMPARISON,
    **STRINGS,
    **TIMES,
    "cast": cast,
    "not": lambda call, value: pc.invert(value),
    "nullif": nullif,
}

FUNCTIONS: dict[str, Function] = {
    **{name: eager(function) for name, function in EAGER.items()},
    "and": connective,
    "or": connective,
    "case": case,
    "coalesce": coalesce,
    "in": in_,
}

"""AND, OR, CASE, COALESCE, NULLIF: the functions that decide which rows their arguments see.

A part that fails, such as 1 // x, fails the whole only if a row that needs it makes it fail:

    CASE WHEN x <> 0 THEN 1 // x END      the rows with x <> 0
    x <> 0 AND 1 // x > 2                 the rows for which x <> 0 is not false
    COALESCE(y, 1 // x)                   the rows without y

Everything is first evaluated on all rows and chosen from after, which is cheaper than cutting columns apart;
only if that fails is each part evaluated again on the rows that need it. DuckDB sees the same rows in CASE,
COALESCE and WHERE; of an AND or OR elsewhere it evaluates everything, so that it may fail where we do not.
Arguments of AND and OR that cannot fail come first, wherever they are written.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call, Expression, walk
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType

from .casts import can_fail as cast_can_fail
from .comparison import equal
from .values import Datum, as_array, join_pieces, selected, truths

if TYPE_CHECKING:
    from penstock.engine.expressions.evaluate import Rows

Positions = NDArray[np.int64]
Branches = list[tuple[Expression, Expression]]


@functools.lru_cache(maxsize=4096)
def may_raise(expression: Expression) -> bool:
    """Whether the expression could fail, for some values of its columns."""
    return any(isinstance(node, Call) and is_fallible(node) for node in walk(expression))


def is_fallible(call: Call) -> bool:
    """Whether the function itself could."""
    match call.function:
        case "integer_divide" | "substring" | "date_trunc":
            return True
        case "add" | "subtract" | "multiply" | "negate" | "abs" | "modulo":
            return call.type is not SqlType.DOUBLE
        case "round":
            return call.type is SqlType.BIGINT and len(call.arguments) > 1
        case "cast":
            return cast_can_fail(call.arguments[0].type, call.type)
        case _:
            return False


def certain_first(arguments: tuple[Expression, ...]) -> tuple[list[Expression], list[Expression]]:
    """The arguments that cannot fail, and those that can, each in the order they were written."""
    certain = [argument for argument in arguments if not may_raise(argument)]
    return certain, [argument for argument in arguments if may_raise(argument)]


def connective(call: Call, rows: Rows) -> Datum:
    """AND and OR."""
    combine = pc.and_kleene if call.function == "and" else pc.or_kleene
    try:
        return functools.reduce(combine, map(rows.value, call.arguments))
    except DataError:
        return connect_by_rows(call, rows)


def connect_by_rows(call: Call, rows: Rows) -> Datum:
    """A row is settled once a FALSE (AND) or a TRUE (OR) has come; NULL settles nothing."""
    is_and = call.function == "and"
    combine = pc.and_kleene if is_and else pc.or_kleene
    certain, doubtful = certain_first(call.arguments)
    result = functools.reduce(combine, map(rows.value, certain)) if certain else rows.value(doubtful.pop(0))
    for argument in doubtful:
        so_far = as_array(result, rows.length)
        settled = selected(pc.invert(so_far) if is_and else so_far)
        still_open = others(settled, rows.length)
        part = rows.take(still_open)
        opened = combine(so_far.take(pa.array(still_open)), as_array(part.value(argument), part.length))
        result = join_pieces([pa.repeat(not is_and, len(settled)), opened], [settled, still_open])
    return result


def select(expression: Expression, rows: Rows) -> Positions:
    """Positions of the rows for which the expression is true, ascending."""
    try:
        return selected(as_array(rows.value(expression), rows.length))
    except DataError:
        if isinstance(expression, Call) and expression.function in ("and", "or"):
            return select_by_rows(expression, rows)
        raise


def select_by_rows(call: Call, rows: Rows) -> Positions:
    """More is left out than in `connect_by_rows`: only TRUE matters, so that NULL settles an AND too."""
    is_and = call.function == "and"
    certain, doubtful = certain_first(call.arguments)
    kept = np.arange(rows.length if is_and else 0)
    if certain:
        combine = pc.and_kleene if is_and else pc.or_kleene
        kept = selected(as_array(functools.reduce(combine, map(rows.value, certain)), rows.length))
    for argument in doubtful:
        if is_and:
            kept = kept[select(argument, rows.take(kept))]
        else:
            still_open = others(kept, rows.length)
            kept = np.union1d(kept, still_open[select(argument, rows.take(still_open))])
    return kept


def others(positions: Positions, length: int) -> Positions:
    """The rest of the positions below `length`."""
    mask = np.ones(length, np.bool_)
    mask[positions] = False
    return np.flatnonzero(mask)


def case(call: Call, rows: Rows) -> Datum:
    """The value after the first condition that is true: arguments are when, then, ..., else."""
    *pairs, otherwise = call.arguments
    branches = list(zip(pairs[::2], pairs[1::2], strict=True))
    try:
        return choose(branches, otherwise, rows)
    except DataError:
        return choose_by_rows(branches, otherwise, rows)


def choose(branches: Branches, otherwise: Expression, rows: Rows) -> Datum:
    result = rows.value(otherwise)
    for when, then in reversed(branches):
        condition = rows.value(when)
        if isinstance(condition, pa.Scalar):
            result = rows.value(then) if condition.as_py() else result
        else:
            result = pc.if_else(truths(condition), rows.value(then), result)
    return result


def choose_by_rows(branches: Branches, otherwise: Expression, rows: Rows) -> pa.Array:
    """Each condition on the rows the ones before it left, each value on the rows that take it."""
    pieces: list[pa.Array] = []
    places: list[Positions] = []

    def give(value: Expression, part: Rows, where: Positions) -> None:
        pieces.append(as_array(part.value(value), part.length))
        places.append(where)

    part, where = rows, np.arange(rows.length)
    for when, then in branches:
        chosen = select(when, part)
        give(then, part.take(chosen), where[chosen])
        rest = others(chosen, part.length)
        part, where = part.take(rest), where[rest]
    give(otherwise, part, where)
    return join_pieces(pieces, places)


def coalesce(call: Call, rows: Rows) -> Datum:
    """The first argument that is not NULL."""
    try:
        return pc.coalesce(*map(rows.value, call.arguments))
    except DataError:
        branches: Branches = []
        for argument in call.arguments[:-1]:
            is_null = Call(SqlType.BOOLEAN, "is_null", (argument,))
            branches.append((Call(SqlType.BOOLEAN, "not", (is_null,)), argument))
        return choose_by_rows(branches, call.arguments[-1], rows)


def nullif(call: Call, value: Datum, unwanted: Datum) -> Datum:
    """The value, NULL where it equals the other."""
    same = pc.coalesce(equal(value, unwanted), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)

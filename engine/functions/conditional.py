"""AND, OR, NOT, CASE, COALESCE, NULLIF: the functions that decide which rows the others see.

An argument that can fail, such as 1 // x, is evaluated only on the rows that need it:

    CASE WHEN x <> 0 THEN 1 // x END      the rows with x <> 0
    x <> 0 AND 1 // x > 2                 the rows for which x <> 0 is not false
    COALESCE(y, 1 // x)                   the rows without y

What cannot fail is evaluated on all rows and chosen from after: cheaper than cutting columns apart. DuckDB
sees the same rows in CASE, COALESCE and WHERE; of an AND or OR elsewhere it evaluates everything, so that it
may fail where we do not. Arguments of AND and OR that cannot fail come first, wherever they are written.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..expression import Call, Expression, Literal, walk
from ..types import ARROW_TYPES, SqlType
from .casts import can_fail as cast_can_fail
from .comparison import equal
from .values import Datum, as_array, join_pieces, selected, truths

if TYPE_CHECKING:
    from ..evaluate import Rows

Positions = NDArray[np.int64]


@functools.lru_cache(maxsize=4096)
def may_raise(expression: Expression) -> bool:
    """Whether some value of its columns could make the expression fail."""
    return any(isinstance(node, Call) and is_fallible(node) for node in walk(expression))


def is_fallible(call: Call) -> bool:
    """Whether the function itself could fail; a bad literal fails on any row, so it does not count."""
    match call.function:
        case "integer_divide":
            return True
        case "add" | "subtract" | "multiply" | "negate" | "abs" | "modulo":
            return call.type is not SqlType.DOUBLE
        case "round":
            return call.type is SqlType.BIGINT and len(call.arguments) > 1
        case "cast":
            return cast_can_fail(call.arguments[0].type, call.type)
        case "substring":
            return not all(isinstance(argument, Literal) for argument in call.arguments[1:])
        case "date_trunc":
            return not isinstance(call.arguments[0], Literal)
        case _:
            return False


def certain_first(arguments: tuple[Expression, ...]) -> tuple[list[Expression], list[Expression]]:
    """The arguments that cannot fail, and those that can, each in the order they were written."""
    certain = [argument for argument in arguments if not may_raise(argument)]
    return certain, [argument for argument in arguments if may_raise(argument)]


def connective(call: Call, rows: Rows) -> Datum:
    """AND and OR. A row is settled once a FALSE (AND) or a TRUE (OR) has come; NULL settles nothing."""
    is_and = call.function == "and"
    combine = pc.and_kleene if is_and else pc.or_kleene
    certain, doubtful = certain_first(call.arguments)
    result = functools.reduce(combine, map(rows.value, certain)) if certain else rows.value(doubtful.pop(0))
    for argument in doubtful:
        so_far = as_array(result, rows.length)
        settled = selected(pc.invert(so_far) if is_and else so_far)
        if len(settled) == 0:
            result = combine(so_far, rows.value(argument))
            continue
        still_open = others(settled, rows.length)
        part = rows.take(still_open)
        opened = combine(so_far.take(pa.array(still_open)), as_array(part.value(argument), part.length))
        result = join_pieces([pa.repeat(not is_and, len(settled)), opened], [settled, still_open])
    return result


def select(expression: Expression, rows: Rows) -> Positions:
    """Positions of the rows for which the expression is true, ascending.

    More can be left out than in `connective`: only TRUE matters, so that NULL settles an AND as FALSE does.
    """
    is_connective = isinstance(expression, Call) and expression.function in ("and", "or")
    if not is_connective or not may_raise(expression):
        return selected(as_array(rows.value(expression), rows.length))
    assert isinstance(expression, Call)
    is_and = expression.function == "and"
    certain, doubtful = certain_first(expression.arguments)
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
    if not may_raise(call):
        result = rows.value(otherwise)
        for when, then in reversed(branches):
            condition = rows.value(when)
            if isinstance(condition, pa.Scalar):
                result = rows.value(then) if condition.as_py() else result
            else:
                result = pc.if_else(truths(condition), rows.value(then), result)
        return result
    pieces: list[pa.Array] = []
    places: list[Positions] = []

    def give(value: Expression, part: Rows, where: Positions) -> None:
        if part.length:
            pieces.append(as_array(part.value(value), part.length))
            places.append(where)

    part, where = rows, np.arange(rows.length)
    for when, then in branches:
        chosen = select(when, part)
        give(then, part.take(chosen), where[chosen])
        rest = others(chosen, part.length)
        part, where = part.take(rest), where[rest]
    give(otherwise, part, where)
    return join_pieces(pieces, places) if pieces else pa.nulls(0, ARROW_TYPES[call.type])


def coalesce(call: Call, rows: Rows) -> Datum:
    """The first argument that is not NULL."""
    if not any(map(may_raise, call.arguments[1:])):
        return pc.coalesce(*map(rows.value, call.arguments))
    pairs: list[Expression] = []
    for argument in call.arguments[:-1]:
        is_null = Call(SqlType.BOOLEAN, "is_null", (argument,))
        pairs += [Call(SqlType.BOOLEAN, "not", (is_null,)), argument]
    return case(Call(call.type, "case", (*pairs, call.arguments[-1])), rows)


def nullif(call: Call, value: Datum, unwanted: Datum) -> Datum:
    """The value, NULL where it equals the other."""
    same = pc.coalesce(equal(value, unwanted), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)

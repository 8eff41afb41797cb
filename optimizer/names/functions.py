"""Which types each function takes and gives, and the casts that make arguments fit.

Functions are named as the engine names them. What a user calls them, and how the stock parser reads that, is
in `function_names.py`; what they compute is the engine's.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.expressions.expression import Call, Expression, Literal
from penstock.engine.rows.types import SqlType
from penstock.optimizer.read.moments import read_moment

B, D, V = SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR
T, I, BOOL, NULL = SqlType.TIMESTAMP, SqlType.INTERVAL, SqlType.BOOLEAN, SqlType.NULL

Signature = tuple[tuple[SqlType, ...], SqlType]

_NUMBER: tuple[Signature, ...] = (((B,), B), ((D,), D))
_SIZE: tuple[Signature, ...] = (*_NUMBER, ((I,), I))
_REAL: tuple[Signature, ...] = (((D,), D),)
_TEXT: tuple[Signature, ...] = (((V,), V),)
_TRIM: tuple[Signature, ...] = (((V,), V), ((V, V), V))
_TEXT_TEST: tuple[Signature, ...] = (((V, V), BOOL),)
_TIME_PART: tuple[Signature, ...] = (((T,), B),)

SIGNATURES: dict[str, tuple[Signature, ...]] = {
    "add": (((B, B), B), ((D, D), D), ((T, I), T), ((I, I), I)),
    "subtract": (((B, B), B), ((D, D), D), ((T, I), T), ((T, T), I), ((I, I), I)),
    "multiply": (((B, B), B), ((D, D), D), ((I, B), I)),
    "divide": (((D, D), D),),
    "integer_divide": (((B, B), B), ((D, D), D)),
    "modulo": (((B, B), B), ((D, D), D)),
    "negate": _SIZE,
    "abs": _SIZE,
    "sign": (((B,), B), ((D,), B)),
    "round": (((B,), B), ((D,), D), ((B, B), B), ((D, B), D)),
    "floor": _NUMBER,
    "ceil": _NUMBER,
    "sqrt": _REAL,
    "ln": _REAL,
    "log10": _REAL,
    "log2": _REAL,
    "exp": _REAL,
    "power": (((D, D), D),),
    "lower": _TEXT,
    "upper": _TEXT,
    "length": (((V,), B),),
    "substring": (((V, B), V), ((V, B, B), V)),
    "trim": _TRIM,
    "ltrim": _TRIM,
    "rtrim": _TRIM,
    "replace": (((V, V, V), V),),
    "concat_operator": (((V, V), V),),
    "starts_with": _TEXT_TEST,
    "ends_with": _TEXT_TEST,
    "contains": _TEXT_TEST,
    "like": _TEXT_TEST,
    "ilike": _TEXT_TEST,
    "year": _TIME_PART,
    "month": _TIME_PART,
    "day": _TIME_PART,
    "hour": _TIME_PART,
    "minute": _TIME_PART,
    "second": _TIME_PART,
    "day_of_week": _TIME_PART,
    "epoch": (((T,), D), ((I,), D)),
    "date_trunc": (((V, T), T),),
    "not": (((BOOL,), BOOL),),
}
# Written either way round; the engine sees the first argument's type first.
_SWAPPED = {"add": (I, T), "multiply": (B, I)}


class BadMoment(ValueError):
    """A string that stands where a TIMESTAMP is needed and is none."""


def common_type(expressions: Sequence[Expression]) -> SqlType | None:
    """The type all of them are cast to without being asked; None: there is none, NULL: all are NULL."""
    types = {expression.type for expression in expressions} - {NULL}
    if not types:
        return NULL
    if len(types) == 1:
        return types.pop()
    if types == {B, D}:
        return D
    if types == {T, V}:
        texts = [expression for expression in expressions if expression.type is V]
        return T if all(isinstance(text, Literal) for text in texts) else None
    return None


def cast(expression: Expression, to: SqlType) -> Expression:
    """The expression as `to`; constants are converted here. The caller has checked that the cast exists."""
    if expression.type is to:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None:
            return Literal(to, None)
        if expression.type is B and to is D:
            return Literal(D, float(expression.value))
        if expression.type is V and to is T:
            moment = read_moment(str(expression.value))
            if moment is None:
                raise BadMoment(expression.value)
            return Literal(T, moment)
    return Call(to, "cast", (expression,))


def call(function: str, arguments: Sequence[Expression]) -> Expression | None:
    """The function applied, casts inserted; None if no signature fits. The one with the fewest casts wins."""
    if _SWAPPED.get(function) == tuple(argument.type for argument in arguments):
        arguments = arguments[::-1]
    best: Signature | None = None
    lowest = 0
    for signature in SIGNATURES[function]:
        cost = _cost(arguments, signature[0])
        if cost is not None and (best is None or cost < lowest):
            best, lowest = signature, cost
    if best is None:
        return None
    fitted = tuple(cast(argument, to) for argument, to in zip(arguments, best[0], strict=True))
    return Call(best[1], function, fitted)


def _cost(arguments: Sequence[Expression], parameters: tuple[SqlType, ...]) -> int | None:
    if len(arguments) != len(parameters):
        return None
    total = 0
    for argument, parameter in zip(arguments, parameters, strict=True):
        if argument.type is parameter:
            continue
        if argument.type is NULL or (argument.type is B and parameter is D):
            total += 1
        elif argument.type is V and parameter is T and isinstance(argument, Literal):
            total += 2
        else:
            return None
    return total


def describe_signatures(function: str) -> str:
    """What the function takes, for messages: `BIGINT or DOUBLE`, `VARCHAR, BIGINT`."""
    shapes = [", ".join(str(parameter) for parameter in parameters) for parameters, _ in SIGNATURES[function]]
    if len(shapes) == 1:
        return shapes[0]
    if any(", " in shape for shape in shapes):
        shapes = [f"({shape})" for shape in shapes]
    return f"{', '.join(shapes[:-1])} or {shapes[-1]}"

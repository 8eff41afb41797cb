"""One call with its arguments as they should be, in the spelling that stands for all that mean the same.

Everything here keeps the value, NULL included, and fails on the rows on which what was written fails:

- what has no columns is evaluated, unless that fails;
- x + 0, x - 0, x * 1, x / 1, x // 1 and x || '' are x. Of DOUBLE, x + 0 is x only where it is compared:
  -0.0 + 0 is 0.0, which is equal to it but divides differently;
- a comparison has its constant on the right, or its operands in the order of their columns: all values have
  an order, NaN too, so that x < y is y > x and NOT x < y is x >= y;
- a BIGINT compared as a DOUBLE with a constant below 2 ** 53 is compared as what it is: no cast of one on
  the near side of the constant comes out on the far side;
- BIGINT, BOOLEAN and TIMESTAMP become VARCHAR one to one, and are equal if their texts are;
- a comparison of a BOOLEAN with a constant is the BOOLEAN, or NOT of it; one with NULL is NULL.

What is left as it is because it is not the same: x + 1 = y + 1 and x - y = 0 (a BIGINT overflows, which
fails; of DOUBLE the sums are rounded, and inf - inf is NaN), -(-x) of BIGINT (the least has no opposite),
CAST(x AS DOUBLE) = CAST(y AS DOUBLE) (beyond 2 ** 53 many BIGINTs become one DOUBLE).
"""

from __future__ import annotations

import math
from typing import TypeGuard

import pyarrow as pa

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Call, Column, Expression, Literal, columns_of, rewrite
from penstock.engine.expressions.functions import may_raise
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.names.expression_nodes import OPPOSITES

B, D, L, V = SqlType.BIGINT, SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.VARCHAR
FLIPPED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "is_not_distinct": "is_not_distinct",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
EXACT_DOUBLE = 2.0**53
ONE_TO_ONE = {(B, V), (L, V), (SqlType.TIMESTAMP, V), (L, B), (L, D)}
"""Casts, from and to, that keep different values different."""
# What a function leaves its first argument as, if the second is that; the swapped ones also the other way.
NEUTRAL: dict[tuple[str, SqlType], int | float | str] = {
    ("add", B): 0, ("subtract", B): 0, ("multiply", B): 1, ("integer_divide", B): 1,
    ("subtract", D): 0.0, ("multiply", D): 1.0, ("divide", D): 1.0, ("integer_divide", D): 1.0,
    ("concat_operator", V): "",
}  # fmt: skip
SWAPPED = ("add", "multiply", "concat_operator")


def simplify_value(call: Call) -> Expression:
    """The call in its normal spelling."""
    folded = fold(call)
    if folded is not None:
        return folded
    kept = without_neutral(call)
    if kept is not None:
        return kept
    if call.function in FLIPPED:
        return simplify_comparison(call)
    if call.function == "not":
        return negated(call.arguments[0])
    if call.function == "in":
        return simplify_in(call)
    if call.function == "cast" and call.type is L and call.arguments[0].type in (B, D):
        subject = call.arguments[0]
        return Call(L, "not_equal", (subject, Literal(subject.type, 0 if subject.type is B else 0.0)))
    return call


def negated(inner: Expression) -> Expression:
    """NOT of it."""
    if isinstance(inner, Call) and inner.function in OPPOSITES:
        return Call(L, OPPOSITES[inner.function], inner.arguments)
    if isinstance(inner, Call) and inner.function == "not" and not is_guarded(inner.arguments[0]):
        return inner.arguments[0]
    return (
        simplify_value(Call(L, "not", (inner,))) if isinstance(inner, Literal) else Call(L, "not", (inner,))
    )


def is_guarded(expression: Expression) -> bool:
    """Whether it is an AND or OR of which a part may fail: where it stands says what guards that part."""
    return is_call(expression, "and", "or") and may_raise(expression)


def is_call(expression: Expression, *functions: str) -> TypeGuard[Call]:
    return isinstance(expression, Call) and expression.function in functions


def order_of(expression: Expression) -> tuple[object, ...]:
    """By columns, lower bounds before upper ones; the same whatever the columns are called."""

    def bare(node: Expression) -> Expression:
        return Column(node.type, node.index, f"#{node.index}") if isinstance(node, Column) else node

    is_upper = is_call(expression, "less", "less_equal")
    return sorted(columns_of(expression)), is_upper, str(rewrite(expression, bare))


def fold(call: Call) -> Expression | None:
    """The value of a call without columns; None if it has some, fails, or is of no type with literals."""
    if not all(isinstance(argument, Literal) for argument in call.arguments):
        return None
    try:
        value = evaluate(call, no_column, 1)
    except DataError:
        return None
    if call.type in (SqlType.TIMESTAMP, SqlType.INTERVAL):
        value = value.view(pa.int64())
    return Literal(call.type, value[0].as_py())


def no_column(index: int) -> pa.Array:
    raise AssertionError("a constant reads no columns")


def without_neutral(call: Call) -> Expression | None:
    neutral = NEUTRAL.get((call.function, call.type))
    if neutral is None or len(call.arguments) != 2:
        return None
    first, second = call.arguments
    if second == Literal(call.type, neutral):
        return first
    return second if call.function in SWAPPED and first == Literal(call.type, neutral) else None


def simplify_comparison(call: Call) -> Expression:
    function, (a, b) = call.function, map(without_zero, call.arguments)
    if is_out_of_order(a, b):
        a, b, function = b, a, FLIPPED[function]
    call = Call(L, function, (a, b))
    if isinstance(b, Literal) and function != "is_not_distinct":
        if b.value is None:
            return call if may_raise(a) else Literal(L, None)
        plain = by_table(call) or as_integer(call)
        if plain is not None:
            return plain
    if function in ("equal", "not_equal", "is_not_distinct") and is_one_to_one(a) and is_one_to_one(b):
        inner = a.arguments[0], b.arguments[0]
        if inner[0].type is inner[1].type:
            return simplify_comparison(Call(L, function, inner))
    return call


def is_out_of_order(a: Expression, b: Expression) -> bool:
    """Columns come before what is computed, and that before constants. Of two that may fail the first stays
    first: its error is the one that is shown."""
    kinds = [(Column, Call, Literal).index(type(one)) for one in (a, b)]
    return not (may_raise(a) and may_raise(b)) and (kinds[0], order_of(a)) > (kinds[1], order_of(b))


def without_zero(expression: Expression) -> Expression:
    """Of a DOUBLE that is compared, where 0.0 and -0.0 are equal."""
    if isinstance(expression, Call) and (expression.function, expression.type) == ("add", D):
        a, b = expression.arguments
        if isinstance(b, Literal) and b.value == 0:
            return without_zero(a)
        if isinstance(a, Literal) and a.value == 0:
            return without_zero(b)
    return expression


def is_one_to_one(expression: Expression) -> TypeGuard[Call]:
    if not is_call(expression, "cast"):
        return False
    return (expression.arguments[0].type, expression.type) in ONE_TO_ONE


def by_table(call: Call) -> Expression | None:
    """A comparison of a BOOLEAN, or of one cast to something else, by what it is for TRUE and for FALSE."""
    subject, constant = call.arguments
    inner = subject.arguments[0] if is_call(subject, "cast") else subject
    if inner.type is not L or is_guarded(inner):
        return None
    outcomes = []
    for value in (True, False):
        literal: Expression = Literal(L, value)
        tried = literal if inner is subject else simplify_value(Call(subject.type, "cast", (literal,)))
        outcomes.append(fold(Call(L, call.function, (tried, constant))))
    if outcomes == [Literal(L, True), Literal(L, False)]:
        return inner
    return negated(inner) if outcomes == [Literal(L, False), Literal(L, True)] else None


def as_integer(call: Call) -> Call | None:
    """CAST(k AS DOUBLE) < 1.5 as k < 2, where the cast is exact around the constant."""
    subject, constant = call.arguments
    if not is_call(subject, "cast") or subject.arguments[0].type is not B:
        return None
    if not (isinstance(constant, Literal) and isinstance(constant.value, float)):
        return None
    if subject.type is not D or not abs(constant.value) < EXACT_DOUBLE:
        return None
    is_whole = constant.value == math.floor(constant.value)
    if call.function in ("equal", "not_equal") and not is_whole:
        return None
    rounded = math.ceil if call.function in ("less", "greater_equal") else math.floor
    return Call(L, call.function, (subject.arguments[0], Literal(B, rounded(constant.value))))


def simplify_in(call: Call) -> Expression:
    """IN with each of its list once, constants in order; of one, an equality."""
    subject, *options = call.arguments
    if any(map(may_raise, options)):
        return call
    listed = sorted(dict.fromkeys(options), key=order_of)
    if len(listed) == 1:
        return simplify_comparison(Call(L, "equal", (subject, listed[0])))
    return Call(L, "in", (subject, *listed))

"""Which part of a join condition an index can serve.

Equalities between an expression of the left and one of the right are all served together. Without one, a
pair of order comparisons that bound `right - left` from one or both sides is served as a band:

    b.y > a.x          a.x - b.y <= 5          b.y BETWEEN a.x - 5 AND a.x + 5          ABS(a.x - b.y) < 5

Integers and times are rearranged freely, because their arithmetic is exact. Doubles are served with a margin
for rounding and the condition stays as a check on the pairs; and only in the forms where NaN, which is above
every number, cannot make a pair true that the index leaves out. Whatever is not served is checked on the
pairs.

Where several pairs of keys have bounds, one is served: whichever order they are written in, and whichever
stream comes first, it is the same, so that joins on the same conditions are in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.engine.expressions.expression import Call, Expression, Literal, columns_of, move_columns
from penstock.engine.keys.keys import MAX_BAND
from penstock.engine.rows.band import EQUALITY, Band
from penstock.engine.rows.types import SqlType

from .simplify_value import is_call, order_of

FLIPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
EXACT = (SqlType.BIGINT, SqlType.TIMESTAMP)
Order = Callable[[Expression, Expression], list[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class Match:
    """What the index serves (None: nothing, all pairs are candidates) and what is checked on the pairs.

    Keys are over the columns of both sides together, left's first; each reads one side only.
    """

    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    condition: Band | None
    residual: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """right - left `operator` `by`; exact: the pair need not be checked again."""

    left: Expression
    right: Expression
    operator: str
    by: int | float
    exact: bool


Bounds = dict[Expression, tuple[Bound, ...]]
"""What each conjunct that bounds right - left says."""


def match_condition(parts: tuple[Expression, ...], left_width: int, swapped: bool = False) -> Match:
    """Split the conjuncts of a join condition into what an index serves and the rest.

    swapped: the right stream's name comes before the left's.
    """
    equalities = {part: pair for part in parts if (pair := equality_of(part, left_width))}
    if equalities:
        rest = tuple(part for part in parts if part not in equalities)
        lefts, rights = zip(*equalities.values(), strict=True)
        return Match(tuple(lefts), tuple(rights), EQUALITY, rest)
    bounds = {part: found for part in parts if (found := bounds_of(part, left_width))}
    if not bounds:
        return Match((), (), None, parts)
    return band_of(parts, bounds, partial(order_of_keys, left_width, swapped))


def order_of_keys(
    left_width: int, swapped: bool, left: Expression, right: Expression
) -> list[tuple[object, ...]]:
    """Each key over its own stream's columns, the lesser stream's first."""
    keys = [order_of(left), order_of(move_columns(right, lambda i: i - left_width))]
    return keys[::-1] if swapped else keys


def side_of(expression: Expression, left_width: int) -> str:
    """`left`, `right`, `both` or `none`: whose columns the expression reads."""
    sides = {"left" if index < left_width else "right" for index in columns_of(expression)}
    return "both" if len(sides) == 2 else next(iter(sides), "none")


def equality_of(part: Expression, left_width: int) -> tuple[Expression, Expression] | None:
    """(left expression, right expression) if the conjunct equates two sides."""
    if not (isinstance(part, Call) and part.function == "equal"):
        return None
    a, b = part.arguments
    sides = side_of(a, left_width), side_of(b, left_width)
    if sides == ("left", "right"):
        return a, b
    return (b, a) if sides == ("right", "left") else None


def bounds_of(part: Expression, left_width: int) -> tuple[Bound, ...]:
    """What a comparison says of right - left: one bound, two for ABS, none if it cannot be said."""
    if not (isinstance(part, Call) and part.function in FLIPPED):
        return ()
    (a, b), operator = part.arguments, part.function
    if isinstance(a, Literal):
        a, b, operator = b, a, FLIPPED[operator]
    if isinstance(b, Literal) and is_call(a, "abs") and operator in ("less", "less_equal"):
        below = bound(Call(SqlType.BOOLEAN, operator, (a.arguments[0], b)), left_width)
        negative = Literal(b.type, None if b.value is None else -b.value)  # type: ignore[operator]
        above = bound(Call(SqlType.BOOLEAN, FLIPPED[operator], (a.arguments[0], negative)), left_width)
        return (below, above) if below and above else ()
    found = bound(Call(SqlType.BOOLEAN, operator, (a, b)), left_width)
    if found and not found.exact and is_open_to_nan(a, b, operator, left_width):
        return ()
    return (found,) if found else ()


def is_open_to_nan(a: Expression, b: Expression, operator: str, left_width: int) -> bool:
    """Whether a NaN on one side makes `a operator b` true for keys far from each other.

    A difference of the two sides is NaN as soon as one of them is, and NaN is greater than anything.
    """
    greater = a if operator.startswith("greater") else b
    return side_of(greater, left_width) == "both"


def bound(part: Call, left_width: int) -> Bound | None:
    """The comparison as a bound on right - left, if it is linear with one expression a side."""
    a, b = part.arguments
    terms, constant = linear(a, 1)
    more, shift = linear(b, -1)
    terms, constant = terms + more, constant + shift
    if len(terms) != 2:
        return None
    (first_sign, first), (second_sign, second) = terms
    if side_of(first, left_width) == "right":
        first_sign, first, second_sign, second = second_sign, second, first_sign, first
    if (side_of(first, left_width), side_of(second, left_width)) != ("left", "right"):
        return None
    if first_sign == second_sign or first.type is not second.type:
        return None
    if first.type not in (*EXACT, SqlType.DOUBLE):
        return None
    # second_sign * (right - left) + constant  operator  0
    operator = part.function if second_sign > 0 else FLIPPED[part.function]
    by = -second_sign * constant
    if not abs(by) < MAX_BAND:  # NaN is not below
        return None
    if first.type is SqlType.DOUBLE and constants(a) + constants(b) > 1:
        return None  # constants that cancel leave rounding behind that their sum does not tell of
    exact = first.type in EXACT or (by == 0 and {a, b} == {first, second})
    return Bound(first, second, operator, by, exact)


def linear(expression: Expression, sign: int) -> tuple[tuple[tuple[int, Expression], ...], int | float]:
    """Signed terms and the constant of a sum; what is not + or - is a term."""
    if isinstance(expression, Literal) and isinstance(expression.value, int | float):
        return (), sign * expression.value
    if isinstance(expression, Call) and expression.function in ("add", "subtract"):
        a, b = expression.arguments
        terms, constant = linear(a, sign)
        more, shift = linear(b, sign if expression.function == "add" else -sign)
        return terms + more, constant + shift
    if is_call(expression, "negate"):
        return linear(expression.arguments[0], -sign)
    return ((sign, expression),), 0


def constants(expression: Expression) -> int:
    """How many literals a sum has."""
    if isinstance(expression, Call) and expression.function in ("add", "subtract", "negate"):
        return sum(map(constants, expression.arguments))
    return int(isinstance(expression, Literal))


def band_of(
    parts: tuple[Expression, ...], bounds: dict[Expression, tuple[Bound, ...]], order: Order
) -> Match:
    """One band, of the keys that are bounded from both sides if there are any; the others stay checks."""
    by_keys: dict[tuple[Expression, Expression], dict[str, Bound]] = {}
    for found in bounds.values():
        for one in found:
            ends = by_keys.setdefault((one.left, one.right), {})
            known = ends.get(end_of(one))
            if known is None or tightness(one) > tightness(known):
                ends[end_of(one)] = one
    keys, best = min(by_keys.items(), key=lambda item: (-len(item[1]), order(*item[0])))
    low, high = best.get("low"), best.get("high")
    band = Band(
        low.by if low else None,
        low.operator == "greater_equal" if low else True,
        high.by if high else None,
        high.operator == "less_equal" if high else True,
    )
    served = {
        part
        for part, found in bounds.items()
        if all((one.left, one.right) == keys and is_served(one, best[end_of(one)]) for one in found)
    }
    return Match((keys[0],), (keys[1],), band, tuple(part for part in parts if part not in served))


def tightness(one: Bound) -> tuple[int | float, bool]:
    by = one.by if end_of(one) == "low" else -one.by
    return by, one.operator in ("less", "greater")


def is_served(one: Bound, tightest: Bound) -> bool:
    """Whether a pair within the tightest bound need not be checked against this one."""
    return one.exact and (one == tightest or one.left.type in EXACT)


def end_of(found: Bound) -> str:
    return "high" if found.operator.startswith("less") else "low"

"""Comparisons of the same two operands that stand in one AND or OR, as one comparison.

Of two values one is less than, equal to or greater than the other, NaN too. So a comparison is a set of
those three, an AND the intersection and an OR the union of such sets:

    x <= y AND x >= y     is x = y           x < y OR x = y     is x <= y
    x <= y AND x <> y     is x < y           x < y OR x > y     is x <> y

NULL is kept: each of them is NULL if x or y is. No set and all three are no comparison: where only TRUE
matters these are FALSE and `x IS NOT NULL AND y IS NOT NULL`, elsewhere the comparisons stay.

Of comparisons with different constants an AND needs the tightest bounds only, an OR the loosest. Equalities
of one subject with several constants become one IN, `<>` joined by AND one NOT IN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from penstock.engine.expressions.expression import FALSE, TRUE, Call, Expression, Literal, conjunction
from penstock.engine.rows.types import SqlType
from penstock.optimizer.names.expression_nodes import OPPOSITES

from .simplify_value import is_call, order_of

SETS = {"less": 1, "equal": 2, "less_equal": 3, "greater": 4, "not_equal": 5, "greater_equal": 6}
NAMES = {value: name for name, value in SETS.items()}
ALL = 7


def merge_comparisons(function: str, parts: Sequence[Expression], want: str) -> list[Expression]:
    """The parts of an AND or OR, none of which may fail, with comparisons of equal operands as one.

    want: which outcome matters, `true`, `false` or all, `value`.
    """
    sets: dict[tuple[Expression, ...], int] = {}
    counts: dict[tuple[Expression, ...], int] = {}
    for part in parts:
        if isinstance(part, Call) and part.function in SETS:
            known = sets.get(part.arguments, ALL if function == "and" else 0)
            one = SETS[part.function]
            sets[part.arguments] = known & one if function == "and" else known | one
            counts[part.arguments] = counts.get(part.arguments, 0) + 1
    merged: list[Expression] = []
    for part in parts:
        if not (isinstance(part, Call) and part.function in SETS):
            merged.append(part)
            continue
        found = named(part.arguments, sets[part.arguments], want)
        if found is None:
            merged.append(part)
        elif counts.pop(part.arguments, 0):
            merged.append(found)
    return gather_constants(function, needed_bounds(function, merged, want))


def named(operands: tuple[Expression, ...], which: int, want: str) -> Expression | None:
    """The comparison that is this set; None if there is none that is the same where it matters."""
    if which in NAMES:
        return Call(SqlType.BOOLEAN, NAMES[which], operands)
    if which == 0:
        return FALSE if want == "true" else None
    if want == "false":
        return TRUE
    return conjunction(tuple(map(is_known, operands))) if want == "true" else None


def is_known(expression: Expression) -> Expression:
    """That it is not NULL."""
    if isinstance(expression, Literal):
        return FALSE if expression.value is None else TRUE
    is_null = Call(SqlType.BOOLEAN, "is_null", (expression,))
    return Call(SqlType.BOOLEAN, "not", (is_null,))


def needed_bounds(function: str, parts: Sequence[Expression], want: str) -> list[Expression]:
    """Without comparisons with a constant that go without saying beside others of the same subject."""
    subjects: dict[Expression, list[Call]] = {}
    for part in parts:
        if is_call(part, *SETS) and isinstance(part.arguments[1], Literal):
            subjects.setdefault(part.arguments[0], []).append(part)
    needless: set[Expression] = set()
    more: list[Expression] = []
    for subject, compared in subjects.items():
        # An OR is NOT of the AND of the opposites.
        asked = compared if function == "and" else [opposed(part) for part in compared]
        kept = tightest(asked)
        if kept is not None:
            needed = set(kept)
            needless |= {part for part, one in zip(compared, asked, strict=True) if one not in needed}
        elif (function, want) == ("and", "true"):
            return [FALSE]
        elif (function, want) == ("or", "false"):
            return [TRUE]
        elif (function, want) == ("or", "true"):
            needless |= {*compared}
            more.append(is_known(subject))
    return [part for part in parts if part not in needless] + more


def opposed(part: Call) -> Call:
    return Call(part.type, OPPOSITES[part.function], part.arguments)


def tightest(compared: list[Call]) -> list[Call] | None:
    """Those of some comparisons of one subject with constants that say what all do; None: they exclude
    each other."""
    # A constant's place is (constant, 1); just below it is 0, just above it 2.
    lows, highs, holes = {}, {}, {}
    for part in compared:
        place = rank(part.arguments[1])
        if part.function in ("greater", "greater_equal", "equal"):
            lows[part] = (place, 2 if part.function == "greater" else 1)
        if part.function in ("less", "less_equal", "equal"):
            highs[part] = (place, 0 if part.function == "less" else 1)
        if part.function == "not_equal":
            holes[part] = (place, 1)
    low, high = max(lows.values(), default=None), min(highs.values(), default=None)
    if low is not None and high is not None and low > high:
        return None
    kept = [
        part
        for part, hole in holes.items()
        if (low is None or low <= hole) and (high is None or hole <= high)
    ]
    first = next((part for part in lows if lows[part] == low and part.function == "equal"), None)
    if first is not None:
        return None if kept else [first]
    kept += [next(part for part in lows if lows[part] == low)] if lows else []
    last = [next(part for part in highs if highs[part] == high)] if highs else []
    return kept + last


def rank(literal: Expression) -> tuple[bool, Any]:
    """Constants of one type in their order: NaN is above every number."""
    assert isinstance(literal, Literal), "a constant"
    is_nan = isinstance(literal.value, float) and math.isnan(literal.value)
    return is_nan, None if is_nan else literal.value


def gather_constants(function: str, parts: Sequence[Expression]) -> list[Expression]:
    """x = 1 OR x = 2 as x IN (1, 2); x <> 1 AND x <> 2 as NOT x IN (1, 2)."""
    found = [read_list(part if function == "or" else opposite(part)) for part in parts]
    lists: dict[Expression, list[tuple[Literal, ...]]] = {}
    for one in found:
        if one is not None:
            lists.setdefault(one[0], []).append(one[1])
    gathered: list[Expression] = []
    for part, one in zip(parts, found, strict=True):
        if one is None or len(lists[one[0]]) == 1:
            gathered.append(part)
        elif lists[one[0]]:
            values = sorted(dict.fromkeys(value for some in lists[one[0]] for value in some), key=order_of)
            listed = Call(SqlType.BOOLEAN, "in", (one[0], *values))
            gathered.append(listed if function == "or" else Call(SqlType.BOOLEAN, "not", (listed,)))
            lists[one[0]] = []
    return gathered


def opposite(part: Expression) -> Expression | None:
    """What it is NOT of, if that is an equality or an IN."""
    match part:
        case Call(function="not_equal"):
            return Call(part.type, "equal", part.arguments)
        case Call(function="not", arguments=(Call(function="in") as listed,)):
            return listed
    return None


def read_list(part: Expression | None) -> tuple[Expression, tuple[Literal, ...]] | None:
    """A subject and the constants it may be equal to."""
    if not (isinstance(part, Call) and part.function in ("equal", "in")):
        return None
    subject, *options = part.arguments
    known = tuple(one for one in options if isinstance(one, Literal) and one.value is not None)
    return (subject, known) if len(known) == len(options) else None

"""Comparisons, IN, GREATEST and LEAST.

DOUBLE has a total order: nan equals nan and is above every number, inf included; -0.0 equals 0.0. Arrow's
kernels follow IEEE, where every comparison with nan is false, so that one side's nan needs care unless that
side is a literal. With one literal, the usual case, a comparison is still one kernel, at most inverted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.expressions.expression import Call, Literal
from penstock.engine.rows.types import ARROW_TYPES, SqlType

from .values import Datum, as_array

if TYPE_CHECKING:
    from penstock.engine.expressions.evaluate import Rows

# From this many on, one hashed look-up is faster than comparing with each.
LONG_LIST = 16

# Types whose largest and smallest Arrow does not have, or not as we order them.
OWN_ORDER = (SqlType.DOUBLE, SqlType.BOOLEAN, SqlType.NULL)


def is_number(datum: Datum) -> bool:
    """A scalar that is not nan."""
    return isinstance(datum, pa.Scalar) and not (datum.is_valid and math.isnan(datum.as_py()))


def equal(left: Datum, right: Datum) -> Datum:
    same = pc.equal(left, right)
    if left.type != pa.float64() or is_number(left) or is_number(right):
        return same
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def greater(left: Datum, right: Datum) -> Datum:
    if left.type != pa.float64() or is_number(left):
        return pc.greater(left, right)
    above = pc.invert(pc.less_equal(left, right))  # true for every nan on the left, as it should be
    return above if is_number(right) else pc.and_(above, pc.equal(right, right))


def greater_equal(left: Datum, right: Datum) -> Datum:
    if left.type != pa.float64() or is_number(left):
        return pc.greater_equal(left, right)
    return pc.invert(greater(right, left))


def greatest(call: Call, first: Datum, *others: Datum) -> Datum:
    """The largest that is not NULL."""
    if call.type not in OWN_ORDER:
        return pc.max_element_wise(first, *others)
    return functools.reduce(lambda a, b: pc.if_else(beats(greater(b, a), a), b, a), others, first)


def least(call: Call, first: Datum, *others: Datum) -> Datum:
    """The smallest that is not NULL."""
    if call.type not in OWN_ORDER:
        return pc.min_element_wise(first, *others)
    return functools.reduce(lambda a, b: pc.if_else(beats(greater(a, b), a), b, a), others, first)


def beats(better: Datum, holder: Datum) -> Datum:
    """Whether the challenger takes the holder's place: NULL never beats, and is always beaten."""
    return pc.coalesce(better, pc.is_null(holder))


def is_not_distinct(call: Call, left: Datum, right: Datum) -> Datum:
    """Equality in which NULL is a value like any other."""
    return pc.coalesce(equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))


def in_(call: Call, rows: Rows) -> Datum:
    """True if one of the list is equal; else NULL if the value or one of the list is NULL."""
    subject, options = call.arguments[0], call.arguments[1:]
    value = rows.value(subject)
    if len(options) < LONG_LIST or not all(isinstance(option, Literal) for option in options):
        return functools.reduce(pc.or_kleene, (equal(value, rows.value(option)) for option in options))
    values = [option.value for option in options if isinstance(option, Literal)]
    known: list[object] = [option for option in values if option is not None]
    if subject.type is SqlType.DOUBLE and 0.0 in known:
        known += [0.0, -0.0]  # hashed apart, but equal
    subjects = as_array(value, 1)
    found = pc.is_in(subjects, value_set=pa.array(known, ARROW_TYPES[subject.type]))
    if None in values:
        found = pc.if_else(found, True, pa.scalar(None, pa.bool_()))
    elif subjects.null_count:
        found = pc.if_else(subjects.is_valid(), found, pa.scalar(None, pa.bool_()))
    return found[0] if isinstance(value, pa.Scalar) else found


COMPARISON: dict[str, Callable[..., Datum]] = {
    "equal": lambda call, left, right: equal(left, right),
    "not_equal": lambda call, left, right: pc.invert(equal(left, right)),
    "less": lambda call, left, right: greater(right, left),
    "less_equal": lambda call, left, right: greater_equal(right, left),
    "greater": lambda call, left, right: greater(left, right),
    "greater_equal": lambda call, left, right: greater_equal(left, right),
    "greatest": greatest,
    "least": least,
    "is_null": lambda call, value: pc.is_null(value),
    "is_not_distinct": is_not_distinct,
}

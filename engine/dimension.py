"""Predicates taken apart: comparisons of an expression with constants, which have an order, and the rest.

A *dimension* is an expression that predicates compare with constants. Sorted, these cut its values into
*leaves*, and every comparison is a range of leaves:

    constants       c0      c1             NULL
    leaves       0   1   2   3   4   ...   2n + 1       e > c0: [2, 2n]    e <= c1: [0, 3]
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .evaluate import Rows
from .expression import Call, Column, Expression, Literal, conjunction, conjuncts, rewrite
from .functions import as_array, may_raise
from .functions.conditional import certain_first
from .kernels.lineage import find_leaves, mark_nulls
from .keys import encode_values
from .types import ARROW_TYPES, SqlType

ORDERED = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.TIMESTAMP, SqlType.BOOLEAN)

LESS, LESS_EQUAL, EQUAL, GREATER_EQUAL, GREATER, NOT_NULL, NEVER = range(7)
OPERATORS = {
    "less": LESS, "less_equal": LESS_EQUAL, "equal": EQUAL,
    "greater_equal": GREATER_EQUAL, "greater": GREATER,
}  # fmt: skip
# First and last leaf of a comparison with constant i of n: of 2i + 1 + step, or 0, or 2n.
FIRST_STEP = np.array([0, 0, 0, 0, 1, 0, 0])
LAST_STEP = np.array([-1, 0, 0, 0, 0, 0, 0])
IS_OPEN_BELOW = np.array([True, True, False, False, False, True, False])
IS_OPEN_ABOVE = np.array([False, False, False, True, True, True, False])


class Bound(NamedTuple):
    """A comparison of `subject` with a constant: its code (see keys.py) or, of VARCHAR, its text."""

    subject: Expression
    operator: int
    code: int
    text: str | None


class Split(NamedTuple):
    """A predicate as its comparisons and the others of its conjuncts; `rest` is the AND of those."""

    bounds: tuple[Bound, ...]
    others: frozenset[Expression]
    rest: Expression | None


def split(predicate: Expression | None) -> Split:
    """Conjuncts that cannot fail are sorted, so that equal rests are found; the others keep their order."""
    bounds: list[Bound] = []
    others: list[Expression] = []
    for part in conjuncts(predicate):
        bound = read_bound(part)
        if bound is None:
            others.append(part)
        else:
            bounds.append(bound)
    certain, doubtful = certain_first(tuple(dict.fromkeys(others)))
    rest = conjunction((*sorted(certain, key=nameless_text), *doubtful))
    return Split(tuple(bounds), frozenset(others), rest)


def nameless_text(expression: Expression) -> str:
    """The expression with its columns by position: queries give the same column different names."""
    return str(rewrite(expression, lambda node: replace(node, name="") if isinstance(node, Column) else node))


def read_bound(part: Expression) -> Bound | None:
    """The conjunct as a comparison with a constant, None if it is of no such form."""
    match part:
        case Call(function="not", arguments=(Call(function="is_null", arguments=(subject,)),)):
            return bound_of(subject, NOT_NULL, None)
        case Call(function="is_not_distinct", arguments=(subject, Literal() as literal)):
            return None if literal.value is None else bound_of(subject, EQUAL, literal)
        case Call(function=function, arguments=(subject, Literal() as literal)) if function in OPERATORS:
            return bound_of(subject, OPERATORS[function], literal)
        case Call(function=function, arguments=(Literal() as literal, subject)) if function in OPERATORS:
            return bound_of(subject, GREATER - OPERATORS[function], literal)
    return None


@lru_cache(maxsize=4096)
def canonical(expression: Expression) -> Expression:
    """Of equal expressions always the same one, so that they can be told apart by identity."""
    return expression


def bound_of(subject: Expression, operator: int, literal: Literal | None) -> Bound | None:
    """A comparison whose subject cannot fail and whose constant is of its type."""
    subject = canonical(subject)
    if isinstance(subject, Literal) or may_raise(subject):
        return None
    if literal is not None and literal.type is not subject.type:
        return None
    is_text = subject.type is SqlType.VARCHAR
    if not (subject.type in ORDERED or (is_text and operator == EQUAL)):
        return None
    if literal is None:
        return Bound(subject, operator, 0, None)
    if literal.value is None:
        return Bound(subject, NEVER, 0, None)
    if is_text:
        return Bound(subject, operator, 0, str(literal.value))
    values = pa.array([literal.value], ARROW_TYPES[subject.type])
    return Bound(subject, operator, int(encode_values(values, subject.type)[0]), None)


class Comparisons:
    """Comparisons of one subject: each one's predicate by number, operator, code (int64 each) and text."""

    def __init__(self, numbers: NDArray, operators: NDArray, codes: NDArray, texts: list[str | None]) -> None:
        self.numbers = numbers
        self.operators = operators
        self.codes = codes
        self.texts = texts

    @classmethod
    def of(cls, numbers: list[int], bounds: list[Bound]) -> Comparisons:
        return cls(
            np.array(numbers, np.int64),
            np.array([bound.operator for bound in bounds], np.int64),
            np.array([bound.code for bound in bounds], np.int64),
            [bound.text for bound in bounds],
        )

    def joined(self, other: Comparisons) -> Comparisons:
        return Comparisons(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.operators, other.operators]),
            np.concatenate([self.codes, other.codes]),
            self.texts + other.texts,
        )

    def without(self, number: int) -> Comparisons:
        """Those of the other predicates, of which the later ones move up by one."""
        kept = self.numbers != number
        numbers = self.numbers[kept]
        texts = [text for text, is_kept in zip(self.texts, kept, strict=True) if is_kept]
        return Comparisons(numbers - (numbers > number), self.operators[kept], self.codes[kept], texts)


class Dimension:
    """An expression and the constants it is compared with: codes (int64, ascending), or texts."""

    def __init__(self, expression: Expression, compared: Comparisons) -> None:
        self.expression = expression
        self.is_text = expression.type is SqlType.VARCHAR
        has_constant = compared.operators < NOT_NULL
        texts = {text for text in compared.texts if text is not None} if self.is_text else set()
        self.texts = {text: i for i, text in enumerate(sorted(texts))}
        self.constants: NDArray[np.int64] = (
            np.arange(len(self.texts)) if self.is_text else np.unique(compared.codes[has_constant])
        )
        self._listed = pa.array(list(self.texts), pa.string())

    @property
    def leaf_count(self) -> int:
        return 2 * len(self.constants) + 2

    @property
    def null_leaf(self) -> int:
        return 2 * len(self.constants) + 1

    def intervals(self, compared: Comparisons) -> tuple[NDArray, NDArray]:
        """First and last leaf within each comparison; of one that holds for no value, [1, 0]."""
        operators = compared.operators
        if self.is_text:
            places = np.array([self.texts.get(text or "", 0) for text in compared.texts], np.int64)
        else:
            places = np.searchsorted(self.constants, compared.codes)
        leaves = 2 * places + 1
        first = np.where(IS_OPEN_BELOW[operators], 0, leaves + FIRST_STEP[operators])
        last = np.where(IS_OPEN_ABOVE[operators], self.null_leaf - 1, leaves + LAST_STEP[operators])
        never = operators == NEVER
        return np.where(never, 1, first), np.where(never, 0, last)

    def find(self, rows: Rows, leaves: NDArray[np.int32]) -> None:
        """Fill the leaves of the rows."""
        if rows.length == 0:
            return
        array = as_array(rows.value(self.expression), rows.length)
        if self.is_text:
            found = pc.index_in(array, value_set=self._listed).fill_null(-1).to_numpy()
            leaves[:] = np.maximum(2 * found + 1, 0)
        else:
            find_leaves(encode_values(array, self.expression.type), self.constants, leaves)
        if array.null_count:
            valid = np.frombuffer(array.buffers()[0], np.uint8)
            mark_nulls(valid, array.offset, leaves, self.null_leaf)

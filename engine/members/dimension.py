"""Predicates taken apart: comparisons of an expression with constants, which have an order, and the rest.

A *dimension* is an expression that predicates compare with constants. Each comparison holds from one *cut* on
or up to one: a constant, or what comes right after it. Sorted, the cuts part the expression's values into
*leaves*, and every comparison is a range of leaves:

    cuts            t0      t1      t2           NULL
    leaves       0      1       2       3    n + 1         e >= t0: [1, n]    e < t1: [0, 1]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import Rows
from penstock.engine.expressions.expression import (
    Call,
    Column,
    Expression,
    Literal,
    conjunction,
    conjuncts,
    rewrite,
)
from penstock.engine.expressions.functions import as_array, may_raise
from penstock.engine.expressions.functions.conditional import certain_first
from penstock.engine.kernels.joins.lineage import find_leaves, find_text_leaves, mark_nulls
from penstock.engine.keys.keys import INT_MAX, encode_values
from penstock.engine.restoring.in_order import expect, rising, within
from penstock.engine.rows.store import text_buffers
from penstock.engine.rows.types import ARROW_TYPES, SqlType

ORDERED = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.TIMESTAMP, SqlType.BOOLEAN, SqlType.VARCHAR)

LESS, LESS_EQUAL, EQUAL, GREATER_EQUAL, GREATER, NOT_NULL, NEVER = range(7)
OPERATORS = {
    "less": LESS, "less_equal": LESS_EQUAL, "equal": EQUAL,
    "greater_equal": GREATER_EQUAL, "greater": GREATER,
}  # fmt: skip
# Whether a comparison holds from a cut on, and up to one; and whether that is what comes after the constant.
HAS_FIRST = np.array([False, False, True, True, True, False, False])
HAS_LAST = np.array([True, True, True, False, False, False, False])
IS_FIRST_AFTER = np.array([False, False, False, False, True, False, False])
IS_LAST_AFTER = np.array([False, True, True, False, False, False, False])
# What a comparison with the greatest of all codes is the same as: nothing comes after that.
OF_GREATEST = {LESS_EQUAL: NOT_NULL, EQUAL: GREATER_EQUAL, GREATER: NEVER}


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


@lru_cache(maxsize=65_536)  # a predicate is in many lineages: of joins, of their parts, of who comes together
def split(predicate: Expression | None) -> Split:
    """Conjuncts that cannot fail are sorted, so that equal rests are found; the others keep their order."""
    bounds: list[Bound] = []
    others: list[Expression] = []
    for part in conjuncts(predicate):
        bound = read_bound(part)
        if bound is None:
            others.append(part)
        else:
            bounds.append(within_codes(bound))
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
    if subject.type not in ORDERED:
        return None
    if literal is None:
        return Bound(subject, operator, 0, None)
    if literal.value is None:
        return Bound(subject, NEVER, 0, None)
    if subject.type is SqlType.VARCHAR:
        return Bound(subject, operator, 0, str(literal.value))
    values = pa.array([literal.value], ARROW_TYPES[subject.type])
    return Bound(subject, operator, int(encode_values(values, subject.type)[0]), None)


def within_codes(bound: Bound) -> Bound:
    """The same, without asking for what comes after the greatest of all codes."""
    if bound.code < INT_MAX:
        return bound
    return bound._replace(operator=OF_GREATEST.get(bound.operator, bound.operator))


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
    """An expression and the cuts between its leaves: codes (int64, ascending), or texts."""

    def __init__(self, expression: Expression, compared: Comparisons) -> None:
        self.expression = expression
        self.is_text = expression.type is SqlType.VARCHAR
        has_first, has_last = HAS_FIRST[compared.operators], HAS_LAST[compared.operators]
        first, last = self._cuts_of(compared)
        self.cuts: NDArray | list[str] = (
            sorted({*compress(first, has_first), *compress(last, has_last)})
            if self.is_text
            else np.unique(np.concatenate([first[has_first], last[has_last]]))
        )
        self._ranks = {cut: rank for rank, cut in enumerate(self.cuts)} if self.is_text else {}
        self._listed = pa.array(self.cuts if self.is_text else [], pa.string())
        is_equal = compared.operators == EQUAL
        self._equals: pa.Array | None = None
        """The texts it is compared with, if that is only whether they are equal; leaves of theirs."""
        if self.is_text and not ((has_first | has_last) & ~is_equal).any():
            texts = sorted({text for text in compress(compared.texts, is_equal) if text is not None})
            self._equals = pa.array(texts, pa.string())
            self._leaves = np.array([*(self._ranks[text] + 1 for text in texts), 0], np.int32)

    @property
    def leaf_count(self) -> int:
        return len(self.cuts) + 2

    @property
    def null_leaf(self) -> int:
        return len(self.cuts) + 1

    def _check_restored(self) -> None:
        """Leaves are found by the cuts, in kernels."""
        if isinstance(self.cuts, np.ndarray):
            expect(not self.is_text and self._equals is None, "cuts of the type")
            rising(self.cuts, "cuts")
        else:
            expect(self.is_text and self._listed.type == pa.string(), "cuts of the type")
            expect(self._listed.to_pylist() == self.cuts == sorted(set(self.cuts)), "cuts in order")
        if self._equals is not None:
            expect(self._equals.type == pa.string(), "texts")
            expect(len(self._leaves) == len(self._equals) + 1, "a leaf for each text")
            within(self._leaves, 0, self.leaf_count, "leaves")

    def intervals(self, compared: Comparisons) -> tuple[NDArray, NDArray]:
        """First and last leaf within each comparison; of one that holds for no value, [1, 0]."""
        operators = compared.operators
        first, last = (self._rank(cuts) for cuts in self._cuts_of(compared))
        first = np.where(HAS_FIRST[operators], first + 1, 0)
        last = np.where(HAS_LAST[operators], last, self.null_leaf - 1)
        never = operators == NEVER
        return np.where(never, 1, first), np.where(never, 0, last)

    def _cuts_of(self, compared: Comparisons) -> tuple[Any, Any]:
        """Where each comparison begins and ends to hold; anything, if it does so nowhere."""
        operators = compared.operators
        after = IS_FIRST_AFTER[operators], IS_LAST_AFTER[operators]
        if not self.is_text:
            return compared.codes + after[0], compared.codes + after[1]
        first, last = (
            [
                (text or "") + "\0" * is_after
                for text, is_after in zip(compared.texts, one.tolist(), strict=True)
            ]
            for one in after
        )
        return first, last

    def _rank(self, cuts: Any) -> NDArray:
        """Places among all cuts; of what is none of them, anything."""
        if self.is_text:
            return np.array([self._ranks.get(cut, 0) for cut in cuts], np.int64)
        return np.searchsorted(self.cuts, cuts)

    def carried(self, before: Dimension) -> tuple[NDArray, NDArray]:
        """For each leaf that the same expression had before: which leaf that is now, int32, and whether it
        is one; of a leaf that new cuts have split only the values can tell."""
        count = len(before.cuts) + 1
        low, high = np.zeros(before.leaf_count, np.int32), np.zeros(before.leaf_count, np.int32)
        low[1:count] = self._cuts_up_to(before.cuts, is_with=True)
        high[: count - 1] = self._cuts_up_to(before.cuts, is_with=False)
        high[count - 1] = len(self.cuts)
        low[before.null_leaf] = high[before.null_leaf] = self.null_leaf
        is_one = low == high
        if self._equals is not None:
            kept = np.zeros(self.leaf_count, np.bool_)
            kept[self._leaves], kept[self.null_leaf] = True, True
            low[~kept[low]] = 0
        if before._equals is not None:  # its leaf 0 has every other text
            is_one[0] = self._equals is not None and set(self._ranks) <= set(before._ranks)
            low[0] = 0
        return low, is_one

    def _cuts_up_to(self, cuts: Any, is_with: bool) -> Any:
        """How many of the cuts here are below each of some others, or not above it."""
        if self.is_text:
            return [(bisect_right if is_with else bisect_left)(self.cuts, cut) for cut in cuts]
        return np.searchsorted(self.cuts, cuts, side="right" if is_with else "left")

    def find(self, rows: Rows, leaves: NDArray[np.int32]) -> None:
        """Fill the leaves of the rows."""
        if rows.length == 0:
            return
        array = as_array(rows.value(self.expression), rows.length)
        if self._equals is not None:
            found = pc.index_in(array, value_set=self._equals).fill_null(-1).to_numpy()
            self._leaves.take(found, out=leaves, mode="wrap")
        elif self.is_text:
            find_text_leaves(*text_buffers(array), *text_buffers(self._listed), leaves)
        else:
            find_leaves(encode_values(array, self.expression.type), self.cuts, leaves)
        if array.null_count:
            valid = np.frombuffer(array.buffers()[0], np.uint8)
            mark_nulls(valid, array.offset, leaves, self.null_leaf)

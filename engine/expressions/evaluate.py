"""Expressions over the columns of a batch: Python once per batch, a kernel per function, columns in, one out.

Equal parts of one expression are evaluated once. A constant stays a scalar until the end. Part of the rows,
which CASE and the like ask for, is a Rows of its own that takes what its parent already knows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import ARROW_TYPES

from .expression import Call, Column, Expression, Literal
from .functions import FUNCTIONS, Datum, as_array, select, selected

__all__ = ["Rows", "evaluate", "evaluate_predicate", "selected"]


class Rows:
    """`length` rows of columns, and the values of the expressions evaluated on them so far."""

    def __init__(self, column: Callable[[int], pa.Array], length: int) -> None:
        self.length = length
        self._column = column
        self._known: dict[Expression, Datum] = {}

    def value(self, expression: Expression) -> Datum:
        """The expression's value, evaluated at most once."""
        if isinstance(expression, Literal):
            return pa.scalar(expression.value, ARROW_TYPES[expression.type])
        value = self.known(expression)
        if value is None:
            value = self._known[expression] = self._evaluate(expression)
        return value

    def known(self, expression: Column | Call) -> Datum | None:
        """The expression's value if it has been evaluated on these rows."""
        return self._known.get(expression)

    def _evaluate(self, expression: Column | Call) -> Datum:
        expected = ARROW_TYPES[expression.type]
        if self.length == 0:
            return pa.nulls(0, expected)  # without rows nothing fails, not even a constant
        if isinstance(expression, Column):
            value = self._column(expression.index)
        else:
            value = FUNCTIONS[expression.function](expression, self)
        assert value.type == expected, f"`{expression}` is {expected}, and came as {value.type}"
        return value

    def take(self, positions: NDArray[np.int64]) -> Rows:
        """The rows at `positions`, each at most once, in this order."""
        return self if len(positions) == self.length else SomeRows(self, positions)


class SomeRows(Rows):
    """Some of the rows of another Rows."""

    def __init__(self, whole: Rows, positions: NDArray[np.int64]) -> None:
        super().__init__(whole._column, len(positions))
        self._whole = whole
        self._positions = pa.array(positions)

    def known(self, expression: Column | Call) -> Datum | None:
        """Also what is known of the whole; a column always is."""
        value = self._known.get(expression)
        if value is None:
            is_column = isinstance(expression, Column)
            value = self._whole.value(expression) if is_column else self._whole.known(expression)
            if isinstance(value, pa.Array):
                value = self._known[expression] = value.take(self._positions)
        return value


def evaluate(expression: Expression, column: Callable[[int], pa.Array], length: int) -> pa.Array:
    """The expression's value for each of `length` rows; `column` gives the input column at a position."""
    if isinstance(expression, Column):
        return column(expression.index)
    return as_array(Rows(column, length).value(expression), length)


def evaluate_predicate(
    expression: Expression, column: Callable[[int], pa.Array], length: int
) -> pa.BooleanArray:
    """A mask of the rows for which the expression is true; `selected(mask)` gives their positions.

    The mask may hold NULL, which is not true. A part of an AND or OR that fails does no harm on rows that the
    other parts decide.
    """
    rows = Rows(column, length)
    try:
        return as_array(rows.value(expression), length)
    except DataError:
        mask = np.zeros(length, np.bool_)
        mask[select(expression, rows)] = True
        return pa.array(mask)

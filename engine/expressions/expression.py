"""Scalar expressions over the columns of a batch: what the binder writes and the operators evaluate.

Three kinds of node, all frozen and hashable, so that equal expressions compare equal wherever they stand:
a Column by position, a Literal, a Call of a named function. Casts, CASE, IN and the logical connectives
are calls too. What each function means is in `functions/`, next to nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_

import pyarrow as pa

from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.rows.write_times import write_duration, write_time


@dataclass(frozen=True, slots=True)
class Column:
    """The input column at `index`; `name` is for people (explain, messages) and takes no part in equality."""

    type: SqlType
    index: int
    name: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return self.index

    def __str__(self) -> str:
        return self.name or f"#{self.index}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int, float, bool, str or None; TIMESTAMP and INTERVAL as int microseconds."""

    type: SqlType
    value: int | float | bool | str | None

    def __eq__(self, other: object) -> bool:
        # As written, not as numbers: 0.0 and -0.0 differ as divisors, and NaN is the same literal as NaN.
        return isinstance(other, Literal) and (self.type, repr(self.value)) == (other.type, repr(other.value))

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def __str__(self) -> str:
        return write_literal(self)

    def _check_restored(self) -> None:
        pa.scalar(self.value, ARROW_TYPES[self.type])


@dataclass(frozen=True, slots=True)
class Call:
    """`function` (a name in functions/) applied to `arguments`, giving `type`."""

    type: SqlType
    function: str
    arguments: tuple[Expression, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Expressions are keys everywhere, and a tree of them would be walked each time.
        object.__setattr__(self, "_hash", hash((self.function, self.arguments)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Call) or self._hash != other._hash:
            return False
        return (self.function, self.type, self.arguments) == (other.function, other.type, other.arguments)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return write_call(self)

    def _check_restored(self) -> None:
        from .check_call import check_call

        check_call(self)


Expression = Column | Literal | Call

TRUE = Literal(SqlType.BOOLEAN, True)
FALSE = Literal(SqlType.BOOLEAN, False)

INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "integer_divide": "//",
    "modulo": "%",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "AND",
    "or": "OR",
    "concat_operator": "||",
    "like": "LIKE",
    "ilike": "ILIKE",
}


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from walk(argument)


def columns_of(expression: Expression) -> frozenset[int]:
    """Positions of the input columns the expression reads."""
    return frozenset(node.index for node in walk(expression) if isinstance(node, Column))


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with `change` applied to every node, children first; what stays the same is no copy."""
    if isinstance(expression, Call):
        return change(with_arguments(expression, [rewrite(one, change) for one in expression.arguments]))
    return change(expression)


def with_arguments(call: Call, arguments: Sequence[Expression]) -> Call:
    """The call with these arguments: itself if they are its own."""
    if all(map(is_, arguments, call.arguments)):
        return call
    return Call(call.type, call.function, tuple(arguments))


def move_columns(expression: Expression, where: Callable[[int], int]) -> Expression:
    """The expression with the column at where(i) for that at i."""

    def move(node: Expression) -> Expression:
        if not isinstance(node, Column) or (index := where(node.index)) == node.index:
            return node
        return Column(node.type, index, node.name)

    return rewrite(expression, move)


def conjuncts(expression: Expression | None) -> tuple[Expression, ...]:
    """The parts of an AND, flattened; TRUE and None have none."""
    if expression is None or expression == TRUE:
        return ()
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(part for argument in expression.arguments for part in conjuncts(argument))
    return (expression,)


def conjunction(parts: tuple[Expression, ...]) -> Expression | None:
    """The AND of the parts; None for none."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Call(SqlType.BOOLEAN, "and", parts)


def write_literal(literal: Literal) -> str:
    """The literal as SQL."""
    if literal.value is None:
        return "NULL"
    if literal.type is SqlType.VARCHAR:
        return "'" + str(literal.value).replace("'", "''") + "'"
    if literal.type is SqlType.BOOLEAN:
        return "TRUE" if literal.value else "FALSE"
    if literal.type is SqlType.INTERVAL:
        return f"INTERVAL {write_duration(int(literal.value))}"
    if literal.type is SqlType.TIMESTAMP:
        return f"TIMESTAMP '{write_time(int(literal.value))}'"
    return str(literal.value)


def write_call(call: Call) -> str:
    """The call as SQL, brackets where precedence could be misread."""
    function, arguments = call.function, call.arguments
    parts = [
        f"({part})" if isinstance(part, Call) and part.function in INFIX else str(part) for part in arguments
    ]
    if function in INFIX:
        return f" {INFIX[function]} ".join(parts)
    if function == "not":
        return f"NOT {parts[0]}"
    if function == "negate":
        return f"-{parts[0]}"
    if function == "is_null":
        return f"{parts[0]} IS NULL"
    if function == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if function == "cast":
        return f"CAST({arguments[0]} AS {call.type})"
    if function == "case":
        whens = [f"WHEN {arguments[i]} THEN {arguments[i + 1]}" for i in range(0, len(arguments) - 1, 2)]
        return f"CASE {' '.join(whens)} ELSE {arguments[-1]} END"
    return f"{function.upper()}({', '.join(str(argument) for argument in arguments)})"

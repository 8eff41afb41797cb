"""GROUP BY and the aggregates: what is computed per group, and what the SELECT list may still see.

While the SELECT list and HAVING are bound, aggregates are collected and stand as columns behind the input's;
afterwards every expression is rewritten over the Aggregate's own columns: keys first, then aggregates. A
column of the input that is left over is neither, which is the user's error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.expressions.expression import Call, Column, Expression, walk
from penstock.engine.rows.errors import BindError, UnsupportedError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.names.functions import cast
from penstock.optimizer.read.source import fail
from penstock.optimizer.tree.logical import AggregateCall, Position

from .bind_context import BindContext, Tree

if TYPE_CHECKING:
    from .bind_expression import ExpressionBinder

Function = Literal["count", "sum", "avg", "min", "max"]
AGGREGATE_NODES: dict[str, Function] = {name.capitalize(): name for name in get_args(Function)}


class AggregateCollector:
    """The aggregates of one SELECT; `width` is the number of its input's columns."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.calls: list[AggregateCall] = []
        self._places: dict[AggregateCall, int] = {}
        # Where each input column was first named outside an aggregate, for messages.
        self._named_at: dict[int, tuple[str, Position]] = {}

    def note_columns(self, bound: Expression, position: Position) -> None:
        for node in walk(bound):
            if isinstance(node, Column):
                self._named_at.setdefault(node.index, (str(node), position))

    def add(self, context: BindContext, binder: ExpressionBinder, node: Tree) -> Column:
        """The aggregate's column; the same aggregate twice is computed once."""
        function = AGGREGATE_NODES[type(node).__name__]
        context.read_only(node, ("this", "big_int"))
        argument, distinct = node.this, False
        if type(argument).__name__ == "Distinct":
            context.read_only(argument, ("expressions",))
            listed = argument.expressions
            if len(listed) > 1:
                message = f"{function.upper()}(DISTINCT ...) of several columns is not supported"
                raise context.error(UnsupportedError, message, node)
            argument, distinct = listed[0] if listed else None, True
        if argument is None:
            hint = "Write COUNT(*)" if function == "count" else None
            raise context.error(
                BindError, f"Expected an argument of `{function.upper()}`, found none", node, hint
            )
        bound: Expression | None
        if type(argument).__name__ == "Star":
            context.read_only(argument, ())
            if function != "count" or distinct:
                raise context.error(BindError, f"Expected a column in `{function.upper()}`, found `*`", node)
            bound = None
        else:
            bound = binder.bind(argument)
            if bound.type is SqlType.NULL and function != "count":
                bound = cast(bound, SqlType.DOUBLE)
        call = AggregateCall(function, bound, distinct and function not in ("min", "max"), SqlType.BIGINT)
        if bound is not None:
            call = AggregateCall(
                function, bound, call.distinct, self._type(context, function, bound, argument)
            )
        place = self._places.setdefault(call, len(self.calls))
        if place == len(self.calls):
            self.calls.append(call)
        return Column(call.type, self.width + place, write_aggregate(call))

    @staticmethod
    def _type(context: BindContext, function: Function, argument: Expression, node: Tree) -> SqlType:
        if function == "count":
            return SqlType.BIGINT
        if function in ("min", "max"):
            return argument.type
        if not argument.type.is_numeric:
            message = f"Expected BIGINT or DOUBLE in `{function.upper()}`, found {argument.type}"
            raise context.error(BindError, message, node)
        return SqlType.DOUBLE if function == "avg" else argument.type

    def over_groups(self, expression: Expression, keys: dict[Expression, int]) -> Expression:
        """The expression over the Aggregate's columns."""
        if expression in keys:
            return Column(expression.type, keys[expression], str(expression))
        if isinstance(expression, Column):
            if expression.index >= self.width:
                return Column(expression.type, len(keys) + expression.index - self.width, expression.name)
            name, position = self._named_at[expression.index]
            message = f"Expected `{name}` in GROUP BY or inside an aggregate, found it in neither"
            raise fail(BindError, message, position)
        if isinstance(expression, Call):
            arguments = tuple(self.over_groups(argument, keys) for argument in expression.arguments)
            return Call(expression.type, expression.function, arguments)
        return expression


def write_aggregate(call: AggregateCall) -> str:
    """The aggregate as SQL."""
    argument = "*" if call.argument is None else str(call.argument)
    return f"{call.function.upper()}({'DISTINCT ' if call.distinct else ''}{argument})"

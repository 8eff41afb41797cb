"""Expressions: from the stock parser's nodes to typed ones, every name resolved and every cast written out.

Which nodes there are and what is read of each is in `expression_nodes.py`; anything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.engine.expressions.expression import Call, Expression, Literal, walk
from penstock.engine.expressions.functions import TRUNCATIONS, is_castable
from penstock.engine.rows.errors import BindError, QueryError, UnsupportedError
from penstock.engine.rows.types import SqlType
from penstock.optimizer.names.expression_nodes import (
    COMPARISONS,
    NEGATABLE,
    NODES,
    OPERATORS,
    OPPOSITES,
    REFUSED,
    REFUSED_HINTS,
)
from penstock.optimizer.names.foreign_functions import HINTS
from penstock.optimizer.names.function_names import (
    FUNCTION_NAMES,
    FUNCTION_NODES,
    NAMED_FUNCTIONS,
    TIME_PARTS,
)
from penstock.optimizer.names.functions import BadMoment, call, cast, common_type, describe_signatures
from penstock.optimizer.read.token_reader import spelling_hint

from .bind_aggregate import AGGREGATE_NODES, AggregateCollector
from .bind_context import BindContext, Tree
from .bind_literal import bind_interval, bind_number
from .column_types import read_cast_type
from .scope import BadName, Scope

NULL_COMPARED = "A comparison with NULL is never true"
NULL_LISTED = "IN with a NULL in its list is never false, and NOT IN never true"
# Bound expressions are walked recursively everywhere; AND and OR are flat and do not count.
MAX_DEPTH = 150


class ExpressionBinder:
    """Binds expressions of one clause, named in messages; `aggregates` is None where none may stand."""

    def __init__(
        self,
        context: BindContext,
        scope: Scope,
        clause: str,
        aggregates: AggregateCollector | None = None,
        aliases: Mapping[str, Tree] | None = None,
    ) -> None:
        self.context = context
        self.scope = scope
        self.clause = clause
        self.aggregates = aggregates
        # Names that stand for an expression if no column has them: aliases of the SELECT list, in HAVING.
        self.aliases = aliases or {}
        self._depth = 0

    def bind(self, node: Tree) -> Expression:
        """The expression, of whatever type."""
        self.context.count_nodes(1, node)
        if self._depth >= MAX_DEPTH:
            raise self.error(
                UnsupportedError, f"An expression more than {MAX_DEPTH} deep is not supported", node
            )
        self._depth += 1
        try:
            return self._bind(node)
        finally:
            self._depth -= 1

    def bind_condition(self, node: Tree) -> Expression:
        """An expression that must be BOOLEAN."""
        bound = self.bind(node)
        if bound.type is SqlType.NULL:
            return cast(bound, SqlType.BOOLEAN)
        if bound.type is not SqlType.BOOLEAN:
            raise self.error(BindError, f"Expected BOOLEAN in {self.clause}, found {bound.type}", node)
        return bound

    def error(self, kind: type[QueryError], message: str, node: Tree, hint: str | None = None) -> QueryError:
        return self.context.error(kind, message, node, hint)

    def _bind(self, node: Tree) -> Expression:
        kind = type(node).__name__
        if kind in NODES:
            method, parts = NODES[kind]
            negated = kind in NEGATABLE and node.args.get("negate")
            self.context.read_only(node, (*parts, "negate") if negated else parts)
            bound: Expression = getattr(self, method)(node)
            return Call(SqlType.BOOLEAN, "not", (bound,)) if negated else bound
        if kind in FUNCTION_NODES:
            function, order, ignored = FUNCTION_NODES[kind]
            self.context.read_only(node, (*order, *ignored))
            return self._apply(node, function, [self.bind(part) for part in _parts(node, order)])
        if kind in AGGREGATE_NODES:
            return self._aggregate(node)
        if kind in REFUSED:
            hint = REFUSED_HINTS.get(kind)
            raise self.error(UnsupportedError, f"{REFUSED[kind]} is not supported", node, hint)
        raise self._unknown(node)

    def _unknown(self, node: Tree) -> QueryError:
        from sqlglot import exp

        if isinstance(node, exp.Func):
            name = self.context.function_name(node)
            if isinstance(node, exp.AggFunc):
                known = HINTS.get(name.upper(), "Known: `COUNT`, `SUM`, `AVG`, `MIN`, `MAX`")
                return self.error(UnsupportedError, f"The aggregate `{name}` is not supported", node, known)
            return self._unknown_function(name, node)
        name = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(node).__name__)
        return self.error(UnsupportedError, f"This SQL ({name.strip()}) is not supported", node)

    def _unknown_function(self, name: str, node: Tree) -> QueryError:
        # What the stock parser knows is another system's function, and no slip of the pen.
        is_slip = type(node).__name__ == "Anonymous"
        hint = HINTS.get(name.upper()) or (spelling_hint(name.upper(), FUNCTION_NAMES) if is_slip else None)
        return self.error(BindError, f"Expected a known function, found `{name}`", node, hint)

    # Names and constants

    def _column(self, node: Tree) -> Expression:
        name = node.args["this"]
        if type(name).__name__ != "Identifier":
            raise self.error(UnsupportedError, "`*` inside an expression is not supported", node)
        table = node.args.get("table")
        text = self.context.name(name)
        alias = None if table is None else self.context.name(table)
        try:
            bound = self.scope.resolve(text, alias)
        except BadName as bad:
            if alias is None and text.lower() in self.aliases:
                return self.bind(self.aliases[text.lower()])
            # A qualified name is wrong as a whole or in its second part.
            place = node if alias is None or self.scope.find_relation(alias) is None else name
            hint = bad.hint
            if table is None and name.args.get("quoted") and not (hint or "").startswith("Did you mean"):
                hint = f"Write text in single quotes: '{name.this}'"
            raise self.error(BindError, bad.message, place, hint) from None
        if self.aggregates is not None:
            self.aggregates.note_columns(bound, self.context.position(node))
        return bound

    def _literal(self, node: Tree) -> Expression:
        if node.args["is_string"]:
            return Literal(SqlType.VARCHAR, str(node.this))
        return bind_number(self.context, node, str(node.this))

    def _boolean(self, node: Tree) -> Expression:
        return Literal(SqlType.BOOLEAN, bool(node.this))

    def _null(self, node: Tree) -> Expression:
        return Literal(SqlType.NULL, None)

    def _interval(self, node: Tree) -> Expression:
        return bind_interval(self.context, node)

    def _paren(self, node: Tree) -> Expression:
        return self.bind(node.this)

    # Logic and comparisons

    def _connective(self, node: Tree) -> Expression:
        function = type(node).__name__.lower()
        parts: list[Expression] = []
        for part in flatten(self.context, node, type(node)):
            bound = self.bind(part)
            if bound.type is SqlType.NULL:
                bound = cast(bound, SqlType.BOOLEAN)
            if bound.type is not SqlType.BOOLEAN:
                message = f"Expected BOOLEAN on both sides of {function.upper()}, found {bound.type}"
                raise self.error(BindError, message, part)
            parts.extend(
                bound.arguments if isinstance(bound, Call) and bound.function == function else (bound,)
            )
        return Call(SqlType.BOOLEAN, function, tuple(parts))

    def _not(self, node: Tree) -> Expression:
        """NOT of a comparison is a comparison: an index may serve it, and other queries may have it too."""
        bound = self.bind(node.this)
        if isinstance(bound, Call) and bound.function in OPPOSITES:
            return Call(SqlType.BOOLEAN, OPPOSITES[bound.function], bound.arguments)
        return self._apply(node, "not", [bound])

    def _comparison(self, node: Tree) -> Expression:
        kind = type(node).__name__
        bound = self._compare(COMPARISONS[kind], node.this, node.expression, node)
        return Call(SqlType.BOOLEAN, "not", (bound,)) if kind == "NullSafeNEQ" else bound

    def _compare(
        self, function: str, left: Tree, right: Tree, node: Tree, subject: Expression | None = None
    ) -> Call:
        """`subject` is the left side, if it is bound already."""
        sides = self._unify([left, right], node, "types that compare", subject)
        if function != "is_not_distinct":
            self._warn_of_null(sides, node)
        return Call(SqlType.BOOLEAN, function, tuple(sides))

    def _shared(self, node: Tree) -> Expression:
        """An operand that stands more than once in what it becomes: bound once, counted every time."""
        bound = self.bind(node)
        self.context.count_nodes(sum(1 for _ in walk(bound)), node)
        return bound

    def _between(self, node: Tree) -> Expression:
        subject = self._shared(node.this)
        low = self._compare("greater_equal", node.this, node.args["low"], node, subject)
        high = self._compare("less_equal", node.this, node.args["high"], node, subject)
        return Call(SqlType.BOOLEAN, "and", (low, high))

    def _in(self, node: Tree) -> Expression:
        listed = node.args.get("expressions") or []
        if not listed:
            raise self.error(BindError, "Expected at least one value in IN (...), found none", node)
        values = self._unify([node.this, *listed], node, "values of one type in IN")
        self._warn_of_null(values, node)
        return Call(SqlType.BOOLEAN, "in" if len(listed) > 1 else "equal", tuple(values))

    def _warn_of_null(self, compared: list[Expression], node: Tree) -> None:
        """A comparison with NULL is NULL, whatever it is compared with: that is never meant."""
        if any(isinstance(one, Literal) and one.value is None for one in compared):
            is_list = type(node).__name__ == "In"
            self.context.warn(NULL_LISTED if is_list else NULL_COMPARED, node, "Write IS NULL or IS NOT NULL")

    def _is(self, node: Tree) -> Expression:
        what = type(node.expression).__name__
        if what == "Null":
            self.context.read_only(node.expression, ())
            return Call(SqlType.BOOLEAN, "is_null", (self.bind(node.this),))
        if what == "Boolean":
            return self._compare("is_not_distinct", node.this, node.expression, node)
        raise self.error(UnsupportedError, "IS other than with NULL, TRUE or FALSE is not supported", node)

    def _unify(
        self, nodes: list[Tree], place: Tree, expected: str, first: Expression | None = None
    ) -> list[Expression]:
        """The nodes bound and cast to one type; `first` is the first of them, if it is bound already."""
        bound = [self.bind(nodes[0]) if first is None else first, *(self.bind(node) for node in nodes[1:])]
        to = common_type(bound)
        if to is None:
            found = {part.type: f"{part.type} `{_brief(part)}`" for part in reversed(bound)}
            found.pop(SqlType.NULL, None)
            parts = " and ".join([*found.values()][::-1][:3])
            raise self.error(BindError, f"Expected {expected}, found {parts}", place, "Write a CAST")
        if to is SqlType.NULL:
            to = SqlType.BIGINT
        return [self._cast(part, to, node) for part, node in zip(bound, nodes, strict=True)]

    def _cast(self, bound: Expression, to: SqlType, node: Tree) -> Expression:
        try:
            return cast(bound, to)
        except BadMoment as bad:
            raise self._bad_moment(bad, node) from None

    def _bad_moment(self, bad: BadMoment, node: Tree) -> QueryError:
        message = f"Expected a TIMESTAMP such as '2016-10-01 12:00:00', found `{bad.args[0]}`"
        return self.error(BindError, message, node)

    # Functions

    def _operator(self, node: Tree) -> Expression:
        function, sign = OPERATORS[type(node).__name__]
        sides = [self.bind(node.this), self.bind(node.expression)]
        if function in ("like", "ilike"):
            self._warn_of_null(sides, node)
        return self._apply(node, function, sides, sign)

    def _apply(
        self, node: Tree, function: str, arguments: list[Expression], sign: str | None = None
    ) -> Expression:
        try:
            bound = call(function, arguments)
        except BadMoment as bad:
            raise self._bad_moment(bad, node) from None
        if bound is None:
            types = ", ".join(str(argument.type) for argument in arguments) or "nothing"
            expected = describe_signatures(function)
            message = f"Expected {expected} in `{sign or function.upper()}`, found {types}"
            raise self.error(BindError, message, node)
        return bound

    def _negate(self, node: Tree) -> Expression:
        inner = node.this
        if type(inner).__name__ == "Literal" and not inner.args["is_string"]:
            return bind_number(self.context, inner, "-" + self.context.name(inner))
        bound = self.bind(inner)
        if (
            isinstance(bound, Literal)
            and bound.type in (SqlType.INTERVAL, SqlType.DOUBLE)
            and bound.value is not None
        ):
            return Literal(bound.type, -bound.value)  # type: ignore[operator]
        return self._apply(node, "negate", [bound], "-")

    def _log(self, node: Tree) -> Expression:
        base, of = node.this, node.args.get("expression")
        if of is None:
            message = "LOG of one argument is not supported"
            raise self.error(
                UnsupportedError, message, node, "Write LN, LOG10 or LOG2: systems disagree on LOG"
            )
        is_number = type(base).__name__ == "Literal" and not base.args["is_string"]
        if not is_number or str(base.this) not in ("2", "10"):
            raise self.error(UnsupportedError, "LOG to a base other than 2 or 10 is not supported", node)
        self.context.name(base)
        return self._apply(node, f"log{base.this}", [self.bind(of)])

    def _trim(self, node: Tree) -> Expression:
        side = str(node.args.get("position") or "").upper()
        function = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[side]
        return self._apply(node, function, [self.bind(part) for part in _parts(node, ("this", "expression"))])

    def _concat(self, node: Tree) -> Expression:
        parts = [self._to_text(self.bind(part), part) for part in node.expressions]
        return Call(SqlType.VARCHAR, "concat", tuple(parts))

    def _concat_operator(self, node: Tree) -> Expression:
        sides = [self.bind(node.this), self.bind(node.expression)]
        if any(side.type is SqlType.VARCHAR for side in sides):
            sides = [self._to_text(sides[0], node.this), self._to_text(sides[1], node.expression)]
        return self._apply(node, "concat_operator", sides, "||")

    def _to_text(self, bound: Expression, node: Tree) -> Expression:
        assert is_castable(bound.type, SqlType.VARCHAR), "everything has a text"
        return cast(bound, SqlType.VARCHAR)

    def _spread(self, node: Tree) -> Expression:
        """Functions of any number of arguments of one type: COALESCE, GREATEST, LEAST, NULLIF."""
        function = type(node).__name__.lower()
        parts = [*_parts(node, ("this", "expression")), *(node.args.get("expressions") or [])]
        bound = self._unify(parts, node, f"arguments of one type in `{function.upper()}`")
        return Call(bound[0].type, function, tuple(bound))

    def _case(self, node: Tree) -> Expression:
        subject = node.args.get("this")
        bound_subject = None if subject is None else self.bind(subject)
        branches = node.args.get("ifs") or []
        conditions: list[Expression] = []
        for branch in branches:
            self.context.read_only(branch, ("this", "true"))
            if bound_subject is not None:
                self.context.count_nodes(sum(1 for _ in walk(bound_subject)), branch)
                conditions.append(self._compare("equal", subject, branch.this, branch, bound_subject))
            else:
                conditions.append(self._condition_in(branch.this, "CASE WHEN"))
        return self._choose(
            node, conditions, [branch.args["true"] for branch in branches], node.args.get("default")
        )

    def _if(self, node: Tree) -> Expression:
        condition = self._condition_in(node.this, "IF")
        return self._choose(node, [condition], [node.args["true"]], node.args.get("false"))

    def _choose(
        self, node: Tree, conditions: list[Expression], values: list[Tree], other: Tree | None
    ) -> Expression:
        results = self._unify(
            [*values, *([] if other is None else [other])], node, "one type for all of CASE"
        )
        default = Literal(results[0].type, None) if other is None else results[-1]
        arguments = [part for pair in zip(conditions, results, strict=False) for part in pair]
        return Call(default.type, "case", (*arguments, default))

    def _condition_in(self, node: Tree, where: str) -> Expression:
        bound = self.bind(node)
        if bound.type not in (SqlType.BOOLEAN, SqlType.NULL):
            raise self.error(BindError, f"Expected BOOLEAN in {where}, found {bound.type}", node)
        return cast(bound, SqlType.BOOLEAN)

    def _extract(self, node: Tree) -> Expression:
        part = self.context.name(node.this).upper()
        if part not in TIME_PARTS:
            known = f"Known: {', '.join(TIME_PARTS)}"
            raise self.error(
                BindError, f"Expected a part of a TIMESTAMP in `EXTRACT`, found `{part}`", node, known
            )
        return self._apply(node, TIME_PARTS[part], [self.bind(node.expression)])

    def _date_trunc(self, node: Tree) -> Expression:
        unit = node.args["unit"]
        name = self.context.name(unit).lower()
        if name not in TRUNCATIONS:
            known = "Known: second, minute, hour, day, week, month, quarter, year"
            raise self.error(BindError, f"Expected a unit in `DATE_TRUNC`, found `{name}`", node, known)
        return self._apply(node, "date_trunc", [Literal(SqlType.VARCHAR, name), self.bind(node.this)])

    def _explicit_cast(self, node: Tree) -> Expression:
        to = read_cast_type(self.context, node.args["to"], node)
        bound = self.bind(node.this)
        if not is_castable(bound.type, to):
            raise self.error(UnsupportedError, f"A cast from {bound.type} to {to} is not supported", node)
        return self._cast(bound, to, node.this)

    def _named(self, node: Tree) -> Expression:
        """A function the stock parser does not know, under the engine's own name or one of ours."""
        name = str(node.this)
        function = NAMED_FUNCTIONS.get(name.lower())
        if function is None:
            raise self._unknown_function(name, node)
        return self._apply(node, function, [self.bind(part) for part in node.expressions])

    def _aggregate(self, node: Tree) -> Expression:
        if self.aggregates is None:
            name = type(node).__name__.upper()
            hint = "Write HAVING for conditions on aggregates" if self.clause == "WHERE" else None
            raise self.error(BindError, f"Expected no aggregate in {self.clause}, found `{name}`", node, hint)
        inner = ExpressionBinder(self.context, self.scope, "an aggregate")
        return self.aggregates.add(self.context, inner, node)


def _brief(expression: Expression) -> str:
    text = str(expression)
    return text if len(text) <= 40 else f"{text[:37]}..."


def flatten(context: BindContext, node: Tree, kind: Any) -> Iterator[Tree]:
    """The operands of a chain of the same connective, left to right, without recursion."""
    stack = [node]
    while stack:
        part = stack.pop()
        while type(part).__name__ == "Paren" and isinstance(part.this, kind):
            context.read_only(part, ("this",))
            part = part.this
        if isinstance(part, kind):
            context.read_only(part, ("this", "expression"))
            stack.extend((part.expression, part.this))
        else:
            yield part


def _parts(node: Tree, names: tuple[str, ...]) -> list[Tree]:
    """The parts of those names that are there, lists spread out."""
    found: list[Any] = []
    for name in names:
        value = node.args.get(name)
        found.extend(value if isinstance(value, list) else [] if value is None else [value])
    return found

"""SELECT and the set operations: from the stock parser's tree to logical nodes.

A SELECT becomes, from the inside out: FROM, Filter (WHERE), semi and anti joins (EXISTS), Aggregate, Filter
(HAVING), Project, Distinct. Output names that occur twice are told apart as DuckDB does for tables: the
second `value` is `value_1`, the next `value_2`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.engine.expressions.expression import Column, Expression, columns_of, conjunction, move_columns
from penstock.engine.rows.errors import BindError, UnsupportedError
from penstock.optimizer.read.source import fail
from penstock.optimizer.tree.logical import Aggregate, Distinct, Field, Filter, Join, Node, Project

from .bind_aggregate import AggregateCollector, write_aggregate
from .bind_context import BindContext, Tree
from .bind_expression import ExpressionBinder, flatten
from .bind_from import Cte, FromBinder, Item
from .bind_set_operation import bind_chain
from .scope import Scope

SET_OPERATIONS = ("Union", "Except", "Intersect")


@dataclass(frozen=True, slots=True)
class Selected:
    """An item of the SELECT list: a tree, or a column that a `*` stands for."""

    tree: Tree
    column: Expression | None
    name: str | None
    alias: str | None


class SelectBinder:
    """Binds the queries of one statement."""

    def __init__(self, context: BindContext) -> None:
        self.context = context
        self._item_starts = sorted(context.statement.item_texts)

    def bind(self, tree: Tree, ctes: Mapping[str, Cte], around: tuple[str, ...] = ()) -> Node:
        """Any query: SELECT, a set operation, one in brackets; who calls reads the parts `around` it."""
        ctes = self._with(tree, ctes)
        kind = type(tree).__name__
        if kind == "Select":
            return self._select(tree, ctes)
        if kind == "Subquery":
            self.context.read_only(tree, ("this", "with_", "with", *around))
            return self.bind(tree.this, ctes)
        if kind in SET_OPERATIONS:
            return bind_chain(self.context, tree, lambda part: self.bind(part, ctes))
        if kind == "Alias":
            message = "A name for a whole query is not supported"
            raise self.context.error(UnsupportedError, message, tree.args["alias"])
        raise self.context.error(UnsupportedError, f"{kind.upper()} as a query is not supported", tree)

    def _with(self, tree: Tree, ctes: Mapping[str, Cte]) -> Mapping[str, Cte]:
        clause = tree.args.get("with_") or tree.args.get("with")
        if clause is None:
            return ctes
        self.context.read_only(clause, ("expressions",))
        known = dict(ctes)
        for query in clause.expressions:
            self.context.read_only(query, ("this", "alias"))
            self.context.read_only(query.args["alias"], ("this", "columns"))
            name, before = self.context.name(query.args["alias"].this), self.context.references
            node = self.bind(query.this, known)
            columns = query.args["alias"].args.get("columns") or []
            names = [self.context.plain_name(column, "WITH") for column in columns]
            if names:
                node = self._rename(node, names, name, query)
            known[name.lower()] = Cte(node, self.context.references - before)
        return known

    def _rename(self, node: Node, names: list[str], of: str, place: Tree) -> Node:
        if len(names) != len(node.fields):
            message = f"Expected {len(node.fields)} column names for `{of}`, found {len(names)}"
            raise self.context.error(BindError, message, place)
        columns = tuple(Column(field.type, index, field.name) for index, field in enumerate(node.fields))
        types = [field.type for field in node.fields]
        fields = tuple(Field(name, type_) for name, type_ in zip(deduplicate(names), types, strict=True))
        return Project(node, columns, fields)

    # SELECT

    def _select(self, tree: Tree, ctes: Mapping[str, Cte]) -> Node:
        parts = (
            "expressions",
            "from_",
            "from",
            "joins",
            "where",
            "group",
            "having",
            "distinct",
            "with_",
            "with",
        )
        self.context.read_only(tree, parts)
        item = self._from(tree, ctes)
        node = self._where(item, tree.args.get("where"), ctes)
        selected = self._expand(tree, item.scope)
        fields = node.fields
        collector = AggregateCollector(len(fields))
        binder = ExpressionBinder(self.context, item.scope, "SELECT", collector)
        bound = [self._bind_selected(binder, each) for each in selected]
        names = [
            self._name(each, expression, fields) for each, expression in zip(selected, bound, strict=True)
        ]
        group, having = tree.args.get("group"), tree.args.get("having")
        sources = [field.source if field else None for field in (_field(each, fields) for each in bound)]
        condition: Expression | None = None
        if having is not None:
            self.context.read_only(having, ("this",))
            over = ExpressionBinder(self.context, item.scope, "HAVING", collector, _aliases(selected))
            condition = over.bind_condition(having.this)
        if group is not None or having is not None or collector.calls:
            keys = self._keys(group, item.scope, selected, bound, collector.width)
            node = self._aggregate(tree, node, keys, collector)
            bound = [collector.over_groups(expression, keys) for expression in bound]
            if condition is not None:
                node = Filter(node, collector.over_groups(condition, keys))
        types = [expression.type for expression in bound]
        node = Project(node, tuple(bound), tuple(map(Field, deduplicate(names), types, sources)))
        distinct = tree.args.get("distinct")
        if distinct is not None:
            self.context.read_only(distinct, ())
            node = Distinct(node, self.context.keyword_position(tree.expressions[0], "DISTINCT"))
        return node

    def _from(self, tree: Tree, ctes: Mapping[str, Cte]) -> Item:
        clause = tree.args.get("from_") or tree.args.get("from")
        if clause is None:
            raise self.context.error(
                BindError, "Expected FROM with a stream, found a query without FROM", tree
            )
        self.context.read_only(clause, ("this",))
        if not tree.expressions:
            raise self.context.error(BindError, "Expected a column or `*` after SELECT, found none", tree)
        return FromBinder(self.context, ctes, self.bind).bind(clause.this, tree.args.get("joins") or [])

    def _expand(self, tree: Tree, scope: Scope) -> list[Selected]:
        """The SELECT list with its stars spelt out."""
        items: list[Selected] = []
        for part in tree.expressions:
            kind, before = type(part).__name__, len(items)
            if kind == "Star":
                self.context.read_only(part, ())
                items += [Selected(part, column, field.name, None) for column, field in scope.star()]
            elif kind == "Column" and type(part.this).__name__ == "Star":
                self.context.read_only(part, ("this", "table"))
                self.context.read_only(part.this, ())
                alias = self.context.name(part.args["table"])
                relation = scope.find_relation(alias)
                if relation is None:
                    known = ", ".join(f"`{name}`" for name in scope.aliases)
                    message = f"Expected `*` of a stream or table of this FROM, found `{alias}.*`"
                    raise self.context.error(BindError, message, part, f"Known: {known}")
                columns = [
                    (relation.column(place), field.name) for place, field in enumerate(relation.fields)
                ]
                items += [Selected(part, column, name, None) for column, name in columns]
            elif kind == "Alias":
                self.context.read_only(part, ("this", "alias"))
                items.append(Selected(part.this, None, None, self.context.name(part.args["alias"])))
            else:
                items.append(Selected(part, None, None, None))
            self.context.count_columns(len(items) - before, part)
        return items

    def _bind_selected(self, binder: ExpressionBinder, item: Selected) -> Expression:
        if item.column is None:
            return binder.bind(item.tree)
        assert binder.aggregates is not None, "a SELECT list may have aggregates"
        binder.aggregates.note_columns(item.column, self.context.position(item.tree))
        return item.column

    def _name(self, item: Selected, bound: Expression, fields: tuple[Field, ...]) -> str:
        """The alias, the column's name as declared, or the text of the expression."""
        if item.alias is not None:
            return item.alias
        if item.name is not None:
            return item.name
        if type(item.tree).__name__ == "Column":
            field = _field(bound, fields)
            return str(item.tree.this.this) if field is None else field.name
        offset = self.context.offset(item.tree)
        place = 0 if offset is None else bisect.bisect_right(self._item_starts, offset)
        if place == 0:
            return str(item.tree.sql())
        return self.context.statement.item_texts[self._item_starts[place - 1]]

    # WHERE

    def _where(self, item: Item, where: Tree | None, ctes: Mapping[str, Cte]) -> Node:
        if where is None:
            return item.node
        self.context.read_only(where, ("this",))
        binder = ExpressionBinder(self.context, item.scope, "WHERE")
        plain, exists = self._split_exists(where.this)
        parts = [binder.bind_condition(part) for part in plain]
        predicate = conjunction(tuple(parts))
        node = item.node if predicate is None else Filter(item.node, predicate)
        for tree, negated in exists:
            node = self._exists(node, item.scope, tree, negated, ctes)
        return node

    def _exists(self, left: Node, outer: Scope, tree: Tree, negated: bool, ctes: Mapping[str, Cte]) -> Node:
        """A semi or anti join with the sub-query; its conditions on outer columns are the join's."""
        self.context.read_only(tree, ("this",))
        query = tree.this
        while type(query).__name__ in ("Subquery", "Paren"):
            self.context.read_only(query, ("this",))
            query = query.this
        position = self.context.keyword_position(query, "EXISTS")
        if type(query).__name__ != "Select":
            raise fail(UnsupportedError, "EXISTS of anything but a SELECT is not supported", position)
        for part, name in (("group", "GROUP BY"), ("having", "HAVING")):
            if query.args.get(part):
                raise fail(UnsupportedError, f"{name} inside EXISTS is not supported", position)
        ctes = self._with(query, ctes)
        parts = ("expressions", "from_", "from", "joins", "where", "distinct", "with_", "with")
        self.context.read_only(query, parts)
        item = self._from(query, ctes)
        width = len(left.fields)
        scope = item.scope.inside(outer, width).not_seeing(outer.unseen)
        self._check_selected(query, scope)
        node, conditions = item.node, []
        where = query.args.get("where")
        if where is not None:
            self.context.read_only(where, ("this",))
            plain, nested = self._split_exists(where.this)
            own: list[Expression] = []
            for part in plain:
                bound = ExpressionBinder(self.context, scope, "WHERE").bind_condition(part)
                if all(index >= width for index in columns_of(bound)):
                    own.append(move_columns(bound, lambda index: index - width))
                else:
                    conditions.append(bound)
            predicate = conjunction(tuple(own))
            node = node if predicate is None else Filter(node, predicate)
            for inner, inner_negated in nested:
                own_scope = item.scope.not_seeing((*outer.unseen, *outer.aliases))
                node = self._exists(node, own_scope, inner, inner_negated, ctes)
        return Join("anti" if negated else "semi", left, node, conjunction(tuple(conditions)), position)

    def _split_exists(self, condition: Tree) -> tuple[list[Tree], list[tuple[Tree, bool]]]:
        """The conjuncts of a condition: plain ones, and EXISTS with whether it is negated."""
        from sqlglot import exp

        plain: list[Tree] = []
        exists: list[tuple[Tree, bool]] = []
        for part in flatten(self.context, condition, exp.And):
            inner, around, negated = part, [], False
            while type(inner).__name__ in ("Paren", "Not"):
                around.append(inner)
                negated ^= type(inner).__name__ == "Not"
                inner = inner.this
            if type(inner).__name__ == "Exists":
                for each in around:
                    self.context.read_only(each, ("this",))
                exists.append((inner, negated))
            else:
                plain.append(part)
        return plain, exists

    def _check_selected(self, query: Tree, scope: Scope) -> None:
        """EXISTS gives no columns, but what is written must be right."""
        distinct = query.args.get("distinct")
        if distinct is not None:
            self.context.read_only(distinct, ())
        binder = ExpressionBinder(self.context, scope, "EXISTS")
        for item in self._expand(query, scope):
            if item.column is None:
                binder.bind(item.tree)

    # GROUP BY

    def _keys(
        self, group: Tree | None, scope: Scope, selected: list[Selected], bound: list[Expression], width: int
    ) -> dict[Expression, int]:
        """The grouping expressions, each with its place among the Aggregate's columns."""
        keys: dict[Expression, int] = {}
        if group is None:
            return keys
        self.context.read_only(group, ("expressions",))
        aliases = {item.alias.lower(): place for place, item in enumerate(selected) if item.alias is not None}
        binder = ExpressionBinder(self.context, scope, "GROUP BY")
        for part in group.expressions:
            kind, place = type(part).__name__, None
            if kind == "Literal" and not part.args["is_string"]:
                place = self._ordinal(part, len(selected))
            elif kind == "Column" and part.args.get("table") is None and not scope.find(str(part.this.this)):
                place = aliases.get(str(part.this.this).lower())
            if place is None:
                key = binder.bind(part)
            else:
                self._read_place(part)
                key = bound[place]
                if any(index >= width for index in columns_of(key)):
                    message = f"Expected no aggregate in GROUP BY, found item {place + 1} of the SELECT list"
                    raise self.context.error(BindError, message, part)
            keys.setdefault(key, len(keys))
        return keys

    def _read_place(self, part: Tree) -> None:
        """A name or a number that stands for an item of the SELECT list."""
        if type(part).__name__ == "Column":
            self.context.read_only(part, ("this",))
            part = part.this
        self.context.name(part)

    def _ordinal(self, node: Tree, number: int) -> int:
        text = str(node.this)
        if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= number:
            message = f"Expected an item of the SELECT list, 1 to {number}, in GROUP BY, found `{text[:40]}`"
            raise self.context.error(BindError, message, node)
        return int(text) - 1

    def _aggregate(
        self, tree: Tree, node: Node, keys: dict[Expression, int], collector: AggregateCollector
    ) -> Aggregate:
        inputs = node.fields
        key_fields = [_field(key, inputs) or Field(str(key), key.type) for key in keys]
        call_fields = [Field(write_aggregate(call), call.type) for call in collector.calls]
        names = deduplicate(field.name for field in (*key_fields, *call_fields))
        fields = tuple(
            Field(name, field.type, field.source)
            for name, field in zip(names, (*key_fields, *call_fields), strict=True)
        )
        group = tree.args.get("group")
        if group is not None:
            position = self.context.keyword_position(group, "GROUP")
        else:
            position = self.context.position(tree.expressions[0])
        return Aggregate(node, tuple(keys), tuple(collector.calls), fields, position)


def _aliases(selected: list[Selected]) -> dict[str, Tree]:
    return {item.alias.lower(): item.tree for item in selected if item.alias is not None}


def _field(expression: Expression, fields: tuple[Field, ...]) -> Field | None:
    """The input's field, if the expression is just that."""
    plain = isinstance(expression, Column) and expression.index < len(fields)
    return fields[expression.index] if plain else None  # type: ignore[union-attr]


def deduplicate(names: Iterable[str]) -> list[str]:
    """Each name once, whatever its case: a repeated one gets `_1`, `_2`, the first that is free."""
    taken: set[str] = set()
    next_number: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        candidate, number = name, next_number.get(name.lower(), 1)
        while candidate.lower() in taken:
            candidate, number = f"{name}_{number}", number + 1
        next_number[name.lower()] = number
        taken.add(candidate.lower())
        unique.append(candidate)
    return unique

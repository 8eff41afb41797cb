"""FROM: streams with their windows, tables, sub-queries, and the joins between them.

A comma binds looser than JOIN, as in the standard: `a, b JOIN c` is a with (b JOIN c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from penstock.engine.expressions.expression import Call, Column, Expression, columns_of, conjunction
from penstock.engine.rows.errors import BindError, UnsupportedError, did_you_mean
from penstock.engine.rows.types import SqlType
from penstock.engine.rows.window import Window
from penstock.optimizer.names.functions import cast, common_type
from penstock.optimizer.read.source import fail
from penstock.optimizer.read.statements import WrittenWindow
from penstock.optimizer.tree.logical import Field, Join, Node, Position, Project, StreamScan, TableScan

from .bind_context import BindContext, Tree
from .bind_expression import ExpressionBinder
from .catalog import StreamDef, TableDef
from .scope import Merged, Scope, make_relation

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
JOIN_KINDS: dict[tuple[str, str], JoinKind] = {
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi",
    ("LEFT", "SEMI"): "semi",
    ("", "ANTI"): "anti",
    ("LEFT", "ANTI"): "anti",
}


@dataclass(frozen=True, slots=True)
class Cte:
    """A bound WITH query; `references` is how many streams and tables it reads."""

    node: Node
    references: int


@dataclass(frozen=True, slots=True)
class Item:
    """A part of FROM: its plan and the names it gives."""

    node: Node
    scope: Scope


class FromBinder:
    """Binds one FROM clause; `bind_tree` binds a sub-query."""

    def __init__(
        self,
        context: BindContext,
        ctes: Mapping[str, Cte],
        bind_tree: Callable[[Tree, Mapping[str, Cte], tuple[str, ...]], Node],
    ) -> None:
        self.context = context
        self.ctes = ctes
        self.bind_tree = bind_tree
        # Aliases before the last comma, which the conditions of joins behind it do not see.
        self._before_comma: list[str] = []

    def bind(self, first: Tree, joins: list[Tree]) -> Item:
        """The from-items joined, left to right."""
        return self._joined(self._item(first), first, joins)

    def _joined(self, item: Item, first: Tree, joins: list[Tree]) -> Item:
        """An item, of which `first` is the tree, and what is joined to it."""
        # Each comma begins a new part; explicit joins bind within a part.
        parts: list[tuple[Item, Tree]] = [(item, first)]
        for join in joins:
            if any(join.args.get(part) for part in ("kind", "side", "method", "on", "using")):
                item, place = parts[-1]
                parts[-1] = (self._join(item, join), place)
            else:
                self.context.read_only(join, ("this",))
                self._before_comma += parts[-1][0].scope.aliases
                parts.append((self._item(join.this), join.this))
        result = parts[0][0]
        for item, place in parts[1:]:
            result = self._combine("inner", result, item, None, self.context.position(place), place)
        return result

    # Items

    def _item(self, node: Tree) -> Item:
        kind = type(node).__name__
        if kind == "Table":
            self.context.read_only(node, ("this", "alias", "joins"))
            if type(node.this).__name__ != "Identifier":
                raise self.context.error(UnsupportedError, "A function in FROM is not supported", node)
            return self._joined(self._relation(node), node, node.args.get("joins") or [])
        if kind == "Subquery":
            return self._sub_query(node)
        names = {"Lateral": "LATERAL", "Unnest": "UNNEST", "Values": "VALUES"}
        name = names.get(kind, f"This FROM ({kind.lower()})")
        raise self.context.error(UnsupportedError, f"{name} is not supported", node)

    def _relation(self, node: Tree) -> Item:
        name, position = self.context.name(node.this), self.context.position(node.this)
        alias, columns = self._alias(node, name)
        cte = self.ctes.get(name.lower())
        declared = self.context.catalog.find(name)
        scan: Node
        if cte is not None:
            self.context.count_references(cte.references, node)
            scan = cte.node
            self._refuse_window(node, f"the WITH query `{name}`")
        elif isinstance(declared, StreamDef):
            self.context.count_references(1, node)
            scan = self._stream(node, declared, alias, position)
        elif isinstance(declared, TableDef):
            self.context.count_references(1, node)
            self._refuse_window(node, f"the table `{name}`")
            fields = tuple(Field(column.name, column.type, alias) for column in declared.columns)
            scan = TableScan(declared.name, alias, fields, position)
        else:
            known = self.context.catalog.names
            hint = did_you_mean(name, known) if known else "Declare it with CREATE STREAM or CREATE TABLE"
            raise fail(BindError, f"Expected a declared stream or table, found `{name}`", position, hint)
        return self._named(node, scan, alias, columns)

    def _stream(self, node: Tree, stream: StreamDef, alias: str, position: Position) -> StreamScan:
        written = self._window(node)
        if written is None:
            written = self.context.use_tail_window()
        fields = tuple(Field(column.name, column.type, alias) for column in stream.columns)
        grows = stream.ordered, stream.per
        if written is None:
            unbounded = Window("range", None)
            time_column = stream.time_column
            return StreamScan(stream.name, alias, unbounded, fields, position, time_column, False, *grows)
        window = written.window
        if window.partition:
            declared = {column.name.lower(): column.name for column in stream.columns}
            for name in window.partition:
                if name.lower() not in declared:
                    hint = did_you_mean(name, declared.values())
                    message = f"Expected a column of `{stream.name}` in PARTITION BY, found `{name}`"
                    raise fail(BindError, message, written.position, hint)
            window = replace(window, partition=tuple(declared[name.lower()] for name in window.partition))
        return StreamScan(stream.name, alias, window, fields, position, stream.time_column, True, *grows)

    def _window(self, node: Tree) -> WrittenWindow | None:
        """The `[...]` behind the name or behind the alias."""
        names = [node.this] if type(node).__name__ == "Table" else []
        alias = node.args.get("alias")
        names += [alias.this] if alias is not None and alias.this is not None else []
        found: WrittenWindow | None = None
        for name in names:
            offset = name.meta.get("start")
            written = self.context.statement.windows.get(offset)
            if written is None:
                continue
            if found is not None:
                raise fail(BindError, "Expected one window on a stream, found a second", written.position)
            self.context.used_windows.add(offset)
            found = written
        return found

    def _refuse_window(self, node: Tree, what: str) -> None:
        written = self._window(node)
        if written is not None:
            raise fail(
                BindError, f"Expected a window only on a stream, found one on {what}", written.position
            )

    def _sub_query(self, node: Tree) -> Item:
        joins = node.args.get("joins") or []
        if _is_item(node.this):
            # A join in brackets: its names stay visible.
            if node.args.get("alias") is not None:
                message = "A name for a join in brackets is not supported"
                hint = "What stands in the brackets keeps its own names"
                raise self.context.error(UnsupportedError, message, node.args["alias"], hint)
            self.context.read_only(node, ("this", "joins"))
            return self._joined(self._item(node.this), node, joins)
        self._refuse_window(node, "a sub-query")
        inner = self.bind_tree(node, self.ctes, ("alias", "joins"))
        alias, columns = self._alias(node, "")
        return self._joined(self._named(node, inner, alias, columns), node, joins)

    def _alias(self, node: Tree, default: str) -> tuple[str, list[str]]:
        alias = node.args.get("alias")
        if alias is None:
            return default, []
        self.context.read_only(alias, ("this", "columns"))
        columns = [self.context.plain_name(column, "an alias") for column in alias.args.get("columns") or []]
        return default if alias.this is None else self.context.name(alias.this), columns

    def _named(self, node: Tree, plan: Node, alias: str, columns: list[str]) -> Item:
        """The plan as a relation of that alias, its columns renamed if names were given."""
        fields = plan.fields
        self.context.count_columns(len(fields), node)
        if columns:
            if len(columns) > len(fields):
                message = f"Expected {len(fields)} or fewer column names for `{alias}`, found {len(columns)}"
                raise self.context.error(BindError, message, node)
            folded = [name.lower() for name in columns]
            if len(set(folded)) < len(folded):
                raise self.context.error(BindError, f"Expected different column names for `{alias}`", node)
            names = [*columns, *(field.name for field in fields[len(columns) :])]
            fields = tuple(Field(name, field.type, alias) for name, field in zip(names, fields, strict=True))
            expressions = tuple(
                Column(field.type, index, field.name) for index, field in enumerate(plan.fields)
            )
            plan = Project(plan, expressions, fields)
        elif isinstance(plan, Project):
            fields = tuple(replace(field, source=alias or None) for field in fields)
            plan = replace(plan, fields=fields)
        return Item(plan, Scope([make_relation(alias, fields)]))

    # Joins

    def _join(self, left: Item, join: Tree) -> Item:
        side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
        position = self.context.keyword_position(join.this, "JOIN")
        if join.args.get("method"):
            method = str(join.args["method"]).upper()
            position = self.context.keyword_position(join.this, method)
            raise fail(UnsupportedError, f"{method} JOIN is not supported", position)
        self.context.read_only(join, ("this", "side", "kind", "on", "using"))
        known = JOIN_KINDS.get((side, kind))
        if known is None:
            raise fail(UnsupportedError, f"{f'{side} {kind}'.strip()} JOIN is not supported", position)
        right = self._item(join.this)
        on, using = join.args.get("on"), join.args.get("using")
        if kind == "CROSS":
            if on is not None or using:
                raise fail(BindError, "Expected no condition after CROSS JOIN, found one", position)
            return self._combine("inner", left, right, None, position, join.this)
        if on is None and not using:
            hint = "Write CROSS JOIN to join everything"
            raise fail(BindError, "Expected ON or USING after JOIN, found neither", position, hint)
        if using:
            return self._join_using(known, left, right, using, position, join.this)
        both = self._scope(left, right, join.this)
        seen = both.not_seeing(self._before_comma)
        condition = ExpressionBinder(self.context, seen, "ON").bind_condition(on)
        return self._combine(known, left, right, condition, position, join.this, both)

    def _combine(
        self,
        kind: JoinKind,
        left: Item,
        right: Item,
        condition: Expression | None,
        position: Position,
        place: Tree,
        both: Scope | None = None,
    ) -> Item:
        both = both or self._scope(left, right, place)
        node = Join(kind, left.node, right.node, condition, position)
        return Item(node, left.scope if kind in ("semi", "anti") else both)

    def _scope(self, left: Item, right: Item, place: Tree) -> Scope:
        taken = {alias.lower() for alias in left.scope.aliases}
        for alias in right.scope.aliases:
            if alias.lower() in taken:
                message = f"Expected different names in FROM, found `{alias}` twice"
                raise self.context.error(BindError, message, place, f"Write an alias, as in `{alias} AS b`")
        moved = right.scope.moved(len(left.node.fields))
        merged = {**left.scope.merged, **moved.merged}
        return Scope((*left.scope.relations, *moved.relations), merged)

    def _join_using(
        self, kind: JoinKind, left: Item, right: Item, using: list[Tree], position: Position, place: Tree
    ) -> Item:
        both = self._scope(left, right, place)
        width = len(left.node.fields)
        moved = right.scope.moved(width)
        conditions: list[Expression] = []
        merged: dict[str, Merged] = {}
        for identifier in using:
            name = self.context.plain_name(identifier, "USING")
            sides = [self._using_column(scope, name, identifier) for scope in (left.scope, moved)]
            to = common_type(sides)
            if to is None:
                types = f"{sides[0].type} and {sides[1].type}"
                message = f"Expected types that compare for `{name}` in USING, found {types}"
                raise self.context.error(BindError, message, identifier)
            sides = [cast(column, to) for column in sides]
            conditions.append(Call(SqlType.BOOLEAN, "equal", tuple(sides)))
            shown: Expression = {"right": sides[1], "full": Call(to, "coalesce", tuple(sides))}.get(
                kind, sides[0]
            )
            hides = frozenset(index for part in sides for index in columns_of(part))
            if name.lower() in both.merged:
                hides |= both.merged[name.lower()].hides
            declared = next(field for field in left.node.fields if field.name.lower() == name.lower())
            merged[name.lower()] = Merged(shown, hides, Field(declared.name, to))
        both = Scope(both.relations, {**merged, **{k: v for k, v in both.merged.items() if k not in merged}})
        return self._combine(kind, left, right, conjunction(tuple(conditions)), position, place, both)

    def _using_column(self, scope: Scope, name: str, identifier: Tree) -> Expression:
        found = scope.find(name)
        if len(found) != 1:
            what = "no column" if not found else "several columns"
            message = f"Expected a column `{name}` on each side of USING, found {what} on one"
            raise self.context.error(BindError, message, identifier)
        return found[0]


def _is_item(node: Tree) -> bool:
    """Whether what stands in brackets is an item of FROM, not a query."""
    while type(node).__name__ == "Subquery":
        if node.args.get("alias") or node.args.get("joins"):
            return True
        node = node.this
    return type(node).__name__ == "Table"

"""Which column a name means: the relations of a FROM clause, and around a sub-query those of the outer query.

A relation is a run of consecutive columns of the clause's input. Look-ups are by dictionary: a relation may
have ten thousand columns. Names fold case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.engine.expressions.expression import Column, Expression, move_columns
from penstock.engine.rows.errors import did_you_mean
from penstock.optimizer.tree.logical import Field


class BadName(LookupError):
    """A name that means no column or several; `hint` may help."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Relation:
    """What an alias stands for: its columns begin at `first`; their names, folded, to their places in it."""

    alias: str
    first: int
    fields: tuple[Field, ...]
    places: Mapping[str, int]

    def column(self, place: int) -> Column:
        field = self.fields[place]
        return Column(
            field.type, self.first + place, f"{self.alias}.{field.name}" if self.alias else field.name
        )

    def moved(self, by: int) -> Relation:
        return Relation(self.alias, self.first + by, self.fields, self.places)


def make_relation(alias: str, fields: tuple[Field, ...]) -> Relation:
    """A relation of its own, its columns beginning at 0."""
    return Relation(alias, 0, fields, {field.name.lower(): place for place, field in enumerate(fields)})


@dataclass(frozen=True, slots=True)
class Merged:
    """A column joined by USING: one expression for the columns it `hides`."""

    expression: Expression
    hides: frozenset[int]
    field: Field

    def moved(self, by: int) -> Merged:
        moved = move_columns(self.expression, lambda index: index + by)
        return Merged(moved, frozenset(index + by for index in self.hides), self.field)


class Scope:
    """The columns an expression may name; `merged` are those joined by USING, by folded name.

    `outer` is the scope around a sub-query; its columns stand before this one's.
    """

    def __init__(
        self,
        relations: Iterable[Relation],
        merged: Mapping[str, Merged] | None = None,
        outer: Scope | None = None,
        unseen: Iterable[str] = (),
    ) -> None:
        self.relations = tuple(relations)
        self.merged = dict(merged or {})
        self.outer = outer
        # Aliases that stand in the text but not in this scope, for a hint.
        self.unseen = tuple(unseen)
        self._by_alias = {relation.alias.lower(): relation for relation in self.relations if relation.alias}
        self._by_name: dict[str, list[tuple[Relation, int]]] | None = None

    @property
    def aliases(self) -> list[str]:
        return [relation.alias for relation in self.relations if relation.alias]

    def find_relation(self, alias: str) -> Relation | None:
        """The relation of that alias, in this scope or the outer one."""
        found = self._by_alias.get(alias.lower())
        return self.outer.find_relation(alias) if found is None and self.outer is not None else found

    def find(self, name: str) -> list[Expression]:
        """Everything the unqualified name could mean in this scope, not the outer one."""
        merged = self.merged.get(name.lower())
        columns = [relation.column(place) for relation, place in self._names().get(name.lower(), [])]
        if merged is None:
            return list(columns)
        return [merged.expression, *(column for column in columns if column.index not in merged.hides)]

    def resolve(self, name: str, alias: str | None) -> Expression:
        """The column, from this scope or the outer one; raises BadName."""
        if alias is not None:
            relation = self.find_relation(alias)
            if relation is None:
                hint = did_you_mean(alias, self._all_aliases())
                if alias.lower() in map(str.lower, self.unseen):
                    hint = (
                        "A comma binds looser than JOIN; a sub-query sees only the query directly around it"
                    )
                raise BadName(f"Expected a stream or table of this FROM, found `{alias}`", hint)
            place = relation.places.get(name.lower())
            if place is None:
                hint = did_you_mean(name, [field.name for field in relation.fields])
                raise BadName(f"Expected a column of `{alias}`, found `{name}`", hint)
            return relation.column(place)
        found = self.find(name)
        if not found and self.outer is not None:
            found = self.outer.find(name)
        if len(found) > 1:
            first, second = str(found[0]), str(found[1])
            message = f"Expected one column named `{name}`, found `{first}` and `{second}`"
            raise BadName(message, f"Write `{first}` or `{second}`")
        if not found:
            names = [field.name for relation in self.relations for field in relation.fields]
            of = ", ".join(f"`{each}`" for each in self._all_aliases()[:8]) or "this FROM"
            raise BadName(f"Expected a column of {of}, found `{name}`", did_you_mean(name, names))
        return found[0]

    def _all_aliases(self) -> list[str]:
        return [*self.aliases, *(self.outer.aliases if self.outer is not None else ())]

    def _names(self) -> dict[str, list[tuple[Relation, int]]]:
        if self._by_name is None:
            self._by_name = {}
            for relation in self.relations:
                for folded, place in relation.places.items():
                    self._by_name.setdefault(folded, []).append((relation, place))
        return self._by_name

    def moved(self, by: int) -> Scope:
        """The same columns, `by` places further right."""
        merged = {name: column.moved(by) for name, column in self.merged.items()}
        return Scope((relation.moved(by) for relation in self.relations), merged)

    def inside(self, outer: Scope, width: int) -> Scope:
        """This scope as a sub-query's: the outer query's `width` columns come first."""
        moved = self.moved(width)
        return Scope(moved.relations, moved.merged, outer)

    def not_seeing(self, aliases: Iterable[str]) -> Scope:
        """This scope, where these aliases stand in the text and are none of it."""
        return Scope(self.relations, self.merged, self.outer, aliases)

    def star(self) -> list[tuple[Expression, Field]]:
        """What `*` stands for: all columns in order, those joined by USING once, where the first stands."""
        merged_at = {index: merged for merged in self.merged.values() for index in merged.hides}
        columns: list[tuple[Expression, Field]] = []
        for relation in self.relations:
            for place, field in enumerate(relation.fields):
                merged = merged_at.get(relation.first + place)
                if merged is None:
                    columns.append((relation.column(place), field))
                elif relation.first + place == min(merged.hides):
                    columns.append((merged.expression, merged.field))
        return columns

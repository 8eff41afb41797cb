"""Which column a name means: the relations of a FROM clause, and around a sub-query those of the outer query.

A relation is a run of consecutive columns of the clause's input. Look-ups are by dictionary: a relation may
have ten thousand columns. Names fold case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.engine.errors import did_you_mean
from penstock.engine.expression import Call, Column, Expression, columns_of, move_columns

from .logical import Field


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
        return Column(field.type, self.first + place, f"{self.alias}.{field.name}" if self.alias else field.name)

    def moved(self, by: int) -> Relation:
        return Relation(self.alias, self.first + by, self.fields, self.places)


def make_relation(alias: str, fields: tuple[Field, ...]) -> Relation:
    """A relation of its own, its columns beginning at 0."""
    return Relation(alias, 0, fields, {field.name.lower(): place for place, field in enumerate(fields)})


class Scope:
    """The columns an expression may name. `merged` are the columns joined by USING, one for both sides.

    `outer` is the scope around a sub-query; its columns stand before this one's, which begin at `first`.
    """

    def __init__(
        self,
        relations: Iterable[Relation],
        merged: Mapping[str, Expression] | None = None,
        outer: Scope | None = None,
    ) -> None:
        self.relations = tuple(relations)
        self.merged = dict(merged or {})
        self.outer = outer
        self._by_alias = {relation.alias.lower(): relation for relation in self.relations if relation.alias}
        self._by_name: dict[str, list[tuple[Relation, int]]] | None = None

    @property
    def aliases(self) -> list[str]:
        return [relation.alias for relation in self.relations]

    def find_relation(self, alias: str) -> Relation | None:
        return self._by_alias.get(alias.lower())

    def find(self, name: str) -> list[Expression]:
        """Everything the unqualified name could mean in this scope, not the outer one."""
        folded = name.lower()
        if folded in self.merged:
            return [self.merged[folded]]
        return [relation.column(place) for relation, place in self._names().get(folded, [])]

    def resolve(self, name: str, alias: str | None) -> Expression:
        """The column, from this scope or the outer one; raises BadName."""
        found = self._look_up(name, alias)
        if found is None and self.outer is not None:
            found = self.outer._look_up(name, alias)
        if found is None:
            raise self._unknown(name, alias)
        return found

    def _look_up(self, name: str, alias: str | None) -> Expression | None:
        if alias is not None:
            relation = self.find_relation(alias)
            if relation is None:
                return None
            place = relation.places.get(name.lower())
            if place is None:
                hint = did_you_mean(name, [field.name for field in relation.fields])
                raise BadName(f"Expected a column of `{alias}`, found `{alias}.{name}`", hint)
            return relation.column(place)
        found = self.find(name)
        if len(found) > 1:
            both = " and ".join(f"`{column}`" for column in found[:2])
            raise BadName(f"Expected one column named `{name}`, found {both}", f"Write {both.replace('and', 'or')}")
        return found[0] if found else None

    def _unknown(self, name: str, alias: str | None) -> BadName:
        aliases = [*self.aliases, *(self.outer.aliases if self.outer is not None else ())]
        if alias is not None:
            return BadName(f"Expected a stream or table of this FROM, found `{alias}`", did_you_mean(alias, aliases))
        names = [field.name for relation in self.relations for field in relation.fields]
        of = ", ".join(f"`{each}`" for each in aliases[:8] if each) or "this FROM"
        return BadName(f"Expected a column of {of}, found `{name}`", did_you_mean(name, names))

    def _names(self) -> dict[str, list[tuple[Relation, int]]]:
        if self._by_name is None:
            self._by_name = {}
            for relation in self.relations:
                for folded, place in relation.places.items():
                    self._by_name.setdefault(folded, []).append((relation, place))
        return self._by_name

    def moved(self, by: int) -> Scope:
        """The same columns, `by` places further right."""
        merged = {name: move_columns(column, lambda i: i + by) for name, column in self.merged.items()}
        return Scope((relation.moved(by) for relation in self.relations), merged)

    def inside(self, outer: Scope, width: int) -> Scope:
        """This scope as a sub-query's: the outer query's `width` columns come first."""
        moved = self.moved(width)
        return Scope(moved.relations, moved.merged, outer)

    def star(self) -> list[tuple[Expression, Field]]:
        """What `*` stands for: the columns joined by USING once, then all others, in order."""
        hidden: set[int] = set()
        columns: list[tuple[Expression, Field]] = []
        for name, column in self.merged.items():
            hidden.update(columns_of(column))
            hidden.update(relation.first + place for relation, place in self._names().get(name, []))
            first, place = self._names()[name][0]
            columns.append((column, first.fields[place]))
        for relation in self.relations:
            for place, field in enumerate(relation.fields):
                if relation.first + place not in hidden:
                    columns.append((relation.column(place), field))
        return columns


def coalesce(left: Expression, right: Expression) -> Expression:
    """The merged column of a FULL JOIN ... USING."""
    return Call(left.type, "coalesce", (left, right))

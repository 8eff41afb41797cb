"""Drawn queries: trees of every operator, as Penstock's SQL over windows and as DuckDB's over their contents.

Every relation has the columns (k BIGINT, v DOUBLE), so that any can stand under any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from oracle import Reference

FILTERS = ["k > 0", "v <= 1.5", "k IS NOT NULL AND v > 0", "v IS NULL OR k = 1", "k < 2"]
AGGREGATES = [
    "CAST(COUNT(*) AS DOUBLE)",
    "CAST(COUNT(v) AS DOUBLE)",
    "SUM(v)",
    "AVG(v)",
    "MIN(v)",
    "MAX(v)",
    "CAST(COUNT(DISTINCT v) AS DOUBLE)",
    "CAST(MAX(k) AS DOUBLE)",
    "SUM(DISTINCT v)",
]
SET_OPERATIONS = ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
CONDITIONS = ["p.k = q.k", "p.k = q.k", "p.k = q.k AND p.v < q.v", "p.v <= q.v", "p.k + 1 = q.k"]


@dataclass
class Drawn:
    """A query: text for Penstock and for DuckDB, and the streams it reads."""

    penstock: str
    duck: str


@dataclass
class Trees:
    """Draws trees; `references` collects how they read the streams."""

    draw: Any
    streams: Sequence[str]
    windows: Sequence[str] = ("range", "rows", "partition", "unbounded")
    tables: bool = True
    references: list[Reference] = field(default_factory=list)
    aliases: int = 0

    def tree(self, operators: int) -> Drawn:
        """A query of so many operators above its scans."""
        if operators == 0:
            return self.scan()
        one = ["filter", "project", "distinct", "group", "total"]
        two = ["join", "left", "right", "full", "semi", "anti", "set", "set"]
        kind = self.draw(st.sampled_from(one + two))
        if kind in one:
            return self.single(kind, self.tree(operators - 1))
        left = self.draw(st.integers(0, operators - 1))
        return self.double(kind, self.tree(left), self.tree(operators - 1 - left))

    def name(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    def scan(self) -> Drawn:
        if self.tables and self.draw(st.integers(0, 7)) == 0:
            return Drawn("SELECT k, v FROM t", "SELECT k, v FROM t")
        alias, stream = self.name(), self.draw(st.sampled_from(self.streams))
        kind = self.draw(st.sampled_from(self.windows))
        if kind == "unbounded":
            reference = Reference(stream, alias, "range", None)
        elif kind == "range":
            reference = Reference(stream, alias, "range", self.draw(st.integers(1, 12)))
        else:
            by = "k" if kind == "partition" else ""
            reference = Reference(stream, alias, "rows", self.draw(st.integers(1, 4)), by)
        self.references.append(reference)
        return Drawn(f"SELECT k, v FROM {reference.penstock}", f"SELECT k, v FROM {alias}")

    def single(self, kind: str, below: Drawn) -> Drawn:
        alias, condition = self.name(), self.draw(st.sampled_from(FILTERS))
        call = self.draw(st.sampled_from(AGGREGATES))
        having = self.draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING MAX(v) > 0"]))
        text = {
            "filter": f"SELECT k, v FROM ({{}}) AS {alias} WHERE {condition}",
            "project": f"SELECT k + 1 AS k, v * 2 AS v FROM ({{}}) AS {alias}",
            "distinct": f"SELECT DISTINCT k, v FROM ({{}}) AS {alias}",
            "group": f"SELECT k, {call} AS v FROM ({{}}) AS {alias} GROUP BY k{having}",
            "total": f"SELECT COUNT(*) AS k, {call} AS v FROM ({{}}) AS {alias}",
        }[kind]
        return Drawn(text.format(below.penstock), text.format(below.duck))

    def double(self, kind: str, left: Drawn, right: Drawn) -> Drawn:
        condition = self.draw(st.sampled_from(CONDITIONS))
        word = self.draw(st.sampled_from(SET_OPERATIONS))
        outer = f"SELECT p.k AS k, q.v AS v FROM ({{0}}) AS p {kind.upper()} JOIN ({{1}}) AS q ON {condition}"
        exists = f"EXISTS (SELECT * FROM ({{1}}) AS q WHERE {condition})"
        text = {
            "join": outer.replace("JOIN JOIN", "JOIN"),
            "semi": f"SELECT p.k, p.v FROM ({{0}}) AS p WHERE {exists}",
            "anti": f"SELECT p.k, p.v FROM ({{0}}) AS p WHERE NOT {exists}",
            "set": f"SELECT * FROM ({{0}}) AS p {word} SELECT * FROM ({{1}}) AS q",
        }.get(kind, outer)
        return Drawn(text.format(left.penstock, right.penstock), text.format(left.duck, right.duck))

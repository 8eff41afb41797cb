"""What the parts of the binder share: the statement being bound, the catalog, and how to complain.

Also the guard that keeps the binder honest: the stock parser understands far more SQL than we run, so every
node says which of its parts were read, and a part that is there but was not read is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.errors import QueryError, UnsupportedError

from .catalog import Catalog
from .logical import Position
from .source import fail
from .statements import SelectStatement

# A node of the stock parser's tree.
Tree = Any

# More references than this are a query that was generated wrongly, often a WITH that doubles again and again.
MAX_REFERENCES = 10_000

# Parts of the stock parser's nodes as a user would name them; others by the part's own name.
PART_NAMES = {
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "windows": "WINDOW ... AS",
    "laterals": "LATERAL",
    "hint": "A hint",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "into": "INTO",
    "locks": "FOR UPDATE",
    "connect": "CONNECT BY",
    "match": "MATCH_RECOGNIZE",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "prewhere": "PREWHERE",
    "recursive": "RECURSIVE",
    "materialized": "MATERIALIZED",
    "by_name": "BY NAME",
    "db": "A schema before a name",
    "catalog": "A schema before a name",
    "version": "FOR SYSTEM_TIME",
    "only": "ONLY",
    "rollup": "ROLLUP",
    "cube": "CUBE",
    "grouping_sets": "GROUPING SETS",
    "totals": "WITH TOTALS",
    "all": "GROUP BY ALL",
    "except_": "EXCEPT in a `*`",
    "except": "EXCEPT in a `*`",
    "replace": "REPLACE in a `*`",
    "rename": "RENAME in a `*`",
    "query": "IN (SELECT ...)",
    "unnest": "IN UNNEST",
    "method": "A join method",
    "symmetric": "SYMMETRIC",
    "on": "DISTINCT ON",
    "format": "FORMAT",
    "zone": "A time zone",
}
PART_HINTS = {
    "order": "Results come in the order of `_ts`",
    "query": "Write EXISTS (SELECT ... WHERE ...) instead",
    "windows": "WINDOW at the end takes a duration, as in WINDOW 5 MINUTES",
}


@dataclass(slots=True)
class BindContext:
    """One statement's binding. `used_windows` are offsets of those `[...]` that found their stream."""

    statement: SelectStatement
    catalog: Catalog
    used_windows: set[int] = field(default_factory=set)
    references: int = 0

    def offset(self, node: Tree) -> int | None:
        """Where the first token of the node stands that the stock parser remembers."""
        starts = [part.meta["start"] for part in node.walk() if part.meta and "start" in part.meta]
        return min(starts) if starts else None

    def position(self, node: Tree) -> Position:
        """Where the node stands, or the statement if the stock parser does not remember."""
        offset = self.offset(node)
        return self.statement.position if offset is None else self.statement.source.position(offset)

    def keyword_position(self, node: Tree, keyword: str) -> Position:
        """Where the keyword before the node stands; the node itself if there is none close."""
        offset = self.offset(node)
        if offset is None:
            return self.statement.position
        text = self.statement.source.text
        found = [*re.finditer(rf"\b{re.escape(keyword)}\b", text[:offset], re.IGNORECASE)]
        return self.statement.source.position(found[-1].start() if found else offset)

    def error(self, kind: type[QueryError], message: str, node: Tree, hint: str | None = None) -> QueryError:
        return fail(kind, message, self.position(node), hint)  # type: ignore[no-any-return]

    def read_only(self, node: Tree, parts: Collection[str]) -> None:
        """The guard: refuses the node if it has a part that is none of `parts`."""
        for part, value in node.args.items():
            if part in parts or value is None or value is False or value == [] or value == "":
                continue
            name = PART_NAMES.get(part, part.strip("_").upper())
            first = value[0] if isinstance(value, list) else value
            place = first if hasattr(first, "walk") and self.offset(first) is not None else node
            position = self.keyword_position(place, name.split()[0])
            raise fail(UnsupportedError, f"{name} is not supported", position, PART_HINTS.get(part))

    def count_references(self, number: int, node: Tree) -> None:
        self.references += number
        if self.references > MAX_REFERENCES:
            message = f"More than {MAX_REFERENCES} references to streams and tables are not supported"
            raise self.error(UnsupportedError, message, node)

"""What the parts of the binder share: the statement being bound, the catalog, and how to complain.

Also the guard that keeps the binder honest: the stock parser understands far more SQL than we run, so every
node says which of its parts are read (`parts_read.py`), and a part that is there but was not read is refused
by name, at once or when all is bound.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.rows.errors import BindError, PenstockWarning, QueryError, UnsupportedError
from penstock.optimizer.read.source import fail, printable, words
from penstock.optimizer.read.statements import SelectStatement, WrittenWindow
from penstock.optimizer.tree.logical import Position

from .catalog import Catalog
from .parts_read import PartsRead, Tree, present_parts

# More references than this are a query that was generated wrongly, often a WITH that doubles again and again.
MAX_REFERENCES = 1_000
# The same for expressions, counted as often as they are written out.
MAX_NODES = 100_000
# The same for columns: of all that is read, and those that `*` stands for.
MAX_COLUMNS = 100_000

# Parts of the stock parser's nodes as a user would name them; others by the part's own name.
PART_NAMES = {
    "alias": "A name here",
    "joins": "JOIN",
    "group": "GROUP BY",
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
# Parts of a SELECT that are read there, and nowhere else.
CLAUSES = ("joins", "where", "group", "having")
PART_HINTS = {
    "order": "Results come in the order of `_ts`",
    "query": "Write EXISTS (SELECT ... WHERE ...) instead",
    "windows": "WINDOW at the end takes a duration, as in WINDOW 5 MINUTES",
}

# How far before what the parser remembers a keyword is looked for first.
LOOK_BACK = 400
# Nodes that begin where their first operand does.
INFIX = words(
    "EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Add Sub Mul Div IntDiv Mod DPipe And Or Between In Is Like "
    "ILike Alias Escape Window Filter Bracket Dot"
)
# What stands between a node's first word and the first token in it that the parser remembers.
_SELECT = r"SELECT\s+(?:DISTINCT\s+)?"
LEADS = {
    "Select": _SELECT,
    "Subquery": rf"\(\s*(?:{_SELECT})?",
    "Exists": rf"EXISTS\s*\(\s*(?:{_SELECT})?",
    "Any": rf"(?:ANY|SOME)\s*\(\s*(?:{_SELECT})?",
    "All": rf"ALL\s*\(\s*(?:{_SELECT})?",
    "Lateral": rf"LATERAL\s*\(\s*(?:{_SELECT})?",
    "Case": r"CASE\s+(?:WHEN\s+)?",
    "Cast": r"\bCAST\s*\(\s*",
    "Interval": r"INTERVAL\s*-?\s*",
    "Not": r"NOT\s*\(?",
    "Neg": r"-\s*",
    "Paren": r"\(\s*",
    "Rollup": r"ROLLUP\s*\(\s*",
    "Cube": r"CUBE\s*\(\s*",
    "Extract": r"EXTRACT\s*\(\s*\w+\s+FROM\s+",
}
FUNCTION_LEAD = r"\b\w+\s*\(\s*"


@dataclass(slots=True)
class BindContext:
    """One statement's binding. `used_windows` are offsets of those `[...]` that found their stream.

    `used_tail_window`: a stream without any of its own asked for WINDOW at the end.
    """

    statement: SelectStatement
    catalog: Catalog
    used_windows: set[int] = field(default_factory=set)
    used_tail_window: bool = False
    parts_read: PartsRead = field(default_factory=PartsRead)
    references: int = 0
    nodes: int = 0
    columns: int = 0
    warned: set[str] = field(default_factory=set)

    def use_tail_window(self) -> WrittenWindow | None:
        """The WINDOW at the end, if there is one, which has found its stream thereby."""
        self.used_tail_window = True
        return self.statement.tail.window

    def offset(self, node: Tree) -> int | None:
        """Where the first token of the node stands that the stock parser remembers."""
        starts = [part.meta["start"] for part in node.walk() if part.meta and "start" in part.meta]
        return min(starts) if starts else None

    def start(self, node: Tree) -> int | None:
        """Where the node begins: what the parser remembers, and the word or bracket that stands before it."""
        whole = node
        while type(node).__name__ in INFIX and node.this is not None:
            node = node.this
        offset = self.offset(node)
        if offset is None:
            return self.offset(whole)
        if node.meta and node.meta.get("start") == offset:
            return offset
        from sqlglot import exp

        lead = LEADS.get(type(node).__name__) or (FUNCTION_LEAD if isinstance(node, exp.Func) else None)
        if lead is None:
            return offset
        begin = max(0, offset - LOOK_BACK)
        found = re.search(rf"(?:{lead})$", self.statement.source.text[begin:offset], re.IGNORECASE)
        return offset if found is None else begin + found.start()

    def position(self, node: Tree) -> Position:
        """Where the node stands, or what is around it if the stock parser does not remember, as of NULL."""
        start = self.start(node)
        while start is None and node.parent is not None:
            node = node.parent
            start = self.start(node)
        return self.statement.position if start is None else self.statement.source.position(start)

    def keyword_position(self, node: Tree, keyword: str) -> Position:
        """Where the keyword before the node stands; the node itself if there is none."""
        offset = self.offset(node)
        if offset is None:
            return self.statement.position
        text = self.statement.source.text
        for begin in (max(0, offset - LOOK_BACK), 0):
            found = [*re.finditer(rf"\b{re.escape(keyword)}\b", text[begin:offset], re.IGNORECASE)]
            if found:
                return self.statement.source.position(begin + found[-1].start())
        return self.statement.source.position(offset)

    def function_name(self, node: Tree) -> str:
        """The name a function was called by."""
        start = self.start(node)
        found = None if start is None else re.compile(r"\w+").match(self.statement.source.text, start)
        return str(node.sql_name()) if found is None else found[0]

    def error(self, kind: type[QueryError], message: str, node: Tree, hint: str | None = None) -> QueryError:
        return fail(kind, message, self.position(node), hint)

    def warn(self, message: str, node: Tree, hint: str) -> None:
        """Says what is probably not meant; it is done all the same."""
        place = self.position(node)
        text = f"{message}, at line {place.line}, column {place.column}. {hint}"
        if text not in self.warned:
            self.warned.add(text)
            warnings.warn(printable(text), PenstockWarning, stacklevel=_outside())

    def plain_name(self, node: Tree, where: str) -> str:
        """A column's name in a list of such, without a type or a qualifier."""
        if type(node).__name__ != "Identifier":
            raise self.error(BindError, f"Expected plain column names in {where}, found more", node)
        return self.name(node)

    def name(self, node: Tree) -> str:
        """What a name or a word says."""
        if type(node).__name__ not in ("Identifier", "Var", "Literal"):
            raise self.error(BindError, "Expected a name, found more", node)
        self.read_only(node, ("this", "quoted", "is_string"))
        return str(node.this)

    def read_only(self, node: Tree, parts: Collection[str]) -> None:
        """The guard: `parts` of the node are read here; it is refused if it has any other."""
        self.parts_read.note(node, parts)
        for part, value in present_parts(node):
            if part not in parts:
                raise self._unread(node, part, value)

    def refuse_unread(self) -> None:
        """When all is bound: refuses what nobody has read."""
        found = self.parts_read.find_unread(self.statement.tree)
        if found is not None:
            raise self._unread(*found)

    def _unread(self, node: Tree, part: str, value: Any) -> QueryError:
        name, hint = _part_name(part, value), PART_HINTS.get(part)
        position = self._part_position(node, part, value, name)
        if part == "query" and _is_negated(node):
            hint = "Write NOT EXISTS (SELECT ... WHERE ...) instead; NOT IN a list with a NULL is never true"
        if type(node).__name__ != "Select" and part in CLAUSES:
            name, hint = f"{name} behind brackets", f"Write SELECT * FROM (SELECT ...) AS a {name} ..."
        return fail(UnsupportedError, f"{name} is not supported", position, hint)

    def _part_position(self, node: Tree, part: str, value: Any, name: str) -> Position:
        """Where a refused part stands: its keyword, before what it holds, or anywhere if it holds nothing."""
        first = value[0] if isinstance(value, list) else value
        holds = part != "hint" and hasattr(first, "walk") and self.offset(first) is not None
        word = name.split()[0]
        if holds:
            return (
                self.keyword_position(first, word)
                if word.isupper() and len(word) > 1
                else self.position(first)
            )
        pattern = r"/\*\+" if part == "hint" else r"\b" + r"\s+".join(map(re.escape, name.split())) + r"\b"
        source, start = self.statement.source, self.offset(node) or 0
        for begin in (start, 0):
            found = re.compile(pattern, re.IGNORECASE).search(source.text, begin)
            if found:
                return source.position(found.start())
        return self.position(node)

    def count_references(self, number: int, node: Tree) -> None:
        self.references += number
        if self.references > MAX_REFERENCES:
            message = f"More than {MAX_REFERENCES} references to streams and tables are not supported"
            raise self.error(UnsupportedError, message, node)

    def count_columns(self, number: int, node: Tree) -> None:
        self.columns += number
        if self.columns > MAX_COLUMNS:
            raise self.error(
                UnsupportedError, f"More than {MAX_COLUMNS} columns in a query are not supported", node
            )

    def count_nodes(self, number: int, node: Tree) -> None:
        self.nodes += number
        if self.nodes > MAX_NODES:
            raise self.error(
                UnsupportedError, f"More than {MAX_NODES} expressions in a query are not supported", node
            )


def _is_negated(node: Tree) -> bool:
    """Whether NOT stands in the node or before it."""
    if node.args.get("negate"):
        return True
    above = node.parent
    while type(above).__name__ == "Paren":
        above = above.parent
    return type(above).__name__ == "Not"


def _outside() -> int:
    """How far up the stack of `warn`'s caller the code stands that is not ours: a warning is about that."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("penstock."):
        frame, level = frame.f_back, level + 1
    return level


def _part_name(part: str, value: Any) -> str:
    """A part as a user would name it."""
    first = value[0] if isinstance(value, list) else value
    if type(first).__name__ == "Fetch":
        return "FETCH"
    if part == "locks" and not first.args.get("update"):
        return "FOR SHARE"
    return PART_NAMES.get(part, part.strip("_").upper())

"""Queries: trees of every operator, in Penstock's SQL and DuckDB's, and how they read the streams.

Every relation has the columns (k BIGINT, v DOUBLE), so that any can stand under any other. Without operators
that take rows back, a row's life can be told: that of a pair is what the lives of its rows have in common.
That gives what EMIT INSERTS has to give, row by row.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle import FOREVER, Reference

FILTERS = [
    "k > 0", "v <= 1.5", "k IS NOT NULL AND v > 0", "v IS NULL OR k = 1", "k < 2", "k IN (0, 2)", "v <> 0.5",
    "NOT (k = 1 OR v > 1)", "k BETWEEN 1 AND 2", "COALESCE(v, 0) >= 0", "k IS NOT DISTINCT FROM 1",
    "CASE WHEN k = 1 THEN v > 0 ELSE v < 1 END",
]  # fmt: skip
SELECTED = [
    "k + 1 AS k, v * 2 AS v", "COALESCE(k, 7) AS k, v", "NULLIF(k, 1) AS k, ABS(v) AS v", "1 AS k, v",
    "k, CASE WHEN v > 0 THEN v END AS v", "k % 2 AS k, -v AS v", "k, CAST(k AS DOUBLE) AS v",
]  # fmt: skip
CALLS = [
    "CAST(COUNT(*) AS DOUBLE)", "CAST(COUNT(v) AS DOUBLE)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)",
    "CAST(COUNT(DISTINCT v) AS DOUBLE)", "CAST(MAX(k) AS DOUBLE)", "SUM(DISTINCT v)", "AVG(DISTINCT v)",
    "CAST(SUM(k) AS DOUBLE)", "COALESCE(SUM(v), 0) + COUNT(*)", "CAST(COUNT(DISTINCT k) AS DOUBLE)",
    "CASE WHEN COUNT(*) > 2 THEN MAX(v) ELSE MIN(v) END", "CAST(MIN(DISTINCT k) AS DOUBLE)",
]  # fmt: skip
GROUPS = [
    "SELECT k, {} AS v FROM {{}} GROUP BY k{}", "SELECT k, {} AS v FROM {{}} GROUP BY k{}",
    "SELECT k % 2 AS k, {} AS v FROM {{}} GROUP BY k % 2{}",
    "SELECT MAX(k) AS k, {} AS v FROM {{}} GROUP BY v{}",
    "SELECT k, {} AS v FROM {{}} GROUP BY k, v{}", "SELECT COUNT(*) AS k, {} AS v FROM {{}} GROUP BY k > 0{}",
]  # fmt: skip
HAVINGS = ["", "", "", " HAVING COUNT(*) > 1", " HAVING MAX(v) > 0", " HAVING COUNT(v) < 3 AND MIN(k) >= 0"]
SET_OPERATIONS = ["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
CONDITIONS = [
    "{p}.k = {q}.k", "{p}.k = {q}.k", "{p}.k = {q}.k", "{p}.k = {q}.k AND {p}.v < {q}.v", "{p}.v <= {q}.v",
    "{p}.k + 1 = {q}.k", "{p}.k = {q}.k AND {p}.v = {q}.v", "{p}.k = {q}.k AND {p}.v > 0",
    "{p}.k = {q}.k AND {q}.v <= 1.5", "ABS({p}.k - {q}.k) <= 1", "{q}.k BETWEEN {p}.k - 1 AND {p}.k + 1",
    "{p}.k IS NOT DISTINCT FROM {q}.k", "{p}.k < {q}.k", "{p}.k = {q}.k AND ({p}.v > 1 OR {q}.v > 0)",
]  # fmt: skip
OF_TIMES = [
    ("{p}.ts <= {q}.ts", "{p}.ts <= {q}.ts"),
    ("{q}.ts - {p}.ts <= INTERVAL '2' MICROSECOND", "{q}.ts - {p}.ts <= 2"),
    ("{p}.k = {q}.k AND {p}.ts < {q}.ts", "{p}.k = {q}.k AND {p}.ts < {q}.ts"),
]
MANY = [
    "p.k = q.k AND q.k = r.k", "p.k = q.k AND p.k = r.k AND p.v < r.v", "p.k = q.k AND q.v <= r.v",
    "p.k = q.k AND r.k = q.k AND p.v > 0", "p.k < q.k AND q.k = r.k",
]  # fmt: skip
OUTER_OF_THREE = [
    "{0} AS p LEFT JOIN ({1} AS q JOIN {2} AS r ON q.k = r.k) ON p.k = q.k",
    "{0} AS p LEFT JOIN {1} AS q ON p.k = q.k LEFT JOIN {2} AS r ON q.k = r.k",
    "{0} AS p JOIN {1} AS q ON p.k = q.k FULL JOIN {2} AS r ON p.k = r.k",
    "{0} AS p LEFT JOIN {1} AS q ON p.k = q.k JOIN {2} AS r ON p.k = r.k",
]
ABOVE = [
    "SELECT DISTINCT k, v FROM ({0}) AS late",
    "SELECT k, SUM(v) AS v FROM ({0}) AS late GROUP BY k",
    "SELECT k, MAX(v) AS v FROM ({0}) AS late GROUP BY k HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS k, MIN(v) AS v FROM ({0}) AS late",
    "SELECT * FROM ({0}) AS x EXCEPT ALL SELECT k, v FROM t",
    "SELECT x.k, x.v FROM ({0}) AS x LEFT JOIN t AS y ON x.k = y.k",
]
NAMED = {
    "WITH w AS ({0}) SELECT k, v FROM w": "SELECT k, v FROM ({0}) AS w",
    "WITH w AS ({0}) SELECT x.k, y.v FROM w AS x JOIN w AS y ON x.k = y.k": (
        "SELECT x.k, y.v FROM ({0}) AS x JOIN ({0}) AS y ON x.k = y.k"
    ),
    "WITH w AS ({0}) SELECT k, v FROM w EXCEPT SELECT k, v FROM w WHERE v > 0": (
        "SELECT k, v FROM ({0}) AS x EXCEPT SELECT k, v FROM ({0}) AS y WHERE v > 0"
    ),
}
"""What asks DuckDB begins with WITH itself."""
TABLE_TIME = -FOREVER


class Now(Reference):
    """The rows of this very instant."""

    @property
    def penstock(self) -> str:
        return f"{self.stream} [NOW] AS {self.alias}"


class Bare(Reference):
    """Without brackets: with the window of the whole query, or with none."""

    @property
    def penstock(self) -> str:
        return f"{self.stream} AS {self.alias}"


@dataclass
class Drawn:
    """A query: text for Penstock and for DuckDB."""

    penstock: str
    duck: str
    life: str | None = None
    """SQL that gives k, v, ts, ets of every row there ever is; None: rows are taken back."""
    scan: Reference | None = None
    """If it only reads a stream."""


@dataclass
class Tree:
    """A query over streams, and how it reads them."""

    drawn: Drawn
    references: list[Reference]

    @property
    def streams(self) -> set[str]:
        return {one.stream for one in self.references}

    def with_windows(self, references: list[Reference]) -> Tree:
        """The same through other windows: aliases say which is which."""
        text = self.drawn.penstock
        for old, new in zip(self.references, references, strict=True):
            text = re.sub(rf"{re.escape(old.penstock)}\b", new.penstock, text)
        return Tree(Drawn(text, self.drawn.duck, self.drawn.life), references)

    def through_one(self, window: Reference | None) -> Tree:
        """With one window for all streams, said at the end, or with none."""
        kind, size = ("range", None) if window is None else (window.kind, window.size)
        return self.with_windows([Bare(one.stream, one.alias, kind, size) for one in self.references])

    def kept(self, condition: str) -> Tree:
        """Those of its rows that satisfy a condition."""
        text = f"SELECT k, v FROM ({{}}) AS kept WHERE {condition}"
        drawn = self.drawn
        life = None if drawn.life is None else f"SELECT * FROM ({drawn.life}) AS kept WHERE {condition}"
        return Tree(Drawn(text.format(drawn.penstock), text.format(drawn.duck), life), self.references)

    def above(self, text: str) -> Tree:
        """Another query that has this one as a part."""
        life = self.drawn.life
        if life is not None:
            life = {1: life, 2: joined("x.k AS k, y.v AS v", [("x", life), ("y", life)], "x.k = y.k")}.get(
                list(NAMED).index(text) + 1 if text in NAMED else 0
            )
        duck = NAMED.get(text, text)
        return Tree(
            Drawn(text.format(self.drawn.penstock), duck.format(self.drawn.duck), life), self.references
        )


@dataclass
class Trees:
    """Draws trees; `references` collects how they read the streams."""

    dice: random.Random
    streams: Sequence[str]
    windows: Sequence[str]
    tables: bool = True
    references: list[Reference] = field(default_factory=list)
    aliases: int = 0

    def tree(self, operators: int) -> Drawn:
        """A query of so many operators above its scans."""
        dice = self.dice
        if operators == 0:
            return self.scan()
        if operators >= 2 and dice.random() < 0.15:
            return self.many(operators)
        one = ["filter", "project", "distinct", "group", "total"]
        two = ["join", "join", "left", "right", "full", "semi", "anti", "set", "set"]
        kind = dice.choice(one + two)
        if kind in one:
            return self.single(kind, self.tree(operators - 1))
        left = dice.randint(0, operators - 1)
        return self.double(kind, self.tree(left), self.tree(operators - 1 - left))

    def name(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    def scan(self) -> Drawn:
        dice = self.dice
        if self.tables and dice.random() < 0.12:
            text = "SELECT k, v FROM t"
            return Drawn(text, text, f"SELECT k, v, {TABLE_TIME} AS ts, {FOREVER} AS ets FROM t")
        alias, stream, kind = self.name(), dice.choice(self.streams), dice.choice(self.windows)
        one = drawn_window(dice, kind, stream, alias)
        self.references.append(one)
        life = f"SELECT k, v, ts, ets FROM life_{alias} WHERE ts < ets"
        return Drawn(f"SELECT k, v FROM {one.penstock}", f"SELECT k, v FROM {alias}", life, one)

    def source(self, below: Drawn, alias: str) -> tuple[str, str, str]:
        """What stands in FROM for Penstock and DuckDB, and its name: a stream as it is, or a sub-query."""
        if below.scan is not None and self.dice.random() < 0.6:
            return below.scan.penstock, below.scan.alias, below.scan.alias
        return f"({below.penstock}) AS {alias}", f"({below.duck}) AS {alias}", alias

    def single(self, kind: str, below: Drawn) -> Drawn:
        dice, life = self.dice, None
        condition, selected = dice.choice(FILTERS), dice.choice(SELECTED)
        call, having = dice.choice(CALLS), dice.choice(HAVINGS)
        text = {
            "filter": f"SELECT k, v FROM {{}} WHERE {condition}",
            "project": f"SELECT {selected} FROM {{}}",
            "distinct": "SELECT DISTINCT k, v FROM {}",
            "group": dice.choice(GROUPS).format(call, having),
            "total": f"SELECT COUNT(*) AS k, {call} AS v FROM {{}}{having}",
        }[kind]
        if below.life is not None and kind == "filter":
            life = f"SELECT * FROM ({below.life}) AS {self.name()} WHERE {condition}"
        elif below.life is not None and kind == "project":
            life = f"SELECT {selected}, ts, ets FROM ({below.life}) AS {self.name()}"
        penstock, duck, _ = self.source(below, self.name())
        return Drawn(text.format(penstock), text.format(duck), life)

    def double(self, kind: str, left: Drawn, right: Drawn) -> Drawn:
        dice = self.dice
        if kind == "set":
            word = dice.choice(SET_OPERATIONS)
            text = f"SELECT * FROM ({{}}) AS p {word} SELECT * FROM ({{}}) AS q"
            life = None
            if word == "UNION ALL" and left.life is not None and right.life is not None:
                life = text.format(left.life, right.life)
            return Drawn(text.format(left.penstock, right.penstock), text.format(left.duck, right.duck), life)
        (one, one_duck, p), (two, two_duck, q) = self.source(left, "p"), self.source(right, "q")
        ours = theirs = dice.choice(CONDITIONS)
        if p != "p" and q != "q":  # both are streams as they are
            ours, theirs = dice.choice([*[(ours, theirs)] * 4, *OF_TIMES])
        condition, asked = ours.format(p=p, q=q), theirs.format(p=p, q=q)
        life = None
        if kind == "join" and left.life is not None and right.life is not None:
            both = [("p", left.life), ("q", right.life)]
            life = joined("p.k AS k, q.v AS v", both, theirs.format(p="p", q="q"))
        if kind in ("semi", "anti"):
            word = f"{kind.upper()} JOIN"
            exists = "EXISTS" if kind == "semi" else "NOT EXISTS"
            text = f"SELECT {p}.k, {p}.v FROM " + dice.choice(
                [f"{{}} {word} {{}} ON {{}}", f"{{}} WHERE {exists} (SELECT * FROM {{}} WHERE {{}})"]
            )
        elif kind == "join":
            text = f"SELECT {p}.k AS k, {q}.v AS v FROM " + dice.choice(
                ["{} JOIN {} ON {}", "{} INNER JOIN {} ON {}", "{}, {} WHERE {}", "{} CROSS JOIN {} WHERE {}"]
            )
        elif dice.random() < 0.2:
            text = f"SELECT k, {q}.v AS v FROM {{}} {kind.upper()} JOIN {{}} USING (k)"
        else:
            text = f"SELECT {p}.k AS k, {q}.v AS v FROM {{}} {kind.upper()} JOIN {{}} ON {{}}"
        return Drawn(text.format(one, two, condition), text.format(one_duck, two_duck, asked), life)

    def many(self, operators: int) -> Drawn:
        """Three or four inputs joined: with commas, as one if they are streams, or one after the other."""
        count, deep = self.dice.choice([3, 3, 3, 4]), self.dice.randrange(3) if operators > 2 else -1
        inputs = [self.tree(operators - 2) if place == deep else self.scan() for place in range(count)]
        if count == 3 and self.dice.random() < 0.3:
            text = f"SELECT p.k AS k, r.v AS v FROM {self.dice.choice(OUTER_OF_THREE)}"
            ours, theirs = [f"({one.penstock})" for one in inputs], [f"({one.duck})" for one in inputs]
            return Drawn(text.format(*ours), text.format(*theirs))
        condition = self.dice.choice(MANY) + (" AND s.k = q.k" if count == 4 else "")
        names = "pqrs"[:count]
        sources = ", ".join(f"({{}}) AS {name}" for name in names)
        text = f"SELECT p.k AS k, r.v AS v FROM {sources} WHERE {condition}"
        lives = [(name, one.life) for name, one in zip(names, inputs, strict=True) if one.life is not None]
        life = joined("p.k AS k, r.v AS v", lives, condition) if len(lives) == count else None
        return Drawn(
            text.format(*(one.penstock for one in inputs)), text.format(*(one.duck for one in inputs)), life
        )


def drawn_window(dice: random.Random, kind: str, stream: str, alias: str) -> Reference:
    if kind == "unbounded":
        return Reference(stream, alias)
    if kind == "range":
        size = dice.randint(1, 12)
        return (Now if size == 1 and dice.random() < 0.5 else Reference)(stream, alias, "range", size)
    return Reference(stream, alias, "rows", dice.randint(1, 4), "k" if kind == "partition" else "")


def joined(columns: str, inputs: list[tuple[str, str]], condition: str) -> str:
    """Rows that live at one time: from the last that enters until the first that leaves."""
    names = [name for name, _ in inputs]
    ts = f"greatest({', '.join(f'{name}.ts' for name in names)})"
    ets = f"least({', '.join(f'{name}.ets' for name in names)})"
    sources = ", ".join(f"({life}) AS {name}" for name, life in inputs)
    return f"SELECT {columns}, {ts} AS ts, {ets} AS ets FROM {sources} WHERE ({condition}) AND {ts} < {ets}"

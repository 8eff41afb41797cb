"""Queries: a tree in Penstock's SQL and DuckDB's, and where rows only enter and leave, when each does.

Without operators that take rows back, a row's life can be told: that of a pair is what the lives of its rows
have in common. That gives what EMIT INSERTS has to give, row by row.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from oracle import FOREVER, Reference
from query_trees import CONDITIONS, FILTERS, Drawn, Trees

ABOVE = [
    "SELECT DISTINCT k, v FROM ({}) AS late",
    "SELECT k, SUM(v) AS v FROM ({}) AS late GROUP BY k",
    "SELECT k, MAX(v) AS v FROM ({}) AS late GROUP BY k HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS k, MIN(v) AS v FROM ({}) AS late",
    "SELECT * FROM ({}) AS x EXCEPT ALL SELECT k, v FROM t",
    "WITH w AS ({}) SELECT k, v FROM w",
]
ON = {"join", "left", "right", "full", "semi", "anti"}
TABLE_TIME = -FOREVER
Life = str | None
"""SQL that gives k, v, ts, ets of every row there ever is; None: rows are taken back."""


class Now(Reference):
    """The rows of this very instant."""

    @property
    def penstock(self) -> str:
        return f"{self.stream} [NOW] AS {self.alias}"


@dataclass
class Lived(Drawn):
    """A query with the lives of its rows."""

    life: Life = None


@dataclass
class Tree:
    """A query over streams, and how it reads them."""

    drawn: Lived
    references: list[Reference]

    @property
    def streams(self) -> set[str]:
        return {one.stream for one in self.references}

    def with_windows(self, references: list[Reference]) -> Tree:
        """The same through other windows: aliases say which is which."""
        text = self.drawn.penstock
        for old, new in zip(self.references, references, strict=True):
            text = text.replace(old.penstock, new.penstock)
        return Tree(replace(self.drawn, penstock=text), references)

    def above(self, text: str) -> Tree:
        """Another query that has this one as a part."""
        is_same = text.startswith("WITH")
        duck = "SELECT k, v FROM ({}) AS w" if is_same else text  # what asks DuckDB begins with WITH itself
        life = self.drawn.life if is_same else None
        return Tree(
            Lived(text.format(self.drawn.penstock), duck.format(self.drawn.duck), life), self.references
        )


@dataclass
class RandomTrees(Trees):
    """Trees by plain dice, which are cheap, with joins of three and the window of one instant."""

    dice: random.Random = field(default_factory=random.Random)

    @classmethod
    def by(cls, dice: random.Random, streams: list[str], windows: tuple[str, ...]) -> RandomTrees:
        return cls(by_dice(dice), streams, windows, dice=dice)

    def tree(self, operators: int) -> Drawn:
        if operators >= 2 and self.dice.random() < 0.15:
            return self.many(operators)
        return super().tree(operators)

    def scan(self) -> Drawn:
        before = len(self.references)
        drawn = super().scan()
        if len(self.references) == before:
            return Lived(
                drawn.penstock, drawn.duck, f"SELECT k, v, {TABLE_TIME} AS ts, {FOREVER} AS ets FROM t"
            )
        one = self.references[-1]
        if one.kind == "range" and one.size == 1:
            one = self.references[-1] = Now(one.stream, one.alias, "range", 1)
            drawn.penstock = f"SELECT k, v FROM {one.penstock}"
        return Lived(drawn.penstock, drawn.duck, f"SELECT k, v, ts, ets FROM life_{one.alias} WHERE ts < ets")

    def single(self, kind: str, below: Drawn) -> Drawn:
        drawn = super().single(kind, below)
        assert isinstance(below, Lived)
        life = None
        if below.life is not None and kind == "filter":
            condition = next(one for one in FILTERS if drawn.duck.endswith(f"WHERE {one}"))
            life = f"SELECT * FROM ({below.life}) AS {self.name()} WHERE {condition}"
        elif below.life is not None and kind == "project":
            life = f"SELECT k + 1 AS k, v * 2 AS v, ts, ets FROM ({below.life}) AS {self.name()}"
        return Lived(drawn.penstock, drawn.duck, life)

    def double(self, kind: str, left: Drawn, right: Drawn) -> Drawn:
        drawn = super().double(kind, left, right)
        assert isinstance(left, Lived) and isinstance(right, Lived)
        life = None
        if left.life is not None and right.life is not None:
            if kind == "join":
                condition = max((one for one in CONDITIONS if drawn.duck.endswith(one)), key=len)
                life = joined("p.k AS k, q.v AS v", [("p", left.life), ("q", right.life)], condition)
            elif (
                kind == "set"
                and " UNION ALL SELECT * FROM (" in drawn.duck
                and drawn.duck
                == (f"SELECT * FROM ({left.duck}) AS p UNION ALL SELECT * FROM ({right.duck}) AS q")
            ):
                life = f"SELECT * FROM ({left.life}) AS p UNION ALL SELECT * FROM ({right.life}) AS q"
        return Lived(drawn.penstock, drawn.duck, life)

    def many(self, operators: int) -> Drawn:
        """Three inputs joined, in FROM with commas: as one if they are streams."""
        inputs = [self.scan() for _ in range(3)]
        if operators > 2:
            inputs[self.dice.randrange(3)] = super().tree(operators - 2)
        condition = self.dice.choice(
            ["p.k = q.k AND q.k = r.k", "p.k = q.k AND p.k = r.k AND p.v < r.v", "p.k = q.k AND q.v <= r.v"]
        )
        text = f"SELECT p.k AS k, r.v AS v FROM ({{}}) AS p, ({{}}) AS q, ({{}}) AS r WHERE {condition}"
        lives = [one.life if isinstance(one, Lived) else None for one in inputs]
        life = None
        if None not in lives:
            named = [(name, one) for name, one in zip("pqr", lives, strict=True) if one is not None]
            life = joined("p.k AS k, r.v AS v", named, condition)
        return Lived(
            text.format(*(one.penstock for one in inputs)), text.format(*(one.duck for one in inputs)), life
        )


def joined(columns: str, inputs: list[tuple[str, str]], condition: str) -> str:
    """Rows that live at one time: from the last that enters until the first that leaves."""
    names = [name for name, _ in inputs]
    ts = f"greatest({', '.join(f'{name}.ts' for name in names)})"
    ets = f"least({', '.join(f'{name}.ets' for name in names)})"
    sources = ", ".join(f"({life}) AS {name}" for name, life in inputs)
    return f"SELECT {columns}, {ts} AS ts, {ets} AS ets FROM {sources} WHERE ({condition}) AND {ts} < {ets}"


def by_dice(dice: random.Random) -> Any:
    """Draws from the two strategies that trees use, without what makes Hypothesis slow."""

    def draw(strategy: Any) -> Any:
        strategy = getattr(strategy, "wrapped_strategy", strategy)
        if hasattr(strategy, "elements"):
            return dice.choice(strategy.elements)
        return dice.randint(strategy.start, strategy.end)

    return draw

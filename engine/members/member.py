"""One query's share in a join that several queries have in common.

Sides 0 and 1 are the left and the right of the common join, which may be the other way round in the query; a
join of many streams has more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from penstock.engine.expressions.expression import Expression
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.plan.plan import MemberNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.window import FOREVER, MAX_TS, Window

from .reader import Reader


@dataclass(eq=False)
class Member(Reader):
    """What a query takes: pairs within its windows whose rows satisfy its predicates, some columns."""

    node: MemberNode
    started: list[int] = field(default_factory=list)
    """How far each side's stream had come when the member joined; BEGINNING: no row had come."""
    missing: list[int] = field(default_factory=list)
    """Rows it needs may be missing on a side up to this ts (RANGE) or place (ROWS)."""
    filled: list[int | None] = field(default_factory=list)
    """When a ROWS window held nothing but rows that are there, if that has come."""
    born: list[int] = field(default_factory=list)
    """Rows of a side stored before this change of its columns lack some that it reads."""
    former: MemberNode | None = None
    """What it was before a change that the join has not yet taken in."""
    is_gone: bool = False
    """Whether it is to be left out at the next change, and nobody waits for what it is given."""
    is_new: bool = True
    """Whether the join has not yet taken it in."""

    sizes: tuple[int, ...] = ()
    """Lengths of its windows in microseconds or rows, by side; FOREVER if unbounded."""
    by_rows: tuple[bool, ...] = ()
    """Which of its windows are ROWS windows."""
    predicates: tuple[Expression | None, ...] = ()

    def __post_init__(self) -> None:
        self.become(self.node)
        sides = len(self.sizes)
        self.started, self.missing = [BEGINNING] * sides, [BEGINNING] * sides
        self.filled, self.born = [None] * sides, [0] * sides

    def come_at(self, started: list[int]) -> None:
        """So far the sides' streams have come when it joins."""
        self.started = started

    def become(self, node: MemberNode) -> None:
        """Take what `node` says from now on."""
        self.node = node
        self.sizes = tuple(size_of(side.window) for side in node.sides)
        self.by_rows = tuple(side.window.kind == "rows" for side in node.sides)
        self.predicates = tuple(
            None if side.predicate is None else same(side.predicate, str(side.predicate))
            for side in node.sides
        )

    def window(self, side: int) -> Window:
        return self.node.sides[side].window

    def size(self, side: int) -> int:
        """Length of a window in microseconds or rows; FOREVER if unbounded."""
        return self.sizes[side]

    @property
    def complete_from(self) -> int | None:
        """From when on the answers are exact; None: from the start, MAX_TS: not yet, or never."""
        start = max(self.started)
        if start == BEGINNING:
            return None
        known = [start + 1]
        for side in range(len(self.sizes)):
            if self.missing[side] == BEGINNING:
                continue
            if self.by_rows[side]:
                filled = self.filled[side]
                known.append(MAX_TS if filled is None else filled)
            else:
                known.append(self.missing[side] + self.size(side))
        return min(max(known), MAX_TS)

    def _check_restored(self) -> None:
        sides = len(self.sizes)
        expect(min(self.sizes, default=1) > 0, "windows of some size")
        for one in (self.by_rows, self.predicates, self.started, self.missing, self.filled, self.born):
            expect(len(one) == sides, "something of each side")
        expect(self.found >= 0, "pairs")


def size_of(window: Window) -> int:
    """The length of a window; FOREVER if unbounded."""
    return FOREVER if window.size is None else window.size


@lru_cache(maxsize=65_536)
def same(predicate: Expression, text: str) -> Expression:
    """Of those that are equal and read alike always one: what is known of a predicate, in this engine or in
    one before it, is then found without comparing all of its parts."""
    return predicate

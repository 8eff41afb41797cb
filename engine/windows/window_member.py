"""What one part of a query takes of a stream's window, of which the rows are kept for many."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import StoredWindowNode
from penstock.engine.rows.window import FOREVER, MAX_TS


@dataclass(eq=False, kw_only=True)
class WindowMember(Member):
    """As a member of a join of which only side 0 is there: what is kept for it, and what it misses, are the
    same questions."""

    node: StoredWindowNode  # type: ignore[assignment]
    counting: bool = False
    first: int = 0
    """Of a ROWS window: it has no rows before this one."""
    since: int = BEGINNING
    """Of a hopping query: the first boundary it is told of."""
    begun: bool = False
    """Whether it has been told of that."""
    last_hop: int = FOREVER
    """Of a hopping query: the last boundary it is told of."""
    number: int = 0
    """Of rows that are given whole at each boundary: that of the first which the next one may see."""

    def full_from(self, start: int) -> int:
        """When the window holds all it would hold had it always been there; it began at `start`."""
        if self.missing[0] == BEGINNING:
            return start
        if self.node.window.kind == "rows":
            return MAX_TS if self.filled[0] is None else self.filled[0]
        return max(start, self.missing[0] + self.node.size)

    def begin(self, now: int, closed: bool) -> None:
        """Let it be told of what comes from now on."""
        hops = self.node.hops
        if hops is not None and now > BEGINNING:
            self.since = hops.first(now)
        self.output.begin(self._promised(now), closed)

    def told(self) -> None:
        """It knows of the boundaries that are over."""
        self.begun = True

    def pass_rows(self, rows: int) -> None:
        """Its next rows have numbers greater by so many, as no boundary sees those that had them."""
        self.number += rows

    def forget_before(self, place: int) -> None:
        """Of a ROWS window: rows before this have left it."""
        self.first = max(self.first, place)

    def promise(self, now: int) -> None:
        """Nothing before `now` follows; a boundary is over when time has passed it."""
        self.output.promise(self._promised(now))

    def _promised(self, now: int) -> int:
        hops = self.node.hops
        return now if hops is None or now <= BEGINNING else hops.last(now - 1) + 1

    def last_boundary(self, now: int) -> int:
        """The last boundary of a hopping query that it is told of if time ends with `now`."""
        return now if self.node.hops is None else min(self.node.hops.first(now), self.last_hop)

    def close(self, now: int) -> None:
        """Nothing follows, and time ends with `now`."""
        if self.node.hops is not None and now > BEGINNING:
            self.output.promise(self.node.hops.first(now) + 1)
        self.output.close()

"""What one part of a query takes of a stream's window, of which the rows are kept for many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .member import Member
from .plan import StoredWindowNode
from .queue import BEGINNING
from .window import MAX_TS

if TYPE_CHECKING:
    from .pipeline import Part


@dataclass(eq=False, kw_only=True)
class WindowMember(Member):
    """As a member of a join of which only side 0 is there: what is kept for it, and what it misses, are the
    same questions."""

    node: StoredWindowNode  # type: ignore[assignment]
    counting: bool = False
    part: Part
    first: int = 0
    """Of a ROWS window: it has no rows before this one."""

    def full_from(self, start: int) -> int:
        """When the window holds all it would hold had it always been there; it began at `start`."""
        if self.missing[0] == BEGINNING:
            return start
        if self.node.window.kind == "rows":
            return MAX_TS if self.filled[0] is None else self.filled[0]
        return max(start, self.missing[0] + self.node.size)

    @property
    def readers(self) -> list[str]:
        """The queries that read it."""
        return [query.name for query in self.part.queries]

"""A common join that runs as one for all members or, while that costs less, as one for each.

together  one WindowJoin, whose inputs are the group's queues
apart     a splitter that gives what comes to a WindowJoin for each member, with rows of its own; only where
          windows are RANGE windows, so that none waits for an instant to be over

What a new member finds is what the others have kept, and nobody notices the difference: when somebody comes
or changes, the joins that are apart finish what they have begun, the rows that any of them holds become those
of one join, each once, and it takes the new member in; then they may part again. The last one that is left
becomes the join of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Queue
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import MemberNode
from penstock.engine.shelves.stored_rows import StoredRows, once
from penstock.engine.shelves.stored_side import export_numbered, export_rows, remember

from .join_maker import JoinMaker
from .push_down import Splitter

RETHINK = 8  # times as many rows before members that have parted think it over


@dataclass(frozen=True, slots=True, eq=False)
class JoinApart:
    """The join of a member, and the queues it is given rows by."""

    join: WindowJoin
    queues: tuple[Queue, Queue]
    member: Member


class TogetherOrApart:
    """Together at first."""

    def __init__(self, make: JoinMaker, changed: Callable[[], None]) -> None:
        """`changed` is called between batches when it is time to refresh."""
        self.members: list[Member] = []
        self._make = make
        self._changed = changed
        self._rethought_at = 0
        """Rows after which members that are apart come together to think it over; 0: they never were."""
        self._join = self._together()
        self._split: Splitter | None = None
        """At work while members are apart."""
        self._parts: list[JoinApart] = []
        self._last: JoinApart | None = None
        """Where the streams have come to, if nobody is left who was apart."""
        self._coming: list[Member] = []
        self._altered: list[tuple[Member, MemberNode]] = []

    @property
    def operators(self) -> list[Operator]:
        if self._split is None:
            return [self._join]
        return [self._split, *(part.join for part in self._parts)]

    @property
    def is_apart(self) -> bool:
        """Whether each member has a join of its own."""
        return self._split is not None

    def add(self, member: Member) -> None:
        self.members.append(member)
        if self._split is None:
            self._join.add(member)
        else:
            self._coming.append(member)
            self._split.is_stale = True

    def drop(self, member: Member) -> None:
        self.members.remove(member)
        if member in self._coming:
            self._coming.remove(member)
        elif self._split is None:
            self._join.drop(member)
        else:
            self._leave(member, self._split)

    def alter(self, member: Member, node: MemberNode) -> None:
        if member in self._coming:
            member.become(node)
        elif self._split is None:
            self._join.alter(member, node)
        else:
            self._altered.append((member, node))
            self._split.is_stale = True

    def refresh(self) -> bool:
        """Take changes of the members into account; True if there are other operators now."""
        if self._split is None:
            return self._may_part()
        if not self._split.is_stale or not self.members:
            return False
        self._unite(self._split)
        self._may_part()
        return True

    def settle(self) -> None:
        if self._split is None:
            self._join.settle()
        for part in self._parts:
            part.join.settle()

    # -- apart --------------------------------------------------------------------------------------

    def _together(self) -> WindowJoin:
        """A join for all, without members."""
        join = self._make.whole(self._lay_out_whole)
        join.part_ways = self._changed
        return join

    def _lay_out_whole(self, join: WindowJoin) -> JoinLayout:
        """Rows that were apart keep their places."""
        return replace(self._make.choose_layout(join), is_numbered=self._rethought_at > 0)

    def _may_part(self) -> bool:
        """Part if that is what the join of all members says; True if so."""
        self._join.refresh()
        if self._join.is_working or not self._join.layout.apart:
            return False
        self._part()
        return True

    def _part(self) -> None:
        """Give members joins of their own, each with all rows that it may need."""
        former = self._join
        former.settle()
        self._rethought_at = max(1, RETHINK * sum(side.seen.rows_in for side in former.sides))
        self._split = split = Splitter(self._make.queues, f"{self._make.name}.split", self._changed)
        split.lineages = [side.terms.lineage for side in former.sides]
        rows = [export_numbered(side) for side in former.sides]
        self._parts = [self._open(member, former, rows) for member in self.members]
        self._remember(split)
        for part in self._parts:
            part.join.refresh()
        split.targets = [part.queues for part in self._parts]

    def _open(self, member: Member, former: WindowJoin, rows: Sequence[StoredRows | None]) -> JoinApart:
        """The join of a member, which goes on where that of all was, with these rows."""
        left, right = (Queue(min(queue.frontier, queue.punctuation)) for queue in self._make.queues)
        join = self._make.part(member.name, (left, right), self._lay_out_part)
        move(member, join)
        join.take_over(former, rows)
        join.layout = replace(former.layout, apart=False)
        return JoinApart(join, (left, right), member)

    def _leave(self, member: Member, split: Splitter) -> None:
        """Let a member go, and its join."""
        part = next(one for one in self._parts if one.member is member)
        part.join.settle()
        self._last = part
        self._parts.remove(part)
        split.targets = [one.queues for one in self._parts]
        split.is_stale |= len(self._parts) == 1
        if self._parts:
            self._remember(split)

    def _remember(self, split: Splitter) -> None:
        """Let rows be known by what all members ask, so that all can be together again with what is known."""
        split.ask_for([part.member for part in self._parts])
        for part in self._parts:
            for side, lineage in zip(part.join.sides, split.lineages, strict=True):
                remember(side, lineage)

    def _lay_out_part(self, join: WindowJoin) -> JoinLayout:
        """How the join of one keeps its rows; and, less often, whether to stay apart."""
        layout = self._make.choose_layout(join)
        is_time = join.again.is_due and sum(side.seen.rows_in for side in join.sides) >= self._rethought_at
        if self._split is not None and is_time:
            self._split.is_stale = True
        return replace(layout, is_numbered=True)

    # -- together again -----------------------------------------------------------------------------

    def _unite(self, split: Splitter) -> None:
        """Let all have one join again, with the rows that any of theirs hold; then let others in."""
        self._drain()
        if len(self._parts) == 1:
            self._go_on_as_one(self._parts[0])
        else:
            self._merge()
        for member in self._coming:
            self._join.add(member)
        for member, node in self._altered:
            if member in self.members:
                self._join.alter(member, node)
        self._join.reconsider()
        split.retire()
        self._split, self._parts, self._last = None, [], None
        self._coming, self._altered = [], []

    def _go_on_as_one(self, part: JoinApart) -> None:
        """Let the one join that is left be that of all."""
        self._take_back(part)
        self._join = part.join
        self._join.move_to(self._make.queues, self._make.name, self._lay_out_whole)
        self._join.part_ways = self._changed

    def _merge(self) -> None:
        """Let one join have the members and the rows of all, or of the last that was there."""
        self.settle()
        parts = self._parts or [one for one in (self._last,) if one is not None]
        former = parts[0]
        self._take_back(former)
        held = [[export_rows(one.join.sides[n]) for one in parts] for n in (0, 1)]
        rows = [once([some for some in kept if some is not None]) for kept in held]
        self._join = self._together()
        for part in self._parts:
            move(part.member, self._join)
        self._join.take_over(former.join, rows)
        for part in self._parts[1:]:
            self._join.go_on_for(part.join)

    def _take_back(self, part: JoinApart) -> None:
        """Let what waits for a join wait for the join of all."""
        for queue, waiting in zip(self._make.queues, part.queues, strict=True):
            for batch in reversed(waiting.batches):
                queue.put_back(batch)

    def _drain(self) -> None:
        """Let the joins finish what they have begun."""
        worked = True
        while worked:
            worked = False
            for part in list(self._parts):
                worked |= part.join.step(QUANTUM_ROWS)


def move(member: Member, join: WindowJoin) -> None:
    """Let a member go on in another join: what it was promised holds."""
    punctuation, closed = member.output.punctuation, member.output.closed
    join.add(member)
    member.output.punctuation, member.output.closed = punctuation, closed

"""A common join that runs as one for all members or, while that costs less, as one for each.

together  one WindowJoin, whose inputs are the group's queues
apart     a splitter that gives what comes to a WindowJoin per member, each with rows of its own

How it runs is the arrangement's to say, when members have settled. Members come and change when all are
together: where they are apart, the joins finish what they have begun, the rows that any of them holds become
those of one join, each once, and it takes the new member in. So what a new member finds is what the others
have kept, and nobody notices the difference. One that goes takes its join with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .arrangement import Arrangement
from .join_maker import JoinMaker
from .member import Member
from .operator import Operator
from .operators.join import WindowJoin
from .operators.side import Side
from .operators.stored_side import export_rows, remember
from .plan import MemberNode
from .push_down import Splitter, once
from .queue import Queue
from .rows_beside import number_rows
from .scheduler import QUANTUM_ROWS
from .stored_rows import StoredRows

RETHINK = 8  # times as many rows before members that have parted think it over


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """The join of one member, and the queues it is given rows by."""

    join: WindowJoin
    queues: tuple[Queue, Queue]


class LooseForm:
    """Together at first."""

    def __init__(self, make: JoinMaker, changed: Callable[[], None]) -> None:
        """`changed` is called between batches when it is time to refresh."""
        self.members: list[Member] = []
        self._make = make
        self._changed = changed
        self._join = self._together()
        self._split: Splitter | None = None
        """At work while members are apart."""
        self._alone: dict[Member, Alone] = {}
        self._rethought_at = 0
        """Rows after which members that are apart come together to think it over."""
        self._last: Alone | None = None
        """Where the streams have come to, if nobody is left who was apart."""
        self._coming: list[Member] = []
        self._altered: list[tuple[Member, MemberNode]] = []

    @property
    def operators(self) -> list[Operator]:
        if self._split is None:
            return [self._join]
        return [self._split, *(alone.join for alone in self._alone.values())]

    def add(self, member: Member) -> None:
        self.members.append(member)
        if self._split is None:
            self._join.add(member)
        else:
            self._coming.append(member)
            self._split.is_stale = True

    def drop(self, member: Member) -> None:
        self.members.remove(member)
        if self._split is None:
            self._join.drop(member)
        elif member in self._coming:
            self._coming.remove(member)
        else:
            alone = self._last = self._alone.pop(member)
            alone.join.settle()
            self._split.targets = [one.queues for one in self._alone.values()]
            if self._alone:
                self._remember(self._split, [*self._alone.values(), alone])

    def alter(self, member: Member, node: MemberNode) -> None:
        if self._split is None:
            self._join.alter(member, node)
        elif member in self._coming:
            member.become(node)
        else:
            self._altered.append((member, node))
            self._split.is_stale = True

    def refresh(self) -> bool:
        """Take changes of the members into account, and come together or part; True if that was done."""
        if self._split is not None:
            if not self._split.is_stale or not self.members:
                return False
            self._unite(self._split)
            self._join.refresh()
            return True
        self._join.refresh()
        if self._join.is_working or not self._join.arrangement.is_apart:
            return False
        self._part()
        return True

    def settle(self) -> None:
        if self._split is None:
            self._join.settle()
        for alone in self._alone.values():
            alone.join.settle()

    # -- together and apart -------------------------------------------------------------------------

    def _together(self) -> WindowJoin:
        """A join for all, without members."""
        join = self._make.whole()
        join.part_ways = self._changed
        return join

    def _part(self) -> None:
        """Give each member a join of its own, with all rows that it may need."""
        former = self._join
        former.settle()
        self._rethought_at = RETHINK * sum(side.rows_in for side in former.sides)
        rows = [numbered(side) for side in former.sides]
        self._split = split = Splitter(self._make.queues, f"{self._make.name}.split", self._changed)
        split.lineages = [side.lineage for side in former.sides]
        for member in self.members:
            began = [min(queue.frontier, queue.punctuation) for queue in self._make.queues]
            queues = Queue(began[0]), Queue(began[1])
            join = self._make.part(member.name, queues, self._arrange_alone)
            move(member, join)
            join.take_over(former, rows)
            self._alone[member] = Alone(join, queues)
        self._remember(split, self._alone.values())
        for alone in self._alone.values():
            alone.join.refresh()
        split.targets = [alone.queues for alone in self._alone.values()]

    def _remember(self, split: Splitter, joins: Iterable[Alone]) -> None:
        """Let rows be known by what all members ask, so that all can be together again with what is known."""
        split.ask_for(list(self._alone))
        for alone in joins:
            for side, lineage in zip(alone.join.sides, split.lineages, strict=True):
                remember(side, lineage)

    def _unite(self, split: Splitter) -> None:
        """Let all have one join again, with the rows that any of theirs hold; then let others in."""
        self._drain()
        self.settle()
        joins = [*self._alone.values(), *([] if self._last is None else [self._last])]
        former = joins[0]
        for queue, waiting in zip(self._make.queues, former.queues, strict=True):
            for batch in reversed(waiting.batches):
                queue.put_back(batch)
        held = [[export_rows(one.join.sides[n]) for one in joins] for n in (0, 1)]
        rows = [once([part for part in parts if part is not None]) for parts in held]
        self._join = self._together()
        for member in self._alone:
            move(member, self._join)
        self._join.take_over(former.join, rows)
        for member in self._coming:
            self._join.add(member)
        for member, node in self._altered:
            if member in self.members:
                self._join.alter(member, node)
        self._join.reconsider()
        split.retire()
        self._split, self._alone, self._last = None, {}, None
        self._coming, self._altered = [], []

    def _arrange_alone(self, join: WindowJoin) -> Arrangement:
        """Whether to stay apart is thought over together, as only there all that comes is seen.

        That moves all rows to and fro, and so it is done less often than other things are thought over.
        """
        is_time = sum(side.rows_in for side in join.sides) >= self._rethought_at
        if join.is_due and is_time and self._split is not None:
            self._split.is_stale = True
        return replace(self._make.arrange(join), is_numbered=True)

    def _drain(self) -> None:
        """Let the joins finish what they have begun."""
        worked = True
        while worked:
            worked = False
            for alone in list(self._alone.values()):
                worked |= alone.join.step(QUANTUM_ROWS)


def move(member: Member, join: WindowJoin) -> None:
    """Let a member go on in another join: what it was promised holds."""
    punctuation, closed = member.output.punctuation, member.output.closed
    join.add(member)
    member.output.punctuation, member.output.closed = punctuation, closed


def numbered(side: Side) -> StoredRows | None:
    """All rows of a side with places in the stream, or numbers by which they are told apart."""
    number_rows(side.shelves, side.come + len(side.come_ts), side.last_gap)
    return export_rows(side)

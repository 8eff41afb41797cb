"""What joins of two streams and joins of many have alike: members that come and go, what fails, and time.

Out:     promises of time to all that are given rows.
Dropped: rows that no row still to come can meet, known from the punctuations of all inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.members.member import Member
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import MemberNode
from penstock.engine.rows.window import MAX_TS
from penstock.engine.shelves.next_rows import Fault
from penstock.engine.shelves.side import Side


class Giver(Protocol):
    """Passes on what is found."""

    members: list[Member]
    """Those that are given rows."""


class MembersJoin(ABC):
    """A join that serves members; what it finds, and how, is its own."""

    sides: Sequence[Side]
    _giver: Giver

    def __init__(
        self, name: str, queues: Sequence[Queue], on_failure: Callable[[Member, Exception], None]
    ) -> None:
        """`on_failure` is told of a member whose predicate failed on the data."""
        self.name = name
        self.inputs = tuple(queues)
        self.output = Outlet(min(min(queue.frontier, queue.punctuation) for queue in queues))
        self.counters = Counters()
        self.members: list[Member] = []
        self.roster = Roster.of(())
        """The members that have been taken in."""
        self._on_failure = on_failure
        self._is_stale = False
        """Whether members have come or gone."""
        self._faults: list[Fault] = []
        """What fails on the rows after those being worked."""
        self._now = self.output.punctuation

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Let a query in: it takes part from the next row on."""
        self.members.append(member)
        member.output.punctuation = self.output.punctuation
        member.output.closed = self.output.closed
        self._is_stale = True

    def drop(self, member: Member) -> None:
        """Let a query go; what it alone needed is forgotten."""
        self.settle()
        self.members.remove(member)
        self._forget(member)
        self._is_stale = True

    def alter(self, member: Member, node: MemberNode) -> None:
        """Let a query go on with other windows."""
        self.settle()
        if not member.is_new:  # of what it has not been taken in with, nothing was kept
            member.former = member.node
        member.become(node)
        member.is_new = True
        member.filled = [None] * len(self.sides)
        self._forget(member)
        self._is_stale = True

    @abstractmethod
    def settle(self) -> None:
        """Bring the counts of the members that only count up to date."""

    @abstractmethod
    def refresh(self) -> None:
        """Take changes of the members into account; between batches only."""

    @property
    @abstractmethod
    def is_working(self) -> bool:
        """Whether a batch is being worked."""

    def _forget(self, member: Member) -> None:
        """What is known of its windows holds no more."""
        for side in self.sides:
            side.wait_no_more(member)

    def _report_faults(self) -> bool:
        """Tell of members that fail on the rows to come; what came before has been passed on."""
        faults, self._faults = self._faults, []
        told = False
        for fault in faults:
            for member in [one for one in self.members if fault.concerns(one) and not one.is_gone]:
                self._on_failure(member, fault.error)
                told = True
        return told

    # -- time ---------------------------------------------------------------------------------------

    @property
    def _frontier(self) -> int:
        """No row that is still to be worked is older than this."""
        return min(queue.frontier for queue in self.inputs)

    def _pass_time(self) -> bool:
        """Expire and promise as far as all inputs have come; False if that is no further than before."""
        now = self._frontier
        moved = self._now < now < MAX_TS
        if moved:
            self._now = now
            for side in self.sides:
                side.expire(now)
                if side.has_filled_up(self.members):
                    self._is_stale = True
            self.output.promise(now)
            for member in self._giver.members:
                member.output.promise(now)
        if now == MAX_TS and not self.output.closed:
            self.output.close()
            for member in self.members:
                member.output.close()
            moved = True
        return moved

    @property
    def state_rows(self) -> int:
        self.refresh()
        return sum(map(len, self.sides))

    @property
    def state_bytes(self) -> int:
        return sum(side.nbytes for side in self.sides)

    def _check(self) -> None:
        if not self.is_working:
            self.refresh()
            for side in self.sides:
                side._check()
                assert set(side.unfilled) <= set(self.members), "a window of somebody who has gone"

"""A common join that runs as one for all members or, while that costs less, as several.

together  one WindowJoin, whose inputs are the group's queues
apart     a splitter that gives what comes to several WindowJoins, each with rows of its own: one for the
          members whose windows are of the same kinds, RANGE or ROWS on either side, or one for each member

How it runs is the arrangement's to say, when members have settled. What a new member finds is what the
others have kept, whatever their windows, and nobody notices the difference:

apart by kinds       it is let into the join of its kinds, which borrows the rows that it needs and only
                     other joins have; a join is opened for it if there is none of its kinds. Among many
                     queries that pauses the flow about as long as where all are together.
together by kinds    where all windows are of the same kinds, and it is known that joins by kind cost less,
                     the join of all becomes that of its kinds, as it stands, when somebody else comes.
apart for each       the joins finish what they have begun, the rows that any of them holds become those of
                     one join, each once, and it takes the new member in; then they may part again. So it is
                     too when a query goes from one kind of windows to another.

A join of ROWS windows alone waits until instants are over, others do not:

    RANGE      ...  7  7 |          the instant 7 is not over: rows at 7 are worked by one join and wait in
    ROWS       ...  . . . 7  7 |    the queue of the other

A join that is ahead borrows rows that wait, too. One that waits borrows none that it is still to be given.
Before all come together, those that wait work the rows that the others have worked, and hold the pairs
(held_pairs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.expressions.functions import may_raise
from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Queue, nobody
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.joins.join import WindowJoin
from penstock.engine.members.arrangement import Arrangement, Parting
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import MemberNode
from penstock.engine.rows.batch import NO_ROWS
from penstock.engine.shelves.coverage import Elsewhere
from penstock.engine.shelves.rows_beside import number_rows
from penstock.engine.shelves.side import Side
from penstock.engine.shelves.stored_rows import StoredRows, once
from penstock.engine.shelves.stored_side import export_rows, remember, waiting_rows

from .join_maker import JoinMaker
from .push_down import Splitter, copy_of

RETHINK = 8  # times as many rows before members that have parted think it over

Kinds = tuple[bool, ...]
"""Of a member's windows: whether that on each side is a ROWS window."""

Waiting = dict[tuple[WindowJoin, int], StoredRows]
"""By join and side, rows that wait in its queue and have been worked by others."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinApart:
    """The join of some members, and the queues it is given rows by."""

    join: WindowJoin
    queues: tuple[Queue, Queue]
    members: list[Member]

    @property
    def kinds(self) -> Kinds:
        """Of the windows of its first member, and of all if members part by kinds."""
        return self.members[0].by_rows


class LooseForm:
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
        self.parting: Parting = "one"
        """How members have parted."""
        self._scattered: set[Kinds] = set()
        """Of the members that part by kinds, those that part further, each with a join."""
        self._arranged: dict[Kinds, Arrangement] = {}
        """How those that part by kinds were arranged when they last were apart."""
        self._must_unite = False
        """Whether they come together although nobody comes or changes."""
        self._is_time = False
        """Whether that is to think it over."""
        self._last: JoinApart | None = None
        """Where the streams have come to, if nobody is left who was apart."""
        self._coming: list[Member] = []
        self._altered: list[tuple[Member, MemberNode]] = []

    @property
    def operators(self) -> list[Operator]:
        if self._split is None:
            return [self._join]
        return [self._split, *(part.join for part in self._parts)]

    def add(self, member: Member) -> None:
        self.members.append(member)
        if self._split is not None:
            self._coming.append(member)
            self._disturb(self._split)
        elif self._comes_beside(member):
            self._coming.append(member)
            self._await_strangers()
        else:
            self._join.add(member)

    def drop(self, member: Member) -> None:
        self.members.remove(member)
        if member in self._coming:
            self._coming.remove(member)
            self._await_strangers()
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
            self._disturb(self._split)

    def refresh(self) -> bool:
        """Take changes of the members into account; True if there are other operators now."""
        joins = [part.join for part in self._parts]
        if self._split is None and not self._stand_aside():
            return self._may_part()
        if self._split is None or not self._split.is_stale or not self.members:
            return False
        if self._let_in(self._split):
            return joins != [part.join for part in self._parts]
        self._unite(self._split)
        self._may_part()
        return True

    def settle(self) -> None:
        if self._split is None:
            self._join.settle()
        for part in self._parts:
            part.join.settle()

    # -- together and apart -------------------------------------------------------------------------

    def _together(self) -> WindowJoin:
        """A join for all, without members."""
        join = self._make.whole(self._arrange_whole)
        join.part_ways = self._changed
        return join

    def _arrange_whole(self, join: WindowJoin) -> Arrangement:
        """Rows that were apart keep their places, so that these are known when ROWS windows come."""
        arrangement = replace(self._make.arrange(join), is_numbered=self._rethought_at > 0)
        return replace(arrangement, parting="kinds") if self._coming else arrangement

    def _may_part(self) -> bool:
        """Part if that is what the join of all members says; True if so."""
        self._join.refresh()
        self.parting = self._join.arrangement.parting
        if self._join.is_working or self.parting == "one":
            return False
        self._part(self.parting)
        return True

    def _comes_beside(self, member: Member) -> bool:
        """Whether a newcomer should have another join than all that are there, which can stay as it is."""
        join = self._join
        if not join.arrangement.is_numbered or not join.members:
            return False
        there = {one.by_rows for one in join.members}
        return len(there) == 1 and member.by_rows not in there and self._make.arrange.prefers_kinds(join)

    def _await_strangers(self) -> None:
        """While all are together: let the join part before the next rows, if somebody comes beside it."""
        if self._split is None:
            parting: Parting = "kinds" if self._coming else "one"
            self._join.arrangement = replace(self._join.arrangement, parting=parting)

    def _stand_aside(self) -> bool:
        """Let the join of all become that of its kinds, if there are only newcomers of others; True if so.

        Else newcomers are taken in by the join of all.
        """
        join = self._join
        if not self._coming or join.is_working:
            return False
        coming, self._coming = self._coming, []
        self._await_strangers()
        join.refresh()  # who is there may have changed too
        if join.arrangement.parting != "one" or not all(map(self._comes_beside, coming)):
            for member in coming:
                join.add(member)
            return False
        self._coming = coming
        self.parting = "kinds"
        split = self._set_out(join)
        queues = self._begun_queues()
        part = JoinApart(join, queues, list(join.members))
        join.move_to(queues, self._make.part_name(write_kinds(part.kinds)), self._arrange_part)
        join.part_ways = nobody
        self._parts.append(part)
        self._remember(split)
        split.targets = [queues]
        split.is_stale = True
        return True

    def _part(self, parting: Parting) -> None:
        """Give members that part joins of their own, each with all rows that it may need."""
        former = self._join
        former.settle()
        split = self._set_out(former)
        rows = [numbered(side) for side in former.sides]
        for name, members in self._lots(parting):
            part = self._open(name, self._begun_queues(), former, rows)
            for member in members:
                part.members.append(member)
                move(member, part.join)
            part.join.go_on_for(former)
            part.join.arrangement = self._arranged.get(part.kinds, replace(former.arrangement, parting="one"))
        self._remember(split)
        for part in self._parts:
            part.join.refresh()
        split.targets = [part.queues for part in self._parts]

    def _set_out(self, former: WindowJoin) -> Splitter:
        """Let what comes from now on go to several joins."""
        self._rethought_at = max(1, RETHINK * sum(side.rows_in for side in former.sides))
        self._split = split = Splitter(self._make.queues, f"{self._make.name}.split", self._changed)
        split.lineages = [side.lineage for side in former.sides]
        return split

    def _begun_queues(self) -> tuple[Queue, Queue]:
        """Queues for a join that goes on where that of all was."""
        left, right = (Queue(min(queue.frontier, queue.punctuation)) for queue in self._make.queues)
        return left, right

    def _open(
        self, name: str, queues: tuple[Queue, Queue], former: WindowJoin, rows: Sequence[StoredRows | None]
    ) -> JoinApart:
        """One more join, without members, that goes on where another was, with these rows."""
        part = JoinApart(self._make.part(name, queues, self._arrange_part), queues, [])
        part.join.take_over(former, rows)
        self._parts.append(part)
        return part

    def _lots(self, parting: Parting) -> list[tuple[str, list[Member]]]:
        """The members that have a join together, and its name."""
        alone, by_kinds = [], dict[Kinds, list[Member]]()
        for member in self.members:
            if parting == "each" or member.by_rows in self._scattered:
                alone.append((member.name, [member]))
            else:
                by_kinds.setdefault(member.by_rows, []).append(member)
        return [*((write_kinds(kinds), members) for kinds, members in by_kinds.items()), *alone]

    def _leave(self, member: Member, split: Splitter) -> None:
        """Let a member go, and with the last of its part the join."""
        part = self._part_of(member)
        part.members.remove(member)
        self._put_off()
        if part.members:
            part.join.drop(member)
        else:
            part.join.settle()
            self._last = part
            self._parts.remove(part)
            split.targets = [one.queues for one in self._parts]
            self._must_unite |= len(self._parts) == 1
            split.is_stale |= self._must_unite
        asked = [one for one in member.predicates if one is not None]
        if self._parts and (self.parting == "each" or any(map(may_raise, asked))):
            self._remember(split)

    def _remember(self, split: Splitter, newcomers: Sequence[Member] = ()) -> None:
        """Let rows be known by what all members ask, so that all can be together again with what is known."""
        split.ask_for([member for part in self._parts for member in part.members])
        for part in self._parts:
            for side, lineage in zip(part.join.sides, split.lineages, strict=True):
                remember(side, lineage, newcomers)

    # -- members come and change while others are apart by kinds -------------------------------------

    def _let_in(self, split: Splitter) -> bool:
        """Let those who come into the joins of their kinds, with all rows that any join has for them.

        False if members must come together, for them or for other reasons.
        """
        if self.parting != "kinds":
            return False
        self._drain()
        altered = [(member, node) for member, node in self._altered if member in self.members]
        if self._must_unite or not self._parts:
            return False
        if any(kinds_of(node) != member.by_rows for member, node in altered):
            return False
        new = self._coming
        if self._waiting(new) is None:
            return False
        # 1. who is where
        self._store_columns(new)
        by_part: dict[JoinApart, None] = {}
        for member, node in altered:
            part = self._part_of(member)
            part.join.alter(member, node)
            by_part[part] = None
        there = set(self._parts)
        for member in new:
            part = self._part_for(member)
            part.members.append(member)
            part.join.add(member)
            by_part[part] = None
        self._coming, self._altered = [], []
        # 2. what is known of rows
        if any(part.join.sides[0].memory is None for part in by_part) or not all(
            lineage.knows(predicate)
            for member in new
            for lineage, predicate in zip(split.lineages, member.predicates, strict=True)
        ):
            self._remember(split, new)
        # 3. what they find
        waiting = self._waiting() or {}
        for part in by_part:
            others = [one for one in self._parts if one is not part]
            part.join.elsewhere = [elsewhere(others, waiting, number) for number in (0, 1) if others]
            part.join.refresh()
            part.join.elsewhere = ()
            if part.join.relies_on_others and part in there:
                part.join.borrow([self._rows_for(part, waiting, number) for number in (0, 1)])
        split.targets = [part.queues for part in self._parts]
        split.is_stale = self._must_unite
        return True

    def _store_columns(self, coming: Sequence[Member]) -> None:
        """Let all joins store what newcomers read: rows go from one to another. A join some of whose members
        do not take older rows is laid out anew: rows to come are of another birth than those it knows."""
        for number in (0, 1):
            sides = [part.join.sides[number] for part in self._parts]
            read = set().union(*(sides[0].read_by(member) for member in coming))
            has_rows = any(map(len, sides))
            for part, side in zip(self._parts, sides, strict=True):
                if side.store_columns(read, has_rows) and side.births_matter:
                    part.join.lay_out_anew()

    def _disturb(self, split: Splitter) -> None:
        """Somebody is to be let in before the next rows; what can wait is thought over later."""
        split.is_stale = True
        self._put_off()

    def _put_off(self) -> None:
        for part in self._parts:
            part.join.put_off()

    def _part_of(self, member: Member) -> JoinApart:
        return next(part for part in self._parts if member in part.members)

    def _part_for(self, member: Member) -> JoinApart:
        """The join of a newcomer's kinds, opened if there is none."""
        kinds = member.by_rows
        if kinds not in self._scattered:
            for part in self._parts:
                if part.members and part.kinds == kinds:
                    return part
        last = min(self._parts, key=lambda part: sum(side.end for side in part.join.sides))
        queues = copy_of(last.queues[0]), copy_of(last.queues[1])
        rows = [rows_before(self._parts, number, last.join.sides[number].end) for number in (0, 1)]
        name = member.name if kinds in self._scattered else write_kinds(kinds)
        part = self._open(name, queues, last.join, rows)
        part.join.arrangement = self._arranged.get(kinds, part.join.arrangement)
        return part

    def _waiting(self, newcomers: Sequence[Member] = ()) -> Waiting | None:
        """Rows that some joins have worked and others have not; None if what is asked of them fails."""
        found: Waiting = {}
        for number in (0, 1):
            first = max(part.join.sides[number].end for part in self._parts)
            for part in self._parts:
                side = part.join.sides[number]
                if side.end < first and len(part.join.roster):  # a new one needs none yet
                    rows = waiting_rows(side, first - side.end, newcomers)
                    if rows is None:
                        return None
                    found[part.join, number] = rows
        return found

    def _rows_for(self, part: JoinApart, waiting: Waiting, number: int) -> StoredRows | None:
        """The rows that others have of what a join has worked."""
        others = [one for one in self._parts if one is not part]
        more = [waiting[one.join, number] for one in others if (one.join, number) in waiting]
        return rows_before(others, number, part.join.sides[number].end, more)

    # -- together again -------------------------------------------------------------------------------

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
        self._join.reconsider(self._is_time and self.parting == "kinds")
        split.retire()
        self._arranged = {
            part.kinds: part.join.arrangement for part in self._parts if self.parting == "kinds"
        }
        self._split, self._parts, self._last, self._is_time = None, [], None, False
        self._must_unite = False
        self._coming, self._altered = [], []

    def _go_on_as_one(self, part: JoinApart) -> None:
        """Let the one join that is left be that of all."""
        self._take_back(part)
        self._join = part.join
        self._join.move_to(self._make.queues, self._make.name, self._arrange_whole)
        self._join.part_ways = self._changed

    def _merge(self) -> None:
        """Let one join have the members and the rows of all, or of the last that was there."""
        if not all(part.join.awaits_instants for part in self._parts):
            for part in self._parts:
                part.join.keep_up()
            self._drain()
        self.settle()
        parts = self._parts or [one for one in (self._last,) if one is not None]
        former = parts[0]
        self._take_back(former)
        held = [[export_rows(one.join.sides[n]) for one in parts] for n in (0, 1)]
        rows = [once([some for some in kept if some is not None]) for kept in held]
        self._join = self._together()
        for part in self._parts:
            for member in part.members:
                move(member, self._join)
        self._join.take_over(former.join, rows)
        for part in self._parts[1:]:
            self._join.go_on_for(part.join)

    def _take_back(self, part: JoinApart) -> None:
        """Let what waits for a join wait for the join of all."""
        for queue, waiting in zip(self._make.queues, part.queues, strict=True):
            for batch in reversed(waiting.batches):
                queue.put_back(batch)

    def _arrange_part(self, join: WindowJoin) -> Arrangement:
        """How the join of some keeps its rows; and, less often, whether to stay apart."""
        arrangement = self._make.arrange(join)
        is_time = join.is_due and sum(side.rows_in for side in join.sides) >= self._rethought_at
        if is_time and self.parting == "kinds" and not self._scattered and arrangement.parting == "one":
            is_time = not self._make.arrange.stays_by_kinds([part.join for part in self._parts])
            self._rethought_at = RETHINK * sum(side.rows_in for side in join.sides)
        if self._split is not None and (is_time or arrangement.parting != "one"):
            self._split.is_stale = self._must_unite = True
            self._is_time |= is_time
            self._scattered = set() if is_time else self._scattered | {join.members[0].by_rows}
        return replace(arrangement, parting="one", is_numbered=True)

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


def kinds_of(node: MemberNode) -> Kinds:
    return tuple(side.window.kind == "rows" for side in node.sides)


def write_kinds(kinds: Kinds) -> str:
    return " and ".join("ROWS" if by_rows else "RANGE" for by_rows in kinds)


def numbered(side: Side) -> StoredRows | None:
    """All rows of a side with places in the stream, or numbers by which they are told apart."""
    number_rows(side.shelves, side.end, side.last_gap)
    return export_rows(side)


def rows_before(
    parts: Sequence[JoinApart], number: int, end: int, more: Sequence[StoredRows] = ()
) -> StoredRows | None:
    """The rows of one side that any of some joins hold, or that are given, with places below `end`."""
    held = [export_rows(part.join.sides[number]) for part in parts]
    rows = once([*(some for some in held if some is not None), *more])
    if rows is None or not len(rows.places) or rows.places[-1] < end:
        return rows
    return rows.take(np.arange(rows.places.searchsorted(end)))


def elsewhere(others: Sequence[JoinApart], waiting: Waiting, number: int) -> Elsewhere:
    """What other joins keep of one side's rows."""
    rows = [waiting[one.join, number] for one in others if (one.join, number) in waiting]
    ts, places = ([getattr(some, name) for some in rows] for name in ("ts", "places"))
    return Elsewhere(
        [one.join.keepers(number) for one in others],
        np.concatenate([NO_ROWS, *ts]),
        np.concatenate([NO_ROWS, *places]),
    )

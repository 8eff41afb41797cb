"""The push-down form of a common join: one stream split by predicate, a join per part, a union per query.

A row of the split side belongs to the part of its lifetime, the longest window among the queries whose
predicate it satisfies. Each part has a join of its own, with the windows that part needs and with rows of
the other side of its own: what is gained in probing is paid for in rows kept several times. Behind the joins
each pair is tested against each query, and a query's pairs from all parts are put into time order.

When queries have come or gone the parts are cut anew, before the next rows, and the rows that are there are
dealt out again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from penstock.engine.flow.operator import Counters, Operator, Stateless
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.flow.scheduler import QUANTUM_ROWS
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.join_layout import JoinLayout, LifetimeCut
from penstock.engine.members.lineage import Lineage
from penstock.engine.members.member import Member
from penstock.engine.members.roster import Roster
from penstock.engine.members.row_tags import tagged
from penstock.engine.plan.plan import MemberNode
from penstock.engine.selects.union import Union
from penstock.engine.shelves.stored_rows import StoredRows, once
from penstock.engine.shelves.stored_side import export_rows, known_by

from .join_maker import JoinMaker


class PartJoin:
    """The join of one part, its own taps of the streams, and its members' stand-ins."""

    def __init__(self, part: LifetimeCut, join: WindowJoin, queues: tuple[Queue, Queue]) -> None:
        self.part = part
        self.join = join
        self.queues = queues
        self.members: dict[Member, Member] = {}


class PushDown:
    """A common join in parts."""

    def __init__(self, make: JoinMaker, changed: Callable[[], None]) -> None:
        """`changed` is called before rows are dealt out to members that have changed: time to refresh."""
        self.members: list[Member] = []
        self._make = make
        self._split = Splitter(make.queues, f"{make.name}.split", changed)
        self._parts: list[PartJoin] = []
        self._unions: dict[Member, Union] = {}

    @property
    def operators(self) -> list[Operator]:
        return [self._split, *(part.join for part in self._parts), *self._unions.values()]

    def add(self, member: Member) -> None:
        self.members.append(member)
        self._split.is_stale = True

    def drop(self, member: Member) -> None:
        self.settle()
        self.members.remove(member)
        self._unions.pop(member, None)
        for part in self._parts:
            if member in part.members:
                part.members.pop(member).is_gone = True
        self._split.is_stale = True

    def alter(self, member: Member, node: MemberNode) -> None:
        self.settle()
        if not member.is_new:  # of what it has not been taken in with, nothing was kept
            member.former, member.is_new = member.node, True
        member.become(node)
        for one in [member, *(part.members[member] for part in self._parts if member in part.members)]:
            one.filled = [None] * len(member.sizes)
        self._split.is_stale = True

    def refresh(self) -> bool:
        """Take changes of the members into account; True if there are other operators now."""
        self._note_filled()
        if not self._split.is_stale or not self.members:
            return False
        self._split.is_stale = False
        self._recut()
        return True

    def settle(self) -> None:
        for part in self._parts:
            part.join.settle()
            for member, stand_in in part.members.items():
                member.found += stand_in.found
                stand_in.found = 0
        self._note_filled()

    def _note_filled(self) -> None:
        """When ROWS windows came to hold nothing but rows that are there, in every part."""
        for part in self._parts:
            for member, stand_in in part.members.items():
                for side in (0, 1):
                    member.filled[side] = latest(member.filled[side], stand_in.filled[side])

    # -- parts --------------------------------------------------------------------------------------

    def _recut(self) -> None:
        """Cut the parts anew for the members there are, and deal the rows out again."""
        self._drain()
        self.settle()
        self._split.ask_for(self.members)
        rows, queues = self._collect(), self._waiting()
        old, self._parts = self._parts, []
        for number, part in enumerate(self._cuts()):
            self._parts.append(self._open(part, number, old, rows, (copy_of(queues[0]), copy_of(queues[1]))))
        self._split.targets = [part.queues for part in self._parts]
        self._unite()

    def _cuts(self) -> list[LifetimeCut]:
        """One part per window of the side with more predicates; what lives longer is in a later part."""
        predicates = [{m.predicates[n] for m in self.members} for n in (0, 1)]
        side = 1 if len(predicates[1]) > len(predicates[0]) else 0
        ends = sorted({member.size(side) for member in self.members})
        if len(predicates[side]) == 1:
            ends = ends[-1:]  # all rows are needed for the longest window
        lineage = Lineage(predicates[side])
        parts = []
        above = 0
        for up_to in ends:
            longer = [m.predicates[side] for m in self.members if m.size(side) > up_to]
            of_part = [m.predicates[side] for m in self.members if m.size(side) == up_to]
            if all(lineage.first_implied(predicate, longer) is not None for predicate in of_part):
                continue  # every row that these need is needed for longer by others
            other = max(m.size(1 - side) for m in self.members if m.size(side) <= up_to)
            parts.append(LifetimeCut(side, above, up_to, (up_to, other) if side == 0 else (other, up_to)))
            above = up_to
        return parts

    def _lay_out_part(self, part: LifetimeCut, join: WindowJoin) -> JoinLayout:
        return replace(self._make.choose_layout(join), part=part)

    def _open(
        self,
        part: LifetimeCut,
        number: int,
        old: list[PartJoin],
        rows: list[StoredRows | None],
        queues: tuple[Queue, Queue],
    ) -> PartJoin:
        """The join of a part, holding its share of the rows."""
        join = self._make.part(f"part {number + 1}", queues, partial(self._lay_out_part, part), self._fail)
        opened = PartJoin(part, join, queues)
        for side, lineage in zip(join.sides, self._split.lineages, strict=True):
            side.tag_by(lineage)
        before = old[0].join if old else None
        for member in self.members:
            stand_in = Member(member.owner, member.counting, member.node, is_new=member.is_new)
            stand_in.started, stand_in.missing = list(member.started), list(member.missing)
            stand_in.born, stand_in.former = list(member.born), member.former
            stand_in.filled = list(member.filled)
            opened.members[member] = stand_in
            join.add(stand_in)
        if before is not None:
            join.take_over(before, rows)
        for side in join.sides:
            side.wait_for([one for one in join.members if is_filling(one, side.number)])
        join.refresh()
        for member, stand_in in opened.members.items():
            member.missing = [max(a, b) for a, b in zip(member.missing, stand_in.missing, strict=True)]
            member.born = list(stand_in.born)
        return opened

    def _collect(self) -> list[StoredRows | None]:
        """The rows of both sides that some part holds, each once, and what members ask of them."""
        found: list[StoredRows | None] = []
        new = [member for member in self.members if member.is_new]
        for number, lineage in enumerate(self._split.lineages):
            sides = [part.join.sides[number] for part in self._parts]
            rows = once([one for one in map(export_rows, sides) if one is not None])
            found.append(None if rows is None else known_by(sides[0], rows, lineage, new))
        return found

    def _waiting(self) -> tuple[Queue, Queue]:
        """What waits for each part, and what members ask of that."""
        if not self._parts:
            return Queue(self._split.began[0]), Queue(self._split.began[1])
        left, right = map(copy_of, self._parts[0].queues)
        for queue, lineage in zip((left, right), self._split.lineages, strict=True):
            queue.batches = deque(tagged(batch, lineage) for batch in queue.batches)
        return left, right

    def _drain(self) -> None:
        """Let the parts finish what they have begun."""
        operators = [operator for operator in self.operators if operator is not self._split]
        worked = True
        while worked:
            worked = False
            for operator in operators:
                worked |= operator.step(QUANTUM_ROWS)

    def _fail(self, stand_in: Member, error: Exception) -> None:
        """A part has come to rows on which a member fails: it fails when all parts have."""
        held = [part.members for part in self._parts]
        for member in [one for one in self.members if any(of.get(one) is stand_in for of in held)]:
            for part in self._parts:
                part.members[member].is_gone = True
            self._drain()
            self._make.on_failure(member, error)

    def _unite(self) -> None:
        """For each member, a union of what the parts give it."""
        for member in self.members:
            member.is_new = False
            member.former = None
            if member.counting:
                continue
            queues = []
            for part in self._parts:
                stand_in = part.members[member]
                queue = Queue(stand_in.output.punctuation)
                queue.closed = stand_in.output.closed
                stand_in.output.queues.append(queue)
                queues.append(queue)
            union = Union(tuple(queues), f"{self._make.name}.{member.name}")
            member.output.punctuation = max(member.output.punctuation, union.output.punctuation)
            union.output = member.output
            self._unions[member] = union


class Splitter(Stateless):
    """Gives what comes to every part, which takes its own rows of it.

    Conditions are evaluated here, once for all parts.
    """

    def __init__(self, queues: tuple[Queue, Queue], name: str, changed: Callable[[], None]) -> None:
        self.name = name
        self.inputs = queues
        self.output = Outlet(min(queue.punctuation for queue in queues))
        self.counters = Counters()
        self.began = queues[0].punctuation, queues[1].punctuation
        self.is_stale = False
        self._is_retired = False
        self._changed = changed
        self.targets: list[tuple[Queue, Queue]] = []
        self.lineages = [Lineage(()), Lineage(())]
        """Of what all parts ask of the rows of each side."""

    def ask_for(self, members: Sequence[Member]) -> None:
        """From now on tag rows by what these ask."""
        predicates = Roster.of(members).predicates
        self.lineages = [
            Lineage(asked, former) for asked, former in zip(predicates, self.lineages, strict=True)
        ]

    def retire(self) -> None:
        """Others take what comes from now on."""
        self._is_retired = True

    def step(self, quantum: int) -> bool:
        worked = False
        if self.is_stale:
            self._changed()
        if self._is_retired:
            return True
        for number, queue in enumerate(self.inputs):
            while queue.batches:
                batch = tagged(queue.pop(), self.lineages[number])
                self.counters.took(batch.length)
                self.counters.gave(batch.length)
                for target in self.targets:
                    target[number].put(batch)
                worked = True
            for target in self.targets:
                if queue.punctuation > target[number].punctuation:
                    target[number].promise(queue.punctuation)
                    worked = True
                if queue.closed and not target[number].closed:
                    target[number].close()
                    worked = True
        return worked


def copy_of(queue: Queue) -> Queue:
    """A queue in which the same is waiting."""
    copy = Queue(queue.punctuation)
    copy.batches.extend(queue.batches)
    copy.rows, copy.closed = queue.rows, queue.closed
    return copy


def is_filling(member: Member, number: int) -> bool:
    """Whether a ROWS window of one who was there before does not yet hold only rows that are there."""
    lacks = member.by_rows[number] and member.missing[number] != BEGINNING
    return lacks and not member.is_new and member.filled[number] is None


def latest(one: int | None, two: int | None) -> int | None:
    """The later of two times; None: not yet."""
    return None if one is None and two is None else max(one or two or 0, two or one or 0)

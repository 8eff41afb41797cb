"""From when on a query that joins a running join finds all rows it needs.

What the state holds is what members before it needed. A row it needs is there if some member whose predicate
it satisfies kept it, that is as long as that member's window and since that member began; and with all
columns, if they were stored when it came.

    rows of a member with window 60, at 100    |- missing -|======== there =========|
                                                          40                       100

That is a ts for RANGE windows and a place for ROWS windows. Where a member of one kind finds what those of
the other have kept, the rows that are there say which places go with which times.

Other joins over the same streams may keep rows too (loose_form.py). Where a join's own members have not kept
all that a new one needs, it is worked out what all of them have kept together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.members.lineage import Lineage
from penstock.engine.members.member import Member, size_of
from penstock.engine.members.roster import Roster
from penstock.engine.rows.window import FOREVER

from .rows_beside import other_measure
from .side import NEVER_FAILED, Side
from .stored_rows import births_of


class Covers(NamedTuple):
    """Up to where rows of some predicates may be missing (int64, ascending); the predicates by number."""

    last: NDArray
    numbers: NDArray


class Keepers(NamedTuple):
    """Members of one join, one of its sides, and how far it has come."""

    roster: Roster
    side: Side
    now: int


class Elsewhere(NamedTuple):
    """What other joins over the same stream keep.

    ts, places: of rows that are worked here and still wait there, as far as their members need them.
    """

    keepers: Sequence[Keepers]
    ts: NDArray
    places: NDArray


def note_coverage(
    roster: Roster,
    sides: Sequence[Side],
    now: int,
    elsewhere: Sequence[Elsewhere] = (),
    is_whole: bool = False,
) -> bool:
    """Settle `missing` of the new ones among the members; `now`: how far the join has come.

    elsewhere: by side, if there are other joins. is_whole: whether members get their pairs from these rows
    alone, so that a ROWS window which lacks nothing is filled. True if somebody is taken to have rows that
    only others have.
    """
    new = [at for at, member in enumerate(roster.members) if member.is_new]
    relies = False
    for side in sides if new else ():
        number = side.number
        come = max([now, *(roster.members[at].started[number] for at in new)])
        here = Kept(Keepers(roster, side, now), come)
        whole = Kept(here.own, come, elsewhere[number]) if elsewhere else None
        for at in new:
            member = roster.members[at]
            if member.started[number] == BEGINNING:
                member.missing[number] = BEGINNING
                continue
            missing = here.missing_of(member)
            if whole is not None and not is_filled(missing, member, side, now):
                in_all = whole.missing_of(member)
                relies |= in_all < missing
                missing = min(missing, in_all)
            if member.former is None:  # it may be known already that some of the rows are not for it
                missing = max(missing, member.missing[number])
            missing = member.missing[number] = max(missing, here.last_failed(member))
            if is_whole and member.by_rows[number] and is_filled(missing, member, side, now):
                member.filled[number] = member.started[number]
            elif member.by_rows[number] and missing != BEGINNING and member not in side.unfilled:
                side.unfilled.append(member)
    for at in new:
        roster.members[at].is_new = False
        roster.members[at].former = None
    return relies


def is_filled(missing: int, member: Member, side: Side, now: int) -> bool:
    """Whether no row that may be missing can still be in a member's window."""
    last = side.end - 1 if member.by_rows[side.number] else now
    return missing == BEGINNING or missing <= last - member.sizes[side.number]


class Kept:
    """What the old members of a join, and of others if there are any, have kept of a stream."""

    def __init__(self, own: Keepers, come: int, elsewhere: Elsewhere | None = None) -> None:
        """come: how far the stream has come, which may be further than the join."""
        self.own = own
        self._come = come
        self._elsewhere = elsewhere
        self._all = [own, *(() if elsewhere is None else elsewhere.keepers)]
        self._lineage = own.side.lineage
        """Whose numbers predicates have here; none are asked for where all members ask the same."""
        if elsewhere is not None:
            assert own.side.memory is not None, "expected what all joins ask of rows"
            self._lineage = own.side.memory
        self._covers: dict[bool, Covers] = {}
        self._rows: tuple[NDArray, NDArray] | None = None

    def missing_of(self, member: Member) -> int:
        """Up to where rows that a new member needs may be missing, as ts or place."""
        side, now, number = self.own.side, self.own.now, self.own.side.number
        by_rows = member.by_rows[number]
        found = side.end - 1 if by_rows else member.started[number]
        lacking = max(self._last_lacking(keepers, member, by_rows) for keepers in self._all)
        if lacking >= found:
            return found
        before = None if member.former is None else member.former.sides[number]
        if before is not None and before.predicate == member.predicates[number]:
            had_rows = before.window.kind == "rows"
            dropped = last_dropped(side, np.array([size_of(before.window)]), had_rows, now)
            left = np.maximum(dropped, member.missing[number])
            found = min(found, int(self._measured(left, had_rows, by_rows)[0]))
        if by_rows not in self._covers:
            self._covers[by_rows] = self._kept_for(by_rows)
        covers = self._covers[by_rows]
        better = int(covers.last.searchsorted(found))  # those that miss less
        if self._elsewhere is None and side.is_uniform:  # all ask the same
            at = 0 if better else None
        else:
            asked = self._lineage.number(member.predicates[number])
            at = self._lineage.last_covering_of(asked, covers.numbers[:better])
        return max(lacking, found if at is None else int(covers.last[at]))

    def last_failed(self, member: Member) -> int:
        """The last row on which what a member asks is known to fail, as ts or place; BEGINNING: none."""
        side = self.own.side
        ts, place = side.failed.get(member.predicates[side.number], NEVER_FAILED)
        if not member.by_rows[side.number]:
            return ts
        if place < 0 and ts != BEGINNING:
            return int(self._measured(np.array([ts]), is_place=False, by_rows=True)[0])
        return place if place >= 0 else BEGINNING

    def _kept_for(self, by_rows: bool) -> Covers:
        """What may be missing of the rows that satisfy each of the old members' predicates, least first.

        by_rows: for somebody with a ROWS window.
        """
        parts = [self._kept_by(keepers, by_rows) for keepers in self._all]
        last, numbers = (np.concatenate(some) for some in zip(*parts, strict=True))
        order = np.argsort(last, kind="stable")
        last, numbers = last[order], numbers[order]
        firsts = np.sort(np.unique(numbers, return_index=True)[1])
        return Covers(last[firsts], numbers[firsts])

    def _kept_by(self, keepers: Keepers, by_rows: bool) -> Covers:
        """The same of the members of one join, in their order."""
        roster, side, now = keepers
        number = side.number
        old = np.flatnonzero([not member.is_new for member in roster.members])
        last = np.array([member.missing[number] for member in roster.members], np.int64)[old]
        for kind in (False, True):
            here = np.flatnonzero(roster.by_rows[number, old] == kind)
            if len(here):
                dropped = last_dropped(side, roster.sizes[number, old[here]], kind, now)
                last[here] = self._measured(np.maximum(dropped, last[here]), kind, by_rows)
        numbers = roster.numbers[number, old]
        if self._elsewhere is None:
            return Covers(last, numbers)
        numbers = numbers_by(self._lineage, roster, number)[numbers]
        return Covers(last[numbers >= 0], numbers[numbers >= 0])

    def _last_lacking(self, keepers: Keepers, member: Member, by_rows: bool) -> int:
        """The last stored row of a join that lacks columns which a member reads; BEGINNING: none does."""
        side = keepers.side
        is_place = by_rows and side.by_place
        last = last_lacking(side, member.born[side.number], is_place)
        return int(self._measured(np.array([last]), is_place, by_rows)[0])

    def _measured(self, last: NDArray, is_place: bool, by_rows: bool) -> NDArray:
        """Up to where rows may be missing, as ts or place; by_rows: for somebody with a ROWS window."""
        if is_place == by_rows:
            return last
        if self._rows is None:
            self._rows = self._times_and_places()
        return other_measure(*self._rows, last, by_rows, self._come, self.own.side.end)

    def _times_and_places(self) -> tuple[NDArray, NDArray]:
        """Of all rows that are there, some twice.

        Those that another join has worked and this one has not are of the instant that this one has reached:
        what they say is the same as if there were none.
        """
        shelves = [shelf for keepers in self._all for shelf in keepers.side.shelves]
        waiting = [] if self._elsewhere is None else [self._elsewhere]
        nothing = np.empty(0, np.int64)
        ts = np.concatenate([nothing, *(shelf.store.ts.live for shelf in shelves), *(w.ts for w in waiting)])
        numbered = [shelf.places.live for shelf in shelves if shelf.places is not None]
        places = np.concatenate([nothing, *numbered, *(one.places for one in waiting)])
        assert len(ts) == len(places), "rows without places"
        return ts, places


def numbers_by(lineage: Lineage, roster: Roster, side: int) -> NDArray:
    """The numbers that the predicates of a roster have in a lineage, -1 where it does not know them."""
    known = (lineage.number(one) if lineage.knows(one) else -1 for one in roster.predicates[side])
    return np.fromiter(known, np.int64)


def last_dropped(side: Side, sizes: NDArray, by_rows: bool, now: int) -> NDArray:
    """The last row that has left windows of these sizes, as ts or place; BEGINNING: none has."""
    if by_rows:
        last = side.end - 1
        longest = last  # of the windows that some row has left
    else:
        last = now
        longest = -1 if side.first_ts is None else max(-1, min(now - side.first_ts, FOREVER - 1))
    is_full = (sizes <= longest) & (sizes < FOREVER)
    return np.where(is_full, last - np.where(is_full, sizes, 0), BEGINNING)


def last_lacking(side: Side, born: int, is_place: bool) -> int:
    """The last stored row, as place or ts, that lacks columns stored since; BEGINNING: none does."""
    last = BEGINNING
    for shelf in side.shelves:
        count = int(births_of(shelf).searchsorted(born))  # rows are in the order in which they came
        if count:
            pos = shelf.pos if is_place else shelf.store.ts
            last = max(last, int(pos.live[count - 1]))
    return last

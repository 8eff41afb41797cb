"""From when on a query that joins a running join finds all rows it needs.

What the state holds is what members before it needed. A row it needs is there if some member whose predicate
it satisfies kept it, that is as long as that member's window and since that member began; and with all
columns, if they were stored when it came.

    rows of a member with window 60, at 100    |- missing -|======== there =========|
                                                          40                       100

That is a ts for RANGE windows and a place for ROWS windows. Of members with windows of one kind only those of
the same kind are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import BEGINNING
from penstock.engine.members.member import Member, size_of
from penstock.engine.members.roster import Roster
from penstock.engine.rows.window import FOREVER

from .side import Side, places_on
from .stored_rows import births_of


class Covers(NamedTuple):
    """Up to where rows of some predicates may be missing (int64, ascending); the predicates by number."""

    last: NDArray
    numbers: NDArray


def note_coverage(roster: Roster, sides: Sequence[Side], now: int, is_whole: bool = False) -> None:
    """Settle `missing` of the new ones among the members; `now`: how far the join has come.

    is_whole: whether members get their pairs from these rows alone, so that a ROWS window which lacks nothing
    is filled.
    """
    new = [member for member in roster.members if member.is_new]
    for side in sides if new else ():
        number = side.number
        kept = Kept(roster, side, now)
        for member in new:
            if member.started[number] == BEGINNING:
                member.missing[number] = BEGINNING
                continue
            missing = kept.missing_of(member)
            if member.former is None:  # it may be known already that some of the rows are not for it
                missing = max(missing, member.missing[number])
            failed = side.failed.get(member.predicates[number], BEGINNING)
            missing = member.missing[number] = max(missing, failed)
            if is_whole and member.by_rows[number] and is_filled(missing, member, side):
                member.filled[number] = member.started[number]
            elif member.by_rows[number] and missing != BEGINNING:
                side.wait_for([member])
    for member in new:
        member.is_new = False
        member.former = None


def is_filled(missing: int, member: Member, side: Side) -> bool:
    """Whether no row that may be missing can still be in a member's ROWS window."""
    return missing == BEGINNING or missing <= side.arrival.end - 1 - member.sizes[side.number]


class Kept:
    """What the old members of a join have kept of a stream."""

    def __init__(self, roster: Roster, side: Side, now: int) -> None:
        self._roster = roster
        self._side = side
        self._now = now
        self._covers: dict[bool, Covers] = {}

    def missing_of(self, member: Member) -> int:
        """Up to where rows that a new member needs may be missing, as ts or place."""
        side, number = self._side, self._side.number
        by_rows = member.by_rows[number]
        found = side.arrival.end - 1 if by_rows else member.started[number]
        lacking = last_lacking(side, member.born[number], by_rows)
        if lacking >= found:
            return found
        before = None if member.former is None else member.former.sides[number]
        if before is not None and before.predicate == member.predicates[number]:
            dropped = last_dropped(side, np.array([size_of(before.window)]), by_rows, self._now)
            found = min(found, max(int(dropped[0]), member.missing[number]))
        if by_rows not in self._covers:
            self._covers[by_rows] = self._kept_for(by_rows)
        covers = self._covers[by_rows]
        better = int(covers.last.searchsorted(found))  # those that miss less
        if side.terms.is_uniform:  # all ask the same
            at = 0 if better else None
        else:
            asked = side.terms.lineage.number(member.predicates[number])
            at = side.terms.lineage.last_covering_of(asked, covers.numbers[:better])
        return max(lacking, found if at is None else int(covers.last[at]))

    def _kept_for(self, by_rows: bool) -> Covers:
        """What may be missing of the rows that satisfy each of the old members' predicates, least first.

        by_rows: for somebody with a ROWS window.
        """
        side, number = self._side, self._side.number
        old = [
            (at, member.missing[number])
            for at, member in enumerate(self._roster.members)
            if not member.is_new and member.by_rows[number] == by_rows
        ]
        places, missing = np.array(old, np.int64).reshape(-1, 2).T
        dropped = last_dropped(side, self._roster.sizes[number, places], by_rows, self._now)
        last, numbers = np.maximum(dropped, missing), self._roster.numbers[number, places]
        order = np.argsort(last, kind="stable")
        last, numbers = last[order], numbers[order]
        firsts = np.sort(np.unique(numbers, return_index=True)[1])
        return Covers(last[firsts], numbers[firsts])


def last_dropped(side: Side, sizes: NDArray, by_rows: bool, now: int) -> NDArray:
    """The last row that has left windows of these sizes, as ts or place; BEGINNING: none has."""
    if by_rows:
        last = side.arrival.end - 1
        longest = last  # of the windows that some row has left
    else:
        last = now
        longest = -1 if side.seen.first_ts is None else max(-1, min(now - side.seen.first_ts, FOREVER - 1))
    is_full = (sizes <= longest) & (sizes < FOREVER)
    return np.where(is_full, last - np.where(is_full, sizes, 0), BEGINNING)


def last_lacking(side: Side, born: int, by_rows: bool) -> int:
    """The last stored row, as place or ts, that lacks columns stored since; BEGINNING: none does."""
    last = BEGINNING
    for shelf in side.shelves:
        count = int(births_of(shelf).searchsorted(born))  # rows are in the order in which they came
        if count:
            pos = places_on(shelf) if by_rows else shelf.store.ts
            last = max(last, int(pos.live[count - 1]))
    return last

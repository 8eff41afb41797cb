"""From when on a query that joins a running join finds all rows it needs.

What the state holds is what members before it needed. A row it needs is there if some member whose predicate
it satisfies kept it, that is as long as that member's window and since that member began; and with all
columns, if they were stored when it came.

    rows of a member with window 60, at 100    |- missing -|======== there =========|
                                                          40                       100

That is a ts for RANGE windows and a place for ROWS windows. Where a member of one kind finds what those of
the other have kept, the rows that are there say which places go with which times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .member import Member, size_of
from .operators.side import Side
from .queue import BEGINNING
from .roster import Roster
from .rows_beside import other_measure
from .stored_rows import births_of
from .window import FOREVER


class Covers(NamedTuple):
    """Up to where rows of some predicates may be missing (int64, ascending); the predicates by number."""

    last: NDArray
    numbers: NDArray


def note_coverage(roster: Roster, sides: Sequence[Side], now: int) -> None:
    """Settle `missing` of the new ones among the members; `now`: how far the join has come."""
    new = [at for at, member in enumerate(roster.members) if member.is_new]
    for side in sides if new else ():
        covers: dict[bool, Covers] = {}
        number = side.number
        for at in new:
            member = roster.members[at]
            by_rows = member.by_rows[number]
            if member.started[number] == BEGINNING:
                member.missing[number] = BEGINNING
                continue
            if by_rows not in covers:
                covers[by_rows] = kept_by(roster, side, now, by_rows)
            missing = missing_of(member, int(roster.numbers[number, at]), side, covers[by_rows], now)
            if member.former is None:  # it may be known already that some of the rows are not for it
                missing = max(missing, member.missing[number])
            member.missing[number] = missing
            if by_rows and member.missing[number] != BEGINNING and member not in side.unfilled:
                side.unfilled.append(member)
    for at in new:
        roster.members[at].is_new = False
        roster.members[at].former = None


def last_dropped(side: Side, sizes: NDArray, by_rows: bool, now: int) -> NDArray:
    """The last row that has left windows of these sizes, as ts or place; BEGINNING: none has."""
    if by_rows:
        last = side.come + len(side.come_ts) - 1
        longest = last  # of the windows that some row has left
    else:
        last = now
        longest = -1 if side.first_ts is None else max(-1, min(now - side.first_ts, FOREVER - 1))
    is_full = (sizes <= longest) & (sizes < FOREVER)
    return np.where(is_full, last - np.where(is_full, sizes, 0), BEGINNING)


def kept_by(roster: Roster, side: Side, now: int, by_rows: bool) -> Covers:
    """What may be missing of the rows that satisfy each of the old members' predicates, least first.

    by_rows: for somebody with a ROWS window.
    """
    number = side.number
    old = np.flatnonzero([not member.is_new for member in roster.members])
    last = np.array([member.missing[number] for member in roster.members], np.int64)[old]
    for kind in (False, True):
        here = np.flatnonzero(roster.by_rows[number, old] == kind)
        if len(here):
            dropped = last_dropped(side, roster.sizes[number, old[here]], kind, now)
            last[here] = measured(side, np.maximum(dropped, last[here]), kind, by_rows, now)
    order = np.argsort(last, kind="stable")
    last, numbers = last[order], roster.numbers[number, old][order]
    firsts = np.sort(np.unique(numbers, return_index=True)[1])
    return Covers(last[firsts], numbers[firsts])


def missing_of(member: Member, predicate: int, side: Side, covers: Covers, now: int) -> int:
    """Up to where rows that a new member needs may be missing; `predicate`: the number of its own."""
    number = side.number
    by_rows = member.by_rows[number]
    found = side.come + len(side.come_ts) - 1 if by_rows else member.started[number]
    lacking = last_lacking(side, member.born[number])
    lacking = int(measured(side, np.array([lacking]), side.by_place, by_rows, now)[0])
    if lacking >= found:
        return found
    before = None if member.former is None else member.former.sides[number]
    if before is not None and before.predicate == member.predicates[number]:
        had_rows = before.window.kind == "rows"
        dropped = last_dropped(side, np.array([size_of(before.window)]), had_rows, now)
        left = np.maximum(dropped, member.missing[number])
        found = min(found, int(measured(side, left, had_rows, by_rows, now)[0]))
    better = int(covers.last.searchsorted(found))  # those that miss less
    if side.is_uniform:  # all ask the same
        at = 0 if better else None
    else:
        at = side.lineage.last_covering_of(predicate, covers.numbers[:better])
    return max(lacking, found if at is None else int(covers.last[at]))


def measured(side: Side, last: NDArray, is_place: bool, by_rows: bool, now: int) -> NDArray:
    """Up to where rows may be missing, as ts or place: as it is asked for by somebody with a ROWS window."""
    if is_place == by_rows:
        return last
    return other_measure(side.shelves, last, by_rows, now, side.come + len(side.come_ts))


def last_lacking(side: Side, born: int) -> int:
    """The last stored row, as ts or place, that lacks columns stored since; BEGINNING: none does."""
    last = BEGINNING
    for shelf in side.shelves:
        count = int(births_of(shelf).searchsorted(born))  # rows are in the order in which they came
        if count:
            last = max(last, int(shelf.pos.live[count - 1]))
    return last

"""From when on a query that joins a running join finds all rows it needs.

What the state holds is what members before it needed. A row it needs is there if some member whose predicate
is no narrower kept it, that is as long as that member's window and since that member began.

    rows of a member with window 60, at 100    |- missing -|======== there =========|
                                                          40                       100
"""

from __future__ import annotations

from collections.abc import Sequence

from .expression import Expression
from .member import Member
from .operators.side import Side
from .queue import BEGINNING
from .window import FOREVER


def note_coverage(members: Sequence[Member], sides: Sequence[Side], now: int) -> None:
    """Settle `missing` of the new ones among the members; `now`: how far the join has come."""
    for side in sides:
        covers: list[tuple[int, Expression | None]] | None = None
        for member in members:
            if not member.is_new:
                continue
            number = side.number
            if member.started[number] == BEGINNING:
                member.missing[number] = BEGINNING
                continue
            if covers is None:
                covers = kept_by(members, side, now)
            member.missing[number] = missing_of(member, side, covers, now)
            if side.by_place and member.missing[number] != BEGINNING:
                side.unfilled.append(member)
    for member in members:
        member.is_new = False
        member.former = None


def last_dropped(side: Side, size: int, now: int) -> int:
    """The last row that has left a window of this size, as ts or place; BEGINNING: none has."""
    if size == FOREVER:
        return BEGINNING
    if side.by_place:
        last = side.come + len(side.come_ts) - 1 - size
        return last if last >= 0 else BEGINNING
    return now - size if side.first_ts is not None and side.first_ts <= now - size else BEGINNING


def kept_by(members: Sequence[Member], side: Side, now: int) -> list[tuple[int, Expression | None]]:
    """What may be missing of the rows that satisfy each of the members' predicates, least first."""
    least: dict[Expression | None, int] = {}
    number = side.number
    dropped: dict[int, int] = {}
    for member in members:
        if member.is_new:
            continue
        size, predicate = member.sizes[number], member.predicates[number]
        last = dropped.get(size)
        if last is None:
            last = dropped[size] = last_dropped(side, size, now)
        last = max(last, member.missing[number])
        if least.get(predicate, last) >= last:
            least[predicate] = last
    return sorted(((last, predicate) for predicate, last in least.items()), key=lambda one: one[0])


def missing_of(member: Member, side: Side, covers: Sequence[tuple[int, Expression | None]], now: int) -> int:
    """Up to where rows that a new member needs may be missing on a side."""
    number = side.number
    everything = side.come + len(side.come_ts) - 1 if side.by_place else member.started[number]
    if member.born[number] > side.oldest_birth:  # it reads columns which the rows that are there lack
        return everything
    found = everything
    predicate = member.predicates[number]
    if member.former is not None and member.former.sides[number].predicate == predicate:
        size = member.former.sides[number].window.size
        dropped = last_dropped(side, FOREVER if size is None else size, now)
        found = min(found, max(member.missing[number], dropped))
    better = [(last, other) for last, other in covers if last < found]
    if side.is_uniform:  # all ask the same
        return better[0][0] if better else found
    at = side.lineage.first_implied(predicate, [other for _, other in better])
    return found if at is None else better[at][0]

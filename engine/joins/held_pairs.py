"""Pairs of an instant that is not over, for members that have a ROWS window.

In:      pairs that may belong to a member, found with the rows that have come of their instant so far.
Kept:    for each such member its pairs of the one instant that both inputs have reached and not passed: as a
         batch not copied yet (none if the member only counts), and the places of their rows.
Out:     when the instant is over, those that are in the member's ROWS windows then.

More rows of the instant only displace rows. So what is held is never too little, and members with RANGE
windows, whose pairs are known at once, wait for nobody.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.operator import Counters
from penstock.engine.members.member import Member
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch
from penstock.engine.shelves.side import Side

Places = tuple[NDArray | None, NDArray | None]
"""By side the places of the rows of some pairs."""


class Held(NamedTuple):
    """Some pairs of a member; without places where it has no ROWS window."""

    places: Places
    pairs: Batch | None

    def _check_restored(self) -> None:
        lengths = {len(places) for places in self.places if places is not None}
        expect(
            len(lengths) <= 1 and (self.pairs is None or {self.pairs.length} == lengths), "places of pairs"
        )


class HeldPairs:
    """For the members of a join."""

    def __init__(self, sides: tuple[Side, Side], counters: Counters) -> None:
        self.sides = sides
        self.counters = counters
        self.instant: int | None = None
        """Of the rows being worked, more may come at this time, and pairs are held. None: all is known."""
        self._ts = 0
        """When those that are held are."""
        self._held: dict[Member, list[Held]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def places_of(self, refs: tuple[NDArray, NDArray]) -> Places:
        """What must be known of pairs until their instant is over; refs: where their rows are kept now."""
        left, right = (
            side.places_at(rows) if side.is_numbered else None
            for side, rows in zip(self.sides, refs, strict=True)
        )
        return left, right

    def first_open(self, ts: NDArray) -> int:
        """How many pairs, by their times, are of instants that are over."""
        return len(ts) if self.instant is None else int(ts.searchsorted(self.instant))

    def hold(self, member: Member, places: Places, some: NDArray | slice, pairs: Batch | None) -> None:
        """Keep pairs of the instant, which are some of those with these places."""
        assert self.instant is not None and (not self._held or self._ts == self.instant), "two instants held"
        self._ts = self.instant
        left, right = (
            of_side[some] if by_rows and of_side is not None else None
            for of_side, by_rows in zip(places, member.by_rows, strict=True)
        )
        self._held.setdefault(member, []).append(Held((left, right), pairs))

    def release(self, frontier: int) -> None:
        """Pass on what is held if all rows below `frontier` have come."""
        if not self._held or self._ts >= frontier:
            return
        held, self._held = self._held, {}
        last = [int(side.last_places(np.array([self._ts]))[0]) for side in self.sides]
        for member, parts in held.items():
            for part in parts:
                self._pass_on(member, part, last)

    def _pass_on(self, member: Member, part: Held, last: list[int]) -> None:
        """last: by side the last place of the instant."""
        young = [
            of_last - places < size
            for places, of_last, size in zip(part.places, last, member.sizes, strict=True)
            if places is not None
        ]
        kept = np.flatnonzero(np.logical_and.reduce(young))
        member.found += len(kept)
        self.counters.rows_out += len(kept)
        if part.pairs is not None and len(kept):
            member.output.put(part.pairs if len(kept) == part.pairs.length else part.pairs.take(kept))

    def take_over(self, former: HeldPairs, members: Collection[Member]) -> None:
        """Hold for these members what another join of the same streams held for them."""
        held = {member: parts for member, parts in former._held.items() if member in members}
        assert not (held and self._held) or self._ts == former._ts, "two instants held"
        if held:
            self._ts = former._ts
            self._held |= held

    def forget(self, member: Member) -> None:
        """A member has gone, or has other windows from the next instant on."""
        self._held.pop(member, None)

    def _check(self) -> None:
        for member, parts in self._held.items():
            assert member.waits, "pairs are held that are known"
            for part in parts:
                lengths = {len(places) for places in part.places if places is not None}
                assert len(lengths) == 1, "places of other pairs"
                assert part.pairs is None or {part.pairs.length} == lengths, "pairs without places"

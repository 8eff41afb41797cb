"""One direction of a window join: rows of one side probing a shelf of the other, each a range of its rows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.engine.indexes.index import Probes
from penstock.engine.kernels.base.cursor import PROBER
from penstock.engine.kernels.joins.bounds import first_alive, first_places, first_within, meet, precede
from penstock.engine.kernels.joins.pairs import ROW_BITS, ROW_MASK
from penstock.engine.kernels.joins.slices import Slices
from penstock.engine.restoring.in_order import expect, rising, size_of_two, within
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.key_counts import KeyCounts
from penstock.engine.shelves.shelf import Shelf
from penstock.engine.shelves.side import Side

MIN_PAIRS = 1_024
MAX_PAIRS = 32_768  # in flight: bounds the output buffer whatever one probe may match
FROM_ANYWHERE = ("scan", "hash")
"""Indexes whose probers may see rows from any one on; a tree drops what the first prober does not see."""
SPARED_ROWS, SPARED_MATCHES = 64, 0.5  # of a prober, for which it pays to look up how far it looks back


class Direction:
    """One side's new rows probing one shelf of the other: pairs found and not yet passed on."""

    _owned: ClassVar[tuple[str, ...]] = ("prober", "row")

    def __init__(self) -> None:
        self.prober = np.empty(MIN_PAIRS, np.int64)
        self.row = np.empty(MIN_PAIRS, np.int64)
        self.at = self.count = 0
        self.probes: Probes | None = None
        self.side: Side
        self.by: Side
        self.shelf: Shelf
        self.base = 0

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, *(() if self.pending else ("prober", "row")))

    def begin(self, side: Side, number: int, by: Side, probes: Probes) -> None:
        """Rows of `by` are about to probe shelf `number` of `side`."""
        self.side, self.by, self.shelf, self.base = side, by, side.shelves[number], number << ROW_BITS
        self.probes = probes
        if 2 * self.count > len(self.row):
            self._make_room()  # as many pairs again may be too many
        self.at = self.count = 0

    def fill(self) -> None:
        """Find more pairs if most of those found so far have been passed on: the others stay in front."""
        assert self.probes is not None, "no batch is being worked"
        left = self.pending
        if self.probes.done or 2 * left > len(self.row):
            return
        prober, row = self.prober, self.row
        if self.count:
            self._make_room()
        self.prober[:left] = prober[self.at : self.count]
        self.row[:left] = row[self.at : self.count]
        found = self.shelf.index.run(self.probes, self.prober[left:], self.row[left:], False)
        self.at, self.count = 0, left + found
        self.side.seen.find(found)

    def _make_room(self) -> None:
        """For twice as many pairs; there are none here then."""
        if len(self.row) < MAX_PAIRS:
            self.prober, self.row = (np.empty(2 * len(self.row), np.int64) for _ in range(2))

    @property
    def done(self) -> bool:
        return self.probes is None or self.probes.done

    @property
    def pending(self) -> int:
        return self.count - self.at

    def pairs_until(self, bound: int | None) -> tuple[NDArray, NDArray, NDArray]:
        """(ts, left references, right references) of the pairs up to a time, which are passed on thereby."""
        probers = self.prober[self.at : self.count]
        ts = self.by.arrival.ts[probers]
        stop = len(ts) if bound is None else int(ts.searchsorted(bound, side="right"))
        mine = self.row[self.at : self.at + stop] + self.base
        theirs = self.by.arrival.refs[probers[:stop]]
        self.at += stop
        return (ts[:stop], mine, theirs) if self.side.number == 0 else (ts[:stop], theirs, mine)

    def key_counts(self, slices: Slices) -> KeyCounts:
        """The counters of the shelf by key, set up if there are none."""
        shelf = self.shelf
        if shelf.key_counts is None:
            ends = slices.ends[: slices.ends.searchsorted(shelf.lifetime, side="right")]
            leaves = self.side.leaf_counts[0] if shelf.leaves else 1
            shelf.count_by_key(KeyCounts(shelf.store.ts.tail, ends, leaves))
        assert shelf.key_counts is not None, "counters that there are"
        return shelf.key_counts

    @property
    def last_ts(self) -> int:
        """Of the last pair found."""
        return int(self.by.arrival.ts[self.prober[self.count - 1]])

    def _check_restored(self) -> None:
        expect(0 <= self.at <= self.count <= len(self.row), "pairs that were found")
        expect(len(self.prober) == len(self.row), "pairs")
        size_of_two(len(self.row) // MIN_PAIRS, "pairs")
        if self.probes is None:
            expect(self.at == self.count, "no pairs")
            return
        if self.probes.done and self.at == self.count:
            return  # all has been given: the shelf may be another one by now
        rows = self.shelf.store.ts
        within(self.row[self.at : self.count], rows.tail, rows.end, "rows of a shelf")
        within(self.prober[self.at : self.count], 0, len(self.by.arrival.ts), "probers")
        expect(self.probes.done or len(self.probes.key_low) == len(self.by.arrival.ts), "probers")
        expect(self.base >> ROW_BITS < len(self.side.shelves) and not self.base & ROW_MASK, "a shelf")
        if not self.probes.done:
            expect(int(self.probes.cursor[PROBER]) <= len(self.by.arrival.ts), "a prober")
            expect(self.probes.end <= rows.end, "rows that are there")
            if self.shelf.index.kind not in FROM_ANYWHERE:
                rising(self.probes.row_from, "rows that probers see")


def set_out(directions: list[Direction], sides: tuple[Side, Side]) -> None:
    """The new rows of both sides are about to probe every shelf of the other, a direction for each shelf."""
    left, right = sides
    pairs = [(side, number) for side in sides for number in range(len(side.shelves))]
    if len(directions) != len(pairs):
        # Each has made room for the pairs of its shelf: in less, they would be given to members bit by bit.
        known = {(one.side.number, one.base): one for one in directions}
        directions[:] = [
            known.get((side.number, number << ROW_BITS)) or Direction() for side, number in pairs
        ]
    if len(left.shelves) == len(right.shelves) == 1:
        seen = [np.empty(len(side.arrival.ts), np.int64) for side in sides]
        firsts = left.shelves[0].first_row, right.shelves[0].first_row
        meet(left.arrival.ts, right.arrival.ts, *firsts, seen[0], seen[1])
        directions[0].begin(left, 0, right, probes_by(right, left, left.shelves[0], seen[1]))
        directions[1].begin(right, 0, left, probes_by(left, right, right.shelves[0], seen[0]))
        return
    for direction, (side, number) in zip(directions, pairs, strict=True):
        other, shelf = sides[1 - side.number], side.shelves[number]
        row_until = np.empty(len(other.arrival.ts), np.int64)
        precede(other.arrival.ts, shelf.new_ts, shelf.first_row, side is right, row_until)
        direction.begin(side, number, other, probes_by(other, side, shelf, row_until))


def probes_by(other: Side, side: Side, shelf: Shelf, row_until: NDArray) -> Probes:
    """The work of `other`'s new rows probing a shelf of `side`, each seeing the rows below row_until."""
    ts, seeking = shelf.store.ts, other.arrival
    if not len(row_until):
        return Probes(seeking.low, seeking.high, row_until, row_until, ts.end)
    row_from = np.empty(len(row_until), np.int64)
    if side.by_place:
        places = shelf.pos
        seen = first_places(
            seeking.ts, row_until, places.data, places.base, ts.tail,
            side.arrival.come_ts, side.arrival.come, shelf.lifetime, row_from,
        )  # fmt: skip
    elif shelf.lifetime == FOREVER:
        row_from.fill(ts.tail)
        seen = row_until.sum() - row_from.sum()
    else:
        seen = first_alive(seeking.ts, row_until, shelf.lifetime, ts.data, ts.base, ts.tail, ts.end, row_from)
    if seeking.reach is not None and is_worth_cutting(side, seeking.reach, shelf, int(seen)):
        pos = shelf.pos
        clock = side.clock(seeking.ts)
        seen = first_within(clock, seeking.reach, shelf.lifetime, pos.data, pos.base, row_from, row_until)
    side.seen.meet(int(seen))
    return Probes(seeking.low, seeking.high, row_from, row_until, ts.end)


def is_worth_cutting(side: Side, reach: NDArray, shelf: Shelf, seen: int) -> bool:
    """Whether to look up for each prober how far back it needs to look, or to find what nobody takes.

    seen: the rows of the shelf that all probers see together.
    """
    if not seen:
        return False
    if shelf.lifetime == FOREVER:
        spared = float(seen)
    else:
        spared = seen * max(0.0, 1.0 - float(reach.mean()) / shelf.lifetime)
    if shelf.index.kind not in FROM_ANYWHERE:
        return False
    if shelf.index.kind == "scan":
        return spared > SPARED_ROWS * len(reach)
    matches = spared * (side.seen.found / side.seen.met if side.seen.met else 1.0)
    return matches > SPARED_MATCHES * len(reach)

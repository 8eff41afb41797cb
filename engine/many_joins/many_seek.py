"""One step of the search in a join of many streams: rows of one more side for what has been found so far.

In:   seekers, which are rows found so far, each on behalf of a prober; a step (probe_order.py); which rows of
      the side each prober sees.
Out:  what is found with each row of the side that it finds, a chunk at a time.

By keys rows are found in a hash index. What only a comparison connects is scanned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.engine.indexes.hash import HashIndex
from penstock.engine.kernels.base.cursor import CURSOR_SLOTS, DONE
from penstock.engine.kernels.indexes.scan import run_scan
from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.keys.keys import combine, seek_codes
from penstock.engine.rows.store import Store
from penstock.engine.rows.types import SqlType

from .many_side import Keys, codes_on
from .probe_order import Step

CHUNK_ROWS = 32_768  # found at once

Seen = tuple[NDArray, NDArray]
"""The rows of a shelf that each prober sees: from, and below, row numbers."""


class Sought(Protocol):
    """A side of a join that is looked up by several of its keys (many_side.py)."""

    choices: list[Keys]
    text_slots: dict[int, int]

    @property
    def key_types(self) -> Sequence[SqlType]: ...

    @property
    def shelves(self) -> Sequence[SoughtShelf]:
        """Where its rows lie."""

    def codes_at(self, place: int, refs: NDArray) -> NDArray:
        """The codes of a key of rows."""

    def same_texts(
        self, place: int, refs: NDArray, other: Any, other_place: int, other_refs: NDArray
    ) -> NDArray:
        """Whether rows of this side and another, given in pairs, have the same text as a key; a byte each."""


class SoughtShelf(Protocol):
    """Rows of a side, with an index for each choice of keys."""

    lookups: list[HashIndex]

    @property
    def store(self) -> Store: ...


@dataclass(slots=True)
class Found:
    """Rows found so far: for each the prober, a position among those that seek now, and a reference to a row
    of each side that has been reached."""

    probers: NDArray
    refs: dict[int, NDArray]

    def take(self, positions: NDArray) -> Found:
        return Found(self.probers[positions], {side: rows[positions] for side, rows in self.refs.items()})


@dataclass(slots=True)
class Range:
    """The codes of a key, by its place, that each seeker looks for: both ends are among them."""

    place: int
    low: NDArray
    high: NDArray


def take_step(sides: Sequence[Sought], step: Step, known: Found, seen: Sequence[Seen]) -> Iterator[Found]:
    """What is known with each row that it finds; seen: for each shelf of the side."""
    side = sides[step.side]
    codes = [sides[one].codes_at(place, known.refs[one]) for one, place in step.sources]
    ranges = []
    for one in step.bounds:
        other, place = one.source
        from_ = sides[other].codes_at(place, known.refs[other])
        ranges.append(Range(one.place, *seek_codes(from_, side.key_types[one.place], one.band)))
    for number, bounds in enumerate(seen):
        if step.keys:
            chunks = find_equal(side, number, step.keys, codes, known.probers, bounds)
        else:
            chunks = find_within(side, number, ranges[0], known.probers, bounds)
        for seekers, rows in chunks:
            refs = rows + (number << ROW_BITS)
            keep = verify(sides, step, codes, ranges if step.keys else ranges[1:], known, seekers, refs)
            if keep is not None:
                seekers, refs = seekers[keep], refs[keep]
            if len(refs):
                found = known.take(seekers)
                found.refs[step.side] = refs
                yield found


def find_equal(
    side: Sought,
    number: int,
    keys: tuple[int, ...],
    codes: Sequence[NDArray],
    probers: NDArray,
    seen: Seen,
) -> Iterator[tuple[NDArray, NDArray]]:
    """Positions of seekers, and the rows of a shelf that have the hash of their keys."""
    lookup = side.shelves[number].lookups[side.choices.index(keys)]
    sought = combine(list(codes))
    cursor = np.zeros(CURSOR_SLOTS, np.int64)
    while not cursor[DONE]:
        seekers, rows = np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS, np.int64)
        count = lookup.find(sought, probers, *seen, cursor, seekers, rows)
        if count:
            yield seekers[:count], rows[:count]


def find_within(
    side: Sought, number: int, within: Range, probers: NDArray, seen: Seen
) -> Iterator[tuple[NDArray, NDArray]]:
    """Positions of seekers, and the rows of a shelf that have a key within bounds."""
    codes = codes_on(side.shelves[number], within.place)
    row_from, row_until = (bound[probers] for bound in seen)
    cursor = np.zeros(CURSOR_SLOTS, np.int64)
    while not cursor[DONE]:
        seekers, rows = np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS, np.int64)
        count = run_scan(
            codes.data, codes.base, within.low, within.high, row_from, row_until, cursor, seekers, rows, False
        )
        if count:
            yield seekers[:count], rows[:count]


def verify(
    sides: Sequence[Sought],
    step: Step,
    codes: Sequence[NDArray],
    ranges: Sequence[Range],
    known: Found,
    seekers: NDArray,
    refs: NDArray,
) -> NDArray | None:
    """Which of the rows found have equal keys, and others within their bounds; None: all."""
    side = sides[step.side]
    keep: NDArray | None = None
    for place, (other, other_place), sought in zip(step.keys, step.sources, codes, strict=True):
        if len(step.keys) > 1:
            same = side.codes_at(place, refs) == sought[seekers]
            keep = same if keep is None else keep & same
        if place in side.text_slots:
            theirs = known.refs[other][seekers]
            same = side.same_texts(place, refs, sides[other], other_place, theirs) > 0
            keep = same if keep is None else keep & same
    for one in ranges:
        own = side.codes_at(one.place, refs)
        inside = (own >= one.low[seekers]) & (own <= one.high[seekers])
        keep = inside if keep is None else keep & inside
    return None if keep is None or keep.all() else np.flatnonzero(keep)

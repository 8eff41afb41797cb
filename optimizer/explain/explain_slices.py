"""The slices of a shared join, or its parts, as EXPLAIN lists them: how many rows, who takes them, what lets
rows in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Protocol

import numpy as np

from penstock.engine.members.member import Member
from penstock.engine.rows.window import FOREVER
from penstock.engine.shelves.side import Side
from penstock.optimizer.share.describe_layout import Layout
from penstock.optimizer.share.join_load import seconds
from penstock.optimizer.share.selection import Selection
from penstock.optimizer.share.sharing_words import MOST_NAMES, aligned, few, write_range
from penstock.optimizer.share.workload import Probed, Workload

MOST_SLICES = 14  # shown of a side; of more, the first ones and the last
FIRST_SLICES = 6


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a side's ages, or what a part holds of a side, which is all ages up to its end.

    rows: to expect in it; selection: what lets rows in, the OR of so many conditions; queries: how many take
    it, `first` some of them; leaving: those whose window ends in it; merged: ends of slices inside.
    """

    start: int
    end: int
    rows: float
    selection: str
    conditions: int
    queries: int
    first: list[str]
    leaving: list[str]
    merged: list[int]

    def as_data(self, by_rows: bool) -> dict[str, Any]:
        return {
            "ages": write_range(self.start, self.end, by_rows),
            "start": self.start,
            "end": None if self.end == FOREVER else self.end,
            "rows": self.rows,
            "selection": self.selection,
            "conditions": self.conditions,
            "queries": self.queries,
            "leaving": self.leaving,
            "merged": self.merged,
        }


def slices_of(layout: Layout, side: Side, load: Workload, probed: Probed) -> list[Slice]:
    """The slices of a side, youngest first."""
    number, ends = side.number, layout.ends[side.number]
    ages = (seconds(end, layout.by_rows[number], probed.rate) for end in ends)
    at = probed.at(np.array([0.0, *ages]), load.horizon_s)
    shares = np.ones(len(ends)) if layout.keeps_all else at.needed[:-1]
    rows = (probed.rate * shares * np.diff(at.ends)).tolist()
    ordered = sorted(layout.members, key=lambda member: member.size(number))
    sizes = [member.size(number) for member in ordered]
    queries = Reach(layout, number)
    selection = Selection()
    found = []
    for start, end, count in reversed(list(zip([0, *ends[:-1]], ends, rows, strict=True))):
        first, last = bisect_right(sizes, start), bisect_right(sizes, end)
        for member in ordered[first:last]:
            selection.add(member.node.sides[number].predicate)
        text, conditions = ("all rows", 0) if layout.keeps_all else (str(selection), len(selection))
        inside = [] if layout.keeps_all else sorted({size for size in sizes[first:last] if size < end})
        leaving = queries.between(start, end)
        some = queries.beyond(start)
        found.append(
            Slice(start, end, count, text, conditions, queries.count_beyond(start), some, leaving, inside)
        )
    return found[::-1]


def parts_of(layout: Layout, side: Side, load: Workload, probed: Probed) -> list[Slice]:
    """What each part of a join in parts holds of a side, shortest lived first.

    Of the side that is split, rows that some query needs up to the part's end and none needs longer; of the
    other, all rows that some query needs.
    """
    number, parts = side.number, layout.parts
    split = parts[0].side
    ends = sorted({part.sizes[number] for part in parts})
    ages = (seconds(end, layout.by_rows[number], probed.rate) for end in ends)
    at = probed.at(np.array([0.0, *ages]), load.horizon_s)
    queries = Reach(layout, split)
    everyone, longer = Selection(), Selection()
    for member in layout.members:
        everyone.add(member.node.sides[number].predicate)
    found = []
    for part in reversed(parts):
        end = part.sizes[number]
        place = 1 + ends.index(end)
        share = at.needed[0]
        text, conditions = str(everyone), len(everyone)
        if number == split:
            share = at.needed[place - 1] - at.needed[place]
            own = [
                m.node.sides[number].predicate for m in layout.members if part.above < m.size(split) <= end
            ]
            text, conditions = longer.but_for(own)
            for predicate in own:
                longer.add(predicate)
        rows = float(probed.rate * share * at.ends[place])
        some = queries.up_to(part.up_to)
        leaving = queries.between(part.above, part.up_to)
        found.append(Slice(0, end, rows, text, conditions, len(some), some[:MOST_NAMES], leaving, []))
    return found[::-1]


class Sliced(Protocol):
    """What there is to know of a join to list its slices."""

    members: list[Member]
    noun: str

    @property
    def by_rows(self) -> Sequence[bool]: ...


class Reach:
    """Up to what age each query takes rows of a side, in the order of the queries."""

    def __init__(self, layout: Sliced, number: int) -> None:
        self._reach: dict[str, int] = {}
        for member in layout.members:
            reach = member.size(number)
            self._reach[member.query] = max(self._reach.get(member.query, 0), reach)
        self._sorted = sorted(self._reach.values())
        self._ending: dict[int, list[str]] = {}
        for name, size in self._reach.items():
            self._ending.setdefault(size, []).append(name)
        self._order = {name: place for place, name in enumerate(self._reach)}

    def count_beyond(self, age: int) -> int:
        return len(self._sorted) - bisect_right(self._sorted, age)

    def beyond(self, age: int) -> list[str]:
        """The first few that take rows older than this."""
        return list(islice((name for name, size in self._reach.items() if size > age), MOST_NAMES))

    def up_to(self, age: int) -> list[str]:
        """All that take no rows older than this."""
        return [name for name, size in self._reach.items() if size <= age]

    def between(self, start: int, end: int) -> list[str]:
        """Those whose last rows are older than `start` and no older than `end`."""
        first, last = bisect_right(self._sorted, start), bisect_right(self._sorted, end)
        names = (name for size in dict.fromkeys(self._sorted[first:last]) for name in self._ending[size])
        return sorted(names, key=self._order.__getitem__)


def slice_table(slices: Sequence[Slice], layout: Sliced, side: Side) -> list[str]:
    """A line per slice; under one that was merged, of which."""
    by_rows = layout.by_rows[side.number]
    cells = [["", "ages", "rows", "queries", "let in"]]
    places: Sequence[int] = range(len(slices))
    if len(slices) > MOST_SLICES:
        places = [*range(FIRST_SLICES), len(slices) - 1]
    for place in places:
        one = slices[place]
        ages = write_range(one.start, one.end, by_rows)
        names = f"{one.queries:,}: {few(one.first, one.queries)}"
        cells.append([str(place + 1), ages, f"{one.rows:,.0f}", names, one.selection])
    head, *lines = aligned(cells, (0, 2))
    out = [head]
    for at, (place, line) in enumerate(zip(places, lines, strict=True)):
        if at and place > places[at - 1] + 1:
            out.append(f"... {place - places[at - 1] - 1:,} more {layout.noun}s ...")
        out.append(line)
        merged = slices[place].merged
        if merged:
            ends = [slices[place].start, *merged, slices[place].end]
            ranges = [write_range(start, end, by_rows) for start, end in pairwise(ends)]
            more = f" ({len(ranges):,} slices)" if len(ranges) > MOST_NAMES else ""
            out.append(f"    merges {few(ranges)}{more}")
    return out

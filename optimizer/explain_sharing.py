"""Joins that several queries share, as EXPLAIN shows them: slices, who takes them, what each strategy costs.

A query's own tree says what it takes of the join. The join itself is described once, after all queries:

    ages                  rows  queries  let in
    [0, 10 SECONDS)     10,000  2        all rows               a slice: what lets rows in is the OR of the
    [10, 20 SECONDS)     3,333  1        a.value > 0.8          predicates of the queries that reach it

Rows are those to expect at the rates that were set or are assumed; their sum is the state of the strategy
that runs. Of a join in parts (push-down) the parts take the place of the slices.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from penstock.engine.arrangement import Part
from penstock.engine.chain import ChainGroup
from penstock.engine.expression import write_duration
from penstock.engine.group import Group
from penstock.engine.member import Member
from penstock.engine.operators.side import Side
from penstock.engine.plan import MemberNode, SourceNode
from penstock.engine.window import FOREVER

from .choose_indexes import choose_index
from .explain import (
    Description,
    condition_text,
    cost_line,
    keys_text,
    measure_group,
    measured_line,
    sides_of,
    span_s,
    where_lines,
)
from .load import expected_share, seconds, workload_of
from .selection import Selection
from .sharing_cost import (
    IndependentShares,
    Probed,
    StrategyCost,
    Workload,
    estimate_strategies,
)
from .statistics import JoinEstimate, Rates, estimate_common, measure_sides
from .weights import Weights

MOST_SLICES = 14  # shown of a side; of more, the first ones and the last
FIRST_SLICES = 6
MOST_NAMES = 4
NAMES = ("left", "right")


KEPT_BY = {"slices": "ages", "parts": "lifetime", "shelves": "lifetime", "joins": "query"}


class SharedJoins:
    """Describes the joins of an engine that several queries share; `analyze` adds what was measured."""

    def __init__(self, rates: Rates, weights: Weights, analyze: bool) -> None:
        self._rates = rates
        self._weights = weights
        self._analyze = analyze
        self._layouts: dict[int, Layout] = {}

    def take(self, node: MemberNode, number: int, group: Group, member: Member) -> Description:
        """What a query takes of a join; of one it takes no part in any more, what it took."""
        text = condition_text(node.join)
        shown = Description(f"Shared {name_of(group)}  {text}")
        shown.data = {"node": "SharedJoin", "id": number, "condition": text, "group": group.name}
        layout = self._layout(group) if member in group.members else None
        if layout is None:
            shown.title = f"WindowJoin {text}"
            shown.lines.append("no longer runs")
            shown.data |= {"node": "WindowJoin", "group": None}
        elif self._analyze:
            shown.lines.append(f"measured: {member.found:,} pairs")
            shown.data["measured"] = {"pairs": member.found}
        sources, sides = (node.join.left, node.join.right), (node.join.left_side, node.join.right_side)
        for at, (source, side) in enumerate(zip(sources, sides, strict=True)):
            assert isinstance(source, SourceNode), "a join's inputs are streams"
            one = Description(f"{NAMES[at]}: {source.stream} [{side.window}]")
            one.data = {
                "node": "SharedJoinSide",
                "side": NAMES[at],
                "stream": source.stream,
                "window": str(side.window),
                "predicate": None if side.predicate is None else str(side.predicate),
                "keys": [str(key) for key in side.keys],
            }
            if layout is not None:
                there = 1 - at if node.swapped else at
                one.title += f"  {layout.taken_text(member, there)}"
                if node.swapped:
                    one.title += f", {NAMES[there]} in {name_of(group)}"
                first, last, of = layout.taken(member, there)
                one.data |= {"group_side": NAMES[there], layout.noun + "s": [first, last], "of": of}
            if side.predicate is not None:
                one.lines += where_lines(side.predicate)
            shown.below.append(one)
        return shown

    def group(self, group: Group) -> Description:
        """A join that several queries share."""
        layout = self._layout(group)
        common = group.common
        text = keys_text(common.left.keys, common.right.keys, common.condition)
        shown = Description(f"Shared {name_of(group)}  {text}")
        runs = layout.runs
        shown.lines.append(f"strategy {group.strategy}" + ("" if runs == group.strategy else f": {runs}"))
        if layout.is_apart:
            shown.lines.append("a join for each query, while that costs clearly less than one for all")
        if any(join.arrangement.by_key and join.may_count_by_key for join in group.joins):
            shown.lines.append("pairs are counted by key, not found")
        names = list(dict.fromkeys(member.query for member in group.members))
        shown.lines.append(f"{counted(len(names), 'query', 'queries')}: {few(names)}")
        expected = estimate_common(group.members, common, self._rates)
        load = expected_load(layout, expected)
        kinds = self._kinds(layout, expected)
        costs = self._costs(layout, load, kinds)
        shown.data = {
            "group": group.name,
            "condition": text,
            "strategy": group.strategy,
            "runs": runs,
            "queries": names,
            "costs": costs_as_data(costs),
        }
        seen, seen_costs = expected, None
        if self._analyze:
            seen = measure_shared(layout, expected)
            if seen.measured:
                alone = group.joins if layout.is_apart else ()
                seen_load = workload_of(group.members, layout.sides, seen, alone)
                seen_costs = self._costs(layout, seen_load, kinds)
            self._measure(shown, layout, seen, seen_costs)
        probed = load.sides
        for side in layout.sides:
            shown.below.append(self._side(layout, side, expected, load, probed[side.number], kinds))
        shown.data["sides"] = [side.data for side in shown.below]
        title = "costs" if seen_costs is None else "costs, estimated and at the measured rates"
        shown.below.append(Description(title, lines=cost_table(costs, seen_costs, layout.priced_as)))
        return shown

    def _layout(self, group: Group) -> Layout:
        """How the join is laid out now, worked out once."""
        if id(group) not in self._layouts:
            self._layouts[id(group)] = Layout(group)
            if self._analyze:
                group.form.settle()
        return self._layouts[id(group)]

    def _kinds(self, layout: Layout, expected: JoinEstimate) -> tuple[str, str]:
        """Indexes to reckon with: those at work; of a chain, which has none, those that cost least."""
        left, right = (side.index_kind for side in layout.sides)
        if layout.is_chain:
            condition = layout.group.common.condition
            left, right = (
                choose_index(condition, direction, self._weights).kind
                for direction in (expected.by_right, expected.by_left)
            )
        return left, right

    def _costs(self, layout: Layout, load: Workload, kinds: tuple[str, str]) -> dict[str, StrategyCost]:
        """What each strategy costs; cpu-opt with the slices that it has, if it runs."""
        ends: tuple[list[float] | None, list[float] | None] = None, None
        if layout.runs == "cpu-opt":
            rates = load.left_rate, load.right_rate
            left, right = (
                [seconds(end, side, rates[side.number]) for end in layout.ends[side.number]]
                for side in layout.sides
            )
            ends = left, right
        return estimate_strategies(load, self._weights, kinds, *ends)

    # -- one side -----------------------------------------------------------------------------------

    def _side(
        self,
        layout: Layout,
        side: Side,
        expected: JoinEstimate,
        load: Workload,
        probed: Probed,
        kinds: tuple[str, str],
    ) -> Description:
        number, stream = side.number, side.common.stream
        longest = layout.longest(number)
        window = write_size(longest, side)
        found = [join.sides[number].index_kind for join in layout.group.joins]
        index = " and ".join(dict.fromkeys(found))
        how = f"index {index}" if index else "nested loops"
        is_known = self._rates.is_known(stream)
        slices = (parts_of if layout.parts else slices_of)(layout, side, load, probed)
        kept = sum(one.rows for one in slices)
        rate = (expected.left, expected.right)[number].rate
        shown = Description(f"{NAMES[number]}: {stream}  {how}, longest window {window}")
        shown.lines.append(
            f"{rate:,.0f} rows/s{'' if is_known else ' (assumed)'}, {kept:,.0f} rows kept"
            f"{'' if longest != FOREVER else ' (unbounded)'}"
        )
        shown.data = {
            "side": NAMES[number],
            "stream": stream,
            "keys": [str(key) for key in side.common.keys],
            "index": index or None,
            "longest_window": window,
            "unit": "rows" if side.by_place else "us",
            "rate": rate,
            "rate_assumed": not is_known,
            "state_rows": kept,
            "state_bounded": longest != FOREVER,
            layout.noun + "s": [one.as_data(side) for one in slices],
        }
        if not layout.is_chain:
            direction = expected.by_right if number == 0 else expected.by_left
            choice = choose_index(layout.group.common.condition, direction, self._weights, kinds[number])
            shown.lines.append(cost_line(choice))
            shown.data |= {"cost_cores": choice.cost, "costs": choice.costs}
        if self._analyze:
            self._measure_side(shown, layout, side)
        shown.lines += slice_table(slices, layout, side)
        return shown

    # -- measured -----------------------------------------------------------------------------------

    def _measure(
        self,
        shown: Description,
        layout: Layout,
        seen: JoinEstimate,
        costs: dict[str, StrategyCost] | None,
    ) -> None:
        group = layout.group
        done = measure_group(group)
        pairs = pairs_found(layout)
        by_query: dict[str, int] = {}
        for member in group.members:
            by_query[member.query] = by_query.get(member.query, 0) + member.found
        since = " since the parts were cut" if layout.parts else ""
        shown.lines.append(measured_line(done.rows_in, sum(by_query.values()), done.busy_s))
        shown.lines.append(f"measured: state {done.state_rows:,} rows, {done.state_bytes:,} bytes")
        shown.lines.append(f"measured: {pairs:,} pairs found{since}; given to {few_counts(by_query)}")
        shown.data["measured"] = {
            "rows_in": done.rows_in,
            "rows_out": sum(by_query.values()),
            "busy_s": done.busy_s,
            "state_rows": done.state_rows,
            "state_bytes": done.state_bytes,
            "pairs": pairs,
            "by_query": by_query,
        }
        if costs is None:
            return
        used = done.busy_s / span_s(*layout.sides)
        model = costs[layout.priced_as].cores
        shown.lines.append(
            f"measured: {seen.left.rate:,.0f} and {seen.right.rate:,.0f} rows/s, "
            f"{pairs / span_s(*layout.sides):,.0f} pairs/s; "
            f"at these the model says {model:.3g} cores, used were {used:.3g}"
        )
        shown.data["measured"] |= {
            "left_rate": seen.left.rate,
            "right_rate": seen.right.rate,
            "selectivity": seen.selectivity,
            "cost_cores_model": model,
            "cost_cores_used": used,
            "costs": costs_as_data(costs),
        }

    def _measure_side(self, shown: Description, layout: Layout, side: Side) -> None:
        """Rows of each shelf, slice or part of a side."""
        form = layout.group.form
        number = side.number
        held: list[tuple[str, int]]
        if isinstance(form, ChainGroup):
            plural = "slices"
            ranges = pairwise([0, *layout.ends[number]])
            held = [
                (write_range(start, end, side), len(one.females(number)))
                for (start, end), one in zip(ranges, form.slices, strict=False)
            ]
        elif layout.is_apart:
            plural = "joins"
            held = [(join.members[0].query, len(join.sides[number])) for join in layout.group.joins]
        elif layout.parts:
            plural = "parts"
            held = [
                (write_size(part.up_to, layout.sides[part.side]), len(join.sides[number]))
                for part, join in zip(layout.parts, layout.group.joins, strict=True)
            ]
        else:
            plural = "shelves"
            shelves = sorted(side.shelves, key=lambda shelf: shelf.lifetime)
            held = [(write_size(shelf.lifetime, side), len(shelf)) for shelf in shelves]
        rows = sum(count for _, count in held)
        each = few_counts(dict(held)) if held else "nothing"
        shown.lines.append(f"measured: {side.rows_in:,} rows in, {rows:,} kept; {plural}: {each}")
        shown.data["measured"] = {
            "rows_in": side.rows_in,
            "state_rows": rows,
            plural: [{KEPT_BY[plural]: name, "rows": n} for name, n in held],
        }


# -- how a join is laid out -------------------------------------------------------------------------------


class Layout:
    """A shared join as it runs: `ends` of the slices of each side, or its parts. Sizes in us or rows."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.members = group.members
        self.sides = sides_of(group)
        self.is_chain = isinstance(group.form, ChainGroup)
        arrangements = [join.arrangement for join in group.joins]
        self.parts: list[Part] = [one.part for one in arrangements if one.part is not None]
        self.is_apart = len(arrangements) > 1 and not self.parts
        """Whether each query has a join of its own for now."""
        self.keeps_all = not self.is_chain and not self.parts and not arrangements[0].by_lifetime
        """Whether all rows are kept for the longest window."""
        self.ends = self._ends(0), self._ends(1)
        self.noun = "part" if self.parts else "slice"

    def _ends(self, number: int) -> list[int]:
        """Where the slices of a side end, ascending, the last at the longest window."""
        longest = self.longest(number)
        form = self.group.form
        if self.keeps_all or self.parts:
            return [longest]
        if isinstance(form, ChainGroup):
            ends: Iterable[int] = [one.end for one in form.slices]
        else:
            merged = self.group.joins[0].arrangement.ends[number]
            ends = {member.size(number) for member in self.members} if merged is None else merged
        return [*sorted(end for end in ends if end < longest), longest]

    def longest(self, number: int) -> int:
        return max(member.size(number) for member in self.members)

    @property
    def runs(self) -> str:
        """The strategy that runs, whatever was asked for."""
        strategy = self.group.strategy
        if self.is_chain or strategy in ("mem-opt", "cpu-opt"):
            return strategy
        if self.parts:
            return "push-down"
        if self.is_apart:
            return "unshared"
        if self.keeps_all:
            return "pull-up"
        return "mem-opt" if self.group.joins[0].arrangement.ends == (None, None) else "cpu-opt"

    @property
    def priced_as(self) -> str:
        """The strategy whose costs stand for what runs: a chain is priced as if no slices were merged."""
        return "chain" if self.is_chain else self.runs

    def taken(self, member: Member, number: int) -> tuple[int, int, int]:
        """First and last slice or part that a member takes, counted from 1, and how many there are."""
        if self.parts:
            size = member.size(self.parts[0].side)
            first = next(at for at, part in enumerate(self.parts, 1) if part.up_to >= size)
            return first, len(self.parts), len(self.parts)
        ends = self.ends[number]
        return 1, bisect_left(ends, member.size(number)) + 1, len(ends)

    def taken_text(self, member: Member, number: int) -> str:
        """The same in words, and where in the last slice its window ends."""
        first, last, of = self.taken(member, number)
        text = f"{self.noun} {first}" if first == last else f"{self.noun}s {first} to {last}"
        size = member.size(number)
        is_inside = not self.parts and self.ends[number][last - 1] > size
        until = f", {'the last ' if last > first else ''}up to {write_size(size, self.sides[number])}"
        return f"{text} of {of}{until if is_inside else ''}"


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

    def as_data(self, side: Side) -> dict[str, Any]:
        return {
            "ages": write_range(self.start, self.end, side),
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
    at = probed.at(np.array([0.0, *(seconds(end, side, probed.rate) for end in ends)]), load.horizon_s)
    shares = np.ones(len(ends)) if layout.keeps_all else at.needed[:-1]
    rows = (probed.rate * shares * np.diff(at.ends)).tolist()
    ordered = sorted(layout.members, key=lambda member: member.size(number))
    sizes = [member.size(number) for member in ordered]
    queries = Reach(layout.members, number)
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
    at = probed.at(np.array([0.0, *(seconds(end, side, probed.rate) for end in ends)]), load.horizon_s)
    queries = Reach(layout.members, split)
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


class Reach:
    """Up to what age each query takes rows of a side, in the order of the queries."""

    def __init__(self, members: Sequence[Member], number: int) -> None:
        self._reach: dict[str, int] = {}
        for member in members:
            self._reach[member.query] = max(self._reach.get(member.query, 0), member.size(number))
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


# -- loads ------------------------------------------------------------------------------------------------


def expected_load(layout: Layout, expected: JoinEstimate) -> Workload:
    """The load at the rates and shares to expect, whatever has been measured."""
    load = workload_of(layout.members, layout.sides, expected)
    left, right = (
        IndependentShares(
            {
                predicate: expected_share(predicate)
                for member in layout.members
                if (predicate := member.node.sides[number].predicate) is not None
            }
        )
        for number in (0, 1)
    )
    return replace(load, left_pass=left, right_pass=right)


def measure_shared(layout: Layout, expected: JoinEstimate) -> JoinEstimate:
    """What a shared join has shown so far, in all its parts; what is expected, where that is too little."""
    seen = measure_sides(*layout.sides, expected)
    if not seen.measured:
        return seen
    pairs = pairs_found(layout)
    if layout.is_chain:
        return seen
    met = sum(side.met for join in layout.group.joins for side in join.sides)
    return replace(seen, selectivity=min(pairs / met, 1.0)) if met else seen


def pairs_found(layout: Layout) -> int:
    """Pairs found so far, each once however many queries take it."""
    form = layout.group.form
    if isinstance(form, ChainGroup):
        return sum(one.counters.rows_out for one in form.slices)
    return sum(side.found for join in layout.group.joins for side in join.sides)


# -- words and tables -------------------------------------------------------------------------------------


def name_of(group: Group) -> str:
    """What a join is called; one that a query has for itself, after the query."""
    return group.name if group.common.owner is None else f"join of {group.name}"


def write_size(size: int, side: Side) -> str:
    """A window or an age: a duration, or so many rows."""
    if size == FOREVER:
        return "unbounded"
    return counted(size, "ROW", "ROWS") if side.by_place else write_duration(size)


def write_range(start: int, end: int, side: Side) -> str:
    """A range of ages; the unit once if both ends have it."""
    low, high = write_size(start, side), write_size(end, side)
    number, unit = low.split(" ", 1)
    is_same = start == 0 or unit.removesuffix("S") == high.partition(" ")[2].removesuffix("S")
    return f"[{number if is_same else low}, {high})"


def counted(count: int, noun: str, plural: str) -> str:
    return f"{count:,} {noun if count == 1 else plural}"


def few(names: Sequence[str], count: int | None = None) -> str:
    """The first of so many names."""
    count = len(names) if count is None else count
    return ", ".join(names[:MOST_NAMES]) + (", ..." if count > MOST_NAMES else "")


def few_counts(counts: Mapping[str, int]) -> str:
    """The first of some counts, by name."""
    shown = [f"{name} {count:,}" for name, count in islice(counts.items(), MOST_NAMES)]
    return ", ".join(shown) + (f", ... ({len(counts):,})" if len(counts) > MOST_NAMES else "")


def slice_table(slices: Sequence[Slice], layout: Layout, side: Side) -> list[str]:
    """A line per slice; under one that was merged, of which."""
    cells = [["", "ages", "rows", "queries", "let in"]]
    places: Sequence[int] = range(len(slices))
    if len(slices) > MOST_SLICES:
        places = [*range(FIRST_SLICES), len(slices) - 1]
    for place in places:
        one = slices[place]
        ages = write_range(one.start, one.end, side)
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
            ranges = [write_range(start, end, side) for start, end in pairwise(ends)]
            more = f" ({len(ranges):,} slices)" if len(ranges) > MOST_NAMES else ""
            out.append(f"    merges {few(ranges)}{more}")
    return out


def cost_table(
    costs: Mapping[str, StrategyCost], measured: Mapping[str, StrategyCost] | None, running: str
) -> list[str]:
    """What each strategy keeps and costs, the running one marked."""
    head = ["", "strategy", "state rows", "cores"]
    cells = [[*head, *(["state rows", "cores"] if measured else []), ""]]
    for name, cost in costs.items():
        both = [cost] if measured is None else [cost, measured[name]]
        numbers = [text for one in both for text in (f"{one.state_rows:,.0f}", f"{one.cores:.3g}")]
        cells.append(["*" if name == running else "", name, *numbers, both[-1].note])
    return aligned(cells, range(2, len(cells[0]) - 1))


def costs_as_data(costs: Mapping[str, StrategyCost]) -> dict[str, Any]:
    return {
        name: {"state_rows": cost.state_rows, "cores": cost.cores, "note": cost.note}
        for name, cost in costs.items()
    }


def aligned(cells: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """Rows of a table as lines; the last column as long as it is."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]

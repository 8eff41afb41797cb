"""Joins of three or more streams, as EXPLAIN shows them: how rows find their partners, and who takes what.

a   finds b by k, then c by k             what was found is not kept: the next row seeks anew
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.engine.expressions.expression import Expression
from penstock.engine.many_joins.many_join import ManyJoin
from penstock.engine.many_joins.many_side import ManySide
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonManyJoin, ManyJoinNode, MemberNode, SourceNode
from penstock.engine.rows.window import FOREVER
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.costs.write_rate import write_rate
from penstock.optimizer.share.many_cost import (
    TWO_BY_TWO,
    estimate_sides,
    many_cost,
    many_costs,
    rows_between,
    share_found,
    two_by_two,
)
from penstock.optimizer.share.selection import Selection
from penstock.optimizer.share.sharing_words import (
    cost_table,
    costs_as_data,
    counted,
    few,
    few_counts,
    name_of,
    write_size,
)

from .description import Description, measured_line
from .explain_slices import Reach, Slice, slice_table
from .explain_text import band_text, where_lines


def join_of(shared_join: SharedJoin) -> ManyJoin | None:
    """The operator of a join of three or more streams, None for other joins."""
    first = shared_join.form.operators[0]
    return first if isinstance(first, ManyJoin) else None


class ManyLayout:
    """The slices of such a join: each side's ages between two windows."""

    noun = "slice"

    def __init__(self, shared_join: SharedJoin, join: ManyJoin) -> None:
        shared_join.refresh()
        self.members = shared_join.members
        self.by_rows = [side.kind == "rows" for side in join.common.sides]
        self.keeps_all = shared_join.strategy == "pull-up"
        self._merged = [side.terms.allowed_ends for side in join.sides]

    def ends(self, number: int) -> list[int]:
        """Where the slices of a side end."""
        sizes = sorted({member.sizes[number] for member in self.members})
        merged = self._merged[number]
        if self.keeps_all:
            return sizes[-1:]
        return sizes if merged is None else [int(end) for end in merged]

    @property
    def runs(self) -> str:
        """The strategy that runs, whatever was asked for."""
        if self.keeps_all:
            return "pull-up"
        return "mem-opt" if all(ends is None for ends in self._merged) else "cpu-opt"

    def slices(self, number: int, rate: float) -> list[Slice]:
        """The slices of a side, youngest first."""
        ends, reach = self.ends(number), Reach(self, number)
        found = []
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            selection = Selection()
            for member in self.members:
                if member.sizes[number] > start:
                    selection.add(member.predicates[number])
            text, conditions = ("all rows", 0) if self.keeps_all else (str(selection), len(selection))
            rows = rows_between(self.members, number, start, end, rate)
            if self.keeps_all:
                rows = estimate_sides(self.members, [rate] * (number + 1), keeps_all=True)[number].rows
            sizes = {member.sizes[number] for member in self.members}
            inside = [] if self.keeps_all else sorted(size for size in sizes if start < size < end)
            leaving, some = reach.between(start, end), reach.beyond(start)
            count = reach.count_beyond(start)
            found.append(Slice(start, end, rows, text, conditions, count, some, leaving, inside))
        return found


class ManyExplainer:
    """Describes them; `analyze` adds what was measured."""

    def __init__(self, rates: Rates, weights: Weights, analyze: bool) -> None:
        self._rates = rates
        self._weights = weights
        self._analyze = analyze

    def take(
        self, node: MemberNode, number: int, shared_join: SharedJoin, member: Member, shared: bool
    ) -> Description:
        """What a query takes of a join; shared: with others."""
        many, join = node.join, join_of(shared_join)
        assert isinstance(many, ManyJoinNode) and join is not None, "a join of many streams"
        text = condition_of(many)
        there = member in shared_join.members
        shown = Description(
            f"Shared {name_of(shared_join)}  {text}" if shared and there else f"WindowJoin {text}"
        )
        shown.data.update(
            {
                "node": "SharedJoin" if shared and there else "WindowJoin",
                "id": number,
                "condition": text,
                "group": shared_join.name if shared and there else None,
            }
        )
        if not there:
            shown.lines.append("no longer runs")
        elif not shared:
            self._alone(shown, shared_join, join)
        elif self._analyze:
            shared_join.form.settle()
            shown.lines.append(f"measured: {member.found:,} rows")
            shown.data["measured"] = {"rows": member.found}
        layout = ManyLayout(shared_join, join) if there else None
        for at, (source, side) in enumerate(zip(many.inputs, many.sides, strict=True)):
            assert isinstance(source, SourceNode), "a join's inputs are streams"
            one = Description(f"{source.stream} [{side.window}]")
            one.data.update(
                {
                    "node": "SharedJoinSide" if shared else "JoinSide",
                    "stream": source.stream,
                    "window": str(side.window),
                    "predicate": None if side.predicate is None else str(side.predicate),
                    "keys": [str(key) for key in side.keys],
                }
            )
            if layout is not None and shared:
                ends = layout.ends(node.order[at])
                last = next(i for i, end in enumerate(ends, 1) if end >= member.sizes[node.order[at]])
                slices = "slice 1" if last == 1 else f"slices 1 to {last}"
                one.add_to_title(f"  {slices} of {len(ends)}")
                one.data.update({"slices": [1, last], "of": len(ends)})
            if side.predicate is not None:
                one.lines.extend(where_lines(side.predicate))
            if layout is not None and not shared:
                one.lines.extend(self._side_lines(join.sides[node.order[at]], shared_join.members))
            shown.below.append(one)
        return shown

    def _alone(self, shown: Description, shared_join: SharedJoin, join: ManyJoin) -> None:
        rates = self._rates_of(join)
        estimate = estimate_sides(shared_join.members, rates, keeps_all=shared_join.strategy == "pull-up")
        share_of = partial(share_found, join)
        cost, results = many_cost(estimate, join.orders, share_of, self._weights)
        pairs_rows, pairs_cost = two_by_two(estimate, join.orders, share_of, self._weights)
        rows = sum(side.rows for side in estimate)
        is_bounded = all(size != FOREVER for member in shared_join.members for size in member.sizes)
        shown.lines.append(
            f"cost {cost:.3g} cores, state {rows:,.0f} rows ({'bounded' if is_bounded else 'unbounded'}), "
            f"{write_rate(results)} results/s"
        )
        shown.lines.append(f"{TWO_BY_TWO}: cost {pairs_cost:.3g} cores, state {pairs_rows:,.0f} rows")
        shown.data.update(
            {
                "cost_cores": cost,
                "state_rows": rows,
                "state_bounded": is_bounded,
                "two_by_two": {"cost_cores": pairs_cost, "state_rows": pairs_rows},
            }
        )
        if self._analyze:
            self._measure(shown, shared_join, join)

    def _side_lines(self, side: ManySide, members: Sequence[Member]) -> list[str]:
        stream = side.common.stream
        rate = self._rates.of_stream(stream)
        rates = [self._rates.of_stream(stream)] * (side.number + 1)
        estimate = estimate_sides(members, rates, keeps_all=False)[side.number]
        is_known = self._rates.is_known(stream)
        said = f"{write_rate(rate)} rows/s{'' if is_known else ' (assumed)'}"
        lines = [f"{said}, {estimate.rows:,.0f} rows in the window"]
        if self._analyze:
            lines.append(f"measured: {side.seen.rows_in:,} rows in, {len(side):,} kept")
        return lines

    def _rates_of(self, join: ManyJoin) -> list[float]:
        return [self._rates.of_stream(side.stream) for side in join.common.sides]

    def shared_join(self, shared_join: SharedJoin) -> Description:
        """A join that several queries share."""
        join = join_of(shared_join)
        assert join is not None, "a join of many streams"
        layout = ManyLayout(shared_join, join)
        text = condition_of(join.common)
        shown = Description(f"Shared {name_of(shared_join)}  {text}")
        runs = layout.runs
        shown.lines.append(
            f"strategy {shared_join.strategy}" + ("" if runs == shared_join.strategy else f": {runs}")
        )
        if runs != shared_join.strategy and shared_join.strategy != "auto":
            shown.lines.append(
                f"{shared_join.strategy} is for two streams: rows of more are kept by lifetime"
            )
        names = list(dict.fromkeys(member.query for member in shared_join.members))
        shown.lines.append(f"{counted(len(names), 'query', 'queries')}: {few(names)}")
        rates = self._rates_of(join)
        costs = many_costs(shared_join.members, rates, join.orders, partial(share_found, join), self._weights)
        shown.data.update(
            {
                "group": shared_join.name,
                "condition": text,
                "strategy": shared_join.strategy,
                "runs": runs,
                "queries": names,
                "costs": costs_as_data(costs),
            }
        )
        if self._analyze:
            self._measure(shown, shared_join, join)
        for side in join.sides:
            shown.below.append(self._side(layout, join, side, rates[side.number]))
        shown.data["sides"] = [side.data for side in shown.below]
        shown.below.append(
            Description("costs", lines=cost_table(costs, None, "pull-up" if layout.keeps_all else "mem-opt"))
        )
        return shown

    def _side(self, layout: ManyLayout, join: ManyJoin, side: ManySide, rate: float) -> Description:
        stream, number = side.common.stream, side.number
        slices = layout.slices(number, rate)
        longest = layout.ends(number)[-1]
        kept = sum(one.rows for one in slices)
        is_known = self._rates.is_known(stream)
        by_rows = layout.by_rows[number]
        shown = Description(f"{number + 1}: {stream}  longest window {write_size(longest, by_rows)}")
        shown.lines.append(
            f"{write_rate(rate)} rows/s{'' if is_known else ' (assumed)'}, {kept:,.0f} rows kept"
            f"{'' if longest != FOREVER else ' (unbounded)'}"
        )
        path = path_of(join, number)
        shown.lines.append(f"finds {path}")
        shown.data.update(
            {
                "side": number + 1,
                "stream": stream,
                "keys": [str(key) for key in side.common.keys],
                "finds": path,
                "rate": rate,
                "rate_assumed": not is_known,
                "state_rows": kept,
                "state_bounded": longest != FOREVER,
                "unit": "rows" if by_rows else "us",
                "slices": [one.as_data(by_rows) for one in slices],
            }
        )
        if self._analyze:
            shown.lines.append(f"measured: {side.seen.rows_in:,} rows in, {len(side):,} kept")
            shown.data["measured"] = {"rows_in": side.seen.rows_in, "state_rows": len(side)}
        shown.lines.extend(slice_table(slices, layout, side))
        return shown

    def _measure(self, shown: Description, shared_join: SharedJoin, join: ManyJoin) -> None:
        shared_join.form.settle()
        counters = join.counters
        given: dict[str, int] = {}
        for member in shared_join.members:
            given[member.query] = given.get(member.query, 0) + member.found
        shown.lines.append(measured_line(counters.rows_in, counters.rows_out, counters.busy_s))
        shown.lines.append(f"measured: state {join.state_rows:,} rows, {join.state_bytes:,} bytes")
        if len(given) > 1:
            shown.lines.append(f"measured: given to {few_counts(given)}")
        shown.data["measured"] = {
            "rows_in": counters.rows_in,
            "rows_out": counters.rows_out,
            "busy_s": counters.busy_s,
            "state_rows": join.state_rows,
            "state_bytes": join.state_bytes,
            "by_query": given,
        }


def path_of(join: ManyJoin, number: int) -> str:
    """How rows of a side find their partners."""
    names = [f"{side.stream}" for side in join.common.sides]
    if len(set(names)) < len(names):  # a stream that is joined with itself
        names = [f"{name} ({at})" for at, name in enumerate(names, 1)]
    found = []
    for step in join.orders[number]:
        keys = join.common.sides[step.side].keys
        places = dict.fromkeys([*step.keys, *(one.place for one in step.bounds)])
        found.append(f"{names[step.side]} by {', '.join(str(keys[place]) for place in places)}")
    return ", then ".join(found)


def condition_of(join: ManyJoinNode | CommonManyJoin) -> str:
    """What is equal, as the query writes it or over the streams, and what lies in bands."""
    terms: dict[int, list[Expression]] = {}
    for keys, numbers in zip((side.keys for side in join.sides), join.variables, strict=True):
        for key, number in zip(keys, numbers, strict=True):
            terms.setdefault(number, []).append(key)
    equal = [" = ".join(map(str, one)) for _, one in sorted(terms.items()) if len(one) > 1]
    bands = [
        band_text(str(left), str(right), one.band, left.type)
        for one in join.bands
        for left, right in [(terms[one.left][0], terms[one.right][0])]
    ]
    return " AND ".join([*equal, *bands])

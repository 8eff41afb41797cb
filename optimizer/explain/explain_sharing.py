"""Joins that several queries share, as EXPLAIN shows them: slices, who takes them, what each strategy costs.

A query's own tree says what it takes of the join. The join itself is described once, after all queries:

    ages                  rows  queries  let in
    [0, 10 SECONDS)     10,000  2        all rows               a slice: what lets rows in is the OR of the
    [10, 20 SECONDS)     3,333  1        a.value > 0.8          predicates of the queries that reach it

Rows are those to expect at the rates that were set or are assumed; their sum is the state of the strategy
that runs. Of a join in parts (push-down) the parts take the place of the slices.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from penstock.engine.chain.chain import ChainGroup
from penstock.engine.join_forms.facts import work_of_form
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin, CommonManyJoin, JoinNode, MemberNode, SourceNode
from penstock.engine.rows.band import Band
from penstock.engine.rows.window import FOREVER
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.engine.shelves.side import Side
from penstock.optimizer.costs.statistics import JoinEstimate, Rates, estimate_common, measure_sides
from penstock.optimizer.costs.strategy_cost import StrategyCost
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.costs.write_rate import write_rate
from penstock.optimizer.plan.choose_index import choose_index
from penstock.optimizer.share.describe_layout import Layout
from penstock.optimizer.share.join_load import expected_share, seconds, workload_of
from penstock.optimizer.share.lay_out_joins import ENTER_GAIN
from penstock.optimizer.share.sharing_cost import estimate_strategies
from penstock.optimizer.share.sharing_words import (
    cost_table,
    costs_as_data,
    counted,
    few,
    few_counts,
    name_of,
    write_range,
    write_size,
)
from penstock.optimizer.share.workload import IndependentShares, Probed, Workload

from .description import Description, measured_line
from .explain import condition_text, cost_line, keys_text, span_s
from .explain_many import ManyExplainer
from .explain_slices import parts_of, slice_table, slices_of
from .explain_text import where_lines

NAMES = ("left", "right")
AUTO = ("mem-opt", "cpu-opt", "unshared")
"""What `auto` chooses from."""


KEPT_BY = {"slices": "ages", "parts": "lifetime", "shelves": "lifetime", "joins": "query"}


class SharedJoins:
    """Describes the joins of an engine that several queries share; `analyze` adds what was measured."""

    def __init__(self, rates: Rates, weights: Weights, analyze: bool) -> None:
        self._rates = rates
        self._weights = weights
        self._analyze = analyze
        self._layouts: dict[int, Layout] = {}

    def take(self, node: MemberNode, number: int, shared_join: SharedJoin, member: Member) -> Description:
        """What a query takes of a join; of one it takes no part in any more, what it took."""
        assert isinstance(node.join, JoinNode), "a join of two streams"
        text = condition_text(node.join)
        shown = Description(f"Shared {name_of(shared_join)}  {text}")
        shown.data.update({"node": "SharedJoin", "id": number, "condition": text, "group": shared_join.name})
        layout = self._layout(shared_join) if member in shared_join.members else None
        if layout is None:
            shown.retitle(f"WindowJoin {text}")
            shown.lines.append("no longer runs")
            shown.data.update({"node": "WindowJoin", "group": None})
        elif self._analyze:
            shown.lines.append(f"measured: {member.found:,} pairs")
            shown.data["measured"] = {"pairs": member.found}
        sources, sides = (node.join.left, node.join.right), (node.join.left_side, node.join.right_side)
        for at, (source, side) in enumerate(zip(sources, sides, strict=True)):
            assert isinstance(source, SourceNode), "a join's inputs are streams"
            one = Description(f"{NAMES[at]}: {source.stream} [{side.window}]")
            one.data.update(
                {
                    "node": "SharedJoinSide",
                    "side": NAMES[at],
                    "stream": source.stream,
                    "window": str(side.window),
                    "predicate": None if side.predicate is None else str(side.predicate),
                    "keys": [str(key) for key in side.keys],
                }
            )
            if layout is not None:
                there = 1 - at if node.swapped else at
                one.add_to_title(f"  {layout.taken_text(member, there)}")
                if node.swapped:
                    one.add_to_title(f", {NAMES[there]} in {name_of(shared_join)}")
                first, last, of = layout.taken(member, there)
                one.data.update({"group_side": NAMES[there], layout.noun + "s": [first, last], "of": of})
            if side.predicate is not None:
                one.lines.extend(where_lines(side.predicate))
            shown.below.append(one)
        return shown

    def shared_join(self, shared_join: SharedJoin) -> Description:
        """A join that several queries share."""
        common = shared_join.common
        if isinstance(common, CommonManyJoin):
            return ManyExplainer(self._rates, self._weights, self._analyze).shared_join(shared_join)
        layout = self._layout(shared_join)
        text = keys_text(common.left.keys, common.right.keys, common.condition)
        shown = Description(f"Shared {name_of(shared_join)}  {text}")
        runs = layout.runs
        shown.lines.append(
            f"strategy {shared_join.strategy}" + ("" if runs == shared_join.strategy else f": {runs}")
        )
        if layout.is_apart:
            shown.lines.append("a join for each query, while that costs clearly less than one for all")
        if any(join.layout.by_key and join.may_count_by_key for join in shared_join.joins):
            shown.lines.append("pairs are counted by key, not found")
        names = list(dict.fromkeys(member.query for member in shared_join.members))
        shown.lines.append(f"{counted(len(names), 'query', 'queries')}: {few(names)}")
        expected = estimate_common(shared_join.members, common, self._rates)
        load = expected_load(layout, expected)
        kinds = self._kinds(layout, expected)
        costs = self._costs(layout, load, kinds)
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
        seen, seen_costs = expected, None
        if self._analyze:
            seen = measure_shared(layout, expected)
            if seen.measured:
                alone = shared_join.joins if layout.is_apart else ()
                seen_load = workload_of(shared_join.members, layout.sides, seen, alone)
                seen_costs = self._costs(layout, seen_load, kinds)
            self._measure(shown, layout, seen, seen_costs)
        probed = load.sides
        for side in layout.sides:
            shown.below.append(self._side(layout, side, expected, load, probed[side.number], kinds))
        shown.data["sides"] = [side.data for side in shown.below]
        title = "costs" if seen_costs is None else "costs, estimated and at the measured rates"
        lines = cost_table(costs, seen_costs, layout.priced_as)
        if shared_join.strategy == "auto":
            lines += why_it_stays(costs if seen_costs is None else seen_costs, layout.priced_as)
        shown.below.append(Description(title, lines=lines))
        return shown

    def _layout(self, shared_join: SharedJoin) -> Layout:
        """How the join is laid out now, worked out once."""
        if id(shared_join) not in self._layouts:
            self._layouts[id(shared_join)] = Layout(shared_join)
            if self._analyze:
                shared_join.form.settle()
        return self._layouts[id(shared_join)]

    def _kinds(self, layout: Layout, expected: JoinEstimate) -> tuple[str, str]:
        """Indexes to reckon with: those at work; of a chain, which has none, those that cost least."""
        left, right = (side.kept.index_kind for side in layout.sides)
        if layout.is_chain:
            condition = condition_of(layout.shared_join)
            left, right = (
                choose_index(condition, direction, self._weights).kind
                for direction in (expected.by_right, expected.by_left)
            )
        return left, right

    def _costs(self, layout: Layout, load: Workload, kinds: tuple[str, str]) -> dict[str, StrategyCost]:
        """What each strategy costs; cpu-opt and chain-cpu with the slices that they have, if they run."""
        ends: tuple[list[float] | None, list[float] | None] = None, None
        if layout.runs == "cpu-opt":
            rates = load.left_rate, load.right_rate
            left, right = (
                [seconds(end, layout.by_rows[at], rates[at]) for end in layout.ends[at]] for at in (0, 1)
            )
            # a ROWS window that is reckoned at another rate than that of the load may end elsewhere
            longest = [float(asked.windows_s.max()) for asked in load.asked]
            ends = [*left, longest[0]], [*right, longest[1]]
        gives = not all(member.counting for member in layout.shared_join.members)
        return estimate_strategies(
            load, self._weights, kinds, *ends, is_delivering=gives, slice_ends=layout.slice_ends
        )

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
        by_rows = layout.by_rows[number]
        window = write_size(longest, by_rows)
        found = [join.sides[number].kept.index_kind for join in layout.shared_join.joins]
        index = " and ".join(dict.fromkeys(found))
        how = f"index {index}" if index else "nested loops"
        is_known = self._rates.is_known(stream)
        slices = (parts_of if layout.parts else slices_of)(layout, side, load, probed)
        kept = sum(one.rows for one in slices)
        rate = (expected.left, expected.right)[number].rate
        shown = Description(f"{NAMES[number]}: {stream}  {how}, longest window {window}")
        shown.lines.append(
            f"{write_rate(rate)} rows/s{'' if is_known else ' (assumed)'}, {kept:,.0f} rows kept"
            f"{'' if longest != FOREVER else ' (unbounded)'}"
        )
        shown.data.update(
            {
                "side": NAMES[number],
                "stream": stream,
                "keys": [str(key) for key in side.common.keys],
                "index": index or None,
                "longest_window": window,
                "unit": "rows" if by_rows else "us",
                "rate": rate,
                "rate_assumed": not is_known,
                "state_rows": kept,
                "state_bounded": longest != FOREVER,
                layout.noun + "s": [one.as_data(by_rows) for one in slices],
            }
        )
        if not layout.is_chain:
            direction = expected.by_right if number == 0 else expected.by_left
            choice = choose_index(condition_of(layout.shared_join), direction, self._weights, kinds[number])
            shown.lines.append(cost_line(choice))
            shown.data.update({"cost_cores": choice.cost, "costs": choice.costs})
        if self._analyze:
            self._measure_side(shown, layout, side)
        shown.lines.extend(slice_table(slices, layout, side))
        return shown

    # -- measured -----------------------------------------------------------------------------------

    def _measure(
        self,
        shown: Description,
        layout: Layout,
        seen: JoinEstimate,
        costs: dict[str, StrategyCost] | None,
    ) -> None:
        shared_join = layout.shared_join
        done = work_of_form(shared_join.form)
        pairs = pairs_found(layout)
        by_query: dict[str, int] = {}
        for member in shared_join.members:
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
            f"measured: {write_rate(seen.left.rate)} and {write_rate(seen.right.rate)} rows/s, "
            f"{write_rate(pairs / span_s(*layout.sides))} pairs/s; "
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
        form = layout.shared_join.form
        number = side.number
        held: list[tuple[str, int]]
        if isinstance(form, ChainGroup):
            plural = "slices"
            ranges = pairwise([0, *layout.ends[number]])
            held = [
                (write_range(start, end, layout.by_rows[number]), len(one.females(number)))
                for (start, end), one in zip(ranges, form.slices, strict=False)
            ]
        elif layout.is_apart:
            plural = "joins"
            held = [(join.members[0].query, len(join.sides[number])) for join in layout.shared_join.joins]
        elif layout.parts:
            plural = "parts"
            held = [
                (write_size(part.up_to, layout.by_rows[part.side]), len(join.sides[number]))
                for part, join in zip(layout.parts, layout.shared_join.joins, strict=True)
            ]
        else:
            plural = "shelves"
            shelves = sorted(side.shelves, key=lambda shelf: shelf.lifetime)
            held = [(write_size(shelf.lifetime, layout.by_rows[number]), len(shelf)) for shelf in shelves]
        rows = sum(count for _, count in held)
        each = few_counts(dict(held)) if held else "nothing"
        shown.lines.append(f"measured: {side.seen.rows_in:,} rows in, {rows:,} kept; {plural}: {each}")
        shown.data["measured"] = {
            "rows_in": side.seen.rows_in,
            "state_rows": rows,
            plural: [{KEPT_BY[plural]: name, "rows": n} for name, n in held],
        }


def why_it_stays(costs: dict[str, StrategyCost], runs: str) -> list[str]:
    """With `auto`, what runs although another of its strategies is priced below it, in a line."""
    cheaper = [name for name in AUTO if name in costs and costs[name].cores < costs[runs].cores]
    if not cheaper:
        return []
    least = min(cheaper, key=lambda name: costs[name].cores)
    return [
        f"{runs} runs: auto goes over to {least} "
        f"({costs[least].state_rows / costs[runs].state_rows:.2f} times its rows) only when that saves "
        f"{ENTER_GAIN:.0%} at measured rates"
    ]


def condition_of(shared_join: SharedJoin) -> Band | None:
    assert isinstance(shared_join.common, CommonJoin), "a join of two streams"
    return shared_join.common.condition


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
    met = sum(side.seen.met for join in layout.shared_join.joins for side in join.sides)
    return replace(seen, selectivity=min(pairs / met, 1.0)) if met else seen


def pairs_found(layout: Layout) -> int:
    """Pairs found so far, each once however many queries take it."""
    form = layout.shared_join.form
    if isinstance(form, ChainGroup):
        return sum(one.counters.rows_out for one in form.slices)
    return sum(side.seen.found for join in layout.shared_join.joins for side in join.sides)

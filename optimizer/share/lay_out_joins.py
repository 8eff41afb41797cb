"""How a join that queries have in common should keep its rows: index, slices and routing, by cost.

Asked whenever queries have come or gone, and again as measurements come in. What was chosen stays unless
something else is clearly cheaper, so that nothing is rebuilt back and forth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin
from penstock.engine.rows.band import EQUALITY
from penstock.engine.shelves.side import Side
from penstock.optimizer.costs.cost import direction_cost, key_count_cost
from penstock.optimizer.costs.statistics import (
    JoinEstimate,
    Rates,
    estimate_common,
    is_measurable,
    measure_join,
    measure_sides,
)
from penstock.optimizer.costs.strategy_cost import StrategyCost
from penstock.optimizer.costs.weights import TURN_ROWS, Weights
from penstock.optimizer.plan.choose_index import better_index, choose_index

from .chain_cost import Given, chain_edge_costs, path_cost
from .cheapest_chain import cheapest_chain_by_row
from .join_load import Ends, ends_in_seconds, ends_in_units, still_there, workload_of
from .sharing_cost import cpu_opt_ends, dealing_cores, estimate_strategies
from .workload import Workload

EVERY_WINDOW: Ends = (None, None)
ENTER_GAIN = (
    0.15  # of the cost that merged slices must save before they are preferred to those of least memory
)
CHAIN_GAIN = 0.2  # of the cost that other slices of a literal chain must save: changing them takes time
MAX_CHAIN = 1_000  # slices of a literal chain above which none are merged
LEAVE_GAIN = 0.05  # and below which they are given up again
APART_GAIN = 0.15  # of the cost that a join for each query must save: more rows are kept
STAY_APART_GAIN = 0.05  # and below which they come together again
MOST_APART = 64  # queries that may have a join each
MIN_SAMPLED_ROWS = 256  # of a stream, to go by the shares that satisfy conditions
ENTER_BY_KEY = 0.5  # of the cost of finding pairs, below which they are counted by key
LEAVE_BY_KEY = 0.8  # and above which they are found again


class LayoutChooser:
    """Arranges the joins of an engine. `forced` are indexes of left and right, None where cost decides.

    Both these and `sharing` are for joins whose queries force nothing else.
    """

    def __init__(
        self, sharing: str, forced: tuple[str | None, str | None], rates: Rates, weights: Weights
    ) -> None:
        self._sharing = sharing
        self._forced = forced
        self._rates = rates
        self._weights = weights
        self._apart: set[CommonJoin] = set()
        """Of which a join for each query was cheaper when that was last thought over."""

    def __call__(self, join: WindowJoin) -> JoinLayout:
        seen = self.estimate(join)
        by_key = self._counts_by_key(join, seen)
        sharing = self._strategy(join)
        is_due = sharing == "auto" and join.again.think_over(len(join.members))
        if join.again.is_first_look and not by_key:
            return self._after_first_look(join, seen)
        kinds = ("hash", "hash") if by_key else self._kinds(join, seen)
        match sharing:
            case "pull-up" | "push-down":
                return JoinLayout(kinds, by_lifetime=False, routed=True)
            case "cpu-opt" | "auto":
                ends, is_apart = self._ends(join, kinds, seen, is_due)
                return JoinLayout(kinds, ends, by_key=by_key, apart=is_apart)
            case _:
                return JoinLayout(kinds, by_key=by_key)

    def estimate(self, join: WindowJoin) -> JoinEstimate:
        """What is known of a join: measured, where enough rows have come."""
        if is_measurable(*join.sides):
            return measure_join(join, estimate_common(join.members[:1], join.common, self._rates))
        return estimate_common(join.members, join.common, self._rates)

    def _strategy(self, join: WindowJoin) -> str:
        return join.common.strategy or self._sharing

    def _indexes(self, join: WindowJoin) -> tuple[str | None, str | None]:
        """Indexes that are forced, of the join's sides."""
        if join.common.indexes is not None:
            return join.common.indexes
        return self._forced[::-1] if join.members[0].node.swapped else self._forced

    def _kinds(self, join: WindowJoin, seen: JoinEstimate) -> tuple[str, str]:
        """An index for each window, that of the longest of all members."""
        kinds = []
        counts = len(join.members) > 1 and bool(join.roster.counting.all())
        forced = self._indexes(join)
        condition = join.common.condition
        for side, direction, force in zip(join.sides, (seen.by_right, seen.by_left), forced, strict=True):
            if counts and force is None and condition == EQUALITY:
                kinds.append(
                    "hash"
                )  # it counts pairs where it finds them and looks back no further than asked
            elif len(side) and force is None:
                better = better_index(side.kept.index_kind, condition, direction, self._weights)
                kinds.append(better if better is not None and seen.measured else side.kept.index_kind)
            else:
                kinds.append(choose_index(condition, direction, self._weights, force).kind)
        return kinds[0], kinds[1]

    def _counts_by_key(self, join: WindowJoin, seen: JoinEstimate) -> bool:
        """Whether pairs should be counted by key and not found, as far as the join can do that."""
        roster, weights = join.roster, self._weights
        if join.common.condition != EQUALITY or not roster.counting.all() or any(self._indexes(join)):
            return False
        if not seen.measured:
            return join.layout.by_key
        found = counted = 0.0
        for side, direction in zip(join.sides, (seen.by_right, seen.by_left), strict=True):
            slices = len(np.unique(roster.sizes[side.number]))
            counters = slices * (side.leaf_counts[0] if side.leaf_counts else 1)
            found += direction_cost("hash", direction, weights)
            counted += key_count_cost(direction, slices, counters, weights)
        return counted < found * (LEAVE_BY_KEY if join.layout.by_key else ENTER_BY_KEY)

    def _ends(
        self, join: WindowJoin, kinds: tuple[str, str], seen: JoinEstimate, is_due: bool
    ) -> tuple[Ends, bool]:
        """The cheapest slices; with `auto` those of least memory, unless the cheapest cost clearly less.

        And whether a join for each query costs clearly less than either.
        """
        if all(side.terms.is_uniform for side in join.sides) and not join.roster.is_selective:
            return EVERY_WINDOW, False
        now = still_there(join.layout.ends, join.roster)
        is_auto = self._strategy(join) == "auto"
        if is_auto and not is_due:
            return now, False
        load = workload_of(join.members, join.sides, seen)
        cheapest = cpu_opt_ends(load, self._weights, kinds)
        merged = ends_in_units(cheapest, join, seen)
        if not is_auto:
            return merged, False
        delivers = not join.roster.counting.all()
        may_part = seen.measured and may_run_apart(join)
        names = ("mem-opt", "cpu-opt", *(["unshared"] if may_part else []))
        costs = estimate_strategies(load, self._weights, kinds, *cheapest, names, delivers)
        mem_opt, cpu_opt = costs["mem-opt"].cores, costs["cpu-opt"].cores
        is_apart = may_part and self._is_better_apart(join.common, load, costs)
        gain = 1 - cpu_opt / mem_opt
        if gain < (ENTER_GAIN if now == EVERY_WINDOW else LEAVE_GAIN):
            return EVERY_WINDOW, is_apart
        if now != EVERY_WINDOW:
            current = ends_in_seconds(now, join, seen)
            running = estimate_strategies(load, self._weights, kinds, *current, names, delivers)
            if cpu_opt > running["cpu-opt"].cores * (1 - LEAVE_GAIN):
                return now, is_apart
        return merged, is_apart

    def _after_first_look(self, join: WindowJoin, seen: JoinEstimate) -> JoinLayout:
        """Only what would be far too slow is changed so soon: pairs that are found for nobody."""
        if self._strategy(join) != "auto" or not seen.measured or not may_run_apart(join):
            return join.layout
        load = workload_of(join.members, join.sides, seen)
        names = ("mem-opt", "unshared")
        costs = estimate_strategies(load, self._weights, join.layout.indexes, None, None, names)
        is_apart = self._is_better_apart(join.common, load, costs)
        return replace(join.layout, apart=is_apart)

    def _is_better_apart(self, common: CommonJoin, load: Workload, costs: dict[str, StrategyCost]) -> bool:
        """Whether a join for each query costs clearly less than one that deals out what it finds."""
        together = min(cost.cores for name, cost in costs.items() if name != "unshared")
        together += dealing_cores(load, self._weights)
        gain = STAY_APART_GAIN if common in self._apart else APART_GAIN
        is_better = costs["unshared"].cores < (1 - gain) * together
        (self._apart.add if is_better else self._apart.discard)(common)
        return is_better

    def chain_ends(
        self,
        members: Sequence[Member],
        common: CommonJoin,
        sides: tuple[Side, Side],
        rows_per_turn: Callable[[], float | None],
        present: Callable[[], Sequence[int]],
        windows: Sequence[int],
    ) -> Sequence[int]:
        """Ends of the literal chain that cost least, of those at all windows (paper, section 5.2), or the
        present ones if those cost hardly more.

        Part of what a slice costs beside probing it costs per turn, and a row's share is what that leaves it.
        """
        if any(side.by_place for side in sides) or len(windows) > MAX_CHAIN:
            return windows
        seen = measure_sides(*sides, estimate_common(members, common, self._rates))
        load = workload_of(members, sides, seen)
        weights, turn_rows = self._weights, rows_per_turn() or TURN_ROWS
        counts = all(member.predicates == (None, None) for member in members if member.counting)
        route = 0.0 if counts else weights.route  # counted by age, whoever takes it
        longest = np.maximum(*(asked.windows_s for asked in load.asked))
        gives = longest[[not member.counting for member in members]]
        given = Given.of(gives, turn_rows, weights) if len(gives) else None
        turn = weights.slice_turn / turn_rows
        costs = chain_edge_costs(
            load, weights.scan_search, route, weights.slice_row, weights.slice_pair, turn, given
        )
        cheapest = list(cheapest_chain_by_row(len(windows), costs))
        kept = [node for node, window in enumerate(windows, 1) if window in present()]
        if kept and kept[-1] < len(windows):
            kept.append(len(windows))
        if kept and path_cost(costs, cheapest) > (1 - CHAIN_GAIN) * path_cost(costs, kept):
            cheapest = kept
        return [windows[node - 1] for node in cheapest]


def may_run_apart(join: WindowJoin) -> bool:
    """Whether queries could have a join each: they are few, and what each takes of either side is known."""
    if not 1 < len(join.members) <= MOST_APART or any(side.by_place for side in join.sides):
        return False
    if join.roster.counting.all() or not join.roster.is_selective:
        return False
    if any(member.is_new for member in join.members):
        return False
    samples = [side.seen.sample for side in join.sides if not side.terms.is_uniform]
    return all(one is not None and one[0].shape[1] >= MIN_SAMPLED_ROWS for one in samples)

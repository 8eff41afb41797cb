"""What joins of three or more streams cost, shared in each way and not shared at all.

Rows of each stream take one step after the other (engine/many_joins/probe_order.py). At each, whatever has
been found so far probes a hash index, as in equation 7 of the window-join paper, or scans the rows if only a
comparison connects them; what is found probes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from penstock.engine.expressions.expression import Expression
from penstock.engine.many_joins.many_join import ManyJoin
from penstock.engine.many_joins.probe_order import Step
from penstock.engine.members.member import Member
from penstock.engine.rows.band import EQUALITY
from penstock.engine.rows.window import FOREVER
from penstock.optimizer.costs.index_cost import direction_costs
from penstock.optimizer.costs.statistics import MIN_MEASURED_ROWS, UNBOUNDED_S, SideEstimate, expected_matches
from penstock.optimizer.costs.strategy_cost import StrategyCost, counted
from penstock.optimizer.costs.weights import Weights

from .join_load import expected_share, is_by_rows, seconds

TWO_BY_TWO = "two by two"
Orders = Sequence[tuple[Step, ...]]
Shares = Callable[[Step], float]
"""Of the rows of a side, those that a step finds."""


def needed_share(predicates: set[Expression | None]) -> float:
    """Of the rows of a stream, those that satisfy one of some predicates."""
    return 1.0 - math.prod(0.0 if one is None else 1.0 - expected_share(one) for one in predicates)


def rows_between(members: Sequence[Member], number: int, start: int, end: int, rate: float) -> float:
    """Rows of one side to expect between two ages, of which those stay that some member still needs."""
    share = needed_share({one.predicates[number] for one in members if one.sizes[number] > start})
    is_in_rows = is_by_rows(members, number)
    since = seconds(start, is_in_rows, rate)
    until = since + UNBOUNDED_S if end == FOREVER else seconds(end, is_in_rows, rate)
    return rate * share * (until - since)


def estimate_sides(members: Sequence[Member], rates: Sequence[float], keeps_all: bool) -> list[SideEstimate]:
    """What each side has; keeps_all: of every row, as long as the longest window."""
    found = []
    for number, rate in enumerate(rates):
        ends = sorted({member.sizes[number] for member in members})
        share = needed_share({member.predicates[number] for member in members})
        if keeps_all:
            longest = UNBOUNDED_S
            if ends[-1] != FOREVER:
                longest = seconds(ends[-1], is_by_rows(members, number), rate)
            found.append(SideEstimate(rate, rate, rate * longest))
            continue
        spans = zip([0, *ends[:-1]], ends, strict=True)
        rows = sum(rows_between(members, number, start, end, rate) for start, end in spans)
        found.append(SideEstimate(rate, rate * share, rows))
    return found


def share_to_expect(step: Step) -> float:
    """Of the rows of a side, those that a step is to find, as long as nothing is known."""
    by_keys = expected_matches(EQUALITY) if step.keys else 1.0
    return by_keys * math.prod(expected_matches(one.band) for one in step.bounds)


def share_found(join: ManyJoin, step: Step) -> float:
    """The same, measured if enough have sought."""
    sought, found = join.looked_up.get(step.how, (0, 0))
    rows = len(join.sides[step.side])
    return found / sought / rows if rows and sought >= MIN_MEASURED_ROWS else share_to_expect(step)


def many_cost(
    sides: Sequence[SideEstimate], orders: Orders, share_of: Shares, weights: Weights
) -> tuple[float, float]:
    """Cores of one join, and how many rows it finds in a second."""
    cores = sum(side.rate for side in sides) * weights.row
    results = 0.0
    for first, steps in enumerate(orders):
        seeking = sides[first].kept_rate
        for step in steps:
            side = sides[step.side]
            matches = side.rows * share_of(step)
            cores += float(direction_costs(index_of(step), seeking, 0.0, side.rows, matches, weights))
            seeking *= matches
        results += seeking
    for number, side in enumerate(sides):
        lookups = {step.keys for steps in orders for step in steps if step.side == number and step.keys}
        update = direction_costs("hash", 0.0, side.kept_rate, side.rows, 0.0, weights)
        cores += len(lookups) * float(update)
    return cores + results * weights.pair, results


def two_by_two(
    sides: Sequence[SideEstimate], orders: Orders, share_of: Shares, weights: Weights
) -> tuple[float, float]:
    """Rows that are kept and cores if streams are joined two by two, in the best of these orders: what is
    found is kept on the way, and rows of the next stream look for that."""
    found = []
    for first, steps in enumerate(orders):
        state = sum(side.rows for side in sides)
        cores = sum(side.rate for side in sides) * weights.row
        rate, rows = sides[first].kept_rate, sides[first].rows
        for at, step in enumerate(steps, 1):
            side, share, index = sides[step.side], share_of(step), index_of(step)
            cores += float(
                direction_costs(index, rate, side.kept_rate, side.rows, side.rows * share, weights)
                + direction_costs(index, side.kept_rate, rate, rows, rows * share, weights)
            )
            rate, rows = (rate * side.rows + side.kept_rate * rows) * share, rows * side.rows * share
            cores += rate * weights.pair
            state += rows if at < len(steps) else 0.0
        found.append((state, cores))
    return min(found, key=lambda one: one[1])


def index_of(step: Step) -> str:
    return "hash" if step.keys else "scan"


def many_costs(
    members: Sequence[Member], rates: Sequence[float], orders: Orders, share_of: Shares, weights: Weights
) -> dict[str, StrategyCost]:
    """What the ways to run these members cost."""
    alone = [estimate_sides([member], rates, keeps_all=False) for member in members]
    whole = estimate_sides(members, rates, keeps_all=True)
    needed = estimate_sides(members, rates, keeps_all=False)
    pairs = [two_by_two(sides, orders, share_of, weights) for sides in alone]
    cores, results = many_cost(whole, orders, share_of, weights)
    return {
        "unshared": StrategyCost(
            sum(side.rows for sides in alone for side in sides),
            sum(many_cost(sides, orders, share_of, weights)[0] for sides in alone),
            f"{counted(len(members), 'join')}, one per query",
        ),
        "pull-up": StrategyCost(
            sum(side.rows for side in whole),
            cores + results * len(members) * weights.route,
            f"1 join, all rows for the longest window, {counted(len(members), 'test')} of what is found",
        ),
        "mem-opt": StrategyCost(
            sum(side.rows for side in needed),
            many_cost(needed, orders, share_of, weights)[0],
            "1 join, rows as long as some query needs them",
        ),
        TWO_BY_TWO: StrategyCost(
            sum(state for state, _ in pairs),
            sum(cores for _, cores in pairs),
            "multiway=False: each query by itself, with what is found on the way kept, in the best order",
        ),
    }

"""What is known or assumed about streams and conditions, for the cost model.

Before data flows: declared or sampled rates, else the defaults here. While it flows: what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.engine.expressions.expression import conjuncts
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin, JoinNode, PlanNode, SideNode, SourceNode
from penstock.engine.rows.band import EQUALITY, Band
from penstock.engine.rows.window import FOREVER, Window
from penstock.engine.shelves.side import Side

from .cost import Direction

DEFAULT_RATE = 1_000.0  # rows per second of a stream nothing is known of
DEFAULT_PASS = 1 / 3  # of the rows that one conjunct lets through
DEFAULT_KEYS = 1_000.0  # different keys in a window
DEFAULT_BAND = 0.01  # of a window that a band or an inequality finds, if both ends are bounded
DEFAULT_HALF = 1 / 3  # the same with one end open
UNBOUNDED_S = 3_600.0  # of an unbounded window, what to reckon with

MIN_MEASURED_ROWS = 1_000  # fewer say nothing yet


@dataclass(frozen=True, slots=True)
class SideEstimate:
    """One side of a join: rows per second that come and that take part, rows in the window that do."""

    rate: float
    kept_rate: float
    rows: float


@dataclass(frozen=True, slots=True)
class JoinEstimate:
    """Both sides, and the share of all pairs of live rows that the index finds."""

    left: SideEstimate
    right: SideEstimate
    selectivity: float
    measured: bool = False

    @property
    def by_left(self) -> Direction:
        """The left's rows probing the right's index."""
        return direction(self.left, self.right, self.selectivity)

    @property
    def by_right(self) -> Direction:
        """The right's rows probing the left's index."""
        return direction(self.right, self.left, self.selectivity)

    @property
    def pair_rate(self) -> float:
        """Pairs per second."""
        return sum(d.probe_rate * d.matches for d in (self.by_left, self.by_right))


def direction(prober: SideEstimate, probed: SideEstimate, selectivity: float) -> Direction:
    return Direction(prober.kept_rate, probed.kept_rate, probed.rows, probed.rows * selectivity)


def window_rows(window: Window, rate: float) -> float:
    """Rows of a stream that are in its window, on average."""
    if window.size is None:
        return rate * UNBOUNDED_S
    return float(window.size) if window.kind == "rows" else rate * window.size / 1e6


class Rates:
    """Rows per second of each stream: as set, sampled or measured."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}

    def set(self, stream: str, rows_per_s: float) -> None:
        self._rates[stream] = rows_per_s

    def of(self, node: PlanNode) -> float:
        assert isinstance(node, SourceNode), "a join's inputs are streams"
        return self.of_stream(node.stream)

    def of_stream(self, stream: str) -> float:
        return self._rates.get(stream, DEFAULT_RATE)

    def is_known(self, stream: str) -> bool:
        return stream in self._rates


def estimate_join(node: JoinNode, rates: Rates) -> JoinEstimate:
    """What to expect of a join before it has run."""
    left = estimate_side(node.left_side, rates.of(node.left))
    right = estimate_side(node.right_side, rates.of(node.right))
    return JoinEstimate(left, right, expected_matches(node.condition))


def estimate_common(members: Sequence[Member], common: CommonJoin, rates: Rates) -> JoinEstimate:
    """What to expect of a join that queries have in common: the longest windows, what any of them needs."""
    sides = []
    for number, side in enumerate(common.sides):
        rate = rates.of_stream(side.stream)
        window = max(members, key=lambda member: member.sizes[number]).window(number)
        predicates = {member.predicates[number] for member in members}
        dropped = math.prod(1 - DEFAULT_PASS ** len(conjuncts(predicate)) for predicate in predicates)
        sides.append(SideEstimate(rate, rate * (1 - dropped), window_rows(window, rate) * (1 - dropped)))
    return JoinEstimate(sides[0], sides[1], expected_matches(common.condition))


def expected_matches(band: Band | None) -> float:
    """The share of pairs that satisfy a condition nothing is known of."""
    if band is None:
        return 1.0
    if band == EQUALITY:
        return 1 / DEFAULT_KEYS
    return DEFAULT_HALF if band.low is None or band.high is None else DEFAULT_BAND


def estimate_side(side: SideNode, rate: float) -> SideEstimate:
    share = DEFAULT_PASS ** len(conjuncts(side.predicate))
    return SideEstimate(rate, rate * share, window_rows(side.window, rate) * share)


def measure_join(join: WindowJoin, expected: JoinEstimate) -> JoinEstimate:
    """What a running join has shown so far; where that is too little, what was expected."""
    return measure_sides(*join.sides, expected)


def measure_sides(left: Side, right: Side, expected: JoinEstimate) -> JoinEstimate:
    """The same of two sides, in whichever order."""
    if not is_measurable(left, right):
        return expected
    both = left, right
    recent = [side.seen.recently for side in both]
    span_us = span_of(*both, since_look=True)
    if span_us <= 0 or min(one.rows_in for one in recent) < MIN_MEASURED_ROWS:
        recent, span_us = [side.seen.now for side in both], span_of(*both)
    sides = [
        measure_side(side, one.rows_in, one.rows_kept, span_us / 1e6)
        for side, one in zip(both, recent, strict=True)
    ]
    met = sum(one.met for one in recent)
    share = sum(one.found for one in recent) / met if met else expected.selectivity
    return replace(expected, left=sides[0], right=sides[1], selectivity=share, measured=True)


def span_of(left: Side, right: Side, since_look: bool = False) -> int:
    """Microseconds from the first row of either side to the last; or from the last row before a look."""
    both = left.seen, right.seen
    firsts = [one.last_ts if one.first_ts is None else one.first_ts for one in both]
    if since_look:
        looks = [one.looks[0].ts for one in both]
        firsts = [first if ts is None else ts for first, ts in zip(firsts, looks, strict=True)]
    return max(one.last_ts for one in both) - min(firsts)


def is_measurable(left: Side, right: Side) -> bool:
    """Whether enough has come to go by it."""
    return min(left.seen.rows_in, right.seen.rows_in) >= MIN_MEASURED_ROWS and span_of(left, right) > 0


def measure_side(side: Side, rows_in: int, rows_kept: int, span_s: float) -> SideEstimate:
    rate = rows_in / span_s
    share = rows_kept / rows_in
    size = None if side.terms.size == FOREVER else side.terms.size
    window = Window("rows" if side.by_place else "range", size)
    return SideEstimate(rate, rate * share, window_rows(window, rate) * share)

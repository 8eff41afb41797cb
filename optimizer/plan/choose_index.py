"""An index for each direction of a join, by cost."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.indexes.build import INDEX_KINDS, supports_ranges
from penstock.engine.rows.band import EQUALITY, Band
from penstock.optimizer.costs.cost import Direction, direction_cost
from penstock.optimizer.costs.weights import Weights

Indexes = tuple[str | None, str | None]
"""Of left and right; None: chosen by cost."""

MIN_GAIN = 0.2  # of a direction's cost that a change while running must save
TTREE_MARGIN = 1.5  # by which a T-tree must be cheaper: its formula fits what is measured to within a third


@dataclass(frozen=True, slots=True)
class IndexChoice:
    """The index on one window: what it costs, and what the others would."""

    kind: str
    costs: dict[str, float]

    @property
    def cost(self) -> float:
        return self.costs[self.kind]


def usable_kinds(condition: Band | None) -> tuple[str, ...]:
    """Indexes that can serve a condition: all serve equality, the hash no range, only the scan any pair."""
    if condition is None:
        return ("scan",)
    if condition == EQUALITY:
        return INDEX_KINDS
    return tuple(kind for kind in INDEX_KINDS if supports_ranges(kind))


def choose_index(
    condition: Band | None, direction: Direction, weights: Weights, forced: str | None = None
) -> IndexChoice:
    """The cheapest index for one direction, or the forced one where it can serve the condition."""
    costs = {kind: direction_cost(kind, direction, weights) for kind in usable_kinds(condition)}

    def doubted(kind: str) -> float:
        return costs[kind] * (TTREE_MARGIN if kind == "t-tree" else 1.0)

    return IndexChoice(forced if forced in costs else min(costs, key=doubted), costs)


def better_index(current: str, condition: Band | None, direction: Direction, weights: Weights) -> str | None:
    """The index to change to while running, if that pays well enough."""
    choice = choose_index(condition, direction, weights)
    worth = choice.costs[current] * (1 - MIN_GAIN)
    return choice.kind if choice.kind != current and choice.cost < worth else None

"""What the model of memory is asked about a join without windows: factors, multiplicities, rates and lags."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.ordered_memory.memory_rules import STRATEGIES, MemoryModel, SideLoad, Strategy

from .frontiers import Frontiers
from .leading_rows import LeadingRows
from .ordered_side import OrderedSide


def predict(model: MemoryModel, loads: Sequence[SideLoad], ahead: int) -> dict[Strategy, list[int]]:
    """By strategy and side, how many rows would be held; ahead: rows that lead and would stay in memory."""
    return {one: model.rows(one, loads, ahead) for one in STRATEGIES}


def loads_of(
    sides: Sequence[OrderedSide], frontiers: Frontiers, leading: Sequence[LeadingRows]
) -> list[SideLoad]:
    """What is known of each side; leading: what waits on the disk, if anything does."""
    found = []
    for side in sides:
        frontier = side.reader.frontier
        lag = lag_of(side, frontiers) + (leading[side.number].rows if leading else 0)
        factor = frontier.factor * max(1, len(frontier.sequences))
        found.append(SideLoad(factor, side.multiplicity, frontier.rate, lag))
    return found


def lag_of(side: OrderedSide, frontiers: Frontiers) -> int:
    """How many rows of a side, of those in memory, have keys above all that have come of some other side."""
    ahead = side.rows_ahead
    numbers, codes = side.numbers[:, ahead], side.codes.live[ahead]
    return max(frontiers.ahead_of(other, numbers, codes) for other in frontiers.others(side.number))

"""Which approach to expiry a query runs with: forced by name, or by what its join has shown.

Two ways differ in cost. With promises a join's pairs are found once and kept by whoever reads them until they
leave; with negative tuples they are found again for each row that leaves, and nobody keeps them. Few pairs
per row: keeping them is cheaper. Many: finding them again is, and takes far less memory. The other approaches
send messages that promises make superfluous; they are never cheaper, and only run when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import (
    AggregateNode,
    ArriveNode,
    ChangeJoinNode,
    ExpireNode,
    LifetimeNode,
    PlanNode,
    SelectNode,
    SetOperationNode,
    SourceNode,
    StoredWindowNode,
)
from penstock.engine.plan.plan_parts import plan_inputs, plan_nodes
from penstock.engine.sharing.facts import PlanFacts
from penstock.optimizer.costs.weights import Weights

APPROACHES: dict[str, Approach] = {
    "auto": "promises",
    "ita": "ita",
    "nta": "nta",
    "time-message": "time-message",
    "piggyback": "piggyback",
}
GAIN = 1.5  # by how much cheaper the other way must be, so that a query does not go to and fro
MIN_PAIRS = 10_000  # fewer say nothing yet

Reader = Literal["rows", "sums", "order"]
"""Who reads a join's pairs: the query's changes; COUNT, SUM, AVG; anything that orders or compares."""


@dataclass(frozen=True, slots=True)
class JoinLoad:
    """What a join has taken in and found, without what it took in and found again, and who reads it."""

    rows: float
    pairs: float
    reader: Reader


def first_expiry(forced: str) -> Approach:
    """What a query begins with: auto keeps pairs until it has seen how many there are."""
    return APPROACHES[forced]


def expiry_costs(load: JoinLoad, weights: Weights) -> dict[Approach, float]:
    """Seconds of work for what has come, either way."""
    kept, again = weights.of_pairs(load.reader)
    return {
        "promises": load.rows * weights.kept_row + load.pairs * kept,
        "nta": load.rows * weights.again_row + load.pairs * again,
    }


def choose_expiry(facts: PlanFacts, weights: Weights) -> Approach:
    """The cheaper way for a query at work, or the one it has if that is not clearly dearer."""
    load = measure_join(facts)
    if load is None or load.pairs < MIN_PAIRS or facts.approach not in ("promises", "nta"):
        return facts.approach
    costs = expiry_costs(load, weights)
    other: Approach = "nta" if facts.approach == "promises" else "promises"
    return other if costs[other] * GAIN < costs[facts.approach] else facts.approach


def measure_join(facts: PlanFacts) -> JoinLoad | None:
    """The load of a query that reads one inner join of two bounded windows, alone; None for any other."""
    joins = [node for node in plan_nodes(facts.plan) if isinstance(node, LifetimeNode | ChangeJoinNode)]
    reader = reader_of(facts.plan)
    if len(joins) != 1 or reader is None or not is_bounded(joins[0]):
        return None
    if isinstance(joins[0], LifetimeNode) and len(joins[0].sizes) > 2:
        return None  # the other plan has joins of pairs
    if isinstance(joins[0], ChangeJoinNode) and joins[0].whole is not None:
        return None  # of whole answers nothing expires
    for part in facts.everything_below:
        if part.plan != joins[0]:
            continue
        if part.others:
            return None  # what others need anyway
        work = part.work[0]
        if isinstance(joins[0], ChangeJoinNode):  # of each row and pair, what comes and what leaves
            return JoinLoad(work.rows_in / 2, work.rows_out / 2, reader)
        group, _ = next(iter(part.joins.values()))
        if len(group.members) > 1:
            return None  # the same
        return JoinLoad(group.own_operators[0].counters.rows_in, work.rows_in, reader)
    return None


def is_bounded(join: LifetimeNode | ChangeJoinNode) -> bool:
    """Whether another plan could ever catch up: no window keeps everything."""
    if isinstance(join, LifetimeNode):
        return None not in join.sizes
    below = list(plan_nodes(join))
    sources = [node for node in below if isinstance(node, SourceNode)]
    windows = sum(isinstance(node, ArriveNode | StoredWindowNode) for node in below)
    return len(sources) == windows  # none without its window


def reader_of(node: PlanNode) -> Reader | None:
    """Who reads the pairs of the only join, if nothing but selects stands in between."""
    reader: Reader = "rows"
    while True:
        match node:
            case LifetimeNode():
                return reader
            case ChangeJoinNode():
                return reader if node.kind == "inner" else None
            case AggregateNode() if reader == "rows":
                plain = all(c.function in ("count", "sum", "avg") and not c.distinct for c in node.calls)
                reader = "sums" if plain else "order"
            case SetOperationNode() if len(node.inputs) == 1 and reader == "rows":
                reader = "order"
            case SelectNode() | ExpireNode():
                pass
            case _:
                return None
        node = plan_inputs(node)[0]

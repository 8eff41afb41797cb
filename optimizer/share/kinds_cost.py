"""What RANGE and ROWS windows cost in one join, and in a join for each combination of kinds.

One join keeps each row once and takes it in once. But a row has two ages there (rows_beside.py): who
takes a pair cannot be read off one age, and is found by trying queries. Joins by kind count pairs by age, or
deal them out by bits, and each finds its own.

                     rows                             pairs
    one join         kept and taken in once           found once, tried for many queries
    by kind          kept, taken in by each           found by each, sorted out by age
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from penstock.optimizer.costs.strategy_cost import StrategyCost
from penstock.optimizer.costs.weights import Weights

from .sharing_cost import dealing_cores, pairs_met
from .workload import Workload

MOST_TRIED = (
    16  # queries that are given pairs and try each of them; of more, those that take it are looked up
)
TRIED_BY_SETS = 40  # that count and ask the same of rows, from which on they are tried many at a time
AT_A_TIME = 16

Estimate = Callable[..., dict[str, StrategyCost]]
"""What strategies cost of a load, by their names."""


def tries(queries: int, is_selective: bool, is_delivering: bool) -> float:
    """Of how many queries it is found out one by one whether they take a pair, where rows have two ages."""
    if is_delivering:
        return min(queries, MOST_TRIED)
    return queries if is_selective or queries < TRIED_BY_SETS else queries / AT_A_TIME


def together_cost(
    load: Workload, estimate: Estimate, weights: Weights, is_delivering: bool
) -> tuple[StrategyCost, StrategyCost]:
    """Of one join for all: with every slice, and with those that cost least."""
    is_selective = any(len(asked.predicates) > 1 for asked in load.asked)
    tried = pairs_met(load) * weights.beside * tries(len(load.queries), is_selective, is_delivering)
    costs = estimate(load, names=("mem-opt", "cpu-opt"))
    fine, merged = (replace(costs[name], cores=costs[name].cores + tried) for name in ("mem-opt", "cpu-opt"))
    return fine, merged


def kinds_cost(
    load: Workload, lots: Sequence[Hashable], estimate: Estimate, weights: Weights, is_delivering: bool
) -> StrategyCost:
    """Of a join for each combination of kinds; lots: that of each query.

    Beside what each join costs by itself, rows are told apart once more for each join but the first.
    """
    rows, cores = 0.0, 0.0
    distinct = list(dict.fromkeys(lots))
    for lot in distinct:
        own = tuple(query for query, other in zip(load.queries, lots, strict=True) if other == lot)
        part = replace(load, queries=own)
        best = min(estimate(part, names=("mem-opt", "cpu-opt")).values(), key=lambda cost: cost.cores)
        rows, cores = rows + best.state_rows, cores + best.cores
        if is_delivering:
            cores += dealing_cores(part, weights)
    cores += (load.left_rate + load.right_rate) * weights.tell_row * (len(distinct) - 1)
    return StrategyCost(rows, cores, f"{len(distinct)} joins, one per combination of RANGE and ROWS windows")

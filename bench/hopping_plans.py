"""How often the heuristic finds the cheapest plan of a hopping query: figure 7.4 of the thesis.

    python -m penstock.bench.hopping_plans [PLANS]

Random plans of joins, differences, semi and anti joins with fewer than 8 operators, at random rates, numbers
of keys and shares that differences leave; costs are those of the model. `push-down` is the heuristic to the
letter, without the look above one join.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random

from penstock.optimizer.costs.weights import Weights, load
from penstock.optimizer.hopping.optimize_hopping import Search

from .random_plans import random_prices, random_query

MOST_OPERATORS = 7
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Found:
    """The share of plans that were as cheap as the cheapest, and the dearest one, as a multiple of it."""

    same: float
    worst: float


def compare_searches(plans: int, weights: Weights) -> dict[str, Found]:
    """What each search finds, against the exhaustive one."""
    ratios: dict[str, list[float]] = {"heuristic": [], "push-down": [], "as written": []}
    for seed in range(plans):
        random = Random(seed)
        query = random_query(random, random.randint(1, MOST_OPERATORS))
        pricer = random_prices(random, query, weights)
        best = Search(pricer, "exhaustive").best(query.root)["complete"].cost
        searches = {
            "heuristic": Search(pricer, "heuristic"),
            "push-down": Search(pricer, "heuristic", above=0),
            "as written": Search(pricer, "none"),
        }
        for name, search in searches.items():
            ratios[name].append(search.best(query.root)["complete"].cost / best)
    return {
        name: Found(sum(one <= 1 + ROUNDING for one in found) / plans, max(found))
        for name, found in ratios.items()
    }


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    for label, result in compare_searches(count, load()).items():
        print(
            f"{label}: the optimum in {result.same:.1%} of {count:,} plans, at worst {result.worst:.3g} times"
        )

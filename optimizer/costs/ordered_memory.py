"""How many rows a join without windows holds, by strategy (window-oblivious join, equations 6-10, 4.1-4.3).

k: the factor of a stream; m: the most rows with one key; r: rows per second; L_ij: by how many rows i leads
j; C: how many rows that lead stay in memory. Of stream i, the most over all other streams j:

    none      max(1, k_i + r_i k_j / r_j + L_ij)                     (6, 7, 8)
    msf       m_i + r_i m_j / r_j + L_ij, and k_i to sort            (4.1)
    dbf       k_i + C + r k_j / r_j                                  (4.2)
    hybrid    m_i + C + r m_j / r_j, and k_i to sort                 (4.3)

Rows come back from the disk as fast as the other stream goes: r is the lesser of r_i and r_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from penstock.engine.ordered_memory.memory_rules import SORTS, SPOOLS, SideLoad, Strategy


class OrderedMemory:
    """The model, for an engine that decides while rows come."""

    def rows(self, strategy: Strategy, sides: Sequence[SideLoad], ahead: int) -> list[int]:
        """By side."""
        return [rows_held(strategy, number, sides, ahead) for number in range(len(sides))]


def rows_held(strategy: Strategy, number: int, sides: Sequence[SideLoad], ahead: int) -> int:
    """Of one side."""
    own = sides[number]
    is_sorted, is_spooled = strategy in SORTS, strategy in SPOOLS
    factor = own.multiplicity if is_sorted else own.factor
    most = 0.0
    for other, load in enumerate(sides):
        if other == number:
            continue
        pace = own.rate / load.rate if load.rate else 1.0
        behind = load.multiplicity if is_sorted else load.factor
        leads = min(ahead, own.lag) if is_spooled else own.lag
        most = max(most, behind * (min(1.0, pace) if is_spooled else pace) + leads)
    return max(1, ceil(factor + most)) + (own.factor if is_sorted else 0)


def output_rate(sides: Sequence[SideLoad]) -> float:
    """At most so many results per second (equation 9)."""
    return sum(one.rate * others(number, sides) for number, one in enumerate(sides))


def output_factor(sides: Sequence[SideLoad]) -> int:
    """At most so far behind one whose key is not less does a result come (equation 10)."""
    return sum(one.factor * others(number, sides) for number, one in enumerate(sides))


def others(number: int, sides: Sequence[SideLoad]) -> int:
    """The most results that one row of a side can have."""
    return prod(one.multiplicity for other, one in enumerate(sides) if other != number)

"""How many pairs a join has found by their keys, of how many there might have been.

Kept by joins of hopping queries for those who price them: their quotient is the share of all pairs of rows
that have equal keys.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MatchCounts:
    """met: pairs with equal keys; kept: those that satisfy the rest of the condition; tried: all pairs."""

    met: float = 0.0
    kept: float = 0.0
    tried: float = 0.0

    def count(self, met: float, kept: float) -> None:
        """So many more pairs have equal keys, and so many of them satisfy the rest."""
        self.met += met
        self.kept += kept

    def try_all(self, left: int, right: int) -> None:
        """So many rows of each side meet, each with each."""
        self.tried += left * right

    def since(self, before: MatchCounts | None) -> MatchCounts:
        """What has been added."""
        then = before or MatchCounts()
        return MatchCounts(self.met - then.met, self.kept - then.kept, self.tried - then.tried)

    def try_changes(self, rows: tuple[int, int], changed: tuple[int, int]) -> None:
        """So many rows of each side come or leave, and pairs with either; rows: all, with those."""
        left, right = rows
        rest = max(left - changed[0], 0) * max(right - changed[1], 0)
        self.tried += max(left * right - rest, 0)

"""The condition of a join that an index can serve: how far apart two keys may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """right key - left key lies between `low` and `high`; None: no bound on that side.

    Covers <, <=, >, >= (a bound of 0) and bands. For keys of type DOUBLE a bound other than 0 may admit a few
    pairs just outside (rounding), never misses one: the exact condition must then be checked on the pairs.
    """

    low: int | float | None
    low_closed: bool
    high: int | float | None
    high_closed: bool

    def mirrored(self) -> Band:
        """The same condition on left key - right key."""
        return Band(
            None if self.high is None else -self.high,
            self.high_closed,
            None if self.low is None else -self.low,
            self.low_closed,
        )


EQUALITY = Band(0, True, 0, True)

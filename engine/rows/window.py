"""What part of a stream a query sees: [RANGE d], [ROWS n], [NOW], [RANGE UNBOUNDED].

A row is in the window from its ts until, exclusively, its ets: half-open, so that a row and the one that
displaces it are never both in.

    RANGE 10   row at 3:   3 |==========| 13          ets = ts + 10
    ROWS 2     rows at 3, 5, 5, 8:  the row at 3 leaves at 5, when the second row after it has come

Time is a sequence of instants: at instant T all rows with ts <= T have come. A row of a ROWS window that
is displaced at its own instant was never in the window, whatever the order of arrival within the instant.
NOW is RANGE 1 microsecond, the shortest there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.engine.restoring.in_order import expect

from .write_times import write_duration

# A ts lies strictly between -MAX_TS and MAX_TS, so that the difference of two fits into an int64.
MAX_TS = 1 << 62
FOREVER = (1 << 63) - 1  # the size of an unbounded window


@dataclass(frozen=True, slots=True)
class Window:
    """`size` microseconds (range) or rows (rows); None: unbounded. `partition` are column names, for rows."""

    kind: Literal["range", "rows"]
    size: int | None
    partition: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.size is None:
            return "RANGE UNBOUNDED"
        if self.kind == "rows":
            by = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
            return f"{by}ROWS {self.size}"
        return "NOW" if self.size == 1 else f"RANGE {write_duration(self.size)}"

    @property
    def is_bounded(self) -> bool:
        return self.size is not None

    def _check_restored(self) -> None:
        expect(self.size is None or self.size >= 0, "a window of some size")

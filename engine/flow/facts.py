"""What any operator has done and holds, as a plain record for whoever explains or prices it."""

from __future__ import annotations

from dataclasses import dataclass

from .operator import Operator


@dataclass(frozen=True, slots=True)
class Work:
    """Rows so far, seconds of work, and what is kept now."""

    rows_in: int
    rows_out: int
    busy_s: float
    state_rows: int
    state_bytes: int


def work_of(operator: Operator) -> Work:
    """At this moment."""
    done = operator.counters
    return Work(done.rows_in, done.rows_out, done.busy_s, operator.state_rows, operator.state_bytes)

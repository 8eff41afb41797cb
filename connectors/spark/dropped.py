"""Rows that a streaming query leaves out, counted: late ones, those too far ahead, those without a time.

A row that stopped the query would be given to it again at every start. What is left out is said once for a
batch, as a warning of the logger `penstock.spark`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

import penstock

log = logging.getLogger("penstock.spark")


@dataclass(frozen=True, slots=True)
class Dropped:
    """Numbers of rows, of a stream or in a batch."""

    late: int = 0
    ahead: int = 0
    without_time: int = 0

    @property
    def rows(self) -> int:
        return self.late + self.ahead + self.without_time

    def since(self, before: Dropped) -> Dropped:
        return Dropped(
            self.late - before.late, self.ahead - before.ahead, self.without_time - before.without_time
        )

    def __str__(self) -> str:
        said = {"late": self.late, "too far ahead": self.ahead, "without a time": self.without_time}
        return ", ".join(f"{number:,} {what}" for what, number in said.items() if number)


def sum_up(parts: Iterable[Dropped]) -> Dropped:
    """All of them."""
    found = list(parts)
    return Dropped(
        sum(one.late for one in found),
        sum(one.ahead for one in found),
        sum(one.without_time for one in found),
    )


def dropped_by(engine: penstock.Engine, untimed: Mapping[str, int]) -> dict[str, Dropped]:
    """What has been left out of each stream so far."""
    return {
        stream: Dropped(late, ahead, untimed.get(stream, 0))
        for stream, (late, ahead) in engine.dropped().items()
    }


def warn(before: Mapping[str, Dropped], after: Mapping[str, Dropped], where: str) -> None:
    """Say what was left out in between, if anything was."""
    new = {stream: now.since(before.get(stream, Dropped())) for stream, now in after.items()}
    said = [f"{found.rows:,} rows of `{stream}` ({found})" for stream, found in new.items() if found.rows]
    if said:
        log.warning("%s: left out %s", where, "; ".join(said))


def with_time(table: pa.Table, time_column: str) -> pa.Table:
    """The rows that have a time; the table itself if all do, or if it is not clear which column that is."""
    found = [at for at, name in enumerate(table.schema.names) if name.lower() == time_column.lower()]
    if len(found) != 1 or not table.column(found[0]).null_count:
        return table
    return table.filter(pc.is_valid(table.column(found[0])))

"""A batch as one side of a join sees it, before anything changes: what takes part, and what fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Expression
from penstock.engine.members.lineage import Failure
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import DataError


@dataclass(slots=True)
class Needed:
    """Of a batch: positions of the rows some member needs (None: all), and of these how long each lives
    (None: all alike), how far it looks back (None: as far as there are rows), its leaves and words. And how
    long all rows live, 0 for those nobody needs, which predicates fail, and what others want to be known."""

    there: NDArray | None = None
    lifetime: NDArray | None = None
    reach: NDArray | None = None
    leaves: tuple[NDArray, ...] = ()
    words: tuple[NDArray, ...] = ()
    lifetimes: NDArray | None = None
    failures: list[Failure] = field(default_factory=list)
    memory: tuple[NDArray, ...] = ()

    def take(self, positions: NDArray) -> Needed:
        """Some of these rows."""
        return Needed(
            positions if self.there is None else self.there[positions],
            None if self.lifetime is None else self.lifetime[positions],
            None if self.reach is None else self.reach[positions],
            tuple(values[positions] for values in self.leaves),
            tuple(values[positions] for values in self.words),
            self.lifetimes,
            self.failures,
            tuple(values[positions] for values in self.memory),
        )


@dataclass(slots=True)
class Examined:
    """A batch, of which `rows` take part, with these keys; or what fails on it."""

    batch: Batch
    needed: Needed
    rows: Batch
    keys: list[pa.Array]
    failures: tuple[Failure, ...]


def first_bad_key(keys: Sequence[Expression], rows: Batch, error: DataError) -> tuple[int, DataError]:
    """Which row is the first on which a key fails, and how; on all of them something fails with `error`."""
    good, bad = 0, rows.length  # the first `good` rows do not fail, the first `bad` do
    while bad - good > 1:
        middle = (good + bad) // 2
        part = rows.slice(good, middle)
        try:
            for key in keys:
                evaluate(key, part.column, part.length)
        except DataError as found:
            bad, error = middle, found
        else:
            good = middle
    return good, error

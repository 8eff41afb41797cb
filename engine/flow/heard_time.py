"""Up to when an operator knows which of its rows have left their windows. Never by a clock.

promises   as far as its inputs have come, rows or not
messages   from time-messages, and from the rows themselves
rows       from the rows alone: if none comes, it hears of nothing (the input-triggered approach)

The end of the inputs tells the time in any case. One that ended before the others, a table, tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from penstock.engine.rows.batch import Batch

from .queue import BEGINNING, Queue

Learning = Literal["promises", "messages", "rows"]


class HeardTime:
    """What is known of the time; `ts` only grows."""

    __slots__ = ("_how", "_inputs", "ts")

    def __init__(self, how: Learning, inputs: Sequence[Queue]) -> None:
        self._how = how
        self._inputs = inputs
        self.ts = BEGINNING

    def learn(self, bound: int, taken: Sequence[Batch | None]) -> int:
        """After rows up to `bound` were taken from the inputs: the time up to which expiry is known."""
        still = [queue.punctuation for queue in self._inputs if queue.batches or not queue.closed]
        come = min(bound, *still) if still else max(queue.punctuation for queue in self._inputs)
        if self._how == "promises" or not still:
            known = come
        else:
            known = max((int(batch.ts[-1]) for batch in taken if batch is not None), default=BEGINNING)
        if self._how == "messages":
            known = max(known, *(queue.read_messages(bound) for queue in self._inputs))
        self.ts = max(self.ts, known)
        return self.ts

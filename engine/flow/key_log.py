"""How far the keys of what a join gives have come: read by whoever groups its rows.

In:      after each piece of work, the least frontier of all sides with each arrival.
Out:     to each reader, where that rose: times and frontiers, as far as it has taken the rows.
Kept:    rises that some reader has not come to.
Law:     rows with a key below the frontier of a rise are given up to its time; what comes with such a key
         after that came too late.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.engine.keys.keys import INT_MIN
from penstock.engine.restoring.in_order import expect, rising
from penstock.engine.rows.buffer import RowBuffer

from .queue import Queue


class KeyLog:
    """Of one join."""

    def __init__(self) -> None:
        self.now = INT_MIN
        self._ts, self._frontiers = RowBuffer("int64"), RowBuffer("int64")
        self._readers: list[LogReader] = []

    def note(self, ts: NDArray, frontiers: NDArray) -> None:
        """Times of arrivals, and the least of all frontiers after each; what they find has been given."""
        rises = np.flatnonzero(frontiers > np.concatenate([np.array([self.now]), frontiers[:-1]]))
        if not len(rises):
            return
        self.now = int(frontiers[rises[-1]])
        if self._readers:
            self._ts.append(ts[rises])
            self._frontiers.append(frontiers[rises])
            for one in self._readers:
                one.queue.wake()

    def reader(self, queue: Queue) -> LogReader:
        """Somebody who reads what is given from now on, from a queue."""
        found = LogReader(self, queue, self._ts.end, self.now)
        self._readers.append(found)
        return found

    def leave(self, reader: LogReader) -> None:
        self._readers = [one for one in self._readers if one is not reader]
        self.forget()

    def since(self, position: int, bound: int) -> tuple[NDArray, NDArray]:
        """Times and frontiers of the rises from a position on, up to a time."""
        stop = position + int(self._ts.run(position, self._ts.end).searchsorted(bound, side="right"))
        return self._ts.run(position, stop).copy(), self._frontiers.run(position, stop).copy()

    def forget(self) -> None:
        """Drop what all readers have read."""
        read = min((one.position for one in self._readers), default=self._ts.end)
        self._ts.drop(read)
        self._frontiers.drop(read)

    def has(self, reader: LogReader) -> bool:
        return any(one is reader for one in self._readers)

    def holds(self, position: int) -> bool:
        """Whether rises from a position on are there."""
        return self._ts.tail <= position <= self._ts.end

    def _check_restored(self) -> None:
        logs = (self._ts, self._frontiers)
        expect(len({(one.tail, one.end) for one in logs}) == 1, "times and frontiers of all rises")
        expect(all(one.data.dtype == np.int64 for one in logs), "times and frontiers")
        for one in logs:
            rising(one.live, "rises of frontiers")


class LogReader:
    """Who takes rows of a join, and reads how far their keys have come."""

    __slots__ = ("log", "now", "position", "queue")

    def __init__(self, log: KeyLog, queue: Queue, position: int, now: int) -> None:
        self.log, self.queue, self.position = log, queue, position
        self.now = now
        """The least key that can come behind the rows that were taken."""

    def read(self, bound: int) -> tuple[NDArray, NDArray]:
        """Rows up to this time were taken: times and frontiers of the rises up to there."""
        ts, frontiers = self.log.since(self.position, bound)
        self.position += len(ts)
        if len(ts):
            self.now = int(frontiers[-1])
            self.log.forget()
        return ts, frontiers

    def leave(self) -> None:
        """Nothing more is read."""
        self.log.leave(self)

    def _check_restored(self) -> None:
        expect(self.log.has(self) and self.log.holds(self.position), "a reader of a join's keys")

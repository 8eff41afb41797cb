"""When a query's streams reached a time: what the delay of a result is measured against.

A change at T is due once every stream of the query has come to T. One that comes out while the push that
brought them there is worked off is on time, and so is one that comes with more rows of T itself. Later it is
late: in stream time by how far the streams had come beyond T by then, in processing time by what has passed
since that push began. Where an instant has to be over (ROWS windows, hops) a change at T is due when time has
passed T.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.delays import Delays
from penstock.engine.flow.queue import BEGINNING, Outlet
from penstock.engine.rows.window import MAX_TS

MAX_PUSHES = 8_192  # remembered per stream


class Progress:
    """How far one stream had come after each push, and when that push began, in seconds."""

    __slots__ = ("_began", "_outlet", "_times", "first", "fresh", "settled")

    def __init__(self, outlet: Outlet) -> None:
        """outlet: where the stream's rows and promises come from."""
        self._outlet = outlet
        self.first: int | None = None
        """The first time that was heard of."""
        self.fresh: int | None = None
        """The earliest ts of the rows that came by the push that is being worked off."""
        self.settled = BEGINNING
        self._times: list[int] = []
        self._began: list[float] = []

    @property
    def come(self) -> int:
        """How far the stream has come, also by the push that is being worked off."""
        return self._outlet.punctuation

    def begin(self, ts: int) -> None:
        """There is a row at `ts`, or time has come to it."""
        self.first = ts if self.first is None else min(self.first, ts)

    def go_on(self, ts: int) -> None:
        """Rows from this time on, which the push has brought or let go, are passed on."""
        self.fresh = ts

    def note(self, ts: int, began: float) -> None:
        """A push that began then is worked off; the stream has come to `ts`."""
        self.fresh = None
        if ts > self.settled:
            self.settled = ts
            self._times.append(ts)
            self._began.append(began)
            if len(self._times) > MAX_PUSHES:
                del self._times[: MAX_PUSHES // 2], self._began[: MAX_PUSHES // 2]

    def reached(self, ts: int) -> float | None:
        """When the push began that brought the stream to `ts`; None: it has not come there."""
        place = bisect_left(self._times, ts)
        return self._began[place] if place < len(self._times) else None


class StreamClock:
    """The time of one query: that of its streams."""

    def __init__(
        self,
        streams: Sequence[Progress],
        clock: Callable[[], float],
        began: Callable[[], float],
        passed: int = BEGINNING,
    ) -> None:
        """clock: seconds; began: when the push that is being worked off began; passed: how far streams have
        come of which rows have gone by before the query."""
        self._streams = streams
        self._clock = clock
        self._began = began
        self.waits = False
        """Whether changes come out only when their instant is over."""
        self.start = max((one.settled for one in streams), default=BEGINNING)
        self._passed = passed

    @property
    def first(self) -> int | None:
        """When the query's answer begins: with the first time it has heard of from any stream, but not before
        what it has missed. A stream that had come far without rows keeps no other from beginning earlier."""
        known = [one.first for one in self._streams if one.first is not None]
        return max(min(known), self._passed) if known else None

    def begins(self) -> int | None:
        """The same, for whoever asks later."""
        return self.first

    def note(self, ts: NDArray, stream: Delays, processing: Delays) -> None:
        """Take in the delays of changes at these times, in order, that come out now."""
        if not len(ts):
            return
        now = self._clock()
        settled = self._settled
        late = 0
        if ts[0] <= settled:
            may_come = self.waits or settled <= self.start or any(p.fresh == settled for p in self._streams)
            late = int(ts.searchsorted(settled, side="left" if may_come else "right"))
        if late < len(ts):
            stream.add_one(0.0, len(ts) - late)
            processing.add_one(1e6 * (now - self._began()), len(ts) - late)
        if late:
            come = min(one.come for one in self._streams)
            stream.add((come - ts[:late]).astype(np.float64))
            times, numbers = np.unique(ts[:late], return_counts=True)
            for one, number in zip(times.tolist(), numbers.tolist(), strict=True):
                known = [began for p in self._streams if (began := p.reached(one)) is not None]
                processing.add_one(1e6 * (now - max(known, default=now)), number)

    @property
    def _settled(self) -> int:
        """How far all streams had come before the push that is being worked off."""
        settled = MAX_TS if self._streams else BEGINNING
        for one in self._streams:
            if one.settled < settled:
                settled = one.settled
        return settled

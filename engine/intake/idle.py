"""Streams that may fall silent without holding others: IDLE AFTER.

A query works rows up to the time that all its streams have come to. When a stream of it has come to T, and
one declared with IDLE AFTER d has no row later than T - d, time has passed there to T - d as well.

    a                1   2   3   4   5   6   7   8        has come to 8
    s IDLE AFTER 5   1   2                      |
                             .  .  .  .  promise 3        from now on a row of s below 3 is late

How far a stream has come is its watermark, whether its rows made it, an advance or this rule; so what one
stream is raised by may raise the next. The result does not depend on the order: each is raised to the
greatest that any way of it gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .ingest import Ingest


class IdleStreams:
    """Which streams wait for which, and the rule for those that may be idle."""

    def __init__(self, streams: Mapping[str, Ingest]) -> None:
        self._streams = streams
        self.rules: dict[str, int] = {}
        """In microseconds, by stream."""
        self._beside: dict[str, list[str]] | None = None
        """By stream: those with a rule that some query reads together with it. None: to be found."""

    def forget(self) -> None:
        """Queries have come or gone."""
        self._beside = None

    def look(self, stream: str | None, queries: Iterable[Iterable[str]]) -> None:
        """A stream has moved, or all may have; `queries`: the streams of each query at work."""
        if self._beside is None or stream is None:
            self._beside = self._find(queries)
            moved = list(self._streams)
        else:
            moved = [stream]
        while moved:
            name = moved.pop()
            come = self._streams[name].watermark
            for silent in self._beside.get(name, ()):
                if self._streams[silent].be_idle(come - self.rules[silent]):
                    moved.append(silent)

    def foresee(self, stream: str | None, come: dict[str, int], queries: Iterable[Iterable[str]]) -> None:
        """Add to `come`, how far streams would have come, those that `look` would raise then."""
        known = self._beside  # `look` finds out anew whether queries have come or gone: it goes over all then
        beside = self._find(queries) if known is None else known
        moved = list(self._streams) if known is None or stream is None else [stream]
        while moved:
            name = moved.pop()
            for silent in beside.get(name, ()):
                one = self._streams[silent]
                raised = come.get(name, self._streams[name].watermark) - self.rules[silent]
                if raised > come.get(silent, one.watermark) and raised >= one.last_ts:
                    come[silent] = raised
                    moved.append(silent)

    def _find(self, queries: Iterable[Iterable[str]]) -> dict[str, list[str]]:
        beside: dict[str, dict[str, None]] = {}
        for streams in queries:
            together = list(streams)
            for silent in together:
                if silent in self.rules:
                    for name in together:
                        if name != silent:
                            beside.setdefault(name, {})[silent] = None
        return {name: list(silent) for name, silent in beside.items()}

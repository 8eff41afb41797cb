"""Which rows of streams are taken, by a definition row by row: late ones, rows far ahead, silent streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

LONG_AGO = -(10**9)
Row = tuple[int, int, int | None, float | None]


@dataclass
class Declared:
    """A stream. ahead: how far at most, and after how many rows that is believed."""

    slack: int = 0
    ahead: tuple[int, int] | None = None
    idle: int | None = None

    def sql(self, name: str) -> str:
        told = f" AS ts - INTERVAL '{self.slack}' MICROSECOND" if self.slack else ""
        if self.ahead is not None:
            limit, rows = self.ahead
            told += f" AHEAD AT MOST INTERVAL '{limit}' MICROSECOND AFTER {rows} ROWS"
        mark = f", WATERMARK FOR ts{told}" if told else ""
        idle = "" if self.idle is None else f", IDLE AFTER {self.idle} us"
        return f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE{mark}{idle})"


@dataclass
class Entry:
    """One stream, row by row."""

    declared: Declared
    latest: int | None = None
    come: int = LONG_AGO
    """How far time has come: its watermark."""
    run: list[int] = field(default_factory=list)
    """Rows ahead that agree."""

    def judge(self, ts: int) -> str:
        if ts < self.come:
            return "late"
        if self.declared.ahead is not None and self.latest is not None:
            limit, needed = self.declared.ahead
            if ts > max(self.latest, self.come) + limit:
                agrees = self.run and max(self.run) - self.declared.slack <= ts <= max(self.run) + limit
                self.run = [*self.run, ts] if agrees else [ts]
                if len(self.run) < needed:
                    return "ahead"
        self.run = []
        self.latest = ts if self.latest is None else max(self.latest, ts)
        self.come = max(self.come, self.latest - self.declared.slack)
        return "taken"

    def push(self, rows: list[Row], drops: bool) -> list[Row] | str:
        """Those that are taken, or why the push is refused."""
        before, taken = (self.latest, self.come, self.run), []
        for row in rows:
            verdict = self.judge(row[0])
            if verdict == "taken":
                taken.append(row)
            elif not drops:
                self.latest, self.come, run = before
                self.run = run if verdict == "late" else self.run  # one that is ahead has come, and counts
                return verdict
        return taken


class Entrance:
    """All streams."""

    def __init__(self, declared: dict[str, Declared]) -> None:
        self.entries = {name: Entry(one) for name, one in declared.items()}

    def advance(self, ts: int, stream: str | None) -> None:
        for name, one in self.entries.items():
            if stream in (None, name):
                one.come = max(one.come, ts)

    def let_idle(self, queries: Iterable[set[str]]) -> None:
        """Raise those that are silent until nothing changes."""
        together = [streams for streams in queries if len(streams) > 1]
        for _ in self.entries:  # as far as one can raise the next
            for silent, one in self.entries.items():
                wait = one.declared.idle
                if wait is None:
                    continue
                beside = {name for streams in together if silent in streams for name in streams - {silent}}
                furthest = max((self.entries[name].come for name in beside), default=LONG_AGO)
                if furthest - wait >= (LONG_AGO if one.latest is None else one.latest):
                    one.come = max(one.come, furthest - wait)

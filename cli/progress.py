"""How far a run has come, on a terminal; nothing at all in a pipe.

The bar appears only once a run has lasted a moment: a short one should not pay for loading it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.rows.write_times import write_time

if TYPE_CHECKING:
    from penstock.connectors.merge import Feed

    from .drive import Driver

QUIET_S = 0.5
REFRESH_S = 0.1


class Progress:
    """A bar of the share of input worked off, rows, rows per second and the streams' time."""

    def __init__(self, driver: Driver, feeds: Sequence[Feed], *, shown: bool) -> None:
        self._driver = driver
        self._feeds = feeds
        self._shown = shown
        self._started = time.monotonic()
        self._drawn = self._started + QUIET_S - REFRESH_S
        self._bar: Any = None
        self._task: Any = None

    def update(self) -> None:
        """Called after every step; draws a few times a second."""
        now = time.monotonic()
        if not self._shown or now - self._drawn < REFRESH_S:
            return
        self._drawn = now
        if self._bar is None:
            self._start()
        seconds = max(now - self._started, 1e-9)
        known = self._driver.now_us
        self._bar.update(
            self._task,
            completed=sum(feed.bytes_worked(self._driver.rows_of[feed.stream]) for feed in self._feeds),
            rows=f"{self._driver.rows:,} rows, {self._driver.rows / seconds:,.0f}/s",
            time="" if known is None else write_time(known)[:19],
        )
        self._bar.refresh()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        sizes = [feed.bytes_total for feed in self._feeds]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bar = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]}"),
            TextColumn("[dim]{task.fields[time]}"),
            console=Console(file=sys.stderr),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=total, rows="", time="")
        self._bar.start()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __enter__(self) -> Callable[[], None]:
        return self.update

    def __exit__(self, *_: object) -> None:
        self.close()

"""What the demo looks like: a page on a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import textwrap
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from penstock.compile_notice import compile_notice
from penstock.engine.rows.write_times import write_time

from .session import note

if TYPE_CHECKING:
    import pyarrow as pa

RECENT_RESULTS = 4
REFRESH_S = 0.08
WIDTH = 110


class Page:
    """Says the same either way; only colour, frames and movement need a terminal."""

    def __init__(self) -> None:
        self._console: Any = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def title(self, text: str) -> None:
        if self._console:
            self._console.print()
            self._console.rule(f"[bold]{text}")
        else:
            click.echo(f"{text}\n")

    def heading(self, text: str) -> None:
        if self._console:
            self._console.print(f"\n[bold cyan]{text}[/]\n")
        else:
            click.echo(f"\n{text}\n{'-' * len(text)}")

    def say(self, text: str) -> None:
        """A sentence, on a terminal broken between words; a path longer than a line stays whole."""
        if self._console:
            text = textwrap.fill(text, self._console.width, break_long_words=False, break_on_hyphens=False)
        click.echo(text)

    def sql(self, text: str) -> None:
        if self._console:
            from rich.syntax import Syntax

            self._console.print(Syntax(text.strip(), "sql", background_color="default", word_wrap=True))
        else:
            click.echo(text.strip())

    def results(self, name: str, count: int, first: pa.RecordBatch) -> None:
        """The query's first results and how many there were."""
        if self._console:
            self._console.print(f"[bold]{name}[/]  [green]{count:,} results[/], the first of them:")
        else:
            click.echo(f"{name}: {count:,} results, the first of them:")
        for line in write_rows(first):
            click.echo(f"  {line}")

    def plan(self, text: str) -> None:
        click.echo(text)

    def command(self, text: str) -> None:
        click.secho(textwrap.indent(text, "  ") + "\n", bold=bool(self._console))

    @contextmanager
    def live(self, names: list[str]) -> Iterator[LiveScreen]:
        from rich.live import Live

        with Live(console=self._console, auto_refresh=False) as live:
            compile_notice.say = live.console.print  # above the frames, not into them
            try:
                yield LiveScreen(live, names)
            finally:
                compile_notice.say = note


class LiveScreen:
    """A frame per query with its latest results, and below how far time and rows have come."""

    def __init__(self, live: Any, names: list[str]) -> None:
        self._live = live
        self._recent: dict[str, deque[str]] = {name: deque(maxlen=RECENT_RESULTS) for name in names}
        self._counts = dict.fromkeys(names, 0)
        self._began = time.monotonic()
        self._drawn = 0.0

    def receive(self, name: str, batch: pa.RecordBatch) -> None:
        self._counts[name] += len(batch)
        self._recent[name].extend(write_rows(batch.slice(max(0, len(batch) - RECENT_RESULTS))))

    def update(self, rows: int, now_us: int | None) -> None:
        """Draws a few times a second, whenever it is called."""
        if time.monotonic() - self._drawn >= REFRESH_S:
            self.finish(rows, now_us)

    def finish(self, rows: int, now_us: int | None) -> None:
        """Draws at once."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        self._drawn = time.monotonic()
        frames = []
        for name, lines in self._recent.items():
            shown = [*lines, *[""] * (RECENT_RESULTS - len(lines))]
            frames.append(
                Panel(
                    Text("\n".join(shown), no_wrap=True, overflow="ellipsis"),
                    title=f"[bold]{name}[/]  [green]{self._counts[name]:,} results",
                    title_align="left",
                    border_style="cyan",
                    width=min(WIDTH, self._live.console.width),
                )
            )
        clock = "" if now_us is None else write_time(now_us)[:19]
        rate = rows / max(self._drawn - self._began, 1e-9)
        status = Text.from_markup(f"[bold]{clock}[/]  {rows:,} rows  [dim]{rate:,.0f} rows/s")
        self._live.update(Group(*frames, status), refresh=True)


def write_rows(batch: pa.RecordBatch) -> list[str]:
    """A line per row: the time of day, then each column with its name."""
    lines = []
    for row in batch.to_pylist():
        clock = row.pop("_ts").strftime("%H:%M:%S.%f")[:-3]
        values = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())
        lines.append("  ".join([clock, *(f"{key} {value}" for key, value in zip(row, values, strict=True))]))
    return lines

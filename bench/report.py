"""How a bench's outcome is shown and kept."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock.optimizer.calibrate.calibrate import machine

from .outcome import Line, Outcome

PACKAGES = ("penstock", "numba", "numpy", "pyarrow", "duckdb", "polars", "matplotlib", "pyspark")
STYLES = {"pass": "green", "miss": "bold red", "": ""}


def show(outcome: Outcome, console: Console, quick: bool) -> None:
    """The lines as a table, then what disagreed and what was missed."""
    table = Table(title=f"penstock bench {outcome.bench}", title_justify="left", title_style="bold")
    table.caption, table.caption_justify = outcome.caption or None, "left"
    for title, justify in (
        ("", "left"),
        ("value", "right"),
        ("target", "right"),
        ("", "left"),
        ("note", "left"),
    ):
        table.add_column(title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    group = ""
    for line in outcome.lines:
        if line.group != group:
            group = line.group
            table.add_section()
            table.add_row(f"[bold]{group}[/bold]")
        style = STYLES[line.verdict]
        table.add_row(
            f"  {line.name}",
            f"{write_value(line)}",
            "" if line.target is None else str(line.target),
            f"[{style}]{line.verdict}[/{style}]" if style else "",
            f"[dim]{line.note}[/dim]" if line.note else "",
        )
    console.print(table)
    for what in outcome.disagreements:
        console.print(f"[bold red]different answers[/bold red]  {what}", soft_wrap=True)
    missed = [line for line in outcome.lines if line.verdict == "miss"]
    met = sum(line.verdict == "pass" for line in outcome.lines)
    agreement = "all answers agree" if outcome.agrees else "[bold red]answers differ[/bold red]"
    scale = " (with --quick; targets are meant for the full run)" if quick else ""
    console.print(f"{agreement}; {met} targets met, {len(missed)} missed{scale}")
    for line in missed:
        what = f"{line.group}: {line.name} {write_value(line)}, target {line.target}"
        console.print(f"  [bold red]missed[/bold red]  {what}", soft_wrap=True)


def write_value(line: Line) -> str:
    """The value as people read it."""
    value = line.value
    if line.unit == "x":
        return f"{value:.2f}x" if value < 100 else f"{value:,.0f}x"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {line.unit}"


def save(outcome: Outcome, out: Path, quick: bool) -> Path:
    """Everything as JSON, with the machine, the versions and the date."""
    path = out / f"{outcome.bench}.json"
    path.write_text(json.dumps(as_data(outcome, quick), indent=2) + "\n")
    return path


def as_data(outcome: Outcome, quick: bool) -> dict[str, Any]:
    """The outcome for programs."""
    return {
        "bench": outcome.bench,
        "quick": quick,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": {"python": platform.python_version()} | {name: version_of(name) for name in PACKAGES},
        "caption": outcome.caption,
        "answers_agree": outcome.agrees,
        "disagreements": outcome.disagreements,
        "lines": [
            dataclasses.asdict(line)
            | {"target": None if line.target is None else str(line.target), "verdict": line.verdict or None}
            for line in outcome.lines
        ],
        "pictures": outcome.pictures,
        "data": outcome.data,
    }


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

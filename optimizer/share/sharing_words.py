"""Words and tables in which EXPLAIN tells of shared joins."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import islice
from typing import Any

from penstock.engine.rows.window import FOREVER
from penstock.engine.rows.write_times import write_duration
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.optimizer.costs.strategy_cost import StrategyCost

MOST_NAMES = 4


def name_of(shared_join: SharedJoin) -> str:
    """What a join is called; one that a query has for itself, after the query."""
    return shared_join.name if shared_join.common.owner is None else f"join of {shared_join.name}"


def write_size(size: int, by_rows: bool) -> str:
    """A window or an age: a duration, or so many rows."""
    if size == FOREVER:
        return "unbounded"
    return counted(size, "ROW", "ROWS") if by_rows else write_duration(size)


def write_range(start: int, end: int, by_rows: bool) -> str:
    """A range of ages; the unit once if both ends have it."""
    low, high = write_size(start, by_rows), write_size(end, by_rows)
    number, unit = low.split(" ", 1)
    is_same = start == 0 or unit.removesuffix("S") == high.partition(" ")[2].removesuffix("S")
    return f"[{number if is_same else low}, {high})"


def counted(count: int, noun: str, plural: str) -> str:
    return f"{count:,} {noun if count == 1 else plural}"


def few(names: Sequence[str], count: int | None = None) -> str:
    """The first of so many names."""
    count = len(names) if count is None else count
    return ", ".join(names[:MOST_NAMES]) + (", ..." if count > MOST_NAMES else "")


def few_counts(counts: Mapping[str, int]) -> str:
    """The first of some counts, by name."""
    shown = [f"{name} {count:,}" for name, count in islice(counts.items(), MOST_NAMES)]
    return ", ".join(shown) + (f", ... ({len(counts):,})" if len(counts) > MOST_NAMES else "")


def cost_table(
    costs: Mapping[str, StrategyCost], measured: Mapping[str, StrategyCost] | None, running: str
) -> list[str]:
    """What each strategy keeps and costs, the running one marked."""
    head = ["", "strategy", "state rows", "cores"]
    cells = [[*head, *(["state rows", "cores"] if measured else []), ""]]
    for name, cost in costs.items():
        both = [cost] if measured is None else [cost, measured[name]]
        numbers = [text for one in both for text in (f"{one.state_rows:,.0f}", f"{one.cores:.3g}")]
        cells.append(["*" if name == running else "", name, *numbers, both[-1].note])
    return aligned(cells, range(2, len(cells[0]) - 1))


def costs_as_data(costs: Mapping[str, StrategyCost]) -> dict[str, Any]:
    return {
        name: {"state_rows": cost.state_rows, "cores": cost.cores, "note": cost.note}
        for name, cost in costs.items()
    }


def aligned(cells: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """Rows of a table as lines; the last column as long as it is."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]

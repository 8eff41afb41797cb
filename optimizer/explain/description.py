"""What EXPLAIN shows of a plan, as a tree of text and as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Description:
    """A node as shown: a title, lines under it, what is below it, and the same as data."""

    title: str
    lines: list[str] = field(default_factory=list)
    below: list[Description] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def retitle(self, title: str) -> None:
        """More is known of it than of a node of its kind."""
        self.title = title

    def add_to_title(self, text: str) -> None:
        self.title += text


def measured_line(rows_in: int, rows_out: int, busy_s: float) -> str:
    speed = f", {rows_in / busy_s:,.0f} rows/s" if busy_s > 0 else ""
    return f"measured: {rows_in:,} rows in, {rows_out:,} out, busy {busy_s:.3g} s{speed}"


def write_tree(top: Description) -> str:
    """The description as an indented tree."""
    out = [top.title, *(f"  {line}" for line in top.lines)]
    write_below(top, "", out)
    return "\n".join(out)


def write_below(node: Description, indent: str, out: list[str]) -> None:
    for place, part in enumerate(node.below):
        last = place == len(node.below) - 1
        out.append(f"{indent}{'└─ ' if last else '├─ '}{part.title}")
        inner = indent + ("   " if last else "│  ")
        bar = "│  " if part.below else "   "
        out.extend(f"{inner}{bar}{line}" for line in part.lines)
        write_below(part, inner, out)


def as_data(node: Description) -> dict[str, Any]:
    """The description for programs."""
    return node.data | {"inputs": [as_data(part) for part in node.below]}


def write_json(queries: list[Description], shared_joins: list[Description]) -> str:
    """Queries, and the joins that several of them share, if there are any."""
    shown: dict[str, Any] = {"queries": [as_data(query) for query in queries]}
    if shared_joins:
        shown["groups"] = [shared_join.data for shared_join in shared_joins]
    return json.dumps(shown, indent=2)

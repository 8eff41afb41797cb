"""Where rows are in a file of a spool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """least and greatest: of what their owner looks for the rows by."""

    path: str
    at: int
    size: int
    rows: int
    least: int
    greatest: int

"""What a strategy costs, for whoever compares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """Rows kept on both sides together, cores busy, and of what the strategy is made here."""

    state_rows: float
    cores: float
    note: str


def counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

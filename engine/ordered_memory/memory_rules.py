"""What an engine was told of the memory that joins without windows may take, and how they keep within it.

    none     all rows that some row to come can meet are in memory
    dbf      disk-buffer first: those that lead the other streams, or wait for their time, are on the disk
    msf      memory-sort first: each stream is brought into the order of its keys, then joined
    hybrid   sorted, and then as dbf
    auto     none while the rows fit; then dbf, then hybrid; msf where nothing can be written

What does not fit even so goes early, the least keys first, and what is missed by that is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from penstock.engine.restoring.in_order import FAR, expect
from penstock.engine.spool.spool_folder import SpoolFolder

Disorder: TypeAlias = Literal["auto", "none", "msf", "dbf", "hybrid"]
Strategy: TypeAlias = Literal["none", "msf", "dbf", "hybrid"]
STRATEGIES: tuple[Strategy, ...] = ("none", "msf", "dbf", "hybrid")
SORTS = ("msf", "hybrid")
SPOOLS = ("dbf", "hybrid")


@dataclass(frozen=True, slots=True)
class SideLoad:
    """What is known of a side: its factor and multiplicity, rows per second, by how many rows it leads."""

    factor: int
    multiplicity: int
    rate: float
    lag: int


class MemoryModel(Protocol):
    """Says how many rows a join holds."""

    def rows(self, strategy: Strategy, sides: Sequence[SideLoad], ahead: int) -> list[int]:
        """By side; ahead: leading rows that stay in memory where others go to the disk."""


class MemoryRules:
    """Of one engine; its joins share the limit evenly."""

    def __init__(
        self,
        model: MemoryModel,
        disorder: Disorder = "auto",
        limit_rows: int | None = None,
        limit_bytes: int | None = None,
        folder: SpoolFolder | None = None,
    ) -> None:
        self.model = model
        self.disorder: Disorder = disorder
        self.limit_rows, self.limit_bytes = limit_rows, limit_bytes
        self.folder = folder
        self._joins = 0
        """That share the limit."""

    def enter(self) -> None:
        """One more join shares the limit."""
        self._joins += 1

    def leave(self) -> None:
        """One less."""
        self._joins -= 1

    @property
    def is_needed(self) -> bool:
        """Whether a join has to mind them."""
        return self.disorder not in ("auto", "none") or self.has_limit

    @property
    def has_limit(self) -> bool:
        return self.limit_rows is not None or self.limit_bytes is not None

    def share(self, bytes_per_row: float) -> int | None:
        """Most rows of one join; None: as many as there are."""
        joins = max(1, self._joins)
        if self.limit_rows is not None:
            return max(1, self.limit_rows // joins)
        if self.limit_bytes is not None:
            return max(1, int(self.limit_bytes / joins / bytes_per_row))
        return None

    def _check_restored(self) -> None:
        for limit in (self.limit_rows, self.limit_bytes):
            expect(limit is None or 0 < limit < FAR, "a limit of memory")
        expect(0 <= self._joins < FAR, "joins that share it")

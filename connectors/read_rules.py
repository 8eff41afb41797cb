"""What is done with rows that cannot be read: refused, or left out and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .bad_rows import BadRows
from .blocks import DEFAULT_LIMIT, RecordLimit

CUT = "The file is cut off within this row; --allow-partial leaves it out"


@dataclass(frozen=True, slots=True)
class ReadRules:
    """limit: of a record with quotes. allow_partial: a last record that is cut is left out. bad_rows: where
    rows go that are left out, None if they are refused. tell: is told what may not be meant. wake: of an
    input that is live, what to look at while waiting for bytes (live.py)."""

    limit: RecordLimit = DEFAULT_LIMIT
    allow_partial: bool = False
    bad_rows: BadRows | None = None
    tell: Callable[[str], None] | None = None
    wake: int | None = None

    def leave_out_cut(self, path: str, row: int) -> None:
        if self.tell is not None:
            self.tell(f"Note: `{path}` is cut off within row {row}, which is left out")


STRICT = ReadRules()

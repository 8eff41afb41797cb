"""What a stream's WATERMARK says of rows far ahead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AheadRule:
    """How far ahead of its stream a row may be, and how many in a row are believed all the same."""

    limit_us: int
    rows: int

"""What a stream declares of a column that grows: ORDERED."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class OrderRule:
    """How far out of order the keys of a column may come.

    monitored: that is measured. rows: no key comes more than `size` rows behind one that is not less. within:
    none is more than `size` below the greatest so far, in the column's units, of a TIMESTAMP microseconds.
    per: the columns of the stream whose values have a sequence each.
    """

    kind: Literal["monitored", "rows", "within"]
    size: int | float = 0
    per: tuple[int, ...] = ()

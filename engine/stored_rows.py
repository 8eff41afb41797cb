"""Stored rows taken out of their shelves, to be laid out anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .shelf import Shelf
from .store import FixedColumn, TextColumn


@dataclass(slots=True)
class StoredRows:
    """Rows as they are stored: times, places in the stream (if kept), keys, births, columns."""

    ts: NDArray
    places: NDArray
    keys: NDArray
    births: NDArray
    arrays: list[pa.Array]

    def take(self, positions: NDArray) -> StoredRows:
        arrow = pa.array(positions)
        return StoredRows(
            self.ts[positions],
            self.places[positions] if len(self.places) else self.places,
            self.keys[positions],
            self.births[positions],
            [array.take(arrow) for array in self.arrays],
        )


def births_of(shelf: Shelf) -> NDArray:
    return np.zeros(len(shelf), np.int32) if shelf.births is None else shelf.births.live


def stored(column: FixedColumn | TextColumn) -> pa.Array:
    """The live values of a stored column."""
    buffer = column.starts if isinstance(column, TextColumn) else column.values
    end = buffer.end - isinstance(column, TextColumn)
    return column.view().take(np.arange(buffer.tail, end))

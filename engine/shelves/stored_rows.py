"""Stored rows taken out of their shelves, to be laid out anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.members.row_tags import RowTags, merged
from penstock.engine.rows.store import FixedColumn, TextColumn

from .shelf import Shelf


@dataclass(slots=True)
class StoredRows:
    """Rows as they are stored: times, places in the stream (if kept), keys, births, columns, and what is
    known of them."""

    ts: NDArray
    places: NDArray
    keys: NDArray
    births: NDArray
    arrays: list[pa.Array]
    known: RowTags

    def take(self, positions: NDArray) -> StoredRows:
        arrow = pa.array(positions)
        return StoredRows(
            self.ts[positions],
            self.places[positions] if len(self.places) else self.places,
            self.keys[positions],
            self.births[positions],
            [array.take(arrow) for array in self.arrays],
            self.known.take(positions),
        )


def joined(parts: Sequence[StoredRows]) -> StoredRows:
    """All rows of some parts, one after the other; known by the lineage of the first."""
    lineage = parts[0].known.lineage
    assert all(part.known.lineage.is_like(lineage) for part in parts), "tags that do not compare"
    return StoredRows(
        np.concatenate([part.ts for part in parts]),
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.births for part in parts]),
        [pa.concat_arrays(columns) for columns in zip(*(part.arrays for part in parts), strict=True)],
        RowTags(lineage, merged([part.known.tags for part in parts])),
    )


def once(parts: Sequence[StoredRows]) -> StoredRows | None:
    """Rows of several parts, each once, in the order of their places; of copies, the one born last: others
    may lack columns that it has."""
    if not parts:
        return None
    rows = joined(parts)
    order = np.lexsort((-rows.births, rows.places))
    places = rows.places[order]
    is_first = np.concatenate((np.ones(min(1, len(places)), np.bool_), places[1:] != places[:-1]))
    return rows.take(order[is_first])


def births_of(shelf: Shelf) -> NDArray:
    return np.zeros(len(shelf), np.int32) if shelf.births is None else shelf.births.live


def stored(column: FixedColumn | TextColumn) -> pa.Array:
    """The live values of a stored column."""
    buffer = column.starts if isinstance(column, TextColumn) else column.values
    end = buffer.end - isinstance(column, TextColumn)
    return column.view().take(np.arange(buffer.tail, end))

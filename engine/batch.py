"""What flows between operators: rows in timestamp order, as columns.

A column is an Arrow array, or a promise to gather one from a store when somebody asks (`Gather`): joins pass
row numbers on, and only the columns a sink needs are ever copied. A batch that is only counted has a length
and neither times nor columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NO_ROWS = np.empty(0, np.int64)


class View(Protocol):
    """A stored column as it was at one moment; later changes of the store do not show."""

    def take(self, rows: NDArray) -> pa.Array:
        """The values at these row numbers."""

    def text_bytes(self, rows: NDArray) -> int:
        """Bytes of text that `take` would give."""


class Gather:
    """A column not copied yet: `view` at `rows`."""

    __slots__ = ("rows", "view")

    def __init__(self, view: View, rows: NDArray) -> None:
        self.view = view
        self.rows = rows


class Batch:
    """`length` rows: their times (int64, non-decreasing) and their columns."""

    __slots__ = ("_columns", "length", "ts")

    def __init__(self, ts: NDArray, columns: Sequence[pa.Array | Gather]) -> None:
        self.ts = ts
        self.length = len(ts)
        self._columns: list[pa.Array | Gather] = list(columns)

    @classmethod
    def counted(cls, length: int) -> Batch:
        """A batch of which only the number of rows is known."""
        batch = cls(NO_ROWS, ())
        batch.length = length
        return batch

    def __len__(self) -> int:
        return self.length

    @property
    def width(self) -> int:
        return len(self._columns)

    def column(self, index: int) -> pa.Array:
        """The column as Arrow, gathered on first use."""
        column = self._columns[index]
        if isinstance(column, Gather):
            column = self._columns[index] = column.view.take(column.rows)
        return column

    @property
    def text_bytes(self) -> int:
        """Bytes of text in the columns that are not gathered yet."""
        return sum(c.view.text_bytes(c.rows) for c in self._columns if isinstance(c, Gather))

    def select(self, indexes: Sequence[int]) -> Batch:
        """The same rows with these columns."""
        return Batch(self.ts, [self._columns[index] for index in indexes])

    def take(self, positions: NDArray) -> Batch:
        """The rows at these positions, which are in order."""
        arrow = pa.array(positions) if any(isinstance(c, pa.Array) for c in self._columns) else None
        rows: dict[int, NDArray] = {}

        def at(column: pa.Array | Gather) -> pa.Array | Gather:
            if isinstance(column, Gather):
                key = id(column.rows)
                if key not in rows:
                    rows[key] = column.rows[positions]
                return Gather(column.view, rows[key])
            return column.take(arrow)

        return Batch(self.ts[positions], [at(column) for column in self._columns])

    def slice(self, start: int, stop: int) -> Batch:
        """Rows [start, stop), without copying."""

        def part(column: pa.Array | Gather) -> pa.Array | Gather:
            if isinstance(column, Gather):
                return Gather(column.view, column.rows[start:stop])
            return column.slice(start, stop - start)

        return Batch(self.ts[start:stop], [part(column) for column in self._columns])

    def _check(self) -> None:
        assert len(self.ts) == 0 or len(self.ts) == self.length, "times and length differ"
        assert bool(np.all(self.ts[1:] >= self.ts[:-1])), "rows out of time order"
        for column in self._columns:
            rows = len(column.rows) if isinstance(column, Gather) else len(column)
            assert rows == len(self.ts), "a column is longer or shorter than the batch"


def concatenate(batches: Sequence[Batch]) -> Batch:
    """One batch of all rows, in the order given."""
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(index) for batch in batches]) for index in range(batches[0].width)
    ]
    return Batch(np.concatenate([batch.ts for batch in batches]), columns)

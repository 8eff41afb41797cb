"""What flows between operators: rows in timestamp order, as columns.

A column is an Arrow array, or a promise of one for when somebody asks: gathered from a store (`Gather`), put
together from parts (`Joint`), cut out of a longer one (`Cut`). Joins pass row numbers on
(joined_batch.py), and only the columns a sink needs are ever copied.
A batch that is only counted has a length and neither times nor columns.

Rows are changes of a bag. A row without more said enters it at its ts. With a sign of -1 it leaves it, and
has the values and the ets of the one that entered. With an ets it leaves by itself at that time: nobody sends
a -1 then, and whoever keeps it has to let it go. So every row that enters with a finite ets is gone at its
ets, or earlier by a -1; every other row is there until a -1 comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect, within

from .window import FOREVER

NO_ROWS = np.empty(0, np.int64)
EIGHT_BYTES = (pa.int64(), pa.float64(), pa.timestamp("us"))


class Known(Protocol):
    """What has been found out about the rows of a batch, for who knows what it means (row_tags.py)."""

    @property
    def rows(self) -> int:
        """Of how many rows it is known."""

    def take(self, positions: NDArray | slice) -> Known: ...

    def joined(self, batches: Sequence[Batch]) -> Known | None:
        """Of all rows of some batches."""


class View(Protocol):
    """A stored column as it was at one moment; later changes of the store do not show."""

    def take(self, rows: NDArray) -> pa.Array:
        """The values at these row numbers."""

    def text_bytes(self, rows: NDArray) -> int:
        """Bytes of text that `take` would give."""

    def check_rows(self, rows: NDArray) -> None:
        """Raise Disorder unless these rows can be taken; asked of what was restored."""


class Gather:
    """A column not copied yet: `view` at `rows`."""

    __slots__ = ("rows", "view")

    def __init__(self, view: View, rows: NDArray) -> None:
        self.view = view
        self.rows = rows


class Cut:
    """Part of a column of another batch, cut out when somebody asks."""

    __slots__ = ("batch", "index", "length", "start")

    def __init__(self, batch: Batch, index: int, start: int, length: int) -> None:
        self.batch = batch
        self.index = index
        self.start = start
        self.length = length

    def __len__(self) -> int:
        return self.length

    def _check_restored(self) -> None:
        expect(0 <= self.index < self.batch.width, "a column that there is")
        expect(self.start >= 0 and 0 <= self.length <= self.batch.length - self.start, "part of a batch")

    def taken(self) -> pa.Array:
        return self.batch.column(self.index).slice(self.start, self.length)


class Joint:
    """A column in several parts, put together when somebody asks."""

    __slots__ = ("batches", "index", "length")

    def __init__(self, batches: Sequence[Batch], index: int, length: int) -> None:
        self.batches = batches
        self.index = index
        self.length = length

    def __len__(self) -> int:
        return self.length

    def _check_restored(self) -> None:
        expect(all(0 <= self.index < batch.width for batch in self.batches), "a column that there is")
        expect(sum(batch.length for batch in self.batches) == self.length, "all rows of the batches")

    def taken(self) -> pa.Array:
        return pa.concat_arrays([batch.column(self.index) for batch in self.batches])


LazyColumn: TypeAlias = pa.Array | Gather | Joint | Cut


class Batch:
    """`length` rows: their times (int64, non-decreasing) and their columns.

    sign: int8, +1 or -1; None: all rows enter. ets: int64; None: FOREVER, no row leaves by itself.
    first_row: the number of the first row where a window keeps them, if it and all others are consecutive.
    known: what has been found out about the rows (row_tags.py).
    """

    __slots__ = ("_columns", "ets", "first_row", "known", "length", "sign", "ts")

    def __init__(
        self,
        ts: NDArray,
        columns: Sequence[LazyColumn],
        sign: NDArray | None = None,
        ets: NDArray | None = None,
        *,
        first_row: int | None = None,
        known: Known | None = None,
    ) -> None:
        self.ts = ts
        self.length = len(ts)
        self._columns: list[LazyColumn] = list(columns)
        self.sign = sign
        self.ets = ets
        self.first_row = first_row
        self.known = known

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

    @property
    def lazy_columns(self) -> list[LazyColumn]:
        """The columns as they are, gathered or not."""
        return self._columns

    def column(self, index: int) -> pa.Array:
        """The column as Arrow, gathered on first use."""
        columns = self.lazy_columns
        column = columns[index]
        if isinstance(column, Gather):
            column = columns[index] = column.view.take(column.rows)
        elif isinstance(column, Joint | Cut):
            column = columns[index] = column.taken()
        return column

    @property
    def text_bytes(self) -> int:
        """Bytes of text in the columns that are not gathered yet."""
        return sum(c.view.text_bytes(c.rows) for c in self._columns if isinstance(c, Gather))

    def select(self, indexes: Sequence[int]) -> Batch:
        """The same rows with these columns."""
        return self.with_columns([self._columns[index] for index in indexes])

    def with_columns(self, columns: Sequence[LazyColumn]) -> Batch:
        """The same changes of rows with other columns."""
        return Batch(self.ts, columns, self.sign, self.ets, first_row=self.first_row)

    def knowing(self, known: Known) -> Batch:
        """The same changes of rows, of which this is known."""
        return Batch(self.ts, self.lazy_columns, self.sign, self.ets, first_row=self.first_row, known=known)

    def as_of(self, ts: int) -> Batch:
        """The same changes of rows, all at one time."""
        return self.with_times(np.full(self.length, ts, np.int64))

    def with_times(self, ts: NDArray) -> Batch:
        """The same changes of rows at other times, which are in order."""
        return Batch(ts, self.lazy_columns, self.sign, self.ets)

    def without_signs(self) -> Batch:
        """Its rows, all of which enter, as rows of which nothing more is said."""
        return Batch(self.ts, self.lazy_columns, None, self.ets, first_row=self.first_row)

    def simplify(self) -> None:
        """Say nothing of signs if all rows enter, and nothing of ends if none leaves by itself."""
        if self.sign is not None and self.length and int(self.sign.min()) > 0:
            self.sign = None
        if self.ets is not None and self.length and int(self.ets.min()) == FOREVER:
            self.ets = None

    def take(self, positions: NDArray, ts: NDArray | None = None) -> Batch:
        """The rows at these positions, which are in order; columns are copied when somebody reads them.

        ts: the times they are to have, if other ones.
        """
        rows: dict[int, NDArray] = {}

        def at(index: int, column: LazyColumn) -> LazyColumn:
            if isinstance(column, Gather):
                key = id(column.rows)
                if key not in rows:
                    rows[key] = column.rows[positions]
                return Gather(column.view, rows[key])
            return Gather(ColumnView(self, index), positions)

        return Batch(
            self.ts[positions] if ts is None else ts,
            [at(i, column) for i, column in enumerate(self._columns)],
            None if self.sign is None else self.sign[positions],
            None if self.ets is None else self.ets[positions],
        )

    def slice(self, start: int, stop: int) -> Batch:
        """Rows [start, stop), without copying."""
        length = stop - start
        return Batch(
            self.ts[start:stop],
            [
                Gather(column.view, column.rows[start:stop])
                if isinstance(column, Gather)
                else Cut(self, index, start, length)
                for index, column in enumerate(self._columns)
            ],
            None if self.sign is None else self.sign[start:stop],
            None if self.ets is None else self.ets[start:stop],
            known=None if self.known is None else self.known.take(slice(start, stop)),
        )

    @property
    def signs(self) -> NDArray:
        """int8 per row, also where all are +1."""
        return np.ones(self.length, np.int8) if self.sign is None else self.sign

    @property
    def ends(self) -> NDArray:
        """int64 per row: when it leaves by itself, FOREVER if it does not."""
        return np.full(self.length, FOREVER, np.int64) if self.ets is None else self.ets

    def _check(self) -> None:
        assert len(self.ts) == 0 or len(self.ts) == self.length, "times and length differ"
        assert bool(np.all(self.ts[1:] >= self.ts[:-1])), "rows out of time order"
        for one in (self.sign, self.ets):
            assert one is None or len(one) == self.length, "signs or ends and length differ"
        for column in self.lazy_columns:
            rows = len(column.rows if isinstance(column, Gather) else column)
            assert rows == len(self.ts), "a column is longer or shorter than the batch"

    def _check_restored(self) -> None:
        expect(self.length >= 0 and len(self.ts) in (0, self.length), "a time for each row")
        for one in (self.sign, self.ets):
            expect(one is None or len(one) == self.length, "signs and ends of all rows")
        if self.sign is not None:
            expect(self.sign.dtype == np.int8 and bool((abs(self.sign) == 1).all()), "signs")
        expect(self.known is None or self.known.rows == self.length, "what is known of all rows")
        for column in self._columns:
            if isinstance(column, Gather):
                expect(len(column.rows) == self.length, "columns of one length")
                column.view.check_rows(column.rows)
            else:
                expect(len(column) == self.length, "columns of one length")


class ColumnView:
    """A column of a batch, to gather from."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self.index = index

    def take(self, rows: NDArray) -> pa.Array:
        column = self.batch.column(self.index)
        if column.null_count or not len(rows) or column.type not in EIGHT_BYTES:
            return column.take(pa.array(rows))
        values = np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)[rows]
        return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(values)])

    def text_bytes(self, rows: NDArray) -> int:
        column = self.batch.column(self.index)
        return int(column.take(pa.array(rows)).nbytes) if pa.types.is_string(column.type) else 0

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        expect(0 <= self.index < self.batch.width, "a column that there is")
        within(rows, 0, self.batch.length, "rows of a batch")


def all_at(ts: int, length: int) -> NDArray:
    """One time for so many rows, in the memory of one."""
    times: NDArray = np.ndarray((length,), np.int64, np.array([ts]), strides=(0,))
    times.flags.writeable = False
    return times


def concatenate(batches: Sequence[Batch]) -> Batch:
    """One batch of all rows, in the order given; a column is put together when somebody reads it."""
    if len(batches) == 1:
        return batches[0]
    ts = np.concatenate([batch.ts for batch in batches])
    known = next((batch.known for batch in reversed(batches) if batch.known is not None), None)
    return Batch(
        ts,
        [Joint(batches, index, len(ts)) for index in range(batches[0].width)],
        None if all(b.sign is None for b in batches) else np.concatenate([b.signs for b in batches]),
        None if all(b.ets is None for b in batches) else np.concatenate([b.ends for b in batches]),
        known=None if known is None else known.joined(batches),
    )

"""The rows of one side of a join, in time order, column by column.

Rows have numbers that only grow; [tail, end) are alive. Expiry moves the tail, nothing else: space comes back
when the buffers next grow (see buffer.py). A view of a column stays valid whatever happens to the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import ReferenceType, ref

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.base.gather import gather, gather_text, text_length, text_offsets
from penstock.engine.restoring.in_order import expect, rising, within

from .buffer import RowBuffer
from .types import ARROW_TYPES, SqlType


def bitmap(valid: NDArray | None) -> pa.Buffer | None:
    """Arrow's validity bits from one byte per row; None: no NULLs."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def fixed_values(array: pa.Array) -> NDArray:
    """The values of a fixed-width array, as int64 (bits of a double too) or uint8 (boolean)."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
        return np.frombuffer(array.buffers()[1], np.uint8, len(array), array.offset)
    return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset)


def valid_bytes(array: pa.Array) -> NDArray:
    """One byte per row: 0 for NULL."""
    return fixed_values(array.is_valid())


class Viewed(NamedTuple):
    """An array that a view reads, and the buffer that had it then, if that is known."""

    array: NDArray
    buffer: ReferenceType[RowBuffer] | None

    @property
    def is_stored(self) -> bool:
        """Whether the buffer still has it, so that the view alone does not keep it alive."""
        buffer = None if self.buffer is None else self.buffer()
        return buffer is not None and buffer.data is self.array


class StoredView:
    """A stored column at one moment."""

    __slots__ = ("_buffers", "valid")

    def __init__(self, buffers: Sequence[RowBuffer], valid: RowBuffer | None) -> None:
        self.valid = None if valid is None else (valid.data, valid.base)
        self._buffers = tuple(map(ref, buffers if valid is None else [*buffers, valid]))

    def viewed(self, *arrays: NDArray) -> list[Viewed]:
        """What the view reads: `arrays`, and what says which values are there."""
        read = arrays if self.valid is None else (*arrays, self.valid[0])
        buffers = self._buffers or (None,) * len(read)
        return [Viewed(array, buffer) for array, buffer in zip(read, buffers, strict=True)]

    def __getstate__(self) -> dict[str, object]:
        """Of a checkpoint it is no part whose the arrays were."""
        names = [name for cls in type(self).__mro__ for name in getattr(cls, "__slots__", ())]
        return {name: getattr(self, name) for name in names} | {"_buffers": ()}

    def _check_restored(self) -> None:
        expect(not self._buffers, "no buffers of others")
        if self.valid is not None:
            expect(self.valid[0].dtype == np.uint8 and self.valid[0].ndim == 1, "a byte for each value")


class FixedView(StoredView):
    """A fixed-width column at one moment."""

    __slots__ = ("_type", "base", "data")

    def __init__(self, type_: pa.DataType, values: RowBuffer, valid: RowBuffer | None) -> None:
        super().__init__([values], valid)
        self._type = type_
        self.data, self.base = values.data, values.base

    @property
    def memory(self) -> list[Viewed]:
        return self.viewed(self.data)

    @property
    def arrow_type(self) -> pa.DataType:
        return self._type

    def take(self, rows: NDArray) -> pa.Array:
        values = gather(self.data, self.base, rows)
        return self.array(values, None if self.valid is None else gather(*self.valid, rows))

    def array(self, values: NDArray, valid: NDArray | None) -> pa.Array:
        """Values as they are stored, and one byte each that says whether it is one, as Arrow."""
        if values.dtype == np.uint8:
            packed = np.packbits(values, bitorder="little")
            return pa.Array.from_buffers(self._type, len(values), [bitmap(valid), pa.py_buffer(packed)])
        return pa.Array.from_buffers(self._type, len(values), [bitmap(valid), pa.py_buffer(values)])

    def text_bytes(self, rows: NDArray) -> int:
        return 0

    def _check_restored(self) -> None:
        super()._check_restored()
        check_values(self._type, self.data)

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        within(rows, self.base, self.base + len(self.data), "rows of a column")
        check_valid(self.valid, rows)


class FixedColumn:
    """BIGINT, DOUBLE, TIMESTAMP as 8 bytes a row, BOOLEAN as one; validity only once a NULL has come."""

    def __init__(self, type_: SqlType, first_row: int = 0) -> None:
        self._type = ARROW_TYPES[type_]
        self.values = RowBuffer("uint8" if type_ is SqlType.BOOLEAN else "int64", first_row)
        self.valid: RowBuffer | None = None

    def append(self, array: pa.Array) -> None:
        if array.null_count and self.valid is None:
            self.valid = RowBuffer("uint8", self.values.tail)
            self.valid.append(np.ones(len(self.values), np.uint8))
        self.values.append(fixed_values(array))
        if self.valid is not None:
            self.valid.append(valid_bytes(array))

    def drop(self, row: int) -> None:
        self.values.drop(row)
        if self.valid is not None:
            self.valid.drop(row)

    def buffers(self) -> list[RowBuffer]:
        return [self.values]

    def view(self) -> FixedView:
        return FixedView(self._type, self.values, self.valid)

    def run(self, first: int, end: int) -> pa.Array:
        """Rows [first, end), without copying."""
        valid = None if self.valid is None else self.valid.run(first, end)
        return self.view().array(self.values.run(first, end), valid)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def _check_restored(self) -> None:
        check_values(self._type, self.values.data)
        if self.valid is not None:
            expect(self.valid.data.dtype == np.uint8, "a byte for each value")
            expect(
                (self.valid.tail, self.valid.end) == (self.values.tail, self.values.end), "NULLs of all rows"
            )


class TextView(StoredView):
    """A VARCHAR column at one moment."""

    __slots__ = ("base", "data", "data_base", "starts")

    def __init__(self, starts: RowBuffer, data: RowBuffer, valid: RowBuffer | None) -> None:
        super().__init__([starts, data], valid)
        self.starts, self.base = starts.data, starts.base
        self.data, self.data_base = data.data, data.base

    @property
    def memory(self) -> list[Viewed]:
        return self.viewed(self.starts, self.data)

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.string()

    def take(self, rows: NDArray) -> pa.Array:
        offsets = text_offsets(self.starts, self.base, rows)
        data = gather_text(self.starts, self.base, self.data, self.data_base, rows, offsets)
        valid = None if self.valid is None else bitmap(gather(*self.valid, rows))
        return pa.Array.from_buffers(
            pa.string(), len(rows), [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def text_bytes(self, rows: NDArray) -> int:
        return int(text_length(self.starts, self.base, rows))

    def _check_restored(self) -> None:
        super()._check_restored()
        expect(self.starts.dtype == np.int64 and self.data.dtype == np.uint8, "texts as bytes")
        expect(self.starts.ndim == self.data.ndim == 1, "texts one after the other")
        expect(self.data.flags.c_contiguous, "texts without gaps")

    def check_rows(self, rows: NDArray) -> None:
        """Whether these rows can be taken."""
        within(rows, self.base, self.base + len(self.starts) - 1, "rows of texts")
        starts, ends = self.starts[rows - self.base], self.starts[rows - self.base + 1]
        expect(bool((starts <= ends).all()), "texts that end behind their begin")
        within(starts, self.data_base, self.data_base + len(self.data) + 1, "texts")
        within(ends, self.data_base, self.data_base + len(self.data) + 1, "texts")
        check_valid(self.valid, rows)
        expect(int((ends - starts).sum()) < 1 << 31, "texts of some length")
        first = np.unique(np.stack([starts, ends], 1), axis=0, return_index=True)[1] if len(rows) else rows
        expect(bool((ends[first][:-1] <= starts[first][1:]).all()), "texts one after the other")
        offsets = text_offsets(self.starts, self.base, rows[first])
        data = gather_text(self.starts, self.base, self.data, self.data_base, rows[first], offsets)
        expect(is_text(data, offsets.astype(np.int64)), "texts in UTF-8")


class TextColumn:
    """VARCHAR as bytes and where each row's begin; `starts` has one entry more than there are rows."""

    def __init__(self, first_row: int = 0) -> None:
        self.starts = RowBuffer("int64", first_row)
        self.starts.append(np.zeros(1, np.int64))
        self.data = RowBuffer("uint8")
        self.valid: RowBuffer | None = None

    def append(self, array: pa.Array) -> None:
        if array.null_count and self.valid is None:
            self.valid = RowBuffer("uint8", self.starts.tail)
            self.valid.append(np.ones(len(self.starts) - 1, np.uint8))
        offsets, data = text_buffers(array)
        self.starts.append(offsets[1:].astype(np.int64) + (self.data.end - int(offsets[0])))
        self.data.append(data[offsets[0] : offsets[-1]])
        if self.valid is not None:
            self.valid.append(valid_bytes(array))

    def drop(self, row: int) -> None:
        row = min(row, self.starts.end - 1)
        self.starts.drop(row)
        self.data.drop(int(self.starts.data[self.starts.tail - self.starts.base]))
        if self.valid is not None:
            self.valid.drop(row)

    def buffers(self) -> list[RowBuffer]:
        return [self.starts, self.data]

    def view(self) -> TextView:
        return TextView(self.starts, self.data, self.valid)

    def run(self, first: int, end: int) -> pa.Array:
        """Rows [first, end), without copying their texts."""
        starts = self.starts.run(first, end + 1)
        offsets = (starts - starts[0]).astype(np.int32)
        data = self.data.run(int(starts[0]), int(starts[-1]))
        valid = None if self.valid is None else bitmap(self.valid.run(first, end))
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), end - first, buffers)

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.data.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def _check_restored(self) -> None:
        starts, data = self.starts, self.data
        expect(starts.data.dtype == np.int64 and data.data.dtype == np.uint8, "texts as bytes")
        expect(len(starts) > 0, "where the next text begins")
        rising(starts.live, "texts")
        within(starts.live, data.tail, data.end + 1, "texts")
        expect(int(starts.live[-1]) == data.end, "texts up to the end")
        expect(is_text(data.live, starts.live - data.tail), "texts in UTF-8")
        if self.valid is not None:
            expect(self.valid.data.dtype == np.uint8, "a byte for each text")
            expect((self.valid.tail, self.valid.end) == (starts.tail, starts.end - 1), "NULLs of all texts")


def check_values(type_: pa.DataType, data: NDArray) -> None:
    expect(type_ in ARROW_TYPES.values() and not pa.types.is_string(type_), "a type of fixed width")
    expect(
        data.ndim == 1 and data.dtype == (np.uint8 if pa.types.is_boolean(type_) else np.int64), "its values"
    )


def check_valid(valid: tuple[NDArray, int] | None, rows: NDArray) -> None:
    if valid is not None:
        within(rows, valid[1], valid[1] + len(valid[0]), "rows of which it is known whether they are NULL")


def is_text(data: NDArray, starts: NDArray) -> bool:
    """Whether bytes are texts in UTF-8 that begin at these places."""
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    inside = starts[starts < len(data)]
    return not bool(((data[inside] & 0xC0) == 0x80).any())


def text_buffers(array: pa.Array) -> tuple[NDArray, NDArray]:
    """Offsets (int32, one more than rows) and bytes (uint8) of a string array."""
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    return starts, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def new_column(type_: SqlType, first_row: int = 0) -> FixedColumn | TextColumn:
    """An empty column whose rows will have numbers from `first_row` on."""
    return TextColumn(first_row) if type_ is SqlType.VARCHAR else FixedColumn(type_, first_row)


def slide(columns: Sequence[FixedColumn | TextColumn]) -> None:
    """Let columns use their memory again where nobody else has it."""
    for column in columns:
        for buffer in column.buffers():
            buffer.slide()


class Store:
    """Time-ordered rows: their ts and their columns."""

    def __init__(self, types: Sequence[SqlType]) -> None:
        self.ts = RowBuffer("int64")
        self.columns = list(map(new_column, types))

    def append(self, ts: NDArray, arrays: Sequence[pa.Array]) -> None:
        """Add rows, none older than those there."""
        self.ts.append(ts)
        for column, array in zip(self.columns, arrays, strict=True):
            column.append(array)

    def slide(self) -> None:
        """Let all columns use their memory again where nobody else has it."""
        self.ts.slide()
        slide(self.columns)

    def fit(self) -> None:
        """Take no more memory than the rows need, until some are added."""
        for buffer in (self.ts, *(one for column in self.columns for one in column.buffers())):
            buffer.fit()

    def add_column(self, type_: SqlType) -> None:
        """Keep one more column, which is NULL in the rows that are there."""
        tail = self.ts.tail
        column = new_column(type_, tail)
        column.append(pa.nulls(len(self), ARROW_TYPES[type_]))
        self.columns.append(column)

    def drop(self, row: int) -> None:
        """Rows below `row` are dead."""
        if row > self.ts.tail:
            self.ts.drop(row)
            for column in self.columns:
                column.drop(row)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def nbytes(self) -> int:
        return self.ts.nbytes + sum(column.nbytes for column in self.columns)

    def _check(self) -> None:
        self.ts._check()
        assert bool(np.all(np.diff(self.ts.live) >= 0)), "stored rows out of time order"
        for column in self.columns:
            rows = column.starts.end - 1 if isinstance(column, TextColumn) else column.values.end
            assert rows == self.ts.end, "a stored column has more or fewer rows than there are times"

    def _check_restored(self) -> None:
        expect(self.ts.data.dtype == np.int64, "times of stored rows")
        rising(self.ts.live, "times of stored rows")
        for column in self.columns:
            buffer = column.buffers()[0]
            end = buffer.end - 1 if isinstance(column, TextColumn) else buffer.end
            expect((buffer.tail, end) == (self.ts.tail, self.ts.end), "stored columns with all rows")

"""A column that aggregates read: as int64 codes, of the rows of a batch and of the entries that are kept.

In: batches, and the events made of them.  Out: a code per event, and its sign, 0 where the value is NULL.
Kept: the code of each entry, until the entry is due.
Codes keep the order of the values; texts are told apart by two hashes instead.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.changes.groups import take_values
from penstock.engine.kernels.rows.fingerprint import hash_texts
from penstock.engine.kernels.rows.keys import encode_doubles
from penstock.engine.restoring.in_order import expect, same_length
from penstock.engine.rows.array_memory import without_scratch
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import fixed_values, text_buffers, valid_bytes
from penstock.engine.rows.types import SqlType

from .group_table import MAX_EVENTS, NO_INTS, Changes

NO_BYTES = frozen(np.empty(0, np.uint8))
NO_CODES = (frozen(NO_INTS),)


class Argument:
    """Column `index` of the input. `begin` per batch, `run` per changes."""

    _owned: ClassVar[tuple[str, ...]] = ("_kept", "_kept_valid", "codes", "sign")

    def __init__(self, index: int, type_: SqlType, is_kept: bool = False) -> None:
        self.index = index
        self.type = type_
        self.valid = NO_BYTES
        self.row_codes: tuple[NDArray, ...] = NO_CODES
        words = 2 if type_ is SqlType.VARCHAR else 1
        self._kept = [np.empty(0, np.int64) for _ in range(words)]
        self._kept_valid = [np.empty(0, np.uint8) for _ in range(words)]
        self.codes = tuple(np.empty(MAX_EVENTS, np.int64) for _ in range(words))
        self.sign = np.empty(MAX_EVENTS, np.int8)
        self.is_kept = is_kept
        """Whether somebody wants to know the values of rows as they leave."""

    def __getstate__(self) -> dict[str, object]:
        return without_scratch(self, "codes", "sign")

    def begin(self, batch: Batch | None) -> None:
        """The rows that the next changes are about."""
        self.row_codes, self.valid = NO_CODES * len(self._kept), NO_BYTES
        if batch is None:
            return
        array = batch.column(self.index)
        if array.null_count:
            self.valid = frozen(valid_bytes(array))
        self.row_codes = tuple(frozen(codes) for codes in encode(array, self.type))

    def begin_with(self, codes: NDArray) -> None:
        """The same by the codes of the rows, none of which is NULL."""
        self.row_codes, self.valid = (frozen(codes),), NO_BYTES

    def run(self, changes: Changes, entries: int) -> None:
        """Fill `codes` and `sign` for these events; entries: how many there is room for."""
        if len(self._kept[0]) < entries:
            self._kept = [grown(kept, entries) for kept in self._kept]
            self._kept_valid = [grown(valid, entries) for valid in self._kept_valid]
        for word, codes in enumerate(self.codes):
            take_values(
                changes.sign, changes.row, changes.entry, changes.count, self.row_codes[word], self.valid,
                self._kept[word], self._kept_valid[word], codes, self.sign,
            )  # fmt: skip

    @property
    def nbytes(self) -> int:
        return sum(int(kept.nbytes) for kept in self._kept + self._kept_valid)

    def _check_restored(self) -> None:
        words = len(self._kept)
        expect(words in (1, 2) and len(self._kept_valid) == len(self.codes) == words, "words of values")
        expect(len(self.row_codes) in (1, words), "words of values")
        expect(words == 1 or self.type is SqlType.VARCHAR, "words of the type")
        same_length("values of rows that leave", *self._kept, *self._kept_valid)
        same_length("values of rows", *self.row_codes)
        expect(len(self.valid) in (0, len(self.row_codes[0])), "NULLs of all rows")
        expect(min(map(len, self.codes)) >= MAX_EVENTS <= len(self.sign), "room for events")
        expect(self.index >= 0, "a column")


def encode(array: pa.Array, type_: SqlType) -> tuple[NDArray, ...]:
    """Codes of the values; of texts two hashes."""
    match type_:
        case SqlType.VARCHAR:
            return hash_texts(*(frozen(part) for part in text_buffers(array)))
        case SqlType.NULL:
            return (np.zeros(len(array), np.int64),)
        case SqlType.DOUBLE:
            return (encode_doubles(frozen(fixed_values(array))),)
        case SqlType.BOOLEAN:
            return (fixed_values(array).astype(np.int64),)
    return (fixed_values(array),)


def grown(array: NDArray, size: int) -> NDArray:
    """A longer array that begins with this one; what is new is 0."""
    new = np.zeros((size, *array.shape[1:]), array.dtype)
    new[: len(array)] = array
    return new

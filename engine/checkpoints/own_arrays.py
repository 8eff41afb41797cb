"""Whether arrays that came back are in the hands of one object alone.

A class that writes to its arrays in place names them in `_owned`. If somebody else had a part of one, what is
written there could be a position that was looked at before, and a kernel would follow it anywhere.

    record 7: array 2 in buffer 5     record 9: a tuple of 7     record 12: an object whose `_links` are 9
    alone: 9 and 7 are named once, array 2 by one record, buffer 5 by one array
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from .object_graph import Record

ARRAYS = frozenset({"array", "room"})
HOLDERS = {"tuple": 1, "list": 1, "dict": 1, "named": 2}
"""Kinds that hold arrays for an object, and where the numbers of their parts begin."""
FIRST_PART = HOLDERS | {
    "objects": 2, "value": 3, "object": 3, "partial": 1, "count": 1, "error": 5, "deque": 1, "set": 1,
    "frozenset": 1, "counter": 1, "weak": 1,
}  # fmt: skip


class OwnArrays:
    """Of records that were looked at already; `buffers`: by array the number of its buffer, -1: none."""

    def __init__(self, records: Sequence[Record], buffers: Sequence[int]) -> None:
        self._records = records
        self._buffers = buffers
        parts = [record[FIRST_PART[record[0]] :] for record in records if record[0] in FIRST_PART]
        numbers = np.fromiter(chain.from_iterable(parts), np.int64)
        self._named = np.bincount(numbers, minlength=len(records))
        self._places = Counter(record[1] for record in records if record[0] in ARRAYS)
        self._arrays = Counter(buffers)

    def is_alone(self, number: int) -> bool:
        """Whether all arrays of a part of an object are that object's alone; what is empty is nobody's."""
        waiting, met = [number], set[int]()
        while waiting:
            one = waiting.pop()
            record = self._records[one]
            if one in met:
                continue
            met.add(one)
            if record[0] in ARRAYS:
                if not self._is_one(one, record):
                    return False
            elif record[0] in HOLDERS:
                parts = record[HOLDERS[record[0]] :]
                if self._named[one] > 1 and self._has_arrays(parts):
                    return False
                waiting += parts
        return True

    def buffer_of(self, number: int) -> int:
        """The buffer of an array, by the number of its record."""
        return self._buffers[self._records[number][1]]

    def _is_one(self, number: int, record: Record) -> bool:
        if record[0] == "room":  # in memory of its own, made for this record
            return bool(self._named[number] == 1)
        buffer = self._buffers[record[1]]
        return buffer < 0 or bool(self._named[number] == self._places[record[1]] == self._arrays[buffer] == 1)

    def _has_arrays(self, parts: Sequence[int]) -> bool:
        return any(self._records[one][0] in ARRAYS for one in parts)


def is_in_one_piece(value: Any) -> bool:
    """Whether arrays are without gaps and may be written."""
    if isinstance(value, np.ndarray):
        return bool(not value.size or (value.flags.c_contiguous and value.flags.writeable))
    if isinstance(value, (tuple, list)):
        return all(map(is_in_one_piece, value))
    return all(map(is_in_one_piece, value.values())) if isinstance(value, dict) else True

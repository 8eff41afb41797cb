"""The memory of numpy arrays, written down once even where arrays overlap.

    memory      ----[=================]-------[=======]----      written: two buffers
    arrays          [== a ==]  [= c =]        [== d ==]
                       [=== b ===]

Arrays that overlap are parts of one buffer again when they come back: what is written through one is read
through the other. Of an array that is a part of a larger one only the part is written.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Buffer = Any
"""Bytes, or anything that gives them without copying."""


DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})
"""What arrays are of, as numpy writes it."""
MAX_DIMENSIONS = 4


class Room:
    """An array of which only the first `used` rows mean anything; nobody may hold a part of it."""

    def __init__(self, array: NDArray, used: int = 0) -> None:
        self.array = array
        self.used = used


def without_scratch(value: object, *names: str) -> dict[str, Any]:
    """The attributes of an object, for its `__getstate__`: of those named only that there is room.

    They are arrays, or tuples of them, that mean nothing between two steps.
    """
    state = dict(value.__dict__)
    for name in names:
        held = state[name]
        state[name] = tuple(map(Room, held)) if isinstance(held, tuple) else Room(held)
    return state


class ArrayMemory:
    """Arrays, each met once."""

    def __init__(self) -> None:
        self._arrays: list[NDArray] = []

    def add(self, array: NDArray) -> int:
        """Returns its number."""
        self._arrays.append(array)
        return len(self._arrays) - 1

    def lay_out(self, buffers: list[Buffer]) -> list[Any]:
        """Append what the arrays hold to `buffers`; returns for each what `restore` needs to know."""
        bounds = np.array([byte_bounds(one) for one in self._arrays], np.int64).reshape(-1, 2)
        entries: list[Any] = [None] * len(self._arrays)
        for run in overlapping(bounds):
            if bounds[run[0], 0] == bounds[run[0], 1]:
                one = self._arrays[run[0]]
                entries[run[0]] = [_described(one), list(one.shape), None, -1, 0, one.flags.writeable]
                continue
            low, high = int(bounds[run, 0].min()), int(bounds[run, 1].max())
            first = self._arrays[run[0]]
            if len(run) == 1 and high - low != first.nbytes:  # every second row of something, say
                first = self._arrays[run[0]] = np.array(first, order="C")
                low, high = byte_bounds(first)
            for number in run:
                one = self._arrays[number]
                strides = None if one.flags.c_contiguous else list(one.strides)
                place = len(buffers), _address(one) - low
                entries[number] = [_described(one), list(one.shape), strides, *place, one.flags.writeable]
            block = (ctypes.c_ubyte * (high - low)).from_address(low)
            block.arrays = [self._arrays[number] for number in run]  # type: ignore[attr-defined]
            buffers.append(memoryview(block).cast("B"))  # which keeps the arrays, and so the memory
        return entries

    @staticmethod
    def restore(entries: Sequence[Any], buffers: Sequence[Buffer]) -> list[NDArray]:
        """The arrays again, in memory of their own; raises ValueError for one that is not inside its
        buffer."""
        memory: dict[int, NDArray] = {-1: np.empty(0, np.uint8)}
        arrays = []
        for dtype, shape, strides, number, offset, is_writeable in entries:
            made = made_dtype(dtype)
            if type(number) is not int or not -1 <= number < len(buffers):
                raise ValueError(f"expected one of {len(buffers)} buffers, found {number!r}")
            if number not in memory:
                memory[number] = own_memory(buffers[number])
            check_place(made, shape, strides, offset, len(memory[number]))
            array: NDArray = np.ndarray(shape, made, memory[number], offset, strides)
            array.flags.writeable = bool(is_writeable)
            arrays.append(array)
        return arrays


def own_memory(buffer: Buffer) -> NDArray:
    """The bytes, which may be written; what was decompressed is nobody else's already."""
    is_own = isinstance(buffer, np.ndarray) and buffer.flags.owndata
    return buffer if is_own else np.frombuffer(buffer, np.uint8).copy()


def made_dtype(written: Any) -> np.dtype:
    """One of numbers, never of objects."""
    if written not in DTYPES:
        raise ValueError(f"expected a type of numbers, found {written!r}")
    return np.dtype(written)


def check_place(dtype: np.dtype, shape: Any, strides: Any, offset: Any, size: int) -> None:
    """Raise ValueError unless the array is inside its buffer of `size` bytes, with numbers on whole
    places."""
    if type(shape) is not list or len(shape) > MAX_DIMENSIONS or not all(map(is_size, shape)):
        raise ValueError(f"expected a shape, found {shape!r}")
    if strides is None:
        low = 0
        high = dtype.itemsize * math.prod(shape)
        steps = []
    else:
        if type(strides) is not list or len(strides) != len(shape) or not all(map(is_number, strides)):
            raise ValueError(f"expected a stride for each of {shape}, found {strides!r}")
        spans = [(rows - 1) * step for rows, step in zip(shape, strides, strict=True)]
        is_empty = 0 in shape
        low = 0 if is_empty else sum(min(0, span) for span in spans)
        high = 0 if is_empty else sum(max(0, span) for span in spans) + dtype.itemsize
        steps = strides
        if math.prod(shape) > max(size, 1 << 20):  # what is as good as endless takes no room: its steps are 0
            raise ValueError(f"expected fewer rows than {shape}")
    if not is_size(offset) or offset + low < 0 or offset + high > size:
        raise ValueError(f"expected an array inside {size} bytes, found {shape} from {offset!r} on")
    if high and any(place % dtype.alignment for place in (offset, *steps)):
        raise ValueError(f"expected numbers on whole places, found {strides} from {offset} on")


def is_number(value: Any) -> bool:
    return type(value) is int


def is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def overlapping(bounds: NDArray) -> list[list[int]]:
    """Numbers of the arrays whose bounds overlap, directly or through others; an empty one by itself."""
    is_empty = bounds[:, 0] == bounds[:, 1]
    runs = [[number] for number in np.flatnonzero(is_empty).tolist()]
    end = -1
    for number in np.argsort(bounds[:, 0], kind="stable").tolist():
        if is_empty[number]:
            continue
        low, high = bounds[number].tolist()
        if low < end:
            runs[-1].append(number)
        else:
            runs.append([number])
        end = max(end, high)
    return runs


def byte_bounds(array: NDArray) -> tuple[int, int]:
    """Where an array's memory begins and ends; both are one place if it is empty."""
    begin = _address(array)
    if not array.size:
        return begin, begin
    spans = [(rows - 1) * step for rows, step in zip(array.shape, array.strides, strict=True)]
    low, high = sum(min(0, span) for span in spans), sum(max(0, span) for span in spans)
    return begin + low, begin + high + array.itemsize


def _described(array: NDArray) -> Any:
    return np.lib.format.dtype_to_descr(array.dtype)


def _address(array: NDArray) -> int:
    """Where its first element is."""
    return int(array.__array_interface__["data"][0])

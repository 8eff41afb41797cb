"""Whether Arrow data can be read: whoever made it may have made it wrong, and Arrow itself does not look.

What lies outside an array's own memory is never read, and text is UTF-8. Both are looked for before anything
else is done with a column, by passes over whole buffers: checking value by value takes thirty times as long.
Values of columns that nobody reads are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.rows.errors import DataError

from .time_units import Column

ASCII = 128
SHOWN_CHARACTERS = 60


def check_sound(column: Column, name: str, source: str | None = None) -> None:
    """Raises DataError if a column's memory is not what Arrow says, or its text is not UTF-8."""
    row = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if not is_sound(chunk):
            found = find_unsound(chunk)
            if found is not None:
                bad, what = found
                raise DataError(f"Expected {what.format(name)}", source=source, row=row + bad + 1)
        row += len(chunk)


def is_sound(array: pa.Array) -> bool:
    """Whether an array is surely sound; if not, it has to be looked at value by value."""
    type_ = array.type
    try:
        array.validate()
        if not pa.types.is_dictionary(type_) and not counts_nulls(array):
            return False
        if pa.types.is_string(type_) or pa.types.is_binary(type_):
            return is_text(array, np.int32)
        if pa.types.is_large_string(type_) or pa.types.is_large_binary(type_):
            return is_text(array, np.int64)
        views = pa.types.is_string_view(type_) or pa.types.is_binary_view(type_)
        if views or pa.types.is_dictionary(type_):
            array.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def counts_nulls(array: pa.Array) -> bool:
    """Whether there are as many NULLs as an array says."""
    valid = None if array.type.num_buffers < 2 else array.buffers()[0]
    if valid is None:
        return array.null_count in (0, len(array) if pa.types.is_null(array.type) else 0)
    flags = pa.Array.from_buffers(pa.bool_(), len(array), [None, valid], offset=array.offset)
    return bool(array.null_count == len(array) - flags.true_count)


def is_text(array: pa.Array, offset_type: type) -> bool:
    """Whether offsets are in order, and what stands between them is UTF-8."""
    _, found, data = array.buffers()
    if not len(array) or found is None:
        return True
    width = np.dtype(offset_type).itemsize
    offsets: NDArray = np.frombuffer(found, offset_type, len(array) + 1, width * array.offset)
    if not (offsets[1:] >= offsets[:-1]).all():
        return False
    return is_utf8(np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), offsets)


def is_utf8(data: NDArray, offsets: NDArray) -> bool:
    """Whether texts that follow each other are UTF-8: all of them together, and each begins with a letter."""
    first, end = int(offsets[0]), int(offsets[-1])
    text = data[first:end]
    if text.max(initial=0) < ASCII:
        return True
    whole = [None, pa.py_buffer(np.array([0, len(text)], np.int64)), pa.py_buffer(text)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, whole).validate(full=True)
    except pa.ArrowInvalid:
        return False
    starts = offsets[(offsets < end)]
    return not ((data[starts] & 0xC0) == 0x80).any()


def without_null_views(array: pa.Array) -> pa.Array:
    """The same texts; where there is none, the view points to nothing: Arrow follows it when it copies."""
    if not array.null_count:
        return array
    _, found, *data = array.buffers()
    valid = np.asarray(array.is_valid())
    views: NDArray = np.frombuffer(found, np.uint64, 2 * len(array), 16 * array.offset).reshape(-1, 2)
    views = np.where(valid[:, None], views, np.uint64(0))
    buffers = [pa.array(valid).buffers()[1], pa.py_buffer(views), *data]
    return pa.Array.from_buffers(array.type, len(array), buffers)


def first_bad(column: Column, look: Callable[[Column], object]) -> int | None:
    """Position of the first value that `look` raises an ArrowException for, by halving; None: it does not."""
    try:
        look(column)
    except pa.ArrowException:
        pass
    else:
        return None
    low, high = 0, len(column)  # the first bad one is in [low, high)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            look(column.slice(low, middle - low))
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def find_unsound(array: pa.Array) -> tuple[int, str] | None:
    """The first value that cannot be read, and what is wrong with it, `{}` for the column; None: all can."""
    try:
        array.validate(full=True)
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
    else:
        return None
    bad = first_bad(array, lambda part: part.validate(full=True)) or 0
    one = array.slice(bad, 1)
    if pa.types.is_dictionary(array.type):
        inside = find_unsound(array.dictionary)
        if inside is not None:
            return bad, inside[1]
        place = one.indices[0].as_py()
        return bad, f"one of {len(array.dictionary)} values of a dictionary in column `{{}}`, found `{place}`"
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        try:
            one.validate()  # its bytes lie within the array
            (one.cast(pa.large_binary())[0].as_py() or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            shown = shorten(error.object.decode("utf-8", errors="replace"))
            return bad, f"VARCHAR (UTF-8 text) in column `{{}}`, found `{escaped(shown)}`"
        except pa.ArrowException:
            pass
    return bad, f"sound Arrow data in column `{{}}`, found: {escaped(reason)}"


def escaped(text: str) -> str:
    """A text that `format` gives as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def shorten(text: str) -> str:
    """A value for a message: one line, not too long."""
    text = " ".join(text.split()) if text.strip() else text
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"

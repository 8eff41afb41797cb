"""VARCHAR: case, length, parts, LIKE, concatenation. Positions and lengths count code points, not bytes.

Upper and lower case are Unicode's one-to-one mappings, so that a string keeps its length.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.expressions.expression import Call
from penstock.engine.rows.errors import DataError

from .values import Datum, each_distinct

# What TRIM removes when it is not told: the separators of Unicode's class Zs. Tabs and newlines stay.
SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"

# Positions and lengths beyond 32 bits are a mistake, as they are for DuckDB.
POSITION_LIMIT = 1 << 32


def length(call: Call, text: Datum) -> Datum:
    return pc.utf8_length(text).cast(pa.int64())


def like(call: Call, text: Datum, pattern: Datum) -> Datum:
    return each_distinct(match_like, pa.bool_(), text, pattern)


def ilike(call: Call, text: Datum, pattern: Datum) -> Datum:
    return each_distinct(match_like, pa.bool_(), pc.utf8_lower(text), pc.utf8_lower(pattern))


def match_like(text: pa.Array, pattern: str) -> pa.Array:
    """`%` is any string, `_` any character; the backslash, Arrow's escape, is a character like any other."""
    return pc.match_like(text, pattern.replace("\\", "\\\\"))


def substring(call: Call, text: Datum, start: Datum, count: Datum | None = None) -> Datum:
    """From position `start`, from 1, or from the end if negative; a negative `count` goes to the left.

    Position 0 is before the first character and takes part in the count: substring('abc', 0, 2) is 'a'.
    """
    parameters = (start,) if count is None else (start, count)

    def cut(part: pa.Array, *numbers: int) -> pa.Array:
        if part.null_count == len(part):
            return part
        for number in numbers:
            if not -POSITION_LIMIT <= number < POSITION_LIMIT:
                raise DataError(f"Expected a position and a length of 32 bits in `{call}`, found `{number}`")
        return slice_text(part, *numbers)

    return each_distinct(cut, pa.string(), text, *parameters)


def slice_text(text: pa.Array, start: int, count: int = POSITION_LIMIT - 1) -> pa.Array:
    """Arrow's slice counts from 0, or from the end if negative: both bounds must be counted alike."""
    low = start - 1 if start >= 0 else start
    low, high = sorted((low, low + count))
    if start < 0:
        # Counted from the end, 0 is the end itself and nothing lies beyond.
        return pc.utf8_slice_codeunits(text, min(low, 0), high if high < 0 else None)
    return pc.utf8_slice_codeunits(text, max(low, 0), max(high, 0))


def trimmer(kernel: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """TRIM at one end or both: spaces, or any of the characters given."""

    def trim(call: Call, text: Datum, characters: Datum | None = None) -> Datum:
        if characters is None:
            return kernel(text, SPACES)
        return each_distinct(
            lambda part, these: kernel(part, these) if these else part, pa.string(), text, characters
        )

    return trim


def replace(call: Call, text: Datum, old: Datum, new: Datum) -> Datum:
    def swap(part: pa.Array, before: str, after: str) -> pa.Array:
        return pc.replace_substring(part, before, after) if before else part

    return each_distinct(swap, pa.string(), text, old, new)


def concat(call: Call, *parts: Datum) -> Datum:
    """NULL counts as nothing."""
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def concat_operator(call: Call, *parts: Datum) -> Datum:
    """NULL makes everything NULL."""
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def matcher(kernel: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """A search for a part of a string."""
    return lambda call, text, part: each_distinct(kernel, pa.bool_(), text, part)


STRINGS: dict[str, Callable[..., Datum]] = {
    "lower": lambda call, text: pc.utf8_lower(text),
    "upper": lambda call, text: pc.utf8_upper(text),
    "length": length,
    "like": like,
    "ilike": ilike,
    "substring": substring,
    "trim": trimmer(pc.utf8_trim),
    "ltrim": trimmer(pc.utf8_ltrim),
    "rtrim": trimmer(pc.utf8_rtrim),
    "replace": replace,
    "concat": concat,
    "concat_operator": concat_operator,
    "starts_with": matcher(pc.starts_with),
    "ends_with": matcher(pc.ends_with),
    "contains": matcher(pc.match_substring),
}

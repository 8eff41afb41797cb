"""VARCHAR to BIGINT, DOUBLE and BOOLEAN.

Arrow reads the usual spellings fast; if it meets one it does not know, all of the column goes the slower way,
by regular expression. Both ways agree on what both accept, so that a value means the same in every batch.
Spaces around a number are allowed, and single underscores between digits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Call

from .values import from_numbers, numbers, refuse_any, truths

SPACES = " \t\n\v\f\r"
DIGITS = r"[0-9]+(?:_[0-9]+)*"
INTEGER = (
    rf"^(?P<sign>[+-]?)(?P<whole>(?:{DIGITS})?)(?P<point>\.?)(?P<fraction>(?:{DIGITS})?)"
    rf"(?:[eE](?P<exponent>[+-]?{DIGITS}))?$"
)
HEXADECIMAL = r"^0[xX][0-9a-fA-F]{1,16}$"
DOUBLE = (
    rf"^[+-]?(?:(?:{DIGITS}\.?(?:{DIGITS})?|\.{DIGITS})(?:[eE][+-]?{DIGITS})?"
    r"|(?i:nan(?:\([0-9a-z_]*\))?|inf|infinity))$"
)
TRUE, FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")

LARGEST, SMALLEST = str((1 << 63) - 1), str(1 << 63)  # without the sign
POWERS = 10 ** np.arange(19, dtype=np.int64)


def parse_integer(call: Call, text: pa.Array) -> pa.Array:
    """Decimals are rounded, half away from zero; 1e3 and 0x1F are integers too."""
    try:
        result = text.cast(pa.int64())
    except pa.ArrowInvalid:
        return parse_odd_integer(call, text)
    # 0xFFFFFFFFFFFFFFFF is not -1.
    refuse_any(call, "a BIGINT", text, pc.or_(pc.greater_equal(result, 0), pc.starts_with(text, "-")))
    return result


def parse_odd_integer(call: Call, text: pa.Array) -> pa.Array:
    is_hexadecimal = truths(pc.match_substring_regex(text, HEXADECIMAL))
    parts = pc.extract_regex(pc.ascii_trim(text, SPACES), INTEGER)
    sign, whole, fraction, exponent = (
        pc.replace_substring(pc.struct_field(parts, name), "_", "")
        for name in ("sign", "whole", "fraction", "exponent")
    )
    is_negative = pc.equal(sign, "-")
    # 1. Without an exponent: the whole part counts, and the first digit after the point.
    value, fits = digits_to_integer(whole, is_negative)
    up = numbers(pc.greater_equal(fraction, "5").fill_null(False).cast(pa.int64()))
    step = np.where(is_negative.fill_null(False), -up, up)
    rounded = value + step
    fits &= (rounded < value) == (step < 0)
    # 2. With one: all digits are one integer, to be multiplied or divided by a power of ten.
    has_exponent = pc.not_equal(exponent, "").fill_null(False).to_numpy(zero_copy_only=False)
    if has_exponent.any():
        mantissa, mantissa_fits = digits_to_integer(
            pc.binary_join_element_wise(whole, fraction, ""), is_negative
        )
        size, size_fits = digits_to_integer(pc.ascii_ltrim(exponent, "+-"), pc.starts_with(exponent, "-"))
        shift = np.clip(size, -(1 << 32), 1 << 32) - numbers(
            pc.utf8_length(fraction).fill_null(0).cast(pa.int64())
        )
        scaled, scaled_fits = scale(mantissa, shift)
        rounded = np.where(has_exponent, scaled, rounded)
        fits = np.where(has_exponent, mantissa_fits & size_fits & scaled_fits, fits)
    # 3. 0x1F, as Arrow reads it.
    hexadecimal = numbers(pc.if_else(is_hexadecimal, text, "0").cast(pa.int64()))
    has_digits = pc.not_equal(pc.binary_join_element_wise(whole, fraction, ""), "")
    good = pc.if_else(is_hexadecimal, pa.array(hexadecimal >= 0), pc.and_(truths(has_digits), pa.array(fits)))
    refuse_any(call, "a BIGINT", text, good)
    return from_numbers(np.where(is_hexadecimal, hexadecimal, rounded), pa.int64(), text)


def digits_to_integer(digits: pa.Array, is_negative: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The signed integer, 0 for no digits, and whether it fits into 64 bits; 0 also where it does not."""
    digits = pc.ascii_ltrim(digits.fill_null(""), "0")
    is_negative = is_negative.fill_null(False)
    count = pc.binary_length(digits)
    limit = pc.if_else(is_negative, SMALLEST, LARGEST)
    fits = pc.or_(pc.less(count, 19), pc.and_(pc.equal(count, 19), pc.less_equal(digits, limit)))
    kept = pc.if_else(pc.and_(fits, pc.greater(count, 0)), digits, "0")
    signed = pc.binary_join_element_wise(pc.if_else(is_negative, "-", ""), kept, "")
    return numbers(signed.cast(pa.int64())), fits.to_numpy(zero_copy_only=False)


def scale(value: NDArray[np.int64], shift: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """value * 10 ** shift, half away from zero, and whether it fits into 64 bits."""
    factor = POWERS[np.clip(shift, 0, 18)]
    grown = value * factor
    fits = (grown // factor == value) & ((shift <= 18) | (value == 0))
    divisor = POWERS[np.clip(-shift, 0, 18)]
    rest = np.fmod(value, divisor)
    shrunk = (value - rest) // divisor + np.sign(rest) * (np.abs(rest) >= divisor - np.abs(rest))
    # Ten to the 19th is beyond 64 bits, but half of it is not.
    half = 5 * POWERS[18]
    tiny = np.where((shift == -19) & ((value >= half) | (value <= -half)), np.sign(value), 0)
    return np.where(shift >= 0, grown, np.where(shift >= -18, shrunk, tiny)), fits | (shift < 0)


def parse_double(call: Call, text: pa.Array) -> pa.Array:
    """What is too large is inf, what is too small 0.0."""
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        trimmed = pc.ascii_trim(text, SPACES)
    refuse_any(call, "a DOUBLE", text, pc.match_substring_regex(trimmed, DOUBLE))
    return pc.replace_substring(trimmed, "_", "").cast(pa.float64())


def parse_boolean(call: Call, text: pa.Array) -> pa.Array:
    folded = pc.ascii_lower(text)
    is_true = pc.is_in(folded, value_set=pa.array(TRUE))
    refuse_any(call, "a BOOLEAN", text, pc.or_(is_true, pc.is_in(folded, value_set=pa.array(FALSE))))
    return pc.if_else(text.is_valid(), is_true, pa.scalar(None, pa.bool_()))

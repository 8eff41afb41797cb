"""Sums that are exact, whatever comes and goes and in whatever order: numbers in digits of 32 bits.

An accumulator is a line of int64: COUNT values, of which so many are NAN, PLUS (inf) and MINUS (-inf); from
DIGITS on, lowest first, digits of 32 bits, each in a word of 64, so that carries can wait until the sum is
read. The last digit has the sign and what carries into it; no value reaches it. Bit 0 of digit 0 is worth
2 ** (base - 1074): bit positions count from the smallest double. All groups have the same base and digits.

BIGINT needs two digits at base 1074, DOUBLE as many as its values spread over.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel, part

COUNT, NAN, PLUS, MINUS, DIGITS = 0, 1, 2, 3, 4
ONE = 1074  # the position of the bit worth 1
DIGIT = 32
MASK = (1 << 32) - 1
FRACTION = (1 << 52) - 1
EXPONENT = 0x7FF
TOP = ONE + 1024  # the position of the first bit that no double has
INT_MAX = (1 << 63) - 1
INFINITY = 0x7FF << 52
A_NAN = 0x7FF8 << 48
U0, U1 = np.uint64(0), np.uint64(1)


@expand
def bits_of(code):  # type: ignore[no-untyped-def]
    """Bits of the double with this code (see engine/keys/keys.py); the code of NaN gives a NaN."""
    return code ^ ((code >> 63) & INT_MAX)


@kernel
def digit_range(codes, valid):  # type: ignore[no-untyped-def]
    """The lowest and the highest digit of the whole range that doubles begin in; (1, 0) if there are none.

    codes: int64, codes of doubles; valid: uint8 per row, empty if there are no NULLs.
    """
    low = 1 << 20
    high = -1
    for i in range(len(codes)):
        if len(valid) and not valid[i]:
            continue
        bits = bits_of(codes[i])
        exponent = (bits >> 52) & EXPONENT
        if exponent == EXPONENT or bits == 0:
            continue
        digit = (exponent - 1 if exponent else 0) >> 5
        if digit < low:
            low = digit
        if digit > high:
            high = digit
    if high < 0:
        return 1, 0
    return low, high


@expand
def add_double(line, bits, sign, base):  # type: ignore[no-untyped-def]
    """Add (sign 1) or take away (-1) a double; its digits are in the line's range."""
    exponent = (bits >> 52) & EXPONENT
    mantissa = bits & FRACTION
    if exponent == EXPONENT:
        if mantissa:
            line[NAN] += sign
        elif bits > 0:
            line[PLUS] += sign
        else:
            line[MINUS] += sign
    elif bits != 0:
        position = 0
        if exponent:
            mantissa |= FRACTION + 1
            position = exponent - 1
        if bits < 0:
            sign = -sign
        at = DIGITS + ((position - base) >> 5)
        shift = position & 31
        low = (mantissa & MASK) << shift
        high = (mantissa >> 32) << shift
        line[at] += sign * (low & MASK)
        line[at + 1] += sign * ((low >> 32) + (high & MASK))
        line[at + 2] += sign * (high >> 32)


@part
def carry(line):  # type: ignore[no-untyped-def]
    """Let every digit but the last be one of 32 bits."""
    last = len(line) - 1
    over = np.int64(0)
    for k in range(DIGITS, last):
        word = line[k] + over
        line[k] = word & MASK
        over = word >> 32
    line[last] += over


@expand
def magnitude(line, k, lowest, negative):  # type: ignore[no-untyped-def]
    """Digit k of the absolute value, after `carry`; lowest: the first digit that is not 0."""
    word = line[k]
    if negative:
        if k == len(line) - 1:
            word = -word - (1 if lowest < k else 0)
        elif k == lowest:
            word = (MASK + 1) - word
        elif k > lowest:
            word = MASK - word
    return np.uint64(word)


@part
def rounded(line, base):  # type: ignore[no-untyped-def]
    """Bits of the double nearest to the digits, even if there are two; after `carry`."""
    last = len(line) - 1
    lowest = DIGITS
    while lowest <= last and line[lowest] == 0:
        lowest += 1
    if lowest > last:
        return np.int64(0)
    negative = line[last] < 0
    # 1. the first digit that counts
    k = last
    head = magnitude(line, k, lowest, negative)
    while head == U0:
        k -= 1
        head = magnitude(line, k, lowest, negative)
    have = 0
    rest = head
    while rest:
        rest >>= U1
        have += 1
    top = base + DIGIT * (k - DIGITS) + have - 1
    # 2. 64 bits from there, and whether anything is below
    below = False
    k -= 1
    while k >= DIGITS:
        word = magnitude(line, k, lowest, negative)
        take = min(DIGIT, 64 - have)
        head = (head << np.uint64(take)) | (word >> np.uint64(DIGIT - take))
        have += take
        k -= 1
        if have == 64:
            below = (word & ((U1 << np.uint64(DIGIT - take)) - U1)) != U0 or k >= lowest
            break
    if have < 64:
        head <<= np.uint64(64 - have)
    # 3. 53 of them, or as many as a small double has
    keep = min(53, top + 1)
    cut = np.uint64(64 - keep)
    mantissa = head >> cut
    rest = head & ((U1 << cut) - U1)
    half = U1 << (cut - U1)
    bits = np.int64(mantissa)
    if keep == 53:
        bits += (min(top, TOP) - 52) << 52
    if rest > half or (rest == half and (below or (mantissa & U1) != U0)):
        bits += 1
    if top >= TOP or bits > INFINITY:
        bits = np.int64(INFINITY)
    return bits | (-1 << 63) if negative else bits


@part
def read_double(line, base):  # type: ignore[no-untyped-def]
    """Bits of the sum as a double, with what NaN and infinities make of it."""
    carry(line)
    if line[NAN] or (line[PLUS] and line[MINUS]):
        return np.int64(A_NAN)
    if line[PLUS]:
        return np.int64(INFINITY)
    if line[MINUS]:
        return np.int64(INFINITY | (-1 << 63))
    return rounded(line, base)


@kernel
def run_sums(  # type: ignore[no-untyped-def]
    happened, asked, sums, base, doubles, value, valid, counts
):  # fmt: skip
    """Add the events up, and at each point read the group's sum.

    happened: of each event slot, sign (int8, 0 for NULL), code (int64, of a double or an integer), and how
    many; asked: of each point its slot and the event until which it counts, and how many.
    sums: int64[slots, words]; value: int64 per point, bits of a double if `doubles`, else the integer, and
    which of the two is asked for if the values are integers is said by `counts`: it gets the number of
    values, if it has room, and then the sum is read as a double. valid: uint8, 0 if there is no value.
    Returns the first point whose sum is no int64; `points` if there is none.
    """
    slot, sign, codes, events = happened
    point_slot, point_until, points = asked
    event = 0
    for point in range(points + 1):
        until = point_until[point] if point < points else events
        while event < until:
            if sign[event]:
                line = sums[slot[event]]
                line[COUNT] += sign[event]
                code = codes[event]
                if doubles:
                    add_double(line, bits_of(code), np.int64(sign[event]), base)
                else:
                    line[DIGITS] += sign[event] * (code & MASK)
                    line[DIGITS + 1] += sign[event] * (code >> 32)
            event += 1
        if point == points:
            break
        line = sums[point_slot[point]]
        valid[point] = line[COUNT] != 0
        if doubles or len(counts):
            value[point] = read_double(line, base)
            if len(counts):
                counts[point] = line[COUNT]
        else:
            carry(line)
            if not -(1 << 31) <= line[DIGITS + 1] < 1 << 31:
                return point
            value[point] = (line[DIGITS + 1] << 32) | line[DIGITS]
    return points

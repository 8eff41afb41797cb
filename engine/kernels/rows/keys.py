"""Keys that are not one integer become one: a 64-bit hash, verified against the real values afterwards.

And what integer keys seek: the range of keys around each.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import kernel

PRIME = np.uint64(0x100000001B3)
SEED = np.uint64(0xCBF29CE484222325)
MIX_A = np.uint64(0xFF51AFD7ED558CCD)
MIX_B = np.uint64(0xC4CEB9FE1A85EC53)
SHIFT = np.uint64(33)
INFINITY = 0x7FF << 52
INT_MIN, INT_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@kernel
def hash_text(offsets, data):  # type: ignore[no-untyped-def]
    """int64 hash of each text; offsets int32, one more than texts; data uint8. A new array is returned."""
    out = np.empty(len(offsets) - 1, np.int64)
    for i in range(len(out)):
        h = SEED
        for k in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[k])) * PRIME
        h ^= h >> SHIFT
        h *= MIX_A
        h ^= h >> SHIFT
        out[i] = np.int64(h)
    return out


@kernel
def combine_hashes(first, second):  # type: ignore[no-untyped-def]
    """One int64 for each pair of int64, order of the two counting. A new array is returned."""
    out = np.empty(len(first), np.int64)
    for i in range(len(out)):
        h = np.uint64(first[i]) * MIX_A
        h ^= h >> SHIFT
        h = (h ^ np.uint64(second[i])) * MIX_B
        h ^= h >> SHIFT
        out[i] = np.int64(h)
    return out


@kernel
def seek_integers(values, low_shift, from_least, high_shift, to_greatest, low, high):  # type: ignore[no-untyped-def]
    """Fill low and high (int64) with values (int64) + shift, held within int64; low > high seeks nothing.

    from_least, to_greatest: there is no bound on that side.
    """
    # Values beyond these would be shifted out of int64.
    most_low, least_low = INT_MAX - max(low_shift, 0), INT_MIN - min(low_shift, 0)
    most_high, least_high = INT_MAX - max(high_shift, 0), INT_MIN - min(high_shift, 0)
    for i in range(len(values)):
        value = values[i]
        is_nothing = (value > most_low) | (value < least_high)
        least = INT_MIN if from_least | (value < least_low) else value + low_shift
        greatest = INT_MAX if to_greatest | (value > most_high) else value + high_shift
        low[i] = 1 if is_nothing else least
        high[i] = 0 if is_nothing else greatest


@kernel
def keep_equal(left, left_base, left_rows, right, right_base, right_rows, keep):  # type: ignore[no-untyped-def]
    """Clear keep[i] (uint8) where the int64 values of a pair differ."""
    for i in range(len(keep)):
        if left[left_rows[i] - left_base] != right[right_rows[i] - right_base]:
            keep[i] = 0


@kernel
def keep_equal_text(  # type: ignore[no-untyped-def]
    left_starts, left_base, left, left_data, left_rows,
    right_starts, right_base, right, right_data, right_rows, keep,
):  # fmt: skip
    """Clear keep[i] (uint8) where the texts of a pair differ."""
    for i in range(len(keep)):
        a = left_rows[i] - left_base
        b = right_rows[i] - right_base
        size = left_starts[a + 1] - left_starts[a]
        if right_starts[b + 1] - right_starts[b] != size:
            keep[i] = 0
            continue
        p = left_starts[a] - left_data
        q = right_starts[b] - right_data
        for k in range(size):
            if left[p + k] != right[q + k]:
                keep[i] = 0
                break


@kernel
def encode_doubles(bits):  # type: ignore[no-untyped-def]
    """Bits of doubles (int64) to int64 in their order: -0.0 is 0.0, NaN above all. Gives a new array."""
    out = np.empty(len(bits), np.int64)
    for i in range(len(out)):
        code = bits[i] ^ ((bits[i] >> 63) & INT_MAX)
        if code == -1:  # -0.0
            code = 0
        if code > INFINITY or code < -INFINITY - 1:  # NaN, of either sign
            code = INT_MAX
        out[i] = code
    return out

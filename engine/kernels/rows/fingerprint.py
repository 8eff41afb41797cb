"""Rows told apart by two int64: the values themselves where they fit, else two independent hashes of them."""

from __future__ import annotations

import numpy as np

from penstock.engine.kernels.base.jit import expand, kernel

PRIME_A = np.uint64(0x100000001B3)
PRIME_B = np.uint64(0x9E3779B97F4A7C15)
SEED_A = np.uint64(0xCBF29CE484222325)
SEED_B = np.uint64(0x84222325CBF29CE4)
MIX_A = np.uint64(0xFF51AFD7ED558CCD)
MIX_B = np.uint64(0xC4CEB9FE1A85EC53)
SHIFT_A = np.uint64(33)
SHIFT_B = np.uint64(29)
NULL_A = np.uint64(0xA5A5A5A55A5A5A5A)
NULL_B = np.uint64(0x5A5A5A5AA5A5A5A5)  # not the same: codes of a value of a fixed width are


@expand
def mix_a(h, code):  # type: ignore[no-untyped-def]
    h = (h ^ code) * MIX_A
    return h ^ (h >> SHIFT_A)


@expand
def mix_b(h, code):  # type: ignore[no-untyped-def]
    h = (h + code) * MIX_B
    return h ^ (h >> SHIFT_B)


@kernel
def hash_texts(offsets, data):  # type: ignore[no-untyped-def]
    """Two int64 hashes of each text; offsets int32, one more than texts; data uint8. Gives new arrays."""
    a = np.empty(len(offsets) - 1, np.int64)
    b = np.empty(len(offsets) - 1, np.int64)
    for i in range(len(a)):
        h = SEED_A
        g = SEED_B
        for k in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[k])) * PRIME_A
            g = (g + np.uint64(data[k]) + np.uint64(1)) * PRIME_B
            g ^= g >> SHIFT_B
        a[i] = np.int64(mix_a(h, SEED_B))
        b[i] = np.int64(mix_b(g, SEED_A))
    return a, b


@kernel
def hash_column(a, b, first, second, valid):  # type: ignore[no-untyped-def]
    """Take one more column into the hashes a and b, int64, in place.

    first, second: int64, the codes of the values (equal arrays if one code is all there is); valid: uint8 per
    row, empty if there are no NULLs.
    """
    for i in range(len(a)):
        one, two = np.uint64(first[i]), np.uint64(second[i])
        if len(valid) and not valid[i]:
            one, two = NULL_A, NULL_B
        a[i] = np.int64(mix_a(np.uint64(a[i]), one))
        b[i] = np.int64(mix_b(np.uint64(b[i]), two))

"""Which bucket a row goes to, and what Spark calls the buckets.

Rows whose keys are equal, as joins and groups see it, are in one bucket; those without a key are together.

Spark spreads the buckets over its partitions by a hash of their names. Numbers from 0 on would meet on some
partitions and leave others idle, so each bucket gets a name whose hash fits its place. The place is the same
for every number of partitions that divides SPREAD, so names do not depend on that number.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.keys.fingerprint import fingerprint
from penstock.engine.rows.types import SqlType

SPREAD = 201_600  # 2^7 * 3^2 * 5^2 * 7: a multiple of 1 to 10, of 12, 16, 32, 64, 100, 128 and of 200
MOST = 4096
STEP = 1 << 20


def bucket_of(key: pa.Array, type_: SqlType, buckets: int) -> NDArray:
    """The bucket of each row, from 0 on, by its key."""
    one, two = fingerprint([key], [type_], len(key))
    mixed = one.view(np.uint64) + two.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # keys may be multiples of anything
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(33))) % np.uint64(buckets)).astype(np.int64)


@lru_cache
def bucket_names(buckets: int) -> tuple[int, ...]:
    """An INT for each bucket; bucket i goes to partition i % p, if p divides SPREAD."""
    names = np.full(buckets, -1, np.int64)
    first = 0
    while (names < 0).any():
        candidates = np.arange(first, first + STEP)
        places = spark_hash(candidates).astype(np.int64) % SPREAD
        fitting = np.flatnonzero(places < buckets)[::-1]  # backwards: the first of a place stays
        found = np.full(buckets, -1, np.int64)
        found[places[fitting]] = candidates[fitting]
        names = np.where(names < 0, found, names)
        first += STEP
    return tuple(int(name) for name in names)


def spark_hash(values: NDArray) -> NDArray:
    """Spark's hash of an INT: Murmur3 of four bytes, seed 42."""
    with np.errstate(over="ignore"):
        mixed = rotate(values.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = rotate(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (hashed ^ (hashed >> np.uint32(16))).view(np.int32)


def rotate(values: NDArray, by: int) -> NDArray:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))

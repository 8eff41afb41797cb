"""Equality by hashing: constant work per insert and per match, nothing at all on expiry.

State: the live keys, a link per row to the bucket's previous row, the newest row of each bucket. There are
at least as many buckets as live rows; when the window outgrows them, or shrinks to a sixteenth of them, the
links are laid anew.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..buffer import RowBuffer
from ..kernels.hash import link_rows, run_hash
from .check_probes import check_probes
from .index import Probes

MIN_BUCKETS = 256


class HashIndex:
    """Rows by key, for equality only."""

    kind: ClassVar[str] = "hash"

    def __init__(self, first_row: int = 0) -> None:
        self._keys = RowBuffer("int64", first_row)
        self._links = RowBuffer("int32", first_row)
        self._heads = np.full(MIN_BUCKETS, -1, np.int64)
        self._inserted = first_row

    def extend(self, keys: NDArray) -> None:
        self._keys.append(keys)
        self._links.reserve(len(keys))
        self._links.end += len(keys)
        if len(self._keys) > len(self._heads):
            self._spread(2 * len(self._keys))

    def run(self, probes: Probes, out_prober: NDArray, out_row: NDArray, counting: bool) -> int:
        check_probes(probes, self._keys, self._inserted)
        keys, links = self._keys, self._links
        found, self._inserted = run_hash(
            keys.data, keys.base, links.data, links.base, self._heads, self._inserted,
            probes.key_low, probes.key_high, probes.row_from, probes.row_until, probes.end,
            probes.cursor, out_prober, out_row, counting,
        )  # fmt: skip
        return int(found)

    def purge(self, row: int) -> None:
        self._keys.drop(row)
        self._links.drop(row)
        # Rows which nobody will see need not be inserted, and their keys may be gone when it is their turn.
        self._inserted = max(self._inserted, self._keys.tail)
        if len(self._heads) > max(MIN_BUCKETS, 16 * len(self._keys)):
            self._spread(2 * len(self._keys))

    @property
    def keys(self) -> NDArray:
        return self._keys.live

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._links.nbytes + int(self._heads.nbytes)

    def _spread(self, rows: int) -> None:
        """Lay the links anew over enough buckets for `rows`."""
        self._heads = np.full(1 << (max(rows, MIN_BUCKETS) - 1).bit_length(), -1, np.int64)
        keys, links = self._keys, self._links
        link_rows(keys.data, keys.base, links.data, links.base, self._heads, keys.tail, self._inserted)

    def _check(self) -> None:
        self._keys._check()
        self._links._check()
        assert self._keys.tail == self._links.tail, "keys and links cover different rows"
        assert self._keys.end == self._links.end, "keys and links cover different rows"
        assert self._keys.tail <= self._inserted <= self._keys.end, "a row is in a bucket without its key"
        assert len(self._keys) <= len(self._heads), "fewer buckets than rows"
        reached = set()
        for newest in self._heads:
            row = int(newest)
            while row >= self._keys.tail:
                assert row not in reached, f"row {row} is reached twice"
                reached.add(row)
                back = int(self._links.data[row - self._links.base])
                row = row - back if back else -1
        live = set(range(self._keys.tail, self._inserted))
        assert reached == live, f"{len(live - reached)} live rows cannot be reached"

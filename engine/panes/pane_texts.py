"""Texts whose extremes are kept by pane: what lanes and answers say of them are places here.

In: the texts of batches.  Out: texts by place.  Kept: all since `keep`.  Dropped: those that nobody refers
to, when they are more than the others; the rest then moves, and who has places gets the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.rows.store import TextColumn

MIN_TEXTS = 1024


class PaneTexts:
    """Of one argument, for MIN and MAX alike."""

    def __init__(self) -> None:
        self._store = TextColumn()
        self._most = MIN_TEXTS

    @property
    def count(self) -> int:
        return self._store.starts.end - 1

    @property
    def buffers(self) -> tuple[NDArray, NDArray]:
        """For kernels: see kernels/changes/ordered.py."""
        return self._store.starts.data, self._store.data.data

    def append(self, array: pa.Array) -> NDArray:
        """The places of these texts; that of a NULL is not to be used."""
        first = self.count
        self._store.append(array)
        return np.arange(first, self.count)

    def take(self, places: NDArray, valid: NDArray | None) -> pa.Array:
        """The texts at these places, NULL where there is none."""
        if valid is None or valid.all():
            return self._store.view().take(places)
        known = valid != 0
        texts = self._store.view().take(places[known])
        return texts.take(pa.array(np.cumsum(known) - 1, mask=~known))

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to see which are referred to."""
        return self.count > self._most

    def keep(self, referring: Sequence[tuple[NDArray, NDArray]]) -> None:
        """Keep what these refer to alone: arrays, and where in them there are places."""
        found = [array[known] for array, known in referring]
        places = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
        texts = self._store.view().take(places)
        self._store = TextColumn()
        self._store.append(texts)
        for (array, known), old in zip(referring, found, strict=True):
            array[known] = np.searchsorted(places, old)
        self._most = max(MIN_TEXTS, 2 * len(places))

    @property
    def nbytes(self) -> int:
        return self._store.nbytes

"""A new index by name, empty or holding rows already: how joins get theirs, and change it while running."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .index import Index, Probes

INDEX_KINDS = ("scan", "hash", "t-tree", "b+tree")
NO_INDEX = "none"
"""Of rows that are kept for others than joins."""


def supports_ranges(kind: str) -> bool:
    """Whether the index finds a range of keys, not only one key."""
    return kind != "hash"


def build_index(kind: str, first_row: int = 0, keys: NDArray | None = None) -> Index:
    """A new index whose next row is `first_row`, or which holds `keys` as rows first_row and following.

    Each kind is imported when it is first asked for: who only hashes need not load the trees' kernels.
    """
    assert kind in (*INDEX_KINDS, NO_INDEX), f"expected an index of {', '.join(INDEX_KINDS)}, found {kind}"
    index: Index
    if kind == NO_INDEX:
        from .none import NoIndex

        index = NoIndex(first_row)
        index.extend(np.empty(0, np.int64) if keys is None else keys)
        return index
    if kind == "scan":
        from .scan import ScanIndex

        index = ScanIndex(first_row)
    elif kind == "hash":
        from .hash import HashIndex

        index = HashIndex(first_row)
    elif kind == "t-tree":
        from .ttree import TTreeIndex

        index = TTreeIndex(first_row)
    else:
        from .btree import BPlusTreeIndex

        index = BPlusTreeIndex(first_row)
    if keys is not None:
        index.extend(keys)
        nobody = np.empty(0, np.int64)
        index.run(Probes(nobody, nobody, nobody, nobody, first_row + len(keys)), nobody, nobody, False)
    return index

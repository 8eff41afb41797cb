"""What is known of rows that go from one place to another: their tags, and by which lineage.

Conditions are evaluated once per row, wherever the row is next: who gets tagged rows takes the tags, carried
over to its own lineage (lineage.py), and looks only at what that lineage did not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import Batch

from .lineage import Failure, Lineage, Tags


@dataclass(frozen=True, slots=True, eq=False)
class RowTags:
    """Tags of rows, by a lineage."""

    lineage: Lineage
    tags: Tags

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.tags.leaves.shape[1])

    def _check_restored(self) -> None:
        leaves, counts = self.tags.leaves, self.lineage.leaf_counts
        expect(len(leaves) == len(counts) and len(self.tags.words) == self.lineage.words, "tags by a lineage")
        for one, count in zip(leaves, counts, strict=True):
            within(one, 0, count, "leaves of rows")

    def take(self, positions: NDArray | slice) -> RowTags:
        return RowTags(self.lineage, self.tags.take(positions))

    def by(
        self, lineage: Lineage, column: Callable[[int], pa.Array], length: int, is_past: bool = False
    ) -> tuple[Tags, list[Failure]]:
        """The tags by another lineage, and the predicates that fail on rows when that is found out.

        is_past: the rows came before those who ask what is new in it.
        """
        return lineage.carry(self.lineage, self.tags, column, length, is_past)

    def joined(self, batches: Sequence[Batch]) -> RowTags | None:
        """Of all rows of some batches by this lineage: what was not tagged is now; None if that fails."""
        tags = []
        for batch in batches:
            more, failures = tags_of(batch, self.lineage)
            if failures:
                return None
            tags.append(more)
        return RowTags(self.lineage, merged(tags))


def tags_of(batch: Batch, lineage: Lineage) -> tuple[Tags, list[Failure]]:
    """Tags of a batch, and the predicates that fail on it; what is known of it is not looked at again."""
    known = known_of(batch)
    if known is None:
        return lineage.tag(batch.column, batch.length)
    return known.by(lineage, batch.column, batch.length)


def known_of(batch: Batch) -> RowTags | None:
    """What came with a batch: tags, if anything."""
    return cast("RowTags | None", batch.known)


def tagged(batch: Batch, lineage: Lineage) -> Batch:
    """The batch with its tags; as it is where a predicate fails on it, or there is nothing to know."""
    if not (lineage.dimensions or lineage.words):
        return batch
    tags, failures = tags_of(batch, lineage)
    if failures:
        return batch
    return batch.knowing(RowTags(lineage, tags))


def merged(tags: Sequence[Tags]) -> Tags:
    """Tags of several runs of rows, by one lineage, as those of one."""
    return Tags(np.hstack([one.leaves for one in tags]), np.hstack([one.words for one in tags]))

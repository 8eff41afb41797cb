"""The stored rows of one side of a join when its members come and go, or when it goes over to another.

What is known of stored rows is carried over: nothing that a member asked for before is looked at again, only
what a newcomer asks and nobody else did. Rows stay where they are as long as all rows of a shelf live equally
long; else they are laid out anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..batch import NO_ROWS, Batch
from ..known_tags import Known, tags_of
from ..lineage import Failure, Lineage, Tags
from ..member import Member
from ..shelf import Shelf, filled
from ..stored_rows import StoredRows, births_of, joined, stored
from ..types import ARROW_TYPES
from ..window import FOREVER
from .find_needed import as_matrix, find_needed, lots_of
from .side import Side


def rearrange(side: Side) -> None:
    """Give the stored rows their tags, and each the shelf of the lifetime it has now."""
    side.shelves = [shelf for shelf in side.shelves if len(shelf)]
    retag(side)
    if not stay(side):
        rows = export_rows(side)
        side.shelves = []
        side.last_gap = side.come + len(side.come_ts) - 1
        if rows is not None:
            load(side, rows)


def retag(side: Side) -> None:
    """Give the stored rows the tags of a changed lineage. They keep their numbers, and references hold."""
    lineage = Lineage([side.predicate]) if side.is_uniform else side.lineage
    is_known = lineage is side.tagged_by and side.memory is side.remembered_by
    widths = len(lineage.dimensions) + side.births_matter, lineage.words
    for shelf in side.shelves:
        if is_known and widths == (len(shelf.leaves), len(shelf.words)):
            continue
        batch = batch_of(side, shelf)
        tags, failures = known_of(side, shelf).by(lineage, batch.column, batch.length, is_past=True)
        places = NO_ROWS if shelf.places is None else shelf.places.live
        miss_failures(side, side.newcomers, failures, shelf.store.ts.live, places)
        births = [births_of(shelf)] if side.births_matter else []
        memory = [] if side.memory is None else tags_of(batch, side.memory)[0].arrays
        shelf.tag([*tags.leaves, *births], list(tags.words), memory)
    side.tagged_by, side.remembered_by = lineage, side.memory


def miss_failures(
    side: Side, newcomers: Sequence[Member], failures: Sequence[Failure], ts: NDArray, places: NDArray
) -> None:
    """Let newcomers be without the rows up to the last on which what they ask fails: those who ask it from
    the start end there, and nobody has its answer.

    ts, places: of the rows that were there, by which the failures number them.
    """
    number = side.number
    for failure in failures:
        for member in newcomers:
            if member.predicates[number] == failure.predicate:
                pos = places if member.by_rows[number] else ts
                member.missing[number] = max(member.missing[number], int(pos[failure.row]))
                if member.by_rows[number] and member not in side.unfilled:
                    side.unfilled.append(member)


def remember(side: Side, lineage: Lineage) -> None:
    """Keep for others what is known of rows by this lineage, of those that are there and those that come."""
    for shelf in side.shelves:
        batch = batch_of(side, shelf)
        tags, _ = known_of(side, shelf).by(lineage, batch.column, batch.length, is_past=True)
        leaves, words = ([one.live for one in group] for group in (shelf.leaves, shelf.words))
        shelf.tag(leaves, words, tags.arrays)
    side.memory = side.remembered_by = lineage


def stay(side: Side) -> bool:
    """Leave tagged rows where they are, if all of a shelf live equally long; False if they do not."""
    ends = []
    for shelf in side.shelves:
        needed = find_needed(side, batch_of(side, shelf), births_of(shelf))
        if needed.there is not None or (shelf.places is None) == side.is_numbered:
            return False
        lots = lots_of(side, needed)
        if len(lots) > 1:
            return False
        ends.append(lots[0][:2])
    if len(set(ends)) < len(ends):
        return False
    for shelf, end in zip(side.shelves, ends, strict=True):
        shelf.lifetime, shelf.rows = end
        if side.is_uniform:
            shelf.leaves, shelf.words = [], []
        leaves, words = ([one.live for one in group] for group in (shelf.leaves, shelf.words))
        takers = side.find_takers(leaves, words, len(shelf))
        shelf.takers = None if side.dealt is None else filled(takers, shelf.store.ts.tail)
    return True


def export_rows(side: Side) -> StoredRows | None:
    """All stored rows, in the order in which they came."""
    parts = [
        StoredRows(
            shelf.store.ts.live,
            NO_ROWS if shelf.places is None else shelf.places.live,
            shelf.index.keys,
            births_of(shelf),
            [stored(column) for column in shelf.store.columns],
            known_of(side, shelf),
        )
        for shelf in side.shelves
        if len(shelf)
    ]
    if not parts:
        return None
    rows = joined(parts)
    return rows.take(np.argsort(rows.places if len(rows.places) else rows.ts, kind="stable"))


def known_by(side: Side, rows: StoredRows, lineage: Lineage, newcomers: Sequence[Member]) -> StoredRows:
    """The rows, exported from this side, with tags by another lineage; columns it has not kept are NULL."""

    def column(index: int) -> pa.Array:
        if index not in side.columns:
            return pa.nulls(len(rows.ts), ARROW_TYPES[side.types[index]])
        return rows.arrays[len(side.verified) + side.columns.index(index)]

    tags, failures = rows.known.by(lineage, column, len(rows.ts), is_past=True)
    miss_failures(side, newcomers, failures, rows.ts, rows.places)
    return replace(rows, known=Known(lineage, tags))


def adopt(side: Side, rows: StoredRows) -> None:
    """Hold rows of another side, all of one lifetime, until members say what is needed of them."""
    types = [*side.verified, *(side.types[i] for i in side.columns)]
    tags, side.tagged_by, side.remembered_by = rows.known.tags, rows.known.lineage, None
    shelf = Shelf(FOREVER, types, side.by_place, True, "scan", len(tags.leaves), len(tags.words))
    leaves, words = list(tags.leaves), list(tags.words)
    shelf.append(rows.ts, rows.places, rows.keys, rows.arrays, leaves, words, rows.births)
    side.shelves = [shelf]
    side.is_uniform = False


def load(side: Side, rows: StoredRows) -> None:
    """Put rows that came earlier on shelves, as far as they are needed."""
    columns = dict(zip(side.columns, rows.arrays[len(side.verified) :], strict=True))
    batch = Batch(rows.ts, [columns.get(i) for i in range(len(side.types))])
    batch.known = rows.known
    needed = find_needed(side, batch, rows.births)
    rows = rows if needed.there is None else rows.take(needed.there)
    side.ts, side.places = rows.ts, rows.places
    side.leaves, side.words = needed.leaves, needed.words
    side.shelve(rows.arrays, rows.keys, needed, rows.births)
    side.forget_batch()


def batch_of(side: Side, shelf: Shelf) -> Batch:
    """Stored rows as rows of the stream; columns that are not stored are missing."""
    slots = shelf.store.columns[len(side.verified) :]
    columns = {column: stored(slot) for column, slot in zip(side.columns, slots, strict=True)}
    batch = Batch(shelf.store.ts.live, [columns.get(i) for i in range(len(side.types))])
    batch.known = known_of(side, shelf)
    return batch


def known_of(side: Side, shelf: Shelf) -> Known:
    """What is known of the rows of a shelf: what is remembered for others, if that is done, has it all."""
    lineage, buffers = side.tagged_by, [*shelf.leaves[: len(side.tagged_by.dimensions)], *shelf.words]
    if side.remembered_by is not None:
        lineage, buffers = side.remembered_by, shelf.memory
    rows, dimensions = len(shelf), len(lineage.dimensions)
    if len(buffers) == dimensions + lineage.words:
        leaves = as_matrix([one.live for one in buffers[:dimensions]], rows, np.int32)
        words = as_matrix([one.live for one in buffers[dimensions:]], rows, np.int64)
        return Known(lineage, Tags(leaves, words))
    # All satisfy the one predicate there is, so that there is one leaf that they can be in.
    demand = lineage.demand(lineage.predicates[0])
    return Known(lineage, Tags(np.tile(demand.low[:, None], rows), np.tile(demand.bits[:, None], rows)))

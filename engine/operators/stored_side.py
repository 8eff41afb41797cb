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
        side.last_gap = side.end - 1
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
        wait_for(side, miss_failures(side.number, side.newcomers, failures, shelf.store.ts.live, places))
        births = [births_of(shelf)] if side.births_matter else []
        memory = [] if side.memory is None else tags_of(batch, side.memory)[0].arrays
        shelf.tag([*tags.leaves, *births], list(tags.words), memory)
    side.tagged_by, side.remembered_by = lineage, side.memory


def miss_failures(
    side: int, newcomers: Sequence[Member], failures: Sequence[Failure], ts: NDArray, places: NDArray
) -> list[Member]:
    """Let newcomers be without the rows up to the last on which what they ask fails: those who ask it from
    the start end there, and nobody has its answer.

    ts, places: of the rows that were there, by which the failures number them. Returns those of whom such a
    row may still be in a ROWS window.
    """
    unfilled = []
    for failure in failures:
        for member in newcomers:
            if member.predicates[side] == failure.predicate:
                pos = places if member.by_rows[side] else ts
                member.missing[side] = max(member.missing[side], int(pos[failure.row]))
                if member.by_rows[side]:
                    unfilled.append(member)
    return unfilled


def wait_for(side: Side, members: Sequence[Member]) -> None:
    """Note when the ROWS windows of these come to hold nothing but rows that are there."""
    side.unfilled += [member for member in members if member not in side.unfilled]


def remember(side: Side, lineage: Lineage, newcomers: Sequence[Member] = ()) -> None:
    """Keep for others what is known of rows by this lineage, of those that are there and those that come.

    newcomers: those who may ask what nobody has asked of these rows before, here or elsewhere.
    """
    for shelf in side.shelves:
        batch = batch_of(side, shelf)
        tags, failures = known_of(side, shelf).by(lineage, batch.column, batch.length, is_past=True)
        places = NO_ROWS if shelf.places is None else shelf.places.live
        miss_failures(side.number, newcomers, failures, shelf.store.ts.live, places)
        leaves, words = ([one.live for one in group] for group in (shelf.leaves, shelf.words))
        shelf.tag(leaves, words, tags.arrays)
    side.memory = side.remembered_by = lineage


def forget_memory(side: Side) -> None:
    """Nobody else wants to know anything of the rows."""
    side.memory = side.remembered_by = None
    for shelf in side.shelves:
        shelf.memory = []


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


def waiting_rows(side: Side, count: int, newcomers: Sequence[Member] = ()) -> StoredRows | None:
    """The first rows that wait in a side's queue, those that some member needs, as if they had been stored.

    None if something fails on them, also of what newcomers ask. What is kept for others (side.memory) is
    known of them.
    """
    assert side.memory is not None, "expected what all joins ask of rows"
    asked = Lineage([member.predicates[side.number] for member in newcomers])
    parts: list[StoredRows] = []
    end = side.end
    for batch in side.queue.batches:
        if not count:
            break
        examined = side.examine(batch.slice(0, min(count, batch.length)))
        whole, rows, needed = examined.batch, examined.rows, examined.needed
        if examined.failures or asked.tag(whole.column, whole.length)[1]:
            return None
        positions = np.arange(rows.length) if needed.there is None else needed.there
        keys, arrays = side.as_stored(examined)
        known = Known(side.memory, as_tags(needed.memory, side.memory, rows.length))
        births = np.full(rows.length, side.generation, np.int32)
        parts.append(StoredRows(rows.ts, end + positions, keys, births, arrays, known))
        end += whole.length
        count -= whole.length
    return joined(parts)


def known_by(side: Side, rows: StoredRows, lineage: Lineage, newcomers: Sequence[Member]) -> StoredRows:
    """The rows, exported from this side, with tags by another lineage; columns it has not kept are NULL."""

    def column(index: int) -> pa.Array:
        if index not in side.columns:
            return pa.nulls(len(rows.ts), ARROW_TYPES[side.types[index]])
        return rows.arrays[len(side.verified) + side.columns.index(index)]

    tags, failures = rows.known.by(lineage, column, len(rows.ts), is_past=True)
    wait_for(side, miss_failures(side.number, newcomers, failures, rows.ts, rows.places))
    return replace(rows, known=Known(lineage, tags))


def adopt(side: Side, rows: StoredRows) -> None:
    """Hold rows of another side, all of one lifetime, until members say what is needed of them."""
    types = [*side.verified, *(side.types[i] for i in side.columns)]
    tags, side.tagged_by, side.remembered_by = rows.known.tags, rows.known.lineage, None
    shelf = Shelf(FOREVER, types, side.by_place, True, side.index_kind, len(tags.leaves), len(tags.words))
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
    rows = len(shelf)
    if len(buffers) == len(lineage.dimensions) + lineage.words:
        return Known(lineage, as_tags([one.live for one in buffers], lineage, rows))
    # All satisfy the one predicate there is, so that there is one leaf that they can be in.
    demand = lineage.demand(lineage.predicates[0])
    return Known(lineage, Tags(np.tile(demand.low[:, None], rows), np.tile(demand.bits[:, None], rows)))


def as_tags(arrays: Sequence[NDArray], lineage: Lineage, rows: int) -> Tags:
    """Tags by a lineage from leaves and words, an array each."""
    dimensions = len(lineage.dimensions)
    leaves = as_matrix(arrays[:dimensions], rows, np.int32)
    return Tags(leaves, as_matrix(arrays[dimensions:], rows, np.int64))

"""The stored rows of one side of a join when its members come and go, or when it goes over to another.

What is known of stored rows is carried over: nothing that a member asked for before is looked at again, only
what a newcomer asks and nobody else did. Rows stay where they are as long as all rows of a shelf live equally
long; else they are laid out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.members.lineage import Failure, Lineage, Tags
from penstock.engine.members.member import Member
from penstock.engine.members.row_tags import RowTags
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.types import ARROW_TYPES
from penstock.engine.rows.window import FOREVER

from .find_needed import as_matrix, find_needed, lots_of, needed_by_all, needed_by_some
from .shelf import Shelf
from .side import Side
from .stored_rows import StoredRows, births_of, joined, stored


def rearrange(side: Side) -> None:
    """Give the stored rows their tags, and each the shelf of the lifetime it has now."""
    side.kept.hold([shelf for shelf in side.shelves if len(shelf)])
    retag(side)
    moving = leave_in_place(side)
    if not moving:
        return
    rows = export_rows(side, moving)
    side.kept.hold([shelf for shelf in side.shelves if shelf not in moving])
    if rows is not None:
        load(side, rows)


def retag(side: Side) -> None:
    """Give the stored rows the tags of a changed lineage. They keep their numbers, and references hold."""
    lineage = Lineage([side.terms.predicate]) if side.terms.is_uniform else side.terms.lineage
    is_known = lineage is side.kept.tagged_by and side.memory is side.kept.remembered_by
    widths = len(lineage.dimensions) + side.terms.births_matter, lineage.words
    shelves = [one for one in side.shelves if not is_known or widths != (len(one.leaves), len(one.words))]
    tags = carried(side, shelves, lineage, side.wait_for, side.terms.newcomers)
    memory = tags if side.memory is None else carried(side, shelves, side.memory)
    for shelf, own, others in zip(shelves, tags, memory, strict=True):
        births = [births_of(shelf)] if side.terms.births_matter else []
        shelf.tag([*own.leaves, *births], list(own.words), [] if side.memory is None else others.arrays)
    side.kept.tag_by(lineage, side.memory)


def carried(
    side: Side,
    shelves: Sequence[Shelf],
    lineage: Lineage,
    failed: Callable[[list[Member]], None] = lambda members: None,
    newcomers: Sequence[Member] = (),
) -> list[Tags]:
    """Tags by a lineage of the rows of some shelves.

    newcomers: those who may ask what nobody has asked of these rows before; failed: told of those with ROWS
    windows that are without some rows, as what they ask fails on them.
    """
    if not shelves:
        return []
    bounds = bounds_of(shelves)
    known, columns = known_of(side, shelves), StoredColumns(side, shelves)
    tags, failures = known.by(lineage, columns, int(bounds[-1]), is_past=True)
    if not failures:
        return [tags.take(slice(*ends)) for ends in pairwise(bounds.tolist())]
    if len(shelves) > 1:  # which row is the last on which something fails is known where rows are in order
        return [one for shelf in shelves for one in carried(side, [shelf], lineage, failed, newcomers)]
    failed(miss_failures(side, newcomers, failures, shelves[0].pos.live))
    return [tags]


def miss_failures(
    side: Side, newcomers: Sequence[Member], failures: Sequence[Failure], pos: NDArray
) -> list[Member]:
    """Let newcomers be without the rows up to the last on which what they ask fails, and who comes later and
    asks the same: those who ask it from the start end there, and nobody has its answer.

    pos: ts or places of the rows that were there, by which the failures number them. Returns those of whom
    such a row may still be in a ROWS window.
    """
    unfilled = []
    number = side.number
    for failure in failures:
        last = int(pos[failure.row])
        side.note_failed(failure.predicate, last)
        for member in newcomers:
            if member.predicates[number] == failure.predicate:
                member.missing[number] = max(member.missing[number], last)
                if side.by_place:
                    member.filled[number] = None
                    unfilled.append(member)
    return unfilled


def remember(side: Side, lineage: Lineage) -> None:
    """Keep for others what is known of rows by this lineage, of those that are there and those that come."""
    for shelf, tags in zip(side.shelves, carried(side, side.shelves, lineage), strict=True):
        leaves, words = ([one.live for one in group] for group in (shelf.leaves, shelf.words))
        shelf.tag(leaves, words, tags.arrays)
    side.remember(lineage)
    side.kept.tag_by(side.kept.tagged_by, lineage)


def forget_memory(side: Side) -> None:
    """Nobody else wants to know anything of the rows."""
    side.remember(None)
    side.kept.tag_by(side.kept.tagged_by, None)
    for shelf in side.shelves:
        shelf.forget_memory()


def leave_in_place(side: Side) -> list[Shelf]:
    """Let tagged rows stay on their shelf where all of it live equally long, and no others do; the shelves
    whose rows must move."""
    shelves = side.shelves
    if not shelves:
        return []
    # 1. which rows live how long
    bounds = bounds_of(shelves)
    batch = Batch(np.concatenate([shelf.store.ts.live for shelf in shelves]), ())
    batch.known = known_of(side, shelves, is_own=True)
    births = np.concatenate([births_of(shelf) for shelf in shelves])
    needed = needed_by_all(side, batch) if side.terms.is_uniform else needed_by_some(side, batch, births)
    lots = lots_of(side, needed)
    there = np.arange(batch.length) if needed.there is None else needed.there
    lot = np.full(batch.length, -1)
    for number, (_, rows) in enumerate(lots):
        lot[there if len(lots) == 1 else there[rows]] = number
    # 2. whose rows are all of one lot, and all of the lot
    first = np.minimum.reduceat(lot, bounds[:-1])
    stays = (first == np.maximum.reduceat(lot, bounds[:-1])) & (first >= 0)
    stays &= [(shelf.places is None) != side.is_numbered for shelf in shelves]
    stays &= np.bincount(first[stays], minlength=len(lots) + 1)[first] == 1
    stays &= ~np.isin(first, lot[np.repeat(~stays, np.diff(bounds))])
    # 3. how long they stay
    for shelf, number in zip(compress(shelves, stays), first[stays].tolist(), strict=True):
        shelf.live_for(lots[number][0])
        if side.terms.is_uniform:
            shelf.forget_tags()
    return list(compress(shelves, ~stays))


def bounds_of(shelves: Sequence[Shelf]) -> NDArray:
    """Where the rows of each begin if all stand one after the other, and where the last ends."""
    return np.concatenate(([0], np.cumsum([len(shelf) for shelf in shelves])))


def export_rows(side: Side, shelves: Sequence[Shelf] | None = None) -> StoredRows | None:
    """All stored rows, or those of some shelves, in the order in which they came."""
    parts = [
        StoredRows(
            shelf.store.ts.live,
            NO_ROWS if shelf.places is None else shelf.places.live,
            shelf.index.keys,
            births_of(shelf),
            [stored(column) for column in shelf.store.columns],
            known_of(side, [shelf]),
        )
        for shelf in (side.shelves if shelves is None else shelves)
        if len(shelf)
    ]
    if not parts:
        return None
    rows = joined(parts)
    return rows.take(np.argsort(rows.places if len(rows.places) else rows.ts, kind="stable"))


def export_numbered(side: Side) -> StoredRows | None:
    """All stored rows with numbers by which copies of one are known: places in the stream, or, of rows that
    were kept without, others below those."""
    if any(shelf.places is None for shelf in side.shelves):
        ts = np.concatenate([shelf.store.ts.live for shelf in side.shelves])
        numbers = np.empty(len(ts), np.int64)
        numbers[np.argsort(ts, kind="stable")] = np.arange(-len(ts), 0)
        for shelf, own in zip(side.shelves, np.split(numbers, bounds_of(side.shelves)[1:-1]), strict=True):
            shelf.number(own)
    return export_rows(side)


def known_by(side: Side, rows: StoredRows, lineage: Lineage, newcomers: Sequence[Member]) -> StoredRows:
    """The rows, exported from this side, with tags by another lineage; columns it has not kept are NULL."""

    def column(index: int) -> pa.Array:
        if index not in side.kept.columns:
            return pa.nulls(len(rows.ts), ARROW_TYPES[side.types[index]])
        return rows.arrays[len(side.kept.verified) + side.kept.columns.index(index)]

    tags, failures = rows.known.by(lineage, column, len(rows.ts), is_past=True)
    pos = rows.places if side.by_place else rows.ts
    side.wait_for(miss_failures(side, newcomers, failures, pos))
    return replace(rows, known=RowTags(lineage, tags))


def adopt(side: Side, rows: StoredRows) -> None:
    """Hold rows of another side, all of one lifetime, until members say what is needed of them."""
    types = [*side.kept.verified, *(side.types[i] for i in side.kept.columns)]
    tags = rows.known.tags
    shelf = Shelf(
        FOREVER, types, side.by_place, True, side.kept.index_kind, len(tags.leaves), len(tags.words)
    )
    leaves, words = list(tags.leaves), list(tags.words)
    shelf.append(rows.ts, rows.places, rows.keys, rows.arrays, leaves, words, rows.births)
    side.kept.hold([shelf])
    side.kept.tag_by(rows.known.lineage, None)
    side.tell_apart()


def load(side: Side, rows: StoredRows) -> None:
    """Put rows that came earlier on shelves, as far as they are needed."""
    columns = dict(zip(side.kept.columns, rows.arrays[len(side.kept.verified) :], strict=True))
    batch = Batch(rows.ts, [columns.get(i) for i in range(len(side.types))])
    batch.known = rows.known
    needed = find_needed(side, batch, rows.births)
    rows = rows if needed.there is None else rows.take(needed.there)
    side.arrival.take(rows.ts, rows.places, needed.leaves, needed.words, None)
    side.shelve(rows.arrays, rows.keys, needed, rows.births)
    side.forget_batch()


class StoredColumns:
    """Columns of the stream as some shelves have them, one after the other, put together when asked for."""

    def __init__(self, side: Side, shelves: Sequence[Shelf]) -> None:
        self._side = side
        self._shelves = shelves
        self._known: dict[int, pa.Array] = {}

    def __call__(self, column: int) -> pa.Array:
        found = self._known.get(column)
        if found is None:
            slot = len(self._side.kept.verified) + self._side.kept.columns.index(column)
            parts = [stored(shelf.store.columns[slot]) for shelf in self._shelves]
            found = self._known[column] = pa.concat_arrays(parts)
        return found


def known_of(side: Side, shelves: Sequence[Shelf], is_own: bool = False) -> RowTags:
    """What is known of the rows of some shelves: what is remembered for others, if that is done, has it all.

    is_own: only what the members of the side ask.
    """
    lineage = side.kept.tagged_by
    buffers = [[*one.leaves[: len(lineage.dimensions)], *one.words] for one in shelves]
    if side.kept.remembered_by is not None and not is_own:
        lineage, buffers = side.kept.remembered_by, [shelf.memory for shelf in shelves]
    rows, width = sum(map(len, shelves)), len(lineage.dimensions) + lineage.words
    if all(len(some) == width for some in buffers):
        arrays = [np.concatenate([some[at].live for some in buffers]) for at in range(width)]
        return RowTags(lineage, as_tags(arrays, lineage, rows))
    # All satisfy the one predicate there is, so that there is one leaf that they can be in.
    demand = lineage.demand(lineage.predicates[0])
    return RowTags(lineage, Tags(np.tile(demand.low[:, None], rows), np.tile(demand.bits[:, None], rows)))


def as_tags(arrays: Sequence[NDArray], lineage: Lineage, rows: int) -> Tags:
    """Tags by a lineage from leaves and words, an array each."""
    dimensions = len(lineage.dimensions)
    leaves = as_matrix(arrays[:dimensions], rows, np.int32)
    return Tags(leaves, as_matrix(arrays[dimensions:], rows, np.int64))

"""Pairs that the directions of a window join have found: put in time order, verified, made batches.

A pair is a time and two references: a row's number in its shelf's store, with the shelf's number above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..batch import NO_ROWS, Batch, Gather, View
from ..kernels.merge import merge_pairs
from ..kernels.pairs import ROW_BITS, ROW_MASK
from ..member import Member
from ..query_index import QueryIndex
from ..verify import equal_keys
from .direction import Direction
from .find_needed import as_matrix
from .side import Side

MAX_TEXT_BYTES = 1 << 30  # in one batch of pairs: Arrow's strings end at twice that

MAX_ENTRIES = 1 << 20  # pairs times members sorted out at once

Pairs = tuple[NDArray, NDArray, NDArray]


def merge_found(directions: Sequence[Direction], sides: tuple[Side, Side]) -> Pairs:
    """(ts, left references, right references) of the pairs that may go out now, in time order."""
    if len(directions) == 2 and directions[0].side is not directions[1].side:
        return _merge_two(directions, sides)
    ends = [one.last_ts for one in directions if not one.done and one.count]
    bound = min(ends, default=None)
    parts = [one.pairs_until(bound) for one in directions if one.pending]
    if not parts:
        return NO_ROWS, NO_ROWS, NO_ROWS
    ts, left, right = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(ts, kind="stable")
    return ts[order], left[order], right[order]


def _merge_two(directions: Sequence[Direction], sides: tuple[Side, Side]) -> Pairs:
    """The same where each side has one shelf."""
    b, a = directions
    left, right = sides
    room = a.pending + b.pending
    ts, left_rows, right_rows = (np.empty(room, np.int64) for _ in range(3))
    if not room:
        return ts, left_rows, right_rows
    count, a.at, b.at = merge_pairs(
        a.prober, a.row, a.at, a.count, a.done, left.ts, left.shelves[0].first_row,
        b.prober, b.row, b.at, b.count, b.done, right.ts, right.shelves[0].first_row,
        ts, left_rows, right_rows,
    )  # fmt: skip
    return ts[:count], left_rows[:count], right_rows[:count]


def verify_pairs(sides: tuple[Side, Side], ts: NDArray, left: NDArray, right: NDArray) -> Pairs:
    """Of pairs whose keys were found equal by hash, those whose keys are equal."""
    columns = len(sides[0].verified)
    if not columns or not len(ts):
        return ts, left, right
    if len(sides[0].shelves) == len(sides[1].shelves) == 1:  # a reference is a row's number
        stores = sides[0].shelves[0].store, sides[1].shelves[0].store
        keep = equal_keys(stores, (left, right), columns)
        if keep.all():
            return ts, left, right
    else:
        keep = np.ones(len(ts), np.uint8)
        numbers = (left >> ROW_BITS) << 20 | (right >> ROW_BITS)
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            stores = sides[0].shelves[number >> 20].store, sides[1].shelves[number & 0xFFFFF].store
            rows = left[here] & ROW_MASK, right[here] & ROW_MASK
            keep[here] = equal_keys(stores, rows, columns)
    kept = np.flatnonzero(keep)
    return (ts, left, right) if len(kept) == len(ts) else (ts[kept], left[kept], right[kept])


def tags_of(
    sides: tuple[Side, Side], index: QueryIndex, ts: NDArray, refs: tuple[NDArray, NDArray]
) -> tuple[NDArray, NDArray]:
    """Leaves and words of both rows of each pair, then leaves of their ages by place where these are asked
    for: of an instant that is not over, the ages as far as they are known, which only grow."""
    length = len(refs[0])
    if index.is_plain:
        return np.empty((0, length), np.int32), np.empty((0, length), np.int64)
    parts = [side.tags_at(rows) for side, rows in zip(sides, refs, strict=True)]
    ages = [
        side.rows_beside.leaves(ts, side.places_at(rows), side.come_ts, side.come)
        for side, rows in zip(sides, refs, strict=True)
        if side.rows_beside is not None
    ]
    return (
        as_matrix(parts[0][0] + parts[1][0] + ages, length, np.int32),
        as_matrix(parts[0][1] + parts[1][1], length, np.int64),
    )


def batches_of(
    member: Member,
    views: tuple[dict[int, View], dict[int, View]],
    ts: NDArray,
    left: NDArray,
    right: NDArray,
) -> Iterator[Batch]:
    """Pairs as a member is given them."""
    columns = [
        [Gather(views[side][column], rows) for column in member.node.sides[side].columns]
        for side, rows in ((0, left), (1, right))
    ]
    if member.node.swapped:
        columns.reverse()
    yield from cut_by_text(Batch(ts, columns[0] + columns[1]))


def cut_by_text(pairs: Batch) -> Iterator[Batch]:
    """The same pairs in batches whose text Arrow can address."""
    if pairs.length > 1 and pairs.text_bytes > MAX_TEXT_BYTES:
        half = pairs.length // 2
        yield from cut_by_text(pairs.slice(0, half))
        yield from cut_by_text(pairs.slice(half, pairs.length))
    else:
        yield pairs

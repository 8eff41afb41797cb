"""Pairs that the directions of a window join have found: put in time order, verified, made batches.

A pair is a time and two references: a row's number in its shelf's store, with the shelf's number above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.joins.pairs import ROW_BITS, ROW_MASK
from penstock.engine.kernels.rows.merge import merge_pairs
from penstock.engine.keys.verify import equal_keys
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.plan.plan import MemberNode
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.shelves.find_needed import as_matrix
from penstock.engine.shelves.side import Side
from penstock.engine.views.joined_batch import JoinedColumns, Refs
from penstock.engine.views.shelves_view import Stored

from .direction import Direction

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
        a.prober, a.row, a.at, a.count, a.done, left.arrival.ts, left.shelves[0].first_row,
        b.prober, b.row, b.at, b.count, b.done, right.arrival.ts, right.shelves[0].first_row,
        ts, left_rows, right_rows,
    )  # fmt: skip
    return ts[:count], left_rows[:count], right_rows[:count]


def verify_pairs(sides: tuple[Side, Side], ts: NDArray, left: NDArray, right: NDArray) -> Pairs:
    """Of pairs whose keys were found equal by hash, those whose keys are equal."""
    columns = len(sides[0].kept.verified)
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
    sides: tuple[Side, Side], index: QueryIndex, refs: tuple[NDArray, NDArray]
) -> tuple[NDArray, NDArray]:
    """Leaves and words of both rows of each pair."""
    length = len(refs[0])
    if index.is_plain:
        return np.empty((0, length), np.int32), np.empty((0, length), np.int64)
    parts = [side.tags_at(rows) for side, rows in zip(sides, refs, strict=True)]
    return (
        as_matrix(parts[0][0] + parts[1][0], length, np.int32),
        as_matrix(parts[0][1] + parts[1][1], length, np.int64),
    )


class StoredNow:
    """What members are given of the rows of a join, as it is stored at one moment."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides
        self._views: dict[tuple[int, int], Stored] = {}
        self._known: dict[tuple[Sequence[int], tuple[tuple[int, ...], ...]], JoinedColumns] = {}

    def columns_of(self, node: MemberNode) -> JoinedColumns:
        """The columns that a member reads, in its order."""
        order = node.order or ((1, 0) if node.swapped else (0, 1))
        asked = tuple([side.columns for side in node.sides])
        found = self._known.get((order, asked))
        if found is None:
            columns = [(side, column) for side in order for column in asked[side]]
            found = JoinedColumns([self._view(*one) for one in columns], [side for side, _ in columns])
            self._known[order, asked] = found
        return found

    def _view(self, side: int, column: int) -> Stored:
        if (side, column) not in self._views:
            self._views[side, column] = self._sides[side].kept.view(column)
        return self._views[side, column]


def batches_of(columns: JoinedColumns, ts: NDArray, refs: Refs) -> list[Batch]:
    """Rows as a member is given them: in batches whose text Arrow can address."""
    rows = columns.batch(ts, refs)
    return list(cut_by_text(rows)) if columns.texts else [rows]


def cut_by_text(rows: Batch) -> Iterator[Batch]:
    if rows.length > 1 and rows.text_bytes > MAX_TEXT_BYTES:
        half = rows.length // 2
        yield from cut_by_text(rows.slice(0, half))
        yield from cut_by_text(rows.slice(half, rows.length))
    else:
        yield rows

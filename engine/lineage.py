"""Lineage: which of many predicates each row of a stream satisfies, every condition looked at once per batch.

A predicate is an AND. Its comparisons with constants are ranges of leaves of a dimension (see dimension.py):
one binary search per row finds the row's leaf, whatever the number of predicates. The AND of its other
conjuncts is its *rest*; every distinct rest has a bit. So a row's Tags are a leaf per dimension and the bits,
and a predicate's Demand is a range per dimension and a bit that must be set.

Only the rest can fail on data: an expression that could fail makes no dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .dimension import Bound, Dimension, Split, split
from .errors import DataError
from .evaluate import Rows
from .expression import Expression
from .functions import as_array, select
from .functions.values import truths
from .kernels.lineage import set_bit

WORD_BITS = 64


@dataclass(slots=True)
class Tags:
    """What is known of n rows: leaves int32[D, n], words int64[W, n]."""

    leaves: NDArray[np.int32]
    words: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What tags must be: low <= leaf <= high (int32[..., D]) and all of `bits` (int64[..., W]) set."""

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    bits: NDArray[np.int64]

    @property
    def is_empty(self) -> bool:
        """Whether no row can satisfy it."""
        return bool((self.low > self.high).any())


@dataclass(frozen=True, slots=True)
class Failure:
    """The predicate (None: what all have in common) fails at `row` of the batch, and at none before it: there
    its query ends.

    From that row on the tags do not satisfy it, except where another predicate with the same rest, which has
    not failed there, needs the bit they share.
    """

    predicate: Expression | None
    row: int
    error: DataError


class Lineage:
    """The predicates over one stream; immutable. Those of a `previous` one are not taken apart again.

    `dimensions` are D and `words` are W of the Tags.
    """

    def __init__(self, predicates: Iterable[Expression | None], previous: Lineage | None = None) -> None:
        known = {} if previous is None else previous._splits
        self._splits: dict[Expression | None, Split] = {}
        for predicate in predicates:
            if predicate not in self._splits:
                self._splits[predicate] = known.get(predicate) or split(predicate)
        self._numbers = {predicate: number for number, predicate in enumerate(self._splits)}
        self._users: dict[Expression, list[Expression]] = {}
        for predicate, parts in self._splits.items():
            if parts.rest is not None and predicate is not None:
                self._users.setdefault(parts.rest, []).append(predicate)
        self._bits = {rest: place for place, rest in enumerate(self._users)}
        self.words = (len(self._bits) + WORD_BITS - 1) // WORD_BITS
        self._set_intervals()

    def _set_intervals(self) -> None:
        """Find the dimensions, and what each predicate asks of them and of the bits."""
        of_subject: dict[Expression, int] = {}
        of_object: dict[int, int] = {}  # by identity: predicates stay, and comparing expressions takes long
        bounds: list[list[Bound]] = []
        numbers: list[list[int]] = []
        for number, parts in enumerate(self._splits.values()):
            for bound in parts.bounds:
                at = of_object.get(id(bound.subject))
                if at is None:
                    at = of_object[id(bound.subject)] = of_subject.setdefault(bound.subject, len(of_subject))
                    if at == len(bounds):
                        bounds.append([])
                        numbers.append([])
                bounds[at].append(bound)
                numbers[at].append(number)
        self.dimensions = tuple(map(Dimension, of_subject, bounds))
        self.leaf_counts = tuple(dimension.leaf_count for dimension in self.dimensions)
        size = len(self._splits)
        low = np.zeros((size, len(self.dimensions)), np.int64)
        high = np.tile(np.array(self.leaf_counts, np.int64) - 1, (size, 1))
        for at, dimension in enumerate(self.dimensions):
            first, last = dimension.intervals(bounds[at])
            np.maximum.at(low[:, at], numbers[at], first)
            np.minimum.at(high[:, at], numbers[at], last)
        is_empty = low > high
        low[is_empty], high[is_empty] = 1, 0
        bits = np.zeros((size, self.words), np.int64)
        for number, parts in enumerate(self._splits.values()):
            if parts.rest is not None:
                word, bit = self._bit(parts.rest)
                bits[number, word] = bit
        self._all = Demand(low.astype(np.int32), high.astype(np.int32), bits)

    @property
    def is_trivial(self) -> bool:
        """Whether every row satisfies every predicate."""
        return not self.dimensions and not self._bits

    def demand(self, predicate: Expression | None) -> Demand:
        """What the tags of a row that satisfies the predicate are."""
        number = self._numbers[predicate]
        return Demand(self._all.low[number], self._all.high[number], self._all.bits[number])

    def demands(self, predicates: Sequence[Expression | None]) -> Demand:
        """The same of several, one row each."""
        numbers = [self._numbers[predicate] for predicate in predicates]
        return Demand(self._all.low[numbers], self._all.high[numbers], self._all.bits[numbers])

    def _bit(self, rest: Expression) -> tuple[int, np.int64]:
        """The word of the rest's bit, and the bit in it."""
        word, place = divmod(self._bits[rest], WORD_BITS)
        return word, np.int64(1) << np.int64(place)

    def implies(self, predicate: Expression | None, other: Expression | None) -> bool:
        """Whether all rows satisfying the one satisfy the other, as far as intervals and conjuncts tell."""
        return self.first_implied(predicate, [other]) == 0

    def first_implied(self, predicate: Expression | None, others: Sequence[Expression | None]) -> int | None:
        """Which of some predicates is the first that all rows satisfying `predicate` satisfy."""
        mine, theirs = self.demand(predicate), self.demands(others)
        if mine.is_empty:
            return 0 if others else None
        is_within = ((mine.low >= theirs.low) & (mine.high <= theirs.high)).all(axis=1)
        for at in np.flatnonzero(is_within).tolist():
            if self._splits[others[at]].others <= self._splits[predicate].others:
                return int(at)
        return None

    def tag(self, column: Callable[[int], pa.Array], length: int) -> tuple[Tags, list[Failure]]:
        """Tags of `length` rows, and the predicates that fail on them; `column` gives a column by index."""
        rows = Rows(column, length)
        tags = Tags(
            np.zeros((len(self.dimensions), length), np.int32), np.zeros((self.words, length), np.int64)
        )
        for at, dimension in enumerate(self.dimensions):
            dimension.find(rows, tags.leaves[at])
        failures: list[Failure] = []
        for rest in self._bits:
            mask, failed = self._truth(rest, rows, tags.leaves)
            failures += failed
            if len(mask):
                word, bit = self._bit(rest)
                set_bit(np.frombuffer(mask.buffers()[1], np.uint8), mask.offset, tags.words[word], bit)
        return tags, failures

    # -- rests, which may fail ----------------------------------------------------------------------

    def _truth(
        self, rest: Expression, rows: Rows, leaves: NDArray[np.int32]
    ) -> tuple[pa.BooleanArray, list[Failure]]:
        """Where the rest is true, without NULLs; if it fails on some rows, then only where it is needed."""
        try:
            return truths(as_array(rows.value(rest), rows.length)), []
        except DataError:
            pass
        mask = np.zeros(rows.length, np.bool_)
        try:
            mask[select(rest, rows)] = True
            return pa.array(mask), []
        except DataError:
            pass
        needed = [self._within(user, leaves) for user in self._users[rest]]
        try:
            positions = np.flatnonzero(np.logical_or.reduce(needed))
            mask[positions[select(rest, rows.take(positions))]] = True
            return pa.array(mask), []
        except DataError:
            pass
        failures: list[Failure] = []
        for user, where in zip(self._users[rest], needed, strict=True):
            positions = np.flatnonzero(where)
            try:
                kept = select(rest, rows.take(positions))
            except DataError as error:
                good, first_error = first_failure(rest, rows, positions, error)
                failures.append(Failure(user, int(positions[good]), first_error))
                kept = select(rest, rows.take(positions[:good]))
            mask[positions[kept]] = True
        return pa.array(mask), failures

    def _within(self, predicate: Expression, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Where the predicate's intervals hold."""
        demand = self.demand(predicate)
        is_within = (leaves >= demand.low[:, None]) & (leaves <= demand.high[:, None])
        return np.logical_and.reduce(is_within, axis=0, initial=True)


def first_failure(
    rest: Expression, rows: Rows, positions: NDArray[np.int64], error: DataError
) -> tuple[int, DataError]:
    """Which of the positions is the first on which the rest fails, and how; on all it fails with `error`."""
    good, bad = 0, len(positions)  # the first `good` do not fail, the first `bad` do
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            select(rest, rows.take(positions[good:middle]))
        except DataError as found:
            bad, error = middle, found
        else:
            good = middle
    return good, error

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
from functools import cached_property
from itertools import count

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import Rows
from penstock.engine.expressions.expression import Expression
from penstock.engine.expressions.functions import as_array, may_raise, select
from penstock.engine.expressions.functions.values import truths
from penstock.engine.kernels.joins.lineage import set_bit
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.errors import DataError

from .dimension import Bound, Comparisons, Dimension, Split, split

WORD_BITS = 64


@dataclass(slots=True)
class Tags:
    """What is known of n rows: leaves int32[D, n], words int64[W, n]."""

    leaves: NDArray[np.int32]
    words: NDArray[np.int64]

    @property
    def arrays(self) -> list[NDArray]:
        """Leaves, then words, an array each."""
        return [*self.leaves, *self.words]

    def take(self, positions: NDArray | slice) -> Tags:
        """Those of some of the rows."""
        return Tags(self.leaves[:, positions], self.words[:, positions])

    def _check_restored(self) -> None:
        expect(self.leaves.ndim == self.words.ndim == 2, "leaves and words of each row")
        expect(self.leaves.shape[1] == self.words.shape[1], "leaves and words of the same rows")


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

    def _check_restored(self) -> None:
        expect(self.low.shape == self.high.shape, "a range of leaves in each dimension")
        expect(self.low.shape[:-1] == self.bits.shape[:-1], "ranges and bits of the same predicates")


@dataclass(frozen=True, slots=True)
class Failure:
    """The predicate (None: what all have in common) fails at `row` of the batch, and at none before it: there
    its query ends.

    From that row on the tags do not satisfy it, except where another predicate with the same rest, which has
    not failed there, needs the bit they share. Of rows that came before there was a query to end, `row` is
    the last on which it fails, and the tags do not satisfy it up to there.
    """

    predicate: Expression | None
    row: int
    error: DataError


class Lineage:
    """The predicates over one stream; immutable. Those of a `previous` one are not taken apart again.

    `dimensions` are D and `words` are W of the Tags.
    """

    def __init__(self, predicates: Iterable[Expression | None], previous: Lineage | None = None) -> None:
        self._order = list(dict.fromkeys(predicates))
        self._splits: list[Split]
        """By number."""
        self._compared: dict[Expression, Comparisons]
        before = [] if previous is None else previous._order
        left = left_out(before, self._order)
        if previous is not None and left is not None:  # one has gone
            self._splits = [*previous._splits[:left], *previous._splits[left + 1 :]]
            kept = {subject: one.without(left) for subject, one in previous._compared.items()}
            self._compared = {subject: one for subject, one in kept.items() if len(one.numbers)}
        elif previous is not None and before and self._order[: len(before)] == before:  # some have come
            self._splits = [*previous._splits, *map(split, self._order[len(before) :])]
            self._compared = dict(previous._compared)
            self._compare(len(before))
        else:
            known = {} if previous is None else dict(zip(before, previous._splits, strict=True))
            self._splits = [known.get(one) or split(one) for one in self._order]
            self._compared = {}
            self._compare(0)
        self._bits: dict[Expression, int]
        self._users: dict[Expression, list[Expression]] = {}
        for predicate, parts in zip(self._order, self._splits, strict=True):
            if parts.rest is not None and predicate is not None:
                self._users.setdefault(parts.rest, []).append(predicate)
        self._bits = self._places({} if previous is None else previous._bits)
        self.words = max(self._bits.values(), default=-1) // WORD_BITS + 1
        self._set_intervals()

    def _places(self, before: dict[Expression, int]) -> dict[Expression, int]:
        """A bit for every rest: the one it had, so that tags can be carried over by the word; others get what
        is free. All are numbered anew where half of the words would be empty."""
        kept = {rest: before[rest] for rest in self._users if rest in before}
        if 2 * len(self._users) < max(kept.values(), default=0) - WORD_BITS:
            kept = {}
        taken = set(kept.values())
        free = (place for place in count() if place not in taken)
        return {rest: kept[rest] if rest in kept else next(free) for rest in self._users}

    def _compare(self, first: int) -> None:
        """Gather the comparisons of the predicates from number `first` on, by subject."""
        subjects: dict[int, tuple[Expression, list[int], list[Bound]]] = {}
        for number in range(first, len(self._order)):
            for bound in self._splits[number].bounds:
                found = subjects.get(id(bound.subject))  # equal subjects are the same object
                if found is None:
                    found = subjects[id(bound.subject)] = bound.subject, [], []
                found[1].append(number)
                found[2].append(bound)
        for subject, numbers, bounds in subjects.values():
            more = Comparisons.of(numbers, bounds)
            old = self._compared.get(subject)
            self._compared[subject] = more if old is None else old.joined(more)

    def _set_intervals(self) -> None:
        """Find the dimensions, and what each predicate asks of them and of the bits."""
        self.dimensions = tuple(Dimension(subject, one) for subject, one in self._compared.items())
        self.leaf_counts = tuple(dimension.leaf_count for dimension in self.dimensions)
        size = len(self._order)
        low = np.zeros((size, len(self.dimensions)), np.int64)
        high = np.tile(np.array(self.leaf_counts, np.int64) - 1, (size, 1))
        for at, (dimension, compared) in enumerate(
            zip(self.dimensions, self._compared.values(), strict=True)
        ):
            first, last = dimension.intervals(compared)
            np.maximum.at(low[:, at], compared.numbers, first)
            np.minimum.at(high[:, at], compared.numbers, last)
        is_empty = low > high
        low[is_empty], high[is_empty] = 1, 0
        bits = np.zeros((size, self.words), np.int64)
        if self._bits:
            for number, parts in enumerate(self._splits):
                if parts.rest is not None:
                    word, bit = self._bit(parts.rest)
                    bits[number, word] = bit
        self._all = Demand(low.astype(np.int32), high.astype(np.int32), bits)

    def _check_restored(self) -> None:
        low, high, bits = self._all.low, self._all.high, self._all.bits
        size, counts = len(self._order), np.array(self.leaf_counts, np.int64)
        expect(self.leaf_counts == tuple(one.leaf_count for one in self.dimensions), "leaves of dimensions")
        expect(len(self._splits) == size and low.shape == (size, len(counts)), "a demand of each predicate")
        expect(
            bool((low >= 0).all() and (high >= 0).all() and (high < counts).all()), "leaves that there are"
        )
        places = list(self._bits.values())
        expect(len(set(places)) == len(places) and min(places, default=0) >= 0, "a bit of each rest")
        expect(max(places, default=0) <= 2 * (len(places) + WORD_BITS), "bits next to each other")
        expect(self.words == max(places, default=-1) // WORD_BITS + 1, "words for all bits")
        expect(bits.shape == (size, self.words), "a demand of each predicate")

    @cached_property
    def _numbers(self) -> dict[Expression | None, int]:
        return {predicate: number for number, predicate in enumerate(self._order)}

    @property
    def predicates(self) -> list[Expression | None]:
        """Those given, each once."""
        return self._order

    def is_like(self, other: Lineage) -> bool:
        """Whether tags by the other are tags by this."""
        return self is other or (
            self._order == other._order
            and self._bits == other._bits
            and list(self._compared) == list(other._compared)
        )

    def knows(self, predicate: Expression | None) -> bool:
        """Whether a predicate is among those given."""
        return predicate in self._numbers

    def number(self, predicate: Expression | None) -> int:
        """The place of a predicate among those given."""
        return self._numbers[predicate]

    def demand(self, predicate: Expression | None) -> Demand:
        """What the tags of a row that satisfies the predicate are."""
        number = self._numbers[predicate]
        return Demand(self._all.low[number], self._all.high[number], self._all.bits[number])

    def demands(self, predicates: Sequence[Expression | None]) -> Demand:
        """The same of several, one row each."""
        return self.demands_of(np.array([self._numbers[predicate] for predicate in predicates], np.int64))

    def demands_of(self, numbers: NDArray[np.int64]) -> Demand:
        """The same of predicates by number, in the order in which they were given."""
        return Demand(self._all.low[numbers], self._all.high[numbers], self._all.bits[numbers])

    def _bit(self, rest: Expression) -> tuple[int, np.int64]:
        """The word of the rest's bit, and the bit in it."""
        word, place = divmod(self._bits[rest], WORD_BITS)
        return word, np.int64(1) << np.int64(place)

    def first_implied(self, predicate: Expression | None, others: Sequence[Expression | None]) -> int | None:
        """Which of some predicates is the first that all rows satisfying `predicate` satisfy, as far as
        intervals and conjuncts tell."""
        numbers = np.array([self._numbers[other] for other in others], np.int64)
        return self.first_implied_of(self._numbers[predicate], numbers)

    def first_implied_of(self, number: int, others: NDArray[np.int64]) -> int | None:
        """The same of predicates by number."""
        low, high, theirs = self._all.low[number], self._all.high[number], self.demands_of(others)
        if bool((low > high).any()):
            return 0 if len(others) else None
        is_within = ((low >= theirs.low) & (high <= theirs.high)).all(axis=1)
        for at in np.flatnonzero(is_within).tolist():
            if self._splits[others[at]].others <= self._splits[number].others:
                return int(at)
        return None

    def last_covering_of(self, number: int, others: NDArray[np.int64]) -> int | None:
        """How far to go through some predicates until every row that satisfies one of a number satisfies one
        of them: the place of the last that is needed, None if rows are left. All by number.

            asked for         [---------)
            others, in order      [-----------    [---)   ---)      the third is the last
                                  1               2       3

        Ranges are put together along one dimension; in the others each must cover what is asked for.
        """
        low, high = self._all.low[number], self._all.high[number]
        own = self._splits[number].others
        usable = np.array([self._splits[other].others <= own for other in others.tolist()], np.bool_)
        places = np.flatnonzero(usable)
        if not len(places) or bool((low > high).any()):
            return 0 if len(others) and bool((low > high).any()) else None
        theirs = self.demands_of(others[places])
        covers = (low >= theirs.low) & (high <= theirs.high)
        whole = np.flatnonzero(covers.all(axis=1))
        best = int(places[whole[0]]) if len(whole) else len(others)
        for at in range(len(low)):
            some = np.flatnonzero(np.delete(covers, at, axis=1).all(axis=1) & (places < best))
            first = np.maximum(theirs.low[some, at], low[at]) - low[at]
            last = np.minimum(theirs.high[some, at], high[at]) - low[at]
            needed = ranges_until_covered(first, last, int(high[at] - low[at]) + 1)
            if needed is not None:
                best = int(places[some[needed - 1]])
        return best if best < len(others) else None

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
            failures += self._set_truth(rest, self._users[rest], rows, tags, is_past=False)
        return tags, failures

    def carry(
        self,
        before: Lineage,
        tags: Tags,
        column: Callable[[int], pa.Array],
        length: int,
        is_past: bool = False,
    ) -> tuple[Tags, list[Failure]]:
        """Tags of rows that were tagged by the lineage before, without looking again at what that knew.

        A leaf that is still one is renumbered; rows of one that new constants have split are looked at, and
        all rows for an expression that is new. is_past: the rows came before those who ask what is new.
        """
        if before.is_like(self):
            return tags, []
        rows = Rows(column, length)
        known = {dimension.expression: at for at, dimension in enumerate(before.dimensions)}
        leaves = np.empty((len(self.dimensions), length), np.int32)
        for at, dimension in enumerate(self.dimensions):
            was = known.get(dimension.expression)
            if was is None:
                dimension.find(rows, leaves[at])
                continue
            now, is_one = dimension.carried(before.dimensions[was])
            now.take(tags.leaves[was], out=leaves[at])
            if not is_one.all():
                split_up = np.flatnonzero(~is_one[tags.leaves[was]])
                found = np.empty(len(split_up), np.int32)
                dimension.find(rows.take(split_up), found)
                leaves[at, split_up] = found
        carried = Tags(leaves, self._carry_words(before, tags.words, length))
        failures: list[Failure] = []
        for rest, users in self._users.items():
            new = [user for user in users if not before.knows(user)]
            if rest not in before._bits:
                failures += self._set_truth(rest, users, rows, carried, is_past)
            elif new and may_raise(rest):  # it may not have been asked of rows that only these need
                old = [user for user in users if before.knows(user)]
                failures += self._set_truth(rest, new, rows, carried, is_past, old)
        return carried, failures

    def _carry_words(self, before: Lineage, words: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """Words with the bits of the rests that there were, and no others."""
        carried = np.zeros((self.words, length), np.int64)
        kept = [rest for rest in self._bits if rest in before._bits]
        if all(self._bits[rest] == before._bits[rest] for rest in kept):
            mask = np.zeros(self.words, np.int64)
            for rest in kept:
                word, bit = self._bit(rest)
                mask[word] |= bit
            shared = min(self.words, before.words)
            np.bitwise_and(words[:shared], mask[:shared, None], out=carried[:shared])
            return carried
        for rest in kept:
            (word, bit), (was, old) = self._bit(rest), before._bit(rest)
            carried[word] |= np.where(words[was] & old, bit, 0)
        return carried

    def satisfied(self, predicate: Expression | None, tags: Tags) -> NDArray[np.bool_]:
        """Of which rows the tags say that they satisfy the predicate."""
        is_true = self._within(predicate, tags.leaves)
        bits = self.demand(predicate).bits
        for word in np.flatnonzero(bits).tolist():
            is_true &= (tags.words[word] & bits[word]) == bits[word]
        return is_true

    # -- rests, which may fail ----------------------------------------------------------------------

    def _set_truth(
        self,
        rest: Expression,
        users: Sequence[Expression],
        rows: Rows,
        tags: Tags,
        is_past: bool,
        others: Sequence[Expression] = (),
    ) -> list[Failure]:
        """Set the bit of a rest where it is true; which of the users it fails for.

        others: those who need the bit as it is already. If the rest fails, bits that nobody else needs, set
        for predicates that have gone, are taken back: they could be on rows where a user has failed.
        """
        mask, failures = self._truth(rest, users, rows, tags.leaves, is_past)
        if len(mask):
            word, bit = self._bit(rest)
            if failures:
                needed = np.zeros(rows.length, np.bool_)
                for other in others:
                    needed |= self._within(other, tags.leaves)
                tags.words[word, ~needed] &= ~bit
            set_bit(np.frombuffer(mask.buffers()[1], np.uint8), mask.offset, tags.words[word], bit)
        return failures

    def _truth(
        self,
        rest: Expression,
        users: Sequence[Expression],
        rows: Rows,
        leaves: NDArray[np.int32],
        is_past: bool,
    ) -> tuple[pa.BooleanArray, list[Failure]]:
        """Where the rest is true, without NULLs; if it fails on some rows, then only where users need it."""
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
        needed = [self._within(user, leaves) for user in users]
        try:
            positions = np.flatnonzero(np.logical_or.reduce(needed))
            mask[positions[select(rest, rows.take(positions))]] = True
            return pa.array(mask), []
        except DataError:
            pass
        failures: list[Failure] = []
        for user, where in zip(users, needed, strict=True):
            positions = np.flatnonzero(where)
            try:
                kept = select(rest, rows.take(positions))
            except DataError as error:
                if is_past:
                    bad = last_failure(rest, rows, positions)
                    failures.append(Failure(user, int(positions[bad]), error))
                    positions = positions[bad + 1 :]
                else:
                    good, first_error = first_failure(rest, rows, positions, error)
                    failures.append(Failure(user, int(positions[good]), first_error))
                    positions = positions[:good]
                kept = select(rest, rows.take(positions))
            mask[positions[kept]] = True
        return pa.array(mask), failures

    def _within(self, predicate: Expression | None, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Where the predicate's intervals hold."""
        demand = self.demand(predicate)
        is_within = np.ones(leaves.shape[1], np.bool_)
        for at, (low, high) in enumerate(zip(demand.low.tolist(), demand.high.tolist(), strict=True)):
            if low > 0:
                is_within &= leaves[at] >= low
            if high < self.leaf_counts[at] - 1:
                is_within &= leaves[at] <= high
        return is_within


def ranges_until_covered(first: NDArray, last: NDArray, size: int) -> int | None:
    """How many of the ranges first .. last, from the beginning, cover 0 .. size - 1; None: all do not.

    A range is empty if first is above last.
    """

    def is_covered(count: int) -> bool:
        some = first[:count] <= last[:count]
        begun = np.bincount(first[:count][some], minlength=size + 1)
        ended = np.bincount(last[:count][some] + 1, minlength=size + 1)
        return bool((np.cumsum(begun - ended)[:size] > 0).all())

    few, enough = 0, len(first)
    if not enough or not is_covered(enough):
        return None
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if is_covered(middle) else (middle, enough)
    return enough


def left_out(before: list[Expression | None], after: list[Expression | None]) -> int | None:
    """The place of the one that is in `before` and not in `after`, if that is all the difference."""
    if len(after) != len(before) - 1:
        return None
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a is not b), len(after))
    return at if before[at + 1 :] == after[at:] and before[:at] == after[:at] else None


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


def last_failure(rest: Expression, rows: Rows, positions: NDArray[np.int64]) -> int:
    """Which of the positions is the last on which the rest fails; on some it does."""
    bad, good = -1, len(positions) - 1  # it fails on one after `bad`, and on none after `good`
    while good - bad > 1:
        middle = (good + bad) // 2
        try:
            select(rest, rows.take(positions[middle + 1 : good + 1]))
        except DataError:
            bad = middle
        else:
            good = middle
    return good

"""Lineage: which of many predicates each row of a stream satisfies, every condition looked at once per batch.

A predicate is an AND. Its conjuncts of the forms e < c, <=, =, >=, > and e IS NOT NULL, c constant, are
*intervals* of the *dimension* e. The constants of a dimension, sorted, cut its values into *leaves*; one
binary search per row finds the row's leaf, and every interval is a range of leaves:

    constants       c0      c1             NULL
    leaves       0   1   2   3   4   ...   2n + 1       e > c0: [2, 2n]    e <= c1: [0, 3]

The AND of its other conjuncts is its *rest*; every distinct rest has a bit. So a row's Tags are a leaf per
dimension and the bits, and a predicate's Demand is a range per dimension and a bit that must be set.

Only the rest can fail on data: an e that could fail makes no dimension.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .errors import DataError
from .evaluate import Rows
from .expression import Call, Column, Expression, Literal, columns_of, conjunction, conjuncts, rewrite
from .functions import as_array, may_raise, select
from .functions.conditional import certain_first
from .functions.values import truths
from .kernels.lineage import find_leaves, mark_nulls, set_bit
from .keys import encode_values
from .types import ARROW_TYPES, SqlType

ORDERED = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.TIMESTAMP, SqlType.BOOLEAN)
WORD_BITS = 64
EMPTY = (1, 0)

# A comparison with its sides exchanged.
MIRRORED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "equal": "equal",
    "greater_equal": "less_equal",
    "greater": "less",
}

# What rows are asked: ("value", e), ("text", e, text), ("rest", rest) or ("predicate", predicate).
Question = tuple[object, ...]


@dataclass(slots=True)
class Tags:
    """What is known of n rows: the code of their value and its leaf in each dimension, and the bits.

    codes int64[D, n], leaves int32[D, n], words int64[W, n]. Codes stay valid when constants change; the code
    of a NULL means nothing.
    """

    codes: NDArray[np.int64]
    leaves: NDArray[np.int32]
    words: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What the tags of a row must be: low <= leaf <= high (int32[D]) and all of `bits` (int64[W]) set."""

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    bits: NDArray[np.int64]

    @property
    def is_empty(self) -> bool:
        """Whether no row can satisfy it."""
        return bool((self.low > self.high).any())


@dataclass(frozen=True, slots=True)
class Failure:
    """The predicate fails at `row` of the batch, and at none before it: there its query ends.

    From that row on the tags do not satisfy it, except where another predicate with the same rest, which has
    not failed there, needs the bit they share.
    """

    predicate: Expression
    row: int
    error: DataError


class Bound(NamedTuple):
    """A conjunct that is an interval: `subject` compared with `literal`; without a literal, not NULL."""

    subject: Expression
    function: str
    literal: Literal | None

    @property
    def question(self) -> Question:
        if self.subject.type is SqlType.VARCHAR and self.literal is not None:
            return "text", self.subject, self.literal.value
        return "value", self.subject


class Split(NamedTuple):
    """A predicate as its intervals and the others of its conjuncts; `rest` is the AND of those."""

    bounds: tuple[Bound, ...]
    others: frozenset[Expression]
    rest: Expression | None


def split(predicate: Expression | None) -> Split:
    """Conjuncts that cannot fail are sorted, so that equal rests are found; the others keep their order."""
    bounds: list[Bound] = []
    others: list[Expression] = []
    for part in conjuncts(predicate):
        bound = read_bound(part)
        if bound is None:
            others.append(part)
        else:
            bounds.append(bound)
    certain, doubtful = certain_first(tuple(dict.fromkeys(others)))
    rest = conjunction((*sorted(certain, key=nameless_text), *doubtful))
    return Split(tuple(bounds), frozenset(others), rest)


def nameless_text(expression: Expression) -> str:
    """The expression with its columns by position: queries give the same column different names."""
    return str(rewrite(expression, lambda node: replace(node, name="") if isinstance(node, Column) else node))


def read_bound(part: Expression) -> Bound | None:
    """The conjunct as an interval, None if it is of no such form."""
    match part:
        case Call(function="not", arguments=(Call(function="is_null", arguments=(subject,)),)):
            bound = Bound(subject, "is_not_null", None)
        case Call(function="is_not_distinct", arguments=(subject, Literal() as literal)):
            if literal.value is None:
                return None
            bound = Bound(subject, "equal", literal)
        case Call(function=function, arguments=(subject, Literal() as literal)) if function in MIRRORED:
            bound = Bound(subject, function, literal)
        case Call(function=function, arguments=(Literal() as literal, subject)) if function in MIRRORED:
            bound = Bound(subject, MIRRORED[function], literal)
        case _:
            return None
    return bound if is_indexable(bound) else None


def is_indexable(bound: Bound) -> bool:
    subject, function, literal = bound
    if isinstance(subject, Literal) or may_raise(subject):
        return False
    if literal is not None and literal.type is not subject.type:
        return False
    return subject.type in ORDERED or (subject.type is SqlType.VARCHAR and function == "equal")


class Dimension:
    """An expression and the constants it is compared with, as codes: `constants`, int64, ascending.

    The code of a value is that of `keys.encode_values`; of a text, the id of the constant it equals, else -1.
    As long as there is the dimension, `previous` being what it was, no id is given twice.
    """

    def __init__(
        self, expression: Expression, literals: Iterable[Literal], previous: Dimension | None
    ) -> None:
        self.expression = expression
        self.is_text = expression.type is SqlType.VARCHAR
        self.texts: dict[str, int] = {}
        self.next_id: int = 0 if previous is None else previous.next_id
        known = [literal for literal in dict.fromkeys(literals) if literal.value is not None]
        if self.is_text:
            codes = self._number([str(literal.value) for literal in known], previous)
        elif known:
            values = pa.array([literal.value for literal in known], ARROW_TYPES[expression.type])
            codes = encode_values(values, expression.type)
        else:
            codes = np.empty(0, np.int64)
        self.constants: NDArray[np.int64] = np.unique(codes)
        self._places = dict(zip(known, np.searchsorted(self.constants, codes).tolist(), strict=True))
        self._listed = pa.array(sorted(self.texts, key=self.texts.__getitem__), pa.string())

    def _number(self, texts: list[str], previous: Dimension | None) -> NDArray[np.int64]:
        for text in texts:
            known = None if previous is None else previous.texts.get(text)
            self.texts[text] = self.next_id if known is None else known
            self.next_id += known is None
        return np.array([self.texts[text] for text in texts], np.int64)

    @property
    def leaf_count(self) -> int:
        return 2 * len(self.constants) + 2

    @property
    def null_leaf(self) -> int:
        return 2 * len(self.constants) + 1

    @property
    def questions(self) -> set[Question]:
        if self.is_text:
            return {("text", self.expression, text) for text in self.texts}
        return {("value", self.expression)}

    def interval(self, bound: Bound) -> tuple[int, int]:
        """First and last leaf within the bound, which is one of this expression."""
        above_all = self.null_leaf - 1
        if bound.literal is None:
            return 0, above_all
        if bound.literal.value is None:
            return EMPTY
        leaf = 2 * self._places[bound.literal] + 1
        match bound.function:
            case "less":
                return 0, leaf - 1
            case "less_equal":
                return 0, leaf
            case "equal":
                return leaf, leaf
            case "greater_equal":
                return leaf, above_all
            case _:
                return leaf + 1, above_all

    def evaluate(self, rows: Rows, codes: NDArray[np.int64], leaves: NDArray[np.int32]) -> None:
        """Fill the codes and leaves of the rows."""
        if rows.length == 0:
            return
        array = as_array(rows.value(self.expression), rows.length)
        if self.is_text:
            found = pc.index_in(array, value_set=self._listed).fill_null(-1).to_numpy()
            codes[:] = np.append(self.constants, -1)[found]
            leaves[:] = np.maximum(2 * found + 1, 0)
        else:
            codes[:] = encode_values(array, self.expression.type)
            find_leaves(codes, self.constants, leaves)
        if array.null_count:
            valid = np.frombuffer(array.buffers()[0], np.uint8)
            mark_nulls(valid, array.offset, leaves, self.null_leaf)

    def place(self, codes: NDArray[np.int64], is_null: NDArray[np.bool_], leaves: NDArray[np.int32]) -> None:
        """Fill the leaves of rows whose codes are known."""
        find_leaves(codes, self.constants, leaves)
        if self.is_text:
            leaves *= leaves & 1  # ids have no order: there is nothing between them
        leaves[is_null] = self.null_leaf


class Lineage:
    """The predicates over one stream; immutable but for what it learns of rows that could not be asked.

    `dimensions` are D and `words` are W of the Tags. Made from a `previous` Lineage it keeps the order of the
    dimensions, the places of the bits and the ids of the texts that stay.
    """

    def __init__(self, predicates: Iterable[Expression | None], previous: Lineage | None = None) -> None:
        known = {} if previous is None else previous._splits
        self._splits: dict[Expression | None, Split] = {}
        for predicate in predicates:
            if predicate not in self._splits:
                self._splits[predicate] = known.get(predicate) or split(predicate)
        self.dimensions = self._gather_dimensions(previous)
        self.leaf_counts = tuple(dimension.leaf_count for dimension in self.dimensions)
        self._at = {dimension.expression: at for at, dimension in enumerate(self.dimensions)}
        self._users: dict[Expression, list[Expression]] = {}
        for predicate, parts in self._splits.items():
            if parts.rest is not None and predicate is not None:
                self._users.setdefault(parts.rest, []).append(predicate)
        self._bits = self._give_bits(previous)
        self.words = max(self._bits.values(), default=-1) // WORD_BITS + 1
        self._demands: dict[Expression | None, Demand] = {}
        # What the tags answer for every row, those tagged under earlier Lineages included. Of a predicate:
        # whether its rest holds, where its intervals do; of a rest: whether it holds, everywhere.
        self._known: set[Question] = {("rest", rest) for rest in self._users}
        self._known |= {("predicate", user) for users in self._users.values() for user in users}
        for dimension in self.dimensions:
            self._known |= dimension.questions

    def _gather_dimensions(self, previous: Lineage | None) -> tuple[Dimension, ...]:
        literals: dict[Expression, list[Literal]] = {}
        for parts in self._splits.values():
            for bound in parts.bounds:
                of_subject = literals.setdefault(bound.subject, [])
                if bound.literal is not None:
                    of_subject.append(bound.literal)
        old = {} if previous is None else {one.expression: one for one in previous.dimensions}
        order = dict.fromkeys([*(subject for subject in old if subject in literals), *literals])
        return tuple(Dimension(subject, literals[subject], old.get(subject)) for subject in order)

    def _give_bits(self, previous: Lineage | None) -> dict[Expression, int]:
        """The place of each rest's bit, the lowest free ones for new rests."""
        old = {} if previous is None else previous._bits
        bits = {rest: old[rest] for rest in self._users if rest in old}
        taken = set(bits.values())
        free = (place for place in itertools.count() if place not in taken)
        for rest in self._users:
            if rest not in bits:
                bits[rest] = next(free)
        return bits

    @property
    def is_trivial(self) -> bool:
        """Whether every row satisfies every predicate."""
        return not self.dimensions and not self._bits

    def demand(self, predicate: Expression | None) -> Demand:
        """What the tags of a row that satisfies the predicate are."""
        demand = self._demands.get(predicate)
        if demand is None:
            demand = self._demands[predicate] = self._demand(self._splits[predicate])
        return demand

    def _demand(self, parts: Split) -> Demand:
        low = np.zeros(len(self.dimensions), np.int32)
        high = np.array(self.leaf_counts, np.int32) - np.int32(1)
        for bound in parts.bounds:
            at = self._at[bound.subject]
            first, last = self.dimensions[at].interval(bound)
            low[at], high[at] = max(low[at], first), min(high[at], last)
            if low[at] > high[at]:
                low[at], high[at] = EMPTY
        bits = np.zeros(self.words, np.int64)
        if parts.rest is not None:
            word, bit = self._bit(parts.rest)
            bits[word] = bit
        return Demand(low, high, bits)

    def _bit(self, rest: Expression) -> tuple[int, np.int64]:
        """The word of the rest's bit, and the bit in it."""
        word, place = divmod(self._bits[rest], WORD_BITS)
        return word, np.int64(1) << np.int64(place)

    def implies(self, predicate: Expression | None, other: Expression | None) -> bool:
        """Whether all rows satisfying the one satisfy the other, as far as intervals and conjuncts tell."""
        mine, theirs = self.demand(predicate), self.demand(other)
        if mine.is_empty:
            return True
        is_within = (mine.low >= theirs.low).all() and (mine.high <= theirs.high).all()
        return bool(is_within) and self._splits[other].others <= self._splits[predicate].others

    def tag(self, column: Callable[[int], pa.Array], length: int) -> tuple[Tags, list[Failure]]:
        """Tags of `length` rows, and the predicates that fail on them; `column` gives a column by index."""
        rows = Rows(column, length)
        tags = self._room(length)
        for at, dimension in enumerate(self.dimensions):
            dimension.evaluate(rows, tags.codes[at], tags.leaves[at])
        failures: list[Failure] = []
        for rest in self._bits:
            mask, failed = self._truth(rest, rows, tags.leaves)
            self._set(tags, rest, mask)
            failures += failed
        return tags, failures

    def _room(self, length: int) -> Tags:
        shape = len(self.dimensions), length
        return Tags(
            np.zeros(shape, np.int64), np.zeros(shape, np.int32), np.zeros((self.words, length), np.int64)
        )

    def _set(self, tags: Tags, rest: Expression, mask: pa.BooleanArray) -> None:
        if len(mask):
            word, bit = self._bit(rest)
            set_bit(np.frombuffer(mask.buffers()[1], np.uint8), mask.offset, tags.words[word], bit)

    # Rests, which may fail

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
            self._known.discard(("rest", rest))
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
                self._known.discard(("predicate", user))
                kept = select(rest, rows.take(positions[:good]))
            mask[positions[kept]] = True
        return pa.array(mask), failures

    def _within(self, predicate: Expression, leaves: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Where the predicate's intervals hold."""
        demand = self.demand(predicate)
        mask = np.ones(leaves.shape[1], np.bool_)
        for at in {self._at[bound.subject] for bound in self._splits[predicate].bounds}:
            mask &= (leaves[at] >= demand.low[at]) & (leaves[at] <= demand.high[at])
        return mask

    # Rows tagged earlier

    def retag(
        self, previous: Lineage, tags: Tags, column: Callable[[int], pa.Array | None], length: int
    ) -> Tags:
        """The tags of `length` rows which have `tags` under `previous`, the Lineage this one was made from.

        `column` gives a column of those rows if it is stored, else None. What was known stays. What is new is
        evaluated from stored columns; if they are not there, or it fails on them, no row has it: the leaf is
        that of NULL, the bit is 0. `knows` says for which predicates nothing is lost.
        """
        result = self._room(length)
        if length == 0:
            return result
        fetch = functools.cache(column)
        rows = Rows(fetch, length)

        def is_stored(expression: Expression) -> bool:
            return all(fetch(index) is not None for index in columns_of(expression))

        for at, dimension in enumerate(self.dimensions):
            was = previous._at.get(dimension.expression)
            lacking = dimension.questions - previous._known
            if (was is None or lacking) and is_stored(dimension.expression):
                dimension.evaluate(rows, result.codes[at], result.leaves[at])
                continue
            self._known -= lacking
            if was is None:
                result.leaves[at] = dimension.null_leaf
            else:
                is_null = tags.leaves[was] == previous.dimensions[was].null_leaf
                result.codes[at] = tags.codes[was]
                dimension.place(result.codes[at], is_null, result.leaves[at])
        for rest in self._bits:
            if ("rest", rest) not in previous._known and is_stored(rest):
                mask, failures = self._truth(rest, rows, result.leaves)
                if not failures:
                    self._set(result, rest, mask)
                    continue
            self._keep_bit(rest, previous, tags, result)
        return result

    def _keep_bit(self, rest: Expression, previous: Lineage, tags: Tags, result: Tags) -> None:
        """The bit as it was, if it was; and what was not known of it still is not."""
        if rest in previous._bits:
            assert previous._bits[rest] == self._bits[rest], (
                "retag takes the Lineage that this one was made from"
            )
            word, bit = self._bit(rest)
            result.words[word] |= tags.words[word] & bit
        if ("rest", rest) not in previous._known:
            questions: set[Question] = {("predicate", user) for user in self._users[rest]}
            self._known -= {("rest", rest), *(questions - previous._known)}

    def knows(
        self, previous: Lineage, predicate: Expression | None, has_column: Callable[[int], bool]
    ) -> bool:
        """Whether `retag` gives rows tagged under `previous` the predicate's true answer.

        `has_column` says whether a column of those rows is stored. A new rest that could fail on them is not
        known: no one can tell before trying.
        """
        parts = self._splits[predicate]
        if self.demand(predicate).is_empty:
            return True

        def is_stored(expression: Expression) -> bool:
            return all(has_column(index) for index in columns_of(expression))

        for bound in parts.bounds:
            if bound.question not in previous._known and not is_stored(bound.subject):
                return False
        if parts.rest is None or ("predicate", predicate) in previous._known:
            return True
        return ("rest", parts.rest) in previous._known or (
            is_stored(parts.rest) and not may_raise(parts.rest)
        )


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

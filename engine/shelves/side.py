"""One input of a window join: what of it takes part, how long each row is kept, what its rows seek.

In:      batches of the stream.
Kept:    each row some member needs, on the shelf of its lifetime: the greatest window of the members whose
         predicate it satisfies, rounded up to where rows may leave.
Dropped: a row at the age of its shelf: in time if windows are RANGE windows, else by its place.

Every distinct condition on the stream is evaluated once per batch, whatever the number of members; what
a row satisfies is kept with it (its lineage). Where all members ask the same, rows are filtered and nothing
needs to be kept. What becomes of the stored rows when members come and go is in stored_side.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Expression, columns_of
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.kernels.joins.bounds import silence_displaced
from penstock.engine.kernels.joins.pairs import ROW_BITS, gather_shelf
from penstock.engine.keys.keys import INT_MAX, INT_MIN, combine, encode_values, is_hashed, seek
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.lineage import Demand, Failure, Lineage
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import CommonSide
from penstock.engine.restoring.in_order import expect, rising, within
from penstock.engine.rows.band import EQUALITY, Band
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.views.shelves_view import ShelvesView, Stored

from .examined import Examined, Needed
from .find_needed import find_needed, lots_of, sample_lifetimes
from .shelf import Shelf
from .stored_rows import births_of


class Seen(NamedTuple):
    """What has come to a side up to a time, and how many of its rows probers found and could have found."""

    rows_in: int = 0
    rows_kept: int = 0
    found: int = 0
    met: int = 0
    ts: int | None = None
    """None: the beginning."""


NO_TAGS: tuple[NDArray, ...] = ()


class Side:
    """Sides 0 and 1 are left and right of the common join."""

    has_reach: ClassVar[bool] = True
    """Whether it is worked out how far back each row looks on the other side."""

    def __init__(
        self, number: int, common: CommonSide, types: Sequence[SqlType], queue: Queue, band: Band | None
    ) -> None:
        self.number = number
        self.common = common
        self.queue = queue
        self.band = band
        """What a row of this side seeks on the other: other key - own key."""
        self.types = types
        self.by_place = common.kind == "rows"
        """Whether members' windows are ROWS windows, and rows age by their places."""
        self.key_types = tuple(key.type for key in common.keys)
        hashed = is_hashed(self.key_types)
        self.verified = [t if t is SqlType.VARCHAR else SqlType.BIGINT for t in self.key_types if hashed]
        """Types of the keys kept to verify pairs found by hash; stored before the columns."""
        self.index_kind = "scan"
        self.size = 0
        """The greatest window of any member."""
        self.allowed_ends: NDArray | None = None
        """Ages at which rows may leave, in order; None: any."""
        # how rows are told apart
        self.columns: list[int] = []
        """Columns of the stream that are stored, in order of their slots."""
        self.since: dict[int, int] = {}
        """The generation of rows from which on each of them is stored."""
        self.predicate: Expression | None = None
        self.is_uniform = True
        """All members ask for `predicate`, and nothing else is kept."""
        self.lineage = Lineage(())
        self.memory: Lineage | None = None
        """Of others who have joins over the same rows: what is known by it is kept with rows, for them."""
        self.tagged_by = Lineage([None])
        """The lineage of the tags that stored rows have."""
        self.remembered_by: Lineage | None = None
        """That of what is kept for others."""
        self._asked: tuple[Roster, Demand] | None = None
        """The members whose demands were last asked for, until they change."""
        self.generation = 0
        self.births_matter = False
        self.layout = JoinLayout(("scan", "scan"))
        self.query_index: QueryIndex | None = None
        self.shelves: list[Shelf] = []
        # what has come
        self.rows_in = 0
        self.rows_kept = 0
        self.found = 0
        """Pairs found by probing this side."""
        self.met = 0
        """Live rows of this side that its probers could have matched: found / met is the selectivity."""
        self.before = 0, 0
        """The same two of a join that this one goes on for."""
        self.rows_before = 0, 0
        """Rows of these in and kept by that join."""
        self.looks = Seen(), Seen()
        """What had come at the last two looks at how rows are kept, the older first."""
        self.first_ts: int | None = None
        self.last_ts = 0
        self.come = 0
        """Rows of the stream before the batch being worked: a ROWS window counts them all."""
        self.lifetimes: NDArray = NO_ROWS
        """How long some of the rows of the last batches live, 0: not needed; all alike if there are none."""
        self.sample: tuple[NDArray, NDArray] | None = None
        """Leaves and words of some of the rows that came last, needed or not."""
        self.unfilled: list[Member] = []
        """Members whose ROWS window does not yet hold only rows that are there."""
        self.failed: dict[Expression | None, int] = {}
        """Predicates that fail on rows which came before those who ask for them: the last such row, as ts or
        place. Rows up to there are not tagged as satisfying them."""
        self.newcomers: Sequence[Member] = ()
        """Those that the last change of members let in."""
        # rows of the batch being worked
        self.come_ts: NDArray = NO_ROWS
        self.ts: NDArray = NO_ROWS
        self.low: NDArray = NO_ROWS
        self.high: NDArray = NO_ROWS
        self.leaves: tuple[NDArray, ...] = NO_TAGS
        self.words: tuple[NDArray, ...] = NO_TAGS
        self.reach: NDArray | None = None
        """How far back each row looks on the other side; None: as far as there are rows."""
        self.places: NDArray = NO_ROWS
        self._refs: NDArray | None = None
        self._first_ref = 0

    # -- a batch ------------------------------------------------------------------------------------

    def examine(self, batch: Batch) -> Examined:
        """What a batch will mean to this side; nothing changes yet."""
        needed = find_needed(self, batch, self.generation)
        rows = batch if needed.there is None else batch.take(needed.there)
        try:
            keys = [evaluate(key, rows.column, rows.length) for key in self.common.keys]
        except DataError as error:
            row, first_error = self._first_bad_key(rows, error)
            at = row if needed.there is None else int(needed.there[row])
            return Examined(batch, needed, rows, [], (*needed.failures, Failure(None, at, first_error)))
        if any(key.null_count for key in keys):  # a NULL key meets nothing
            known = np.flatnonzero(np.logical_and.reduce([valid_bytes(key) for key in keys]))
            positions = pa.array(known)
            needed, rows = needed.take(known), rows.take(known)
            keys = [key.take(positions) for key in keys]
        return Examined(batch, needed, rows, keys, tuple(needed.failures))

    def _first_bad_key(self, rows: Batch, error: DataError) -> tuple[int, DataError]:
        """Which row is the first whose key fails, and how; of all of them it fails with `error`."""
        good, bad = 0, rows.length  # the first `good` rows do not fail, the first `bad` do
        while bad - good > 1:
            middle = (good + bad) // 2
            part = rows.slice(good, middle)
            try:
                for key in self.common.keys:
                    evaluate(key, part.column, part.length)
            except DataError as found:
                bad, error = middle, found
            else:
                good = middle
        return good, error

    def arrive(self, examined: Examined | None) -> None:
        """Put the rows of a batch that some member needs on their shelves, and settle what they seek."""
        self.come = self.end
        for shelf in self.shelves:
            shelf.first_row, shelf.new_ts = shelf.store.ts.end, NO_ROWS
        self.come_ts = NO_ROWS
        self.forget_batch()
        if examined is None:
            return
        assert not examined.failures, "rows on which something fails are not taken in"
        whole, needed, batch, keys = examined.batch, examined.needed, examined.rows, examined.keys
        self.rows_in += whole.length
        self.first_ts = int(whole.ts[0]) if self.first_ts is None else self.first_ts
        self.last_ts = int(whole.ts[-1])
        self.come_ts = whole.ts
        if self.unfilled:
            self._note_filled()
        if needed.lifetimes is not None:
            sample_lifetimes(self, needed.lifetimes)
        # 1. rows that take part
        self.ts = batch.ts
        self.leaves, self.words, self.reach = needed.leaves, needed.words, needed.reach
        self.rows_kept += batch.length
        if self.is_numbered:
            self.places = (np.arange(batch.length) if needed.there is None else needed.there) + self.come
        # 2. what they seek, and what they are found by
        own, arrays = self.as_stored(examined)
        if self.band is None:
            self.low = np.full(batch.length, INT_MIN)
            self.high = np.full(batch.length, INT_MAX)
        elif self.band == EQUALITY:
            self.low = self.high = own
        else:
            self.low, self.high = seek(keys[0], self.key_types[0], self.band)
        # 3. keep
        self.shelve(arrays, own, needed, self.generation)

    def as_stored(self, examined: Examined) -> tuple[NDArray, list[pa.Array]]:
        """By which keys rows that take part are found, and their columns as they are stored."""
        rows, keys = examined.rows, examined.keys
        codes = [encode_values(key, type_) for key, type_ in zip(keys, self.key_types, strict=True)]
        own = np.zeros(rows.length, np.int64) if self.band is None else combine(codes)
        arrays = [rows.column(i) for i in self.columns]
        return own, self.kept_keys(keys, codes) + arrays if self.verified else arrays

    def kept_keys(self, keys: Sequence[pa.Array], codes: Sequence[NDArray]) -> list[pa.Array]:
        """The keys of rows as they are stored, of the types `verified`."""
        kept = zip(keys, codes, self.key_types, strict=True)
        return [key if type_ is SqlType.VARCHAR else pa.array(code) for key, code, type_ in kept]

    def forget_batch(self) -> None:
        """No rows are being worked."""
        self.ts = self.low = self.high = self.places = NO_ROWS
        self._refs = None
        self.leaves, self.words = self._no_tags()
        self.reach = None

    @property
    def end(self) -> int:
        """Rows of the stream so far: the place of the next."""
        return self.come + len(self.come_ts)

    @property
    def refs(self) -> NDArray:
        """Where each row of the batch is kept."""
        if self._refs is None:
            self._refs = np.arange(self._first_ref, self._first_ref + len(self.ts))
        return self._refs

    def _no_tags(self) -> tuple[tuple[NDArray, ...], tuple[NDArray, ...]]:
        dimensions, words = self.tag_widths
        return (np.empty(0, np.int32),) * dimensions, (NO_ROWS,) * words

    def shelve(
        self, arrays: Sequence[pa.Array], keys: NDArray, needed: Needed, births: int | NDArray
    ) -> None:
        """Each row to the shelf of its lifetime; `refs` says where each is."""
        places = self.places if self.is_numbered else None
        lots = lots_of(self, needed)
        if len(lots) == 1:
            number = self._shelf_of(lots[0][0])
            shelf = self.shelves[number]
            self._first_ref = shelf.first_row + (number << ROW_BITS)
            shelf.append(self.ts, places, keys, arrays, self.leaves, self.words, births, needed.memory)
            shelf.new_ts = self.ts
            return
        self._refs = np.empty(len(self.ts), np.int64)
        for end, rows in lots:
            number = self._shelf_of(end)
            shelf = self.shelves[number]
            self._refs[rows] = np.arange(shelf.first_row, shelf.first_row + len(rows)) + (number << ROW_BITS)
            positions = pa.array(rows)
            shelf.append(
                self.ts[rows], None if places is None else places[rows], keys[rows],
                [array.take(positions) for array in arrays],
                [values[rows] for values in self.leaves], [values[rows] for values in self.words],
                births if isinstance(births, int) else births[rows],
                [values[rows] for values in needed.memory],
            )  # fmt: skip
            shelf.new_ts = self.ts[rows]

    def _shelf_of(self, lifetime: int) -> int:
        """Number of the shelf of a lifetime, set up if there is none."""
        for number, shelf in enumerate(self.shelves):
            if shelf.lifetime == lifetime:
                return number
        types = [*self.verified, *(self.types[i] for i in self.columns)]
        shelf = Shelf(lifetime, types, self.by_place, self.is_numbered, self.index_kind, *self.tag_widths)
        if self.memory is not None:
            kinds = ["int32"] * len(self.memory.dimensions) + ["int64"] * self.memory.words
            shelf.memory = [RowBuffer(kind) for kind in kinds]
        self.shelves.append(shelf)
        return len(self.shelves) - 1

    @property
    def leaf_counts(self) -> tuple[int, ...]:
        """Leaves of each dimension kept per row."""
        if self.is_uniform:
            return ()
        return (*self.lineage.leaf_counts, *([self.generation + 1] if self.births_matter else []))

    def demands(self, members: Roster) -> Demand:
        """What each asks of the tags of this side's rows: the members it was prepared for, or some."""
        if self._asked is None or self._asked[0] is not members:
            self._asked = members, self._demands_of(members.members, members.numbers[self.number])
        return self._asked[1]

    def demand_of(self, member: Member) -> Demand:
        """The same of one of them."""
        numbers = [] if self.is_uniform else [self.lineage.number(member.predicates[self.number])]
        return self._demands_of([member], np.array(numbers, np.int64))

    def _demands_of(self, members: Sequence[Member], numbers: NDArray) -> Demand:
        if self.is_uniform:
            nothing = np.empty((len(members), 0), np.int32)
            return Demand(nothing, nothing, np.empty((len(members), 0), np.int64))
        demand = self.lineage.demands_of(numbers)
        if not self.births_matter:
            return demand
        born = np.array([member.born[self.number] for member in members], np.int32).reshape(-1, 1)
        last = np.full_like(born, self.generation)
        return Demand(np.hstack([demand.low, born]), np.hstack([demand.high, last]), demand.bits)

    @property
    def is_numbered(self) -> bool:
        """Whether the place of a row in its stream is kept: a ROWS window needs it, and rows kept twice."""
        layout = self.layout
        return self.by_place or layout.part is not None or layout.is_numbered

    @property
    def tag_widths(self) -> tuple[int, int]:
        """Dimensions and words kept per row."""
        if self.is_uniform:
            return 0, 0
        return len(self.lineage.leaf_counts) + self.births_matter, self.lineage.words

    def _note_filled(self) -> None:
        """When the ROWS window of a member came to hold nothing but rows that are there."""
        come = self.end
        for member in list(self.unfilled):
            last = member.missing[self.number] + member.size(self.number)
            if last < come:
                member.filled[self.number] = int(self.come_ts[max(last - self.come, 0)])
                self.unfilled.remove(member)

    def silence(self) -> None:
        """Rows displaced at their own instant from every member's ROWS window were never there."""
        if self.by_place and len(self.ts):
            self.low, self.high = self.low.copy(), self.high.copy()
            silence_displaced(self.ts, self.places, self.come_ts, self.come, self.size, self.low, self.high)

    def clock(self, ts: NDArray) -> NDArray:
        """What the age of a row is counted from at these times: its age is this less its pos."""
        return self.last_places(ts) if self.by_place else ts

    def last_places(self, ts: NDArray) -> NDArray:
        """The places of the last rows of the stream at these times, as far as they have come."""
        return self.come - 1 + self.come_ts.searchsorted(ts, side="right")

    def expire(self, now: int) -> None:
        """Drop what no row at `now` or later can meet."""
        clock = self.end - 1 if self.by_place else now
        for shelf in self.shelves:
            shelf.expire(clock)

    # -- stored rows --------------------------------------------------------------------------------

    def gathered(self, of: Callable[[Shelf], RowBuffer], refs: NDArray) -> NDArray:
        """A buffer's values at the rows referred to."""
        if len(self.shelves) == 1:
            buffer = of(self.shelves[0])
            return buffer.data[refs - buffer.base]
        out: NDArray | None = None
        for number in np.flatnonzero(np.bincount(refs >> ROW_BITS)).tolist():  # of many shelves, often few
            buffer = of(self.shelves[number])
            out = np.empty(len(refs), buffer.data.dtype) if out is None else out
            gather_shelf(refs, number, buffer.data, buffer.base, out)
        return np.empty(0, np.int64) if out is None else out

    def ages(self, ts: NDArray, refs: NDArray) -> NDArray:
        """How old the rows referred to are at these times, in the unit of the window."""
        return self.clock(ts) - self.gathered(lambda shelf: shelf.pos, refs)

    def tags_at(self, refs: NDArray) -> tuple[list[NDArray], list[NDArray]]:
        """Leaves and words of the rows referred to."""
        dimensions, words = self.tag_widths
        return (
            [self.gathered(lambda shelf, d=d: shelf.leaves[d], refs) for d in range(dimensions)],  # type: ignore[misc]
            [self.gathered(lambda shelf, w=w: shelf.words[w], refs) for w in range(words)],  # type: ignore[misc]
        )

    def view(self, column: int) -> Stored:
        """A column of the stream as it is stored now."""
        slot = len(self.verified) + self.columns.index(column)
        views = [shelf.store.columns[slot].view() for shelf in self.shelves]
        return views[0] if len(views) == 1 else ShelvesView(views, ARROW_TYPES[self.types[column]])

    def reindex(self, kind: str) -> None:
        """Change the index of all shelves, keeping what they hold; between batches only."""
        self.index_kind = kind
        for shelf in self.shelves:
            shelf.reindex(kind)

    def __len__(self) -> int:
        return sum(map(len, self.shelves))

    @property
    def nbytes(self) -> int:
        return sum(shelf.nbytes for shelf in self.shelves)

    @property
    def seen(self) -> Seen:
        """What has come so far."""
        found, met = self.before[0] + self.found, self.before[1] + self.met
        return Seen(self.rows_in, self.rows_kept, found, met, self.last_ts)

    def look(self) -> None:
        """How rows are kept is thought over now: what comes is measured since the look before."""
        self.looks = self.looks[1], self.seen

    # -- members come and go ------------------------------------------------------------------------

    def prepare(self, roster: Roster, new: Sequence[Member], layout: JoinLayout) -> bool:
        """Take a changed set of members into account; True if stored rows must be laid out anew.

        New columns are added to the rows that are there as NULL: who reads them sees later rows only.
        """
        predicates = roster.predicates[self.number]
        was = self.is_uniform, self.predicate
        self.layout = layout
        self.newcomers = new
        self.lifetimes = NO_ROWS
        self.sample = None
        self.size = int(roster.sizes[self.number].max(initial=0))
        if layout.part is not None:
            self.size = layout.part.sizes[self.number]
        ends = layout.ends[self.number]
        self.allowed_ends = (
            None if ends is None else np.array([*(e for e in ends if e < self.size), self.size])
        )
        self._add_columns(new)
        self.births_matter = self.oldest_birth < max([member.born[self.number] for member in roster.members])
        self.is_uniform = (
            len(predicates) == 1
            and not self.births_matter
            and ((layout.by_lifetime and layout.part is None) or predicates[0] is None)
        )
        self.predicate = predicates[0] if self.is_uniform else None
        asked = [] if self.is_uniform else predicates
        if self.lineage.predicates != asked:
            self.lineage = Lineage(asked, self.lineage)
        if self.failed:  # what nobody asks any more is found out again when somebody does
            known = self.memory or self.lineage
            self.failed = {
                one: last for one, last in self.failed.items() if known.knows(one) or one in predicates
            }
        self._asked = None
        if self.is_uniform and was == (True, self.predicate) and len(self.shelves) <= 1:
            for shelf in self.shelves:
                shelf.lifetime = self.size
            return False
        return True

    def read_by(self, member: Member) -> set[int]:
        """Columns of the stream that a member reads."""
        side = member.node.sides[self.number]
        return {*side.columns, *(() if side.predicate is None else columns_of(side.predicate))}

    def _add_columns(self, new: Sequence[Member]) -> None:
        """Store what new members read from now on."""
        self.store_columns(set().union(*map(self.read_by, new)), bool(len(self)))
        for member in new:
            member.born[self.number] = max((self.since[one] for one in self.read_by(member)), default=0)

    def store_columns(self, columns: set[int], has_rows: bool) -> bool:
        """Store these too; has_rows: here or elsewhere there are rows that came before, which lack them.

        True if rows that come from now on are of another birth.
        """
        fresh = sorted(columns.difference(self.columns))
        if not fresh:
            return False
        self.generation += has_rows
        self.since |= dict.fromkeys(fresh, self.generation)
        self.columns += fresh
        if not len(self):
            self.shelves.clear()
        for shelf in self.shelves:
            for i in fresh:
                shelf.store.add_column(self.types[i])
        return has_rows

    @property
    def oldest_birth(self) -> int:
        """The least birth of a stored row."""
        births = [int(births_of(shelf)[0]) for shelf in self.shelves if len(shelf)]
        return min(births, default=self.generation)

    def note_failed(self, predicate: Expression | None, last: int) -> None:
        """A predicate fails on a row that came before those who ask for it, at this ts or place."""
        self.failed[predicate] = max(self.failed.get(predicate, BEGINNING), last)

    def follow(self, former: Side) -> None:
        """Count on from where another side over the same stream was."""
        self.come = former.end
        self.rows_before = self.rows_in, self.rows_kept = former.rows_in, former.rows_kept
        self.first_ts, self.last_ts = former.first_ts, former.last_ts
        self.before = former.before[0] + former.found, former.before[1] + former.met
        self.looks = former.looks
        self.columns, self.generation = list(former.columns), former.generation
        self.since = dict(former.since)
        self.failed = dict(former.failed)

    def _check(self) -> None:
        for shelf in self.shelves:
            shelf._check()
            assert shelf.lifetime <= self.size, "rows are kept longer than any member needs"
            assert shelf.by_place == self.by_place, "rows leave by the wrong age"
            assert shelf.index.kind == self.index_kind, "rows are found by another index"
        ages = {shelf.lifetime for shelf in self.shelves}
        assert len(ages) == len(self.shelves), "two shelves of one age"

    def _check_restored(self) -> None:
        expect(self.come >= 0 and self.size >= 0 and self.generation >= 0, "counts")
        rising(self.come_ts, "rows of a batch")
        rising(self.ts, "rows of a batch")
        rows = len(self.ts)
        within(np.array(self.columns, np.int64), 0, len(self.types), "columns of the stream")
        expect(len(self.low) == len(self.high) == rows, "what each row seeks")
        expect(all(len(one) == rows for one in (*self.leaves, *self.words)), "tags of each row")
        expect(len(self.places) in (0, rows), "something of each row")
        expect(self.reach is None or len(self.reach) == rows, "something of each row")
        expect(self._refs is None or len(self._refs) == rows, "where each row is kept")
        counts, words = self.tagged_by.leaf_counts, self.tagged_by.words
        types = [ARROW_TYPES[one] for one in (*self.verified, *(self.types[i] for i in self.columns))]
        for shelf in self.shelves:
            expect(shelf.index.kind == self.index_kind, "one kind of index")
            expect(shelf.by_place == self.by_place, "one kind of windows")
            ts = shelf.store.ts
            expect(0 <= shelf.first_row <= ts.end, "rows of the batch")
            if len(shelf.leaves) == len(counts) and len(shelf.words) == words:
                for leaves, count in zip(shelf.leaves, counts, strict=True):
                    within(leaves.live, 0, count, "leaves of rows")
            if shelf.births is not None:
                within(shelf.births.live, 0, self.generation + 1, "generations of rows")
            if len(shelf.store.columns) == len(types):
                found = [column.view().arrow_type for column in shelf.store.columns]
                expect(found == types, "columns of the stream's types")


def places_on(shelf: Shelf) -> RowBuffer:
    assert shelf.places is not None, "rows of a ROWS window have places"
    return shelf.places

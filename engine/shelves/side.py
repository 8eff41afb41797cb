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

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Expression, columns_of
from penstock.engine.flow.queue import BEGINNING, Queue
from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.keys.keys import INT_MAX, INT_MIN, combine, encode_values, is_hashed, seek
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.lineage import Demand, Failure, Lineage
from penstock.engine.members.member import Member
from penstock.engine.members.query_index import QueryIndex
from penstock.engine.members.roster import Roster
from penstock.engine.plan.plan import CommonSide
from penstock.engine.rows.band import EQUALITY, Band
from penstock.engine.rows.batch import NO_ROWS, Batch
from penstock.engine.rows.buffer import RowBuffer
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.store import valid_bytes
from penstock.engine.rows.types import SqlType

from .arrival import Arrival
from .examined import Examined, Needed, first_bad_key
from .find_needed import find_needed, lots_of
from .seen import Seen
from .shelf import Shelf
from .shelves import Shelves
from .terms import Terms


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
        self.kept = Shelves(types, self.types_of_keys(), self.by_place, "scan")
        """The rows that are stored."""
        self.terms = Terms()
        """What members ask."""
        self.memory: Lineage | None = None
        """Of others who have joins over the same rows: what is known by it is kept with rows, for them."""
        self._asked: tuple[Roster, Demand] | None = None
        """The members whose demands were last asked for, until they change."""
        self.query_index: QueryIndex | None = None
        self.seen = Seen()
        """What has come and was found: what costs are worked out from."""
        self.arrival = Arrival()
        """The batch being worked."""
        self.unfilled: list[Member] = []
        """Members whose ROWS window does not yet hold only rows that are there."""
        self.failed: dict[Expression | None, int] = {}
        """Predicates that fail on rows which came before those who ask for them: the last such row, as ts or
        place. Rows up to there are not tagged as satisfying them."""

    def types_of_keys(self) -> list[SqlType]:
        """Of the keys that are stored, to verify pairs found by hash."""
        if not is_hashed(self.key_types):
            return []
        return [one if one is SqlType.VARCHAR else SqlType.BIGINT for one in self.key_types]

    # -- a batch ------------------------------------------------------------------------------------

    def examine(self, batch: Batch) -> Examined:
        """What a batch will mean to this side; nothing changes yet."""
        needed = find_needed(self, batch, self.kept.generation)
        rows = batch if needed.there is None else batch.take(needed.there)
        try:
            keys = [evaluate(key, rows.column, rows.length) for key in self.common.keys]
        except DataError as error:
            row, first_error = first_bad_key(self.common.keys, rows, error)
            at = row if needed.there is None else int(needed.there[row])
            return Examined(batch, needed, rows, [], (*needed.failures, Failure(None, at, first_error)))
        if any(key.null_count for key in keys):  # a NULL key meets nothing
            known = np.flatnonzero(np.logical_and.reduce([valid_bytes(key) for key in keys]))
            positions = pa.array(known)
            needed, rows = needed.take(known), rows.take(known)
            keys = [key.take(positions) for key in keys]
        return Examined(batch, needed, rows, keys, tuple(needed.failures))

    def arrive(self, examined: Examined | None) -> None:
        """Put the rows of a batch that some member needs on their shelves, and settle what they seek."""
        self.kept.begin()
        self.arrival.begin(NO_ROWS if examined is None else examined.batch.ts, self.tag_widths)
        if examined is None:
            return
        assert not examined.failures, "rows on which something fails are not taken in"
        needed, batch, keys = examined.needed, examined.rows, examined.keys
        self.seen.come(examined.batch.ts, batch.length)
        if self.unfilled:
            self._note_filled()
        if needed.lifetimes is not None:
            self.seen.sample_lifetimes(needed.lifetimes)
        # 1. rows that take part
        places = NO_ROWS
        if self.is_numbered:
            places = np.arange(batch.length) if needed.there is None else needed.there
            places = places + self.arrival.come
        self.arrival.take(batch.ts, places, needed.leaves, needed.words, needed.reach)
        # 2. what they seek, and what they are found by
        own, arrays = self.as_stored(examined)
        if self.band is None:
            self.arrival.seek(np.full(batch.length, INT_MIN), np.full(batch.length, INT_MAX))
        elif self.band == EQUALITY:
            self.arrival.seek(own, own)
        else:
            self.arrival.seek(*seek(keys[0], self.key_types[0], self.band))
        # 3. keep
        self.shelve(arrays, own, needed, self.kept.generation)

    def as_stored(self, examined: Examined) -> tuple[NDArray, list[pa.Array]]:
        """By which keys rows that take part are found, and their columns as they are stored."""
        rows, keys = examined.rows, examined.keys
        codes = [encode_values(key, type_) for key, type_ in zip(keys, self.key_types, strict=True)]
        own = np.zeros(rows.length, np.int64) if self.band is None else combine(codes)
        arrays = [rows.column(i) for i in self.kept.columns]
        return own, self.kept_keys(keys, codes) + arrays if self.kept.verified else arrays

    def kept_keys(self, keys: Sequence[pa.Array], codes: Sequence[NDArray]) -> list[pa.Array]:
        """The keys of rows as they are stored, of the types `verified`."""
        kept = zip(keys, codes, self.key_types, strict=True)
        return [key if type_ is SqlType.VARCHAR else pa.array(code) for key, code, type_ in kept]

    def forget_batch(self) -> None:
        """No rows are being worked."""
        self.arrival.forget(self.tag_widths)

    def shelve(
        self, arrays: Sequence[pa.Array], keys: NDArray, needed: Needed, births: int | NDArray
    ) -> None:
        """Each row that takes part to the shelf of its lifetime."""
        arrived = self.arrival
        places = arrived.places if self.is_numbered else None
        lots = lots_of(self, needed)
        if len(lots) == 1:
            number = self._shelf_of(lots[0][0])
            shelf = self.shelves[number]
            arrived.lie_from(shelf.first_row + (number << ROW_BITS))
            shelf.take(arrived.ts, places, keys, arrays, arrived.leaves, arrived.words, births, needed.memory)
            return
        refs = np.empty(len(arrived.ts), np.int64)
        for end, rows in lots:
            number = self._shelf_of(end)
            shelf = self.shelves[number]
            refs[rows] = np.arange(shelf.first_row, shelf.first_row + len(rows)) + (number << ROW_BITS)
            positions = pa.array(rows)
            shelf.take(
                arrived.ts[rows], None if places is None else places[rows], keys[rows],
                [array.take(positions) for array in arrays],
                [values[rows] for values in arrived.leaves], [values[rows] for values in arrived.words],
                births if isinstance(births, int) else births[rows],
                [values[rows] for values in needed.memory],
            )  # fmt: skip
        arrived.lie_at(refs)

    def _shelf_of(self, lifetime: int) -> int:
        return self.kept.shelf_of(lifetime, self.is_numbered, self.tag_widths, self.memory)

    @property
    def leaf_counts(self) -> tuple[int, ...]:
        """Leaves of each dimension kept per row."""
        if self.terms.is_uniform:
            return ()
        births = [self.kept.generation + 1] if self.terms.births_matter else []
        return (*self.terms.lineage.leaf_counts, *births)

    def demands(self, members: Roster) -> Demand:
        """What each asks of the tags of this side's rows: the members it was prepared for, or some."""
        if self._asked is None or self._asked[0] is not members:
            self._asked = members, self._demands_of(members.members, members.numbers[self.number])
        return self._asked[1]

    def demand_of(self, member: Member) -> Demand:
        """The same of one of them."""
        numbers = [] if self.terms.is_uniform else [self.terms.lineage.number(member.predicates[self.number])]
        return self._demands_of([member], np.array(numbers, np.int64))

    def _demands_of(self, members: Sequence[Member], numbers: NDArray) -> Demand:
        if self.terms.is_uniform:
            nothing = np.empty((len(members), 0), np.int32)
            return Demand(nothing, nothing, np.empty((len(members), 0), np.int64))
        demand = self.terms.lineage.demands_of(numbers)
        if not self.terms.births_matter:
            return demand
        born = np.array([member.born[self.number] for member in members], np.int32).reshape(-1, 1)
        last = np.full_like(born, self.kept.generation)
        return Demand(np.hstack([demand.low, born]), np.hstack([demand.high, last]), demand.bits)

    @property
    def is_numbered(self) -> bool:
        """Whether the place of a row in its stream is kept: a ROWS window needs it, and rows kept twice."""
        layout = self.terms.layout
        return self.by_place or layout.part is not None or layout.is_numbered

    @property
    def tag_widths(self) -> tuple[int, int]:
        """Dimensions and words kept per row."""
        if self.terms.is_uniform:
            return 0, 0
        return len(self.terms.lineage.leaf_counts) + self.terms.births_matter, self.terms.lineage.words

    def _note_filled(self) -> None:
        """When the ROWS window of a member came to hold nothing but rows that are there."""
        come = self.arrival.end
        for member in list(self.unfilled):
            last = member.missing[self.number] + member.size(self.number)
            if last < come:
                member.filled[self.number] = int(self.arrival.come_ts[max(last - self.arrival.come, 0)])
                self.unfilled.remove(member)

    def silence(self) -> None:
        """Rows displaced at their own instant from every member's ROWS window were never there."""
        if self.by_place:
            self.arrival.silence(self.terms.size)

    def clock(self, ts: NDArray) -> NDArray:
        """What the age of a row is counted from at these times: its age is this less its pos."""
        return self.arrival.last_places(ts) if self.by_place else ts

    def expire(self, now: int) -> None:
        """Drop what no row at `now` or later can meet."""
        self.kept.expire(self.arrival.end - 1 if self.by_place else now)

    # -- stored rows --------------------------------------------------------------------------------

    def ages(self, ts: NDArray, refs: NDArray) -> NDArray:
        """How old the rows referred to are at these times, in the unit of the window."""
        return self.clock(ts) - self.kept.gathered(lambda shelf: shelf.pos, refs)

    def tags_at(self, refs: NDArray) -> tuple[list[NDArray], list[NDArray]]:
        """Leaves and words of the rows referred to."""
        dimensions, words = self.tag_widths
        return (
            [self.kept.gathered(lambda shelf, d=d: shelf.leaves[d], refs) for d in range(dimensions)],  # type: ignore[misc]
            [self.kept.gathered(lambda shelf, w=w: shelf.words[w], refs) for w in range(words)],  # type: ignore[misc]
        )

    @property
    def shelves(self) -> list[Shelf]:
        """Where the rows are that are stored."""
        return self.kept.shelves

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def nbytes(self) -> int:
        return self.kept.nbytes

    # -- members come and go ------------------------------------------------------------------------

    def prepare(self, roster: Roster, new: Sequence[Member], layout: JoinLayout) -> bool:
        """Take a changed set of members into account; True if stored rows must be laid out anew.

        New columns are added to the rows that are there as NULL: who reads them sees later rows only.
        """
        predicates = roster.predicates[self.number]
        was, layout_part = self.terms, layout.part
        self.seen.forget_samples()
        self._add_columns(new)
        births_matter = self.kept.oldest_birth < max([member.born[self.number] for member in roster.members])
        is_uniform = (
            len(predicates) == 1
            and not births_matter
            and ((layout.by_lifetime and layout_part is None) or predicates[0] is None)
        )
        asked = [] if is_uniform else predicates
        size = int(roster.sizes[self.number].max(initial=0))
        size = size if layout_part is None else layout_part.sizes[self.number]
        ends = layout.ends[self.number]
        terms = self.terms = Terms(
            size=size,
            allowed_ends=None if ends is None else np.array([*(e for e in ends if e < size), size]),
            is_uniform=is_uniform,
            predicate=predicates[0] if is_uniform else None,
            lineage=was.lineage if was.lineage.predicates == asked else Lineage(asked, was.lineage),
            births_matter=births_matter,
            layout=layout,
            newcomers=new,
        )
        if self.failed:  # what nobody asks any more is found out again when somebody does
            known = self.memory or terms.lineage
            self.failed = {
                one: last for one, last in self.failed.items() if known.knows(one) or one in predicates
            }
        self._asked = None
        if is_uniform and was.is_uniform and was.predicate == terms.predicate and len(self.shelves) <= 1:
            for shelf in self.shelves:
                shelf.live_for(size)
            return False
        return True

    def read_from(self, queue: Queue) -> None:
        """Rows come by this queue from now on."""
        self.queue = queue

    def keep_for(self, size: int) -> None:
        """Rows are kept for windows of this size, whoever asks."""
        self.terms = replace(self.terms, size=size)

    def file_by(self, index: QueryIndex | None) -> None:
        """Which members need a row is told by this index."""
        self.query_index = index

    def tag_by(self, lineage: Lineage) -> None:
        """Rows to come are tagged by this, before it is known what members ask."""
        self.terms = replace(self.terms, lineage=lineage)

    def read_by(self, member: Member) -> set[int]:
        """Columns of the stream that a member reads."""
        side = member.node.sides[self.number]
        return {*side.columns, *(() if side.predicate is None else columns_of(side.predicate))}

    def _add_columns(self, new: Sequence[Member]) -> None:
        """Store what new members read from now on."""
        self.kept.store_columns(set().union(*map(self.read_by, new)), bool(len(self)))
        for member in new:
            member.born[self.number] = max((self.kept.since[one] for one in self.read_by(member)), default=0)

    def remember(self, lineage: Lineage | None) -> None:
        """Keep for others what is known by this of rows to come; None: nobody else wants to know."""
        self.memory = lineage

    def tell_apart(self) -> None:
        """Rows have tags, whatever members ask."""
        self.terms = replace(self.terms, is_uniform=False)

    def wait_for(self, members: Sequence[Member]) -> None:
        """Note when the ROWS windows of these come to hold nothing but rows that are there."""
        self.unfilled += [member for member in members if member not in self.unfilled]

    def wait_no_more(self, member: Member) -> None:
        """It is known of this one, or nobody asks."""
        self.unfilled = [one for one in self.unfilled if one is not member]

    def has_filled_up(self, members: Sequence[Member]) -> bool:
        """Whether rows that lacked columns were there, and are there no more."""
        if not self.terms.births_matter:
            return False
        return self.kept.oldest_birth >= max((member.born[self.number] for member in members), default=0)

    def note_failed(self, predicate: Expression | None, last: int) -> None:
        """A predicate fails on a row that came before those who ask for it, at this ts or place."""
        self.failed[predicate] = max(self.failed.get(predicate, BEGINNING), last)

    def follow(self, former: Side) -> None:
        """Count on from where another side over the same stream was."""
        self.arrival.go_on_at(former.arrival.end)
        self.seen.follow(former.seen)
        self.kept.follow(former.kept)
        self.failed = dict(former.failed)

    def _check(self) -> None:
        self.kept._check()
        ages = [shelf.lifetime for shelf in self.shelves]
        assert max(ages, default=0) <= self.terms.size, "rows are kept longer than any member needs"


def places_on(shelf: Shelf) -> RowBuffer:
    assert shelf.places is not None, "rows of a ROWS window have places"
    return shelf.places

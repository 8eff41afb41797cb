"""How far the keys of all sides of a join have come: of each side, or of each value that its order is PER.

In:      what follows the rows of the streams; of rows that take part, their values.
Out:     numbers for values; which key is the least that a row to come can have, for rows with these values.
Kept:    a number for each value that has come on any side; of each side, a frontier by number.

Values have numbers of the join's own, as the sides' streams number theirs each by itself. Sides that are PER
other columns than others are, or PER none, have another numbering. The first numbering is of all columns that
some side is PER: rows with one number there are in one cell, and meet nothing of another cell.

    a ORDERED PER d, e    b ORDERED PER d        numberings: (d, e), (d)        cells: d and e

Law: a row knows its number in every numbering, as equalities connect these columns of all sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.intake.key_frontier import KeyReader, Read, widened
from penstock.engine.keys.key_slots import KeySlots, keys_of
from penstock.engine.keys.keys import INT_MIN
from penstock.engine.ordered_memory.frontier_reader import FrontierReader
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.types import SqlType

Variables = tuple[int, ...]


class Frontiers:
    """Of one join."""

    def __init__(
        self,
        variables: Sequence[Variables],
        per: Sequence[Variables],
        types: Sequence[Sequence[SqlType]],
        readers: Sequence[KeyReader],
    ) -> None:
        """variables, types: of the keys of each side; per: of each side, the variables that are the columns
        it is PER."""
        widest = max(per, key=len)
        every = tuple(sorted({one for own in per for one in own}))
        cells = widest if len(widest) == len(every) else every
        self.numberings = list(dict.fromkeys([cells, *per]))
        self.of_side = [self.numberings.index(own) for own in per]
        """The numbering of each side's frontiers."""
        self._slots = [KeySlots() if own else None for own in self.numberings]
        self._places = [
            [[variables[side].index(one) for one in own] for own in self.numberings]
            for side in range(len(per))
        ]
        self._types = types
        self._readers: tuple[FrontierReader, ...] = tuple(readers)
        self._least = INT_MIN
        """No frontier is below this."""
        self._numbers: list[NDArray] = [np.empty(0, np.int64) for _ in readers]
        """Of each side, by the stream's number of a value that of the join."""
        self.nows: list[NDArray] = [np.full(1, INT_MIN) for _ in readers]
        """Of each side, by number, the least key that can still come."""
        for side, reader in enumerate(readers):
            self._learn(side)
            self._raise(side, np.arange(len(self._numbers[side])), reader.nows)

    @property
    def has_values(self) -> bool:
        """Whether some side's order is PER some column."""
        return self._slots[0] is not None

    def read_from(self, side: int, reader: FrontierReader) -> None:
        """How far the keys of a side have come is told by another one from now on."""
        self._readers = (*self._readers[:side], reader, *self._readers[side + 1 :])

    def raise_to(self, code: int) -> None:
        """Rows with lesser keys went early: whatever comes for them comes too late."""
        self._least = code
        self.nows = [np.maximum(nows, code) for nows in self.nows]

    def numbers(self, side: int, keys: Sequence[pa.Array], rows: int) -> NDArray:
        """Of rows of a side with these keys, the number of each in every numbering: int64, one line each."""
        found = np.zeros((len(self.numberings), rows), np.int64)
        for line, slots, places in zip(found, self._slots, self._places[side], strict=True):
            if slots is not None:
                some = np.empty(rows, np.int32)
                types = [self._types[side][place] for place in places]
                line[:] = slots.insert(keys_of([keys[place] for place in places], types, rows), some)
        return found

    def read(self, side: int, rows: int) -> Read:
        """What is known after the next rows of a side; sequences are numbers of the join."""
        read = self._readers[side].read(rows)
        self._learn(side)
        known = read.sequences >= 0
        read.sequences[known] = self._numbers[side][read.sequences[known]]
        if self._least > INT_MIN:
            np.maximum(read.frontiers, self._least, out=read.frontiers)
        return read

    def make_room(self) -> None:
        """For the frontiers of all values that have a number."""
        for side, numbering in enumerate(self.of_side):
            slots = self._slots[numbering]
            self.nows[side] = widened(self.nows[side], 1 if slots is None else slots.used)

    def side_by_side(self) -> tuple[NDArray, NDArray]:
        """The frontiers of all sides, and where each side's begin."""
        self.make_room()
        begins = np.concatenate([[0], np.cumsum([len(nows) for nows in self.nows])]).astype(np.int64)
        return np.concatenate(self.nows), begins

    def move_to(self, nows: NDArray, begins: NDArray) -> None:
        """These are the frontiers now."""
        self.nows = [nows[begin:end] for begin, end in pairwise(begins)]

    def _learn(self, side: int) -> None:
        """Number the values that have come to a side's stream."""
        theirs, slots = self._readers[side].frontier.sequences, self._slots[self.of_side[side]]
        known = len(self._numbers[side])
        if slots is None or theirs.slots is None:
            self._numbers[side] = np.zeros(1, np.int64)
        elif len(theirs) > known:
            fresh = np.empty(len(theirs) - known, np.int32)
            slots.insert(theirs.slots.fingerprints(known), fresh)
            self._numbers[side] = np.concatenate([self._numbers[side], fresh.astype(np.int64)])

    def _raise(self, side: int, sequences: NDArray, frontiers: NDArray) -> None:
        """These sequences of a side's stream have come so far."""
        self.make_room()
        known = sequences[: len(frontiers)]
        np.maximum.at(self.nows[side], self._numbers[side][known], frontiers[: len(known)])

    # -- what is known ------------------------------------------------------------------------------

    def of(self, side: int, numbers: NDArray) -> NDArray:
        """The frontier of a side for rows with these numbers; one for all if no order is PER anything."""
        if not self.has_values:
            return self.nows[side][0]
        return self.nows[side][numbers[self.of_side[side]]]

    def least(self, sides: Sequence[int], numbers: NDArray) -> NDArray:
        """That of the side, of these, that is furthest behind."""
        found = self.of(sides[0], numbers)
        for side in sides[1:]:
            found = np.minimum(found, self.of(side, numbers))
        return found

    def come_before(self, side: int) -> tuple[NDArray, NDArray]:
        """Of the sequences of a side's stream that have come, the number and the greatest key of each."""
        codes, has = self._readers[side].frontier.sequences.greatest
        self._learn(side)
        own = self._numbers[side] if self._slots[self.of_side[side]] is not None else np.zeros(1, np.int64)
        return own[has], codes[has]

    def have_passed(self, others: Sequence[int], side: int, come: tuple[NDArray, NDArray]) -> bool:
        """Whether these sides can have no key any more that had come on another, by its numbers. Of a side
        that is PER columns which that one is not PER, this is not known."""
        numbers, codes = come
        self.make_room()
        for other in others if len(codes) else ():
            numbering = self.of_side[other]
            if self._slots[numbering] is None:
                found = self.nows[other][0]
            elif numbering == self.of_side[side]:
                found = self.nows[other][numbers]
            else:
                return False
            if not bool((codes < found).all()):
                return False
        return True

    def ahead_of(self, other: int, numbers: NDArray, codes: NDArray) -> int:
        """How many rows with these numbers and keys are above all that have come of another side."""
        own, greatest = self.come_before(other)
        tops = np.full(len(self.nows[other]), INT_MIN)
        known = np.zeros(len(tops), bool)
        tops[own], known[own] = greatest, True
        mine = numbers[self.of_side[other]]
        return int(np.count_nonzero(known[mine] & (codes > tops[mine])))

    def others(self, side: int) -> list[int]:
        return [one for one in range(len(self.nows)) if one != side]

    @property
    def nbytes(self) -> int:
        arrays = sum(int(one.nbytes) for one in (*self.nows, *self._numbers))
        return arrays + sum(one.nbytes for one in self._slots if one is not None)

    def _check(self) -> None:
        for side, numbering in enumerate(self.of_side):
            slots = self._slots[numbering]
            if slots is not None:
                slots._check()
                assert len(np.unique(self._numbers[side])) == len(self._numbers[side]), (
                    "one number, one value"
                )

    def _check_restored(self) -> None:
        count = len(self._readers)
        expect(
            len(self.nows) == len(self._numbers) == len(self.of_side) == count > 1, "frontiers of all sides"
        )
        within(np.array(self.of_side), 0, len(self.numberings), "numberings of sides")
        expect(len(self._slots) == len(self.numberings) > 0, "numbers of values")
        expect(len(self._places) == count, "keys of all sides")
        for nows, numbers, numbering in zip(self.nows, self._numbers, self.of_side, strict=True):
            slots = self._slots[numbering]
            used = 1 if slots is None else slots.used
            expect(nows.dtype == np.int64 and nows.ndim == 1 and len(nows) > 0, "frontiers by number")
            expect(numbers.dtype == np.int64 and numbers.ndim == 1, "numbers of values")
            within(numbers, 0, used, "numbers of values")
        for own in self._places:
            expect([len(one) for one in own] == [len(one) for one in self.numberings], "places of keys")

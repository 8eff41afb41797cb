"""A column that calls over panes read: its values in the batch that is being worked, its lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.changes.argument import NO_BYTES, encode
from penstock.engine.changes.group_table import NO_INTS
from penstock.engine.expressions.evaluate import evaluate
from penstock.engine.expressions.expression import Expression
from penstock.engine.kernels.hopping.panes import NOTHING, count_nulls
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.frozen import frozen
from penstock.engine.rows.store import fixed_values, valid_bytes
from penstock.engine.rows.types import SqlType

from .pane_lanes import Counts, Extremes, Sums, TextExtremes
from .pane_texts import PaneTexts

CODED = (SqlType.DOUBLE, SqlType.BIGINT, SqlType.TIMESTAMP, SqlType.BOOLEAN)
"""Types of fixed width of which sums or extremes can be kept by pane; extremes of VARCHAR too."""


class PaneValues:
    """One argument and what is kept for the calls that have it. Lanes nobody asks for are not there."""

    def __init__(self, expression: Expression, since: int) -> None:
        """since: how far the stream has come."""
        self.expression = expression
        self.since = self.sums_since = since
        """Rows up to here may have passed before anybody asked."""
        self.extremes_since: dict[bool, int] = {}
        self.type = expression.type
        self.nulls = Counts()
        """Nothing, as long as no NULL has come."""
        self.sums: Sums | None = None
        self.extremes: dict[bool, Extremes] = {}
        """By whether the smallest is asked for."""
        self.texts = PaneTexts() if self.type is SqlType.VARCHAR else None
        """Of VARCHAR, those that extremes are of."""
        self.raw = frozen(NO_INTS)
        """Values of the batch: int64, bits of doubles, places of texts."""
        self.valid = NO_BYTES
        self._codes = frozen(NO_INTS)

    @property
    def doubles(self) -> bool:
        return self.type is SqlType.DOUBLE

    def begin(self, batch: Batch) -> None:
        """Take the rows that are to be added; raises DataError if there is no value for one."""
        array = evaluate(self.expression, batch.column, batch.length)
        self.valid = frozen(valid_bytes(array)) if array.null_count else NO_BYTES
        if self.sums is None and not self.extremes:  # COUNT: only whether there is a value
            return
        if self.texts is not None:
            self.raw = frozen(self.texts.append(array))
            return
        if self.type not in CODED:
            raise AssertionError(f"{self.type} is not kept by pane")
        values = fixed_values(array)
        self.raw = frozen(values.astype(np.int64) if self.type is SqlType.BOOLEAN else values)
        if self.sums is not None:
            self._codes = frozen(encode(array, self.type)[0])
            if self.doubles:
                self.sums.widen(self._codes, self.valid)

    def end(self) -> None:
        """Let go of the batch."""
        self.raw = self._codes = frozen(NO_INTS)
        self.valid = NO_BYTES

    def add(self, slots: NDArray, start: int, stop: int, used: int, skip: Extremes | None) -> None:
        """Add rows [start, stop) to all that is kept; `skip`: has them already."""
        if len(self.valid):
            self.nulls.reserve(used)
            count_nulls(slots, self.valid, start, stop, self.nulls.totals)
        for one in self.extremes.values():
            if one is not skip:
                one.add(slots, self.raw, self.valid, start, stop, used)
        if self.sums is not None:
            self.sums.add(slots, self._codes, self.valid, start, stop, used)

    def ask_extremes(self, smallest: bool, now: int) -> None:
        """Keep them from now on, if they are not kept yet."""
        if smallest in self.extremes:
            return
        if self.texts is None:
            self.extremes[smallest] = Extremes(self.doubles, smallest)
        else:
            self.extremes[smallest] = TextExtremes(self.texts, smallest)
        self.extremes_since[smallest] = now

    def ask_sums(self, now: int) -> None:
        """Keep them from now on, if they are not kept yet."""
        if self.sums is None:
            self.sums, self.sums_since = Sums(self.doubles), now

    def ask_only(self, functions: set[str]) -> None:
        """Forget what calls of other functions need."""
        wanted = {name == "min" for name in functions & {"min", "max"}}
        self.extremes = {smallest: one for smallest, one in self.extremes.items() if smallest in wanted}
        if not functions & {"sum", "avg"}:
            self.sums = None

    def forget_texts(self, said: Sequence[tuple[NDArray, NDArray]]) -> None:
        """Let texts go that nobody refers to; said: places that others have, and where."""
        assert self.texts is not None, "there are texts"
        lanes = [one for one in self.extremes.values() if isinstance(one, TextExtremes)]
        places = [(array, array != NOTHING) for lane in lanes for array in lane.places]
        self.texts.keep([*places, *said])

    @property
    def lanes(self) -> list[Counts | Sums | Extremes]:
        return [self.nulls, *self.extremes.values(), *(() if self.sums is None else (self.sums,))]

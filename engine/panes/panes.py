"""A stream's rows by group and pane: the pieces of time between the edges of all windows that read them.

In: rows, and edges in order.  Out: what a window from an edge until now says (`PaneWindow`).  Kept: groups
(pane_slots.py) and per edge what pane_lanes.py keeps; an edge only if rows have come since the one before.
Dropped: edges from which no window begins any more, groups without rows in any pane.

A row at ts is in the pane that ends at the first edge at or after it: panes are (begin, end], as windows of
hopping queries are (T - size, T].

    edges        begin 10          20    25          35
    panes              (----------](----](----------]
    window of 15 at 35                   from 20 on: the panes that end at 25 and at 35
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.changes.argument import grown
from penstock.engine.expressions.expression import Expression
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.kernels.hopping import panes as kernels
from penstock.engine.plan.plan import PaneCall
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import Batch, LazyColumn
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.types import SqlType

from .pane_lanes import NOTHING, Counts, Extremes, Sums
from .pane_marks import taken
from .pane_slots import PaneSlots
from .pane_texts import PaneTexts
from .pane_values import PaneValues

MANY_SLOTS = 1024
FEW_SLOTS = 1024  # so few are kept whole at every edge
MOST_SPARSE = 2  # slots of edges after one that is kept whole, by slots in use
EDGE_SLOTS = 512  # for so many slots in use there may be one more such edge: each costs time to be read
NO_SLOTS = np.empty(0, np.int32)
UNREADABLE = (SqlType.VARCHAR, SqlType.TIMESTAMP)
"""Types of which NOTHING is no value: rows that came before anybody asked for their values have none."""


class Panes:
    """`begin` with a batch, `add` its rows up to the next edge, `close` there."""

    def __init__(self, types: Sequence[SqlType], began: int) -> None:
        """began: rows up to here may have passed before, and more of that instant may come; BEGINNING: no row
        has come."""
        self.slots = PaneSlots(types)
        self.rows = Counts()
        self.values: dict[Expression, PaneValues] = {}
        self._known_from = began
        began = max(began - 1, BEGINNING)
        self.edges = [began]
        """Those that are kept, in order; what was before the first is not known, or nobody's business."""
        self._begins = [began]
        """Per edge kept: the edge right before it, kept or not. No row came before that since the last."""
        self.is_open = False
        """Whether rows have come since the last edge."""
        self.opened_at = began
        """The edge at which the open pane begins."""
        self.last_ts = began
        """Of the rows that have been added."""
        self._rows = NO_SLOTS
        self._kept_slots = 0
        self._counted: NDArray | None = None
        """Rows per slot at the last edge, if there are many slots."""
        self._sparse = self._sparse_edges = 0
        """Edges since the last that was kept whole, and their slots."""

    # -- rows ---------------------------------------------------------------------------------------

    def begin(self, batch: Batch, keys: Sequence[np.ndarray]) -> None:
        """Take a batch; the values have begun with it."""
        self._rows = self.slots.find(keys, batch.length)

    def add(self, start: int, stop: int, last_ts: int, opened_at: int) -> None:
        """Rows [start, stop) of the batch are in the open pane, which began at an edge."""
        used = self.slots.used
        if not self.is_open:
            self.is_open, self.opened_at = True, opened_at
        self.last_ts = last_ts
        self.rows.reserve(used)
        both = self._plain_extremes()
        if both is None:
            kernels.count_rows(self._rows, start, stop, self.rows.totals)
        else:
            values, extremes = both
            extremes.reserve(used)
            kernels.count_and_raise(
                self._rows, values.raw, start, stop, extremes.flip, extremes.doubles, self.rows.totals,
                extremes.pane,
            )  # fmt: skip
        for one in self.values.values():
            one.add(self._rows, start, stop, used, None if both is None else both[1])

    def end(self) -> None:
        """The batch is worked off."""
        self._rows = NO_SLOTS
        for values in self.values.values():
            values.end()

    def _plain_extremes(self) -> tuple[PaneValues, Extremes] | None:
        """Extremes without NULLs in this batch, to be worked in one pass with the count."""
        for values in self.values.values():
            if not len(values.valid) and values.texts is None:
                for one in values.extremes.values():
                    return values, one
        return None

    def close(self, edge: int) -> None:
        """The open pane ends at this edge."""
        if not self.is_open:
            return
        used, begin = self.slots.used, self.edges[-1]
        slots = self._changed(used)
        self.rows.mark(edge, used, slots)
        for values in self.values.values():
            for lane in values.lanes:
                lane.mark(begin if isinstance(lane, Extremes) else edge, used, slots)
        self.edges.append(edge)
        self._begins.append(self.opened_at)
        self.is_open = False

    def _changed(self, used: int) -> NDArray | None:
        """The slots with rows in the open pane, if this edge is kept by them alone: where they are few, and
        not too many since the last that was kept whole."""
        self.rows.reserve(used)
        if used <= FEW_SLOTS:
            self._counted = None
            return None
        if self._counted is None:
            self._counted, self._sparse, self._sparse_edges = self.rows.totals[:used].copy(), 0, 0
            return None
        if len(self._counted) < used:
            self._counted = grown(self._counted, max(used, 2 * len(self._counted)))
        room = np.empty(used, np.int32)
        slots = room[: kernels.changed(self.rows.totals, self._counted, used, room)].copy()
        self._sparse += len(slots)
        self._sparse_edges += 1
        is_near = self._sparse <= MOST_SPARSE * used and self._sparse_edges * EDGE_SLOTS <= used
        if 2 * len(slots) <= used and is_near:
            return slots
        self._sparse = self._sparse_edges = 0
        return None

    # -- windows ------------------------------------------------------------------------------------

    def edge_at(self, start: int) -> int:
        """The edge that stands for one at `start`: no row between them that a pane does not also have."""
        return self.edges[max(bisect_right(self.edges, start) - 1, 0)]

    def is_edge(self, start: int) -> bool:
        """Whether a window that begins there would be exact."""
        at = bisect_right(self.edges, start)
        if not at or start < self._known_from:
            return self.edges[0] == BEGINNING
        if at < len(self.edges):
            return start <= self._begins[at]
        return not self.is_open or start <= self.opened_at or start >= self.last_ts

    def window(self, edge: int) -> PaneWindow:
        """The window from an edge until now; no pane is open."""
        assert not self.is_open, "a window ends where a pane ends"
        return PaneWindow(self, edge)

    def texts_of(self, call: PaneCall) -> PaneTexts | None:
        """The texts that a call says places of; None: it says values."""
        if call.type is not SqlType.VARCHAR or call.argument is None:
            return None
        return self.values[call.argument].texts

    # -- what is asked for --------------------------------------------------------------------------

    def ask(self, calls: Sequence[PaneCall], now: int) -> int:
        """Keep what these calls need; since when all of it has been kept, BEGINNING if always."""
        since = BEGINNING
        for call in calls:
            if call.argument is None:
                continue
            values = self.values.get(call.argument)
            if values is None:
                values = self.values[call.argument] = PaneValues(call.argument, now)
            since = max(since, values.since)
            smallest = call.function == "min"
            if call.function in ("sum", "avg"):
                values.ask_sums(now)
                since = max(since, values.sums_since)
            elif call.function in ("min", "max"):
                values.ask_extremes(smallest, now)
                since = max(since, values.extremes_since[smallest])
        return since

    def ask_only(self, calls: Sequence[PaneCall]) -> None:
        """Forget what none of these calls needs."""
        self.values = {
            expression: values
            for expression, values in self.values.items()
            if any(call.argument == expression for call in calls)
        }
        for expression, values in self.values.items():
            values.ask_only({call.function for call in calls if call.argument == expression})

    # -- forgetting ---------------------------------------------------------------------------------

    def drop_before(self, start: int) -> None:
        """No window begins before this any more."""
        first = bisect_right(self.edges, start) - 1
        if first > 0:
            self._drop(self.edges[:first])
            del self.edges[:first], self._begins[:first]

    def keep_edges(self, starts: NDArray) -> None:
        """No window will begin but at these times (sorted), or after the last edge."""
        edges = np.array(self.edges)
        kept = np.unique(np.append(edges.searchsorted(starts, side="right") - 1, len(edges) - 1))
        kept = kept[kept >= 0]
        gone = np.delete(edges, kept)
        self._drop(gone.tolist())
        # A pane that is joined with those before it begins where they do.
        first = np.append(0, kept[:-1] + 1)
        self._begins = [self._begins[i] for i in first]
        self.edges = edges[kept].tolist()

    def _drop(self, edges: Sequence[int]) -> None:
        self.rows.drop(edges)
        for values in self.values.values():
            for lane in values.lanes:
                lane.drop(edges)

    @property
    def is_empty(self) -> bool:
        """Whether no pane has rows."""
        return len(self.edges) == 1 and not self.is_open

    def clear(self) -> None:
        """Forget all groups, which have no rows."""
        self.slots.clear()
        self._kept_slots = 0
        self._counted = None
        for lane in self._lanes:
            lane.clear()

    @property
    def has_many_slots(self) -> bool:
        """Whether it is time to see which groups are gone."""
        return not self.slots.is_single and self.slots.used > 2 * self._kept_slots + MANY_SLOTS

    def live_slots(self) -> NDArray:
        """Per slot whether it has rows in any pane."""
        found: NDArray = self.rows.since(self.edges[0], self.slots.used) != 0
        return found

    def keep_slots(self, slots: NDArray) -> bool:
        """Let all others go, unless they are few: then all stay."""
        self._kept_slots = len(slots)
        if 2 * len(slots) > self.slots.used:
            return False
        self.slots.keep(slots)
        self._counted = None if self._counted is None else taken(self._counted, slots, 0)
        for lane in self._lanes:
            lane.keep(slots)
        return True

    @property
    def _lanes(self) -> list[Counts | Sums | Extremes]:
        return [self.rows, *(lane for values in self.values.values() for lane in values.lanes)]

    @property
    def count(self) -> int:
        """Panes with rows."""
        return len(self.edges) - 1 + self.is_open

    @property
    def nbytes(self) -> int:
        texts = sum(values.texts.nbytes for values in self.values.values() if values.texts is not None)
        return self.slots.nbytes + texts + sum(lane.nbytes for lane in self._lanes)

    def _check(self) -> None:
        self.slots._check()
        assert self.edges == sorted(set(self.edges)), "edges out of order"
        assert len(self._begins) == len(self.edges), "an edge without its pane"
        pairs = zip(self.edges, self._begins[1:], self.edges[1:], strict=False)
        assert all(a <= begin < end for a, begin, end in pairs), "panes overlap"
        assert set(self.rows.marks.found) <= set(self.edges), "an edge is kept that was dropped"
        for lane in self._lanes:
            lane._check()

    def _check_restored(self) -> None:
        used = self.slots.used
        edges = np.array(self.edges, np.int64)
        expect(len(edges) == len(self._begins) > 0 and bool((edges[1:] > edges[:-1]).all()), "edges in order")
        begins = np.array(self._begins[1:], np.int64)
        expect(bool(((edges[:-1] <= begins) & (begins < edges[1:])).all()), "panes between edges")
        within(self._rows, 0, used, "slots of rows")
        expect(self._counted is None or self._counted.ndim == 1, "counts of slots")
        for lane in self._lanes:
            lane.check_slots(used)


class PaneWindow:
    """What a window says, by slot; worked out when asked for, once."""

    def __init__(self, panes: Panes, edge: int) -> None:
        self._panes = panes
        self._edge = edge
        self.used = panes.slots.used
        self.rows = panes.rows.since(edge, self.used)
        self._said: dict[int, tuple[NDArray, NDArray | None]] = {}
        self._live: NDArray | None = None
        self._times: NDArray | None = None
        self.answers: dict[tuple[int, ...], list[LazyColumn]] = {}
        """Columns of the whole answer, by the calls: whoever asks for the same gets the same."""

    @property
    def live(self) -> NDArray:
        """Slots (int64) that have a row in the answer."""
        if self._live is None:
            if self._panes.slots.is_single:
                self._live = np.zeros(1, np.int64)
            else:
                room = np.empty(self.used + 1, np.int64)
                self._live = room[: kernels.nonzero(self.rows, room)]
        return self._live

    def times(self, boundary: int) -> NDArray:
        """As many times the boundary as there are rows in the answer."""
        if self._times is None:
            self._times = np.full(len(self.live), boundary, np.int64)
        return self._times

    def say(self, call: PaneCall) -> tuple[NDArray, NDArray | None]:
        """Values (int64: codes, bits of doubles, places of texts) and where they are not NULL (None:
        everywhere there is a row); raises DataError if there is no value for some slot. Equal calls are one
        and the same object here."""
        said = self._said.get(id(call))
        if said is None:
            said = self._said[id(call)] = self._say(call)
        return said

    def _say(self, call: PaneCall) -> tuple[NDArray, NDArray | None]:
        if call.argument is None:
            return self.rows, None
        values = self._panes.values[call.argument]
        if call.function == "count":
            return self.rows - values.nulls.since(self._edge, self.used), None
        if call.function in ("sum", "avg"):
            assert values.sums is not None, "a sum is asked for that is not kept"
            found, counts, bad = values.sums.since(self._edge, self.used, call.function == "avg")
            if bad >= 0:
                raise DataError(f"int64 overflow in `{call.function.upper()}`")
            if call.function == "avg":
                with np.errstate(all="ignore"):
                    averages = found.view(np.float64)
                    averages /= counts
            return found, counts != 0
        extremes = values.extremes[call.function == "min"]
        codes, is_known = extremes.since(self._edge, self.used)
        if not is_known or call.type in UNREADABLE:
            valid = codes != NOTHING
        elif len(values.nulls.totals) or self._panes.slots.is_single:
            valid = self.rows != values.nulls.since(self._edge, self.used)
        else:
            valid = None
        if extremes.flip:
            codes ^= extremes.flip
        if extremes.doubles:
            codes ^= (codes >> 63) & kernels.INT_MAX
        return codes, valid

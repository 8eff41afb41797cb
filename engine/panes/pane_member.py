"""One query's share in an aggregate over panes: its window, its hops, its calls, and what it said last.

Out: at each of its boundaries the whole answer, or how it differs from the one before.  Kept, for
differences: what each group said at the boundary before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Expression
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.kernels.base.gather import gather
from penstock.engine.kernels.hopping.panes import NOTHING, differences, stay_with_texts
from penstock.engine.members.reader import Reader
from penstock.engine.plan.plan import PaneAggregateNode, PaneCall
from penstock.engine.restoring.in_order import expect, within
from penstock.engine.rows.batch import NO_ROWS, Batch, Gather, LazyColumn
from penstock.engine.rows.store import bitmap
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.rows.window import FOREVER

from .pane_marks import taken
from .panes import Panes, PaneWindow


@dataclass(slots=True)
class Said:
    """What an answer was: per slot whether it had a row, and per call and slot the value, if it had one."""

    there: NDArray
    value: NDArray
    valid: NDArray


@dataclass(eq=False)
class PaneMember(Reader):
    """What a query takes: an answer at each of its boundaries."""

    node: PaneAggregateNode
    first_hop: Callable[[], int | None]
    """The first boundary to answer at, None as long as no row has come."""
    next_hop: int = FOREVER
    """FOREVER: not known yet."""
    last_hop: int = FOREVER
    """The last boundary to answer at."""
    exact_from: int = BEGINNING
    """Before this, rows may be missing or too many."""
    is_quiet: bool = False
    """Whether there is nothing to say at the next boundary unless rows come."""
    said: Said | None = None
    calls: tuple[PaneCall, ...] = ()
    """As in the node; equal ones of all members are the same object."""

    def enter(self, calls: tuple[PaneCall, ...], exact_from: int) -> None:
        """It is let in: its calls as all members have them, and from when on it is exact."""
        self.calls, self.exact_from = calls, exact_from

    def wait_for(self, boundary: int) -> None:
        """There is nothing to say before this boundary."""
        self.next_hop = boundary

    def end(self, now: int) -> None:
        """Time has ended: it answers at one boundary at or after that at most."""
        self.last_hop = min(self.last_hop, self.node.hops.first(now))

    def forget_said(self) -> None:
        """The groups that it said something of are gone."""
        self.said = None

    def answer(self, boundary: int, window: PaneWindow, panes: Panes) -> Batch | None:
        """What is to be passed on at a boundary, counted already; None: nothing. The next one is due then."""
        self.next_hop = boundary + self.node.hops.size
        if self.node.emit == "delta":
            return self._difference(boundary, window, panes)
        self.is_quiet = not len(window.live)
        calls = self.calls
        if self.counting:
            for call in calls:
                if call.function == "sum" and call.type is SqlType.BIGINT:
                    window.say(call)  # it may fail
            self.found += len(window.live)
            return None
        live = window.live
        if not len(live):
            return None
        key = tuple(map(id, calls))
        columns = window.answers.get(key)
        if columns is None:
            columns = window.answers[key] = self._columns(window, panes)
        self.found += len(live)
        return Batch(window.times(boundary), columns)

    def _columns(self, window: PaneWindow, panes: Panes) -> list[LazyColumn]:
        live, slots = window.live, panes.slots
        is_whole = len(live) == window.used
        columns: list[LazyColumn] = (
            list(slots.whole()) if is_whole else [Gather(view, live) for view in slots.views()]
        )
        for call in self.calls:
            value, valid = window.say(call)
            if not is_whole:
                value, valid = gather(value, 0, live), None if valid is None else valid[live]
            columns.append(as_array(value, valid, call, panes))
        return columns

    def _difference(self, boundary: int, window: PaneWindow, panes: Panes) -> Batch | None:
        calls, used, slots = self.calls, window.used, panes.slots
        there = np.ones(1, np.uint8) if slots.is_single else (window.rows != 0).view(np.uint8)
        value, valid = np.empty((len(calls), used), np.int64), np.ones((len(calls), used), np.uint8)
        for place, call in enumerate(calls):
            value[place], known = window.say(call)
            if known is not None:
                valid[place] = known
        said = self.said or Said(np.zeros(0, np.uint8), value[:, :0].copy(), valid[:, :0].copy())
        for place, call in enumerate(calls):
            if (texts := panes.texts_of(call)) is not None:
                stay_with_texts(
                    value[place], valid[place], said.value[place], said.valid[place], texts.buffers
                )  # fmt: skip
        out_slot, out_sign = np.empty(2 * used, np.int64), np.empty(2 * used, np.int8)
        count = differences(
            there, value, valid, said.there, said.value, said.valid, out_slot, out_sign
        )  # fmt: skip
        self.said = Said(there, value, valid)
        self.is_quiet = not window.rows.any()
        if not count:
            return None
        self.found += count
        if self.counting:
            return None
        out_slot, out_sign = out_slot[:count].copy(), out_sign[:count].copy()
        places = np.where(out_sign > 0, out_slot + len(said.there), out_slot)
        columns: list[LazyColumn] = [Gather(view, out_slot) for view in slots.views()]
        for place, call in enumerate(calls):
            values = np.concatenate([said.value[place], value[place]])[places]
            known = np.concatenate([said.valid[place], valid[place]])[places]
            columns.append(as_array(values, known, call, panes))
        return Batch(np.full(count, boundary, np.int64), columns, out_sign)

    def content(self, panes: Panes) -> Batch | None:
        """The answer that differences follow on; None: it has no rows."""
        said = self.said
        live = NO_ROWS if said is None else np.flatnonzero(said.there)
        if said is None or not len(live):
            return None
        columns: list[LazyColumn] = [Gather(view, live) for view in panes.slots.views()]
        for place, call in enumerate(self.calls):
            columns.append(as_array(said.value[place][live], said.valid[place][live], call, panes))
        return Batch(np.zeros(len(live), np.int64), columns)

    def places(self, argument: Expression) -> list[tuple[NDArray, NDArray]]:
        """Where the answer said last has places of an argument's texts: arrays by slot, and where in them."""
        said = self.said
        if said is None:
            return []
        asked = [
            place
            for place, call in enumerate(self.calls)
            if call.argument == argument and call.type is SqlType.VARCHAR
        ]
        values = [(said.value[place], said.valid[place]) for place in asked]
        return [(value, (valid != 0) & (value != NOTHING)) for value, valid in values]

    @property
    def says(self) -> NDArray | None:
        """Per slot whether a row of it is in the answer said last, which will have to be taken back."""
        return None if self.said is None else self.said.there

    def check_said(self, panes: Panes) -> None:
        """Raise Disorder unless what it said last is of slots in use; of what was restored."""
        said = self.said
        if said is None:
            return
        slots = len(said.there)
        expect(said.value.shape == said.valid.shape == (len(self.calls), slots), "what each call has said")
        expect(slots <= panes.slots.used, "slots that are used")
        for place, call in enumerate(self.calls):
            if (texts := panes.texts_of(call)) is not None:
                places = said.value[place][said.valid[place] != 0]
                within(places[places != NOTHING], 0, texts.count, "texts that are kept")

    def keep(self, slots: NDArray) -> None:
        """Slots are numbered anew: these are kept."""
        if self.said is not None:
            there = taken(self.said.there, slots, 0).astype(np.uint8)
            value = np.ascontiguousarray(taken(self.said.value.T, slots, 0).T)
            valid = np.ascontiguousarray(taken(self.said.valid.T, slots, 0).T.astype(np.uint8))
            self.said = Said(there, value, valid)

    @property
    def nbytes(self) -> int:
        said = self.said
        return 0 if said is None else int(said.there.nbytes + said.value.nbytes + said.valid.nbytes)


def as_array(values: NDArray, valid: NDArray | None, call: PaneCall, panes: Panes) -> pa.Array:
    """What a call says, as Arrow."""
    texts = panes.texts_of(call)
    if texts is not None:
        return texts.take(values, valid)
    length = len(values)
    if call.type is SqlType.BOOLEAN:
        values = np.packbits(values.astype(np.uint8), bitorder="little")
    return pa.Array.from_buffers(ARROW_TYPES[call.type], length, [bitmap(valid), pa.py_buffer(values)])

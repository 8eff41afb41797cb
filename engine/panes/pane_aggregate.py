"""Aggregates of hopping queries over one stream, one filter and one set of keys, by panes (see panes.py).

In:   rows of the stream.
Out:  to each query, at each of its boundaries that is over, the answer or how it differs from the last.
Kept: what panes keep, once for all queries, and what each query that gives differences said last.
Dropped: panes that no window will hold any more; everything when all windows are empty.

A row is worked once, whenever it comes, however many windows it is part of. Time is cut at the ends and the
beginnings of all queries' windows. A query that comes later finds the panes that are there; where one of its
windows would begin inside of a pane it is not exact, which `PaneMember.exact_from` says.

A filter or key that fails on the data stops all queries, an argument those that read it, a sum that is no
int64 the query whose window it is; each at the instant at which it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.expressions.evaluate import evaluate, evaluate_predicate, selected
from penstock.engine.flow.operator import Counters
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.plan.plan import CommonPanes, PaneCall
from penstock.engine.restoring.in_order import expect, same_length
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.errors import DataError
from penstock.engine.rows.window import FOREVER
from penstock.engine.selects.select import first_bad_row

from .pane_member import PaneMember
from .panes import Panes, PaneWindow

CHUNK_ROWS = 32_768
MANY_EDGES = 64


class Progressions:
    """Times that come again and again: multiples of a size, since an origin each."""

    def __init__(self, pairs: set[tuple[int, int]]) -> None:
        self._pairs = sorted(pairs)
        self._size, self._origin = np.array(self._pairs or [(1, 0)], np.int64).T

    def _check_restored(self) -> None:
        """A step of none would never come to an end."""
        expect(all(0 <= origin < size for size, origin in self._pairs), "times that come again")
        fresh = Progressions(set(self._pairs))
        expect(len(self._pairs) == len(fresh._pairs), "times that come again, each once")
        self._pairs, self._size, self._origin = fresh._pairs, fresh._size, fresh._origin

    def at_or_after(self, ts: int) -> int:
        """The first of all."""
        if len(self._pairs) <= 8:
            return min(ts + (origin - ts) % size for size, origin in self._pairs)
        return int((ts + (self._origin - ts) % self._size).min())

    def at_or_before(self, ts: int) -> int:
        """The last of all."""
        if len(self._pairs) <= 8:
            return max(ts - (ts - origin) % size for size, origin in self._pairs)
        return int((ts - (ts - self._origin) % self._size).max())


class PaneAggregate:
    """Runs the aggregates of all its members."""

    _owned: ClassVar[tuple[str, ...]] = ("_next_hop", "_promised")

    def __init__(
        self,
        common: CommonPanes,
        queue: Queue,
        began: int,
        on_failure: Callable[[PaneMember, Exception], None],
    ) -> None:
        """began: how far the stream had come, BEGINNING if it had no rows."""
        by = f" by {', '.join(map(str, common.keys))}" if common.keys else ""
        self.name = common.owner or f"panes {common.stream}{by}"
        self.common = common
        self.inputs = (queue,)
        self.output = Outlet()
        self.counters = Counters()
        self.members: list[PaneMember] = []
        self.panes = Panes([key.type for key in common.keys], began)
        self._on_failure = on_failure  # told of a query that was dropped because a value of its failed
        self._batch: Batch | None = None
        """The rows that are being worked, from `_at` on."""
        self._at = 0
        self._next_edge = FOREVER
        """At which the open pane ends."""
        self._kept_edges = 0
        self._is_stale = True
        """Whether members have come or gone since `_take_in`."""
        self._last_hop: NDArray | None = None
        """Of the members, if some have one."""
        self._windows: dict[int, PaneWindow] = {}
        """By the edge they begin at; of the instant that is being answered."""
        self._calls: dict[PaneCall, PaneCall] = {}
        """What members ask for; equal calls are the same object."""
        self._take_in()

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: PaneMember, started: int) -> None:
        """Let a query in; started: how far the stream has come, BEGINNING if no row has come."""
        assert self._batch is None and not self.inputs[0].batches, (
            "a query would get rows from before it came"
        )
        self.members.append(member)
        calls = tuple(self._calls.setdefault(call, call) for call in member.node.calls)
        since = self.panes.ask(calls, started)
        self._is_stale = True
        member.enter(calls, self._exact_from(member, started, since) if started > BEGINNING else BEGINNING)

    def _exact_from(self, member: PaneMember, started: int, since: int) -> int:
        """The time after the last boundary at which the member's window begins inside of a pane, or before
        `since`."""
        size, hops = member.node.size, member.node.hops
        boundary = hops.last(started + size - 1)  # the last whose window began before the member came
        while boundary > started and boundary - size >= since and self.panes.is_edge(boundary - size):
            boundary -= hops.size
        return max(boundary, started) + 1

    def drop(self, member: PaneMember) -> None:
        """Let a query go."""
        self.members.remove(member)
        self._is_stale = True

    def _take_in(self) -> None:
        """Take into account that members have come or gone; between batches, or between their answers."""
        self._is_stale = False
        nodes = [member.node for member in self.members]
        self._calls = {call: call for member in self.members for call in member.calls}
        self.panes.ask_only(list(self._calls))
        hops = {(node.hops.size, node.hops.origin % node.hops.size) for node in nodes}
        starts = {(node.hops.size, (node.hops.origin - node.size) % node.hops.size) for node in nodes}
        self._edges = Progressions(hops | starts)
        self._hop = np.array([node.hops.size for node in nodes], np.int64)
        self._origin = np.array([node.hops.origin % node.hops.size for node in nodes], np.int64)
        self._size = np.array([node.size for node in nodes], np.int64)
        self._next_hop = np.array([member.next_hop for member in self.members], np.int64)
        self._promised = np.array([member.output.punctuation for member in self.members], np.int64)
        self._find_last_hops()
        self._next_due = self._find_due()
        self._is_waiting = any(member.next_hop == FOREVER for member in self.members)
        panes = self.panes
        if panes.is_open and nodes:
            self._next_edge = self._edges.at_or_after(max(panes.last_ts, panes.opened_at + 1))

    def end(self) -> None:
        """Members have been told of their last boundaries."""
        self._is_stale = True

    def _find_last_hops(self) -> None:
        last = np.array([member.last_hop for member in self.members], np.int64)
        self._last_hop = last if (last != FOREVER).any() else None

    def _find_due(self) -> int:
        """The next boundary at which some member answers."""
        next_hop = self._next_hop
        if self._last_hop is not None:
            next_hop = next_hop[next_hop <= self._last_hop]
        return int(next_hop.min(initial=FOREVER))

    def _await_first_hops(self, over: int) -> None:
        """See which members have their first boundary now: rows have come, and none before them can."""
        for place, member in enumerate(self.members):
            if member.next_hop != FOREVER:
                continue
            first = member.first_hop()
            if first is not None and (first <= over or self.counters.rows_in):
                member.wait_for(first)
                self._next_hop[place] = first
                self._next_due = self._find_due()
        self._is_waiting = any(member.next_hop == FOREVER for member in self.members)

    # -- rows and time ------------------------------------------------------------------------------

    def step(self, quantum: int) -> bool:
        queue = self.inputs[0]
        worked = False
        if self._is_stale:
            self._take_in()
        while quantum > 0 and self.members:
            if self._batch is None:
                if not queue.batches:
                    break
                self._begin(queue.pop())
                quantum -= 1
            else:
                quantum -= self._work()
            worked = True
        if self._batch is not None or queue.batches:
            return True
        over = queue.punctuation - 1
        if queue.punctuation == BEGINNING:
            over = BEGINNING
        elif queue.closed:
            over = max((one.node.hops.first(queue.punctuation) for one in self.members), default=over + 1)
        return self._pass_time(over, quantum) or worked

    def _begin(self, batch: Batch) -> None:
        """Take a batch: which rows, which groups, which values."""
        first_ts = int(batch.ts[0])
        self._forget_slots()
        try:
            rows, keys = self._select(batch)
        except DataError:
            bad = first_bad_row(batch, self._select)
            if not bad:
                self._pass_time(first_ts - 1, FOREVER)
                raise
            self.inputs[0].put_back(batch.slice(bad, batch.length))
            batch = batch.slice(0, bad)
            rows, keys = self._select(batch)
        for values in list(self.panes.values.values()):
            try:
                values.begin(rows)
            except DataError as error:
                bad = first_bad_row(rows, values.begin)
                stop = int(batch.ts.searchsorted(rows.ts[bad]))
                if stop:  # first those before the instant at which it fails
                    self.inputs[0].put_back(batch.slice(stop, batch.length))
                    self._begin(batch.slice(0, stop))
                else:
                    self._pass_time(first_ts - 1, FOREVER)
                    self.inputs[0].put_back(batch)
                    for member in list(self.members):
                        if any(call.argument == values.expression for call in member.node.calls):
                            self._fail(member, error)
                return
        self.counters.took(batch.length)
        if self._is_waiting:
            self._await_first_hops(BEGINNING)
        if rows.length:
            self.panes.begin(rows, keys)
            self._batch, self._at = rows, 0

    def _select(self, batch: Batch) -> tuple[Batch, list[pa.Array]]:
        """The rows that satisfy the predicate, and their keys."""
        if self.common.predicate is not None:
            rows = selected(evaluate_predicate(self.common.predicate, batch.column, batch.length))
            if len(rows) < batch.length:
                batch = batch.take(rows)
        return batch, [evaluate(key, batch.column, batch.length) for key in self.common.keys]

    def _fail(self, member: PaneMember, error: Exception) -> None:
        if member in self.members:
            self.drop(member)
            self._take_in()
            self._on_failure(member, error)

    def _work(self) -> int:
        """Answer at one boundary, or add the rows up to the next edge; about how many rows that was."""
        batch, panes = self._batch, self.panes
        assert batch is not None, "there are rows to work"
        ts = batch.ts
        now = int(ts[self._at])
        if not panes.is_open:
            if self._next_due < now:
                return self._answer(now)
            self._next_edge = self._edges.at_or_after(now)
        stop = batch.length
        if ts[-1] > self._next_edge:
            stop = int(ts.searchsorted(self._next_edge, side="right"))
        done = stop - self._at
        if done:
            opened_at = panes.opened_at if panes.is_open else self._edges.at_or_before(now - 1)
            panes.add(self._at, stop, int(ts[stop - 1]), max(opened_at, panes.edges[-1]))
        self._at = stop
        if stop == batch.length:
            self._batch = None
            panes.end()
        else:
            self._close()
        return done

    def _close(self) -> None:
        """The open pane is whole."""
        self.panes.close(self._next_edge)

    def _forget_slots(self) -> None:
        """Let groups go that have no rows and that nobody has said something of; between batches only."""
        panes, members = self.panes, self.members
        if panes.is_empty and all(member.is_quiet for member in members):
            for member in members:
                if not panes.slots.is_single:
                    member.forget_said()
            panes.clear()
        for values in panes.values.values():
            if values.texts is not None and values.texts.is_crowded:
                values.forget_texts(
                    [said for member in members for said in member.places(values.expression)]
                )  # fmt: skip
        if not panes.has_many_slots:
            return
        live = panes.live_slots()
        for member in self.members:
            if member.says is not None:
                live[: len(member.says)] |= member.says != 0
        slots = np.flatnonzero(live)
        if self.panes.keep_slots(slots):
            for member in self.members:
                member.keep(slots)

    def _pass_time(self, over: int, quantum: int) -> bool:
        """All rows up to `over` have come: answer at the boundaries until then, and promise them."""
        queue = self.inputs[0]
        worked = False
        if queue.closed:
            self._end(queue.punctuation)
        if self._is_waiting and self.members:
            self._await_first_hops(over)
        if self.panes.is_open and self._next_edge <= over:
            self._close()
            worked = True
        while self._next_due <= over and quantum > 0:
            quantum -= self._answer(over + 1)
            worked = True
        if not self.members:
            return worked
        if self._batch is None:
            self._forget_slots()
        worked |= self._promise(over)
        if queue.closed and not queue.batches and self._next_due > over and not self.output.closed:
            for member in self.members:
                member.output.close()
            self.output.close()
            worked = True
        return worked

    def _end(self, now: int) -> None:
        """Time has ended: each member answers at one boundary at or after that at most."""
        for member in self.members:
            member.end(now)
        self._find_last_hops()
        self._next_due = self._find_due()

    def _promise(self, over: int) -> bool:
        """Tell each member how far its answers are whole: beyond the last boundary that is over."""
        if over == BEGINNING:
            return False
        last = np.minimum(over - (over - self._origin) % self._hop, self._next_hop - 1) + 1
        changed = np.flatnonzero(last > self._promised)
        for place in changed.tolist():
            self.members[place].output.promise(int(last[place]))
        self._promised[changed] = last[changed]
        return len(changed) > 0

    # -- answers ------------------------------------------------------------------------------------

    def _answer(self, until: int) -> int:
        """Let the members say what they have to at the next boundary; how many rows. No row is older than
        `until` that has not been worked."""
        boundary, panes = self._next_due, self.panes
        said = 1
        self._windows = {}
        due = np.flatnonzero(self._next_hop == boundary)
        members = [self.members[place] for place in due.tolist()]
        self._next_hop[due] += self._hop[due]
        failed: list[tuple[PaneMember, Exception]] = []
        for member in members:
            try:
                answer = member.answer(boundary, self._window(boundary - member.node.size), panes)
            except DataError as error:
                member.output.promise(boundary)
                failed.append((member, error))
                continue
            if answer is not None:
                said += answer.length
                self._put(member, answer)
        self._windows = {}
        self._next_due = self._find_due()
        for member, reason in failed:
            self._fail(member, reason)
        self._forget(until)
        return said

    def _window(self, start: int) -> PaneWindow:
        edge = self.panes.edge_at(start)
        window = self._windows.get(edge)
        if window is None:
            window = self._windows[edge] = self.panes.window(edge)
        return window

    def _put(self, member: PaneMember, answer: Batch) -> None:
        self.counters.gave(answer.length)
        if answer.length <= CHUNK_ROWS:
            member.output.put(answer)
            return
        for start in range(0, answer.length, CHUNK_ROWS):
            member.output.put(answer.slice(start, min(start + CHUNK_ROWS, answer.length)))

    def _forget(self, until: int) -> None:
        """Drop the panes that no window will hold; if that is all, go on with the first row that comes."""
        panes = self.panes
        if not self.members:
            return
        starts = self._next_hop - self._size
        panes.drop_before(int(starts.min()))
        if len(panes.edges) > 2 * self._kept_edges + MANY_EDGES:
            panes.keep_edges(self._starts(starts))
            self._kept_edges = len(panes.edges)
        if panes.is_empty and until > self._next_due and all(member.is_quiet for member in self.members):
            self._skip(until)

    def _skip(self, until: int) -> None:
        """Nobody has anything to say before this."""
        known = self._next_hop != FOREVER
        ahead = until + (self._origin - until) % self._hop
        self._next_hop[known] = np.maximum(self._next_hop, ahead)[known]
        for member, next_hop in zip(self.members, self._next_hop.tolist(), strict=True):
            member.wait_for(next_hop)
        self._next_due = self._find_due()

    def _starts(self, first: NDArray) -> NDArray:
        """When windows of members begin, from these first ones on, up to the last edge."""
        last = self.panes.edges[-1]
        known = zip(first.tolist(), self._hop.tolist(), self._next_hop.tolist(), strict=True)
        times = [np.arange(start, last + 1, hop) for start, hop, next_hop in known if next_hop != FOREVER]
        found: NDArray = np.unique(np.concatenate([np.empty(0, np.int64), *times]))
        return found

    # -- insight ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Counts are always up to date."""

    @property
    def state_rows(self) -> int:
        """Cells: panes times groups."""
        return self.panes.count * self.panes.slots.used

    @property
    def state_bytes(self) -> int:
        return self.panes.nbytes + sum(member.nbytes for member in self.members)

    def _check(self) -> None:
        if self._is_stale:
            self._take_in()
        self.panes._check()
        for place, member in enumerate(self.members):
            assert member.next_hop == self._next_hop[place], "a member waits for another boundary"
            assert member.says is None or len(member.says) <= self.panes.slots.used, "a group is unknown"
        needed = {call.argument for call in self._calls if call.argument is not None}
        assert set(self.panes.values) == needed, "values are kept that nobody asks for"

    def _check_restored(self) -> None:
        self._batch, self._windows = None, {}  # nothing is in the midst of an instant but what has failed
        self.panes.end()
        for member in self.members:
            member.check_said(self.panes)
        arrays = [self._hop, self._origin, self._size, self._next_hop, self._promised]
        same_length("times of members", *arrays, *([] if self._last_hop is None else [self._last_hop]))
        expect(bool((self._next_hop >= self._promised).all()), "boundaries that are not over")
        expect(len(self._hop) == 0 or int(min(self._hop.min(), self._size.min())) > 0, "hops of some size")

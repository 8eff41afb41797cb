"""How a join without windows keeps within its memory: what goes to the disk, what is sorted, what goes early.

In:      rows as they wait, and as they are about to be stored.
Kept:    per side, what waits on the disk for the time of other streams (backlog.py) and for their keys
         (leading_rows.py); what waits to be sorted (sort_first.py).
Dropped: under a limit that cannot be kept otherwise, rows with the least keys, as if all frontiers had passed
         them: what comes for them is counted as too late.

    queue -> backlog -> sorted -> leads? -> store
              disk                 disk

Law: on the disk rows are as if they were in memory: the same results come, in the same order and at the same
times. Where rows are sorted a result has the time at which the last of its rows went on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.flow.queue import Queue, bound_of
from penstock.engine.intake.key_frontier import KeyReader
from penstock.engine.keys.keys import INT_MIN
from penstock.engine.ordered_memory.backlog import Backlog
from penstock.engine.ordered_memory.frontier_reader import ReadAhead
from penstock.engine.ordered_memory.memory_rules import SORTS, SPOOLS, MemoryRules, Strategy
from penstock.engine.ordered_memory.sort_first import SortFirst
from penstock.engine.plan.plan import SideNode
from penstock.engine.restoring.in_order import expect
from penstock.engine.rows.batch import Batch
from penstock.engine.rows.window import MAX_TS

from .arrivals import Arrivals
from .frontiers import Frontiers
from .leading_rows import LeadingRows
from .ordered_side import Examined, OrderedSide
from .predict import loads_of, predict

AHEAD_ROWS = 1_024  # of those that lead, stay in memory where nobody set a limit
MOST_AHEAD, LEAST_AHEAD = 8_192, 8
FETCHED = 2  # times as many are brought back at once of those whose time has come
AHEAD_SHARE = 8  # of the limit of a side, what may lead


class Buffers:
    """Of one join."""

    def __init__(
        self,
        rules: MemoryRules,
        frontiers: Frontiers,
        sides: Sequence[OrderedSide],
        nodes: Sequence[SideNode],
        queues: Sequence[Queue],
    ) -> None:
        self.rules = rules
        self.strategy: Strategy = "none"
        self.rows_gone_early = 0
        """Rows that went as there was no memory for them."""
        self.backlogs: tuple[Backlog, ...] = ()
        self.leading: tuple[LeadingRows, ...] = ()
        self.sorters: tuple[SortFirst, ...] = ()
        self._frontiers = frontiers
        self._sides, self._nodes, self._queues = sides, nodes, queues
        self._greatest = [INT_MIN] * len(sides)
        """Of each side, the greatest key that took part."""
        self._is_flushed = False
        rules.enter()
        self._take_on("none" if rules.disorder == "auto" else rules.disorder)

    def _take_on(self, strategy: Strategy) -> None:
        """Go over to a strategy that keeps fewer rows; there is no way back."""
        folder = self.rules.folder
        self.strategy = strategy
        if strategy in SPOOLS and not self.backlogs:
            assert folder is not None, "a folder to spool to"
            backlogs = []
            for side, queue in zip(self._sides, self._queues, strict=True):
                assert isinstance(side.reader, KeyReader), "a disk below what is sorted"
                ahead = ReadAhead(side.reader)
                side.read_from(ahead)
                backlogs.append(Backlog(queue, ahead, folder))
            self.backlogs = tuple(backlogs)
            self.leading = tuple(LeadingRows(side, folder) for side in self._sides)
        if strategy in SORTS and not self.sorters:
            sorters = []
            for side, node in zip(self._sides, self._nodes, strict=True):
                sorter = SortFirst(side.reader, node.keys[0], side.key_types[0])
                side.read_from(sorter)
                sorters.append(sorter)
            self.sorters = tuple(sorters)

    # -- before rows are worked ---------------------------------------------------------------------

    def bound(self, rows: int) -> int:
        """How far the join may go in one step; what waits beyond that goes to the disk, and comes back."""
        if not self.backlogs:
            return bound_of(self._queues, rows)
        come = min(MAX_TS if queue.closed else queue.punctuation for queue in self._queues)
        ahead = self.ahead
        for backlog in self.backlogs:
            backlog.put_away(come, ahead, ahead)
        rows = min(rows, FETCHED * ahead)
        for backlog in self.backlogs:
            backlog.fetch(come, rows)
        last = [one.last_time for one in self.backlogs if one.last_time is not None]
        return min([bound_of(self._queues, rows), *last])

    def fill_queues(self) -> None:
        """Rows were taken from the queues; those that wait on the disk come behind what is left."""
        for backlog in self.backlogs:
            backlog.fill_queue()

    def sort(self, batches: list[Batch | None]) -> list[Batch | None]:
        """What goes on now, of rows that have come."""
        if not self.sorters:
            return batches
        return [sorter.sort(batch) for sorter, batch in zip(self.sorters, batches, strict=True)]

    def flush(self, ts: int) -> list[Batch | None] | None:
        """Nothing more comes on any side: what still waits to be sorted; None: it was given already."""
        if not self.sorters or self._is_flushed:
            return None
        self._is_flushed = True
        return [sorter.flush(ts) for sorter in self.sorters]

    # -- while they are worked ----------------------------------------------------------------------

    def to_store(
        self, arrivals: Arrivals, examined: Sequence[Examined | None], stored: list[NDArray]
    ) -> list[NDArray]:
        """Bring back what can be met by these rows, and put away those of them that lead the other sides;
        which of `stored` are left to be stored."""
        if not self.leading:
            return stored
        for number, own in enumerate(arrivals.sides):
            if len(own.codes):
                self._greatest[number] = max(self._greatest[number], int(own.codes.max()))
        left = []
        for number, (side, own, kept) in enumerate(zip(self._sides, arrivals.sides, stored, strict=True)):
            away = self.leading[number]
            reached = self._reached(number, arrivals.now)
            away.bring_back(reached)
            leads = np.flatnonzero(own.codes[kept] > reached)
            if away.is_empty and len(leads):
                room = self.ahead - int(np.count_nonzero(side.codes.live > reached))
                leads = leads[max(0, room) :]
            one = examined[number]
            if one is not None and len(leads):
                away.put_away(one, kept[leads], own.numbers, self.ahead)
                kept = np.delete(kept, leads)
            left.append(kept)
        return left

    def _reached(self, number: int, frontiers: Sequence[int] | NDArray) -> int:
        """Up to which key all other sides have come, or can have no row any more."""
        others = [
            max(self._greatest[other], int(frontiers[other]) - (int(frontiers[other]) > INT_MIN))
            for other in range(len(self._sides))
            if other != number
        ]
        return min(others)

    # -- after that ---------------------------------------------------------------------------------

    def keep_within(self) -> None:
        """See to it that what is held is within the limit."""
        limit = self.limit_rows
        if limit is None or self.rows <= limit:
            return
        if self.rules.disorder == "auto":
            self._keep_less(limit)
        for away in self.leading:
            away.store_unwritten()
        over = self.rows - limit
        if over > 0:
            self._let_go_early(over)

    def _keep_less(self, limit: int) -> None:
        """Go over to the next strategy, if that will hold fewer rows."""
        can_write = self.rules.folder is not None and self.rules.folder.fault is None
        if can_write and self.strategy == "none":
            self._take_on("dbf")
            for number, away in enumerate(self.leading):
                away.put_away_stored(self._reached_now(number), self.ahead)
        if self.rows <= limit:
            return
        following: Strategy = "msf" if self.strategy == "none" else "hybrid"
        predicted = self.predicted()
        if self.strategy in ("none", "dbf") and sum(predicted[following]) < sum(predicted[self.strategy]):
            self._take_on(following)

    def _reached_now(self, number: int) -> int:
        """The same, of all that was worked."""
        for side in self._sides:
            codes = side.codes.live
            if len(codes):
                self._greatest[side.number] = max(self._greatest[side.number], int(codes.max()))
        return self._reached(number, [int(nows[0]) for nows in self._frontiers.nows])

    def _let_go_early(self, rows: int) -> None:
        """Let rows go that could still be met, those with the least keys."""
        codes = np.concatenate([side.codes.live for side in self._sides])
        if not len(codes):
            return
        rows = min(rows, len(codes)) - 1
        least = int(np.partition(codes, rows)[rows]) + 1
        self._frontiers.raise_to(least)
        self.rows_gone_early += sum(side.cut(least) for side in self._sides)

    def leave(self) -> None:
        """Nobody asks any more."""
        self.rules.leave()
        self.clear()

    def clear(self) -> None:
        """Nothing that waits is needed any more."""
        for backlog, away in zip(self.backlogs, self.leading, strict=True):
            backlog.clear()
            away.clear()

    # -- what is known ------------------------------------------------------------------------------

    @property
    def ahead(self) -> int:
        """So many rows of a side stay in memory of those that lead, or wait for their time."""
        limit = self.limit_rows
        if limit is None:
            return AHEAD_ROWS
        return min(MOST_AHEAD, max(LEAST_AHEAD, limit // (AHEAD_SHARE * len(self._sides))))

    @property
    def limit_rows(self) -> int | None:
        return self.rules.share(self._bytes_per_row) if self.rules.has_limit else None

    @property
    def _bytes_per_row(self) -> float:
        rows = sum(side.end - side.tail for side in self._sides)
        if rows < MOST_AHEAD:
            return 16.0 * (1 + max(len(side.shelf.store.columns) for side in self._sides))
        return sum(side.nbytes for side in self._sides) / rows

    @property
    def rows(self) -> int:
        """In memory: stored, and waiting."""
        stored = sum(side.end - side.tail for side in self._sides)
        return stored + self.rows_before + sum(queue.rows for queue in self._queues)

    @property
    def rows_before(self) -> int:
        """In memory, in front of the stores: what waits to be sorted or written."""
        return sum(map(self.rows_of, range(len(self._sides))))

    def rows_of(self, number: int) -> int:
        """The same of a side, and how many are on the disk."""
        found = len(self.sorters[number]) if self.sorters else 0
        if self.backlogs:
            found += self.backlogs[number].last_rows + self.leading[number].last_rows
        return found

    @property
    def rows_put_away(self) -> int:
        """Rows that wait for the time of other streams, beside those in the queues."""
        return sum(backlog.rows for backlog in self.backlogs)

    def most_before(self, number: int) -> int:
        """At most so many, as the model has it: the factor to sort, and a block to be written."""
        factor = self._sides[number].reader.frontier.factor if self.sorters else 0
        return factor + (self.ahead if self.leading else 0) + (self.ahead if self.backlogs else 0)

    def spooled_of(self, number: int) -> int:
        """Rows of a side on the disk."""
        if not self.backlogs:
            return 0
        return self.backlogs[number].spool.rows + self.leading[number].spool.rows

    @property
    def spooled_rows(self) -> int:
        return sum(map(self.spooled_of, range(len(self._sides))))

    @property
    def nbytes(self) -> int:
        return sum(sorter.nbytes for sorter in self.sorters)

    def predicted(self) -> dict[Strategy, list[int]]:
        """By strategy and side, how many rows would be held, as the model has it."""
        loads = loads_of(self._sides, self._frontiers, self.leading)
        return predict(self.rules.model, loads, self.ahead)

    def _check(self) -> None:
        for backlog, away in zip(self.backlogs, self.leading, strict=True):
            backlog._check()
            away._check()
        for sorter in self.sorters:
            sorter._check()

    def _check_restored(self) -> None:
        sides = len(self._sides)
        expect(len(self._queues) == len(self._nodes) == len(self._greatest) == sides, "a queue for each side")
        for some in (self.backlogs, self.leading, self.sorters):
            expect(len(some) in (0, sides), "one for each side")
        expect(len(self.backlogs) == len(self.leading), "both of what waits on the disk")
        expect((self.strategy in SPOOLS) == bool(self.backlogs), "a disk where it is used")
        expect((self.strategy in SORTS) == bool(self.sorters), "sorters where rows are sorted")

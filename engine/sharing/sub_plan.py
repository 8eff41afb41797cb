"""A sub-plan of incremental queries, run once for all queries that have it.

A query that has a part which is at work already reads that one. It is told first what the part's output holds
(contents.py), as rows that enter now. Some cannot tell: the window below an aggregate, whose rows are kept by
nobody, and the pairs of a shared window join. These pass rows on and keep none, so that whoever comes later
reads the same part from now on and lacks what came before, as it would behind one of its own.

    one   window ── COUNT per k            at work
    two      └───── SUM per k              comes later: sees the rows that come from now on,
                                           and those that others keep for a window over the same rows
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.members.reader import Reader
from penstock.engine.plan.plan import ArriveNode, FinalGroupNode, LifetimeNode, OrderedJoinNode
from penstock.engine.plan.plan_parts import starts_full
from penstock.engine.plan.tellable import begins, is_known, is_whole
from penstock.engine.rows.batch import Batch
from penstock.engine.windows.range_window import RangeWindow

from .build_operator import SharedNode
from .pipeline import Pipeline, PlanAtWork
from .shared_work import Key, SharedWork, Source, queries_of

if TYPE_CHECKING:
    from .site import Site


Come: TypeAlias = tuple[tuple[tuple[str, int, int], ...], int]
"""What has come of streams: rows, and how far; and how often there had been work, where that matters."""


@dataclass(eq=False)
class PartReader(Reader):
    """Its output is that of the part, as everybody's."""

    owner: PlanAtWork
    late: int | None = None
    """Of a part that had passed rows on before it came: it has none of those up to then."""

    def miss(self, late: int) -> None:
        self.late = late


class SubPlan(PlanAtWork, SharedWork[SharedNode, PartReader]):
    """Under its plan and how it hears of expiry. There may be several, begun when different rows had come."""

    kind: ClassVar[str] = "sub-plans"

    @staticmethod
    def key_of(node: SharedNode, owner: PlanAtWork) -> Key:
        return owner.approach, node

    def __init__(self, site: Site, node: SharedNode, owner: PlanAtWork) -> None:
        name = f"{owner.made_for}.part{site.shared.number(self.kind)}"
        PlanAtWork.__init__(self, name, node, approach=owner.approach, started=site.starts())
        SharedWork.__init__(self, site, node, owner)
        self._made_for = owner.made_for
        self._node = node
        self._readers: list[PartReader] = []
        self.start = self._now()
        """What had come when it began."""
        self.given: Batch | None = None
        """These rows, for whoever reads it before time goes on."""
        self.rows_since: int | None = None
        """Of a window that was given rows of another: it has all with a later ts."""
        self.output, held = site.builder.build(node, count(), self, False)
        found = self._rows_of_others()
        if found is not None:
            held, self.rows_since = found
        if held is not None and held.length:
            self.given, self.is_filled = held, True
            site.shared.given(self)

    # -- readers ------------------------------------------------------------------------------------

    @property
    def members(self) -> list[PartReader]:
        return self._readers

    def reader(self, node: SharedNode, number: int, owner: PlanAtWork, counting: bool) -> PartReader:
        return PartReader(owner, False, output=self.output)

    def admit(self, reader: PartReader) -> Source | None:
        found = self._found_by(reader)
        if found is not None:
            self._readers.append(reader)
            if self.is_filled:
                reader.owner.fill(self.filled_at)
        return found

    def release(self, reader: PartReader) -> None:
        self._readers.remove(reader)

    def _found_by(self, reader: PartReader) -> Source | None:
        """What a new reader finds; None: it is one for a part that begins now."""
        if not self._readers or is_whole(self._node):  # the next boundary will say all there is
            return self._source(None)
        if is_known(self._node):
            held = self.content(reader, self._enters())
            if held is not None:
                return self._source(held)
        if self._now() == self.start and (not self.is_filled or self.given is not None):
            return self._source(None)  # it has passed nothing on but what it was given
        return self._source(self._read_late(reader)) if passes_on(self._node) else None

    def _source(self, held: Batch | None) -> Source:
        if self.given is not None:
            return Source(self.output, self.given)
        return Source(self.output, held if held is not None and held.length else None)

    def _now(self) -> Come:
        """What has come of each stream; of what gives rows before any have come, how often there was work."""
        ingests = sorted((stream, self._site.streams[stream]) for stream in self.streams)
        come = tuple((stream, one.rows_in, one.watermark) for stream, one in ingests)
        return come, self._site.runs if starts_full(self._node) else 0

    def _enters(self) -> int:
        """When what it holds enters for who comes now. Before the first row it is of tables alone, which were
        there before all time."""
        has_rows = any(self._site.streams[stream].has_given for stream in self.streams)
        return begins(self.plan, self.output) if has_rows else BEGINNING

    def _read_late(self, reader: PartReader) -> Batch | None:
        """Note what a new reader lacks of what has been passed on, less what is kept for other windows."""
        starts = self._site.starts()
        come = [starts[stream] for stream in self.streams if stream in starts]
        if not come:
            return None
        held, since = self._rows_of_others() or (None, max(come))
        reader.miss(since)
        return held

    def _rows_of_others(self) -> tuple[Batch, int] | None:
        """The rows that others keep for a window over the same rows, and since when these are all."""
        if not isinstance(self._node, ArriveNode):
            return None
        from .window_rows import window_rows

        (stream,) = self.streams
        now = self._site.streams[stream].output.punctuation
        parts = self._site.shared.of(SubPlan)
        found = window_rows(self._node, parts, now, self.output.punctuation)
        if found is not None:
            operator = self.operators[0]
            assert isinstance(operator, RangeWindow), "a RANGE window"
            operator.give(found[0].ends)
        return found

    def go_on(self) -> None:
        """Time goes on: what it was given is of no use to who comes later."""
        self.given = None

    def content(self, reader: PartReader, at: int, standing: bool = False) -> Batch | None:
        from .contents import Contents

        return Contents(self._site.tables, at).of(self, 0, standing)

    def exact_from(self, reader: PartReader) -> int | None:
        from .full_from import full_from

        began = self.begun_for(reader)
        return BEGINNING if began is None else full_from(self, began, reader.late is not None)

    def begun_for(self, reader: Reader) -> int | None:
        """How far the streams had come when a reader began with it; None: it misses nothing."""
        assert isinstance(reader, PartReader)
        return self.start_of_rows if reader.late is None else reader.late

    # -- a plan, and work in common -----------------------------------------------------------------

    @property
    def queries(self) -> list[Pipeline]:
        return queries_of(self._readers)

    @property
    def made_for(self) -> str:
        return self._made_for

    def is_itself(self, number: int) -> bool:
        return number == 0

    def behind(self, operator: Operator) -> list[Operator]:
        """Also in all that reads it, nearest first."""
        above = [one for plan in self.above() for one in plan.own_operators]
        return [*SharedWork.behind(self, operator), *above]

    def above(self) -> list[PlanAtWork]:
        """Everything that reads it, also through others, nearest first."""
        users = [reader.owner for reader in self._readers]
        found = dict.fromkeys(users)
        for user in users:
            if isinstance(user, SubPlan):
                found |= dict.fromkeys(user.above())
        return list(found)

    def facts(self) -> dict[str, str]:
        return {"strategy": "equal sub-plans"}


def passes_on(node: SharedNode) -> bool:
    """Whether a part keeps nothing that a new one would not have: from now on it passes on what that would,
    or more."""
    match node:
        case LifetimeNode(hops=None) | OrderedJoinNode() | FinalGroupNode():
            return True
        case ArriveNode(hops=None):
            return node.window.kind == "range"  # rows of a ROWS window are kept
    return False

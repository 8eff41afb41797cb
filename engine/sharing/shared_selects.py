"""Selects over one stream, run by one operator as soon as there are two.

    one query           Select, with its condition and all of its outputs
    a second one        SharedSelect for both; behind it, for who computes something, a Select of its own

The first is begun by itself. When a second one comes, both go over; what comes of each goes out where it went
out before. Selects over ROWS windows are run together from the first on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING, Outlet, Queue
from penstock.engine.plan.plan import SelectNode, SharedSelectNode, SourceNode
from penstock.engine.rows.batch import Batch
from penstock.engine.selects.select import Select
from penstock.engine.selects.shared_select import Share, SharedSelect
from penstock.engine.selects.shared_window_select import SharedWindowSelect

from .at_work import disconnect
from .pipeline import Pipeline
from .shared_work import Key, SharedWork, Source

if TYPE_CHECKING:
    from .pipeline import PlanAtWork
    from .site import Site


class SharedSelects(SharedWork[SharedSelectNode, Share]):
    """Under the stream, and whether windows of it are read; `operator` is a Select while there is one."""

    kind: ClassVar[str] = "selects"

    @staticmethod
    def key_of(node: SharedSelectNode, owner: PlanAtWork) -> Key:
        return node.stream, node.is_windowed

    def __init__(self, site: Site, node: SharedSelectNode, owner: PlanAtWork) -> None:
        super().__init__(site, node, owner)
        self._stream = node.stream
        self._first: list[Share] = []
        """The only one, while it runs by itself."""
        self.operator: Select | SharedSelect | None = None
        self.name = f"select {node.stream}{' rows' if node.is_windowed else ''}"
        if node.is_windowed:
            shared = SharedWindowSelect(self._tap(), self.name, site.fail_reader)
            self.operator = shared

    def _tap(self) -> Queue:
        self.taps = [self._site.tap(self._stream)]
        return self.taps[0][1]

    def get_ready(self) -> None:
        if self.operator is not None and not isinstance(self.operator, SharedWindowSelect):
            self._site.at_work.drain(self.operator)

    @property
    def shared(self) -> SharedSelect | None:
        """What runs several."""
        return self.operator if isinstance(self.operator, SharedSelect) else None

    @property
    def members(self) -> list[Share]:
        return self._first if self.shared is None else self.shared.members

    @property
    def own_operators(self) -> Sequence[Operator]:
        return () if self.operator is None else (self.operator,)

    # -- readers ------------------------------------------------------------------------------------

    def reader(self, node: SharedSelectNode, number: int, owner: PlanAtWork, counting: bool) -> Share:
        assert isinstance(owner, Pipeline), "selects of a part are its own"
        is_direct = number == 0 and node.projection is None and not owner.sink.is_changes
        return Share(owner, counting, node, number, owner.sink if is_direct else None)

    def admit(self, reader: Share) -> Source:
        if self.operator is None:
            return Source(self._run_alone(reader))
        if isinstance(self.operator, Select):
            self._go_over(self.operator)
        return Source(self._let_in(reader, None))

    def release(self, reader: Share) -> None:
        if self.shared is None:
            self._first.remove(reader)
        else:
            self.shared.drop(reader)

    def _run_alone(self, reader: Share) -> Outlet:
        node, owner, queue = reader.node, reader.owner, self._tap()
        assert isinstance(node.input, SourceNode) and isinstance(owner, Pipeline)
        queue.want(node.input.columns)
        queue.let_rows_purge(owner.approach == "piggyback")
        self.operator = Select(node, queue, f"{owner.name}.{reader.number}")
        self._first = [reader]
        reader.run_alone(self.operator.output)
        return reader.output

    def _go_over(self, alone: Select) -> None:
        """One operator for all; the only one so far goes on behind it."""
        disconnect(self.taps)
        (first,), self._first = self._first, []
        self.operator = SharedSelect(self._tap(), self.name, self._site.fail_reader)
        assert isinstance(first.owner, Pipeline)
        first.go_over(first.number == 0 and first.owner.sink.is_counting)
        self._let_in(first, alone.output)

    def _let_in(self, reader: Share, outlet: Outlet | None) -> Outlet:
        """What comes of it goes out at `outlet`, if there is one already."""
        shared, owner = self.shared, reader.owner
        assert shared is not None and isinstance(owner, Pipeline)
        reader.output.begin(shared.output.punctuation, shared.output.closed)
        shared.add(reader)
        if reader.node.projection is None or reader.counting:
            reader.give_to(outlet or reader.output)
            return reader.output
        queue = Queue()
        self._site.builder.connect(Source(reader.output), queue, owner, reader.node)
        node = SelectNode(reader.node, None, reader.node.projection)
        select = Select(node, queue, f"{owner.name}.{reader.number}")
        select.give_to(outlet or select.output)
        owner.put_first(reader.number, select)
        self._site.at_work.enter([select], owner)
        return select.output

    def content(self, reader: Share, at: int, standing: bool = False) -> Batch | None:
        return None  # rows of a stream itself are kept by nobody

    def exact_from(self, reader: Share) -> int | None:
        assert isinstance(reader.owner, Pipeline)
        started = reader.owner.started.get(self._stream)
        return BEGINNING if started is None else started + 1

    def settle(self) -> None:
        if self.shared is not None:
            self.shared.settle()

    def facts(self) -> dict[str, Any]:
        return {"strategy": "select"}

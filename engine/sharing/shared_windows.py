"""The rows of windows over one stream, kept by one operator from the first window on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.plan.plan import StoredWindowNode
from penstock.engine.rows.batch import Batch
from penstock.engine.windows.window_member import WindowMember

from .shared_work import Key, SharedWork, Source

if TYPE_CHECKING:
    from penstock.engine.windows.facts import WindowFacts
    from penstock.engine.windows.window_store import WindowStore

    from .pipeline import PlanAtWork
    from .site import Site


class SharedWindows(SharedWork[StoredWindowNode, WindowMember]):
    """Under the stream."""

    kind: ClassVar[str] = "windows"

    @staticmethod
    def key_of(node: StoredWindowNode, owner: PlanAtWork) -> Key:
        return node.input.stream

    def __init__(self, site: Site, node: StoredWindowNode, owner: PlanAtWork) -> None:
        from penstock.engine.windows.window_store import WindowStore  # who does without starts faster

        super().__init__(site, node, owner)
        stream = node.input.stream
        self._stream = site.streams[stream]
        self.taps = [site.tap(stream)]
        ((_, queue),) = self.taps
        types, is_late = self._stream.schema.types, self._stream.rows_in > 0
        self.operator: WindowStore = WindowStore(stream, types, queue, is_late, site.fail_reader)
        self.name = self.operator.name

    @property
    def members(self) -> list[WindowMember]:
        return self.operator.members

    @property
    def own_operators(self) -> Sequence[Operator]:
        return (self.operator,)

    def reader(self, node: StoredWindowNode, number: int, owner: PlanAtWork, counting: bool) -> WindowMember:
        member = WindowMember(owner=owner, node=node)
        member.started[0] = self._stream.output.punctuation if self._stream.rows_in else BEGINNING
        return member

    def admit(self, reader: WindowMember) -> Source:
        self.operator.add(reader)
        if reader.node.hops is not None:
            return Source(reader.output)  # the next boundary gives all there is
        return Source(reader.output, self.operator.content(reader))

    def release(self, reader: WindowMember) -> None:
        self.operator.drop(reader)

    def content(self, reader: WindowMember, at: int, standing: bool = False) -> Batch | None:
        from .contents import stamped

        if reader.node.whole:
            return None  # whole answers, of which nothing is kept
        return stamped(self.operator.content(reader), reader.node, at)

    def exact_from(self, reader: WindowMember) -> int | None:
        self.refresh()
        return reader.full_from(reader.started[0])

    def facts_of(self, reader: WindowMember) -> WindowFacts:
        """What it says of itself, and of a reader."""
        from penstock.engine.windows.facts import facts_of_window

        return facts_of_window(self.operator, reader)

    def refresh(self) -> None:
        self.operator.refresh()

    @property
    def is_common(self) -> bool:
        """Whether several queries have windows over the stream; one may have two."""
        return len(self.queries) > 1

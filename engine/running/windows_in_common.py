"""The rows of windows over one stream, kept by one operator from the first window on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.engine.flow.queue import BEGINNING, Outlet
from penstock.engine.plan.plan import StoredWindowNode
from penstock.engine.windows.window_member import WindowMember

from .common_selects import disconnect
from .pipeline import SubPlan

if TYPE_CHECKING:
    from penstock.engine.windows.window_store import WindowStore

    from .runtime import Runtime


class WindowsInCommon:
    """The operators at work, those in common by stream."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._found: dict[str, WindowStore] = {}

    def __iter__(self) -> Iterator[WindowStore]:
        yield from self._found.values()

    def keeps(self, stream: str) -> bool:
        """Whether rows of a stream are kept in common."""
        return stream in self._found

    def share(self, node: StoredWindowNode, number: int, part: SubPlan) -> Outlet:
        """A member of the operator that keeps the stream's rows, which is set up if there is none."""
        stream = node.input.stream
        store = self._found.get(stream)
        if store is None:
            store = self._found[stream] = self._open(stream)
        member = WindowMember(part.name, node=node, part=part)
        ingest = self._runtime.streams[stream]
        member.started[0] = ingest.output.punctuation if ingest.rows_in else BEGINNING
        store.add(member)
        part.windows[number] = store, member
        return member.output

    def _open(self, stream: str) -> WindowStore:
        from penstock.engine.windows.window_store import (
            WindowStore,  # a query that does without starts faster
        )

        runtime, ingest = self._runtime, self._runtime.streams[stream]
        queue, types = runtime.tapped(stream), ingest.schema.types
        store = WindowStore(stream, types, queue, ingest.rows_in > 0, runtime._fail_member)
        runtime._owners[store] = store
        runtime._ready.enter(store)
        return store

    def leave(self, store: WindowStore, member: WindowMember) -> None:
        """A window has gone, and with the last the operator."""
        member.output.queues.clear()
        if member in store.members:
            store.drop(member)
        if not store.members and store in list(self):
            disconnect([(self._runtime.streams[store.stream].output, store.inputs[0])])
            self._runtime._forget(store)
            self._found = {key: one for key, one in self._found.items() if one is not store}

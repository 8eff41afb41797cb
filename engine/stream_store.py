"""What the operators have in common that keep rows of a stream for many windows: members, their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from numpy.typing import NDArray

from .batch import Batch, Gather, View
from .operator import Counters
from .queue import Outlet, Queue
from .window_member import WindowMember


class StreamStore(Protocol):
    """Gives each member what enters its window, as +1, and what leaves it, as -1."""

    name: str
    stream: str
    output: Outlet
    counters: Counters
    members: list[WindowMember]

    @property
    def inputs(self) -> Sequence[Queue]: ...

    def add(self, member: WindowMember) -> None:
        """Let a window in; not while what has come is on its way."""

    def drop(self, member: WindowMember) -> None:
        """Let a window go; what it alone needed is forgotten."""

    def refresh(self) -> None:
        """Take changes of the members into account now: what they miss is known then."""

    def content(self, member: WindowMember) -> Batch:
        """The rows that are in a member's window now, as if they came now."""

    def step(self, quantum: int) -> bool: ...

    @property
    def state_rows(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    def _check(self) -> None: ...


def admit(store: StreamStore, member: WindowMember) -> None:
    """Make a window one of the members, which hears from now on how far time has come."""
    store.members.append(member)
    member.begin(store.output.punctuation, store.output.closed)


def give(
    store: StreamStore,
    member: WindowMember,
    views: dict[int, View],
    ts: NDArray,
    sign: NDArray,
    rows: NDArray,
    ets: NDArray | None = None,
) -> None:
    """Pass changes on to a member; views: the stored columns, of which it gets those that it asked for."""
    columns = [Gather(views[column], rows) for column in member.node.columns]
    changes = Batch(ts, columns, sign if sign.min() < 0 else None, ets)
    store.counters.rows_out += changes.length
    member.found += changes.length
    member.output.put(changes)


def promise(store: StreamStore, now: int) -> bool:
    """Let all know that nothing before `now` follows; False if they know."""
    if now <= store.output.punctuation:
        return False
    store.output.promise(now)
    for member in store.members:
        member.promise(now)
    return True


def close(store: StreamStore) -> bool:
    """Let all know that nothing follows, if that is so; False if it is not, or they know."""
    (queue,) = store.inputs
    if not queue.closed or queue.batches or store.output.closed:
        return False
    store.output.close()
    for member in store.members:
        member.close(queue.punctuation)
    return True

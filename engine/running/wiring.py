"""Whether the operators of an engine that was restored are joined as any engine joins them.

    stream / table --> outlet --> queue --> operator --> outlet --> queue --> ...

Every queue is fed by one outlet and read by one operator, which it wakes; whatever flows never comes back to
where it was. The operators of one join, which pass rows among themselves, count as one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.restoring.in_order import expect
from penstock.engine.restoring.restorable import unfolded
from penstock.engine.sharing.pipeline import PlanAtWork

if TYPE_CHECKING:
    from .runtime import Runtime

MOST_BELOW = 500
"""Parts of plans, each reading the next."""


def check_wiring(runtime: Runtime) -> None:
    """Raise Disorder unless all is joined as it should be."""
    readers = readers_of(runtime)
    feeding: dict[Queue, Outlet] = {}
    for outlet in outlets_of(runtime):
        for queue in outlet.queues:
            expect(queue not in feeding, "queues that are fed by one outlet")
            feeding[queue] = outlet
    check_wakes(runtime, readers)
    check_sinks(runtime)
    check_parts(runtime)
    check_ends(runtime, readers)


def readers_of(runtime: Runtime) -> dict[Queue, Any]:
    """Queues with the operator that reads each."""
    readers: dict[Queue, Any] = {}
    for operator in runtime.at_work.owners:
        for queue in operator.inputs:
            expect(queue not in readers, "queues that one operator reads")
            readers[queue] = operator
    return readers


def outlets_of(runtime: Runtime) -> list[Outlet]:
    """All outlets, each once."""
    sources: list[Any] = [*runtime.streams.values(), *runtime.tables.values()]
    found: list[Any] = [one.output for one in sources]
    found += [operator.output for operator in runtime.at_work.owners]
    found += [reader.output for work in runtime.shared for reader in work.members]
    return list(dict.fromkeys(found))


def check_wakes(runtime: Runtime, readers: dict[Queue, Any]) -> None:
    ready, owners = runtime.at_work.ready, runtime.at_work.owners
    for queue, operator in readers.items():
        name, given = unfolded(queue.wake)
        if name.endswith("Ready.add"):
            expect(given[0] is ready and given[1:] == [operator], "queues that wake their operator")
    expect(ready._known == owners.keys(), "operators that get turns")
    expect(ready._waiting.keys() <= owners.keys(), "operators that get turns")


def check_sinks(runtime: Runtime) -> None:
    for pipeline in runtime.pipelines.values():
        hold: Any = pipeline.sink.hold
        if isinstance(hold, partial):
            _, given = unfolded(hold)
            expect(given[0] is runtime._unsettled and given[1:] == [pipeline.sink], "sinks that are settled")


def check_parts(runtime: Runtime) -> None:
    """Nothing reads itself, also through others."""
    depths: dict[Any, int] = {}
    for part in (*runtime.shared, *runtime.pipelines.values()):
        waiting = [(part, read_by(part))]
        while waiting:
            now, below = waiting[-1]
            following = next(below, None)
            if following is None:
                waiting.pop()
                depths[now] = 1 + max((depths[one] for one in read_by(now)), default=0)
            elif following not in depths:
                expect(all(following is not one for one, _ in waiting), "parts that do not read themselves")
                expect(len(waiting) < MOST_BELOW, "parts that read few others")
                waiting.append((following, read_by(following)))


def read_by(one: Any) -> Iterator[Any]:
    """What it reads of others'."""
    return (work for work, _ in one.readings.values())


def check_ends(runtime: Runtime, readers: dict[Queue, Any]) -> None:
    """From the streams on, what flows comes to an end."""
    node_of = {operator: node(runtime, operator) for operator in runtime.at_work.owners}
    after: dict[Any, set[Any]] = {one: set() for one in node_of.values()}
    for operator, one in node_of.items():
        after[one] |= {
            node_of[readers[queue]]
            for outlet in given_by(runtime, operator)
            for queue in outlet.queues
            if queue in readers and node_of[readers[queue]] is not one
        }
    before = dict.fromkeys(after, 0)
    for following in after.values():
        for one in following:
            before[one] += 1
    ready = deque(one for one, count in before.items() if not count)
    met = 0
    while ready:
        met += 1
        for one in after[ready.popleft()]:
            before[one] -= 1
            if not before[one]:
                ready.append(one)
    expect(met == len(after), "rows that do not come back to where they were")


def node(runtime: Runtime, operator: Any) -> Any:
    """The operator, or the work in common whose operators pass rows among themselves."""
    owner: Any = runtime.at_work.owners[operator]
    return operator if isinstance(owner, PlanAtWork) else owner


def given_by(runtime: Runtime, operator: Any) -> list[Outlet]:
    """Where an operator puts what it has: its outlet, or those of members."""
    owner: Any = runtime.at_work.owners[operator]
    members = [] if isinstance(owner, PlanAtWork) else owner.members
    return [operator.output, *(one.output for one in members)]

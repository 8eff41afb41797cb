"""The registry of work that queries share: found by its key, begun when it is first asked for, ended when
the last reader has gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.engine.plan.plan import (
    FinalGroupNode,
    MemberNode,
    OrderedJoinNode,
    PaneAggregateNode,
    PlanNode,
    SharedSelectNode,
    StoredWindowNode,
)
from penstock.engine.plan.plan_parts import IncrementalNode

from .at_work import disconnect
from .pipeline import PlanAtWork
from .shared_join import SharedJoin
from .shared_panes import SharedPanes
from .shared_selects import SharedSelects
from .shared_windows import SharedWindows
from .shared_work import Key, SharedWork, Source
from .sub_plan import SubPlan

if TYPE_CHECKING:
    from .pipeline import Pipeline
    from .site import Site

Work = SharedWork[Any, Any]
W = TypeVar("W", bound=Work)

KINDS: dict[type[PlanNode], type[Work]] = {
    MemberNode: SharedJoin,
    SharedSelectNode: SharedSelects,
    PaneAggregateNode: SharedPanes,
    StoredWindowNode: SharedWindows,
}
"""By the node that asks for it; any other node of an answer that changes is a sub-plan."""


def kind_of(node: PlanNode, is_itself: bool) -> type[Work] | None:
    """The kind of work that a node asks for; None: an operator of the plan's own.

    is_itself: it is what others read of the plan.
    """
    if isinstance(node, IncrementalNode | OrderedJoinNode | FinalGroupNode) and not is_itself:
        return SubPlan
    return KINDS.get(type(node))


class Registry:
    """By kind, and by key; of those under one key the oldest first."""

    def __init__(self, site: Site) -> None:
        self._site = site
        kinds: list[type[Work]] = [*KINDS.values(), SubPlan]
        self._found: dict[str, dict[Key, list[Work]]] = {one.kind: {} for one in kinds}
        self._numbers: Counter[str] = Counter()
        self._given: list[SubPlan] = []
        """Those that have rows at hand for who comes before time goes on."""

    def read(self, node: PlanNode, number: int, plan: PlanAtWork, counting: bool) -> Source | None:
        """Let a plan read what it has in common with others under a node; None: that is its own.

        counting: only how many rows there are is asked for, where that can be counted.
        """
        kind = kind_of(node, plan.is_itself(number))
        if kind is None:
            return None
        key = kind.key_of(node, plan)
        for work in self._under(kind, key):
            work.get_ready()
        for work in self._under(kind, key):  # those that did not end by that
            source = self._admit(work, node, number, plan, counting)
            if source is not None:
                return source
        work = kind(self._site, node, plan)
        self._found[kind.kind].setdefault(key, []).append(work)
        source = self._admit(work, node, number, plan, counting)
        assert source is not None, "what begins suits its first reader"
        return source

    def _admit(
        self, work: Work, node: PlanNode, number: int, plan: PlanAtWork, counting: bool
    ) -> Source | None:
        reader = work.reader(node, number, plan, counting)
        source = work.admit(reader)
        if source is not None:
            plan.readings[number] = work, reader
            self._site.at_work.follow(work)
        return source

    def stop(self, pipeline: Pipeline) -> None:
        """Take out a query."""
        self._let_go(pipeline)
        self._site.at_work.forget(pipeline.own_operators)

    def _let_go(self, one: Pipeline | Work) -> None:
        """It reads nothing any more."""
        disconnect(one.taps)
        for reading in one.readings.values():
            self._leave(*reading)

    def _leave(self, work: Work, reader: Any) -> None:
        if reader in work.members:
            work.release(reader)
        if work.members:
            self._site.at_work.follow(work)
        elif work in (of_kind := self._found[work.kind]).get(work.key, ()):
            of_kind[work.key].remove(work)
            if not of_kind[work.key]:
                del of_kind[work.key]
            self._let_go(work)
            self._site.at_work.end(work)

    # -- what there is ------------------------------------------------------------------------------

    def _under(self, kind: type[Work], key: Key) -> list[Work]:
        return list(self._found[kind.kind].get(key, ()))

    def __iter__(self) -> Iterator[Work]:
        for of_kind in self._found.values():
            for works in of_kind.values():
                yield from works

    def of(self, kind: type[W]) -> list[W]:
        """All of one kind."""
        return [work for works in self._found[kind.kind].values() for work in works if isinstance(work, kind)]

    def has(self, kind: type[Work], key: Key) -> bool:
        """Whether work of a kind is at hand under a key."""
        return key in self._found[kind.kind]

    def number(self, kind: str) -> int:
        """For the name of one that begins."""
        self._numbers[kind] += 1
        return self._numbers[kind]

    # -- rows at hand -------------------------------------------------------------------------------

    def given(self, part: SubPlan) -> None:
        """A part has rows at hand."""
        self._given.append(part)

    def go_on(self) -> None:
        """Time goes on: what is at hand is of no use to who comes later."""
        while self._given:
            self._given.pop().go_on()

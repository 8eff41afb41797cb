"""The forms that a join which queries have in common can take.

fused      one WindowJoin: one probe for all slices
loose      fused, or a WindowJoin per query while that costs less
push-down  one stream split by predicate, a WindowJoin per part, a union per query
chain      the slices as operators of their own, joined by queues

A join of more than two streams is one ManyJoin, whatever the strategy.

Members come and go at any moment between two steps; who stays notices nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Queue
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonJoin, CommonManyJoin, MemberNode
from penstock.engine.rows.types import SqlType

from .choose_layout import ChooseLayout
from .join_maker import JoinMaker

if TYPE_CHECKING:
    from penstock.engine.many_joins.many_join import ManyJoin

OnFailure = Callable[[Member, Exception], None]


class Form(Protocol):
    """How a common join runs."""

    members: list[Member]

    @property
    def operators(self) -> Sequence[Operator]:
        """Sources first; may change when members do."""

    def add(self, member: Member) -> None: ...

    def drop(self, member: Member) -> None: ...

    def alter(self, member: Member, node: MemberNode) -> None: ...

    def refresh(self) -> bool:
        """Take changes of the members into account now; True if there are other operators."""

    def settle(self) -> None:
        """Bring the counts of members that only count up to date."""


class FusedForm:
    """One operator for all."""

    def __init__(self, join: WindowJoin | ManyJoin) -> None:
        self.join = join
        self.members = join.members
        self.operators: Sequence[Operator] = (join,)
        self.add, self.drop, self.alter, self.settle = join.add, join.drop, join.alter, join.settle

    def refresh(self) -> bool:
        self.join.refresh()
        return False


def build_form(
    strategy: str,
    common: CommonJoin,
    types: tuple[Sequence[SqlType], Sequence[SqlType]],
    queues: tuple[Queue, Queue],
    name: str,
    choose_layout: ChooseLayout,
    on_failure: OnFailure,
    changed: Callable[[], None],
) -> Form:
    """A common join without members; `changed` is called when its operators are about to change."""
    if strategy.startswith("chain"):
        from penstock.engine.chain.chain import ChainGroup

        chain = ChainGroup(common, types, queues, name, on_failure, None, changed)
        if strategy != "chain":
            asked = chain.members, common, chain.sides, chain.head.rows_per_turn, chain.present_ends
            chain.ends = partial(choose_layout.chain_ends, *asked)
        return chain
    make = JoinMaker(common, types, queues, name, choose_layout, on_failure)
    if strategy == "push-down":
        from .push_down import PushDown

        return PushDown(make, changed)
    if strategy == "auto":
        from .together_or_apart import TogetherOrApart

        return TogetherOrApart(make, changed)
    return FusedForm(make.whole())


def build_many(
    strategy: str,
    common: CommonManyJoin,
    types: Sequence[Sequence[SqlType]],
    queues: Sequence[Queue],
    name: str,
    on_failure: OnFailure,
) -> Form:
    """A common join of three or more streams without members."""
    from penstock.engine.many_joins.many_join import ManyJoin  # a query that does without starts faster

    return FusedForm(ManyJoin(common, types, queues, name, strategy, on_failure))

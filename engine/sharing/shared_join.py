"""A window join that queries have in common, in one of the forms it can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.join_forms.form import Form, build_form, build_many
from penstock.engine.joins.window_join import WindowJoin
from penstock.engine.members.member import Member
from penstock.engine.plan.plan import CommonManyJoin, MemberNode
from penstock.engine.rows.batch import Batch

from .shared_work import Key, SharedWork, Source

if TYPE_CHECKING:
    from .pipeline import PlanAtWork
    from .site import Site


class SharedJoin(SharedWork[MemberNode, Member]):
    """Under what its queries' joins have in common."""

    kind: ClassVar[str] = "joins"

    @staticmethod
    def key_of(node: MemberNode, owner: PlanAtWork) -> Key:
        return node.common

    def __init__(self, site: Site, node: MemberNode, owner: PlanAtWork) -> None:
        super().__init__(site, node, owner)
        common = self.common = node.common
        streams = [site.streams[side.stream] for side in common.sides]
        types = [stream.schema.types for stream in streams]
        self.taps = [site.tap(stream.schema.name) for stream in streams]
        queues = [queue for _, queue in self.taps]
        self.name = common.owner or f"join {site.shared.number(self.kind)}"
        self.strategy = common.strategy or site.strategy
        self.form: Form
        if isinstance(common, CommonManyJoin):
            self.form = build_many(self.strategy, common, types, queues, self.name, site.fail_reader)
        else:
            self.form = build_form(
                self.strategy, common, (types[0], types[1]), (queues[0], queues[1]), self.name,
                site.choose_layout, site.fail_reader, self.refresh,
            )  # fmt: skip

    @property
    def members(self) -> list[Member]:
        return self.form.members

    @property
    def own_operators(self) -> Sequence[Operator]:
        return self.form.operators

    @property
    def joins(self) -> list[WindowJoin]:
        return [operator for operator in self.form.operators if isinstance(operator, WindowJoin)]

    def reader(self, node: MemberNode, number: int, owner: PlanAtWork, counting: bool) -> Member:
        member = Member(owner, counting, node)
        member.come_at(self._starts())
        return member

    def admit(self, reader: Member) -> Source:
        self.form.add(reader)
        return Source(reader.output)

    def release(self, reader: Member) -> None:
        self.form.drop(reader)

    def change(self, reader: Member, node: MemberNode) -> bool:
        reader.come_at(self._starts())
        self.form.alter(reader, node)
        return True

    def content(self, reader: Member, at: int, standing: bool = False) -> Batch | None:
        return None  # the pairs are passed on and kept by nobody

    def exact_from(self, reader: Member) -> int | None:
        self.refresh()
        return reader.complete_from

    def refresh(self) -> None:
        """It may have other operators then."""
        if self.form.refresh():
            self._site.at_work.follow(self)

    def settle(self) -> None:
        self.form.settle()

    def facts(self) -> dict[str, Any]:
        return {"strategy": self.strategy}

    def _starts(self) -> list[int]:
        """How far its streams have come; BEGINNING for one that had no rows."""
        streams = [self._site.streams[side.stream] for side in self.common.sides]
        return [stream.output.punctuation if stream.rows_in else BEGINNING for stream in streams]

"""Work that queries share: the one contract of joins, selects, windows, panes and equal sub-plans.

A query's plan is walked from its root. A node that others may have too is not built but read: under its key
lies what is at work already, or it is begun; a reader is let in; and when the last one has gone, it ends.

    node ── key ── at work? ── yes ──────────┐
                      └ no ── begun ──── reader ── admitted ── where its rows go out, what it finds at once
                                             └──── released ── nobody left: ended

Kept: its operators, its readers, where it reads streams. Whoever shares what is known by its kind alone, and
the registry (registry.py), which is the only one to ask for a kind, by the node.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.members.reader import Reader
from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import CommonJoin, CommonManyJoin, CommonPanes, PlanNode
from penstock.engine.rows.batch import Batch

if TYPE_CHECKING:
    from .pipeline import Pipeline, PlanAtWork
    from .site import Site

R = TypeVar("R", bound=Reader)
N = TypeVar("N")

Key: TypeAlias = (
    CommonJoin | CommonManyJoin | CommonPanes | str | tuple[str, bool] | tuple[Approach, PlanNode]
)
"""What work is found by; equal means in common."""
Reading: TypeAlias = "tuple[SharedWork[Any, Any], Reader]"
"""What a plan reads that others may read too, and its share in that."""


class Source(NamedTuple):
    """Where rows come from; and what is there at once of those that came before, as rows that enter now."""

    outlet: Outlet
    held: Batch | None = None


class SharedWork(ABC, Generic[N, R]):
    """For nodes of one kind `N`, readers of one kind `R`."""

    kind: ClassVar[str]
    """For stats and tests."""
    name: str
    key: Key
    taps: list[tuple[Outlet, Queue]]
    """Where it reads what others give, until it ends."""
    readings: dict[int, Reading]
    """What it reads of others' itself, by the number of the node."""

    # -- found, begun -------------------------------------------------------------------------------

    def __init__(self, site: Site, node: N, owner: PlanAtWork) -> None:
        """Begin, without readers."""
        self._site = site
        self.key = self.key_of(node, owner)
        self.taps, self.readings = [], {}

    @staticmethod
    @abstractmethod
    def key_of(node: N, owner: PlanAtWork) -> Key: ...

    def get_ready(self) -> None:
        """Somebody comes: work off what came before, if a reader must not get that; it may fail on it."""

    # -- readers ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def members(self) -> Sequence[R]:
        """Its readers, in the order in which they came."""

    @abstractmethod
    def reader(self, node: N, number: int, owner: PlanAtWork, counting: bool) -> R:
        """The share of a plan that has this node under this number."""

    @abstractmethod
    def admit(self, reader: R) -> Source | None:
        """Let a reader in, from the next row on; None: another one under the same key may suit it, this one
        does not. One that begins now suits its first reader."""

    @abstractmethod
    def release(self, reader: R) -> None:
        """Let one of its readers go."""

    def change(self, reader: R, node: N) -> bool:
        """Let a reader go on with another node under the same key, in place; False: it cannot."""
        return False

    @abstractmethod
    def content(self, reader: R, at: int, standing: bool = False) -> Batch | None:
        """What the reader's output holds now, between two pushes, all rows at one time; None: nobody knows.

        standing: only what does not leave by itself.
        """

    @abstractmethod
    def exact_from(self, reader: R) -> int | None:
        """From when on a reader lacks nothing, BEGINNING if it never did; None: as soon as its owner."""

    # -- while it works -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def own_operators(self) -> Sequence[Operator]:
        """Sources first; may change when members do."""

    def refresh(self) -> None:
        """Take changes of the members into account now."""

    def settle(self) -> None:
        """Bring the counts of readers that only count up to date."""

    def end(self) -> None:
        """Hopping readers have been told of their last boundaries."""

    def behind(self, operator: Operator) -> list[Operator]:
        """The operators that work with what one of its own has given."""
        own = list(self.own_operators)
        return own[own.index(operator) + 1 :]

    @property
    def all_operators(self) -> Sequence[Operator]:
        """The same with those of what it alone reads itself."""
        return self.own_operators

    @property
    def plans(self) -> Iterator[PlanAtWork]:
        """The plans that it runs, those that others read first."""
        return iter(())

    # -- who asks -----------------------------------------------------------------------------------

    @property
    def queries(self) -> list[Pipeline]:
        """The queries that read it, each once."""
        return queries_of(self.members)

    @property
    def is_common(self) -> bool:
        """Whether several read it."""
        return len(self.members) > 1

    def facts(self) -> dict[str, Any]:
        """What stats say of it besides who reads it and what its operators do."""
        return {"strategy": self.kind}

    def _check(self) -> None:
        self.refresh()
        for operator in self.own_operators:
            operator._check()


def queries_of(readers: Sequence[Reader]) -> list[Pipeline]:
    """The queries that some readers are for, each once."""
    found: dict[Any, None] = {}
    for reader in readers:
        found |= dict.fromkeys(reader.owner.queries)
    return list(found)


def every_reading(readings: Mapping[int, Reading]) -> Iterator[Reading]:
    """All that is read, also through others, from below; what is read twice comes twice."""
    for work, reader in readings.values():
        yield from every_reading(work.readings)
        yield work, reader

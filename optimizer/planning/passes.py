"""The passes from a bound query to the plan that runs, each with the reason for its place.

Those before `share_windows` look at one query and are made when it is asked for; `share_windows` looks at who
else is at work, and is made when it begins. Each but `make_nodes` may be left out by name
(`Engine(without=...)`): the plan that comes out gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from penstock.engine.plan.approach import Approach
from penstock.engine.plan.plan import PlanNode
from penstock.engine.plan.plan_parts import keeps_rows
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import Weights
from penstock.optimizer.plan.decided import Decided
from penstock.optimizer.plan.plan_query import Planned, plan_query
from penstock.optimizer.rewrite import prune_columns as columns
from penstock.optimizer.share import share_joins as joins
from penstock.optimizer.share import share_selects as selects
from penstock.optimizer.tree.logical import Query

from .forced import Forced


class Others(Protocol):
    """The other queries at work."""

    def is_met(self, streams: frozenset[str], readers: frozenset[PlanNode]) -> bool:
        """Whether others keep windows over one of these streams, and not just those that it has."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What an engine was told and knows, whatever the query."""

    rates: Rates
    weights: Weights
    usual: Forced
    optimize: str
    panes: bool
    multiway: bool
    without: frozenset[str]
    evict: str
    others: Others


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, what is forced of it, and how it is to run if that has been decided."""

    query: Query
    name: str
    counting: bool
    forced: Forced
    approach: Approach
    decided: Decided | None = None

    @property
    def owner(self) -> str | None:
        """The query, if it is to share with nobody."""
        return self.name if self.forced.sharing == "unshared" else None


class Draft(NamedTuple):
    """A plan on its way, or that of a query alone."""

    setting: Setting
    asked: Asked
    made: Planned | None = None
    """None: there are no nodes yet."""

    @property
    def plan(self) -> Planned:
        assert self.made is not None, "expected nodes, found a query: make_nodes has not been"
        return self.made

    @property
    def node(self) -> PlanNode:
        return self.plan.node

    def with_node(self, node: PlanNode) -> Draft:
        return self._replace(made=replace(self.plan, node=node))


def decide_hopping(draft: Draft) -> Draft:
    """The order of a hopping query's joins, the places of its differences, the modes of its operators."""
    setting, asked = draft.setting, draft.asked
    if asked.query.hop is None or asked.decided is not None:
        return draft
    from penstock.optimizer.hopping.optimize_hopping import HoppingOptimizer, strategy_of

    optimizer = HoppingOptimizer(setting.rates, setting.weights, strategy_of(setting.optimize))
    by_panes = setting.panes and asked.approach != "nta"
    return draft._replace(asked=replace(asked, decided=optimizer(asked.query, asked.forced.modes, by_panes)))


def make_nodes(draft: Draft) -> Draft:
    """From the tree of the query to the nodes that the engine runs."""
    setting, asked = draft.setting, draft.asked
    made = plan_query(
        asked.query,
        asked.counting,
        asked.approach,
        asked.forced.modes,
        asked.forced.execution,
        asked.decided,
        panes=setting.panes,
        multiway=setting.multiway,
        owner=asked.owner,
        evict=setting.evict,
    )
    return draft._replace(made=made)


def prune_columns(draft: Draft) -> Draft:
    """Columns that nobody reads are left behind at the stream."""
    return draft.with_node(columns.prune_columns(draft.node))


def share_joins(draft: Draft) -> Draft:
    """Joins in a normal form in which equal means common; left out, each query has its own."""
    forced, usual = draft.asked.forced, draft.setting.usual
    is_alone = "share_joins" in draft.setting.without
    form = joins.JoinForm.of(
        draft.asked.name,
        "unshared" if is_alone else forced.sharing,
        forced.index,
        (usual.sharing, usual.index),
    )
    return draft.with_node(joins.share_joins(draft.node, form))


def share_selects(draft: Draft) -> Draft:
    """Filters and outputs over a stream, run together with those of others."""
    return draft.with_node(selects.share_selects(draft.node, draft.asked.owner))


def share_windows(draft: Draft) -> Draft:
    """Rows of windows kept together with those of others; not so if it is alone, and better off alone."""
    plan = draft.plan
    if draft.asked.owner is not None or plan.approach != "promises":
        return draft
    if not keeps_rows(plan.node):
        return draft
    from penstock.optimizer.share import share_windows as windows

    shared = windows.share_windows(plan.node)
    met = draft.setting.others.is_met(windows.shared_streams(shared), windows.readers_of(plan.node))
    return draft.with_node(shared) if met or not windows.is_better_alone(shared) else draft


class Pass(NamedTuple):
    """One step, and why it is where it is."""

    run: Callable[[Draft], Draft]
    reason: str
    with_others: bool = False
    """Whether it looks at who else is at work, so that it is for when the query begins."""
    always: bool = False
    """Whether it is done even if left out: it sees to that itself, or nothing runs without it."""

    @property
    def name(self) -> str:
        return self.run.__name__


PASSES = (
    Pass(decide_hopping, "first: it turns the tree itself, and all others take what comes of that"),
    Pass(make_nodes, "before all that looks at nodes", always=True),
    Pass(prune_columns, "before what is shared is found: it is told apart by the columns that are read"),
    Pass(share_joins, "before share_selects, which takes those selects that no join has taken", always=True),
    Pass(share_selects, "before share_windows, which keeps rows as the selects below windows give them"),
    Pass(share_windows, "last, and when the query begins: it depends on who is there then", with_others=True),
)
OPTIONAL = tuple(one.name for one in PASSES if one.run is not make_nodes)
"""Those that may be left out."""

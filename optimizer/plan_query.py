"""From what a query asks for to a plan the engine can run; what cannot be run yet is refused by name."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.build_operator import Approach
from penstock.engine.errors import UnsupportedError
from penstock.engine.operators.sink import Netting
from penstock.engine.plan import PlanNode

from .choose_indexes import IndexChooser
from .logical import Position, Query
from .plan_changes import plan_changes
from .plan_streams import is_plain, plan_node
from .prune_columns import prune_columns


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, how its operators hear of expiry, and which of its changes can cancel each other."""

    node: PlanNode
    approach: Approach = "promises"
    netting: Netting = "none"


def plan_query(
    query: Query,
    choose: IndexChooser,
    counting: bool,
    approach: Approach = "promises",
    *,
    panes: bool = True,
    owner: str | None = None,
) -> Planned:
    """The plan of a bound query; `counting`: only how many rows there are is asked, not what is in them.

    panes: whether hopping aggregates may run by panes. owner: the query, if it is to share with nobody.
    """
    if query.hop is not None and approach != "nta":
        approach = "promises"  # a hop's answer is complete when it is given
    if is_incremental(query):
        panes = panes and approach != "nta"
        plan = plan_changes(query, choose, counting, approach, panes, owner)
        return Planned(prune_columns(plan.node), approach, plan.netting)
    return Planned(prune_columns(plan_node(query.root, choose, counting)))


def is_incremental(query: Query) -> bool:
    """Whether rows also leave its answer, or its operators keep what has to leave."""
    return query.emit != "inserts" or not is_plain(query.root)


def refuse_alter(query: Query, position: Position) -> None:
    """Windows of a query that has given rows it may have to take back cannot be changed yet."""
    if is_incremental(query):
        raise refused("ALTER QUERY of a query that is evaluated incrementally", position)


def refused(what: str, position: Position) -> UnsupportedError:
    return UnsupportedError(f"{what} is not supported yet", line=position.line, column=position.column)

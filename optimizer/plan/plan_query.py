"""From what a query asks for to a plan the engine can run; what cannot be run yet is refused by name.

Planners of incremental and hopping queries are loaded when the first of those comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.plan.approach import Approach, Netting
from penstock.engine.plan.plan import PlanNode
from penstock.engine.plan.plan_parts import plan_types
from penstock.engine.plan.tellable import is_known
from penstock.engine.rows.errors import UnsupportedError
from penstock.optimizer.tree.logical import Position, Query

from .modes import Forced
from .plan_streams import is_plain, plan_node
from .refuse_unbounded import refuse_unbounded

if TYPE_CHECKING:
    from .decided import Decided


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, how its operators hear of expiry, and which of its changes can cancel each other."""

    node: PlanNode
    approach: Approach = "promises"
    netting: Netting = "none"
    decided: Decided | None = None
    """Of a hopping query, if its plan was chosen by cost."""


def plan_query(
    query: Query,
    counting: bool,
    approach: Approach = "promises",
    modes: Forced = "auto",
    execution: str = "waat",
    decided: Decided | None = None,
    *,
    panes: bool = True,
    multiway: bool = True,
    owner: str | None = None,
    evict: str = "key",
) -> Planned:
    """The plan of a bound query; `counting`: only how many rows there are is asked, not what is in them.

    modes, execution: of the operators of a hopping query, as they are forced; decided: how it is to run.
    panes: whether hopping aggregates may run by panes. multiway: whether three or more streams may be joined
    as one. owner: the query, if it is to share with nobody. evict: when rows of joins without windows go.
    """
    refuse_unbounded(query)
    if query.hop is not None:
        from .plan_hopping import Panes, plan_hopping

        approach = "nta" if approach == "nta" else "promises"  # a hop's answer is complete when it is given
        by_panes = Panes(panes and approach != "nta", owner)
        plan = plan_hopping(query, counting, approach, modes, execution, decided, by_panes)
        return Planned(plan.node, approach, plan.netting, decided)
    if is_incremental(query, multiway):
        from .plan_changes import plan_changes

        plan = plan_changes(query, counting, approach, multiway, evict)
        return Planned(plan.node, approach, plan.netting)
    return Planned(plan_node(query.root, counting, evict))


def is_incremental(query: Query, multiway: bool) -> bool:
    """Whether rows also leave its answer, or its operators keep what has to leave."""
    return query.emit not in ("inserts", "final") or not is_plain(query.root, multiway)


def refuse_alter(query: Query, plans: Sequence[PlanNode], counting: bool, position: Position) -> None:
    """plans: all that it may have, before and after.

    Windows cannot be changed if what has been given, and may have to be taken back, is not known."""
    if query.emit not in ("changes", "delta"):
        return
    if counting and any(len(plan_types(plan)) < len(query.fields) for plan in plans):
        raise refused("ALTER QUERY of a query that counts rows without looking at them", position)
    if not all(map(is_known, plans)):
        raise refused(
            "ALTER QUERY of a query whose answer nobody keeps, as of an UNBOUNDED window,", position
        )


def refused(what: str, position: Position) -> UnsupportedError:
    return UnsupportedError(f"{what} is not supported yet", line=position.line, column=position.column)

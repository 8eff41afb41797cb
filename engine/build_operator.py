"""Operators for the plan nodes of incremental queries, and how they hear of expiry.

Each kind is imported when it is first asked for: a query that does without starts faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .known_time import Learning
from .operator import Operator
from .operators.arrive import Arrive, Lifetime
from .plan import (
    AggregateNode,
    ArriveNode,
    ChangeJoinNode,
    ExpireNode,
    LifetimeNode,
    TallyNode,
    plan_types,
)
from .queue import Queue

Approach = Literal["promises", "ita", "nta", "time-message", "piggyback"]
"""How a query hears that rows have left their windows. promises: with every promise of its inputs."""

IncrementalNode = ArriveNode | LifetimeNode | ExpireNode | ChangeJoinNode | AggregateNode | TallyNode


@dataclass(frozen=True, slots=True)
class Hearing:
    """What an approach means for operators and queues."""

    learning: Learning
    messages: bool
    piggyback: bool


HEARING: dict[Approach, Hearing] = {
    "promises": Hearing("promises", False, False),
    "nta": Hearing("promises", False, False),
    "ita": Hearing("rows", False, False),
    "time-message": Hearing("messages", True, False),
    "piggyback": Hearing("messages", True, True),
}


def build_operator(
    node: IncrementalNode, queues: tuple[Queue, ...], name: str, approach: Approach
) -> Operator:
    """The operator of a node, reading these queues."""
    hearing = HEARING[approach]
    for queue in queues:
        queue.piggyback = hearing.piggyback
    match node:
        case ArriveNode() if node.window.kind == "rows":
            from .operators.rows_window import RowsWindow

            assert node.window.size is not None, "a ROWS window has a size"
            return RowsWindow(node.window.size, node.partition, queues[0], plan_types(node.input), name)
        case ArriveNode():
            return Arrive(node.window.size, queues[0], name, hearing.messages, node.hops)
        case LifetimeNode():
            return Lifetime(node.sizes, queues[0], name, hearing.messages, node.hops)
        case ExpireNode():
            from .operators.expire import Expire

            return Expire(node, queues[0], plan_types(node.input), name, hearing.learning)
        case ChangeJoinNode():
            from .operators.change_join import ChangeJoin

            types = plan_types(node.left), plan_types(node.right)
            pair = queues[0], queues[1]
            return ChangeJoin(node, pair, types, name, hearing.learning, hearing.messages)
        case AggregateNode():
            from .operators.group_by import GroupBy

            return GroupBy(node, queues[0], plan_types(node.input), name, hearing.learning)
        case TallyNode():
            from .operators.tally import Tally

            return Tally(node, queues, plan_types(node.inputs[0]), name, hearing.learning)

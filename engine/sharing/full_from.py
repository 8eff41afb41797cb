"""When a part of an incremental query holds all it would hold had it always been there.

RANGE 5, began at 20, without the rows before      full at 25
ROWS 3                                             when three rows have come
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.hopping.whole_window import WholeWindow
from penstock.engine.plan.plan import (
    ArriveNode,
    FinalGroupNode,
    LifetimeNode,
    OrderedJoinNode,
    SelectNode,
    SourceNode,
    WholeWindowNode,
)
from penstock.engine.rows.window import MAX_TS
from penstock.engine.windows.rows_window import RowsWindow

if TYPE_CHECKING:
    from .sub_plan import SubPlan


def full_from(part: SubPlan, start: int, is_late: bool) -> int:
    """MAX_TS: not yet, or never. is_late: it was there before its reader came, at `start`."""
    node = part.plan
    if isinstance(node, LifetimeNode):  # pairs of rows that were both there before
        sizes = [size for size in node.sizes if size is not None]
        return start + min(sizes) if sizes else MAX_TS
    if 0 in part.readings:
        work, reader = part.readings[0]
        since = work.exact_from(reader)
        return start if since is None else max(start, since)
    if isinstance(node, OrderedJoinNode | FinalGroupNode):
        return ordered_from(part, start)
    if not isinstance(node, ArriveNode | WholeWindowNode):
        return start
    below = node.input.input if isinstance(node.input, SelectNode) else node.input
    if not is_late and (not isinstance(below, SourceNode) or below.stream not in part.started):
        return start
    if node.window.kind == "range":
        since = start if is_late or part.rows_since is None else part.rows_since
        return MAX_TS if node.window.size is None else since + node.window.size
    operator = part.operators[0]
    assert isinstance(operator, RowsWindow | WholeWindow), "a ROWS window is kept by one of these"
    return MAX_TS if operator.filled is None else operator.filled


def ordered_from(part: SubPlan, start: int) -> int:
    """When a join without windows, or groups of keys that grow, lack nothing of what came before."""
    from penstock.engine.ordered_keys.facts import exact_from

    since = exact_from(part.operators[0])
    return MAX_TS if since is None else max(start + 1, since)

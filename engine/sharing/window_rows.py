"""The rows of a stream that are kept for one window, for another window that starts.

Rows of a RANGE window are kept by whoever reads it. An Expire that reads nothing else has all of them, as
they came, and their ts with their ends. So a window over the same rows, shorter or longer, can begin with
them:

    RANGE 5     the rows of the last 5 are there
    RANGE 2     is full at once
    RANGE 9     is full 4 later

Its readers are told that they enter now, with the ends they have in the new window.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from penstock.engine.changes.expire import Expire
from penstock.engine.plan.plan import ArriveNode, SourceNode
from penstock.engine.plan.plan_parts import plan_nodes
from penstock.engine.rows.batch import Batch

from .pipeline import PlanAtWork
from .sub_plan import PartReader, SubPlan

WINDOW = 1
"""The number of a window in the plan of an Expire that reads nothing else."""


def window_rows(node: ArriveNode, parts: Iterable[SubPlan], now: int, at: int) -> tuple[Batch, int] | None:
    """What a new window can begin with, and since when it then has all rows; None: nobody keeps any.

    now: how far the stream has come; at: the time to be given to the rows.
    """
    best: tuple[Batch, int] | None = None
    for part in parts:
        other = part.plan
        if not isinstance(other, ArriveNode) or not is_like(node, other):
            continue
        for reader in part.members:
            since = rows_since(part, reader, now)
            if best is not None and since >= best[1]:
                continue
            kept = rows_of(reader.owner, part)
            if kept is None:
                continue
            assert node.window.size is not None and other.window.size is not None
            ends = kept.ends - other.window.size + node.window.size
            there = np.flatnonzero(ends > at)
            rows = kept.take(there)
            best = Batch(np.full(len(there), at), rows.lazy_columns, None, ends[there]), since
    return best


def is_like(node: ArriveNode, other: ArriveNode) -> bool:
    """Whether both are bounded RANGE windows over the same rows."""
    return other.input == node.input and all(
        one.window.kind == "range" and one.window.size is not None and one.hops is None
        for one in (node, other)
    )


def rows_since(part: SubPlan, reader: PartReader, now: int) -> int:
    """A reader of a window has all rows with a later ts."""
    assert isinstance(part.plan, ArriveNode) and part.plan.window.size is not None
    (stream,) = (node.stream for node in plan_nodes(part.plan) if isinstance(node, SourceNode))
    begun = part.started.get(stream) if part.rows_since is None else part.rows_since
    begun = begun if reader.late is None else reader.late
    held = now - part.plan.window.size
    return held if begun is None else max(begun, held)


def rows_of(user: PlanAtWork, window: SubPlan) -> Batch | None:
    """The rows of a window that one of its readers keeps, with their ends, if that is all of them."""
    operator = user.operators.get(0)
    if isinstance(operator, Expire) and reads(user, window) and not operator.inputs[0].batches:
        return operator.kept()
    return None


def reads(user: PlanAtWork, window: SubPlan) -> bool:
    return WINDOW in user.readings and user.readings[WINDOW][0] is window

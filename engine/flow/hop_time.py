"""How time passes from boundary to boundary: which ones are over when queues have come so far (hops.py)."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.rows.hops import Hops
from penstock.engine.rows.window import FOREVER

from .queue import BEGINNING, Outlet, Queue


def last_over(hops: Hops, *queues: Queue) -> int:
    """The last boundary of which all rows of all queues have come; BEGINNING if there is none yet.

    Where the input has ended that is the one which sees its last rows.
    """
    reached = FOREVER
    for queue in queues:
        if queue.punctuation <= BEGINNING:
            return BEGINNING
        reached = min(reached, hops.known(queue.punctuation, queue.closed))
    return reached


def pass_boundaries(hops: Hops, queues: Sequence[Queue], output: Outlet, early: bool = False) -> bool:
    """All rows of the queues are worked up to the last boundary that is over: promise that, and the end.

    early: rows of the next boundary may have been passed on already; nothing below it follows.
    """
    reached = last_over(hops, *queues)
    is_closed = all(queue.closed for queue in queues)
    worked = False
    if reached > BEGINNING:
        promised = reached + hops.size if early and not is_closed else reached + 1
        worked = promised > output.punctuation
        output.promise(promised)
    if is_closed and not output.closed:
        for queue in queues:
            queue.clear()  # what comes after the last boundary is never seen
        output.close()
        worked = True
    return worked

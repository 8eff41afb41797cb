"""A Python process of Spark's, once it has all it needs: what is there then is not gone over again.

PySpark collects garbage after every task. All that numba, pyarrow and our kernels have made, some hundred
thousand objects that stay, would be looked at each time; that took longer than the tasks. `gc.freeze` sets
them aside. It is done once for each kind of task, when the first of it has loaded what it uses, and only
where Spark runs a task: never in a process of the user's.

An engine that were there then would be set aside too, and never collected when it is let go. So who keeps
engines keeps none of that first task.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

_settled: set[str] = set()
"""The kinds of tasks that this process has done."""


def is_settled(kind: str) -> bool:
    """Whether there is nothing to do, as the process has done such a task or is none of Spark's."""
    return kind in _settled or TaskContext.get() is None


def settle(kind: str) -> None:
    """The first task of this kind has done its work."""
    if not is_settled(kind):
        _settled.add(kind)
        gc.collect()
        gc.freeze()

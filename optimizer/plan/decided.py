"""Who chooses the plan of a hopping query by cost, as the planner knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.optimizer.tree.logical import Query

from .modes import Forced, Mode


class Decided(Protocol):
    """What was chosen: the query as it is to run, and the modes of its operators."""

    @property
    def query(self) -> Query: ...

    @property
    def modes(self) -> Mapping[int, Mode]: ...


Decide = Callable[[Query, Forced, bool], Decided]
"""Chooses the plan of a query: forced modes, and whether there may be panes, are given."""

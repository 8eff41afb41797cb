"""How a hopping query is to run, as the planner knows it; chosen in `hopping`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.optimizer.tree.logical import Query

from .modes import Mode


class Decided(Protocol):
    """What was chosen: the query as it is to run, and the modes of its operators."""

    @property
    def query(self) -> Query: ...

    @property
    def modes(self) -> Mapping[int, Mode]: ...

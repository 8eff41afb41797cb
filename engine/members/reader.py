"""One query's share in work that queries have in common: what all kinds of it know of a reader.

It names its owner, the plan at work that reads: a query's, or a sub-plan's that several queries read. Who
asks is asked of that; names are for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.engine.flow.queue import Outlet


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Owner(Protocol):
    """A plan at work."""

    name: str

    @property
    def queries(self) -> Sequence[Named]:
        """The queries it works for, each once."""


@dataclass(eq=False)
class Reader:
    """counting: only the number of rows is asked for, and nothing is passed on."""

    owner: Owner
    counting: bool
    output: Outlet = field(default_factory=Outlet, kw_only=True)
    found: int = field(default=0, kw_only=True)
    """Rows so far, as far as they have been settled."""

    def go_to(self, owner: Owner) -> None:
        """Its plan goes on as another one."""
        self.owner = owner

    def give_to(self, output: Outlet) -> None:
        """What it is given goes out there."""
        self.output = output

    @property
    def name(self) -> str:
        return self.owner.name

    @property
    def queries(self) -> list[str]:
        """The queries it is for."""
        return [one.name for one in self.owner.queries]

    @property
    def query(self) -> str:
        """The first of them, for people."""
        return next(iter(self.queries), self.name)

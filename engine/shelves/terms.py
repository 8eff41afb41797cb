"""What the members of a join ask of one of its streams, as it is until members change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.typing import NDArray

from penstock.engine.expressions.expression import Expression
from penstock.engine.members.join_layout import JoinLayout
from penstock.engine.members.lineage import Lineage
from penstock.engine.members.member import Member
from penstock.engine.restoring.in_order import expect, rising


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Made when members have changed (side.py).

    size: the greatest window of any member.
    allowed_ends: ages at which rows may leave, in order; None: any.
    is_uniform: all members ask for `predicate`, and nothing else is kept with rows.
    lineage: of what they ask if they ask for different things.
    births_matter: rows that lack columns are there, and are not for everybody.
    newcomers: those that the change let in.
    """

    size: int = 0
    allowed_ends: NDArray | None = None
    is_uniform: bool = True
    predicate: Expression | None = None
    lineage: Lineage = field(default_factory=lambda: Lineage(()))
    births_matter: bool = False
    layout: JoinLayout = field(default_factory=lambda: JoinLayout(("scan", "scan")))
    newcomers: Sequence[Member] = ()

    def _check_restored(self) -> None:
        expect(self.size >= 0, "the greatest window")
        if self.allowed_ends is not None:
            rising(self.allowed_ends, "ages at which rows leave")

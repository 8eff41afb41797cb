"""Who says how joins that queries have in common keep their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.engine.joins.window_join import WindowJoin
    from penstock.engine.members.join_layout import JoinLayout
    from penstock.engine.members.member import Member
    from penstock.engine.plan.plan import CommonJoin
    from penstock.engine.shelves.side import Side


class ChooseLayout(Protocol):
    """Says how common joins should keep their rows, given their members and what was measured so far."""

    def __call__(self, join: WindowJoin) -> JoinLayout: ...

    def chain_ends(
        self,
        members: Sequence[Member],
        common: CommonJoin,
        sides: tuple[Side, Side],
        rows_per_turn: Callable[[], float | None],
        present: Callable[[], Sequence[int]],
        windows: Sequence[int],
    ) -> Sequence[int]:
        """At which of the windows the slices of a chain end, the last among them.

        rows_per_turn: how many rows slices are given at once, None if none have come.
        present: where slices end now, if rows have come.
        """

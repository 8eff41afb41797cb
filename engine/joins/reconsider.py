"""When a join thinks over how it keeps its rows: once enough has come to go by, and when somebody asks.

members change  . . . asked . . . QUIET_ROWS rows without another change . . . due
"""

from __future__ import annotations

FIRST_ROWS = 2_048  # of both sides, before anything is known of them
QUIET_ROWS = 8_192  # after a change of members before what can wait is thought over: one pause, not two


class Reconsider:
    """Nothing has come yet."""

    def __init__(self) -> None:
        self.is_due = False
        """Whether how rows are kept is to be thought over now."""
        self.is_first_look = False
        """Whether enough has come just now: what can wait for more of it is not thought over."""
        self.was_seen = False
        """Whether enough rows have come to go by them."""
        self._is_asked = False
        self._quiet = 0
        """Rows since members came or went."""
        self._considered_for = 0
        """How many members there were when it was last thought over in full."""

    def ask(self) -> None:
        """Think it over before a batch soon; not when members have just changed."""
        self._is_asked = True

    def come(self, rows: int) -> None:
        """So many rows have come, and no member with them."""
        self._quiet += rows

    def stir(self) -> None:
        """Members have come or gone."""
        self._quiet = 0

    def look_at(self, rows: int) -> None:
        """So many rows have come in all."""
        if not self.was_seen and rows >= FIRST_ROWS:
            self.was_seen = self.is_first_look = True

    def begin(self) -> bool:
        """Whether it is time to think."""
        self.is_due = self._is_asked and self._quiet >= QUIET_ROWS
        return self.is_due or self.is_first_look

    def end(self) -> None:
        """It has been thought over."""
        self._is_asked = self._is_asked and not self.is_due
        self.is_first_look = False

    def think_over(self, members: int) -> bool:
        """Whether enough has changed to think it over in full, for so many members: that is done then."""
        before = self._considered_for
        is_enough = self.is_due or abs(members - before) > before // 8
        if is_enough:
            self._considered_for = members
        return is_enough

    def go_on_for(self, former: Reconsider) -> None:
        """Know what another join of the same streams knew of members that are here now."""
        self._considered_for = max(self._considered_for, former._considered_for)

    def take_over(self, former: Reconsider) -> None:
        """The rows that another join has seen are those of this one."""
        self.was_seen = former.was_seen

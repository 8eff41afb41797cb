"""How a shared join is laid out while it runs: slices, parts, or a join for each query."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from penstock.engine.chain.chain import ChainGroup
from penstock.engine.join_forms.together_or_apart import TogetherOrApart
from penstock.engine.members.join_layout import LifetimeCut
from penstock.engine.members.member import Member
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.engine.shelves.side import Side

from .join_load import is_by_rows, seconds
from .sharing_words import write_size


class Layout:
    """A shared join as it runs: `ends` of the slices of each side, or its parts.

    Ages are in rows where windows of a side are ROWS windows, else in microseconds.
    """

    def __init__(self, shared_join: SharedJoin) -> None:
        self.shared_join = shared_join
        self.members = shared_join.members
        self.sides = sides_of(shared_join)
        self.by_rows = is_by_rows(self.members, 0), is_by_rows(self.members, 1)
        """By side: whether ages are in rows."""
        self.is_chain = isinstance(shared_join.form, ChainGroup)
        layouts = [join.layout for join in shared_join.joins]
        self.parts: list[LifetimeCut] = [one.part for one in layouts if one.part is not None]
        form = shared_join.form
        self.is_apart = isinstance(form, TogetherOrApart) and form.is_apart
        """Whether each query has a join for now."""
        self.keeps_all = not self.is_chain and not self.parts and not layouts[0].by_lifetime
        """Whether all rows are kept for the longest window."""
        self.ends = self._ends(0), self._ends(1)
        self.noun = "part" if self.parts else "slice"

    def _ends(self, number: int) -> list[int]:
        """Where the slices of a side end, ascending, the last at the longest window."""
        longest = self.longest(number)
        form = self.shared_join.form
        if self.keeps_all or self.parts:
            return [longest]
        if isinstance(form, ChainGroup):
            ends: Iterable[int] = [one.end for one in form.slices]
        else:
            merged = self.shared_join.joins[0].layout.ends[number]
            ends = {member.size(number) for member in self.members} if merged is None else merged
        return [*sorted(end for end in ends if end < longest), longest]

    def longest(self, number: int) -> int:
        return max(member.size(number) for member in self.members)

    @property
    def runs(self) -> str:
        """The strategy that runs, whatever was asked for."""
        strategy = self.shared_join.strategy
        if self.is_chain or strategy in ("mem-opt", "cpu-opt"):
            return strategy
        if self.parts:
            return "push-down"
        if self.is_apart:
            return "unshared"
        if self.keeps_all:
            return "pull-up"
        return "mem-opt" if self.shared_join.joins[0].layout.ends == (None, None) else "cpu-opt"

    @property
    def slice_ends(self) -> list[float] | None:
        """Where slices of a chain that may be merged end, in seconds; those of ROWS windows are never."""
        form = self.shared_join.form
        if self.runs != "chain-cpu" or not isinstance(form, ChainGroup):
            return None
        if any(self.by_rows):
            return None
        return [seconds(one.end, False, rate=1.0) for one in form.slices]

    @property
    def priced_as(self) -> str:
        """The strategy whose costs stand for what runs."""
        return "chain" if self.is_chain and self.slice_ends is None else self.runs

    def taken(self, member: Member, number: int) -> tuple[int, int, int]:
        """First and last slice or part that a member takes, counted from 1, and how many there are."""
        if self.parts:
            size = member.size(self.parts[0].side)
            first = next(at for at, part in enumerate(self.parts, 1) if part.up_to >= size)
            return first, len(self.parts), len(self.parts)
        ends = self.ends[number]
        return 1, bisect_left(ends, member.size(number)) + 1, len(ends)

    def taken_text(self, member: Member, number: int) -> str:
        """The same in words, and where in the last slice its window ends."""
        first, last, of = self.taken(member, number)
        text = f"{self.noun} {first}" if first == last else f"{self.noun}s {first} to {last}"
        size = member.size(number)
        is_inside = not self.parts and self.ends[number][last - 1] > size
        window = write_size(size, self.by_rows[number])
        until = f", {'the last ' if last > first else ''}up to {window}"
        return f"{text} of {of}{until if is_inside else ''}"


def sides_of(shared_join: SharedJoin) -> tuple[Side, Side]:
    """Left and right of a join at work; of a join in parts, those of its first part."""
    shared_join.refresh()
    return shared_join.form.sides if isinstance(shared_join.form, ChainGroup) else shared_join.joins[0].sides

"""The members of a join side by side: what each asks for, as arrays, so that nobody asks them one by one.

Made anew when members change, from the one before: among a thousand members one that comes, goes or has
other windows is added to the arrays, taken out of them or changed in them. The distinct predicates of a side
are numbered in the order in which they came; a lineage made of them has the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.expressions.expression import Expression
from penstock.engine.restoring.in_order import expect, within

from .member import Member

Predicates = tuple[list[Expression | None], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """sizes: int64[S, M], windows by side; numbers: int64[S, M], of their predicates.

    predicates: the distinct ones of each side, by number; counting: bool[M].
    """

    members: list[Member]
    sizes: NDArray
    numbers: NDArray
    predicates: Predicates
    counting: NDArray

    @classmethod
    def of(cls, members: Sequence[Member]) -> Roster:
        """From nothing."""
        sides = len(members[0].sizes) if members else 2
        numbers = np.empty((sides, len(members)), np.int64)
        predicates: Predicates = tuple([] for _ in range(sides))
        for side in range(sides):
            known: dict[Expression | None, int] = {}
            numbers[side] = [known.setdefault(one.predicates[side], len(known)) for one in members]
            predicates[side].extend(known)
        sizes = np.array([member.sizes for member in members], np.int64).reshape(-1, sides).T.copy()
        counting = np.array([member.counting for member in members], np.bool_)
        return cls(list(members), sizes, numbers, predicates, counting)

    def after(self, members: Sequence[Member]) -> Roster:
        """That of the members there are now: those here, but for some who came, went or changed."""
        old = self.members
        if not old:
            return Roster.of(members)
        new = [member for member in members if member.is_new]
        if not new and members == old:
            return self
        if len(members) == len(old) + 1 and new == members[-1:] and members[:-1] == old:
            return self._with(new[0])
        if len(members) == len(old) - 1 and not new:
            both = enumerate(zip(old, members, strict=False))
            at = next((i for i, (one, two) in both if one is not two), len(members))
            if old[at + 1 :] == members[at:]:
                return self._without(at)
        if len(new) == 1 and members == old:
            at = members.index(new[0])
            if all(
                known[number] == predicate
                for known, number, predicate in zip(
                    self.predicates, self.numbers[:, at].tolist(), new[0].predicates, strict=True
                )
            ):
                return self._altered(at)
        return Roster.of(members)

    def _with(self, member: Member) -> Roster:
        numbers, predicates = [], []
        for side, known in enumerate(self.predicates):
            places = {predicate: number for number, predicate in enumerate(known)}
            number = places.get(member.predicates[side], len(known))
            numbers.append(number)
            predicates.append([*known, member.predicates[side]] if number == len(known) else known)
        return Roster(
            [*self.members, member],
            np.hstack([self.sizes, np.array(member.sizes, np.int64)[:, None]]),
            np.hstack([self.numbers, np.array(numbers, np.int64)[:, None]]),
            tuple(predicates),
            np.append(self.counting, member.counting),
        )

    def _without(self, at: int) -> Roster:
        numbers = np.delete(self.numbers, at, axis=1)
        predicates = []
        for side, known in enumerate(self.predicates):
            gone = int(self.numbers[side, at])
            if not (numbers[side] == gone).any():
                known = [*known[:gone], *known[gone + 1 :]]
                numbers[side] -= numbers[side] > gone
            predicates.append(known)
        return Roster(
            [*self.members[:at], *self.members[at + 1 :]],
            np.delete(self.sizes, at, axis=1),
            numbers,
            tuple(predicates),
            np.delete(self.counting, at),
        )

    def _altered(self, at: int) -> Roster:
        """One has other windows and asks for the same rows."""
        sizes = self.sizes.copy()
        sizes[:, at] = self.members[at].sizes
        return Roster(list(self.members), sizes, self.numbers, self.predicates, self.counting)

    def take(self, where: NDArray) -> Roster:
        """Some of the members, by a mask; numbers stay those of all."""
        if where.all():
            return self
        members = [self.members[i] for i in np.flatnonzero(where).tolist()]
        return Roster(
            members, self.sizes[:, where], self.numbers[:, where], self.predicates, self.counting[where]
        )

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_selective(self) -> bool:
        """Whether members differ in which rows of a stream they need."""
        return any(len(known) > 1 for known in self.predicates)

    def _check(self) -> None:
        for at, member in enumerate(self.members):
            assert tuple(self.sizes[:, at].tolist()) == member.sizes, "a wrong window"
            assert bool(self.counting[at]) == member.counting, "a wrong kind of member"
            for side, known in enumerate(self.predicates):
                assert known[self.numbers[side, at]] == member.predicates[side], "a wrong predicate"
        for known in self.predicates:
            assert len(set(known)) == len(known), "a predicate with two numbers"

    def _check_restored(self) -> None:
        members, sides = len(self.members), len(self.predicates)
        for one in (self.sizes, self.numbers):
            expect(one.shape == (sides, members), "something of each member and side")
        expect(len(self.counting) == members, "something of each member")
        for numbers, known in zip(self.numbers, self.predicates, strict=True):
            within(numbers, 0, len(known), "numbers of predicates")
        for at, member in enumerate(self.members):
            if member.is_new or member.former is not None:  # about to be taken in as what it is now
                continue
            asked = [
                known[number] for known, number in zip(self.predicates, self.numbers[:, at], strict=True)
            ]
            expect(asked == list(member.predicates), "predicates of members")
            expect(tuple(self.sizes[:, at].tolist()) == member.sizes, "windows of members")
            expect(bool(self.counting[at]) == member.counting, "members that count")

"""A roster made from the one before is that of the members there are, whoever came, went or changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from askers import Asker
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.expressions.expression import Call, Column, Literal
from penstock.engine.members.member import Member
from penstock.engine.members.roster import Roster
from penstock.engine.rows.types import SqlType

VALUE = Column(SqlType.BIGINT, 1, "value")


def above(bound: int | None) -> Call | None:
    """Equal bounds make equal expressions, never the same one."""
    if bound is None:
        return None
    return Call(SqlType.BOOLEAN, "greater", (VALUE, Literal(SqlType.BIGINT, bound)))


def node(
    sizes: tuple[int, int], bounds: tuple[int | None, int | None], kinds: tuple[str, str] = ("range", "range")
) -> Any:
    sides = [
        SimpleNamespace(window=SimpleNamespace(size=size, kind=kind), predicate=above(bound))
        for size, bound, kind in zip(sizes, bounds, kinds, strict=True)
    ]
    return SimpleNamespace(sides=sides)


BOUND = st.sampled_from([None, 1, 2, 3])
KIND = st.sampled_from(["range", "rows"])
SIZES = st.tuples(st.integers(1, 5), st.integers(1, 5))
NODE = st.builds(node, SIZES, st.tuples(BOUND, BOUND), st.tuples(KIND, KIND))
CHANGE = st.tuples(st.sampled_from(["come", "go", "alter"]), st.integers(0, 9), NODE, st.booleans())


@given(st.lists(st.lists(CHANGE, max_size=3), max_size=8))
def test_roster_follows_its_members(steps: list[list[tuple[str, int, Any, bool]]]) -> None:
    members: list[Member] = []
    roster = Roster.of(members)
    for changes in steps:
        for kind, place, to, counting in changes:
            if kind == "come":
                members.append(Member(Asker("q"), counting, to))
            elif members and kind == "go":
                members.pop(place % len(members))
            elif members:
                members[place % len(members)].become(to)
                members[place % len(members)].is_new = True
        roster = roster.after(members)
        roster._check()
        assert roster.members == members
        assert roster.is_selective == any(len({m.predicates[n] for m in members}) > 1 for n in (0, 1))
        some = roster.take(roster.counting)
        assert some.members == [member for member in members if member.counting]
        assert np.array_equal(some.sizes.T, [m.sizes for m in some.members] or np.empty((0, 2)))
        for member in members:
            member.is_new = False


def test_other_windows_of_one_walk_through_no_others() -> None:
    """What all ask is found as it was: nobody is asked for it again."""
    members = [Member(Asker("q"), False, node((size, size), (size % 4, None))) for size in range(1, 9)]
    roster = Roster.of(members)
    for member in members:
        member.is_new = False
    members[5].become(node((50, 60), (members[5].sizes[0] % 4, None)))
    members[5].is_new = True
    after = roster.after(members)
    after._check()
    assert after.numbers is roster.numbers and after.sizes[:, 5].tolist() == [50, 60]


def test_who_is_left_asks_what_it_asked() -> None:
    """Eight ask for few things, and go one by one: what nobody asks any more has no number."""
    for gone in range(8):
        members = [
            Member(Asker("q"), False, node((size, size), (size % 4, size % 3))) for size in range(1, 9)
        ]
        roster = Roster.of(members)
        for place in (gone, 2, 0, 0, 1, 0):
            for member in members:
                member.is_new = False
            members.pop(place)
            roster = roster.after(members)
            roster._check()

"""The orders of a join's sides among which its normal form is: few, however often a stream is in it.

Sides are told apart by what can be said of them without naming one: first by their streams and keys, then by
the sides that their variables are shared with and by the bands between these, and so on. Where some are still
alike, each of them is tried as the first; but not sides that can be swapped, with their variables, so that
all stays as it was: these make the same form.

    a.x = b.x AND b.x = c.x           all three can be swapped                          1 order
    a.x = b.y AND b.x = c.y           a has a partner for x only, c for y only          1 order
    a.x = b.y, b.x = c.y, c.x = a.y   a ring: alike, but none can be swapped            3 orders
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

Link = tuple[int, int, Hashable, Hashable]
"""A band between two variables: as seen from the first, and from the second."""


def order_sides(
    names: Sequence[Any], variables: Sequence[Sequence[int]], links: Sequence[Link]
) -> Iterator[list[int]]:
    """names: of sides, which sort; variables: those of each side, one per key, in the order of its keys."""
    ranks = _ranked(list(names))
    stack = [_refine(ranks, variables, links)]
    while stack:
        ranks = stack.pop()
        alike = _first_alike(ranks)
        if not alike:
            yield sorted(range(len(ranks)), key=ranks.__getitem__)
            continue
        tried: list[int] = []
        for side in alike:
            if not any(_can_swap(side, other, variables, links) for other in tried):
                tried.append(side)
        for side in reversed(tried):
            # Twice the rank leaves room below the others that are alike.
            apart = [2 * rank - (number == side) for number, rank in enumerate(ranks)]
            stack.append(_refine(_ranked(apart), variables, links))


def _ranked(names: list[Any]) -> list[int]:
    """Each name as its place among the different ones."""
    places = {name: place for place, name in enumerate(sorted(set(names)))}
    return [places[name] for name in names]


def _refine(ranks: list[int], variables: Sequence[Sequence[int]], links: Sequence[Link]) -> list[int]:
    """Sides that are alike told apart by what their variables have to do with other sides."""
    while True:
        shared: dict[int, list[Any]] = {variable: [] for own in variables for variable in own}
        for rank, own in zip(ranks, variables, strict=True):
            for place, variable in enumerate(own):
                shared[variable].append((rank, place))
        by_variable = {variable: tuple(sorted(found)) for variable, found in shared.items()}
        linked: dict[int, list[Any]] = {variable: [] for variable in by_variable}
        for left, right, from_left, from_right in links:
            linked[left].append((from_left, by_variable[right]))
            linked[right].append((from_right, by_variable[left]))
        known = {
            variable: (found, tuple(sorted(linked[variable], key=repr)))
            for variable, found in by_variable.items()
        }
        places = {text: place for place, text in enumerate(sorted({repr(one) for one in known.values()}))}
        of = {variable: places[repr(one)] for variable, one in known.items()}
        finer = _ranked(
            [(rank, tuple(of[each] for each in own)) for rank, own in zip(ranks, variables, strict=True)]
        )
        if max(finer, default=0) == max(ranks, default=0):
            return finer
        ranks = finer


def _first_alike(ranks: list[int]) -> list[int]:
    """The sides of the first rank that several have."""
    by_rank: dict[int, list[int]] = {}
    for side, rank in enumerate(ranks):
        by_rank.setdefault(rank, []).append(side)
    return next((by_rank[rank] for rank in sorted(by_rank) if len(by_rank[rank]) > 1), [])


def _can_swap(one: int, two: int, variables: Sequence[Sequence[int]], links: Sequence[Link]) -> bool:
    """Whether all stays as it was when two sides change places, and their variables with them."""
    to: dict[int, int] = {}
    for a, b in (*zip(variables[one], variables[two], strict=True),):
        if to.setdefault(a, b) != b or to.setdefault(b, a) != a:
            return False
    moved = {variable for variable, other in to.items() if variable != other}
    if any(
        variable in moved for side, own in enumerate(variables) if side not in (one, two) for variable in own
    ):
        return False
    before = {link for left, right, a, b in links for link in ((left, right, a, b), (right, left, b, a))}
    return all(
        (to.get(left, left), to.get(right, right), from_left, from_right) in before
        for left, right, from_left, from_right in before
    )

"""In which order the rows of one stream look for their partners on the others, in a join of many streams.

A row of side 0 finds rows of another side by the keys that both have, the two of them rows of a third by the
keys that either has, and so on. At each step whoever is connected comes next of whom fewest rows are found;
as long as nothing has been looked up, whoever has fewest rows.

    a.k = b.k AND b.j = c.j     a: b by k, then c by j      b: c by j, then a by k      c: b by j, then a by k
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Variables = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Step:
    """Rows of `side` are looked up by its `keys`, places among its own; sources: for each of these, a side
    that has been reached, and the place of the key there."""

    side: int
    keys: tuple[int, ...]
    sources: tuple[tuple[int, int], ...]


def order_probes(
    first: int, variables: Variables, found_per_seeker: Callable[[int, tuple[int, ...]], float]
) -> tuple[Step, ...]:
    """How rows of side `first` reach all others; found_per_seeker: for a side and places of its keys."""
    known: dict[int, tuple[int, int]] = {
        variable: (first, place) for place, variable in enumerate(variables[first])
    }
    steps: list[Step] = []
    left = [side for side in range(len(variables)) if side != first]
    while left:
        choices = {
            side: tuple(place for place, variable in enumerate(variables[side]) if variable in known)
            for side in left
        }
        reached = [side for side in left if choices[side]]
        assert reached, "a stream that no equality connects"
        side = min(reached, key=lambda one: (found_per_seeker(one, choices[one]), one))
        keys = choices[side]
        steps.append(Step(side, keys, tuple(known[variables[side][place]] for place in keys)))
        for place, variable in enumerate(variables[side]):
            known.setdefault(variable, (side, place))
        left.remove(side)
    return tuple(steps)

"""In which order the rows of one stream look for their partners on the others, in a join of many streams.

A row of side 0 finds rows of another side by the keys that both have, the two of them rows of a third by the
keys that either has, and so on; what only a comparison connects is looked for within its bounds. Of the sides
that are connected to those that are known, that comes next of which fewest rows are found; as long as nothing
has been looked up, that which has fewest rows, and of these one that is found by a key.

    a.k = b.k AND b.j = c.j     a: b by k, then c by j      b: c by j, then a by k      c: b by j, then a by k
    a.k = b.k AND c.v > a.v     a: b by k, then c by v      b: a by k, then c by v      c: a by v, then b by k
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.engine.plan.plan import Between
from penstock.engine.rows.band import Band

Variables = Sequence[Sequence[int]]
Known = tuple[int, int]
"""A side that has been reached, and the place of a key there."""


@dataclass(frozen=True, slots=True)
class Within:
    """The key at `place`, less one that is known, lies in a band."""

    place: int
    source: Known
    band: Band


@dataclass(frozen=True, slots=True)
class Step:
    """Rows of `side` are looked up by its `keys`, places among its own, each with the source that it is equal
    to, and as far as they are within bounds."""

    side: int
    keys: tuple[int, ...]
    sources: tuple[Known, ...]
    bounds: tuple[Within, ...] = ()

    @property
    def how(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """By what rows of which side are looked up, from wherever that is known."""
        return self.side, self.keys, tuple(one.place for one in self.bounds)


def order_probes(
    first: int, variables: Variables, bands: Sequence[Between], found_per_seeker: Callable[[Step], float]
) -> tuple[Step, ...]:
    """How rows of side `first` reach all others."""
    known: dict[int, Known] = {variable: (first, place) for place, variable in enumerate(variables[first])}
    steps: list[Step] = []
    left = [side for side in range(len(variables)) if side != first]
    while left:
        choices = [step_to(side, variables[side], bands, known) for side in left]
        reached = [step for step in choices if step.keys or step.bounds]
        assert reached, "a stream that nothing connects"
        step = min(reached, key=lambda one: (found_per_seeker(one), not one.keys, one.side))
        steps.append(step)
        for place, variable in enumerate(variables[step.side]):
            known.setdefault(variable, (step.side, place))
        left.remove(step.side)
    return tuple(steps)


def step_to(side: int, own: Sequence[int], bands: Sequence[Between], known: dict[int, Known]) -> Step:
    """How rows of a side are found by what is known; own: the variables of its keys."""
    keys = tuple(place for place, variable in enumerate(own) if variable in known)
    bounds = []
    for one in bands:
        for here, there, band in (
            (one.right, one.left, one.band),
            (one.left, one.right, one.band.mirrored()),
        ):
            if here in own and there in known and here not in known:
                bounds.append(Within(own.index(here), known[there], band))
    return Step(side, keys, tuple(known[own[place]] for place in keys), tuple(bounds))

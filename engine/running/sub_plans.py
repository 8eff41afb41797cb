"""The parts of plans at work that queries have in common, found by their plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from .pipeline import SubPlan


class SubPlans:
    """Parts by plan, oldest first, with what had come when they began."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[tuple[Hashable, SubPlan]]] = {}

    def began(self, plan: Hashable, start: Hashable) -> SubPlan | None:
        """A part that will see exactly what one begun now would see, and has passed nothing on.

        One that was given what others keep may have passed that on; a window that was has it at hand as long
        as it can be of use.
        """
        for began, part in self._found.get(plan, []):
            if began == start and (not part.is_filled or part.given is not None):
                return part
        return None

    def alike(self, plan: Hashable) -> list[SubPlan]:
        """All parts of a plan, whatever they have seen."""
        return [part for _, part in self._found.get(plan, [])]

    def add(self, plan: Hashable, start: Hashable, part: SubPlan) -> None:
        self._found.setdefault(plan, []).append((start, part))

    def drop(self, part: SubPlan) -> None:
        """Nobody reads it any more."""
        plan = part.approach, part.plan
        rest = [one for one in self._found.get(plan, []) if one[1] is not part]
        if rest:
            self._found[plan] = rest
        else:
            self._found.pop(plan, None)

    def values(self) -> list[SubPlan]:
        return list(self)

    def __iter__(self) -> Iterator[SubPlan]:
        return (part for parts in self._found.values() for _, part in parts)

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

"""The parts of plans at work that queries have in common, found by their plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from .pipeline import Part


class Parts:
    """Parts by plan, and those of one plan by what had come when they began, oldest first."""

    def __init__(self) -> None:
        self._found: dict[Hashable, dict[Hashable, Part]] = {}

    def began(self, plan: Hashable, start: Hashable) -> Part | None:
        """The part that has seen exactly what one begun now will see."""
        return self._found.get(plan, {}).get(start)

    def alike(self, plan: Hashable) -> list[Part]:
        """All parts of a plan, whatever they have seen."""
        return list(self._found.get(plan, {}).values())

    def add(self, plan: Hashable, start: Hashable, part: Part) -> None:
        self._found.setdefault(plan, {})[start] = part

    def drop(self, part: Part) -> None:
        """Nobody reads it any more."""
        plan = part.approach, part.plan
        rest = {start: one for start, one in self._found.get(plan, {}).items() if one is not part}
        if rest:
            self._found[plan] = rest
        else:
            self._found.pop(plan, None)

    def values(self) -> list[Part]:
        return list(self)

    def __iter__(self) -> Iterator[Part]:
        return (part for parts in self._found.values() for part in parts.values())

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

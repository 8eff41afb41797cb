"""What lets rows into a slice: the OR of what the queries that reach it ask for, without needless parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from penstock.engine.expressions.expression import FALSE, Call, Expression, conjuncts
from penstock.engine.members.dimension import EQUAL, GREATER, LESS, read_bound

MOST_CONDITIONS = 3
MOST_LETTERS = 80  # of one condition in a table
MOST_COMPARED = 64  # conditions of a selection among which needless ones are looked for

Key = tuple[Expression, bool]
"""A subject, and whether it is bounded from below."""
Rank = tuple[int, bool]
"""How tight a bound is: the lower, the more rows it lets in."""
TIGHTEST: Rank = (1 << 64, True)


class Selection:
    """The OR of predicates, without those that another one covers: x > 5 adds nothing to x > 3."""

    def __init__(self) -> None:
        self.is_everything = False
        self._kept: dict[Key | Expression, Expression] = {}
        """A predicate that is one bound, by what it bounds: a looser one takes its place."""
        self._ranks: dict[Key, Rank] = {}

    def __len__(self) -> int:
        """Conditions that are left; of none, and of all rows, 0."""
        return len(self._kept)

    def add(self, predicate: Expression | None) -> None:
        """Let in what satisfies a predicate too; None: all rows."""
        if self.covers(predicate):
            return
        parts = conjuncts(predicate)
        if predicate is None or not parts:
            self.is_everything = True
            self._kept.clear()
            return
        ranks = ranks_of(parts[0]) if len(parts) == 1 else []
        if len(ranks) == 1:
            (key, rank), *_ = ranks
            self._ranks[key] = rank
            self._kept[key] = predicate
        else:
            self._kept[predicate] = predicate
        if len(parts) == 1 and len(self._kept) <= MOST_COMPARED:
            for kept, other in list(self._kept.items()):
                if other is not predicate and is_within(other, parts[0], ranks):
                    del self._kept[kept]

    def covers(self, predicate: Expression | None) -> bool:
        """Whether all rows that satisfy a predicate are let in already, as far as its parts tell."""
        if self.is_everything or predicate is None:
            return self.is_everything
        return (
            predicate == FALSE
            or predicate in self._kept
            or any(
                part in self._kept
                or any(self._ranks.get(key, TIGHTEST) <= rank for key, rank in ranks_of(part))
                for part in conjuncts(predicate)
            )
        )

    def but_for(self, predicates: Iterable[Expression | None]) -> tuple[str, int]:
        """Rows that satisfy one of the predicates and are not let in, in words; of how many conditions."""
        others = Selection()
        for predicate in predicates:
            if not self.covers(predicate):
                others.add(predicate)
        if not others and not others.is_everything:
            return "no rows", 0
        if not self:
            return str(others), len(others)
        first, second = (f"({one})" if len(one) > 1 else str(one) for one in (others, self))
        return f"{first} but not {second}", len(others) + len(self)

    def __str__(self) -> str:
        if self.is_everything:
            return "all rows"
        if not self._kept:
            return "no rows"
        shown = []
        for one in islice(self._kept.values(), MOST_CONDITIONS):
            parts = conjuncts(one)
            text = shortened(" AND ".join(f"({part})" if is_choice(part) else str(part) for part in parts))
            shown.append(f"({text})" if len(self._kept) > 1 and len(parts) > 1 else text)
        more = len(self._kept) > len(shown)
        return " OR ".join(shown) + (f" OR ... ({len(self._kept):,} conditions)" if more else "")


def is_choice(part: Expression) -> bool:
    return isinstance(part, Call) and part.function == "or"


def is_within(predicate: Expression, part: Expression, ranks: Sequence[tuple[Key, Rank]]) -> bool:
    """Whether a predicate lets no rows in that `part` does not; `ranks` are those of the part."""
    for one in conjuncts(predicate):
        if one == part:
            return True
        if len(ranks) == 1 and any(key == ranks[0][0] and ranks[0][1] <= rank for key, rank in ranks_of(one)):
            return True
    return False


def ranks_of(part: Expression) -> list[tuple[Key, Rank]]:
    """What a comparison with a constant bounds and how tightly; an equality from both sides."""
    bound = read_bound(part)
    if bound is None or bound.text is not None or bound.operator > GREATER:
        return []
    found: list[tuple[Key, Rank]] = []
    if bound.operator >= EQUAL:
        found.append(((bound.subject, True), (bound.code, bound.operator == GREATER)))
    if bound.operator <= EQUAL:
        found.append(((bound.subject, False), (-bound.code, bound.operator == LESS)))
    return found


def shortened(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 4]} ..."

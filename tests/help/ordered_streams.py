"""Streams of keys that grow out of order, and what the definitions say of them, one arrival at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import product

BEFORE = float("-inf")


@dataclass(frozen=True)
class Arrival:
    """A row of a stream: `row` is its number there, `ts` differs from that of all others."""

    stream: int
    key: int | None
    row: int
    ts: int


def draw_keys(dice: random.Random, rows: int) -> list[int | None]:
    """Sequential keys, each up to 4 times, moved about, some missing, some NULL."""
    most, reach = dice.choice((1, 1, 2, 4)), dice.choice((0, 0, 1, 3, 8, 50))
    keys: list[int] = []
    key = dice.randrange(3)
    while len(keys) < rows:
        keys += [key] * dice.randint(1, most)
        key += dice.choice((1, 1, 1, 2))
    keys = keys[:rows]
    order = sorted(range(rows), key=lambda i: (i + dice.uniform(0, reach), i))
    nulls = dice.choice((0, 0, 0.1))
    return [None if dice.random() < nulls else keys[i] for i in order]


def draw_arrivals(dice: random.Random, streams: int, rows: int) -> list[Arrival]:
    """Rows of all streams: some behind others, some in bursts."""
    timed = []
    for stream in range(streams):
        keys = draw_keys(dice, dice.randint(0 if streams > 2 else 1, rows))
        at, pace = dice.choice((0, 0, 5, 40)) * 1.0, dice.choice((1.0, 1.0, 0.3, 2.0))
        for row, key in enumerate(keys):
            if dice.random() < 0.03:
                at += dice.choice((10, 30))
            if dice.random() < 0.05:
                pace = dice.choice((0.1, 1.0, 3.0))
            at += dice.random() * pace
            timed.append((at, stream, key, row))
    timed.sort()
    return [Arrival(stream, key, row, 10 + ts) for ts, (_, stream, key, row) in enumerate(timed)]


def factor_of(keys: list[int | None]) -> int:
    """The scrambling factor: how far behind a key that is not less any key comes."""
    return max(
        (
            j - i
            for j, key in enumerate(keys)
            for i in range(j)
            if key is not None and keys[i] is not None and key <= keys[i]  # type: ignore[operator]
        ),
        default=0,
    )


def keys_of(arrivals: list[Arrival], stream: int) -> list[int | None]:
    return [one.key for one in arrivals if one.stream == stream]


def frontier_of(keys: list[int | None], factor: int) -> float:
    """The greatest key at a position that is `factor` rows back or more."""
    return max((key for key in keys[: max(0, len(keys) - factor)] if key is not None), default=BEFORE)


def full_join(arrivals: list[Arrival], streams: int) -> list[tuple[int, ...]]:
    """The rows of every result, in order."""
    by_key: dict[int, list[list[int]]] = {}
    for one in arrivals:
        if one.key is not None:
            by_key.setdefault(one.key, [[] for _ in range(streams)])[one.stream].append(one.row)
    return sorted(rows for lists in by_key.values() for rows in product(*lists))


@dataclass
class Model:
    """The join of the definitions: a row goes when the frontiers of all others have passed its key."""

    factors: list[int]
    evict: str = "key"
    come: list[list[int | None]] = field(default_factory=list)
    held: list[list[Arrival]] = field(default_factory=list)
    gone: list[float] = field(default_factory=list)
    results: list[tuple[int, ...]] = field(default_factory=list)
    late: int = 0

    def __post_init__(self) -> None:
        self.come, self.held = [[] for _ in self.factors], [[] for _ in self.factors]
        self.gone = [BEFORE] * len(self.factors)
        self.frontiers = [BEFORE] * len(self.factors)

    def arrive(self, one: Arrival) -> None:
        count = len(self.factors)
        if one.key is not None:
            if any(self.gone[j] >= one.key for j in range(count) if j != one.stream):
                self.late += 1
            partners = [
                [one.row] if j == one.stream else [row.row for row in self.held[j] if row.key == one.key]
                for j in range(count)
            ]
            self.results += product(*partners)
            self.held[one.stream].append(one)
        self.come[one.stream].append(one.key)
        i = one.stream
        self.frontiers[i] = max(self.frontiers[i], frontier_of(self.come[i], self.factors[i]))
        for j in range(count):
            kept = self._kept(j)
            self.gone[j] = max([self.gone[j], *(row.key for row in self.held[j] if row not in kept)])  # type: ignore[type-var]
            self.held[j] = kept

    def _kept(self, j: int) -> list[Arrival]:
        others = [w for k, w in enumerate(self.frontiers) if k != j]
        if self.evict == "key":
            return [row for row in self.held[j] if row.key is not None and row.key > min(others)]
        buffer = max(
            1,
            *(sum(row.key > w for row in self.held[j]) + self.factors[j] for w in others),  # type: ignore[operator]
        )
        return self.held[j][-buffer:]

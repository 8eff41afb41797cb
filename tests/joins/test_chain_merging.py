"""Slices of a chain become one and several again while rows and pairs are on their way.

Where slices end is drawn anew at any moment, so that three and more at work become one, and one becomes
several. Members come twice, as one that is given its pairs and as one that counts them, or all of them only
count, so that pairs need not be made.

    |--|--|--|--|--|        |--------------|        |--|--------|--|
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_chain import ALL, ASKS, CONDITIONS, Ask, Drive, Row, Setting, drives, streams
from work_of import joins_of

import penstock
from penstock.engine.chain.chain import ChainGroup
from penstock.engine.flow.queue import BEGINNING
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.members.member import Member
from penstock.engine.rows.window import MAX_TS
from penstock.optimizer.share import lay_out_joins

MOVES = [
    "add",
    "add",
    "drop",
    "alter",
    "one",
    "one",
    "all",
    "some",
    "feed",
    "feed",
    "feed",
    "turns",
    "settle",
]
SHARES = {"one": 0.0, "all": 1.0, "some": 0.4}
PLAIN = Setting(("range", "range"), CONDITIONS[0])


@dataclass
class Chosen:
    """Which windows slices end at: each with some probability, the last always."""

    seed: int
    share: float = 1.0
    most_merged: int = 0
    """Slices at work that became one."""
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def __call__(self, windows: Sequence[int]) -> list[int]:
        return [w for w in windows[:-1] if self.dice.random() < self.share] + [windows[-1]]


def merged_at_once(before: Sequence[int], after: Sequence[int]) -> int:
    """The most slices of `before` that are one slice now, by where they end."""
    edges = [0, *after]
    return max((sum(low < end <= high for end in before) for low, high in pairwise(edges)), default=0)


@st.composite
def asks_with_many_windows(draw: st.DrawFn, plain: bool) -> Ask:
    size = draw(st.integers(1, 24))
    if plain:
        return Ask((size, size))
    other = draw(st.sampled_from([size, size, size, draw(st.integers(1, 24))]))
    left = draw(st.sampled_from([ALL, ALL, ALL, ASKS[2], ASKS[4]]))
    return Ask((size, other), (left, ALL), draw(st.booleans()))


class Twins:
    """Members of a drive, each both given its pairs and counting them; or only counting."""

    def __init__(self, drive: Drive, giving: bool) -> None:
        self.drive = drive
        self.giving = giving
        self.asked: dict[str, list[Ask]] = {}
        self.since: dict[str, list[int]] = {}
        self.turned: dict[str, list[int]] = {}
        self.gone: dict[str, int] = {}

    @property
    def here(self) -> list[str]:
        return sorted(set(self.asked) - set(self.gone))

    def both(self, name: str) -> list[Member]:
        names = (name, f"{name} counting") if self.giving else (f"{name} counting",)
        return [self.drive.members[one] for one in names]

    def add(self, ask: Ask) -> None:
        name = f"q{len(self.asked)}"
        self.asked[name], self.since[name], self.turned[name] = [ask], [], []
        if self.giving:
            self.drive.add(name, ask)
        self.drive.add(f"{name} counting", replace(ask, counting=True))

    def drop(self, name: str) -> None:
        self.drive.settle()
        self.drive.group.settle()
        self.end(name)
        self.gone[name] = self.both(name)[0].output.punctuation
        for member in self.both(name):
            self.drive.group.drop(member)

    def alter(self, name: str, ask: Ask) -> None:
        ask = replace(ask, swapped=self.asked[name][-1].swapped)
        self.end(name)
        self.turned[name].append(self.drive.group.head.now)
        for member in self.both(name):
            member.started = self.drive.starts()
            self.drive.group.alter(member, self.drive.setting.node(replace(ask, counting=member.counting)))
        self.asked[name].append(ask)

    def end(self, name: str) -> None:
        start = self.both(name)[0].complete_from
        self.since[name].append(BEGINNING if start is None else start)

    def verify(self) -> None:
        """Counts are those of the pairs given, and these the plain join's where they are complete."""
        for name, asks in self.asked.items():
            if name not in self.gone:
                self.end(name)
            *giving, counting = self.both(name)
            if len(asks) == 1 and self.since[name] == [BEGINNING] and name not in self.gone:
                assert counting.found == sum(self.drive.expected(asks[0]).values()), (name, asks)
            if not giving:
                continue
            given_ = Counter(self.drive.results[name])
            assert counting.found == giving[0].found == sum(given_.values()), (name, asks)
            borders = [BEGINNING, *self.turned[name], self.gone.get(name, MAX_TS)]
            for n, ask in enumerate(asks):
                low, high = max(self.since[name][n], borders[n]), min(borders[n + 1 :])
                expected = {pair: 1 for pair in self.drive.expected(ask) if low <= pair[0] < high}
                found = {pair: count for pair, count in given_.items() if low <= pair[0] < high}
                assert found == expected, (name, n, low, high)


@settings(max_examples=120)
@given(st.data())
def test_slices_become_one_and_several_with_rows_on_their_way(data: st.DataObject) -> None:
    draw = data.draw
    drive = draw(drives(draw(st.sampled_from([PLAIN, PLAIN, replace(PLAIN, condition=CONDITIONS[3])]))))
    drive.rows = draw(streams(30)), draw(streams(30))
    chosen = Chosen(drive.seed)
    drive.ends = chosen
    drive.__post_init__()
    twins, plain = Twins(drive, draw(st.booleans())), draw(st.booleans())
    for _ in range(draw(st.integers(3, 6))):
        twins.add(draw(asks_with_many_windows(plain)))
    for move in draw(st.lists(st.sampled_from(MOVES), max_size=25)):
        if drive.random.random() < 0.7:
            drive.feed()
            drive.turns(drive.random.randint(0, 6), drive.random.choice([3, 6, 60]))
        before = [slice_.end for slice_ in drive.group.slices]
        match move:
            case "add" if len(twins.here) < 8:
                twins.add(draw(asks_with_many_windows(plain)))
            case "drop" if len(twins.here) > 1:
                twins.drop(draw(st.sampled_from(twins.here)))
            case "alter":
                twins.alter(draw(st.sampled_from(twins.here)), draw(asks_with_many_windows(plain)))
            case "one" | "all" | "some":
                chosen.share = SHARES[move]
                drive.group._look()
                drive.group.refresh()
            case "feed":
                drive.feed()
            case "turns":
                drive.turns(draw(st.integers(1, 12)), draw(st.sampled_from([3, 6, 60])))
            case "settle":
                drive.settle(draw(st.sampled_from([5, 1_000])))
        after = [slice_.end for slice_ in drive.group.slices]
        chosen.most_merged = max(chosen.most_merged, merged_at_once(before, after))
        drive.group._check()
    drive.finish()
    twins.verify()


@pytest.mark.parametrize("giving", [True, False])
def test_many_slices_with_rows_in_every_queue_become_one_and_back(giving: bool) -> None:
    """The drawn test does reach what it is for: six slices, each with females and references waiting."""
    rows = [Row(n // 3, n, n % 2, float(n % 2), "a") for n in range(120)]
    drive = Drive(PLAIN, (rows, rows), 5)
    chosen = Chosen(1)
    drive.ends = chosen
    drive.__post_init__()
    twins = Twins(drive, giving)
    for window in (2, 4, 7, 9, 13, 20):
        twins.add(Ask((window, window), (ASKS[2] if giving and window == 9 else ALL, ALL)))
    for share in (0.0, 1.0, 0.0, 1.0):
        drive.push(0, 25)
        drive.push(1, 25)
        while drive.group.head.step(100):
            pass
        for slice_ in drive.group.slices:
            while slice_.waiting.shape[1] > 5:
                slice_.step(1)
        if share == 0.0:
            assert len(drive.group.slices) == 6
            assert all(slice_.waiting.shape[1] for slice_ in drive.group.slices[1:])
        chosen.share = share
        drive.group._look()
        assert drive.group.refresh()
        drive.group._check()
        assert len(drive.group.slices) == (6 if share else 1)
    drive.finish()
    twins.verify()


def sql_of(window: int, value: float | None) -> str:
    where = "" if value is None else f" WHERE x.v > {value}"
    return f"SELECT x.id, y.id AS other FROM a AS x JOIN b AS y ON x.k = y.k{where} WINDOW {window} us"


class Run:
    """An engine with queries that come, change and go, the same for the same seed whatever the strategy."""

    def __init__(self, seed: int, sharing: str) -> None:
        scheduler = Shuffled(seed, 40) if seed % 2 else RoundRobin(64)
        self.engine = penstock.Engine(sharing=sharing, index="scan", scheduler=scheduler)
        for stream in ("a", "b"):
            self.engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE)")
        self.dice = random.Random(seed)
        self.is_giving = seed % 3 != 0
        self.is_selective = seed % 4 != 0
        self.queries: list[list[penstock.Query]] = []
        self.slices: set[int] = set()

    def add(self) -> None:
        """Each query twice, giving and counting; or counting only."""
        value = self.dice.choice([None, None, None, 0.3, 0.7])
        sql, number = (
            sql_of(self.dice.randint(1, 90), value if self.is_selective else None),
            len(self.queries),
        )
        self.queries.append([
            self.engine.query(sql, name=f"q{number}_{counting}", count_only=counting)
            for counting in (True, False)[: 1 + self.is_giving]
        ])  # fmt: skip

    def push(self, number: int) -> None:
        """Rows of both streams, amid which the chain thinks its slices over."""
        for group in joins_of(self.engine):
            if isinstance(group.form, ChainGroup):
                head = group.form.head
                head._looked_after = max(head.counters.rows_in, 1)
                self.slices.add(len(group.form.slices))
        for stream in ("a", "b"):
            rows = self.dice.randint(1, 60)
            ts = 20 * number + np.sort(np.array([self.dice.randrange(20) for _ in range(rows)]))
            table = {
                "ts": ts, "id": np.arange(rows) + 1_000 * number,
                "k": [self.dice.randrange(4) for _ in ts], "v": [self.dice.random() for _ in ts],
            }  # fmt: skip
            self.engine.push(stream, table)
        self.engine._runtime._check()

    def answers(self) -> tuple[list[int], list[Counter[Any]]]:
        """Of the queries that were there from the beginning; every count is that of the rows given."""
        self.engine.close()
        rows = [
            Counter(zip(*giving.results().to_pydict().values(), strict=True))
            for _, giving in (self.queries if self.is_giving else [])
        ]
        counts = [queries[0].count for queries in self.queries]
        assert not rows or counts == [sum(one.values()) for one in rows]
        return counts[:8], rows[:8]


@pytest.mark.parametrize("seed", range(12))
def test_engine_merges_and_splits_while_it_looks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are thought over within a push, rows being in every queue; answers are those of the fused form."""
    chosen = random.Random(seed)

    def some(number: int, costs: object) -> tuple[int, ...]:
        share = chosen.choice([0.0, 0.0, 0.3, 1.0])
        return (*(n for n in range(1, number) if chosen.random() < share), number)

    monkeypatch.setattr(lay_out_joins, "cheapest_chain_by_row", some)
    monkeypatch.setattr(lay_out_joins, "CHAIN_GAIN", -np.inf)  # whatever it costs
    answers = []
    for sharing in ("chain-cpu", "mem-opt"):
        run = Run(seed, sharing)
        for _ in range(8):
            run.add()
        for number in range(28):
            run.push(number)
            if number % 7 == 3:
                run.add()
            if number % 7 == 5 and len(run.queries) > 8:
                size = run.dice.randint(1, 90)
                for query in run.dice.choice(run.queries[8:]):
                    run.engine.execute(f"ALTER QUERY {query.name} SET WINDOW {size} us")
            if number % 14 == 6 and len(run.queries) > 8:
                for query in run.queries.pop():
                    query.drop()
        answers.append(run.answers())
        if sharing == "chain-cpu":
            assert min(run.slices) <= 2 and max(run.slices) >= 6, "never merged, or never split"
    assert answers[0] == answers[1]

"""A script for each seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from oracle import Reference

from .ask import ABOVE, RandomTrees, Tree
from .script import Advance, Alter, Close, Drop, Push, Read, Restore, Row, Script, Start, Step

SHARING = ["auto"] * 4 + ["unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu"]
EXPIRY = ["auto", "auto", "ita", "nta", "nta", "time-message", "piggyback"]
INDEX = ["auto", "auto", "auto", "scan", "hash", "t-tree", "b+tree", ("hash", "scan")]
MODES = [None, None, "DIDO", "DICO", "CICO", "CIDO"]
WINDOWS = [
    ("range",), ("range", "range", "unbounded"), ("range", "rows"), ("rows",), ("range", "partition"),
    ("range", "rows", "partition", "unbounded"),
]  # fmt: skip
KEYS: list[int | None] = [None, 0, 1, 1, 0, 2, 3]
VALUES: list[float | None] = [None, 0.0, -0.0, 0.25, 0.5, 1.5, -2.0, 3.75, float("nan")]
EMITS = ["CHANGES", "CHANGES", "INSERTS", "INSERTS", "COMPLETE", "DELTA"]


def draw_script(seed: int) -> Script:
    return Drawing(random.Random(seed)).script(seed)


class Drawing:
    """What is known of a script while it is drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.streams = ["a", "b", "c"][: dice.choice([1, 2, 2, 2, 3])]
        self.slack = {name: dice.choice([0, 0, 0, 2, 4]) for name in self.streams}
        self.latest = dict.fromkeys(self.streams, dice.randint(-3, 3))
        self.floor = dict.fromkeys(self.streams, -100)
        self.rows = 0
        self.names = 0
        self.running: dict[str, Start] = {}
        self.windows = dice.choice(WINDOWS)
        self.steps: list[Step] = []
        self.values = VALUES if dice.random() < 0.3 else VALUES[:-1]
        self.keys = dice.choice([KEYS, KEYS[1:], KEYS[1:3]])

    def script(self, seed: int) -> Script:
        dice = self.dice
        for _ in range(dice.choice([0, 1, 1, 2])):
            self.start()
        for _ in range(dice.randint(4, 12)):
            self.step()
        if not self.running:
            self.start()
            self.push(dice.choice(self.streams))
        if dice.random() < 0.4:
            ahead = dice.choice([1, 2, 13, 30])
            self.steps.append(Advance(max(self.latest.values()) + ahead))
        self.steps.append(Close(dice.random() < 0.4))
        options: dict[str, Any] = {
            "sharing": dice.choice(SHARING),
            "expiry": dice.choice(EXPIRY),
            "index": dice.choice(INDEX),
            "optimize": dice.choice(["exhaustive", "exhaustive", "heuristic", "none"]),
            "panes": dice.random() < 0.7,
            "multiway": dice.random() < 0.7,
        }
        usual = {"sharing": "auto", "expiry": "auto", "index": "auto", "optimize": "exhaustive"}
        usual |= {"panes": True, "multiway": True}
        options = {name: value for name, value in options.items() if value != usual[name]}
        scheduler = dice.choice([0, 0, 1, 3, 2 * dice.randint(1, 1 << 20)])
        return Script(options, self.slack, self.steps, scheduler, dice.random() < 0.3, seed)

    def step(self) -> None:
        dice = self.dice
        what = dice.random()
        if what < 0.55:
            self.push(dice.choice(self.streams))
        elif what < 0.65:
            self.advance()
        elif what < 0.78:
            if len(self.running) < 5:
                self.start()
        elif what < 0.86 and self.running:
            kind = dice.choice(["range", "range", "rows"])
            name = dice.choice(list(self.running))
            self.steps.append(Alter(name, kind, dice.randint(1, 10 if kind == "range" else 4)))
        elif what < 0.89 and self.running:
            name = dice.choice(list(self.running))
            del self.running[name]
            self.steps.append(Drop(name))
        elif what < 0.93:
            self.steps.append(Restore())
        elif self.running:
            self.steps.append(Read(dice.choice(list(self.running))))

    def push(self, stream: str) -> None:
        dice, slack = self.dice, self.slack[stream]
        rows: list[Row] = []
        for _ in range(dice.choice([1, 1, 2, 3, 5, 9])):
            now = self.latest[stream] + dice.choice([0, 0, 0, 1, 1, 2, 7])
            ts = max(now - (dice.randint(0, slack) if slack else 0), self.floor[stream])
            self.latest[stream] = max(self.latest[stream], ts)
            self.floor[stream] = max(self.floor[stream], self.latest[stream] - slack)
            rows.append((ts, self.rows, dice.choice(self.keys), dice.choice(self.values)))
            self.rows += 1
        self.steps.append(Push(stream, rows, dice.choice([1, 1, 1, 2])))

    def advance(self) -> None:
        """No further than rows that will come."""
        dice = self.dice
        if dice.random() < 0.7:
            ts = max(min(self.latest.values()), dice.choice(list(self.latest.values())) - 1) + dice.choice(
                [0, 0, 1, 5]
            )
            self.steps.append(Advance(ts))
            moved = self.streams
        else:
            stream = dice.choice(self.streams)
            ts = self.latest[stream] + dice.choice([0, 1, 4])
            self.steps.append(Advance(ts, stream))
            moved = [stream]
        for stream in moved:
            self.floor[stream] = max(self.floor[stream], ts)
            self.latest[stream] = max(self.latest[stream], ts)

    def start(self) -> None:
        """A query, perhaps with one that counts its rows or gives those that enter."""
        dice = self.dice
        tree = self.tree()
        if not tree.references:
            return
        emit = dice.choice(EMITS)
        started = Start(self.name(), tree, emit)
        if started.hops:
            started.hop, started.origin = dice.randint(1, 7), dice.choice([0, 0, 3, 1000])
            started.modes = dice.choice(MODES)
            started.execution = dice.choice([None, None, "taat"])
        self.steps.append(started)
        self.running[started.name] = started
        if dice.random() < 0.12:
            other = replace(started, name=self.name(), counting=True, like=started.name)
            self.steps.append(other)
        elif emit == "INSERTS" and tree.drawn.life is None and dice.random() < 0.5:
            other = replace(started, name=self.name(), emit="CHANGES", like=started.name)
            self.steps.append(other)

    def name(self) -> str:
        self.names += 1
        return f"q{self.names}"

    def tree(self) -> Tree:
        """A new one, or one that has to do with one at work."""
        dice = self.dice
        if self.running and dice.random() < 0.5:
            tree = dice.choice(list(self.running.values())).tree
            if dice.random() < 0.5:
                tree = tree.with_windows([self.other_window(one) for one in tree.references])
            if dice.random() < 0.4:
                tree = tree.above(dice.choice(ABOVE))
            return tree
        windows = self.windows if dice.random() < 0.7 else dice.choice(WINDOWS)
        trees = RandomTrees.by(dice, self.streams, windows)
        trees.tables = dice.random() < 0.5
        drawn = trees.tree(dice.choice([0, 1, 1, 2, 2, 3, 4]))
        return Tree(drawn, trees.references)  # type: ignore[arg-type]

    def other_window(self, one: Reference) -> Reference:
        dice = self.dice
        if dice.random() < 0.3:
            return one
        kind = dice.choice(self.windows)
        if kind == "unbounded":
            return Reference(one.stream, one.alias)
        if kind == "range":
            return Reference(one.stream, one.alias, "range", dice.randint(1, 12))
        return Reference(
            one.stream, one.alias, "rows", dice.randint(1, 4), "k" if kind == "partition" else ""
        )

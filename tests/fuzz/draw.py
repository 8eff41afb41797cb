"""A script for each seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from oracle import Reference

from .ask import ABOVE, FILTERS, NAMED, Tree, Trees, drawn_window
from .entry import Declared, Entrance, Row
from .script import Advance, Alter, Close, Drop, Look, Push, Read, Restore, Script, Start, Step, Wrong

SHARING = ["auto"] * 4 + ["unshared", "pull-up", "push-down", "mem-opt", "cpu-opt", "chain", "chain-cpu"]
EXPIRY = ["auto", "auto", "ita", "nta", "nta", "time-message", "piggyback"]
INDEX = ["auto", "auto", "auto", "scan", "hash", "t-tree", "b+tree", ("hash", "scan")]
MODES = ["DIDO", "DICO", "CICO", "CIDO"]
WINDOWS = [
    ("range",), ("range", "range", "unbounded"), ("range", "rows"), ("rows",), ("range", "partition"),
    ("range", "rows", "partition", "unbounded"),
]  # fmt: skip
KEYS: list[int | None] = [None, 0, 1, 1, 0, 2, 3]
VALUES: list[float | None] = [None, 0.0, -0.0, 0.25, 0.5, 1.5, -2.0, 3.75, float("nan")]
EMITS = ["CHANGES", "CHANGES", "INSERTS", "INSERTS", "COMPLETE", "DELTA"]
WRONG = ["null", "type", "column", "script", "name", "alter", "binds", "late"]
USUAL = {
    "sharing": "auto", "expiry": "auto", "index": "auto", "optimize": "exhaustive", "panes": True,
    "multiway": True, "modes": "auto", "execution": "waat", "late": "error",
}  # fmt: skip


def draw_script(seed: int) -> Script:
    return Drawing(random.Random(seed)).script(seed)


class Drawing:
    """What is known of a script while it is drawn."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        names = ["a", "b", "c"][: dice.choice([1, 2, 2, 2, 3])]
        self.mischief = dice.choice(["", "", "", "calls", "raises", "within", "within"])
        """What those do who are called."""
        self.is_idle = dice.random() < 0.15
        self.fails = not self.is_idle and dice.random() < 0.15
        self.streams = {name: self.declared() for name in names}
        self.entrance = Entrance(self.streams)
        self.now = dict.fromkeys(names, dice.randint(-3, 3))
        self.rows = 0
        self.names = 0
        self.free: list[str] = []
        self.running: dict[str, Start] = {}
        self.windows = dice.choice(WINDOWS)
        self.is_flock = dice.random() < 0.2
        """Most queries are one join, through windows of their own."""
        self.flock: Tree | None = None
        self.steps: list[Step] = []
        self.values = VALUES if dice.random() < 0.3 else VALUES[:-1]
        self.keys = dice.choice([KEYS, KEYS[1:], KEYS[1:3]])
        self.options: dict[str, Any] = {
            "sharing": dice.choice(SHARING[3 if self.is_flock else 0 :]),
            "expiry": dice.choice(EXPIRY),
            "index": dice.choice(INDEX),
            "optimize": dice.choice(["exhaustive", "exhaustive", "heuristic", "none"]),
            "panes": dice.random() < 0.7,
            "multiway": dice.random() < 0.7,
            "modes": dice.choice(["auto"] * 4 + MODES),
            "execution": dice.choice(["waat", "waat", "waat", "taat"]),
            "late": dice.choice(["error", "error", "drop"]),
        }

    def declared(self) -> Declared:
        dice = self.dice
        ahead = (dice.choice([8, 20]), dice.randint(1, 3)) if dice.random() < 0.15 else None
        idle = dice.choice([1, 5, 9]) if self.is_idle and dice.random() < 0.6 else None
        return Declared(dice.choice([0, 0, 0, 2, 4]), ahead, idle)

    def script(self, seed: int) -> Script:
        dice = self.dice
        for _ in range(dice.choice([2, 3, 4] if self.is_flock else [0, 1, 1, 2])):
            self.start()
        for _ in range(dice.randint(4, 12) + 4 * self.is_flock):
            self.step()
        if not self.running:
            self.start()
            self.steps.append(self.push())
        if dice.random() < 0.4:
            self.steps.append(Advance(max(self.now.values()) + dice.choice([1, 2, 13, 30])))
        self.steps.append(Close(dice.random() < 0.4))
        options = {name: value for name, value in self.options.items() if value != USUAL[name]}
        scheduler = dice.choice([0, 0, 1, 3, 2 * dice.randint(1, 1 << 20)])
        return Script(options, self.streams, self.steps, scheduler, dice.random() < 0.3, seed)

    def step(self) -> None:
        dice = self.dice
        what = dice.random()
        if what < 0.53:
            push = self.push()
            self.steps.append(push)
            if self.mischief == "within" and self.running and dice.random() < 0.4:
                push.within = self.within()
        elif what < 0.63:
            self.steps.append(self.advance())
        elif what < 0.76:
            if len(self.running) < 5:
                self.start()
        elif what < 0.84 and self.running:
            self.steps.append(self.alter())
        elif what < 0.87 and self.running:
            self.steps.append(self.drop())
        elif what < 0.91:
            self.steps.append(Restore(dice.random() < 0.2))
        elif what < 0.93:
            self.steps.append(Look())
        elif what < 0.95:
            self.steps.append(Wrong(dice.choice(WRONG), dice.choice(list(self.streams))))
        elif self.running:
            self.steps.append(Read(dice.choice(list(self.running))))

    def within(self) -> Start | Alter | Drop | Advance | Push | None:
        """What somebody asks for who is called in the midst of a push."""
        what = self.dice.choice(["start", "start", "alter", "drop", "advance", "push"])
        if what == "start":
            started = self.drawn_start()
            if started is None:
                return None
            started.hears, started.fails, started.in_text = "", False, False
            self.running[started.name] = started
            return started
        done: Alter | Drop | Advance | Push = getattr(self, what)()
        return done

    # -- rows ---------------------------------------------------------------------------------------

    def push(self) -> Push:
        """Rows in time; where late rows are dropped, and now and then elsewhere, others too."""
        dice = self.dice
        stream = dice.choice(list(self.streams))
        declared, entry = self.streams[stream], self.entrance.entries[stream]
        drops = self.drops(stream)
        odd = dice.random() < (0.4 if drops else 0.03)
        rows: list[Row] = []
        for _ in range(dice.choice([1, 1, 2, 3, 5, 9])):
            now = self.now[stream] + dice.choice([0, 0, 0, 1, 1, 2, 7])
            ts = max(now - (dice.randint(0, declared.slack) if declared.slack else 0), entry.come)
            if odd and dice.random() < 0.3:
                ts += dice.choice([-1, -3, -9, 21, 40] if declared.ahead else [-1, -3, -9])
            rows.append((ts, self.rows, dice.choice(self.keys), dice.choice(self.values)))
            self.rows += 1
            self.now[stream] = max(self.now[stream], min(ts, now))
        entry.push(rows, drops)
        self.entrance.let_idle(one.tree.streams for one in self.running.values())
        for name, one in self.entrance.entries.items():
            self.now[name] = max(self.now[name], one.come)
        return Push(stream, rows, dice.choice([1, 1, 1, 2]))

    def drops(self, stream: str) -> bool:
        said = {one.late for one in self.running.values() if stream in one.tree.streams}
        return "ERROR" not in said and ("DROP" in said or self.options["late"] == "drop")

    def advance(self) -> Advance:
        """No further than rows that will come."""
        dice, now = self.dice, self.now
        if dice.random() < 0.7:
            ts = max(min(now.values()), dice.choice(list(now.values())) - 1) + dice.choice([0, 0, 1, 5])
            step = Advance(ts)
        else:
            stream = dice.choice(list(now))
            step = Advance(now[stream] + dice.choice([0, 1, 4]), stream)
        self.entrance.advance(step.ts, step.stream)
        for name in now if step.stream is None else [step.stream]:
            now[name] = max(now[name], step.ts)
        return step

    # -- queries ------------------------------------------------------------------------------------

    def alter(self) -> Alter:
        kind = self.dice.choice(["range", "range", "rows"])
        name = self.dice.choice(list(self.running))
        return Alter(name, kind, self.dice.randint(1, 10 if kind == "range" else 4))

    def drop(self) -> Drop:
        name = self.dice.choice(list(self.running))
        del self.running[name]
        self.free.append(name)
        return Drop(name)

    def start(self) -> None:
        """A query, perhaps with one that counts its rows or gives those that enter."""
        dice = self.dice
        started = self.drawn_start()
        if started is None:
            return
        self.steps.append(started)
        self.running[started.name] = started
        other = replace(started, hears="", in_text=False, like=started.name)
        if dice.random() < 0.12:
            self.steps.append(replace(other, name=self.name(), counting=True))
        elif started.emit == "INSERTS" and started.tree.drawn.life is None and dice.random() < 0.5:
            self.steps.append(replace(other, name=self.name(), emit="CHANGES"))

    def drawn_start(self) -> Start | None:
        dice = self.dice
        tree = self.tree()
        if not tree.references:
            return None
        emit = "INSERTS" if self.is_flock and dice.random() < 0.6 else dice.choice(EMITS)
        started = Start(self.name(), tree, emit, fails=self.fails and dice.random() < 0.4)
        if self.mischief and dice.random() < 0.6:
            started.hears = "raises" if self.mischief == "raises" else "calls"
        started.late = dice.choice([None] * 6 + ["DROP", "DROP", "ERROR"])
        if started.hops:
            started.hop, started.origin = dice.randint(1, 7), dice.choice([0, 0, 3, 1000])
            if dice.random() < 0.5:
                mode: Any = dice.choice(["auto", *MODES])
                if mode != "auto" and " JOIN " in tree.drawn.penstock and dice.random() < 0.3:
                    mode = {"join 1": mode}
                started.forced["modes"] = mode
            if dice.random() < 0.3:
                started.forced["execution"] = dice.choice(["taat", "waat"])
        if dice.random() < 0.12:
            joins = " JOIN " in tree.drawn.penstock
            name = dice.choice(["sharing", "index", "expiry"] if joins else ["expiry"])
            started.forced[name] = dice.choice({"sharing": SHARING, "expiry": EXPIRY, "index": INDEX}[name])
        started.in_text = not started.forced and dice.random() < 0.3
        return started

    def name(self) -> str:
        if self.free and self.dice.random() < 0.5:
            return self.free.pop()
        self.names += 1
        return f"q{self.names}"

    def tree(self) -> Tree:
        """A new one, or one that has to do with one at work."""
        dice = self.dice
        if self.is_flock and dice.random() < 0.85:
            return self.one_of_flock()
        if self.running and dice.random() < 0.5:
            tree = dice.choice(list(self.running.values())).tree
            if dice.random() < 0.5:
                tree = tree.with_windows([self.other_window(one) for one in tree.references])
            if dice.random() < 0.4:
                tree = tree.above(dice.choice([*ABOVE, *NAMED]))
            return tree
        windows = self.windows if dice.random() < 0.7 else dice.choice(WINDOWS)
        trees = Trees(dice, list(self.streams), windows, tables=dice.random() < 0.5)
        drawn = trees.tree(dice.choice([0, 1, 1, 2, 2, 3, 4]))
        tree = Tree(drawn, trees.references)
        if dice.random() < 0.12:
            kind = dice.choice(["range", "range", "rows"])
            tree = tree.through_one(None if dice.random() < 0.15 else drawn_window(dice, kind, "", ""))
        return tree

    def one_of_flock(self) -> Tree:
        if self.flock is None:
            trees = Trees(self.dice, list(self.streams), self.windows, tables=False)
            drawn = trees.double("join", trees.scan(), trees.scan())
            self.flock = Tree(drawn, trees.references)
        tree = self.flock.with_windows([self.other_window(one) for one in self.flock.references])
        return tree.kept(self.dice.choice(FILTERS)) if self.dice.random() < 0.4 else tree

    def other_window(self, one: Reference) -> Reference:
        if self.dice.random() < 0.3 and type(one).__name__ != "Bare":
            return one
        return drawn_window(self.dice, self.dice.choice(self.windows), one.stream, one.alias)

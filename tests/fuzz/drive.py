"""Does what a script says: engines, queries and what they have given, step by step."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from kept_promises import kept_promises
from oracle import Reference, plain, rows_of
from test_changes_oracle import same

import penstock
from penstock.engine.scheduler import RoundRobin, Shuffled
from penstock.optimizer.weights import SHIPPED, Weights, read
from penstock.query import EPOCH, NEVER

from .script import (
    SCHEMA,
    TABLE,
    Advance,
    Alter,
    Close,
    Drop,
    Push,
    Read,
    Restore,
    Row,
    Script,
    Start,
    Step,
    as_table,
    declare,
)

EVER = 1 << 60


@dataclass
class Span:
    """Windows and the times for which answers are those over them."""

    references: list[Reference]
    since: int = -EVER
    until: int = EVER


@dataclass
class Asked:
    """A query at work, what it has given, and over which windows."""

    start: Start
    spans: list[Span]
    alters: bool = False
    next: list[Reference] | None = None
    """Windows it is to have."""
    given: list[tuple[int, int, tuple[Any, ...]]] = field(default_factory=list)
    """ts, diff, row."""
    is_late: bool = False
    count: int = 0

    @property
    def name(self) -> str:
        return self.start.name

    @property
    def streams(self) -> set[str]:
        return self.start.tree.streams

    @property
    def references(self) -> list[Reference]:
        return self.spans[-1].references

    @property
    def has_rows(self) -> bool:
        """Whether some window is only known when an instant is over."""
        return any(one.kind == "rows" for span in self.spans for one in span.references)


class Disagreement(AssertionError):
    """The engine does something else than it should."""


class Drive:
    """An engine and all that was pushed to it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.engine = make_engine(script)
        self.come: dict[str, list[Row]] = {name: [] for name in script.slack}
        self.asked: dict[str, Asked] = {}
        self.refused: list[str] = []
        self.closed: Close | None = None

    def run(self, judge: Any) -> None:
        """All steps; `judge` is called where something must have come out."""
        with kept_promises():
            for number, step in enumerate(self.script.steps):
                self.do(step, judge)
                if number % 4 == self.script.seed % 4 or isinstance(step, Close):
                    self.engine._runtime._check()
                for one in self.asked.values():
                    self.look(one)
            for one in list(self.asked.values()):
                self.read(one)
                judge(self, one, True)

    def do(self, step: Step, judge: Any) -> None:
        match step:
            case Push():
                self.come[step.stream] += step.rows
                self.engine.push(step.stream, as_table(step.rows, step.chunks))
            case Advance():
                self.engine.advance(step.ts, step.stream)
            case Start():
                self.start(step, judge)
            case Alter():
                self.alter(step, judge)
            case Drop():
                if step.name in self.asked:
                    one = self.asked.pop(step.name)
                    self.read(one)
                    judge(self, one, False)
                    self.engine.queries[step.name].drop()
            case Restore():
                self.engine = penstock.Engine.restore_bytes(self.engine.checkpoint_bytes())
            case Read():
                if step.name in self.asked:
                    self.read(self.asked[step.name])
                    judge(self, self.asked[step.name], False)
            case Close():
                self.passed = {one.name: self.now(one) for one in self.asked.values()}
                self.closed = step
                self.engine.close(drain=step.drain)

    def start(self, step: Start, judge: Any) -> None:
        if step.like is not None and step.like not in self.asked:
            return
        try:
            self.engine.query(step.sql, step.name, **step.options)
        except (penstock.QueryError, penstock.UsageError) as error:
            self.refused.append(f"{error}")
            return
        references = [replace(one, lifetimes={}) for one in step.tree.references]
        one = self.asked[step.name] = Asked(step, [Span(references)])
        one.is_late = any(self.come.values())
        self.read(one)
        judge(self, one, False)

    def alter(self, step: Alter, judge: Any) -> None:
        """Together with whoever is compared with it."""
        if step.name not in self.asked:
            return
        names = [step.name, *(one.name for one in self.asked.values() if one.start.like == step.name)]
        for name in names:
            one = self.asked[name]
            try:
                self.engine.execute(replace(step, name=name).sql)
            except penstock.QueryError as error:
                self.refused.append(f"{error}")
                one.start = replace(one.start, like=None)
                continue
            one.alters = True
            one.next = [Reference(old.stream, old.alias, step.kind, step.size) for old in one.references]
            if one.start.emit == "INSERTS":
                one.spans[-1].until = min(one.spans[-1].until, self.known(one))
            self.look(one)
            self.read(one)
            judge(self, one, False)

    def look(self, one: Asked) -> None:
        """From when on answers are exact, and whether new windows are in force."""
        since = self.since(one)
        if one.next is None:
            one.spans[-1].since = max(one.spans[-1].since, since) if one.alters else since
        elif since < EVER:
            if since == -EVER:
                one.spans.clear()
            else:
                one.spans[-1].until = min(one.spans[-1].until, since - 1)
            one.spans.append(Span(one.next, since))
            one.next = None

    def since(self, one: Asked) -> int:
        since = self.engine.queries[one.name].complete_from
        if since is None:
            return -EVER
        return EVER if since == NEVER else round((since - EPOCH).total_seconds() * 1e6)

    def read(self, one: Asked) -> None:
        query = self.engine.queries[one.name]
        one.count = query.count
        if one.start.counting:
            return
        has_diff = one.start.emit in ("CHANGES", "DELTA")
        last = one.given[-1][0] if one.given else -EVER
        for ts, *row in rows_of(query.results()):
            if ts < last:
                raise Disagreement(f"{one.name}: a row at {ts} after one at {last}")
            last = ts
            diff = row.pop(0) if has_diff else 1
            one.given.append((ts, diff, same(plain(tuple(row)))))

    def now(self, one: Asked) -> int:
        """How far all streams of a query have come."""
        return min(self.engine._runtime.streams[name].watermark for name in one.streams)

    def known(self, one: Asked) -> int:
        """The last instant of which all must have come out by now."""
        return self.now(one) - (one.has_rows or one.start.hops)

    def tables(self) -> dict[str, pa.Table]:
        return {name: as_table(rows) for name, rows in self.come.items()}

    def times(self, one: Asked) -> list[int]:
        """Of the rows of a query's streams."""
        return [row[0] for name in one.streams for row in self.come[name]]


def make_engine(script: Script) -> penstock.Engine:
    number = script.scheduler
    scheduler = None
    if number:
        scheduler = RoundRobin(number) if number % 2 else Shuffled(number)
    weights = drawn_weights(script.seed) if script.hurry else read(SHIPPED)
    engine = penstock.Engine(scheduler=scheduler, weights=weights, **script.options)
    for name, slack in script.slack.items():
        engine.execute(declare(name, slack))
    engine.execute("CREATE TABLE t (k BIGINT, v DOUBLE)")
    engine.push("t", TABLE)
    if script.hurry:
        engine._adapter.look_after = engine._adapter.look_at_modes_after = 4
    return engine


def drawn_weights(seed: int) -> Weights:
    """A machine on which anything may be dear or cheap."""
    dice, shipped = random.Random(seed), read(SHIPPED)
    names = [name for name in shipped.__dataclass_fields__ if name.startswith("hop_")]
    return replace(shipped, **{name: 10 ** dice.uniform(-10, -5) for name in names})


def folded(given: list[tuple[int, int, tuple[Any, ...]]], until: int) -> Counter[Any]:
    """The answer that changes make by then."""
    answer: Counter[Any] = Counter()
    for ts, diff, row in given:
        if ts > until:
            break
        answer[row] += diff
    if any(count < 0 for count in answer.values()):
        raise Disagreement(f"a row left that had not entered, by {until}")
    return +answer


__all__ = ["SCHEMA", "Asked", "Disagreement", "Drive", "Span", "folded"]

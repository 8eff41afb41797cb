"""Does what a script says: engines, queries and what they have given, step by step."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from kept_promises import kept_promises
from oracle import Reference, plain, rows_of
from test_changes_oracle import same

import penstock
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.optimizer.costs.weights import SHIPPED, Weights, read
from penstock.query import EPOCH, NEVER

from .entry import Entrance, Row
from .mischief import Mischief, ask_everything, must_raise, try_wrong
from .script import (
    SCHEMA,
    TABLE,
    Advance,
    Alter,
    Close,
    Drop,
    Look,
    Push,
    Read,
    Restore,
    Script,
    Start,
    Step,
    Wrong,
    as_table,
)

EVER = 1 << 60


@dataclass
class Span:
    """Windows and the times for which answers are those over them."""

    references: list[Reference]
    since: int = -EVER
    until: int = EVER


@dataclass(eq=False)
class Asked:
    """A query at work, what it has given, and over which windows."""

    start: Start
    spans: list[Span]
    like: Asked | None = None
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

    def take(self, table: pa.Table) -> None:
        """What it gives, in time order."""
        has_diff = self.start.emit in ("CHANGES", "DELTA")
        last = self.given[-1][0] if self.given else -EVER
        for ts, *row in rows_of(table):
            if ts < last:
                raise Disagreement(f"{self.name}: a row at {ts} after one at {last}")
            last = ts
            diff = row.pop(0) if has_diff else 1
            self.given.append((ts, diff, same(plain(tuple(row)))))


class Disagreement(AssertionError):
    """The engine does something else than it should."""


class Drive:
    """An engine and all that was pushed to it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.engine = make_engine(script)
        self.entrance = Entrance(script.streams)
        self.come: dict[str, list[Row]] = {name: [] for name in script.streams}
        self.asked: dict[str, Asked] = {}
        self.started = 0
        self.refused: list[str] = []
        self.stopped: set[str] = set()
        self.within: Start | Alter | Drop | Advance | Push | None = None
        self.closed: Close | None = None

    def run(self, judge: Any) -> None:
        """All steps; `judge` is called where something must have come out."""
        with kept_promises():
            for number, step in enumerate(self.script.steps):
                self.do(step, judge)
                self.look_at_streams()
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
                self.within, refused = step.within, len(self.refused)
                self.call(lambda: self.push(step))
                done, self.within = step.within if self.within is None else None, None
                if isinstance(done, Alter) and len(self.refused) == refused:
                    self.give_windows(done.name, done)
                if done is not None:
                    self.note(done, judge)
            case Advance():
                self.call(lambda: self.advance(step))
            case Start():
                self.call(lambda: self.start(step))
                self.note(step, judge)
            case Alter() | Drop():
                one = self.asked.get(step.name)
                if isinstance(step, Drop) and one is not None:
                    self.read(one)
                    judge(self, one, False)
                self.call(lambda: self.change(step))
                self.note(step, judge)
            case Restore():
                self.restore(step.to_file)
            case Wrong():
                try_wrong(self.engine, step.kind, step.stream)
            case Look():
                ask_everything(self.engine)
            case Read():
                if step.name in self.asked:
                    self.read(self.asked[step.name])
                    judge(self, self.asked[step.name], False)
            case Close():
                self.passed = {one.name: self.now(one) for one in self.asked.values()}
                self.closed = step
                self.call(lambda: self.engine.close(drain=step.drain))

    # -- what is asked of the engine ----------------------------------------------------------------

    def call(self, what: Callable[[], None]) -> None:
        """Queries that are to fail may, and subscribers that raise; nobody else."""
        try:
            what()
        except penstock.TakenError as error:
            for one in (error, *error.others):
                self.judge_error(one)

    def judge_error(self, error: BaseException | None) -> None:
        match error:
            case penstock.StoppedError() if "Division by zero" in f"{error}":
                for name in error.queries:
                    one = self.asked.pop(name, None)
                    if one is not None and one.start.fails:
                        self.stopped.add(name)
                    if name not in self.stopped:
                        raise error
            case penstock.SubscriberError():
                self.judge_error(error.__cause__)
            case penstock.QueryError() | penstock.UsageError():
                self.refused.append(f"{error}")
            case Mischief() | None:
                pass
            case _:
                raise error

    def push(self, step: Push) -> None:
        taken = self.entrance.entries[step.stream].push(step.rows, self.drops(step.stream))
        if isinstance(taken, str):
            kind = {"late": penstock.LateError, "ahead": penstock.AheadError}[taken]
            with must_raise(kind):
                self.engine.push(step.stream, as_table(step.rows, step.chunks))
            return
        self.come[step.stream] += taken
        self.let_idle()
        self.engine.push(step.stream, as_table(step.rows, step.chunks))

    def advance(self, step: Advance) -> None:
        self.entrance.advance(step.ts, step.stream)
        self.let_idle()
        self.engine.advance(step.ts, step.stream)

    def start(self, step: Start) -> None:
        """It is there from now on, unless it is refused."""
        like = None if step.like is None else self.asked.get(step.like)
        if step.name in self.engine.queries:
            return
        if step.like is not None and (like is None or not step.is_company_of(like.start)):
            return
        references = [replace(one, lifetimes={}) for one in step.tree.references]
        one = self.asked[step.name] = Asked(step, [Span(references)], like)
        one.is_late = any(self.come.values())
        try:
            if step.in_text and not step.options:
                self.engine.execute(f"CREATE QUERY {step.name} AS {step.sql}")
            else:
                self.engine.query(step.sql, step.name, **step.options)
        except (penstock.QueryError, penstock.UsageError) as error:
            self.refused.append(f"{error}")
            del self.asked[step.name]
            return
        self.started += 1
        if step.fails and self.engine.queries[step.name]._pipeline.error is not None:
            self.stopped.add(step.name)  # on its first answer: the next call says so
            del self.asked[step.name]

    def change(self, step: Alter | Drop) -> None:
        """Of whoever is compared with a query the windows change too."""
        if isinstance(step, Drop):
            if step.name in self.engine.queries:
                self.engine.queries[step.name].drop()
            return
        for one in self.with_company(step.name):
            sql = replace(step, name=one.name).sql
            try:
                self.call(partial(self.engine.execute, sql))
            except penstock.QueryError as error:
                self.refused.append(f"{error}")
                one.like = None
                continue
            self.give_windows(one.name, step)

    def give_windows(self, name: str, step: Alter) -> None:
        """A query is to have other windows from some time on."""
        if name in self.asked:
            one = self.asked[name]
            one.alters = True
            one.next = [Reference(old.stream, old.alias, step.kind, step.size) for old in one.references]

    def note(self, step: Step, judge: Any) -> None:
        """Something was asked for, and is done now."""
        match step:
            case Start():
                one = self.asked.get(step.name)
                if one is not None and one.start is step:
                    if step.name not in self.engine.queries:  # refused when its turn came
                        del self.asked[step.name]
                        return
                    self.read(one)
                    if step.hears and not step.counting:
                        self.engine.queries[step.name].subscribe(self.listener(one))
                    judge(self, one, False)
            case Alter():
                for one in self.with_company(step.name):
                    if one.start.emit == "INSERTS" and one.next is not None:
                        # of the instant that is not over, what comes now may meet nothing of what has come
                        one.spans[-1].until = min(one.spans[-1].until, self.now(one) - 1)
                    self.look(one)
                    self.read(one)
                    judge(self, one, False)
            case Drop():
                self.asked.pop(step.name, None)
                self.stopped.discard(step.name)

    def with_company(self, name: str) -> list[Asked]:
        one = self.asked.get(name)
        return [] if one is None else [one, *(other for other in self.asked.values() if other.like is one)]

    def restore(self, to_file: bool) -> None:
        if to_file:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "engine.state"
                self.engine.checkpoint(path)
                self.engine = penstock.Engine.restore(path)
        else:
            self.engine = penstock.Engine.restore_bytes(self.engine.checkpoint_bytes())
        for one in self.asked.values():
            if one.start.hears and not one.start.counting:
                self.read(one)
                self.engine.queries[one.name].subscribe(self.listener(one))

    def listener(self, one: Asked) -> Callable[[pa.RecordBatch], None]:
        def hear(batch: pa.RecordBatch) -> None:
            one.take(pa.Table.from_batches([batch]))
            self.ask_within()
            if one.start.hears == "raises":
                raise Mischief

        return hear

    def ask_within(self) -> None:
        """In the midst of a push; it is done when that is."""
        step = self.within
        if isinstance(step, Alter):
            company = self.with_company(step.name)
            if len(company) != 1 or company[0].next is not None:
                return  # it could not be told which were refused, or which windows came into force before
        self.within = None
        match step:
            case Start():
                self.start(step)
            case Drop():
                self.change(step)
            case Alter():
                self.engine.execute(step.sql)  # what is refused is heard of later
            case Advance():
                self.advance(step)
            case Push():
                entry = deepcopy(self.entrance.entries[step.stream])
                if not isinstance(entry.push(step.rows, self.drops(step.stream)), str):
                    self.push(step)

    # -- what is known ------------------------------------------------------------------------------

    def drops(self, stream: str) -> bool:
        """What becomes of late rows."""
        said = {one.start.late for one in self.asked.values() if stream in one.streams}
        return "ERROR" not in said and ("DROP" in said or self.script.options.get("late") == "drop")

    def let_idle(self) -> None:
        self.entrance.let_idle(one.streams for one in self.asked.values())

    def look_at_streams(self) -> None:
        """How far they have come is told by a definition."""
        if self.closed is not None:
            return
        for name, ingest in self.engine._runtime.streams.items():
            come = self.entrance.entries[name].come
            if max(ingest.watermark, -(10**9)) != come:
                raise Disagreement(f"{name}: expected to have come to {come}, found {ingest.watermark}")

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
        if not one.start.counting:
            one.take(query.results())

    def now(self, one: Asked) -> int:
        """How far all streams of a query have come."""
        return min(self.engine._runtime.streams[name].watermark for name in one.streams)

    def known(self, one: Asked) -> int:
        """The last instant of which all must have come out by now."""
        return self.now(one) - (one.has_rows or one.start.hops)

    def expiry(self, one: Asked) -> str:
        return str(one.start.forced.get("expiry", self.script.options.get("expiry", "auto")))

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
    for name, declared in script.streams.items():
        engine.execute(declared.sql(name))
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

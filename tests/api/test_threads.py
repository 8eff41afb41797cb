"""Many threads on one engine: what they see is what one thread sees that makes the same calls in some order.

The order is written down where the calls are worked: each as it begins, in the method that the public one
hands it to. Then one thread makes the same calls of a new engine, and every answer that any thread was given
must be the one that is given there. Without turns calls begin before others end, and this fails, if it does
not crash.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import pyarrow as pa
import pytest

import penstock
from penstock.compile_notice import SAID, CompileNotice, compile_notice
from penstock.engine.kernels.base import jit
from penstock.engine.results.sink import Sink
from penstock.engine.running.runtime import Runtime

STREAMS = "abcd"
TABLES = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)" for name in (*STREAMS, "echo"))
PUSHED_ROWS = 40
STAYING = {
    "pairs": "SELECT x.k, x.v, y.v AS w FROM a [RANGE 60 us] AS x JOIN b [RANGE 60 us] AS y ON x.k = y.k",
    "more": "SELECT x.k, y.v FROM a [RANGE 30 us] AS x JOIN b [RANGE 90 us] AS y ON x.k = y.k WHERE x.v < 50",
    "sums": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM c [RANGE 50 us] GROUP BY k EMIT CHANGES",
    "hops": "SELECT k, MAX(v) AS m FROM d [RANGE 40 us] GROUP BY k HOP BY 20 us",
    "few": "SELECT k, v FROM d WHERE v < 5",
    "heard": "SELECT k, v FROM echo",
    "last": "SELECT x.v FROM c [ROWS 5] AS x JOIN d [ROWS 7] AS y ON x.k = y.k",
}
COMING = [
    "SELECT x.k, y.v AS w FROM a [RANGE 45 us] AS x JOIN b [RANGE 20 us] AS y ON x.k = y.k",
    "SELECT k, SUM(v) AS s FROM c [RANGE 50 us] GROUP BY k EMIT CHANGES",
    "SELECT k, COUNT(*) AS n FROM d [RANGE 60 us] GROUP BY k HOP BY 20 us",
    "SELECT k FROM a WHERE v < 20",
]

Call = tuple[str, Any, Any]
"""What, to whom, with what. Of results: the query and the rows that were given."""


class Record:
    """The calls of one engine in the order in which they were worked, and what they gave."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.checkpoints: list[tuple[int, bytes]] = []
        """Each with the number of calls before it."""


@contextmanager
def recorded(
    monkeypatch: pytest.MonkeyPatch, engine: penstock.Engine, texts: dict[str, str]
) -> Iterator[Record]:
    """Write down what comes to the runtime; what a subscriber asked for is asked for again by it."""
    record, real = (
        Record(),
        (Runtime.push, Runtime.advance, Runtime.add_query, Runtime.drop_query, Sink.drain),
    )
    push, advance, add_query, drop_query, drain = real

    def note(*call: Any) -> None:
        if not engine._turns._depth:
            record.calls.append(call)

    def noted(what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def work(self: Any, name: Any, *others: Any) -> Any:
            if self is engine._runtime:
                note(what, name, others)
            return method(self, name, *others)

        return work

    def drained(self: Sink) -> pa.Table:
        rows = drain(self)
        name = self.name.removesuffix(".sink")
        note("results" if name in engine._queries else "what is left", name, rows)
        return rows

    def dumped(self: penstock.Engine, asked: Any) -> Any:
        at = len(record.calls)
        found = b"".join(dump(self, asked))
        assert at == len(record.calls), "something else was worked meanwhile"
        record.checkpoints.append((at, found))
        return [found]

    dump = penstock.Engine._dump
    with monkeypatch.context() as patch:
        patch.setattr(Runtime, "push", noted("push", push))
        patch.setattr(Runtime, "advance", noted("advance", advance))
        patch.setattr(Runtime, "add_query", noted("add", add_query))
        patch.setattr(Runtime, "drop_query", noted("drop", drop_query))
        patch.setattr(Sink, "drain", drained)
        patch.setattr(penstock.Engine, "_dump", dumped)
        yield record


def echo(engine: penstock.Engine) -> None:
    """A subscriber that pushes what it hears to another stream, in time order."""
    latest = [0]

    def hear(batch: pa.RecordBatch) -> None:
        times = [max(latest[0], ts) for ts in batch["_ts"].cast(pa.int64()).to_pylist()]
        latest[0] = times[-1]
        engine.push("echo", {"ts": times, "k": batch["k"], "v": batch["v"]})

    engine.queries["few"].subscribe(hear)


def rows_of(dice: random.Random, at: int) -> pa.Table:
    """Rows from a time on: some twenty microseconds."""
    times = sorted(dice.randrange(20) + at for _ in range(PUSHED_ROWS))
    columns = {
        "ts": times,
        "k": [dice.randrange(8) for _ in times],
        "v": [dice.randrange(100) for _ in times],
    }
    return pa.table(columns)


def start(engine: penstock.Engine) -> None:
    engine.execute(
        TABLES + "; " + "; ".join(f"CREATE QUERY {name} AS {sql}" for name, sql in STAYING.items())
    )
    echo(engine)


class Storm:
    """Four who push a stream each, two who read, one who adds and drops queries, one who saves."""

    def __init__(self, engine: penstock.Engine, seed: int, pushes: int) -> None:
        self.texts: dict[str, str] = {}
        self.errors: list[BaseException] = []
        self._engine = engine
        self._pushing = len(STREAMS)
        self._barrier = threading.Barrier(len(STREAMS) + 4)
        self._seed = seed
        self._pushes = pushes

    def run(self) -> None:
        parts = [*((self._push, stream) for stream in STREAMS), (self._read, 1), (self._read, 2)]
        parts += [(self._come_and_go, 3), (self._save, 4)]
        threads = [threading.Thread(target=self._guard, args=part, daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive(), "it hangs"
        if self.errors:
            raise self.errors[0]

    def _guard(self, part: Callable[[Any], None], own: Any) -> None:
        self._barrier.wait(60)
        try:
            part(own)
        except BaseException as error:
            self.errors.append(error)

    def _push(self, stream: str) -> None:
        dice = random.Random(f"{self._seed} {stream}")
        try:
            for number in range(self._pushes):
                self._engine.push(stream, rows_of(dice, 20 * number))
                if number % 7 == 6:
                    self._engine.advance(20 * number, stream)
        finally:
            self._pushing -= 1

    def _read(self, own: int) -> None:
        dice = random.Random(f"{self._seed} {own}")
        while self._pushing:
            for query in list(self._engine.queries.values()):
                if query.name != "few":
                    read = query.results().num_rows
                    assert read <= query.count
            look = dice.choice([self._engine.stats, self._engine.explain, lambda: self._engine.streams])
            assert look()
            assert query.complete_from is None or query.complete_from.year >= 1970

    def _come_and_go(self, own: int) -> None:
        dice = random.Random(f"{self._seed} {own}")
        there: list[penstock.Query] = []
        number = 0
        while self._pushing:
            number += 1
            sql = dice.choice(COMING)
            self.texts[f"new{number}"] = sql
            there.append(self._engine.query(sql, name=f"new{number}"))
            if len(there) > 2:
                there.pop(dice.randrange(3)).drop()

    def _save(self, own: int) -> None:
        while self._pushing:
            assert self._engine.checkpoint_bytes()
            threading.Event().wait(0.01)


def repeat(
    engine: penstock.Engine, calls: list[Call], texts: dict[str, str]
) -> list[tuple[str, Counter[Any]]]:
    """The same calls one after the other; what was read, in order."""
    found = []
    known = dict(engine.queries)
    for what, name, others in calls:
        if what == "push":
            engine.push(name, *others)
        elif what == "advance":
            engine.advance(name, *others)
        elif what == "add":
            known[name] = engine.query(texts[name], name=name)
        elif what == "drop":
            engine.queries[name].drop()
        else:
            found.append((name, counted(known[name].results())))
    return found


def counted(rows: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def check_storm(monkeypatch: pytest.MonkeyPatch, seed: int, pushes: int) -> None:
    engine = penstock.Engine()
    start(engine)
    storm = Storm(engine, seed, pushes)
    with recorded(monkeypatch, engine, storm.texts) as record:
        storm.run()
        for query in engine.queries.values():
            query.results()
    engine._runtime._check()
    calls = record.calls
    assert Counter(what for what, _, _ in calls)["push"] == len(STREAMS) * pushes, (
        "what the subscriber asked for"
    )
    # 1. all that was read, by whomever, is what one thread reads
    again = penstock.Engine()
    start(again)
    expected = read_in(calls)
    assert repeat(again, calls, storm.texts) == expected
    total = {name: sum(one.total() for query, one in expected if query == name) for name in engine.queries}
    counts = {name: query.count for name, query in engine.queries.items() if name != "few"}
    assert {name: total[name] for name in counts} == counts, "rows were lost or came twice"
    assert engine.stats()["streams"] == again.stats()["streams"]
    # 2. a checkpoint is of one moment between two calls
    at, saved = random.Random(seed).choice(record.checkpoints)
    restored = penstock.Engine.restore_bytes(saved)
    echo(restored)
    rest = [call for call in calls[at:] if call[0] != "what is left"]  # of queries dropped before, perhaps
    assert repeat(restored, rest, storm.texts) == read_in(rest)


def read_in(calls: list[Call]) -> list[tuple[str, Counter[Any]]]:
    """What was read, in order."""
    return [(name, counted(rows)) for _, name, rows in calls if isinstance(rows, pa.Table)]


def test_many_threads_see_what_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    check_storm(monkeypatch, 1, 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_storms(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(random.Random(seed).choice([1e-6, 1e-4, before]))
    try:
        check_storm(monkeypatch, seed, 40)
    finally:
        sys.setswitchinterval(before)


# -- engines of their own ---------------------------------------------------------------------------------

FIRST_USE = """
import sys, threading, traceback
sys.setswitchinterval(1e-6)
import penstock

texts = [{texts}]
begin, failed = threading.Barrier(4), []

def use(number):
    begin.wait()
    try:
        engine = penstock.Engine()
        engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
        for text in texts[number:] + texts[:number]:
            engine.query(text)
        engine.explain(analyze=True), engine.stats(), engine.checkpoint_bytes()
    except BaseException:
        failed.append(traceback.format_exc())

threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit("".join(failed) or None)
"""
FIRST_TEXTS = [
    "SELECT k FROM a",
    "SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k HOP BY 1 SECONDS",
    "SELECT x.k FROM a [RANGE 1 SECONDS] AS x JOIN b [RANGE 1 SECONDS] AS y ON x.k = y.k",
    "SELECT k FROM a [RANGE 5 SECONDS] EXCEPT SELECT k FROM b [RANGE 1 SECONDS]",
]


def test_the_first_engines_of_a_process_may_be_made_by_several_threads(tmp_path: Path) -> None:
    """What is loaded late is loaded once and whole; of the stock parser half would be there nearly always."""
    script = FIRST_USE.format(texts=", ".join(map(repr, FIRST_TEXTS)))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


def test_engines_in_threads_of_their_own_do_not_disturb_each_other() -> None:
    """Nothing that is kept for all engines of a process (caches, kernels) is written without care."""

    def answers(seed: int) -> list[Counter[Any]]:
        engine = penstock.Engine()
        start(engine)
        dice = random.Random(seed)
        for number in range(8):
            for stream in STREAMS:
                engine.push(stream, rows_of(dice, 20 * number))
        engine.close()
        return [counted(query.results()) for query in engine.queries.values() if query.name != "few"]

    found: dict[int, list[Counter[Any]]] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: answers(n)})) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: answers(n) for n in range(4)}


# -- kernels ----------------------------------------------------------------------------------------------


def test_kernels_let_other_threads_run() -> None:
    assert jit.OPTIONS["nogil"] is True


def test_compiling_is_said_once_through_the_logger(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a warning: nobody sees what is below who has not asked for it. Kernels of others are not ours."""
    monkeypatch.setattr(compile_notice, "count", 1)  # the notice of this process has been given
    notice = CompileNotice()
    notice.listen()
    notice.listen()

    def one(x: int) -> int:
        return x + 1

    numba.njit(one)(1)
    assert not caplog.records
    for name in ("first", "second"):
        kernel = numba.njit(lambda x: x + 2)
        kernel.py_func.__module__ = f"penstock.engine.kernels.{name}"
        kernel(1)
    assert notice.count == 2
    assert [
        (one.name, one.levelname, one.getMessage()) for one in caplog.records if one.getMessage() == SAID
    ] == [("penstock", "WARNING", SAID)]

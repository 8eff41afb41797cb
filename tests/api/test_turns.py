"""Turns: who waits for whom, what a subscriber's calls do, and what is said when something goes wrong."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import turns
from penstock.engine.flow.scheduler import RoundRobin

TAKEN = "What was pushed is taken in: do not push it again"
SOON = 60  # seconds; nothing here takes as long, unless it hangs

UNTURNED = {
    "Engine.__enter__": "gives the engine itself",
    "Engine.__exit__": "calls `close`, which takes one",
    "Engine.restore": "makes an engine that nobody else has yet",
    "Engine.restore_bytes": "makes an engine that nobody else has yet",
    "Engine.execute": "reads the text, then `_execute` takes one",
    "Engine.query": "reads the text, then `_query` takes one",
    "Engine.push": "turns the rows into Arrow, then `_push` takes one",
    "Query.name": "never changes",
    "Query.subscribe": "looks at the callback, then `_subscribe` takes one",
    "Query.drop": "silences the query if a subscriber asks, then `_drop` takes one",
    "Query.__repr__": "asks for `count`, which takes one",
}
INSIDE = {
    "Engine.execute": "_execute",
    "Engine.query": "_query",
    "Engine.push": "_push",
    "Query.subscribe": "_subscribe",
    "Query.drop": "_drop",
}


def make_engine(**options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    return engine


def push(engine: penstock.Engine, stream: str, *rows: tuple[int, int]) -> None:
    engine.push(stream, {"ts": [ts for ts, _ in rows], "k": [k for _, k in rows]})


def values(query: penstock.Query) -> list[int]:
    return query.results()["k"].to_pylist()


def run_in_thread(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def come_to_line(engine: penstock.Engine, length: int) -> None:
    """Return when so many wait for a turn."""
    gone = threading.Event()
    for _ in range(SOON * 1_000):
        if len(engine._turns.line) == length:
            return
        gone.wait(0.001)
    raise AssertionError(f"expected {length} in line, found {len(engine._turns.line)}")


# -- every public call ----------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [penstock.Engine, penstock.Query])
def test_every_public_call_takes_a_turn(made: type) -> None:
    for name, found in vars(made).items():
        is_public = not name.startswith("_") or name in ("__enter__", "__exit__", "__repr__")
        if not is_public or not (callable(found) or isinstance(found, property | staticmethod)):
            continue
        function = found.fget if isinstance(found, property) else found
        full = f"{made.__name__}.{name}"
        assert hasattr(function, "takes_turn") != (full in UNTURNED), full
        if full in INSIDE:
            inner = vars(made)[INSIDE[full]]
            assert inner.takes_turn == "change", full
            assert f"self.{INSIDE[full]}(" in inspect.getsource(found), full


def test_what_is_listed_is_there() -> None:
    known = {f"{made.__name__}.{name}" for made in (penstock.Engine, penstock.Query) for name in vars(made)}
    assert UNTURNED.keys() <= known


# -- threads --------------------------------------------------------------------------------------------


def test_who_comes_first_is_served_first() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="q")
    inside, go_on = threading.Event(), threading.Event()
    served: list[int] = []

    def wait(_: pa.RecordBatch) -> None:
        inside.set()
        assert go_on.wait(SOON)

    query.subscribe(wait)
    threads = [run_in_thread(lambda: push(engine, "a", (1, 1)))]
    assert inside.wait(SOON)
    for number in range(5):
        threads.append(run_in_thread(lambda number=number: (query.count, served.append(number))))
        come_to_line(engine, number + 1)
    assert not served
    go_on.set()
    for thread in threads:
        thread.join(SOON)
    assert sorted(served) == [0, 1, 2, 3, 4]
    assert not engine._turns.line


def test_who_pushes_without_a_pause_lets_others_in() -> None:
    """The line stands: who has had a turn goes to its end."""
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="q")
    is_over = threading.Event()
    pushed: list[int] = []

    def push_on() -> None:
        while not is_over.is_set():
            pushed.append(len(pushed))
            push(engine, "a", (pushed[-1], pushed[-1]))

    thread = run_in_thread(push_on)
    seen: list[int] = []
    for _ in range(20):
        seen += values(query)
    is_over.set()
    thread.join(SOON)
    assert seen + values(query) == pushed


def test_an_engine_works_beside_another() -> None:
    """While one engine's subscriber does not return, another engine goes on."""
    one, other = make_engine(), make_engine()
    inside, go_on = threading.Event(), threading.Event()

    def wait(_: pa.RecordBatch) -> None:
        inside.set()
        assert go_on.wait(SOON)

    one.query("SELECT k FROM a").subscribe(wait)
    thread = run_in_thread(lambda: push(one, "a", (1, 1)))
    assert inside.wait(SOON)
    query = other.query("SELECT k FROM a")
    push(other, "a", (1, 5))
    assert values(query) == [5]
    go_on.set()
    thread.join(SOON)


def test_waiting_for_who_waits_is_said_to_be_a_deadlock() -> None:
    engine = make_engine(deadlock_after_s=0.05)
    query = engine.query("SELECT k FROM a", name="hot")
    raised: list[Exception] = []

    def ask() -> None:
        try:
            engine.stats()
        except penstock.DeadlockError as error:
            raised.append(error)

    query.subscribe(lambda _: run_in_thread(ask).join(SOON))
    push(engine, "a", (1, 1))
    assert "the subscriber of `hot` at work all the time, in thread `MainThread`" in str(raised[0])
    assert isinstance(raised[0], penstock.UsageError)
    assert not engine._turns.line
    push(engine, "b", (1, 1))
    assert query.count == 1


def test_a_long_push_is_no_deadlock() -> None:
    """Only who waits for a subscriber gives up."""
    engine = make_engine(deadlock_after_s=0.01)
    lock = engine._turns.lock
    lock.acquire()
    seen: list[int] = []
    thread = run_in_thread(lambda: seen.append(len(engine.queries)))
    come_to_line(engine, 1)
    thread.join(0.1)
    assert not seen
    lock.release()
    thread.join(SOON)
    assert seen == [0]


@pytest.mark.parametrize("seconds", [0, -1, True, "5", None, float("nan")])
def test_a_time_limit_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(penstock.UsageError, match="Expected deadlock_after_s to be a number of seconds"):
        penstock.Engine(deadlock_after_s=seconds)


def test_the_time_limit_is_in_a_checkpoint_and_the_line_is_not() -> None:
    engine = make_engine(deadlock_after_s=5)
    again = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
    assert again._turns.deadlock_after_s == 5
    assert again._turns is not engine._turns
    query = again.query("SELECT 1 // k AS k FROM a")
    with pytest.raises(penstock.StoppedError):
        push(again, "a", (1, 1), (1, 0))
    assert values(query) == [1]


# -- what a subscriber asks for --------------------------------------------------------------------------


def test_what_a_subscriber_changes_is_done_after_the_push_in_order() -> None:
    engine = make_engine()
    query, echo = engine.query("SELECT k FROM a", name="q"), engine.query("SELECT k FROM b", name="echo")
    seen: list[Any] = []

    def react(batch: pa.RecordBatch) -> None:
        for k in batch["k"].to_pylist():
            push(engine, "b", (k, k))
        seen.append((echo.count, list(engine.queries)))
        engine.execute("DROP QUERY echo; CREATE STREAM c (ts TIMESTAMP, k BIGINT)")
        new = engine.query("SELECT k FROM c", name="echo")  # of a stream that is still to come
        push(engine, "c", (1, 7))
        new.subscribe(lambda batch: seen.append(batch["k"].to_pylist()))
        push(engine, "c", (2, 8))
        seen.append((new.name, new.count, new.complete_from == penstock.query.NEVER))

    query.subscribe(react)
    push(engine, "a", (1, 1), (2, 2))
    assert seen == [(0, ["q", "echo"]), ("echo", 0, True), [7], [8]]
    assert echo.count == 2, "it was pushed to, then dropped"
    assert engine.queries["echo"].count == 2


def test_a_query_that_has_not_begun_says_so() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="q")
    new: list[penstock.Query] = []

    def start(_: pa.RecordBatch) -> None:
        if not new:
            new.append(engine.query("SELECT k FROM b"))
            assert repr(new[0]) == "<Query q1: 0 results>"
            for look in (
                lambda: new[0].schema, lambda: new[0].sql, lambda: new[0].streams, new[0].results,
            ):  # fmt: skip
                with pytest.raises(penstock.UsageError, match="`q1`, which begins when the running call is"):
                    look()

    query.subscribe(start)
    push(engine, "a", (1, 1))
    push(engine, "b", (1, 5))
    assert engine.queries["q1"] is new[0]
    assert values(new[0]) == [5]


def test_a_query_that_cannot_begin_says_why() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="q")
    new: list[penstock.Query] = []
    query.subscribe(lambda _: new.append(engine.query("SELECT z FROM b", name="late")))
    with pytest.raises(penstock.SubscriberError, match="BindError from that of `q`: Expected") as raised:
        push(engine, "a", (1, 1))
    assert isinstance(raised.value.__cause__, penstock.BindError)
    assert raised.value.__cause__.__notes__ == ["asked for by a subscriber of `q`, with `query`"]
    with pytest.raises(penstock.UsageError, match="found `late`, which could not be started: Expected"):
        new[0].results()
    assert query.count == 1


def test_a_mistake_in_the_text_is_told_at_once() -> None:
    engine = make_engine()
    raised: list[str] = []

    def slip(_: pa.RecordBatch) -> None:
        for ask in (engine.query, engine.execute):
            try:
                ask("SELEKT")
            except penstock.ParseError as error:
                raised.append(str(error))
        with pytest.raises(penstock.UsageError, match="Expected a function"):
            query.subscribe(5)  # type: ignore[arg-type]
        with pytest.raises(penstock.SchemaError, match="one length"):
            engine.push("b", {"ts": [1], "k": [1, 2]})
        with pytest.raises(penstock.UsageError, match="between two pushes"):
            engine.checkpoint_bytes()

    query = engine.query("SELECT k FROM a")
    query.subscribe(slip)
    push(engine, "a", (1, 1))
    assert len(raised) == 2


def test_rows_that_wait_are_as_they_were_when_pushed() -> None:
    import numpy as np

    engine = make_engine()
    echo = engine.query("SELECT k FROM b")
    values_ = np.array([5])

    def react(_: pa.RecordBatch) -> None:
        engine.push("b", {"ts": np.array([1]), "k": values_})
        values_[0] = 9

    engine.query("SELECT k FROM a").subscribe(react)
    push(engine, "a", (1, 1))
    assert values(echo) == [5]


def test_a_query_that_is_dropped_by_a_subscriber_is_silent_at_once() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a")
    sizes: list[int] = []

    def once(batch: pa.RecordBatch) -> None:
        sizes.append(batch.num_rows)
        query.drop()

    query.subscribe(once)
    engine.push("a", {"ts": range(100_000), "k": range(100_000)})
    assert sizes == [32_768]
    assert not engine.queries


def test_a_chain_of_calls_that_never_ends_is_refused() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="for_ever")

    def again(batch: pa.RecordBatch) -> None:
        k = batch["k"][-1].as_py() + 1
        push(engine, "a", (k, k))

    query.subscribe(again)
    with pytest.raises(penstock.SubscriberError, match=r"UsageError from that of `for_ever`.* 1,000 calls"):
        push(engine, "a", (0, 0))
    assert query.count == turns.LONGEST_CHAIN + 1
    with pytest.raises(penstock.SubscriberError):  # the next call begins anew
        push(engine, "a", (5_000, 5_000))
    assert query.count == 2 * (turns.LONGEST_CHAIN + 1)


def test_calls_that_double_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_PUT_OFF", 100)
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="twice")

    def two(_: pa.RecordBatch) -> None:
        for _ in range(2):
            push(engine, "a", (1, 1))

    query.subscribe(two)
    with pytest.raises(penstock.SubscriberError, match=r"found 100 calls .* `push` by that of `twice`"):
        push(engine, "a", (0, 0))
    assert query.count == 101


def test_the_handler_of_a_signal_waits_for_the_running_call() -> None:
    """It comes between any two steps: what it changes is put off, too, and nothing is saved half done."""

    class Signalled(RoundRobin):
        def run(self, *args: Any) -> None:
            if not refused:
                with pytest.raises(
                    penstock.UsageError, match=r"Expected checkpoint_bytes\(\) between two"
                ) as one:
                    engine.checkpoint_bytes()
                refused.append(one.value)
                push(engine, "b", (1, 5))
                engine.close()
                assert query.count == echo.count == 0
            super().run(*args)

    refused: list[Exception] = [ValueError("not yet")]
    engine = make_engine(scheduler=Signalled())
    query, echo = engine.query("SELECT k FROM a"), engine.query("SELECT k FROM b")
    refused.clear()
    push(engine, "a", (1, 1))
    assert (query.count, echo.count) == (1, 1)
    with pytest.raises(penstock.UsageError, match="found it closed"):
        push(engine, "a", (2, 1))


def test_an_interrupt_ends_everything_and_frees_the_engine() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a", name="q")
    is_first = [True]

    def stop(_: pa.RecordBatch) -> None:
        if is_first.pop() if is_first else False:
            push(engine, "b", (1, 1))
            raise KeyboardInterrupt

    query.subscribe(stop)
    echo = engine.query("SELECT k FROM b")
    with pytest.raises(KeyboardInterrupt):
        push(engine, "a", (1, 1))
    assert echo.count == 0, "what was asked for before the interrupt is given up"
    seen: list[int] = []
    run_in_thread(lambda: seen.append(query.count)).join(SOON)
    assert seen == [1]
    push(engine, "a", (2, 2))
    assert query.count == 2
    assert echo.count == 0


# -- what went wrong ------------------------------------------------------------------------------------


def test_subscribers_that_raise_are_all_named_when_all_is_done() -> None:
    engine = make_engine()
    first, second = engine.query("SELECT k FROM a", name="first"), engine.query("SELECT k FROM a", "second")
    heard: list[int] = []

    def refuse(batch: pa.RecordBatch) -> None:
        raise ValueError(f"no {batch['k'][0]}")

    def break_off(_: pa.RecordBatch) -> None:
        raise KeyError("x")

    first.subscribe(refuse)
    second.subscribe(break_off)
    for query in (first, second):
        query.subscribe(lambda batch: heard.extend(batch["k"].to_pylist()))
    with pytest.raises(penstock.SubscriberError) as raised:
        push(engine, "a", (1, 7))
    error = raised.value
    found = "KeyError from that of `second`: 'x'; ValueError from that of `first`: no 7"
    assert str(error) == f"Expected subscribers to return, found {found}. {TAKEN}"
    assert error.queries == ("second", "first")
    assert isinstance(error.__cause__, KeyError)
    assert [type(other) for other in error.others] == [ValueError]
    assert error.exit_code == 1
    assert isinstance(error, penstock.TakenError) and not isinstance(error, penstock.DataError)
    assert heard == [7, 7]
    assert first.count == second.count == engine.stats()["streams"]["a"]["rows_in"] == 1


def test_data_error_says_that_nothing_was_taken_and_stopped_error_that_all_was() -> None:
    """Whoever tries again after DataError, and only then, has every row once."""
    engine = make_engine()
    bad, good = engine.query("SELECT 1 // k AS y FROM a", "bad"), engine.query("SELECT k FROM a", "good")
    for rows in ({"ts": [5, None], "k": [1, 1]}, {"ts": [5], "z": [1]}, {"ts": ["x"], "k": [1]}):
        with pytest.raises(penstock.DataError):
            engine.push("a", rows)
        assert engine.stats()["streams"]["a"]["rows_in"] == 0
    with pytest.raises(penstock.StoppedError) as raised:
        push(engine, "a", (1, 1), (1, 0))
    assert str(raised.value) == f"Division by zero in `1 // a.k`, in query `bad`. {TAKEN}"
    assert raised.value.queries == ("bad",)
    assert raised.value.exit_code == 4
    assert not isinstance(raised.value, penstock.DataError)
    assert (engine.stats()["streams"]["a"]["rows_in"], values(good)) == (2, [1, 0])
    assert bad.results().num_rows == 1
    for _ in range(2):
        with pytest.raises(penstock.StoppedError, match=r"^Division by zero in `1 // a\.k`, in query `bad`$"):
            bad.results()
    push(engine, "a", (2, 0))
    assert values(good) == [0]
    with pytest.raises(penstock.LateError):
        push(engine, "a", (1, 1))


@pytest.mark.parametrize("end", [lambda engine: engine.advance(30), lambda engine: engine.close()])
def test_advance_and_close_say_alike_that_a_query_stopped(end: Callable[[penstock.Engine], None]) -> None:
    engine = make_engine()
    query = engine.query("SELECT 1 // (COUNT(*) - 1) AS n FROM a [RANGE 10 us] HOP BY 10 us", "empty")
    other = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 5 us] HOP BY 10 us", "good")
    push(engine, "a", (1, 1))
    with pytest.raises(penstock.StoppedError, match="in query `empty`"):
        end(engine)
    assert query._pipeline.error is not None
    assert other._pipeline.error is None


def test_a_subscriber_that_raises_is_told_of_before_a_query_that_stops() -> None:
    """That the query stopped, it says itself when asked; what subscribers raise is heard of only here."""
    engine = make_engine()
    engine.query("SELECT 1 // k AS y FROM a", "bad")

    def refuse(_: pa.RecordBatch) -> None:
        raise ValueError("no")

    engine.query("SELECT k FROM a", "good").subscribe(refuse)
    with pytest.raises(penstock.SubscriberError, match="ValueError from that of `good`") as raised:
        push(engine, "a", (1, 0))
    (stopped,) = raised.value.others
    assert isinstance(stopped, penstock.StoppedError) and stopped.queries == ("bad",)
    assert raised.value.__notes__ == [f"also: {stopped}"]
    with pytest.raises(penstock.StoppedError):
        engine.queries["bad"].results()


def test_a_query_that_stops_in_a_call_put_off_is_told_of_by_the_outer_one() -> None:
    engine = make_engine()
    engine.query("SELECT 1 // k AS y FROM b", "bad")
    engine.query("SELECT k FROM a", "good").subscribe(lambda _: push(engine, "b", (1, 0)))
    with pytest.raises(penstock.StoppedError, match="in query `bad`"):
        push(engine, "a", (1, 1))
    push(engine, "a", (2, 1))


def test_what_a_subscriber_raises_when_it_is_given_what_was_kept_is_raised_as_it_is() -> None:
    engine = make_engine()
    query = engine.query("SELECT k FROM a")
    push(engine, "a", (1, 1))

    def refuse(_: pa.RecordBatch) -> None:
        push(engine, "b", (1, 5))
        raise ValueError("not now")

    echo = engine.query("SELECT k FROM b")
    with pytest.raises(ValueError, match="not now"):
        query.subscribe(refuse)
    assert values(query) == [1]
    assert values(echo) == [5]

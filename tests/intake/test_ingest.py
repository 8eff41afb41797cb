"""Rows on their way in: order, slack and lateness, against a definition row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import rows_of

import penstock

STREAM = "CREATE STREAM s (ts TIMESTAMP, id BIGINT, WATERMARK FOR ts AS ts - INTERVAL '{slack}' MICROSECONDS)"


def make(declare: str, *queries: str) -> tuple[penstock.Engine, list[penstock.Query]]:
    engine = penstock.Engine()
    engine.execute(declare)
    return engine, [engine.query(sql) for sql in queries]


def snapshot(engine: penstock.Engine) -> Any:
    """Everything a user can see, but for busy times."""
    stats = engine.stats()
    for query in stats["queries"].values():
        for operator in query["operators"]:
            del operator["busy_s"], operator["steps"]
    return stats


Step = tuple[str, Any]  # ("push", times) or ("advance", time)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Pushes and advances whose times wander forward with jumps back."""
    now = draw(st.integers(-5, 5))
    result: list[Step] = []
    for _ in range(draw(st.integers(1, 8))):
        now += draw(st.integers(0, 4))
        if draw(st.integers(0, 4)) == 0:
            result.append(("advance", now + draw(st.integers(-3, 2))))
        else:
            result.append(("push", draw(st.lists(st.integers(now - 6, now + 3), max_size=8))))
    return result


def naive(steps_: list[Step], slack: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Rows taken, and ids of late rows: those below the latest ts less the slack, or below an advance."""
    taken, late, id_ = [], [], 0
    latest, advanced = -(10**9), -(10**9)
    for kind, value in steps_:
        if kind == "advance":
            advanced = max(advanced, value)
            continue
        for ts in value:
            if ts < latest - slack or ts < advanced:
                late.append(id_)
            else:
                taken.append((ts, id_))
            latest = max(latest, ts)
            id_ += 1
    return taken, late


def play(engine: penstock.Engine, steps_: list[Step], cut: Callable[[list[int]], list[list[int]]]) -> None:
    id_ = 0
    for kind, value in steps_:
        if kind == "advance":
            engine.advance(value)
            continue
        for part in cut(value):
            engine.push("s", {"ts": part, "id": list(range(id_, id_ + len(part)))})
            id_ += len(part)
        check_books(engine)


def check_books(engine: penstock.Engine) -> None:
    """Rows in = processed + late + held, and the operators saw just the processed ones."""
    engine._runtime._check()
    for name, one in engine.stats()["streams"].items():
        assert one["rows_in"] == one["rows_processed"] + one["rows_late"] + one["rows_held"], name
    for query in engine.stats()["queries"].values():
        assert query["operators"][0]["rows_in"] == engine.stats()["streams"]["s"]["rows_processed"]


@given(steps(), st.integers(0, 5), st.data())
def test_lateness_does_not_depend_on_cuts(steps_: list[Step], slack: int, data: st.DataObject) -> None:
    taken, late = naive(steps_, slack)

    def cut(rows: list[int]) -> list[list[int]]:
        at = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
        return [rows[a:b] for a, b in zip([0, *at], [*at, len(rows)], strict=True)]

    for way in (lambda rows: [rows], lambda rows: [[row] for row in rows], cut):
        engine, (query,) = make(STREAM.format(slack=slack), "SELECT id FROM s LATE DROP")
        play(engine, steps_, way)
        assert engine.stats()["streams"]["s"]["rows_late"] == len(late)
        engine.close()
        rows = rows_of(query.results())
        assert Counter(rows) == Counter(taken)
        assert [ts for ts, _ in rows] == sorted(ts for ts, _ in rows)
        # rows of one ts leave in the order they came
        assert rows == sorted(rows)


@given(steps(), st.integers(0, 5))
def test_rows_leave_as_soon_as_nothing_can_overtake_them(steps_: list[Step], slack: int) -> None:
    engine, (query,) = make(STREAM.format(slack=slack), "SELECT id FROM s LATE DROP")
    play(engine, steps_, lambda rows: [rows])
    taken, _ = naive(steps_, slack)
    pushed = [ts for kind, value in steps_ if kind == "push" for ts in value]
    advanced = [value for kind, value in steps_ if kind == "advance"]
    watermark = max([max(pushed, default=-(10**9)) - slack, *advanced])
    assert Counter(rows_of(query.results())) == Counter(row for row in taken if row[0] <= watermark)
    stats = engine.stats()["streams"]["s"]
    assert stats["rows_held"] == sum(ts > watermark for ts, _ in taken)


@given(steps(), st.integers(0, 3))
def test_refused_pushes_change_nothing(steps_: list[Step], slack: int) -> None:
    """Under LATE ERROR a push with a late row leaves everything as it was; one without is taken."""
    engine, (query,) = make(STREAM.format(slack=slack), "SELECT id FROM s")
    latest, advanced, taken, id_ = -(10**9), -(10**9), Counter[tuple[int, int]](), 0
    for kind, value in steps_:
        if kind == "advance":
            engine.advance(value)
            advanced = max(advanced, value)
            continue
        rows = {"ts": value, "id": list(range(id_, id_ + len(value)))}
        seen, is_late = latest, False
        for ts in value:
            is_late |= ts < seen - slack or ts < advanced
            seen = max(seen, ts)
        if is_late:
            before = snapshot(engine)
            with pytest.raises(penstock.LateError) as caught:
                engine.push("s", rows)
            assert caught.value.source == "s"
            assert value[caught.value.row - 1] < max(seen - slack, advanced)  # type: ignore[operator]
            assert snapshot(engine) == before
        else:
            engine.push("s", rows)
            latest = seen
            taken.update(zip(value, rows["id"], strict=True))
        check_books(engine)
        id_ += len(value)
    engine.close()
    assert Counter(rows_of(query.results())) == taken


def test_the_row_of_a_late_error_is_the_first_late_row() -> None:
    engine, _ = make(STREAM.format(slack=2), "SELECT id FROM s")
    with pytest.raises(penstock.LateError) as caught:
        engine.push("s", {"ts": [10, 9, 8, 7, 6], "id": [0, 1, 2, 3, 4]})
    assert (caught.value.row, caught.value.exit_code) == (4, 4)
    assert "2 MICROSECONDS" in str(caught.value)
    assert "1970-01-01 00:00:00.000007" in str(caught.value)


@pytest.mark.parametrize(
    ("tails", "policy"),
    [
        ([], "error"),
        ([""], "error"),
        (["LATE DROP"], "drop"),
        (["LATE ERROR"], "error"),
        (["", "LATE DROP"], "drop"),
        (["LATE DROP", "LATE DROP"], "drop"),
        (["LATE DROP", "LATE ERROR"], "error"),
        (["LATE ERROR", "", "LATE DROP"], "error"),
    ],
)
def test_late_policy_of_several_queries(tails: list[str], policy: str) -> None:
    engine, queries = make(STREAM.format(slack=0), *(f"SELECT id FROM s {tail}" for tail in tails))
    engine.push("s", {"ts": [5], "id": [0]})
    if policy == "drop":
        engine.push("s", {"ts": [4, 5], "id": [1, 2]})
        assert engine.stats()["streams"]["s"]["rows_late"] == 1
        assert [query.results()["id"].to_pylist() for query in queries] == [[0, 2]] * len(queries)
    else:
        with pytest.raises(penstock.LateError):
            engine.push("s", {"ts": [4, 5], "id": [1, 2]})
        assert engine.stats()["streams"]["s"]["rows_in"] == 1


def test_late_policy_follows_the_queries_that_are_there() -> None:
    engine, (strict, _) = make(
        STREAM.format(slack=0), "SELECT id FROM s LATE ERROR", "SELECT id FROM s LATE DROP"
    )
    engine.push("s", {"ts": [5], "id": [0]})
    with pytest.raises(penstock.LateError):
        engine.push("s", {"ts": [4], "id": [1]})
    strict.drop()
    engine.push("s", {"ts": [4], "id": [1]})
    engine.execute("CREATE QUERY again AS SELECT id FROM s LATE ERROR")
    with pytest.raises(penstock.LateError):
        engine.push("s", {"ts": [4], "id": [2]})


def test_large_pushes_are_cut_into_batches_in_order() -> None:
    """More rows than fit one batch, in order and not, with and without slack."""
    rng = np.random.default_rng(3)
    ts = np.arange(150_000) // 3
    for slack in (0, 50):
        engine, (query,) = make(STREAM.format(slack=slack), "SELECT id FROM s")
        order = np.argsort(ts + rng.integers(0, slack + 1, len(ts)), kind="stable")
        engine.push("s", {"ts": ts[order], "id": order})
        engine.close()
        table = query.results()
        assert table["_ts"].cast(pa.int64()).to_numpy().tolist() == ts.tolist()
        assert set(table["id"].to_numpy().tolist()) == set(range(len(ts)))
        assert max(len(chunk) for chunk in table["id"].chunks) <= 32_768

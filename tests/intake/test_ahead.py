"""Rows far ahead of their stream, against a definition row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import rows_of

import penstock
from penstock.engine.kernels.rows.ahead import AHEAD, LATE, TAKEN, judge_rows

LIMIT = 10


def declare(slack: int, needed: int, limit: int = LIMIT) -> str:
    return (
        f"CREATE STREAM s (ts TIMESTAMP, id BIGINT, WATERMARK FOR ts AS ts - INTERVAL '{slack}' MICROSECONDS "
        f"AHEAD AT MOST INTERVAL '{limit}' MICROSECONDS AFTER {needed} ROWS)"
    )


@dataclass
class Naive:
    """One stream, row by row."""

    slack: int
    needed: int
    latest: int | None = None
    advanced: int = -(10**9)
    run: list[int] = field(default_factory=list)
    jumps: int = 0

    def judge(self, ts: int) -> str:
        watermark = max(self.advanced, -(10**9) if self.latest is None else self.latest - self.slack)
        if ts < watermark:
            return "late"
        if self.latest is not None and ts > max(self.latest, self.advanced) + LIMIT:
            agrees = bool(self.run) and max(self.run) - self.slack <= ts <= max(self.run) + LIMIT
            self.run = [*self.run, ts] if agrees else [ts]
            if len(self.run) < self.needed:
                return "ahead"
            self.jumps += 1
        self.run = []
        self.latest = ts if self.latest is None else max(self.latest, ts)
        return "taken"


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Pushes and advances; times wander, jump back, and jump far ahead for some rows or for good."""
    now = draw(st.integers(-5, 5))
    result: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 8))):
        now += draw(st.sampled_from([0, 1, 2, 4, 4, 40]))
        if draw(st.integers(0, 5)) == 0:
            result.append(("advance", now + draw(st.integers(-3, 8))))
            continue
        near = st.integers(now - 4, now + 5)
        times = draw(st.lists(st.one_of(near, near, near.map(lambda ts: ts + 30)), max_size=8))
        result.append(("push", times))
    return result


def streams_of(engine: penstock.Engine) -> dict[str, int]:
    found: dict[str, int] = engine.stats()["streams"]["s"]
    return found


@pytest.mark.twin("ahead.judge_rows")
@given(steps(), st.integers(0, 6), st.integers(1, 4), st.data())
def test_rows_ahead_do_not_depend_on_cuts(
    steps_: list[tuple[str, Any]], slack: int, needed: int, data: st.DataObject
) -> None:
    naive, kept, found = Naive(slack, needed), Counter[tuple[int, int]](), Counter[str]()
    id_ = 0
    for kind, value in steps_:
        if kind == "advance":
            naive.advanced = max(naive.advanced, value)
            continue
        for ts in value:
            verdict = naive.judge(ts)
            found[verdict] += 1
            if verdict == "taken":
                kept[ts, id_] += 1
            id_ += 1
    cuts = data.draw(st.lists(st.integers(0, 8), max_size=3).map(sorted))
    for way in ([], list(range(8)), cuts):
        engine = penstock.Engine()
        engine.execute(declare(slack, needed))
        query = engine.query("SELECT id FROM s LATE DROP")
        id_ = 0
        for kind, value in steps_:
            if kind == "advance":
                engine.advance(value)
                continue
            for start, stop in zip([0, *way], [*way, len(value)], strict=True):
                part = value[start:stop]
                engine.push("s", {"ts": part, "id": list(range(id_, id_ + len(part)))})
                id_ += len(part)
            engine._runtime._check()
        stats = streams_of(engine)
        assert (stats["rows_late"], stats["rows_ahead"]) == (found["late"], found["ahead"])
        assert stats["time_jumps"] == naive.jumps
        assert (
            stats["rows_in"] == stats["rows_processed"] + stats["rows_held"] + found["late"] + found["ahead"]
        )
        engine.close()
        assert Counter(rows_of(query.results())) == kept


@given(steps(), st.integers(0, 6), st.integers(1, 4))
def test_a_refused_push_is_one_row_of_the_run(steps_: list[tuple[str, Any]], slack: int, needed: int) -> None:
    """With LATE ERROR a push from which a row would be dropped is refused, and counts as one."""
    naive, kept, id_ = Naive(slack, needed), Counter[tuple[int, int]](), 0
    engine = penstock.Engine()
    engine.execute(declare(slack, needed))
    query = engine.query("SELECT id FROM s")
    for kind, value in steps_:
        if kind == "advance":
            engine.advance(value)
            naive.advanced = max(naive.advanced, value)
            continue
        before, run, jumps = naive.latest, naive.run, naive.jumps
        verdicts = []
        while len(verdicts) < len(value) and (not verdicts or verdicts[-1] == "taken"):
            verdicts.append(naive.judge(value[len(verdicts)]))
        rows = {"ts": value, "id": list(range(id_, id_ + len(value)))}
        id_ += len(value)
        if not verdicts or verdicts[-1] == "taken":
            engine.push("s", rows)
            kept.update(zip(value, rows["id"], strict=True))
            continue
        naive.latest, naive.jumps = before, jumps
        if verdicts[-1] == "late":
            naive.run = run
        stats = engine.stats()["streams"]
        expected = penstock.LateError if verdicts[-1] == "late" else penstock.AheadError
        with pytest.raises(expected) as caught:
            engine.push("s", rows)
        assert (caught.value.source, caught.value.row) == ("s", len(verdicts))
        assert engine.stats()["streams"] == stats
    assert streams_of(engine)["time_jumps"] == naive.jumps
    engine.close()
    assert Counter(rows_of(query.results())) == kept


def test_the_message_says_how_far() -> None:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AHEAD AT MOST 1 HOUR)")
    engine.query("SELECT ts FROM s")
    engine.push("s", {"ts": [1_000_000]})
    with pytest.raises(penstock.AheadError) as caught:
        engine.push("s", {"ts": [2_000_000, 3_600_000_000, 7_300_000_000]})
    assert str(caught.value) == (
        "Expected a time at most 1 HOUR ahead of `1970-01-01 01:00:00`, found `1970-01-01 02:01:40`, "
        "3700 SECONDS ahead, in `s`, row 3. 10 such rows in a row that agree are believed; "
        "LATE DROP drops the others"
    )


def test_one_broken_clock_leaves_time_where_it_is() -> None:
    """A row fifty years ahead is dropped and the hop it would have ended is not answered."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AHEAD AT MOST 1 HOUR)")
    query = engine.query("SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] HOP BY 1 SECOND LATE DROP")
    second = 1_000_000
    for n in range(5):
        engine.push("s", {"ts": [n * second], "v": [n]})
        engine.push("s", {"ts": [50 * 365 * 86_400 * second + n], "v": [n]})
    assert query.results()["n"].to_pylist() == [1, 1, 1, 1]
    assert streams_of(engine)["rows_ahead"] == 5
    assert streams_of(engine)["time_jumps"] == 0


@pytest.mark.parametrize("after", [1, 3, 10])
def test_a_jump_is_believed_after_a_restart_as_without(after: int) -> None:
    """The rows of the run so far are part of a checkpoint."""
    engine = penstock.Engine()
    engine.execute(declare(2, 4))
    engine.query("SELECT id FROM s LATE DROP", name="q")
    engine.push("s", {"ts": [0], "id": [0]})
    other = None
    for n in range(1, 12):
        for one in (engine, other):
            if one is not None:
                one.push("s", {"ts": [100 + n % 3], "id": [n]})
        if n == after:
            other = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
    assert other is not None
    assert streams_of(other) == streams_of(engine)
    assert streams_of(engine)["time_jumps"] == 1
    assert streams_of(engine)["rows_ahead"] == 3


def test_what_time_was_said_to_be_is_not_ahead() -> None:
    engine = penstock.Engine()
    engine.execute(declare(0, 10))
    query = engine.query("SELECT id FROM s")
    engine.push("s", {"ts": [0], "id": [0]})
    engine.advance(95)
    engine.push("s", {"ts": [100], "id": [1]})
    assert rows_of(query.results()) == [(0, 0), (100, 1)]
    assert streams_of(engine)["time_jumps"] == 0


@pytest.mark.twin("ahead.judge_rows")
def test_the_ends_of_time_do_not_overflow() -> None:
    edge = 2**62 - 1
    ts = np.array([-edge, edge, edge, edge])
    verdicts = np.zeros(4, np.uint8)
    assert judge_rows(ts, verdicts, 0, False, -(2**62), 5, 2**62 - 1, 3, 0, 0, False) == (4, 0, edge, 1)
    assert verdicts.tolist() == [TAKEN, AHEAD, AHEAD, TAKEN]
    assert judge_rows(ts[::-1], verdicts, 0, False, -(2**62), 5, 10, 3, 0, 0, False)[0] == 4
    assert verdicts.tolist() == [TAKEN, TAKEN, TAKEN, LATE]

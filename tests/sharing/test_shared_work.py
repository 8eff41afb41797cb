"""Every kind of shared work holds to the one contract: who reads is known on both sides, what it tells of its
content is what was given, a late reader lacks nothing from `exact_from` on, and what nobody reads ends."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import rows_of

import penstock
from penstock.engine.rows.window import MAX_TS
from penstock.engine.running.runtime import Runtime
from penstock.engine.sharing.registry import KINDS
from penstock.engine.sharing.shared_join import SharedJoin
from penstock.engine.sharing.shared_panes import SharedPanes
from penstock.engine.sharing.shared_selects import SharedSelects
from penstock.engine.sharing.shared_windows import SharedWindows
from penstock.engine.sharing.shared_work import SharedWork
from penstock.engine.sharing.sub_plan import SubPlan

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
A_STREAM = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v BIGINT)"


@dataclass(frozen=True)
class Kind:
    """Queries that have work of a kind in common, with their sizes for {}. changes: whether rows leave."""

    work: type[SharedWork[Any, Any]]
    sql: str
    changes: bool


ASKED = [
    Kind(SharedJoin, "SELECT a.v, b.v AS w FROM a [RANGE {} us] JOIN b [RANGE {} us] ON a.k = b.k", False),
    Kind(SharedJoin, "SELECT a.v, b.v AS w FROM a [ROWS {}] JOIN b [ROWS {}] ON a.k = b.k", False),
    Kind(SharedSelects, "SELECT k, v FROM a WHERE v > {}", False),
    Kind(SharedSelects, "SELECT k + 1 AS n, v FROM a WHERE v > {}", False),
    Kind(SharedSelects, "SELECT k, v FROM a [ROWS {}]", False),
    Kind(SharedWindows, "SELECT k, SUM(v) AS s FROM a [RANGE {} us] GROUP BY k EMIT CHANGES", True),
    Kind(SharedWindows, "SELECT k, COUNT(*) AS n FROM a [ROWS {}] GROUP BY k EMIT CHANGES", True),
    Kind(SharedPanes, "SELECT k, SUM(v) AS s FROM a [RANGE {} us] GROUP BY k HOP BY 2 us EMIT DELTA", True),
    Kind(SubPlan, "SELECT a.v FROM a [RANGE {} us] LEFT JOIN b [RANGE 5 us] ON a.k = b.k EMIT CHANGES", True),
    Kind(SubPlan, "SELECT DISTINCT k FROM a [ROWS {}] EMIT CHANGES", True),
]  # fmt: skip
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=4)
STEP = st.one_of(
    st.tuples(st.just("push"), st.sampled_from("ab"), ROWS),
    st.tuples(st.just("come"), st.sampled_from(range(len(ASKED))), st.integers(1, 9)),
    st.tuples(st.just("go"), st.integers(0, 9), st.none()),
)


def made() -> penstock.Engine:
    engine = penstock.Engine()
    for stream in "ab":
        engine.execute(A_STREAM.format(stream))
    return engine


def asked(engine: penstock.Engine, kind: Kind, size: int) -> penstock.Query:
    return engine.query(kind.sql.replace("{}", str(size)))


def check_both_sides(runtime: Runtime) -> None:
    """Who reads what is known to the plan and to the work, and nobody else has turns."""
    works = list(runtime.shared)
    plans = [*runtime.pipelines.values(), *runtime.heirs.pipelines]
    plans += [work for work in works if isinstance(work, SubPlan)]
    read = {(id(work), id(reader)) for plan in plans for work, reader in plan.readings.values()}
    assert read == {(id(work), id(reader)) for work in works for reader in work.members}
    for plan in plans:
        assert all(reader.owner is plan for _, reader in plan.readings.values())
    for work in works:
        assert work.members, "work that nobody reads"
        assert all(queue in outlet.queues for outlet, queue in work.taps)
        assert runtime.shared.has(type(work), work.key)
    turns = [one for work in works for one in work.own_operators]
    turns += [one for plan in plans if plan not in works for one in plan.own_operators]
    assert set(turns) == set(runtime.at_work.owners) and len(turns) == len(set(turns))
    runtime._check()


def at(query: penstock.Query) -> int:
    """From when on it is exact, in microseconds."""
    since = query.complete_from
    if since is None:
        return -MAX_TS
    return MAX_TS if since.year == 9999 else (since - EPOCH) // datetime.timedelta(microseconds=1)


def answers(given: list[tuple[Any, ...]], changes: bool, since: int, until: int) -> list[Counter[Any]]:
    """The answer at each boundary of 2 us, which hopping queries have, or what entered at each time."""
    found = []
    for now in range(max(since, 0), until):
        if changes and now % 2:
            continue
        answer: Counter[Any] = Counter()
        for row in given:
            ts = row[0]
            if changes and ts <= now:
                answer[row[2:]] += row[1]
            elif not changes and ts == now:
                answer[row[1:]] += 1
        found.append(+answer)
    return found


def test_every_kind_is_asked_for() -> None:
    assert {kind.work for kind in ASKED} == {*KINDS.values(), SubPlan}


@given(st.lists(STEP, max_size=14))
def test_every_kind_holds_to_the_contract(steps: list[tuple[str, Any, Any]]) -> None:
    engine, now = made(), {"a": 0, "b": 0}
    running: list[tuple[Kind, penstock.Query, penstock.Query, list[Any], list[Any]]] = []
    solos: list[penstock.Engine] = []
    pushed: list[tuple[str, dict[str, list[int]]]] = []
    for step, one, two in steps:
        if step == "push":
            table: dict[str, list[int]] = {"ts": [], "k": [], "v": []}
            for gap, k, v in two:
                now[one] += gap
                for name, value in (("ts", now[one]), ("k", k), ("v", v)):
                    table[name].append(value)
            pushed.append((one, table))
            for where in (engine, *solos):
                where.push(one, table)
        elif step == "come":
            solo = made()
            alone = asked(solo, ASKED[one], two)  # from the start, and by itself
            for stream, table in pushed:
                solo.push(stream, table)
            solos.append(solo)
            running.append((ASKED[one], asked(engine, ASKED[one], two), alone, [], []))
        elif running:
            _, query, *_ = running.pop(one % len(running))
            query.drop()
        check_both_sides(engine._runtime)
        for _, query, alone, given_, wanted in running:
            given_ += rows_of(query.results())
            wanted += rows_of(alone.results())
            check_content(query, given_)
    exact, last = [at(query) for _, query, *_ in running], max(now.values()) + 20
    for where in (engine, *solos):
        where.advance(last)
    for (kind, query, alone, given_, wanted), since in zip(running, exact, strict=True):
        given_ += rows_of(query.results())
        wanted += rows_of(alone.results())
        assert answers(given_, kind.changes, since, last) == answers(wanted, kind.changes, since, last)
    for _, query, *_ in running:
        query.drop()
    runtime = engine._runtime
    assert not list(runtime.shared) and not runtime.at_work.owners and not runtime.at_work.ready.all()
    assert not any(stream.output.queues for stream in runtime.streams.values())


def check_content(query: penstock.Query, given_: list[Any]) -> None:
    """What an answer's part says that it holds is the sum of the changes given."""
    pipeline = query._pipeline
    if 0 not in pipeline.readings or not pipeline.sink.is_changes:
        return
    work, reader = pipeline.readings[0]
    held = work.content(reader, max(work.own_operators[0].output.punctuation, 0))
    if held is None:
        return
    told = Counter(zip(*(held.column(i).to_pylist() for i in range(held.width)), strict=True))
    summed: Counter[Any] = Counter()
    for _, sign, *values in given_:
        summed[tuple(values)] += sign
    assert told == +summed


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: f"{kind.work.kind} {kind.sql[7:20]}")
def test_two_of_a_kind_have_one_work(kind: Kind) -> None:
    """And the second, which comes late, says from when on it is exact; the first is exact from the start."""
    engine = made()
    first = asked(engine, kind, 4)
    for stream in "ab":
        engine.push(stream, {"ts": [1, 2, 3], "k": [1, 1, 2], "v": [5, 6, 7]})
    second = asked(engine, kind, 4 if kind.work is SubPlan else 3)
    shared = [work for work in engine._runtime.shared.of(kind.work) if work.is_common]
    if kind.work is SharedWindows:  # the first one goes over when it is not alone any more
        engine.push("b", {"ts": [90], "k": [1], "v": [5]})
        engine.push("a", {"ts": [*range(20, 80)], "k": [1] * 60, "v": [5] * 60})
        shared = [work for work in engine._runtime.shared.of(kind.work) if work.is_common]
    assert shared and {"q1", "q2"} <= {name for one in shared for r in one.members for name in r.queries}
    for work in shared:
        assert any(issubclass(type(work), one) for one in (*KINDS.values(), SubPlan))
        for reader in work.members:
            assert work.exact_from(reader) is None or work.exact_from(reader) <= MAX_TS
    assert first.complete_from is None
    second.drop()
    check_both_sides(engine._runtime)
    first.drop()
    assert not list(engine._runtime.shared)


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: f"{kind.work.kind} {kind.sql[7:20]}")
def test_only_joins_change_in_place(kind: Kind) -> None:
    engine = made()
    query = asked(engine, kind, 4)
    for work, reader in query._pipeline.every_reading:
        if not isinstance(work, SharedJoin):
            assert not work.change(reader, None), "another plan has to succeed"

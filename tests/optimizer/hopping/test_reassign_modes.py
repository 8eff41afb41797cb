"""Hopping queries whose modes change while they run: the same answers, and only where it is worth it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import rows_of
from test_changes_oracle import drawn_tree, drive, expected, make_engine, make_oracle
from test_hopping_oracle import complete_of
from test_modes_oracle import FORMS, folded

import penstock
from penstock import adapt
from penstock.optimizer.costs.statistics import Rates
from penstock.optimizer.costs.weights import SHIPPED, read
from penstock.optimizer.hopping import reassign_modes
from penstock.optimizer.hopping.assign_modes import Pricer, assign_modes, fixed_modes
from penstock.optimizer.hopping.estimate_flows import Estimates
from penstock.optimizer.hopping.hopping_cost import HoppingCosts
from penstock.optimizer.hopping.optimize_hopping import HoppingPlan
from penstock.optimizer.hopping.reassign_modes import Watch, emitted_by, with_modes
from penstock.optimizer.plan.modes import Form, mode_of, operators_of, reads
from penstock.optimizer.tree.logical import Join

SECOND = 1_000_000


def in_drawn_modes(draw: Any, plan: HoppingPlan, weights: Any) -> HoppingPlan:
    """The plan with every operator in some mode."""
    found: dict[int, Any] = {}
    for one in operators_of(plan.query.root):
        written: Form = emitted_by(plan.query) if one.above is None else reads(found[one.above])
        read: Form = "delta" if one.is_scan else draw(st.sampled_from(FORMS))
        found[one.number] = mode_of(read, written)
    assert plan.query.hop is not None
    pricer = Pricer(Estimates(Rates(), plan.query.hop.size_us), HoppingCosts(weights), plan.panes)
    chosen = assign_modes(plan.query.root, pricer, emitted_by(plan.query), found)
    return with_modes(plan, chosen, chosen, pricer)


@settings(max_examples=35)
@given(st.data())
def test_modes_that_change_oracle_at_every_hop(data: st.DataObject) -> None:
    draw = data.draw
    streams, trees, query = drawn_tree(draw, 4)
    hop, origin = draw(st.integers(1, 8)), draw(st.sampled_from([0, 0, 3]))
    tail = f"HOP BY {hop} us ORIGIN {origin}"
    engine = make_engine(draw, draw(st.sampled_from(["auto", "nta"])), streams)
    taken: list[HoppingPlan] = []

    def look(self: Watch, plan: HoppingPlan, *given: Any) -> HoppingPlan | None:
        if not draw(st.booleans()):
            return None
        taken.append(in_drawn_modes(draw, plan, given[-1]))
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapt, "LOOK_ROWS", 0)
        patch.setattr(Watch, "look", look)
        engine._adapter.look_at_modes_after = 0
        running = []
        for emit in ("COMPLETE", "DELTA"):
            execution = draw(st.sampled_from(["waat", "taat"]))
            one = engine.query(f"{query.penstock} {tail} EMIT {emit}", execution=execution)
            running.append((emit, f"{query.penstock} {tail} EMIT {emit} {execution}", one))
        for _ in drive(draw, engine, streams):
            engine._runtime._check()
    read = {one.stream for one in trees.references}
    times = [ts for name in read for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    end = max(ts for table in streams.values() for ts in table["ts"].to_pylist()) + 12
    engine.advance(end)
    engine.close()
    oracle = make_oracle(streams, trees)
    boundaries = range(min(times) + (origin - min(times)) % hop, end + 1, hop)
    wanted = {boundary: expected(oracle, query.duck, boundary) for boundary in boundaries}
    for emit, text, one in running:
        found = complete_of(one) if emit == "COMPLETE" else folded(one, boundaries, text)
        for boundary, answer in wanted.items():
            assert found.pop(boundary, Counter()) == answer, f"{text} at {boundary}: {len(taken)} changes"
        assert not found, f"{text}: an answer at no boundary, or after {end}"


def feed(engine: penstock.Engine, rows: int, second: int, values: int) -> None:
    """A second of both streams."""
    rng = np.random.default_rng(second)
    for name in "ab":
        ts = second * SECOND + np.sort(rng.integers(0, SECOND, rows))
        drawn = {"k": rng.integers(0, values, rows), "v": rng.integers(0, values, rows)}
        engine.push(name, {"ts": ts, **drawn})


def start(sql: str, rate: int) -> tuple[penstock.Engine, penstock.Query]:
    dear = replace(read(SHIPPED), hop_state=2.5e-4)  # to convert, with next to no rows: others decide later
    engine = penstock.Engine(weights=dear)
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)")
        engine.set_rate(name, rate)
    return engine, engine.query(sql, name="q")


def top_mode(query: penstock.Query) -> str:
    decided = query._how()
    assert decided is not None
    return decided.operators[0].mode


DIFFERENCE = (
    "SELECT k, v FROM a [RANGE 10 SECONDS] EXCEPT SELECT k, v FROM b [RANGE 10 SECONDS] "
    "HOP BY 1 SECOND EMIT DELTA"
)


SHORTER = DIFFERENCE.replace("10 SECONDS", "4 SECONDS")


def test_modes_follow_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thought to be slow the streams are fast: an operator less is no longer what counts."""
    monkeypatch.setattr(adapt, "LOOK_ROWS", 0)
    engine, query = start(SHORTER, 20)
    engine._adapter.look_at_modes_after = 0
    assert top_mode(query) == "DIDO"
    seen, answers = [], []
    for second in range(25):
        feed(engine, 3_000, second, 1_000)
        seen.append(top_mode(query))
        answers += rows_of(query.results())
    assert [mode for mode, _ in itertools.groupby(seen)] == ["DIDO", "CIDO"], "once, and not back"
    assert seen.index("CIDO") >= 4 + reassign_modes.LOOK_HOPS
    decided = query._how()
    assert decided is not None and decided.changes == 1
    assert decided.others[0][0] == "modes before"
    forced, other = penstock.Engine(modes="CIDO"), None
    for name in "ab":
        forced.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)")
    other = forced.query(SHORTER)
    for second in range(25):
        feed(forced, 3_000, second, 1_000)
    assert Counter(answers) == Counter(rows_of(other.results()))
    text = engine.explain(analyze=True)
    assert "by what was measured" in text
    assert re.search(r"measured: [\d,]+ changes a hop \(estimated [\d,]+\); 9\d.\d% of the left", text), text


def test_what_is_only_a_little_better_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "LOOK_ROWS", 0)
    monkeypatch.setattr(reassign_modes, "BETTER", 0.01)
    engine, query = start(DIFFERENCE, 20)
    engine._adapter.look_at_modes_after = 0
    for second in range(25):
        feed(engine, 1_500, second, 1_000)
        assert top_mode(query) == "DIDO"
    assert query._watch is not None and query._watch.every > reassign_modes.LOOK_HOPS


def test_forced_modes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "LOOK_ROWS", 0)
    monkeypatch.setattr(Watch, "look", lambda *_: pytest.fail("it was looked at"))
    engine, _ = start(DIFFERENCE, 20)
    query = engine.query(DIFFERENCE, name="forced", modes="CIDO")
    engine.queries["q"].drop()
    engine._adapter.look_at_modes_after = 0
    for second in range(3):
        feed(engine, 10, second, 10)
    assert replace(query._decided).operators[0].mode == "CIDO"  # type: ignore[type-var]


def test_modes_do_not_go_to_and_fro(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if whatever runs looked dear: each change has to prove itself twice as long as the one before."""
    real, present = reassign_modes.assign_modes, ""

    def the_other(root: Any, pricer: Pricer, written: Form, forced: Any = None) -> Any:
        nonlocal present
        if forced is None:
            forced = {0: "CIDO" if present == "DIDO" else "DIDO"}
        else:
            present = forced[0]
        return real(root, pricer, written, forced)

    monkeypatch.setattr(adapt, "LOOK_ROWS", 0)
    monkeypatch.setattr(reassign_modes, "BETTER", 1e9)
    monkeypatch.setattr(reassign_modes, "assign_modes", the_other)
    engine, query = start(DIFFERENCE, 20)
    engine._adapter.look_at_modes_after = 0
    other, _ = start(DIFFERENCE, 20)
    forced = other.query(DIFFERENCE, modes="DIDO")
    seen: list[str] = []
    for second in range(400):
        feed(engine, 5, second, 4)
        feed(other, 5, second, 4)
        seen.append(top_mode(query))
    runs = [len(list(run)) for _, run in itertools.groupby(seen)]
    assert 3 <= len(runs) <= 6, runs
    assert all(after >= 1.5 * before for before, after in itertools.pairwise(runs[1:-1])), runs
    assert Counter(rows_of(query.results())) == Counter(rows_of(forced.results()))


UNITED = "(SELECT k, v FROM a [RANGE 10 SECONDS] UNION ALL SELECT k, v FROM b [RANGE 10 SECONDS]) AS u"


@pytest.mark.parametrize("mode", ["DIDO", "CIDO"])
@pytest.mark.parametrize(("sql", "name"), [
    (f"SELECT k, COUNT(*) AS n FROM {UNITED} GROUP BY k", "aggregate 1"),
    (f"SELECT k, COUNT(*) AS n FROM {UNITED} GROUP BY k HAVING COUNT(*) > 2", "aggregate 1"),
    ("SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k", "aggregate 1"),
    (f"SELECT DISTINCT k FROM {UNITED}", "distinct 1"),
    (DIFFERENCE.partition(" HOP BY")[0], "except 1"),
])  # fmt: skip
def test_groups_and_values_are_measured(sql: str, name: str, mode: str) -> None:
    """An aggregate that gives changes knows its groups all the same, also those that HAVING leaves out."""
    if "HAVING" in sql and mode == "CIDO":
        return  # what comes before the filter is not kept
    engine, _ = start(DIFFERENCE, 20)
    query = engine.query(f"{sql} HOP BY 1 SECOND EMIT DELTA", modes=mode)
    whole = engine.query(f"{sql.partition(' HAVING')[0]} HOP BY 1 SECOND")
    watch, decided = Watch(), query._decided
    assert decided is not None
    for second in range(24):
        feed(engine, 40, second, 3_000)
        given = decided, query._pipeline, engine._runtime.streams, engine._weights
        if second < 14:
            assert watch.look(*given) is None
    hops = [row[0] for row in rows_of(whole.results())]
    groups = hops.count(hops[-1])
    assert watch.shown(*given)[name].flow.rows == pytest.approx(groups, rel=0.05)


BOTH = "FROM a [RANGE 10 SECONDS] {} JOIN b [RANGE 10 SECONDS] ON a.k = b.k"
EXISTS = "FROM a [RANGE 10 SECONDS] WHERE {} EXISTS (SELECT 1 FROM b [RANGE 10 SECONDS] WHERE a.k = b.k{})"


@pytest.mark.parametrize("emit", ["COMPLETE", "DELTA"])
@pytest.mark.parametrize("mode", ["DIDO", "CICO"])
@pytest.mark.parametrize("values", [7, 300])
@pytest.mark.parametrize("sql", [
    "SELECT a.k, a.v " + EXISTS.format("", ""),
    "SELECT a.k, a.v " + EXISTS.format("NOT", ""),
    "SELECT a.k, a.v " + EXISTS.format("NOT", " AND a.v < b.v"),
    "SELECT a.k, b.v " + BOTH.format("LEFT"),
    "SELECT u.k, b.v FROM (SELECT DISTINCT k, v FROM a [RANGE 10 SECONDS]) AS u "
    "JOIN b [RANGE 10 SECONDS] ON u.k = b.k AND u.v < b.v",
])  # fmt: skip
def test_equal_keys_of_joins_are_measured(sql: str, values: int, mode: str, emit: str) -> None:
    """Whatever the modes: of all pairs of rows, one in as many as there are keys has equal ones."""
    engine, _ = start(DIFFERENCE, 20)
    query = engine.query(f"{sql} HOP BY 1 SECOND EMIT {emit}", modes=mode)
    watch, decided = Watch(), query._decided
    assert decided is not None
    (join,) = (one.node for one in operators_of(decided.query.root) if one.name == "join 1")
    assert isinstance(join, Join)
    for second in range(24):
        feed(engine, 40, second, values)
        given = decided, query._pipeline, engine._runtime.streams
        if second < 14:
            assert watch.look(*given, engine._weights) is None
    _, last = reassign_modes.last_hop(decided.query, query._pipeline, engine._runtime.streams)
    assert last is not None
    found = watch.estimates(*given, last).condition(join)
    assert found.keys == pytest.approx(1 / values, rel=0.3)
    if " < " in sql:
        assert found.pairs == pytest.approx(found.keys / 2, rel=0.2)
    else:
        assert found.pairs == found.keys


TOTAL = f"SELECT COUNT(*) AS n, SUM(v) AS s FROM {UNITED} HOP BY 1 SECOND EMIT DELTA"


def test_a_total_goes_over_to_whole_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said at ticks is exact as soon as the windows are full."""

    def look(self: Watch, plan: HoppingPlan, *given: Any) -> HoppingPlan | None:
        pricer = Pricer(Estimates(Rates(), SECOND), HoppingCosts(given[-1]), plan.panes)
        modes = fixed_modes(plan.query.root, "complete") | {0: mode_of("complete", "delta")}
        best = assign_modes(plan.query.root, pricer, "delta", modes)
        return None if plan.changes else with_modes(plan, best, best, pricer)

    monkeypatch.setattr(adapt, "LOOK_ROWS", 0)
    monkeypatch.setattr(Watch, "look", look)
    engine, query = start(TOTAL, 20)
    engine._adapter.look_at_modes_after = 0
    other, _ = start(DIFFERENCE, 20)
    forced = other.query(TOTAL, modes="DIDO")
    seen: list[str] = []
    for second in range(30):
        feed(engine, 5, second, 4)
        feed(other, 5, second, 4)
        seen.append(top_mode(query))
    assert seen[0] == "DIDO" and seen[12:] == ["CIDO"] * 18, seen
    engine.advance(100 * SECOND)
    other.advance(100 * SECOND)
    assert sorted(rows_of(query.results())) == sorted(rows_of(forced.results()))

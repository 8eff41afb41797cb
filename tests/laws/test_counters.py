"""The counters of every operator are what its queues have seen: rows taken and rows given. A step in which
something was done says so: the scheduler goes by it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from work_of import joins_of, selects_of

import penstock
from penstock.engine.flow import scheduler
from penstock.engine.flow.operator import Operator
from penstock.engine.flow.queue import Outlet, Queue
from penstock.engine.flow.scheduler import take_turn
from penstock.engine.results.sink import Sink
from penstock.engine.rows.batch import Batch

TABLES = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)" for name in "ab")
QUERIES = {
    "rows": "SELECT k, v FROM a WHERE v < 5",
    "union": "SELECT k FROM a UNION ALL SELECT k FROM b",
    "join": "SELECT x.k, y.v FROM a [RANGE 9 us] AS x JOIN b [RANGE 7 us] AS y ON x.k = y.k",
    "last rows": "SELECT k, v FROM a [ROWS 3] EMIT CHANGES",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 9 us] GROUP BY k EMIT CHANGES",
    "distinct": "SELECT DISTINCT k FROM a [RANGE 9 us] EMIT CHANGES",
    "set": "SELECT k FROM a [RANGE 9 us] INTERSECT SELECT k FROM b [RANGE 9 us] EMIT CHANGES",
    "inner": "SELECT x.k, y.v FROM a [RANGE 9 us] AS x JOIN b [RANGE 7 us] AS y ON x.k = y.k EMIT CHANGES",
    "outer": "SELECT x.k, y.v FROM a [RANGE 9 us] AS x LEFT JOIN b [RANGE 7 us] AS y ON x.k = y.k "
    "EMIT CHANGES",
    "panes": "SELECT k, MAX(v) AS m FROM a [RANGE 8 us] GROUP BY k HOP BY 4 us",
    "hops": "SELECT x.k, y.v FROM a [RANGE 8 us] AS x JOIN b [RANGE 8 us] AS y ON x.k = y.k HOP BY 4 us",
    "deltas": "SELECT DISTINCT k FROM a [RANGE 8 us] HOP BY 4 us EMIT DELTA",
    "fewer hops": "SELECT x.k, COUNT(*) AS n FROM a [RANGE 8 us] AS x JOIN b [RANGE 8 us] AS y ON x.k = y.k "
    "GROUP BY x.k HOP BY 3 us EMIT DELTA",
}


CASES = [
    *((name, {}) for name in QUERIES),
    *((name, {"modes": mode}) for name in ("hops", "deltas") for mode in ("DIDO", "DICO", "CICO", "CIDO")),
    *(
        (name, {"expiry": expiry})
        for name in ("groups", "inner", "outer")
        for expiry in ("ita", "time-message")
    ),
]
JOINS = [
    f"SELECT {what} FROM a [RANGE {left} us] AS x JOIN b [RANGE {right} us] AS y ON x.k = y.k{where}"
    for what, left, right, where in (
        ("x.v", 9, 7, ""), ("y.v", 4, 12, " WHERE x.v < 7"), ("COUNT(*) AS n", 5, 5, "")
    )
]  # fmt: skip


class Flow:
    """Rows that came into queues and outlets, by their identity."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: Counter[int] = Counter()
        self.known: list[object] = []  # so that no identity is used again
        for kind in (Queue, Outlet):
            monkeypatch.setattr(kind, "put", self.counting(kind.put))
        monkeypatch.setattr(scheduler, "take_turn", self.turn)

    def counting(self, put):  # type: ignore[no-untyped-def]
        def counted(end: Queue | Outlet, batch: Batch) -> None:
            self.rows[id(end)] += batch.length
            self.known.append(end)
            put(end, batch)

        return counted

    def given(self, operator: Operator) -> int:
        """To the next operator, or to those of each member's."""
        outlets = [operator.output, *(member.output for member in getattr(operator, "members", ()))]
        return sum(self.rows[id(outlet)] for outlet in outlets)

    def state(self, operator: Operator) -> list[object]:
        """What a step can change."""
        outlets = [operator.output, *(member.output for member in getattr(operator, "members", ()))]
        promised = [(outlet.punctuation, outlet.closed) for outlet in outlets]
        told = sum(queue.messages_in for outlet in outlets for queue in outlet.queues)
        return [self.given(operator), sum(queue.rows for queue in operator.inputs), promised, told]

    def turn(self, operator: Operator, *others: Any) -> None:
        """A turn in which something was done counts as a step."""
        before, steps = None if isinstance(operator, Sink) else self.state(operator), operator.counters.steps
        take_turn(operator, *others)
        if before is not None and self.state(operator) != before:
            assert operator.counters.steps > steps, f"{operator.name} did something"

    def taken(self, operator: Operator) -> int:
        return sum(self.rows[id(queue)] - queue.rows for queue in operator.inputs)


def operators_of(engine: penstock.Engine) -> list[Operator]:
    """All but the sinks, which drop what cancels."""
    runtime = engine._runtime
    seen = {id(one): one for pipeline in runtime.pipelines.values() for one in pipeline.all_operators}
    seen |= {id(one): one for group in joins_of(engine) for one in group.form.operators}
    seen |= {id(one): one for one in selects_of(engine)}
    return [one for one in seen.values() if not isinstance(one, Sink)]


def run(monkeypatch: pytest.MonkeyPatch, queries: list[str], **options: str) -> dict[str, list[int]]:
    """Rows in and out by the counters, and by the queues, of each operator."""
    random, flow, now = Random(7), Flow(monkeypatch), 0
    engine = penstock.Engine(**options)
    engine.execute(TABLES)
    for query in queries:
        engine.query(query)
    assert not any(one.state_rows for one in operators_of(engine)), "no rows have come"
    for _ in range(60):
        now += random.randrange(4)
        rows = {"ts": [now], "k": [random.randrange(3)], "v": [random.randrange(10)]}
        engine.push(random.choice("ab"), pa.table(rows))
    engine.close()
    engine.stats()
    for one in operators_of(engine):
        for member in getattr(one, "members", ()):
            if flow.rows[id(member.output)]:
                assert member.found == flow.rows[id(member.output)], f"a member of {one.name}"
    return {
        one.name: [one.counters.rows_in, one.counters.rows_out, flow.taken(one), flow.given(one)]
        for one in operators_of(engine)
    }


@pytest.mark.parametrize(("name", "options"), CASES)
def test_counters_are_what_the_queues_have_seen(
    name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one, (rows_in, rows_out, taken, given) in run(monkeypatch, [QUERIES[name]], **options).items():
        assert (rows_in, rows_out) == (taken, given), one


@pytest.mark.parametrize("sharing", ["auto", "pull-up", "push-down", "mem-opt", "chain", "unshared"])
def test_counters_of_joins_in_common(sharing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (rows_in, rows_out, taken, given) in run(monkeypatch, JOINS, sharing=sharing).items():
        if "union" in name:  # it is given pairs that are not for its member
            assert rows_in >= rows_out > 0, name
        elif not name.startswith(("join 1.head", "join 1.split")):  # a row goes to several, or twice
            assert (rows_in, rows_out) == (taken, given), name

"""Hopping queries under every `optimize`, against DuckDB at every hop."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hopping_help import weights
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Reference, plain, rows_of
from test_changes_oracle import arrivals, drive, expected, make_engine, make_oracle, same
from test_hopping_oracle import complete_of

import penstock

QUERIES = [
    # three streams joined
    "SELECT p.k, q.v, r.id FROM {p} JOIN {q} ON p.k = q.k JOIN {r} ON r.k = q.k",
    "SELECT p.k, COUNT(*) AS n, MAX(r.v) AS m FROM {p} JOIN {q} ON p.k = q.k "
    "JOIN {r} ON r.v = p.v GROUP BY p.k",
    # a difference below a join, and the other way round
    "SELECT d.k, r.v FROM (SELECT k, v FROM {p} EXCEPT ALL SELECT k, v FROM {q}) AS d JOIN {r} ON d.k = r.k",
    "SELECT d.k, r.n FROM (SELECT k, v FROM {p} EXCEPT SELECT k, v FROM {q}) AS d "
    "JOIN (SELECT k, COUNT(*) AS n FROM {r} GROUP BY k) AS r ON d.k = r.k",
    "SELECT DISTINCT d.k, r.v FROM (SELECT k, v FROM {p} EXCEPT SELECT k, v FROM {q}) AS d "
    "JOIN {r} ON d.k = r.k",
    "SELECT p.k, r.v FROM {p} JOIN {r} ON p.k = r.k EXCEPT SELECT q.k, r.v FROM {q} JOIN {r} ON q.k = r.k",
    "SELECT r.k, p.v, r.v FROM {p} JOIN {r} ON p.k = r.k "
    "EXCEPT ALL SELECT r.k, q.v, r.v FROM {q} JOIN {r} ON q.k = r.k WHERE q.v > 0",
    # anti joins over joins
    "SELECT p.k, r.v FROM {p} JOIN {r} ON p.k = r.k WHERE NOT EXISTS (SELECT 1 FROM {q} WHERE q.v = p.v)",
    "SELECT p.k, r.v FROM {p} JOIN {r} ON p.k = r.k "
    "WHERE NOT EXISTS (SELECT 1 FROM {q} WHERE q.k = p.k AND q.v < r.v)",
    "SELECT r.k, COUNT(*) AS n FROM {p} JOIN {r} ON p.k = r.k WHERE NOT EXISTS (SELECT 1 FROM {q} "
    "WHERE q.k = r.k) AND EXISTS (SELECT 1 FROM t WHERE t.k = p.k) GROUP BY r.k",
    # a table, and a difference of joins below an aggregate
    "SELECT COUNT(*) AS n FROM (SELECT p.k, t.v FROM {p} JOIN t ON p.k = t.k "
    "EXCEPT ALL SELECT q.k, t.v FROM {q} JOIN t ON q.k = t.k) AS d",
]


class References:
    """What `make_oracle` has to know of a query: how it reads the streams."""

    def __init__(self, references: list[Reference]) -> None:
        self.references = references


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_hop_of_every_plan_oracle(data: st.DataObject) -> None:
    draw = data.draw
    streams = {name: draw(arrivals()) for name in "ab"}
    references = [
        Reference(draw(st.sampled_from("ab")), alias, "range", draw(st.integers(1, 12))) for alias in "pqr"
    ]
    text = draw(st.sampled_from(QUERIES))
    hop = draw(st.integers(1, 12))
    engine = make_engine(draw, "auto", streams)
    engine._weights = draw(weights())  # any mode and plan may be the cheapest
    sql = text.format(**{one.alias: one.penstock for one in references}) + f" HOP BY {hop} us"
    running = []
    for optimize in ("exhaustive", "heuristic", "none"):
        engine._setting = replace(engine._setting, optimize=optimize)
        running.append((optimize, engine.query(sql), engine.query(f"{sql} EMIT DELTA")))
    for _ in drive(draw, engine, streams):
        pass
    used = [one for one in references if f"{{{one.alias}}}" in text]
    times = [ts for name in {one.stream for one in used} for ts in streams[name]["ts"].to_pylist()]
    if not times:
        return
    end = max(ts for table in streams.values() for ts in table["ts"].to_pylist()) + 25
    plans = engine.explain()
    engine.advance(end)
    engine.close()
    oracle = make_oracle(streams, References(references))  # type: ignore[arg-type]
    duck = text.format(**{one.alias: one.alias for one in references})
    found = {optimize: complete_of(complete) for optimize, complete, _ in running}
    changes = {
        optimize: [(row[0], row[1], same(plain(row[2:]))) for row in rows_of(delta.results())]
        for optimize, _, delta in running
    }
    answers: dict[str, Counter[Any]] = {optimize: Counter() for optimize in found}
    for boundary in range(min(times) + -min(times) % hop, end + 1, hop):
        wanted = expected(oracle, duck, boundary)
        for optimize in found:
            assert found[optimize].pop(boundary, Counter()) == wanted, f"{sql} at {boundary}\n{plans}"
            for ts, diff, row in changes[optimize]:
                if ts == boundary:
                    answers[optimize][row] += diff
            now = Counter({row: count for row, count in answers[optimize].items() if count})
            assert now == wanted, f"delta of {sql} at {boundary}, {optimize}\n{plans}"
    assert not any(found.values()), f"{sql}: an answer at no boundary, or after {end}"


def test_a_table_ends_before_the_first_hop() -> None:
    """Its rows are folded into whole answers all the same: the right side is there at every hop."""
    with penstock.Engine(optimize="none") as engine:
        engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE TABLE t (k BIGINT)")
        engine.push("t", {"k": [1, 1]})
        query = engine.query(
            "SELECT a.k, d.k AS t FROM a [RANGE 1 us] RIGHT JOIN (SELECT DISTINCT k FROM t) AS d "
            "ON a.k = d.k HOP BY 1 us",
            modes={"join 1": "CICO", "distinct 1": "DICO"},
        )
        engine.push("a", {"ts": [0], "k": [None]})
        engine.advance(2)
    assert [row[0] for row in rows_of(query.results())] == [0, 1, 2]


def test_optimize_is_checked() -> None:
    with pytest.raises(penstock.UsageError, match="Expected optimize to be one of exhaustive"):
        penstock.Engine(optimize="fast")


def test_a_forced_mode_is_kept_by_the_search() -> None:
    for mode in ("DIDO", "CICO"):
        with penstock.Engine(modes=mode) as engine:
            for name in "abc":
                engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)")
            query = engine.query(
                "SELECT a.k, COUNT(*) AS n FROM a JOIN b ON a.k = b.k JOIN c ON c.v = b.v "
                "WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = a.v) GROUP BY a.k "
                "WINDOW 10 SECONDS HOP BY 1 SECOND"
            )
            assert query._decided is not None
            modes = {one.mode for one in query._decided.operators if not one.name.startswith("scan")}
            assert modes <= {mode, mode[:2] + "CO"}

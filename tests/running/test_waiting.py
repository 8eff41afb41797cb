"""What waits for a silent stream is said: rows, bytes, and which stream they wait for."""

from __future__ import annotations

import json
from typing import Any

import pytest

import penstock

TABLES = "CREATE STREAM a (ts TIMESTAMP, k BIGINT, t VARCHAR); CREATE STREAM b (ts TIMESTAMP, k BIGINT)"
JOIN = "SELECT x.k, x.t FROM a [RANGE 5 us] AS x JOIN b [RANGE 5 us] AS y ON x.k = y.k"
ROWS = {"ts": [1, 2, 3, 4], "k": [1, 2, 3, 4], "t": ["one", "two", "three", "four"]}
NOTHING = {"rows": 0, "bytes": 0, "stream": None}


def engine_with(*texts: str, **options: Any) -> penstock.Engine:
    engine = penstock.Engine(**options)
    engine.execute(TABLES)
    for number, text in enumerate(texts):
        engine.query(text, name=f"q{number}")
    return engine


def waiting(engine: penstock.Engine, name: str = "q0") -> dict[str, Any]:
    found: dict[str, Any] = engine.stats()["queries"][name]["waiting"]
    return found


@pytest.mark.parametrize("sharing", ["auto", "unshared", "push-down", "chain"])
@pytest.mark.parametrize(
    "text",
    [
        JOIN,
        "SELECT x.k FROM a [ROWS 5] AS x JOIN b [ROWS 5] AS y ON x.k = y.k",
        "SELECT x.k FROM a [RANGE 5 us] AS x LEFT JOIN b [RANGE 5 us] AS y ON x.k = y.k",
        "SELECT k FROM a [RANGE 5 us] EXCEPT SELECT k FROM b [RANGE 5 us]",
        "SELECT x.k, COUNT(*) AS n FROM a [RANGE 5 us] AS x JOIN b [NOW] AS y ON x.k = y.k GROUP BY x.k",
    ],
)
def test_rows_wait_for_the_stream_that_is_behind(text: str, sharing: str) -> None:
    engine = engine_with(text, sharing=sharing)
    assert waiting(engine) == NOTHING
    engine.push("b", {"ts": [2], "k": [1]})
    engine.push("a", ROWS)
    found = waiting(engine)
    assert found["stream"] == "b"
    assert 2 <= found["rows"] <= 4, "those at 3 and 4, and those at 2 perhaps"
    assert found["bytes"] >= 16 * found["rows"], "a time and a key of eight bytes each"
    engine.advance(9)
    assert waiting(engine) == NOTHING


def test_a_row_that_waits_for_many_is_said_of_each_and_counted_once() -> None:
    engine = engine_with(JOIN, JOIN.replace("5 us", "9 us"), "SELECT k FROM a")
    engine.push("a", ROWS)
    engine.push("a", {"ts": [5], "k": [5], "t": ["a text of some length " * 100]})
    first, second = waiting(engine), waiting(engine, "q1")
    assert first == second
    assert (first["rows"], first["stream"]) == (5, "b")
    assert 2_200 < first["bytes"] < 2_700
    assert waiting(engine, "q2") == NOTHING, "it does not read `b`"


def test_a_self_join_keeps_a_row_in_two_queues_and_says_it_once() -> None:
    engine = engine_with(
        "SELECT x.k FROM a [RANGE 5 us] AS x LEFT JOIN a [RANGE 7 us] AS z ON x.k = z.k "
        "LEFT JOIN b [RANGE 5 us] AS y ON x.k = y.k"
    )
    engine.push("a", ROWS)
    assert waiting(engine)["rows"] <= 4
    assert waiting(engine)["stream"] == "b"


def test_rows_held_for_slack_are_said_of_their_stream_in_bytes_too() -> None:
    engine = penstock.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts - INTERVAL '10' us)")
    engine.query("SELECT k FROM s", name="q0")
    engine.push("s", {"ts": [1, 5, 12, 13], "k": [1, 2, 3, 4]})
    found = engine.stats()["streams"]["s"]
    assert (found["rows_held"], found["bytes_held"]) == (3, 72)
    assert waiting(engine) == NOTHING
    engine.close()
    assert engine.stats()["streams"]["s"]["bytes_held"] == 0


def test_explain_analyze_says_it() -> None:
    engine = engine_with(JOIN)
    engine.push("a", ROWS)
    shown = engine.explain(analyze=True)
    found = waiting(engine)
    assert f"  waiting: 4 rows, {found['bytes']} bytes, until time has passed on `b`\n" in shown
    (query,) = json.loads(engine.explain(analyze=True, json=True))["queries"]
    assert query["waiting"] == found
    assert "waiting" not in engine.explain()
    engine.advance(9)
    assert "waiting" not in engine.explain(analyze=True)


def test_a_query_that_has_stopped_waits_for_nobody() -> None:
    engine = engine_with(JOIN.replace("x.k, x.t", "1 // (x.k - 1) AS y"))
    engine.push("a", ROWS)
    with pytest.raises(penstock.StoppedError):
        engine.push("b", {"ts": [2], "k": [1]})
    engine.push("a", {"ts": [7], "k": [1], "t": ["x"]})
    assert waiting(engine) == NOTHING

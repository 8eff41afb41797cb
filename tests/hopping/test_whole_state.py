"""Operators that read whole answers keep nothing of rows that are gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock
from penstock.engine.keys.key_slots import KeySlots, SlotReader
from penstock.engine.rows.types import SqlType

SHAPES = [
    "SELECT a.k FROM a [{0}] ANTI JOIN b [{0}] ON a.k = b.k",
    "SELECT a.k FROM a [{0}] SEMI JOIN b [{0}] ON a.k = b.k",
    "SELECT a.k, b.k AS j FROM a [{0}] JOIN b [{0}] ON a.k = b.k",
    "SELECT a.k, b.k AS j FROM a [{0}] FULL JOIN b [{0}] ON a.k = b.k",
    "SELECT DISTINCT k FROM a [{0}]",
    "SELECT k FROM a [{0}] EXCEPT SELECT k FROM b [{0}]",
    "SELECT k FROM a [{0}] UNION SELECT k FROM b [{0}]",
    "SELECT k, COUNT(*) AS n FROM a [{0}] GROUP BY k",
]


def state(engine: penstock.Engine) -> dict[str, int]:
    stats = engine.stats()
    operators = [one for query in stats["queries"].values() for one in query["operators"]]
    operators += [one for group in stats["groups"] for one in group["operators"]]
    return {one["kind"]: one["state_rows"] for one in operators if one["kind"] != "Sink"}


def filled(sql: str, modes: str, beside: bool = False) -> tuple[penstock.Engine, penstock.Query]:
    engine = penstock.Engine(modes=modes)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    if beside:  # rows are kept in common then
        engine.query(f"{SHAPES[0].format('RANGE 3 us')} HOP BY 3 us")
    query = engine.query(sql, "q")
    engine.push("a", {"ts": list(range(10)), "k": list(range(10))})
    engine.push("b", {"ts": [1, 6], "k": [5, 6]})
    return engine, query


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("modes", ["CICO", "CIDO"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_that_is_empty_keeps_no_rows(shape: str, modes: str, beside: bool) -> None:
    """No row has to come: time is enough."""
    tail = " HOP BY 2 us EMIT " + ("DELTA" if modes == "CIDO" else "COMPLETE")
    engine, query = filled(shape.format("RANGE 4 us") + tail, modes, beside)
    engine.advance(10)
    assert any(state(engine).values())
    engine.advance(1000)
    assert not any(state(engine).values()), state(engine)
    before = query.count
    engine.push("a", {"ts": [1001], "k": [1]})  # it goes on
    engine.advance(1003)
    engine._runtime._check()
    assert query.count > before or "SEMI" in shape or " JOIN b" in shape


def test_rows_that_stand_are_not_hashed_again_where_boundaries_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With EMIT DELTA whoever reads ROWS windows says nothing at boundaries at which nothing comes."""
    read: list[int] = []
    insert = KeySlots.insert

    def counted(self: KeySlots, keys: Any, slots: Any) -> Any:
        read.append(len(slots))
        return insert(self, keys, slots)

    monkeypatch.setattr(KeySlots, "insert", counted)
    sql = "SELECT a.k FROM a [ROWS 100] SEMI JOIN b [ROWS 100] ON a.k = b.k HOP BY 2 us EMIT DELTA"
    engine, _ = filled(sql, "CIDO")
    for ts in (100, 200, 300):
        engine.push("a", {"ts": [ts], "k": [5]})
        engine.push("b", {"ts": [ts], "k": [ts]})
    engine.advance(400)
    assert sum(read) < 40


def test_slots_of_rows_that_were_forgotten_are_made_again() -> None:
    reader = SlotReader(KeySlots(), [SqlType.BIGINT], [0], False, True)
    reader.kept.append(np.arange(5, dtype="int32"))
    reader.forget()
    assert len(reader.kept) == 0 and reader.kept.end == 5

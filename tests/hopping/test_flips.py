"""Changes of mind inside a hop: bounded as the paper says, counted, never published."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changes_help import as_batch, drawn_changes, read
from hypothesis import given
from hypothesis import strategies as st
from oracle import rows_of
from test_tally import tally

import penstock
from penstock.engine.flow.queue import Queue
from penstock.engine.rows.types import SqlType

TYPES = (SqlType.BIGINT,)
DRAWN = drawn_changes(st.tuples(st.integers(0, 2)), withdrawn=True, lives=(None,))


@pytest.mark.parametrize("all_", [False, True], ids=["set", "bag"])
@given(st.data())
def test_a_difference_changes_its_mind_no_more_often_than_its_inputs(all_: bool, data: Any) -> None:
    """Tuple at a time within one hop, every value for itself: at most one change per change of an input."""
    operator = tally("except", all_, "promises", TYPES)
    out = Queue()
    operator.output.queues.append(out)
    told: Counter[Any] = Counter()
    inputs = [list(data.draw(DRAWN)), list(data.draw(DRAWN))]
    for queue in operator.inputs:
        queue.promise(100)
    while any(inputs):
        side = data.draw(st.sampled_from([i for i in (0, 1) if inputs[i]]))
        change = inputs[side].pop(0)
        told[change.values] += 1
        batch = as_batch([change], TYPES)
        batch.ts[:] = 100
        operator.inputs[side].put(batch)
        while operator.step(1000):
            operator._check()
    said = Counter(change.values for change in read(out))
    assert all(said[value] <= told[value] for value in said)


def start(execution: str, sql: str) -> tuple[penstock.Engine, penstock.Query]:
    engine = penstock.Engine(execution=execution, modes="DIDO", panes=False)
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT)")
    return engine, engine.query(sql, name="q")


EXCEPT = "SELECT k FROM a [RANGE 10 us] EXCEPT SELECT k FROM b [RANGE 10 us] HOP BY 10 us EMIT {}"


@pytest.mark.parametrize("emit", ["DELTA", "COMPLETE"])
@pytest.mark.parametrize(("execution", "flips"), [("waat", 0), ("taat", 2)])
def test_flips_are_counted_and_not_published(emit: str, execution: str, flips: int) -> None:
    """In a at 2, in b at 3, of the hop at 10: tuple at a time it is in the answer for a moment.

    a   1:7   2:8            |
    b   1:9         3:8      |10
    """
    engine, query = start(execution, EXCEPT.format(emit))
    for stream, ts, key in (("a", 1, 7), ("b", 1, 9), ("a", 2, 8), ("b", 2, 9), ("b", 3, 8), ("a", 3, 7)):
        engine.push(stream, {"ts": [ts], "k": [key]})
        assert query.results().num_rows == 0, "an answer before its hop is over"
    engine.advance(11)
    assert [(row[0], row[-1]) for row in rows_of(query.results())] == [(10, 7)]
    assert engine.stats()["queries"]["q"]["flips"] == flips
    engine.close()


def test_tuple_at_a_time_works_rows_before_their_hop_is_over() -> None:
    for execution, kept in (("waat", 0), ("taat", 1)):
        engine, _ = start(execution, "SELECT k, COUNT(*) FROM a [RANGE 100 us] GROUP BY k HOP BY 50 us")
        engine.push("a", {"ts": [1, 2], "k": [1, 1]})
        operators = engine.stats()["queries"]["q"]["operators"]
        assert sum(one["rows_in"] > 0 for one in operators if one["kind"] == "GroupBy") == kept
        engine.close()

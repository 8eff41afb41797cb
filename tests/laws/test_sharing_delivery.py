"""What a shared join costs besides finding pairs: conditions are evaluated once per row, and columns of
results are copied when somebody reads them, not when they are given to a query.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from work_of import joins_of

import penstock
from penstock.engine.expressions import functions
from penstock.engine.kernels.joins.pairs import ROW_BITS
from penstock.engine.results import results_memory
from penstock.engine.rows.store import FixedView, TextView, new_column
from penstock.engine.rows.types import ARROW_TYPES, SqlType
from penstock.engine.views import shelves_view

STRATEGIES = ["auto", "mem-opt", "cpu-opt", "pull-up", "push-down", "chain", "chain-cpu"]
DECLARE = "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR)"
WHERE = ["", "WHERE x.v < 5", "WHERE x.v BETWEEN 2 AND 7 AND y.v < 8", "WHERE x.s <> y.s"]


def make(sharing: str = "auto") -> penstock.Engine:
    engine = penstock.Engine(sharing=sharing)
    for name in ("a", "b"):
        engine.execute(DECLARE.format(name))
    return engine


def start(engine: penstock.Engine, count: int, windows: str = "us") -> list[penstock.Query]:
    """Queries that take different windows, conditions and columns."""
    return [
        engine.query(
            f"SELECT x.id, y.id AS yid, {('x.v', 'y.s', 'x.s, y.v')[i % 3]} "
            f"FROM a [RANGE {10 * (i + 1)} {windows}] AS x JOIN b [RANGE {10 * (i + 1)} {windows}] AS y "
            f"ON x.k = y.k {WHERE[i % len(WHERE)]}",
            name=f"q{i}",
        )
        for i in range(count)
    ]


def rows(first: int, count: int, keys: int = 5) -> pa.Table:
    ids = np.arange(first, first + count)
    texts = [None if i % 7 == 3 else f"text {i % 4}" for i in ids.tolist()]
    return pa.table({"ts": ids, "id": ids, "k": ids * 7 % keys, "v": ids * 3 % 10 + 0.0, "s": texts})


def push(engine: penstock.Engine, first: int, count: int, keys: int = 5) -> None:
    for name in ("a", "b"):
        engine.push(name, rows(first, count, keys))


# -- columns of results --------------------------------------------------------------------------------


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were copied out of stored columns, each time."""
    seen: list[int] = []
    for cls in (FixedView, TextView):

        def take(self: Any, numbers: Any, original: Any = cls.take) -> Any:
            seen.append(len(numbers))
            return original(self, numbers)

        monkeypatch.setattr(cls, "take", take)
    gather = shelves_view.gather_fixed

    def gather_fixed(views: list[FixedView], refs: Any) -> pa.Array:
        seen.append(len(refs))
        return gather(views, refs)

    monkeypatch.setattr(shelves_view, "gather_fixed", gather_fixed)
    return seen


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_columns_are_not_copied_before_somebody_reads_them(sharing: str, copied: list[int]) -> None:
    """Those of WHERE x.s <> y.s are: the condition reads them, pair by pair."""
    engine = make(sharing)
    queries = start(engine, 40)
    for query in [query for query in queries if "<>" in query.sql]:
        query.drop()
    queries = list(engine.queries.values())
    push(engine, 0, 500)
    assert min(query.count for query in queries) > 500
    assert copied == []
    results = queries[1].results()
    assert set(copied) and sum(copied) == 3 * results.num_rows == 3 * queries[1].count
    del copied[:]
    assert queries[1].results().num_rows == 0
    assert copied == []


@pytest.mark.parametrize("sharing", STRATEGIES)
def test_results_read_at_last_are_those_read_at_once(sharing: str) -> None:
    """Meanwhile rows expire, stores grow and move, queries come and go, and the engine is saved."""
    read: list[list[pa.Table]] = []
    for at_once in (True, False):
        engine = make(sharing)
        queries = start(engine, 25)
        tables = {query.name: [] for query in queries}  # type: ignore[var-annotated]
        for first in range(0, 1_800, 150):
            push(engine, first, 150)
            if first == 600:
                engine.query("SELECT x.ts FROM a [RANGE 1 ms] AS x JOIN b [RANGE 1 ms] AS y ON x.k = y.k")
            if first == 900:
                engine.queries["q19"].drop()
            if first == 1_200:
                engine = penstock.Engine.restore_bytes(engine.checkpoint_bytes())
            for query in engine.queries.values() if at_once or first == 1_650 else ():
                tables.setdefault(query.name, []).append(query.results())
        read.append([pa.concat_tables(tables[f"q{i}"]) for i in range(19)])
    for early, late in zip(*read, strict=True):
        assert early.num_rows > 100
        assert early.sort_by([(name, "ascending") for name in early.column_names]) == late.sort_by(
            [(name, "ascending") for name in late.column_names]
        )


def test_long_texts_are_not_copied_either(copied: list[int]) -> None:
    """A copy for each of the pairs takes far more than the rows that they refer to; but for the first few."""
    engine = penstock.Engine()
    for name in "ab":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, s VARCHAR)")
    join = "SELECT x.s, y.s AS other FROM a AS x JOIN b AS y ON x.k = y.k"
    queries = [engine.query(f"{join} WINDOW {size} us") for size in range(500, 540)]
    rows = pa.table({"ts": range(2_000), "k": [i % 50 for i in range(2_000)], "s": ["x" * 200] * 2_000})
    for name in "ab":
        engine.push(name, rows)
    values = 2 * sum(query.count for query in queries)
    assert values > 2_000_000 and sum(copied) < 0.05 * values
    assert queries[0].results()["s"][0].as_py() == "x" * 200


ONE_MATCH = {
    "two streams": "SELECT x.k, x.s, y.s AS other FROM a AS x JOIN b AS y ON x.k = y.k WINDOW {} us",
    "three streams": "SELECT x.k, x.s, z.s AS other FROM a AS x JOIN b AS y ON x.k = y.k "
    "JOIN c AS z ON y.k = z.k WINDOW {} us",
    "a condition on a column": "SELECT x.k, x.s, y.s AS other FROM a AS x JOIN b AS y ON x.k = y.k "
    "WHERE x.k >= {} WINDOW 1500 us",
}


def one_match(query: str, count: int, sharing: str = "auto") -> tuple[penstock.Engine, list[penstock.Query]]:
    engine = penstock.Engine(sharing=sharing)
    for name in "abc":
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, s VARCHAR)")
    return engine, [engine.query(ONE_MATCH[query].format(1_000 + i)) for i in range(count)]


def push_one_match(engine: penstock.Engine, first: int, count: int, length: int) -> None:
    ids = range(first, first + count)
    texts = [chr(97 + i % 26) * length for i in ids]
    for name in "abc":
        engine.push(name, pa.table({"ts": ids, "k": ids, "s": texts}))


def sinks_of(engine: penstock.Engine) -> list[Any]:
    return [query._pipeline.sink for query in engine.queries.values()]


@pytest.mark.parametrize("length", [1, 1_000])
@pytest.mark.parametrize("step", [100, 1_000])
@pytest.mark.parametrize("query", ONE_MATCH)
def test_one_match_per_row_is_not_copied_either(
    query: str, step: int, length: int, copied: list[int]
) -> None:
    """What a hundred queries wait with is memory they share: little for all, though much for any one."""
    engine, queries = one_match(query, 100)
    for first in range(0, 5_000, step):
        push_one_match(engine, first, step, length)
        engine._runtime.results_memory._check()
    assert copied == []
    assert min(one.count for one in queries) > 3_000
    values = sum(one.count for one in queries)
    numbers = 24 * values  # times, and where the rows are
    texts = sum(sink.state_bytes for sink in sinks_of(engine)) - numbers
    assert texts < 10 * 2 * 5_000 * (length + 24)  # which copies for all would take many times
    assert sum(sink.state_bytes for sink in sinks_of(engine)) > engine._runtime.results_memory.nbytes > 0
    result = queries[7].results()
    assert sum(copied) == 3 * result.num_rows == 3 * queries[7].count
    first_k = result["k"][0].as_py()
    ids = list(range(first_k, 5_000))
    texts_of = [chr(97 + i % 26) * length for i in ids]
    assert result["k"].to_pylist() == ids
    assert result["s"].to_pylist() == result["other"].to_pylist() == texts_of
    engine._runtime.results_memory._check()


def test_results_of_rows_long_dropped_are_copied_when_few_wait_for_them(copied: list[int]) -> None:
    """Nothing matches any more, so that no query is given rows: what they wait with must not keep windows.

    a   1 2 ... 999 | -1000 -1001 ...        b   1 | 1000 1001 ...        pushes end at |
    """
    engine, queries = one_match("two streams", 30)
    texts = ["x" * 1_000] * 1_000
    for name, keys in (("a", range(1_000)), ("b", [0] + [-1] * 999)):
        engine.push(name, pa.table({"ts": range(1_000), "k": keys, "s": texts}))
    assert [query.count for query in queries] == [1] * 30
    memory = engine._runtime.results_memory
    assert copied == [] and memory.nbytes == 0  # the store has the rows anyway
    for first in range(1_000, 10_000, 1_000):
        for name, sign in (("a", -1), ("b", 1)):
            ids = range(first, first + 1_000)
            engine.push(name, pa.table({"ts": ids, "k": [sign * i for i in ids], "s": texts}))
    assert sum(copied) == 3 * 30
    assert memory.nbytes <= results_memory.MOST_HELD
    assert sum(sink.state_bytes for sink in sinks_of(engine)) < results_memory.MOST_HELD + 30 * 4_000
    assert [query.results()["s"].to_pylist() for query in queries] == [["x" * 1_000]] * 30


def test_what_many_waited_for_is_copied_when_few_are_left() -> None:
    """Others read theirs, or go, and the rest alone is not worth what it keeps alive."""
    engine, queries = one_match("two streams", 40)
    rare = [
        engine.query(
            f"{ONE_MATCH['two streams'].format(1_000)} WHERE x.k % 500 = {i}".replace(
                "WINDOW 1000 us WHERE", "WHERE"
            )
            + " WINDOW 1000 us"
        )
        for i in range(3)
    ]
    memory = engine._runtime.results_memory
    for first in range(0, 5_000, 500):
        push_one_match(engine, first, 500, 1_000)
    assert memory.nbytes > 4_000_000
    for query in queries[:20]:
        query.results()
    for query in queries[20:]:
        query.drop()
    memory._check()
    push_one_match(engine, 5_000, 1, 1_000)
    memory._check()
    assert memory.nbytes <= results_memory.MOST_HELD
    assert [query.results()["k"].to_pylist()[:10] for query in rare] == [
        list(range(i, 5_000, 500)) for i in range(3)
    ]
    assert queries[30].results()["k"].to_pylist() == list(range(5_000))  # dropped, and still there to be read


def test_arrays_of_many_shelves_are_listed_once_for_all_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions of their own give rows many lifetimes, and each shelf has arrays of its own."""
    listed: list[int] = []

    def arrays_of(view: Any, original: Any = results_memory.arrays_of) -> Any:
        found = original(view)
        listed.append(len(found))
        return found

    monkeypatch.setattr(results_memory, "arrays_of", arrays_of)
    engine = make("mem-opt")
    queries = [
        engine.query(
            f"SELECT x.id, y.s FROM a [RANGE {100 + 10 * i} us] AS x JOIN b [RANGE {100 + 10 * i} us] AS y "
            f"ON x.k = y.k WHERE x.v BETWEEN {i % 10} AND {i % 10 + 1} AND y.v >= {i % 7}"
        )
        for i in range(60)
    ]
    memory = engine._runtime.results_memory
    for first in range(0, 2_000, 500):
        del listed[:]
        push(engine, first, 500)
        memory._check()
        assert (
            len(listed) <= 20
        )  # two columns, as they are each time that pairs are given, not for each query
        assert max(listed) > 4
    assert min(query.count for query in queries) > 100
    shares = sum(sink._kept._memory.held_bytes(one) for sink in sinks_of(engine) for one in sink._kept._rows)
    assert memory.nbytes > 0 and shares == pytest.approx(memory.nbytes)
    for query in queries[:30]:
        query.results()
    memory._check()
    for query in queries[30:]:
        query.results()
    memory._check()
    assert memory.nbytes == 0 and not memory._views


@pytest.mark.parametrize("type_", [SqlType.BIGINT, SqlType.BOOLEAN, SqlType.VARCHAR])
@pytest.mark.parametrize("rows_read", [0, 3, 200])
def test_rows_are_read_from_the_shelves_they_lie_on(type_: SqlType, rows_read: int) -> None:
    """Few rows of many shelves, or many; on every third shelf there are NULLs, one is empty."""
    dice = np.random.default_rng(4)
    stored: list[list[Any]] = []
    columns = []
    for number in range(20):
        texts = [None if number % 3 == 0 and i % 2 else f"{number}-{i}" for i in range(number)]
        whole = [None if text is None else 100 * number + i for i, text in enumerate(texts)]
        bits = [None if one is None else one % 2 == 0 for one in whole]
        stored.append({SqlType.VARCHAR: texts, SqlType.BIGINT: whole, SqlType.BOOLEAN: bits}[type_])
        column = new_column(type_, 5 * number)
        column.append(pa.array(stored[-1], ARROW_TYPES[type_]))
        columns.append(column)
    view = shelves_view.ShelvesView([column.view() for column in columns], ARROW_TYPES[type_])
    shelf = dice.integers(1, 20, rows_read)
    row = dice.integers(0, shelf) if rows_read else shelf
    refs = shelf << ROW_BITS | (row + 5 * shelf)
    expected = [stored[s][r] for s, r in zip(shelf.tolist(), row.tolist(), strict=True)]
    assert view.take(refs).to_pylist() == expected
    length = sum(len(one) for one in expected if isinstance(one, str))
    assert view.text_bytes(refs) == length


def test_pairs_are_given_at_once_also_when_a_query_needs_rows_longer() -> None:
    """Rows of another lifetime have a shelf of their own, and what finds pairs on the others goes on."""
    engine = make("mem-opt")
    join = "SELECT x.id FROM a [RANGE {0} us] AS x JOIN b [RANGE {0} us] AS y ON x.k = y.k"
    queries = [engine.query(join.format(200 + i)) for i in range(20)]
    batches: list[int] = []
    queries[3].subscribe(lambda given: batches.append(given.num_rows))
    shelves: list[list[int]] = []
    for first in range(0, 12_000, 1_000):
        if first == 8_000:
            engine.query(f"{join.format(900)} WHERE x.v < 3")
        del batches[:]
        push(engine, first, 1_000, 50)
        if first >= 6_000:
            assert len(batches) <= 2  # one for each stream that is pushed
        shelves.append([len(side.shelves) for group in joins_of(engine) for side in group.joins[0].sides])
    assert shelves[7] == [1, 1] and shelves[8] == [2, 1]


def test_a_query_nobody_reads_keeps_little_alive() -> None:
    """A result now and then, of large stores that have long moved on."""
    engine = make()
    start(engine, 20, "us")
    rare = engine.query(
        "SELECT x.id, y.s FROM a [RANGE 9 ms] AS x JOIN b [RANGE 9 ms] AS y ON x.k = y.k "
        "WHERE x.id % 5000 = 17"
    )
    for first in range(0, 60_000, 3_000):
        push(engine, first, 3_000, 20_000)
        for query in list(engine.queries.values())[:20]:
            query.results()
    assert 0 < rare.count < 1_000
    assert rare._pipeline.sink.state_bytes < results_memory.MOST_HELD + 64 * rare.count
    assert rare.results().num_rows == rare.count


def test_a_subscriber_that_comes_late_is_given_what_was_kept() -> None:
    engine = make()
    one, two, *_ = start(engine, 20)
    push(engine, 0, 400)
    given: list[pa.RecordBatch] = []
    one.subscribe(given.append)
    push(engine, 400, 400)
    assert sum(batch.num_rows for batch in given) == one.count > 800
    assert two._pipeline.sink.state_rows == two.count


# -- conditions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("sharing", STRATEGIES)
def test_a_condition_of_many_joins_is_evaluated_once_per_row(
    sharing: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that no index serves, on either stream, beside others that differ from query to query."""
    engine = make(sharing)
    for i in range(count):
        engine.query(
            f"SELECT x.id FROM a [RANGE {i + 3} us] AS x JOIN b [RANGE {i + 5} us] AS y ON x.k = y.k "
            f"WHERE x.id % 3 = 1 AND x.v > {i / 10} AND y.id % 2 = 0 AND y.v <> {i}",
            count_only=i % 2 == 1,
        )
    calls: list[int] = []
    original = functions.FUNCTIONS["modulo"]

    def counted(call: Any, batch: Any) -> Any:
        calls.append(batch.length)
        return original(call, batch)

    monkeypatch.setitem(functions.FUNCTIONS, "modulo", counted)
    for first in range(0, 600, 100):
        push(engine, first, 100)
    assert sum(calls) == 2 * 600
    assert max(query.count for query in engine.queries.values()) > 0

"""ORDERED PER column: a sequence for each of its values, against DuckDB, and the definitions per value.

d   x  y  x  y  x          x: 5 7 6     factor 1
k   5  1  7  2  6          y: 1 2       factor 0
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordered_streams import BEFORE, Arrival, draw_arrivals, factor_of, frontier_of
from test_ordered_join import NAMES, cuts, join_of

from penstock import Engine, LateError, Query, QueryError
from penstock.engine.flow.scheduler import RoundRobin, Shuffled
from penstock.engine.ordered_keys import ordered_side

VALUES = ("x", "y", "z", None)


@dataclass(frozen=True)
class Told:
    """A row of a stream, and the value that its sequence is of."""

    row: Arrival
    value: str | None


def draw_told(dice: random.Random, streams: int, rows: int) -> list[Told]:
    """Streams of each value, one among the other; a value of one stream may be behind, or silent."""
    timed = []
    for value in VALUES[: dice.randint(1, 4)]:
        for one in draw_arrivals(dice, streams, rows):
            timed.append((one.ts + dice.choice((0, 0.5)), dice.random(), one, value))
    timed.sort(key=lambda one: one[:2])
    numbers = Counter[int]()
    told = []
    for ts, (_, _, one, value) in enumerate(timed):
        told.append(Told(Arrival(one.stream, one.key, numbers[one.stream], 10 + ts), value))
        numbers[one.stream] += 1
    return told


def sequences_of(told: list[Told], stream: int, per: bool) -> dict[str | None, list[int | None]]:
    """The keys of each sequence of a stream."""
    found: dict[str | None, list[int | None]] = defaultdict(list)
    for one in told:
        if one.row.stream == stream and not (per and one.value is None):
            found[one.value if per else None].append(one.row.key)
    return found


def factor_per(told: list[Told], stream: int, per: bool) -> int:
    return max(map(factor_of, sequences_of(told, stream, per).values()), default=0)


def full_join(told: list[Told], streams: int) -> list[tuple[int, ...]]:
    by_key: dict[tuple[str, int], list[list[int]]] = {}
    for one in told:
        if one.row.key is not None and one.value is not None:
            lists = by_key.setdefault((one.value, one.row.key), [[] for _ in range(streams)])
            lists[one.row.stream].append(one.row.row)
    return sorted(rows for lists in by_key.values() for rows in product(*lists))


@dataclass
class Model:
    """A row goes when the frontiers of all others, for its value, have passed its key."""

    factors: list[int]
    per: list[bool]
    come: dict[tuple[int, str | None], list[int | None]] = field(default_factory=lambda: defaultdict(list))
    frontiers: dict[tuple[int, str | None], float] = field(
        default_factory=lambda: defaultdict(lambda: BEFORE)
    )
    held: list[list[Told]] = field(default_factory=list)
    gone: dict[tuple[int, str | None], float] = field(default_factory=lambda: defaultdict(lambda: BEFORE))
    results: list[tuple[int, ...]] = field(default_factory=list)
    late: int = 0

    def __post_init__(self) -> None:
        self.held = [[] for _ in self.factors]

    def arrive(self, one: Told) -> None:
        streams, i = range(len(self.factors)), one.row.stream
        if one.row.key is not None and one.value is not None:
            self.late += any(self.gone[j, one.value] >= one.row.key for j in streams if j != i)
            partners = [
                [one.row.row]
                if j == i
                else [
                    two.row.row
                    for two in self.held[j]
                    if (two.value, two.row.key) == (one.value, one.row.key)
                ]
                for j in streams
            ]
            self.results += product(*partners)
            self.held[i].append(one)
        if not (self.per[i] and one.value is None):
            own = (i, one.value if self.per[i] else None)
            self.come[own].append(one.row.key)
            self.frontiers[own] = max(self.frontiers[own], frontier_of(self.come[own], self.factors[i]))
        for j in streams:
            kept = []
            for two in self.held[j]:
                passed = min(self.frontiers[o, two.value if self.per[o] else None] for o in streams if o != j)
                if two.row.key > passed:  # type: ignore[operator]
                    kept.append(two)
                else:
                    self.gone[j, two.value] = max(self.gone[j, two.value], two.row.key)  # type: ignore[type-var]
            self.held[j] = kept


def engine_of(rules: list[str], **options: object) -> Engine:
    engine = Engine(**options)  # type: ignore[arg-type]
    for name, rule in zip(NAMES, rules, strict=False):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, d VARCHAR, k BIGINT {rule}, r BIGINT)")
    return engine


def query_of(engine: Engine, streams: int) -> Query:
    joined = "a" + "".join(f" JOIN {name} USING (d, k)" for name in NAMES[1:streams])
    return engine.query(f"SELECT {', '.join(f'{one}.r AS r{one}' for one in NAMES[:streams])} FROM {joined}")


def push(engine: Engine, told: list[Told]) -> None:
    for stream in {one.row.stream for one in told}:
        own = [one for one in told if one.row.stream == stream]
        table = {
            "ts": pa.array([one.row.ts for one in own], pa.timestamp("us")),
            "d": pa.array([one.value for one in own], pa.string()),
            "k": pa.array([one.row.key for one in own], pa.int64()),
            "r": pa.array([one.row.row for one in own], pa.int64()),
        }
        engine.push(NAMES[stream], pa.table(table))
    engine.advance(told[-1].row.ts)


def rows_of(query: Query) -> list[tuple[int, ...]]:
    found = query.results()
    return list(zip(*(found[name].to_pylist() for name in found.column_names[1:]), strict=True))


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40)
def test_all_that_there_is_with_declared_factors(seed: int) -> None:
    """Some orders are PER the value, others go over all rows of their stream."""
    dice = random.Random(seed)
    streams = dice.randint(2, 4)
    told = draw_told(dice, streams, dice.choice((5, 20, 40)))
    per = [dice.random() < 0.8 for _ in range(streams)]
    factors = [factor_per(told, stream, per[stream]) for stream in range(streams)]
    rules = [f"ORDERED WITHIN {k} ROWS{' PER d' if own else ''}" for k, own in zip(factors, per, strict=True)]
    scheduler = Shuffled(seed) if dice.random() < 0.5 else RoundRobin()
    engine = engine_of(rules, scheduler=scheduler)
    query = query_of(engine, streams)
    join, model = join_of(engine), Model(factors, per)
    found: list[tuple[int, ...]] = []
    parts = cuts(dice, told)  # type: ignore[arg-type]
    restored_at = dice.randrange(len(parts))
    for at, part in enumerate(parts):
        push(engine, part)  # type: ignore[arg-type]
        for one in part:
            model.arrive(one)  # type: ignore[arg-type]
        engine._runtime._check()
        assert [len(side) for side in join.sides] == [len(held) for held in model.held]
        if at == restored_at:
            found += rows_of(query)
            engine = Engine.restore_bytes(engine.checkpoint_bytes())
            query, join = engine.queries[query.name], join_of(engine)
    engine.close()
    found += rows_of(query)
    assert sorted(found) == full_join(told, streams)
    assert join.state_rows == 0 and join.missed.rows == 0 and query.accuracy == 1.0


@given(seed=st.integers(0, 1 << 32), less=st.integers(1, 5))
@settings(max_examples=40)
def test_a_factor_that_is_too_small(seed: int, less: int) -> None:
    """What is found is what the definitions find, whatever the cuts; what came too late is counted."""
    dice = random.Random(seed)
    streams = dice.randint(2, 3)
    told = draw_told(dice, streams, dice.choice((20, 50)))
    per = [dice.random() < 0.8 for _ in range(streams)]
    factors = [max(0, factor_per(told, stream, per[stream]) - less) for stream in range(streams)]
    rules = [f"ORDERED WITHIN {k} ROWS{' PER d' if own else ''}" for k, own in zip(factors, per, strict=True)]
    engine = engine_of(rules, late="drop")
    query = query_of(engine, streams)
    model = Model(factors, per)
    for part in cuts(dice, told):  # type: ignore[arg-type]
        push(engine, part)  # type: ignore[arg-type]
    for one in told:
        model.arrive(one)
    join = join_of(engine)
    engine.close()
    found, there = Counter(rows_of(query)), Counter(full_join(told, streams))
    assert found == Counter(model.results)
    assert not found - there
    assert join.missed.rows == model.late
    assert sum((there - found).values()) <= join.missed.most


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=30)
def test_several_columns_and_distances_as_in_duckdb(seed: int) -> None:
    """Integers and texts as values, PER more columns here than there, rows that wait for older ones;
    rows that have gone are given back at once."""
    dice = random.Random(seed)
    slack = dice.choice((0, 0, 5, 40))
    engine, con = Engine(), duckdb.connect()
    arrived, sizes = {}, {}
    pers = {"a": "(d, e)", "b": "e", "c": "(e, d)"}
    for name, per in pers.items():
        keys, rows = Counter[tuple[str, int]](), []
        for at in range(120):
            value = (dice.choice("xy"), dice.randrange(2))
            keys[value] += dice.choice((0, 1, 1))
            rows.append((10 + at - dice.randint(0, slack), *value, keys[value] - dice.randint(0, 2)))
        behind: dict[object, tuple[int, int]] = {}
        for _, d, e, k in rows:
            value = e if per == "e" else (d, e)
            top, most = behind.get(value, (k, 0))
            behind[value] = max(top, k), max(most, top - k)
        size = max(most for _, most in behind.values())
        watermark = f"WATERMARK FOR ts AS ts - INTERVAL '{slack}' MICROSECONDS"
        columns = f"d VARCHAR, e BIGINT, k BIGINT ORDERED WITHIN {size} PER {per}"
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, {columns}, {watermark})")
        arrived[name], sizes[name] = rows, size
        con.execute(f"CREATE TABLE {name} (ts BIGINT, d VARCHAR, e BIGINT, k BIGINT)")
        con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows)
    sql = "SELECT d, e, k FROM a JOIN b USING (d, e, k) JOIN c USING (d, e, k)"
    query = engine.query(sql)
    with mock.patch.object(ordered_side, "FEW_ROWS", 1):
        for at in range(0, 120, 10):
            for name, rows in arrived.items():
                columns = zip(*rows[at : at + 10], strict=True)
                engine.push(name, dict(zip(("ts", "d", "e", "k"), map(list, columns), strict=True)))
            engine._runtime._check()
            if not slack:
                come = {name: rows[: at + 10] for name, rows in arrived.items()}
                held = [held_of(come, pers, sizes, name) for name in pers]
                assert [len(side) for side in join_of(engine).sides] == held
        engine.close()
    assert sorted(rows_of(query)) == sorted(con.execute(sql).fetchall())
    assert query.accuracy == 1.0


def held_of(
    come: dict[str, list[tuple[int, str, int, int]]], pers: dict[str, str], sizes: dict[str, int], name: str
) -> int:
    """Of rows that have come on one stream, those with keys that another can still have for their value."""

    def floor(other: str, d: str, e: int) -> float:
        own = [k for _, x, y, k in come[other] if y == e and (pers[other] == "e" or x == d)]
        return max(own) - sizes[other] if own else BEFORE

    others = [other for other in pers if other != name]
    return sum(k >= min(floor(other, d, e) for other in others) for _, d, e, k in come[name])


def test_messages_as_sent_and_as_they_arrived(real_data: Path) -> None:
    """39 devices of five sessions, each with numbers of its own."""
    table = pq.read_table(real_data / "ooo_iot_umts.parquet")
    values = ["session", "device", "msg_id"]
    engine, tables, most = Engine(), {}, 0
    for name, column in (("came", "arrival_ts"), ("sent", "send_ts")):
        rows = table.sort_by([(column, "ascending"), ("arrival_seq", "ascending")])
        tables[name] = rows.select(values).append_column("ts", rows[column].cast(pa.timestamp("us", "UTC")))
        keys: dict[tuple[str, str], list[int | None]] = defaultdict(list)
        for session, device, number in zip(*(rows[one].to_pylist() for one in values), strict=True):
            keys[session, device].append(number)
        factor = max(map(nearly_factor_of, keys.values()))
        columns = f"session VARCHAR, device VARCHAR, msg_id BIGINT ORDERED WITHIN {factor} ROWS"
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, {columns} PER (session, device))")
    query = engine.query("SELECT session, device, msg_id FROM sent JOIN came USING (session, device, msg_id)")
    for at in range(0, table.num_rows, 2_000):
        for name, rows in tables.items():
            engine.push(name, rows.slice(at, 2_000))
        most = max(most, join_of(engine).state_rows)
    assert engine.stats()["streams"]["came"]["ordered"][0]["values"] == 39
    engine.close()
    con = duckdb.connect()
    con.register("messages", table)
    joined = "SELECT count(*) FROM messages a JOIN messages b USING (session, device, msg_id)"
    assert con.execute(joined).fetchall() == [(query.count,)] and query.accuracy == 1.0
    assert most < 10_000, "of 93,600 rows"


def nearly_factor_of(keys: list[int | None]) -> int:
    """The factor, if it is no more than 400; an Engine would refuse rows that come further behind."""
    return max(factor_of(keys[at : at + 800]) for at in range(0, len(keys), 400))


def test_a_value_that_is_silent_keeps_its_rows() -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS PER d", "ORDERED WITHIN 0 ROWS PER d"])
    query = query_of(engine, 2)
    push(engine, [Told(Arrival(0, 1, 0, 1), "x"), Told(Arrival(0, 1, 1, 2), "y")])
    push(engine, [Told(Arrival(1, key, key, 3 + key), "x") for key in range(9)])
    assert [len(side) for side in join_of(engine).sides] == [1, 7]
    push(engine, [Told(Arrival(1, 1, 9, 20), "y")])
    assert rows_of(query) == [(0, 1), (1, 9)]


def test_what_breaks_a_declaration_is_refused_with_its_value() -> None:
    engine = engine_of(["ORDERED WITHIN 0 ROWS PER d"])
    with pytest.raises(LateError, match=r"now from `6` on of d `x`\), found `5`, in `a`, row 3"):
        engine.push("a", {"ts": [1, 2, 3], "d": ["x", "y", "x"], "k": [5, 1, 5], "r": [0] * 3})
    engine.push("a", {"ts": [1, 2, 3], "d": ["x", "y", None], "k": [5, 1, 0], "r": [0] * 3})
    assert engine.stats()["streams"]["a"]["ordered"][0]["values"] == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("k BIGINT ORDERED PER", "Expected a column after PER, found `,`"),
        ("k BIGINT ORDERED PER (d", "Expected `,` or `)` after the columns of PER"),
        ("k BIGINT ORDERED PER ()", "Expected a column after PER, found `)`"),
        ("k BIGINT ORDERED PER f", "Expected a column of the stream after PER, found `f`"),
        ("k BIGINT ORDERED PER k", "Expected another column after PER of `k`, found `k`"),
        ("k BIGINT ORDERED PER (d, D)", "Expected another column after PER of `k`, found `D` twice"),
        ("k BIGINT ORDERED PER d IDLE AFTER 1 HOUR", "PER column IDLE AFTER duration is not supported yet"),
    ],
)
def test_what_is_refused_of_a_column(columns: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        Engine().execute(f"CREATE STREAM s (ts TIMESTAMP, {columns}, d VARCHAR)")
    assert message in str(caught.value) and "line 1, column" in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT a.k FROM a JOIN b ON a.k = b.k", "Expected equalities of `a.d` with all streams"),
        ("SELECT b.k FROM b JOIN c USING (k)", "Expected equalities of `b.d` with all streams"),
        (
            "SELECT a.k FROM a JOIN b USING (d, k) JOIN c ON c.k = b.k",
            "Expected equalities of `a.d` with all streams, as `a.k` is ORDERED PER d, found none",
        ),
        ("SELECT a.k FROM a JOIN c ON a.k = c.k AND a.d = c.d || 'x'", None),
        ("SELECT a.k FROM a JOIN b ON a.k = b.k AND a.d = b.d || 'x'", "Expected equalities of `b.d`"),
    ],
)
def test_what_a_join_must_connect(sql: str, message: str | None) -> None:
    engine = engine_of(["ORDERED PER d", "ORDERED WITHIN 3 PER d", "ORDERED"])
    if message is None:
        engine.query(sql)
        return
    with pytest.raises(QueryError) as caught:
        engine.query(sql)
    assert message in str(caught.value) and "line 1, column" in str(caught.value)


def test_outer_joins_know_no_values_yet() -> None:
    engine = engine_of(["ORDERED PER d", "ORDERED"])
    with pytest.raises(
        QueryError, match="ORDERED PER column in a LEFT JOIN without windows is not supported"
    ):
        engine.query("SELECT a.k FROM a LEFT JOIN b USING (d, k)")


def test_groups_know_no_values_yet() -> None:
    engine = engine_of(["ORDERED PER d", "ORDERED"])
    with pytest.raises(
        QueryError, match="GROUP BY `k`, ORDERED PER column, without windows is not supported"
    ):
        engine.query("SELECT k, COUNT(*) AS n FROM a GROUP BY d, k")


def test_first_in_first_out_knows_no_values() -> None:
    engine = engine_of(["ORDERED PER d", "ORDERED PER d"], evict="fifo")
    with pytest.raises(QueryError, match="ORDERED PER column with evict=`fifo` is not supported"):
        query_of(engine, 2)


def test_a_late_query_says_from_when_on_it_is_exact() -> None:
    """When each value has come further on the other side than it had before the query."""
    engine = engine_of(["ORDERED WITHIN 0 ROWS PER d", "ORDERED WITHIN 0 ROWS PER d"])
    push(engine, [Told(Arrival(0, 3, 0, 1), "x"), Told(Arrival(0, 5, 1, 2), "y")])
    query = query_of(engine, 2)
    push(engine, [Told(Arrival(1, 3, 0, 3), "x")])
    assert query.complete_from is not None and query.complete_from.year == 9999
    push(engine, [Told(Arrival(1, 5, 1, 4), "y")])
    assert query.complete_from is not None and query.complete_from.microsecond == 5

"""Splitting by key: the parts' answers together are the whole's, and what cannot be split is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark_help import bag

import penstock
from penstock.connectors.spark.buckets import SPREAD, bucket_names, bucket_of
from penstock.engine.rows.types import SqlType

DECLARED = """
CREATE STREAM a (ts TIMESTAMP, k BIGINT, x BIGINT, name VARCHAR);
CREATE STREAM b (ts TIMESTAMP, k BIGINT, x BIGINT, name VARCHAR);
CREATE STREAM c (ts TIMESTAMP, name VARCHAR, k BIGINT);
CREATE TABLE t (x BIGINT, label VARCHAR);
"""
A, B, C = "a [RANGE 3 SECONDS] AS a", "b [RANGE 2 SECONDS] AS b", "c [RANGE 4 SECONDS] AS c"
SPLIT = {
    "select": ("SELECT x, name FROM a WHERE x > 1", {"a": "k"}),
    "join": (f"SELECT a.x, b.x FROM {A} JOIN {B} ON a.k = b.k", {"a": "k", "b": "k"}),
    "join on two": (
        f"SELECT a.x, b.k FROM {A} JOIN {B} ON a.k = b.k AND a.x = b.x",
        {"a": "k", "b": "k"},
    ),
    "equality in WHERE": (f"SELECT a.x FROM {A}, {B} WHERE b.x = a.k AND a.x < b.k", {"a": "k", "b": "x"}),
    "text": (f"SELECT a.x FROM {A} JOIN {C} ON a.name = c.name", {"a": "name", "c": "name"}),
    "three, by way of the third": (
        f"SELECT a.x, b.x FROM {A}, {B}, {C} WHERE a.k = c.k AND b.k = c.k",
        {"a": "k", "b": "k", "c": "k"},
    ),
    "self-join": (f"SELECT a.x, o.x FROM {A} JOIN a [RANGE 1 SECOND] AS o ON a.k = o.k", {"a": "k"}),
    "left": (f"SELECT a.k, a.x, b.x FROM {A} LEFT JOIN {B} ON a.k = b.k AND b.x > 1", {"a": "k", "b": "k"}),
    "right, grouped": (
        f"SELECT b.k, COUNT(a.x) AS n FROM {A} RIGHT JOIN {B} ON a.k = b.k GROUP BY b.k",
        {"a": "k", "b": "k"},
    ),
    "full, grouped": (
        f"SELECT k, COUNT(*) AS n FROM {A} FULL JOIN {B} USING (k) GROUP BY k",
        {"a": "k", "b": "k"},
    ),
    "anti": (
        f"SELECT a.x, a.k FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE b.k = a.k AND b.x > a.x)",
        {"a": "k", "b": "k"},
    ),
    "grouped": ("SELECT x, k, SUM(x) AS s FROM a [RANGE 3 SECONDS] GROUP BY x, k", {"a": "k"}),
    "grouped by another": ("SELECT name, COUNT(DISTINCT x) AS n FROM a [NOW] GROUP BY name", {"a": "name"}),
    "distinct": ("SELECT DISTINCT x FROM a [NOW]", {"a": "x"}),
    "union": (
        f"SELECT k, name FROM {A} UNION SELECT x, name FROM {B}",
        {"a": "k", "b": "x"},
    ),
    "except all": (f"SELECT k FROM {A} EXCEPT ALL SELECT k FROM {C}", {"a": "k", "c": "k"}),
    "rows": ("SELECT x FROM a [PARTITION BY name ROWS 2] EMIT CHANGES", {"a": "name"}),
    "hop": (
        f"SELECT a.k, COUNT(*) AS n FROM {A} JOIN {B} ON a.k = b.k GROUP BY a.k HOP BY 1 SECOND",
        {"a": "k", "b": "k"},
    ),
    "hop, changes": (
        "SELECT k, MAX(x) AS m FROM a [RANGE 3 SECONDS] GROUP BY k HOP BY 1 SECOND EMIT DELTA",
        {"a": "k"},
    ),
    "table": (
        f"SELECT a.x, b.k, t.label FROM {A} LEFT JOIN t ON a.x = t.x JOIN {B} ON a.k = b.k",
        {"a": "k", "b": "k"},
    ),
    "a sub-query": (
        "SELECT s.n, b.x, b.k "
        f"FROM (SELECT k AS q, COUNT(*) AS n FROM {A} GROUP BY k HAVING COUNT(*) > 1) AS s "
        f"JOIN {B} ON s.q = b.k",
        {"a": "k", "b": "k"},
    ),
}
"""Queries, and the key that is found for each."""
REFUSED = {
    "a join without equality": (
        f"SELECT a.x FROM {A} JOIN {B} ON a.x < b.x",
        "every join to have an equality of the keys",
    ),
    "equality of expressions": (
        f"SELECT a.x FROM {A} JOIN {B} ON a.x = b.x + 1",
        "every join to have an equality of the keys",
    ),
    "an equality that does not hold for rows without a partner": (
        f"SELECT a.x FROM {A} FULL JOIN {B} ON a.x > b.x WHERE a.k = b.k",
        "every join to have an equality of the keys",
    ),
    "an aggregate of all": ("SELECT COUNT(*) AS n FROM a [NOW]", "the key in GROUP BY"),
    "grouped by what is computed": (
        "SELECT COUNT(*) AS n FROM a [NOW] GROUP BY k % 2",
        "the key in GROUP BY",
    ),
    "distinct of what is computed": ("SELECT DISTINCT k + 1 AS q FROM a [NOW]", "the key among the columns"),
    "places that do not fit": (
        f"SELECT b.x FROM {A} JOIN {B} ON a.k = b.k INTERSECT SELECT x FROM a [NOW]",
        "the key among the columns of INTERSECT",
    ),
    "changes that may cancel": (
        f"SELECT b.x FROM {A} LEFT JOIN {B} ON a.k = b.k",
        "the key among the columns of a query whose changes are net",
    ),
    "rows": ("SELECT x FROM a [ROWS 2] EMIT CHANGES", "ROWS windows with PARTITION BY the key"),
    "rows of a table kept": (f"SELECT t.label, a.x FROM t LEFT JOIN {A} ON t.x = a.x", "no table"),
    "a table in a union": (f"SELECT x FROM {A} UNION ALL SELECT x FROM t", "no table in a UNION"),
}
SECOND = 1_000_000
COLUMNS = {"a": ["k", "x", "name"], "b": ["k", "x", "name"], "c": ["name", "k"]}


def key_of(*queries: str, given: dict[str, str] | None = None) -> dict[str, str]:
    engine = penstock.Engine()
    engine.execute(DECLARED)
    for n, sql in enumerate(queries):
        engine.query(sql, f"q{n}")
    return engine.partition_key(given)


def draw(seed: int, columns: list[str], rows: int = 120) -> pa.Table:
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 40, rows)) * (SECOND // 4)
    made = {"ts": pa.array(ts, pa.timestamp("us"))}
    for name in columns:
        values = rng.integers(0, 5, rows)
        array = pa.array([f"n{v}" for v in values]) if name == "name" else pa.array(values)
        made[name] = pa.array(array.to_pylist(), array.type, mask=rng.random(rows) < 0.1)
    return pa.table(made)


def answers(sql: str, streams: dict[str, pa.Table]) -> Counter[Any]:
    engine = penstock.Engine()
    engine.execute(DECLARED)
    query = engine.query(sql, "q")
    engine.push("t", {"x": [1, 2, 2], "label": ["one", "two", "zwei"]})
    for name, table in streams.items():
        engine.push(name, table)
    engine.advance(20 * SECOND)
    return bag(query.results())


@pytest.mark.parametrize("name", SPLIT)
def test_parts_together_are_the_whole(name: str) -> None:
    sql, key = SPLIT[name]
    assert key_of(sql) == key
    streams = {name: draw(ord(name), COLUMNS[name]) for name in key}
    whole = answers(sql, streams)
    assert whole.total() > 20
    places = {}
    for stream, table in streams.items():
        column = table.column(key[stream]).combine_chunks()
        type_ = SqlType.VARCHAR if key[stream] == "name" else SqlType.BIGINT
        places[stream] = bucket_of(column, type_, 3)
    parts: Counter[Any] = Counter()
    for bucket in range(3):
        parts += answers(
            sql, {name: table.filter(pa.array(places[name] == bucket)) for name, table in streams.items()}
        )
    assert parts == whole


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    sql, expected = REFUSED[name]
    with pytest.raises(penstock.UnsupportedError, match=expected) as raised:
        key_of(sql)
    assert "query `q0`" in str(raised.value)
    assert raised.value.line == 1 and raised.value.column


def test_one_key_for_all_queries() -> None:
    """The first equality fits the first query alone; the second fits both."""
    wide = f"SELECT a.x FROM {A} JOIN {B} ON a.x = b.x AND a.k = b.k"
    assert key_of(wide) == {"a": "k", "b": "k"} or key_of(wide) == {"a": "x", "b": "x"}
    by_k = "SELECT k, COUNT(*) AS n FROM b [NOW] GROUP BY k"
    by_x = "SELECT x, COUNT(*) AS n FROM b [NOW] GROUP BY x"
    assert key_of(wide, by_k) == {"a": "k", "b": "k"}
    assert key_of(wide, by_x) == {"a": "x", "b": "x"}
    with pytest.raises(
        penstock.UnsupportedError, match=r"in query `q1`, so that .* `a\.x, b\.x`, found `GROUP BY b\.k`"
    ):
        key_of(wide, by_k, by_x)
    assert key_of(wide, "SELECT name FROM c", by_x)["c"] == "name"  # its own business


def test_the_key_may_be_given() -> None:
    sql = f"SELECT a.x FROM {A} JOIN {B} ON a.x = b.x AND a.k = b.k"
    assert key_of(sql, given={"a": "X", "b": "x"}) == {"a": "x", "b": "x"}
    with pytest.raises(penstock.UnsupportedError, match=r"split by `a\.name, b\.x`"):
        key_of(sql, given={"a": "name", "b": "x"})
    with pytest.raises(penstock.UsageError, match="Expected a column of `a` as its key, found `nam`"):
        key_of(sql, given={"a": "nam"})


@given(st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan"), -float("nan"), None]), min_size=1))
@settings(max_examples=50)
def test_equal_keys_meet(values: list[float | None]) -> None:
    buckets = bucket_of(pa.array(values, pa.float64()), SqlType.DOUBLE, 7)
    alike: dict[str, set[int]] = {}
    for value, bucket in zip(values, buckets, strict=True):
        name = "none" if value is None else "nan" if value != value else str(value + 0.0)
        alike.setdefault(name, set()).add(int(bucket))
    assert all(len(found) == 1 for found in alike.values())


def test_keys_with_a_pattern_spread() -> None:
    """Multiples of the number of buckets, and what lies 2^32 apart."""
    for step in (1, 8, 1 << 32):
        counts = np.bincount(bucket_of(pa.array(np.arange(8000) * step), SqlType.BIGINT, 8), minlength=8)
        assert counts.min() > 800


def test_bucket_names_fit_any_usual_number_of_partitions() -> None:
    names = bucket_names(24)
    assert len(set(names)) == 24
    assert bucket_names(12) == names[:12]
    assert all(SPREAD % partitions == 0 for partitions in (1, 2, 3, 4, 8, 12, 16, 24, 32, 64, 100, 200))


GROWING = "CREATE STREAM {} (ts TIMESTAMP, device BIGINT, n BIGINT ORDERED WITHIN {} ROWS, v BIGINT);"
ON_BOTH = "SELECT a.n, a.v, b.v AS w FROM a JOIN b ON a.n = b.n AND a.device = b.device"


def growing() -> penstock.Engine:
    engine = penstock.Engine()
    engine.execute(GROWING.format("a", 5) + GROWING.format("b", 9))
    return engine


def test_a_join_on_keys_that_grow_is_split_by_a_further_equality() -> None:
    engine = growing()
    engine.query(ON_BOTH)
    assert engine.partition_key() == {"a": "device", "b": "device"}
    for key in ({"a": "n", "b": "n"}, {"a": "n"}):
        with pytest.raises(penstock.UnsupportedError, match=r"a key that is not ORDERED.*, found `n`"):
            engine.partition_key(key)


def test_without_a_further_equality_it_is_refused() -> None:
    engine = growing()
    engine.query("SELECT a.n, a.v, b.v AS w FROM a JOIN b USING (n)")
    with pytest.raises(penstock.UnsupportedError, match=r"a key that is not ORDERED.*, found `n`"):
        engine.partition_key()


def test_with_windows_a_column_that_is_ordered_is_one_like_any_other() -> None:
    engine = growing()
    engine.query("SELECT a.v FROM a [RANGE 1 SECOND] AS a JOIN b [RANGE 1 SECOND] AS b ON a.n = b.n")
    assert engine.partition_key() == {"a": "n", "b": "n"}


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=30)
def test_parts_of_a_join_on_keys_that_grow_give_what_the_whole_gives(seed: int, buckets: int) -> None:
    """Rows are at most so many places late in the whole, and so in each part."""
    rng = np.random.default_rng(seed)
    rows = {}
    for name, late in (("a", 5), ("b", 9)):
        n = np.argsort(np.arange(60) // 2 + rng.uniform(0, late / 4, 60), kind="stable") // 2
        rows[name] = pa.table(
            {"ts": np.arange(60), "device": rng.integers(0, 6, 60), "n": n, "v": rng.integers(0, 9, 60)}
        )

    def run(part: dict[str, pa.Table]) -> Counter[Any]:
        engine = growing()
        query = engine.query(ON_BOTH)
        for at in range(0, 60, 20):
            for name, table in part.items():
                here = table.filter(pa.array((table["ts"].to_numpy() // 20) == at // 20))
                engine.push(name, here)
        engine.close()
        return bag(query.results().drop(["_ts"]))

    parts: Counter[Any] = Counter()
    for bucket in range(buckets):
        parts += run(
            {name: t.filter(pa.array(t["device"].to_numpy() % buckets == bucket)) for name, t in rows.items()}
        )
    assert parts == run(rows)

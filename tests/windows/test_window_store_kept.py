"""Which rows windows over one stream keep, once whatever their kinds, and what of them latecomers find.

That each query answers what it would answer alone is drawn in test_window_store.py.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import rows_of
from test_window_store import changes_of, folded, make, solo
from work_of import plans_of, stores_of

from penstock.query import EPOCH, NEVER


def test_a_hundred_windows_keep_the_rows_of_one() -> None:
    """Whatever their sizes, filters, columns and aggregates: rows once, and of aggregates only groups."""
    rng = np.random.default_rng(7)
    count = 20_000
    rows = {
        "ts": np.arange(count) * 10, "k": rng.integers(0, 8, count), "v": rng.random(count),
        "t": np.array(["text"] * count), "b": rng.random(count) < 0.5,
    }  # fmt: skip
    engine, alone = make(), make()
    longest = "SELECT ts, k, v, t, b FROM s [RANGE 100 MILLISECONDS] EMIT CHANGES"
    alone.query(longest)
    engine.query(longest)
    for i in range(1, 100):
        where = f"v > {i / 200}" if i % 2 else f"k <= {i % 8}"
        what = ["k, v", "t", "k, COUNT(*) AS n, SUM(v) AS x", "k, MAX(v) AS hi", "DISTINCT b"][i % 5]
        group = " GROUP BY k" if "k, COUNT" in what or "MAX" in what else ""
        tail = "" if group or "DISTINCT" in what else " EMIT CHANGES"
        engine.query(f"SELECT {what} FROM s [RANGE {i} MILLISECONDS] WHERE {where}{group}{tail}")
    for one in (engine, alone):
        one.push("s", rows)
    (store,), (single,) = stores_of(engine), stores_of(alone)
    assert store.state_rows == single.state_rows == 10_000
    operators = {id(one): one for part in plans_of(engine._runtime) for one in part.own_operators}
    others = [one.state_rows for one in operators.values() if type(one).__name__ != "Sink"]
    assert sum(others) <= 100 * 8, "aggregates keep rows of their own"
    assert store.state_bytes < 2 * single.state_bytes


def test_windows_of_all_kinds_keep_rows_once() -> None:
    """A row is kept if it is in some window, RANGE or ROWS or of partitions: once, with its columns."""
    rng = np.random.default_rng(7)
    count = 20_000
    keys = np.where(rng.random(count) < 0.02, rng.integers(8, 40, count), rng.integers(0, 8, count))
    rows = {
        "ts": np.arange(count) * 10, "k": keys, "v": rng.random(count),
        "t": np.array([f"text {i}" for i in range(count)]), "b": rng.random(count) < 0.5,
    }  # fmt: skip
    what = ["k, v", "t", "ts, b", "k, t"]
    windows = [
        [f"RANGE {i} MILLISECONDS" for i in range(1, 11)],
        [f"ROWS {100 * i}" for i in range(1, 11)],
        [f"PARTITION BY k ROWS {10 * i}" for i in range(1, 11)],
    ]
    together, apart = make(), [make() for _ in windows]
    for engine, kinds in zip(apart, windows, strict=True):
        for i, window in enumerate(kinds):
            for one in (together, engine):
                one.query(f"SELECT {what[i % 4]} FROM s [{window}] EMIT CHANGES")
    for one in (together, *apart):
        for begin in range(0, count, 6_000):
            one.push("s", {name: values[begin : begin + 6_000] for name, values in rows.items()})
        one.advance(count * 10 - 5)  # the last instant is over
        one._runtime._check()
    (store,) = stores_of(together)
    recent = set(range(count - 1_000, count))  # in RANGE 10 MILLISECONDS, and ROWS 1000
    last = {i for key in set(keys.tolist()) for i in np.flatnonzero(keys == key)[-100:].tolist()}
    assert len(last - recent) > 100 and len(recent - last) > 100
    (group,) = (one for one in together.stats()["groups"] if one["strategy"] == "windows")
    assert [one["state_rows"] for one in group["operators"]] == [len(recent | last)]
    assert len(group["queries"]) == 30
    alone = [next(iter(stores_of(engine))) for engine in apart]
    assert store.state_rows < sum(one.state_rows for one in alone) / 1.5
    assert together.explain().count("rows of s kept once, also for") == 30


def test_rows_that_only_partitions_need() -> None:
    """::

    k = 1   1                        in PARTITION BY k ROWS 1 for ever, in RANGE 3 until 4
    k = 2     2 3 4 5 ... 20         in RANGE 3, the last one in its partition, too
    """
    engine = make()
    engine.query("SELECT v, k FROM s [PARTITION BY k ROWS 1] EMIT CHANGES")
    engine.query("SELECT k FROM s [RANGE 3 us] WHERE v > 0 EMIT CHANGES")
    (store,) = stores_of(engine)
    for ts in range(1, 21):
        engine.push("s", {"ts": [ts], "k": [1 + (ts > 1)], "v": [1.0], "t": ["x"], "b": [True]})
        engine._runtime._check()
        assert store.state_rows == (ts if ts < 4 else 4), "the row at 1, and three"
    wide = engine.query("SELECT v FROM s [RANGE 30 us] EMIT CHANGES")
    assert wide.complete_from - EPOCH == pa.scalar(48, pa.duration("us")).as_py(), "from 18 on all is there"
    assert rows_of(wide.results()) == [(20, 1, 1.0)] * 4, "what is there is given at once: 1, 18, 19, 20"
    engine.push("s", {"ts": [21], "k": [1], "v": [0.0], "t": ["x"], "b": [True]})
    assert store.state_rows == 5, "for the wide window those at 1, 18, 19, 20, 21"
    wide.drop()
    engine.advance(24)
    assert store.state_rows == 2, "the last one of each partition"


@pytest.mark.parametrize("where", ["k <= 2", "k <= 1", "k > 2", "k % 2 = 1", "k % 2 = 1 AND v < 3"])
def test_rows_that_were_apart_are_told_apart(where: str) -> None:
    """Each v comes once: all rows are in PARTITION BY v ROWS 1, most of them only there; who comes late
    asks for rows by conditions that others had, or new ones."""
    engine = make()
    engine.query("SELECT v, k FROM s [PARTITION BY v ROWS 1] EMIT CHANGES")
    for before in ("k <= 2", "k % 2 = 1"):
        engine.query(f"SELECT k FROM s [RANGE 3 us] WHERE {before} EMIT CHANGES")
    sql = f"SELECT k, v FROM s [RANGE 18 us] WHERE {where} EMIT CHANGES"
    alone = solo(sql, pa.table({}), None)

    def push(first: int, last: int) -> None:
        for ts in range(first, last):
            for one in (engine, alone):
                one.push("s", {"ts": [ts], "k": [ts % 5], "v": [ts / 4], "t": ["x"], "b": [True]})

    push(1, 21)
    (store,) = stores_of(engine)
    assert len(store._kept.apart) == 18
    late = engine.query(sql)
    held = folded(changes_of(alone.queries["alone"]), 20)
    push(21, 60)
    assert late.complete_from - EPOCH == pa.scalar(20, pa.duration("us")).as_py()
    found = changes_of(late)
    assert held and folded(found, 20) == held
    assert {key: n for key, n in found.items() if key[0] > 20} == changes_of(alone.queries["alone"])


def test_rows_go_as_soon_as_no_window_needs_them() -> None:
    """::

    k = 1      |==========|          in RANGE 10
    k = 2      |===|                 in RANGE 3 alone
    others                           never kept
    """
    engine = make()
    engine.query("SELECT v FROM s [RANGE 10 us] WHERE k = 1 EMIT CHANGES")
    engine.query("SELECT COUNT(*) AS n FROM s [RANGE 3 us] WHERE k <= 2")
    (store,) = stores_of(engine)

    def push(ts: int, *keys: int) -> int:
        columns = {"v": [0.0] * len(keys), "t": ["x"] * len(keys), "b": [True] * len(keys)}
        engine.push("s", {"ts": [ts] * len(keys), "k": list(keys), **columns})
        return store.state_rows

    assert push(1, 1, 2, 3) == 2
    assert push(3, 2, 7) == 3
    assert push(4, 9) == 2, "k = 2 at 1 has left"
    assert push(6, 9) == 1
    engine.advance(11)
    assert store.state_rows == 0


def test_who_comes_late_is_given_what_others_have_kept() -> None:
    engine = make()
    engine.query("SELECT k, v FROM s [RANGE 10 us] WHERE k > 0 EMIT CHANGES")
    for ts in range(1, 21):
        engine.push("s", {"ts": [ts], "k": [ts % 3], "v": [ts / 4], "t": ["x"], "b": [True]})

    def since(sql: str) -> int | None:
        found = engine.query(sql).complete_from
        return None if found is None else round((found - EPOCH).total_seconds() * 1e6)

    assert since("SELECT k, MAX(v) AS hi FROM s [RANGE 4 us] WHERE k > 1 GROUP BY k") == 20
    assert since("SELECT v FROM s [RANGE 12 us] WHERE k = 2 EMIT CHANGES") == 22, "those of 9 and 10 are gone"
    assert since("SELECT v FROM s [RANGE 5 us] EMIT CHANGES") == 24, "k = 0 was never kept, last before 19"
    assert since("SELECT t FROM s [RANGE 5 us] WHERE k > 1 EMIT CHANGES") == 25, "nobody had kept t"


def test_who_comes_late_finds_what_windows_of_other_kinds_have_kept() -> None:
    """Of twenty rows, one a microsecond, k = 0, 1, 2, 0, ...: the last nine are there in each case."""

    def since(kept: str, asked: str, columns: str = "k, v") -> int | None:
        engine = make()
        engine.query(f"SELECT k, v FROM s [{kept}] EMIT CHANGES")
        for ts in range(1, 21):
            engine.push("s", {"ts": [ts], "k": [ts % 3], "v": [ts / 4], "t": ["x"], "b": [True]})
        late = engine.query(f"SELECT {columns} FROM s [{asked}] EMIT CHANGES")
        engine.advance(21)
        found = late.complete_from
        return None if found == NEVER else round((found - EPOCH).total_seconds() * 1e6)

    for kept in ("RANGE 9 us", "ROWS 9", "PARTITION BY k ROWS 3"):
        assert since(kept, "RANGE 8 us") == 20
        assert since(kept, "ROWS 8") == 20
        assert since(kept, "ROWS 9") == 20, "all that are there, and no more"
        assert since(kept, "RANGE 15 us") == 26, "those at 10 and before are gone"
        assert since(kept, "ROWS 15") is None
        assert since(kept, "RANGE 8 us", "t") == 28, "nobody had kept t"
        assert since(kept, "PARTITION BY b ROWS 2", "k, b") is None
    assert since("PARTITION BY k ROWS 3", "PARTITION BY k ROWS 2") == 20
    assert since("RANGE 9 us", "PARTITION BY k ROWS 2") is None, "a key may not have come since"
    for kept in ("RANGE 90 us", "ROWS 90", "PARTITION BY v ROWS 1"):
        for asked_ in ("RANGE 40 us", "ROWS 40", "PARTITION BY k ROWS 40"):
            assert since(kept, asked_) == 20, "all rows are there"


def test_who_comes_late_is_without_rows_on_which_it_fails() -> None:
    """Whoever had asked from the start would have ended at 2, and nobody has the answer."""
    engine = make()
    engine.query("SELECT k, v FROM s [RANGE 20 us] EMIT CHANGES")
    for ts in range(1, 5):
        engine.push("s", {"ts": [ts], "k": [ts % 2], "v": [ts / 4], "t": ["x"], "b": [True]})
    late = engine.query("SELECT v FROM s [RANGE 10 us] WHERE 6 % k = 0 EMIT CHANGES")
    assert late.complete_from - EPOCH == pa.scalar(14, pa.duration("us")).as_py()
    assert engine.query("SELECT v FROM s [RANGE 10 us] EMIT CHANGES").complete_from.microsecond == 4


@pytest.mark.parametrize("window", ["ROWS 2", "PARTITION BY k ROWS 2", "PARTITION BY b ROWS 2"])
def test_who_begins_in_an_instant_lacks_what_nobody_kept_of_it(window: str) -> None:
    """Of three rows at 5, the first came before it, and only those with k = 0 were kept."""
    engine = make()
    engine.query("SELECT k FROM s [RANGE 50 us] WHERE k = 0 EMIT CHANGES")

    def push(*keys: int) -> None:
        count = len(keys)
        columns = {"v": [0.0] * count, "t": ["x"] * count, "b": [True] * count}
        engine.push("s", {"ts": [5] * count, "k": list(keys), **columns})

    push(0, 7)
    late = engine.query(f"SELECT k, b FROM s [{window}] EMIT CHANGES")
    push(8, 9)
    engine.advance(6)
    engine._runtime._check()
    assert sorted(rows_of(late.results())) == [(5, 1, 8, True), (5, 1, 9, True)]


def test_late_rows_windows_lack_what_was_not_kept() -> None:
    """A ROWS window that comes later has the last rows if it asks for nothing new, else it waits."""
    engine = make()
    engine.query("SELECT k, v FROM s [ROWS 4] EMIT CHANGES")
    for ts in range(1, 9):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [ts / 4], "t": [f"t{ts}"], "b": [True]})
    fewer = engine.query("SELECT MAX(k) AS k FROM s [ROWS 3]")
    more = engine.query("SELECT k FROM s [ROWS 6] EMIT CHANGES")
    texts = engine.query("SELECT t FROM s [ROWS 2] EMIT CHANGES")
    for ts in range(9, 13):
        engine.push("s", {"ts": [ts], "k": [ts], "v": [ts / 4], "t": [f"t{ts}"], "b": [True]})
    engine.advance(13)
    since = [one.complete_from for one in (fewer, more, texts)]
    assert [one.microsecond for one in since] == [8, 9, 10]
    given = Counter(row[2] for row in rows_of(texts.results()))
    assert set(given) == {"t9", "t10", "t11", "t12"}, "no text that was not kept"
    assert rows_of(fewer.results())[-1][1:] == (1, 12)
    held: Counter[Any] = Counter()
    for _, diff, k in rows_of(more.results()):
        held[k] += diff
    assert sorted(+held) == [7, 8, 9, 10, 11, 12]

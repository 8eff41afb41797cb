"""Modes of hopping operators: names, what may be forced, EXPLAIN, other types than numbers, what is kept."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from oracle import database, rows_of

import penstock

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MODES = ["DIDO", "DICO", "CICO", "CIDO"]
DECLARE = (
    "CREATE STREAM a (ts TIMESTAMP, k VARCHAR, n BIGINT, f BOOLEAN);"
    "CREATE STREAM b (ts TIMESTAMP, k VARCHAR, n BIGINT, f BOOLEAN);"
)
TWICE = (
    "SELECT DISTINCT a.n FROM a [RANGE 10 us] JOIN b [RANGE 10 us] ON a.k = b.k "
    "WHERE EXISTS (SELECT * FROM b [RANGE 5 us] AS c WHERE c.n = a.n) HOP BY 5 us"
)


def make(modes: str = "auto", **more: Any) -> penstock.Engine:
    engine = penstock.Engine(modes=modes, **more)
    engine.execute(DECLARE)
    return engine


def modes_of(engine: penstock.Engine) -> dict[str, str]:
    found: dict[str, str] = {}

    def visit(node: dict[str, Any]) -> None:
        if "mode" in node:
            found[node["operator"]] = node["mode"]
        for part in (*node.get("inputs", []), *([node["plan"]] if "plan" in node else [])):
            visit(part)

    for query in json.loads(engine.explain(json=True))["queries"]:
        visit(query)
    return found


def test_forced_modes_by_name() -> None:
    engine = make()
    engine.query(TWICE, modes={"distinct 1": "CIDO", "join 1": "DICO"})
    found = modes_of(engine)
    assert (found["distinct 1"], found["join 1"]) == ("CICO", "DICO")
    assert found["join 2"] in ("DIDO", "CIDO"), "it is free to read what is cheaper, and writes changes"
    text = engine.explain()
    assert "join 1 DICO: changes in, whole answers out" in text and "scan 3 DIDO" in text


@pytest.mark.parametrize(("mode", "top", "below"), [
    ("DIDO", "DICO", "DIDO"), ("DICO", "DICO", "DIDO"), ("CICO", "CICO", "CICO"), ("CIDO", "CICO", "CICO"),
])  # fmt: skip
def test_one_mode_for_all(mode: str, top: str, below: str) -> None:
    """The topmost operator writes what the query emits, those below write what is read above them."""
    engine = make(mode)
    engine.query(TWICE)
    found = modes_of(engine)
    assert (found["distinct 1"], found["join 1"], found["join 2"]) == (top, below, below)


@pytest.mark.parametrize(("modes", "message"), [
    ({"distinct 1": "CICO", "join 1": "DIDO"}, "`join 1` to write what `distinct 1` reads, found `DIDO`"),
    ({"join 7": "CICO"}, "Expected modes of `distinct 1`, `join 1`, .*found one of `join 7`. Did you mean"),
    ({"join 1": "CACO"}, "Expected a mode to be one of DIDO, DICO, CICO, CIDO, found `CACO`"),
    ({"scan 1": "DIDO", "scan 2": "DICO"}, "all below `join 2` to write the same"),
    (7, "Expected modes as text or by the names of operators, found `7`"),
    ("CACO", "Expected modes to be one of auto, DIDO, DICO, CICO, CIDO, found `CACO`"),
])  # fmt: skip
def test_refused_modes(modes: Any, message: str) -> None:
    with pytest.raises(penstock.UsageError, match=message):
        make().query(TWICE, modes=modes)


def test_modes_without_hops_are_refused() -> None:
    with pytest.raises(penstock.UsageError, match="with a query that has HOP BY, found one without"):
        make().query(TWICE.partition(" HOP BY")[0], modes="CICO")


def test_refused_execution() -> None:
    with pytest.raises(penstock.UsageError, match="Expected execution to be one of waat, taat, found `tat`"):
        make().query(TWICE, execution="tat")


A = [
    (1, "x", 1, True),
    (3, None, 2, None),
    (5, "y", 3, False),
    (10, "x", 4, True),
    (11, "", 5, None),
    (22, "y", 1, True),
]
B = [(2, "x", 1, True), (5, "", 7, None), (10, None, 3, False), (15, "yy", 3, True), (21, "y", 5, True)]
QUERIES = [
    "SELECT a.k, b.n FROM {a} JOIN {b} ON a.k = b.k AND a.f = b.f",
    "SELECT a.k, b.n, b.k FROM {a} FULL JOIN {b} ON a.k = b.k AND a.n < b.n",
    "SELECT a.k, b.k FROM {a} LEFT JOIN {b} ON a.n > b.n",
    "SELECT a.k, a.f FROM {a} WHERE NOT EXISTS (SELECT * FROM {b} WHERE a.k = b.k AND a.n <> b.n)",
    "SELECT f, MIN(k), MAX(k), COUNT(DISTINCT k), SUM(n), COUNT(*) FROM {a} GROUP BY f",
    "SELECT MIN(k), COUNT(DISTINCT f), AVG(n) FROM {b}",
    "SELECT k, f FROM {a} EXCEPT ALL SELECT k, f FROM {b}",
    "SELECT k, NULL AS nothing FROM {a} UNION SELECT k, NULL FROM {b}",
    "SELECT k, n FROM {a} UNION ALL SELECT k, n FROM {b}",
]  # fmt: skip


@pytest.mark.parametrize(
    ("size", "hop"), [(10, 5), (5, 5), (2, 7), (30, 4)], ids=["", "tumbling", "gaps", "long"]
)
@pytest.mark.parametrize("sql", QUERIES)
def test_every_type_oracle(sql: str, size: int, hop: int) -> None:
    """A row at 5 or 10 belongs to the hop at that very time, one of a window of 5 at 5 not to the next."""
    names = ["ts", "k", "n", "f"]
    types = [pa.int64(), pa.string(), pa.int64(), pa.bool_()]
    tables = {
        name: pa.table([pa.array(c, t) for c, t in zip(zip(*rows, strict=True), types, strict=True)], names)
        for name, rows in (("a", A), ("b", B))
    }
    window = {name: f"{name} [RANGE {size} us]" for name in "ab"}
    found = []
    for modes in MODES:
        engine = make(modes)
        query = engine.query(f"{sql.format(**window)} HOP BY {hop} us")
        for name, table in tables.items():
            engine.push(name, table)
        engine.advance(40)
        engine.close()
        rows: dict[int, list[Any]] = {}
        for row in rows_of(query.results()):
            rows.setdefault(row[0], []).append(row[1:])
        found.append(rows)
    for boundary in range(-(-1 // hop) * hop, 41, hop):
        with database().cursor() as connection:
            for name, table in tables.items():
                connection.register(f"{name}_all", table)
                alive = f"ts <= {boundary} AND ts > {boundary - size}"
                connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {name}_all WHERE {alive}")
            wanted = connection.execute(sql.format(a="a", b="b")).fetchall()
        for modes, rows in zip(MODES, found, strict=True):
            given = rows.pop(boundary, [])
            assert sorted(map(repr, given)) == sorted(map(repr, wanted)), f"{modes} at {boundary}"
    assert not any(found)


@pytest.mark.parametrize("modes", MODES)
def test_state_is_dropped(modes: str) -> None:
    """Ever new keys: when all windows are empty nothing is kept of any, also not of the keys."""
    engine = make(modes)
    engine.query("SELECT a.k FROM a [RANGE 10 us] JOIN b [RANGE 10 us] ON a.k = b.k HOP BY 5 us", name="join")
    engine.query(
        "SELECT k FROM a [RANGE 10 us] EXCEPT SELECT k FROM b [RANGE 10 us] HOP BY 5 us", name="except"
    )
    bytes_ = []
    for start in range(0, 200_000, 10_000):
        keys = [str(i) for i in range(start, start + 10_000)]
        ts = [i // 1000 for i in range(start, start + 10_000)]
        for stream in "ab":
            engine.push(stream, {"ts": ts, "k": keys, "n": [1] * 10_000, "f": [True] * 10_000})
        operators = [one for q in engine.stats()["queries"].values() for one in q["operators"]]
        operators += [one for group in engine.stats()["groups"] for one in group["operators"]]
        bytes_.append(sum(one["state_bytes"] for one in operators if one["kind"] != "Sink"))
    assert max(bytes_[10:]) < 1.5 * max(bytes_[:10])
    engine.advance(1_000)
    engine._runtime._check()
    operators = [one for q in engine.stats()["queries"].values() for one in q["operators"]]
    operators += [one for group in engine.stats()["groups"] for one in group["operators"]]
    kept = {one["kind"]: one["state_rows"] for one in operators if one["state_rows"]}
    assert not {kind for kind in kept if kind not in ("Sink", "WholeJoin", "WholeTally", "WindowJoin")}
    engine.close()


def test_a_large_answer_comes_in_bounded_batches() -> None:
    engine = make("CICO")
    query = engine.query("SELECT a.n FROM a [RANGE 10 us] CROSS JOIN b [RANGE 10 us] HOP BY 5 us")
    sizes: list[int] = []
    query.subscribe(lambda rows: sizes.append(rows.num_rows))
    for stream in "ab":
        engine.push(stream, {"ts": [1] * 400, "k": ["x"] * 400, "n": [1] * 400, "f": [True] * 400})
    engine.advance(6)
    assert sum(sizes) == 160_000 and max(sizes) <= 32_768
    engine.close()


def test_a_failing_condition_stops_after_the_hops_before() -> None:
    """At 10 the residual divides by zero; what was said at 5 stays said."""
    for modes in ("DICO", "CICO"):
        engine = make(modes)
        sql = "SELECT a.n FROM a [RANGE 5 us] JOIN b [RANGE 5 us] ON a.k = b.k AND a.n // b.n > 0 HOP BY 5 us"
        query = engine.query(sql)
        row = {"k": ["x", "x"], "f": [True, True]}
        engine.push("a", {"ts": [1, 7], "n": [4, 4], **row})
        engine.push("b", {"ts": [2, 8], "n": [2, 0], **row})
        with pytest.raises(penstock.StoppedError, match="zero"):
            engine.advance(20)
        assert rows_of(query.results()) == [(5, 4)]
        with pytest.raises(penstock.StoppedError, match="zero"):
            query.results()


def test_a_query_that_starts_late_is_the_same_in_every_mode() -> None:
    found = []
    for modes in MODES:
        engine = make(modes)
        for stream in "ab":
            engine.push(stream, {"ts": [1, 5], "k": ["x", "y"], "n": [1, 2], "f": [True, None]})
        query = engine.query(
            "SELECT k FROM a [RANGE 10 us] UNION ALL SELECT k FROM b [RANGE 10 us] HOP BY 5 us"
        )
        total = engine.query("SELECT COUNT(*) FROM a [ROWS 2] HOP BY 5 us")
        for stream in "ab":
            engine.push(stream, {"ts": [5, 11], "k": ["u", "v"], "n": [1, 2], "f": [True, None]})
        engine.advance(30)
        found.append((sorted(rows_of(query.results())), rows_of(total.results()), query.complete_from))
        engine.close()
    assert all(one == found[0] for one in found) and found[0][0]


SILENT = [
    "SELECT COUNT(*) AS n, MAX(n) AS m FROM a [RANGE 12 us] HOP BY 5 us EMIT DELTA",
    "SELECT COUNT(*) + 1 AS n FROM a [RANGE 12 us] HOP BY 5 us EMIT DELTA",
    "SELECT COUNT(*) AS n FROM a [RANGE 12 us] JOIN b [RANGE 3 us] ON a.k = b.k HOP BY 5 us EMIT DELTA",
    "SELECT t.k FROM t WHERE NOT EXISTS (SELECT 1 FROM a [RANGE 12 us] WHERE a.k = t.k) "
    "HOP BY 5 us EMIT DELTA",
]
STANDING = [
    "SELECT COUNT(*) AS n, MAX(ts) AS m FROM a [ROWS 2] HOP BY 5 us EMIT DELTA",
    "SELECT DISTINCT ts FROM a [PARTITION BY k ROWS 1] HOP BY 5 us EMIT DELTA",
    "SELECT COUNT(*) AS n FROM a [RANGE UNBOUNDED] HOP BY 5 us EMIT DELTA",
    "SELECT a.ts, b.ts FROM a [ROWS 1] JOIN b [ROWS 1] ON a.k = b.k HOP BY 5 us EMIT DELTA",
    "SELECT a.ts, b.ts FROM a [ROWS 1] LEFT JOIN b [RANGE 12 us] ON a.k = b.k HOP BY 5 us EMIT DELTA",
    "SELECT ts FROM a [ROWS 1] EXCEPT SELECT ts FROM b [RANGE 12 us] HOP BY 5 us EMIT DELTA",
    "SELECT a.ts FROM a [ROWS 1] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 12 us] WHERE a.k = b.k) "
    "HOP BY 5 us EMIT DELTA",
]
"""Windows that hold rows long after the last has come."""


def rows_at(*times: int) -> dict[str, Any]:
    return {"ts": list(times), "k": ["x"] * len(times), "n": [1] * len(times), "f": [True] * len(times)}


@pytest.mark.parametrize("sql", SILENT + STANDING)
def test_a_silence_without_changes_costs_no_hops(sql: str) -> None:
    """A million boundaries, at each of which there is an answer, the same one.

    a     x at 3     x at 5,000,003            window 12, hop 5
    hops    5  10  15                          15: it has left
    """
    found = []
    for modes in MODES:
        engine = make(modes)
        engine.execute("CREATE TABLE t (k VARCHAR)")
        engine.push("t", {"k": ["x", "y"]})
        query = engine.query(sql)
        for stream in "ab":
            engine.push(stream, rows_at(3))
        for stream in "ab":
            engine.push(stream, rows_at(5_000_003))
        engine.advance(10_000_000)
        operators = engine.stats()["queries"][query.name]["operators"]
        operators += [one for group in engine.stats()["groups"] for one in group["operators"]]
        assert max(one["rows_out"] for one in operators) < 50, "every hop was worked"
        found.append(sorted(map(repr, rows_of(query.results()))))
        engine._runtime._check()
        engine.close()
    assert all(one == found[0] for one in found) and len(found[0]) >= (4 if sql in SILENT else 3)


@pytest.mark.parametrize("sql", STANDING[3:])
@pytest.mark.parametrize("below", ["DICO", "CICO"])
def test_a_silence_costs_no_hops_whatever_is_below(sql: str, below: str) -> None:
    """Above it whole answers are compared; EMIT COMPLETE has its answer at each of the boundaries."""
    sql = f"SELECT DISTINCT * FROM ({sql.partition(' HOP BY')[0]}) AS u HOP BY 5 us"
    sql = sql.replace("b.ts FROM", "b.ts AS t FROM")
    engine = make(optimize="none")
    plain = engine.query(f"{sql} EMIT DELTA", modes="DIDO")
    name = next(name for name in modes_of(engine) if name in ("join 1", "except 1"))
    query = engine.query(f"{sql} EMIT DELTA", modes={"distinct 1": "CIDO", name: below})
    whole = engine.query(sql, modes={"distinct 1": "CICO", name: below})
    for stream in "ab":
        engine.push(stream, rows_at(3))
    engine.advance(500)
    assert {row[0] for row in rows_of(whole.results())} >= set(range(15, 500, 5))
    whole.drop()
    for stream in "ab":
        engine.push(stream, rows_at(5_000_003))
    engine.advance(10_000_000)
    operators = engine.stats()["queries"][query.name]["operators"]
    assert max(one["rows_out"] for one in operators) < 50, "every hop was worked"
    assert sorted(map(repr, rows_of(query.results()))) == sorted(map(repr, rows_of(plain.results())))
    engine._runtime._check()
    engine.close()


def test_a_stream_that_is_ahead_skips_nothing_of_the_other() -> None:
    """Rows of b come after a has gone far ahead: each has its hops."""
    found = []
    for modes in MODES:
        engine = make(modes)
        sql = "SELECT COUNT(*) AS n FROM (SELECT k FROM a UNION ALL SELECT k FROM b) AS u WINDOW 7 us"
        query = engine.query(f"{sql} HOP BY 5 us EMIT DELTA")
        engine.push("a", rows_at(3, 900))
        for ts in (4, 38, 120, 897):
            engine.push("b", rows_at(ts))
        engine.advance(1_000)
        found.append(rows_of(query.results()))
        engine.close()
    assert all(sorted(one) == sorted(found[0]) for one in found)
    assert [row[0] for row in found[0]] == [
        5, 10, 10, 15, 15, 40, 40, 45, 45, 120, 120, 130, 130, 900, 900, 905, 905, 910, 910,
    ]  # fmt: skip


@pytest.mark.parametrize("sql", SILENT[:3])
def test_a_query_that_starts_in_a_silence_has_its_answer_at_the_next_hop(sql: str) -> None:
    """Also if another one runs that says nothing until rows come."""
    found = []
    for modes in MODES:
        engine = make(modes)
        first = engine.query(SILENT[0])
        for stream in "ab":
            engine.push(stream, rows_at(3))
        engine.advance(500)
        second = engine.query(sql)
        since = second.complete_from
        assert since is not None and since <= EPOCH + datetime.timedelta(microseconds=512), modes
        engine.advance(600)
        (said,) = rows_of(second.results())
        assert said[0] in (500, 505), "the first answer is not at the next hop"
        for stream in "ab":
            engine.push(stream, rows_at(703))
        engine.advance(800)
        rows = [sorted(map(repr, rows_of(query.results()))) for query in (first, second)]
        found.append((said[1:], *rows))
        engine.close()
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("modes", MODES)
def test_what_a_late_query_begins_with_cannot_leave_at_the_same_hop(modes: str) -> None:
    """Another one like it is at work: it is told what is in the answer, of which a row leaves at once.

    a      3: x    8: y            window 12, hop 5
    hops     5   10   15           at 15 x has left; the second query starts at 12
    """
    engine = make(modes)
    sql = "SELECT DISTINCT n FROM a [RANGE 12 us] HOP BY 5 us EMIT DELTA"
    engine.query(sql)
    engine.push("a", {"ts": [3, 8, 12], "k": ["x", "y", "z"], "n": [1, 2, 3], "f": [True] * 3})
    late = engine.query(sql)
    engine.advance(16)
    rows = rows_of(late.results())
    assert sorted(rows) == [(15, 1, 2), (15, 1, 3)]
    engine.close()


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("emit", ["DELTA", "COMPLETE"])
def test_a_late_query_has_no_answer_before_the_first_row(modes: str, emit: str) -> None:
    """Time goes on, another one like it is at work, but no row of its stream has come."""
    engine = make(modes)
    engine.execute("CREATE TABLE t (k VARCHAR)")
    engine.push("t", {"k": ["x", "y"]})
    sql = SILENT[3].replace("DELTA", emit)
    first = engine.query(sql)
    engine.push("b", rows_at(5))
    engine.advance(25)
    late = engine.query(sql)
    engine.advance(60)
    assert rows_of(late.results()) == [] == rows_of(first.results())
    engine.push("a", rows_at(72))
    engine.advance(76)
    assert [(row[0], row[-1]) for row in rows_of(late.results())] == [(75, "y")]
    engine.advance(86)
    assert "x" in [row[-1] for row in rows_of(late.results())]
    assert [row[0] for row in rows_of(first.results())][:2] == [75, 85 if emit == "DELTA" else 80]
    engine.close()


@pytest.mark.parametrize("modes", MODES)
def test_a_late_query_is_exact_from_when_it_says(modes: str) -> None:
    """The window is kept by another; at 10, of which rows may still come, whoever comes now has no tick."""
    engine = make(modes)
    engine.query("SELECT k FROM a [RANGE 12 us] HOP BY 5 us")
    engine.push("a", rows_at(3, 8, 10))
    late = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 12 us] HOP BY 5 us EMIT DELTA")
    since = late.complete_from
    assert since is not None and since > EPOCH + datetime.timedelta(microseconds=10)
    engine.advance(41)
    answer = 0
    counts = {row[0]: row[2] for row in rows_of(late.results()) if row[1] > 0}
    for boundary, wanted in ((10, 3), (15, 2), (20, 1), (25, 0), (30, 0)):
        answer = counts.get(boundary, answer)
        if EPOCH + datetime.timedelta(microseconds=boundary) >= since:
            assert answer == wanted, boundary
    engine.close()


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("hop", [1, 5, 60])
def test_a_row_is_kept_once_however_many_hops_it_is_part_of(modes: str, hop: int) -> None:
    """A window of 60 rows: up to a hop more of them are kept, and not each for every hop."""
    engine = penstock.Engine(modes=modes)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT)")
    emit = "DELTA" if modes.endswith("DO") else "COMPLETE"
    sql = f"SELECT DISTINCT k FROM s [RANGE 60 us] HOP BY {hop} us EMIT {emit}"
    query = engine.query(sql, count_only=True)
    engine.push("s", {"ts": list(range(600)), "k": list(range(600))})
    kept = [one["state_rows"] for one in engine.stats()["queries"][query.name]["operators"]]
    assert 60 <= max(kept) <= 2 * 60


@pytest.mark.parametrize("modes", ["auto", *MODES])
def test_a_late_total_is_exact_from_when_it_says(modes: str) -> None:
    """Another one like it is at work; a stream has come to 0, of which rows may still come."""
    engine = make(modes)
    sql = (
        "SELECT COUNT(*) AS n FROM (SELECT p.k FROM a [RANGE 1 us] AS p "
        "WHERE EXISTS (SELECT * FROM b [RANGE 1 us] AS q WHERE p.k = q.k)) AS u HOP BY 1 us EMIT DELTA"
    )
    engine.query(sql)
    engine.push("b", rows_at(0))
    late = engine.query(sql)
    engine.advance(13)
    ((said, *row),) = rows_of(late.results())
    assert row == [1, 0]
    since = late.complete_from
    assert since is not None and EPOCH + datetime.timedelta(microseconds=said) <= since
    engine.close()

"""ORDERED in CREATE STREAM, and which joins need no window by it."""

from __future__ import annotations

import pytest

from penstock import Engine, QueryError

STREAMS = """
    CREATE STREAM a (ts TIMESTAMP, k BIGINT ORDERED, d DOUBLE ORDERED, j BIGINT);
    CREATE STREAM b (ts TIMESTAMP, k BIGINT ORDERED WITHIN 5, d DOUBLE ORDERED WITHIN 0.5, j BIGINT);
    CREATE STREAM c (ts TIMESTAMP ORDERED WITHIN 5 SECONDS, k BIGINT ORDERED WITHIN 500 ROWS, j BIGINT);
    CREATE STREAM p (ts TIMESTAMP, k BIGINT);
    CREATE TABLE t (k BIGINT, name VARCHAR);
"""
ORDERED = "Streams joined on columns that are declared ORDERED need no windows"


def engine() -> Engine:
    made = Engine()
    made.execute(STREAMS)
    return made


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            "x BOOLEAN ORDERED",
            "TIMESTAMP or DOUBLE before ORDERED, found BOOLEAN in column `x`",
        ),
        (
            "x VARCHAR ORDERED",
            "TIMESTAMP or DOUBLE before ORDERED, found VARCHAR in column `x`",
        ),
        ("x BIGINT ORDERED WITHIN -1", "Expected 0 or more after WITHIN, found `-1`"),
        ("x BIGINT ORDERED WITHIN -1 ROWS", "from 0 on and below 2^31 after WITHIN, found `-1`"),
        ("x BIGINT ORDERED WITHIN 2147483648 ROWS", "below 2^31 after WITHIN, found `2147483648`"),
        ("x BIGINT ORDERED WITHIN 1.5 ROWS", "below 2^31 after WITHIN, found `1.5`"),
        (
            "x BIGINT ORDERED WITHIN 1.5",
            "a whole number from 0 on and below 2^62 after WITHIN, found",
        ),
        ("x DOUBLE ORDERED WITHIN 1e30", "Expected a number from 0 on and below 2^62 after WITHIN"),
        (
            "x BIGINT ORDERED WITHIN 5 SECONDS",
            "`n ROWS` after WITHIN of BIGINT, found a duration",
        ),
        (
            "x TIMESTAMP ORDERED WITHIN 5",
            "or `n ROWS` after WITHIN of TIMESTAMP, found `5`",
        ),
        ("x TIMESTAMP ORDERED WITHIN -5 SECONDS", "Expected a duration of 0 or more, found `-5 SECONDS`"),
        ("x BIGINT ORDERED WITHIN", "Expected `n ROWS`, a number or a duration after WITHIN, found `,`"),
    ],
)
def test_what_is_refused_of_a_column(column: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        Engine().execute(f"CREATE STREAM s (ts TIMESTAMP, {column}, y VARCHAR)")
    assert message in str(caught.value) and "line 1, column" in str(caught.value)


def test_a_table_is_not_ordered() -> None:
    with pytest.raises(QueryError, match="Expected a column of a table, found ORDERED"):
        Engine().execute("CREATE TABLE t (k BIGINT ORDERED)")


def test_the_new_words_are_names_too() -> None:
    made = Engine()
    columns = "ts TIMESTAMP, within BIGINT ORDERED WITHIN 3 ROWS, rows BIGINT, ordered BIGINT"
    made.execute(f"CREATE STREAM ordered ({columns})")
    query = made.query(
        "SELECT within AS ordered, rows, ordered AS within FROM ordered AS within WHERE rows > 0"
    )
    made.push("ordered", {"ts": [1], "within": [2], "rows": [3], "ordered": [4]})
    assert query.results().to_pylist()[0].items() >= {"ordered": 2, "rows": 3, "within": 4}.items()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k FROM a JOIN b USING (k)",
        "SELECT * FROM a JOIN b USING (k) JOIN c USING (k)",
        "SELECT a.k FROM a, b WHERE a.k = b.k AND a.k = 5",
        "SELECT a.k FROM a JOIN b ON a.j = b.j AND a.d = b.d AND a.k = b.k",
        "SELECT a.k FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k AND a.j < c.j WHERE a.j > 3",
        "SELECT a.k FROM a JOIN b ON a.k = b.k UNION ALL SELECT k FROM c",
        "SELECT k FROM a JOIN b USING (k) JOIN t USING (k)",
        "SELECT a.k FROM a JOIN b USING (k) UNION ALL SELECT k FROM a JOIN t USING (k)",
        "SELECT x.k FROM a x JOIN a y ON x.k = y.k",
        "SELECT x.ts FROM c x JOIN c y ON x.ts = y.ts",
        "SELECT k FROM (SELECT k, j FROM a WHERE j > 3) x JOIN b USING (k) WHERE x.j < b.j",
    ],
)
def test_joins_that_need_no_window(sql: str) -> None:
    assert "OrderedJoin" in str(engine().query(sql)._engine.explain())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT a.k FROM a JOIN b ON a.k = b.d", ORDERED),
        ("SELECT a.k FROM a JOIN b ON a.j = b.j", ORDERED),
        ("SELECT a.k FROM a JOIN b ON a.k = b.k + 1", ORDERED),
        ("SELECT a.k FROM a JOIN b ON a.k < b.k", ORDERED),
        ("SELECT a.k FROM a CROSS JOIN b", ORDERED),
        ("SELECT a.k FROM a JOIN b ON a.d = b.d JOIN c ON a.k = c.k", ORDERED),
        (
            "SELECT a.k FROM a JOIN p ON a.k = p.k",
            ORDERED,
        ),
        (
            "SELECT a.k FROM a JOIN p [RANGE 5 SECONDS] ON a.k = p.k",
            "A stream with a window beside one",
        ),
        ("SELECT a.k FROM a LEFT JOIN b ON a.j = b.j", ORDERED),
        ("SELECT a.k FROM a LEFT JOIN p ON a.k = p.k", ORDERED),
        ("SELECT a.k FROM a LEFT JOIN p [ROWS 5] ON a.k = p.k", "A stream with a window beside one"),
        ("SELECT a.k FROM a LEFT JOIN t ON a.k = t.k", "A table in a LEFT JOIN of streams without windows"),
        (
            "SELECT a.k FROM a JOIN b USING (k) LEFT JOIN c USING (k)",
            "INNER JOIN of streams in a LEFT JOIN without windows",
        ),
        (
            "SELECT a.k FROM a LEFT JOIN b USING (k) FULL JOIN c USING (k)",
            "LEFT JOIN of streams in a FULL JOIN without windows",
        ),
        (
            "SELECT a.k FROM (SELECT a.k FROM a LEFT JOIN b USING (k)) a JOIN c USING (k)",
            "LEFT JOIN of streams in",
        ),
        (
            "SELECT a.k FROM a LEFT JOIN b USING (k) EMIT INSERTS",
            "Expected EMIT FINAL without windows",
        ),
        ("SELECT a.k FROM a LEFT JOIN b USING (k) EMIT CHANGES", "found EMIT CHANGES"),
        ("SELECT a.k FROM a LEFT JOIN b USING (k) HOP BY 5 SECONDS", "HOP BY over a join without windows"),
        (
            "SELECT a.k FROM a [ROWS 5] LEFT JOIN b [ROWS 5] USING (k) EMIT FINAL",
            "EMIT FINAL over windows, of LEFT JOIN,",
        ),
        ("SELECT COUNT(*) FROM a [ROWS 5] EMIT FINAL", "EMIT FINAL over windows, of an aggregate, is not"),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", "Expected a window on `a`, found none"),
        ("SELECT a.k FROM a JOIN b USING (k) EXCEPT SELECT k FROM c", "EXCEPT over a join without windows"),
        ("SELECT a.j, COUNT(*) FROM a JOIN b USING (k) GROUP BY a.j", "An aggregate over a join without"),
        (
            "SELECT COUNT(*) FROM a JOIN b USING (k) GROUP BY a.k + 1",
            "An aggregate over a join without",
        ),
        ("SELECT j, COUNT(*) FROM a GROUP BY j", "Expected a window on `a`, found none"),
        ("SELECT d, COUNT(*) FROM a GROUP BY d", "GROUP BY `d`, ORDERED of DOUBLE, without windows"),
        ("SELECT j, COUNT(*) FROM a GROUP BY j", "GROUP BY `k`, ORDERED, needs none"),
        ("SELECT k, COUNT(*) FROM p GROUP BY k", "Expected a window on `p`, found none"),
        ("SELECT k, COUNT(*) FROM a GROUP BY k EMIT INSERTS", "Expected EMIT FINAL without windows"),
        ("SELECT k, COUNT(*) FROM a GROUP BY k EMIT CHANGES", "Expected EMIT FINAL without windows"),
        ("SELECT k, COUNT(*) FROM a GROUP BY k HOP BY 5 SECONDS", "HOP BY over GROUP BY without"),
        (
            "SELECT x.k FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) x JOIN b USING (k)",
            "An aggregate in a join without windows",
        ),
        ("SELECT COUNT(*) FROM (SELECT k FROM a GROUP BY k) x", "Expected a window on `a`, found none"),
        ("SELECT COUNT(*) FROM a", "Expected a window on `a`, found none"),
        (
            "SELECT DISTINCT k FROM a JOIN b USING (k)",
            "DISTINCT over a join",
        ),
        ("SELECT k FROM a JOIN b USING (k) HOP BY 5 SECONDS", "HOP BY over a join without windows"),
        (
            "SELECT k FROM a JOIN b USING (k) EMIT CHANGES",
            "Expected EMIT FINAL without windows",
        ),
        ("SELECT k FROM a EMIT CHANGES", "Expected a window on `a`, found none"),
        (
            "SELECT a.k FROM a JOIN (SELECT k FROM b UNION ALL SELECT k FROM c) u ON a.k = u.k",
            "UNION ALL in a",
        ),
    ],
)
def test_what_is_refused_by_name(sql: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine().query(sql)
    assert message in str(caught.value) and "line 1, column" in str(caught.value)
    assert not engine().queries


@pytest.mark.parametrize(
    ("sql", "emit"),
    [
        ("SELECT a.k FROM a LEFT JOIN b USING (k)", "FINAL"),
        ("SELECT a.k FROM a WHERE a.j > 3 AND NOT EXISTS (SELECT * FROM b WHERE b.k = a.k)", "FINAL"),
        ("SELECT a.k FROM a SEMI JOIN b USING (k) EMIT FINAL", "FINAL"),
        ("SELECT a.k FROM a JOIN b USING (k) EMIT FINAL", "INSERTS"),
        ("SELECT a.k FROM a JOIN b USING (k) WINDOW 5 SECONDS EMIT FINAL", "INSERTS"),
        ("SELECT k FROM a EMIT FINAL", "INSERTS"),
        ("SELECT COUNT(*) FROM a WINDOW 5 SECONDS HOP BY 5 SECONDS EMIT FINAL", "COMPLETE"),
        ("SELECT a.k FROM a LEFT JOIN b USING (k) UNION ALL SELECT k FROM c", "FINAL"),
        ("SELECT k, COUNT(*) FROM a GROUP BY k", "FINAL"),
        ("SELECT COUNT(*) + 1 AS n, MIN(d) FROM (SELECT k AS key, d, j FROM a) x GROUP BY j, key", "FINAL"),
        ("SELECT ts, COUNT(*) FROM c GROUP BY ts HAVING COUNT(*) > 1 EMIT FINAL", "FINAL"),
        ("SELECT k, COUNT(*) FROM a FULL JOIN b USING (k) GROUP BY k", "FINAL"),
    ],
)
def test_what_is_given_once(sql: str, emit: str) -> None:
    assert f"EMIT {emit}" in str(engine().query(sql)._engine.explain())


def test_a_window_is_a_window_on_ordered_columns_too() -> None:
    made = engine()
    made.query("SELECT a.k FROM a JOIN b USING (k) WINDOW 5 MINUTES")
    assert "Join" in made.explain() and "OrderedJoin" not in made.explain()


def test_nan_is_refused() -> None:
    with pytest.raises(
        Exception, match="Expected a number in column `d`, which is ORDERED, found NaN, in `a`, row 2"
    ):
        engine().push("a", {"ts": [1, 2], "k": [1, 2], "d": [1.0, float("nan")], "j": [1, 1]})

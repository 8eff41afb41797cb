"""What `close` brings out, drained or not; the oracles of hopping queries draw it against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from oracle import rows_of

import penstock
from penstock.cli.main import main

DECLARE = "CREATE STREAM s (ts TIMESTAMP, x BIGINT); CREATE STREAM o (ts TIMESTAMP, x BIGINT);"
SECOND = 1_000_000
MODES = [None, "DIDO", "DICO", "CICO", "CIDO"]
KEPT = [
    ("SELECT x, COUNT(*) AS n FROM s [{}] GROUP BY x", [(1, 2), (2, 1)]),
    ("SELECT DISTINCT x FROM s [{}]", [(1,), (2,)]),
    ("SELECT x FROM s [{}]", [(1,), (1,), (2,)]),
    ("SELECT COUNT(*) AS n FROM s [{}]", [(3,)]),
    ("SELECT a.x FROM s [{}] AS a LEFT JOIN o [{}] AS b ON a.x = b.x", [(1,), (1,), (2,)]),
]
"""What each sees of rows 1, 1 and 2."""


def fill(engine: penstock.Engine) -> None:
    """
    ::

        s       1         11 12            the last of o, which few queries read, is far ahead
        o       1                                        95
    """
    for name, seconds, values in (("s", [1, 11, 12], [1, 1, 2]), ("o", [1, 95], [9, 9])):
        engine.push(name, {"ts": [one * SECOND for one in seconds], "x": values})


def answers(query: penstock.Query) -> dict[int, list[Any]]:
    """By second, sorted."""
    found: dict[int, list[Any]] = {}
    for ts, *row in rows_of(query.results()):
        found.setdefault(ts // SECOND, []).append(tuple(row))
    return {ts: sorted(rows) for ts, rows in found.items()}


@pytest.mark.parametrize("panes", [True, False])
@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize(("sql", "all_rows"), KEPT[:-1])
def test_the_last_hop_comes_with_the_end(
    sql: str, all_rows: list[Any], modes: str | None, panes: bool
) -> None:
    """At 20 for the rows at 11 and 12, and at no hop of the other stream's time."""
    engine = penstock.Engine(panes=panes)
    engine.execute(DECLARE)
    emits = ["DELTA"] if modes in ("DIDO", "CIDO") else ["COMPLETE"]
    query = engine.query(f"{sql.format('RANGE 25 SECONDS')} HOP BY 10 SECONDS EMIT {emits[0]}", modes=modes)
    counted = engine.query(
        f"{sql.format('RANGE 25 SECONDS')} HOP BY 10 SECONDS EMIT {emits[0]}", modes=modes, count_only=True
    )
    fill(engine)
    assert list(answers(query)) == [10]
    engine.close()
    last = answers(query)
    assert list(last) == [20]
    if emits == ["COMPLETE"]:
        assert last[20] == all_rows
    assert counted.count == query.count
    engine._runtime._check()


@pytest.mark.parametrize("modes", ["DICO", "CICO"])
@pytest.mark.parametrize(("sql", "all_rows"), KEPT)
def test_draining_lets_windows_become_empty(sql: str, all_rows: list[Any], modes: str) -> None:
    """To 40, when the row at 12 has left; a join with a stream that ended later, to that stream's end."""
    engine = penstock.Engine()
    engine.execute(DECLARE)
    query = engine.query(f"{sql.replace('{}', 'RANGE 25 SECONDS')} HOP BY 10 SECONDS", modes=modes)
    rows = engine.query(f"{sql.replace('{}', 'ROWS 3')} HOP BY 10 SECONDS", modes=modes)
    fill(engine)
    engine.close(drain=True)
    found, kept = answers(query), answers(rows)
    assert found[20] == kept[20] == all_rows
    is_join, total = "JOIN" in sql, [(0,)] if all_rows == [(3,)] else []
    assert found.get(40, []) == total
    assert max(found) == (40 if total else 30)
    assert max(kept) == (100 if is_join else 20), "rows that leave with others hold nothing up"


@pytest.mark.parametrize("expiry", ["auto", "ita", "nta", "time-message", "piggyback"])
@pytest.mark.parametrize("drain", [True, False])
def test_changes_of_windows_come_out_when_drained(drain: bool, expiry: str) -> None:
    """Closed, windows are as they were at the last row of all; drained, they are empty, but for those that
    rows do not leave by themselves."""
    engine = penstock.Engine(expiry=expiry)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x BIGINT)")
    queries = [
        engine.query(f"{sql} EMIT CHANGES")
        for sql in (
            "SELECT x FROM s [RANGE 25 SECONDS]",
            "SELECT x, COUNT(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY x",
            "SELECT a.x FROM s [RANGE 30 SECONDS] AS a JOIN s [RANGE 5 SECONDS] AS b ON a.x = b.x",
            "SELECT x FROM s [ROWS 2]",
            "SELECT x FROM s [RANGE UNBOUNDED]",
        )
    ]
    engine.push("s", {"ts": [SECOND, 11 * SECOND, 12 * SECOND], "x": [1, 1, 2]})
    engine.close(drain=drain)
    left = [sum(sign for _, sign, *_ in rows_of(one.results())) for one in queries]
    assert left == ([0, 0, 0, 2, 3] if drain else [3, 2, 3, 2, 3])
    if drain:
        assert {
            name: sum(op["state_rows"] for op in one["operators"])
            for name, one in engine.stats()["queries"].items()
        }["q2"] == 0


def test_each_query_ends_by_itself() -> None:
    """Hops of all sizes over the same panes and the same rows: nobody is carried on by another, whose next
    hop is far away, or whose stream has gone on."""
    engine = penstock.Engine()
    engine.execute(DECLARE)
    hops = {"1 us": 1, "7 SECONDS": 7 * SECOND, "1 DAYS": 86_400 * SECOND}
    texts = [
        "SELECT COUNT(*) AS n FROM s [RANGE 1 DAYS]",
        "SELECT x, MAX(x) AS m FROM s [RANGE 1 DAYS] GROUP BY x",
        "SELECT DISTINCT x FROM s [RANGE 1 DAYS]",
        "SELECT x FROM s [ROWS 1]",
        "SELECT x FROM s [PARTITION BY x ROWS 1]",
    ]
    running = [
        (size, engine.query(f"{text} HOP BY {hop} EMIT {emit}"))
        for hop, size in hops.items() for text in texts for emit in ("COMPLETE", "DELTA")
    ]  # fmt: skip
    engine.push("s", {"ts": [11, 12, 15], "x": [1, 1, 2]})
    engine.push("o", {"ts": [SECOND], "x": [9]})
    engine.close()
    for size, query in running:
        times = [ts for ts, *_ in rows_of(query.results())]
        assert max(times) == 15 + -15 % size, query.sql


def test_what_has_passed_is_not_passed_again() -> None:
    """After `advance` beyond the last row's hop there is nothing to come; at the hop itself there is."""
    for now, hops in ((53, [20, 30, 40, 50]), (60, [20, 30, 40, 50, 60])):
        with penstock.Engine() as engine:
            engine.execute(DECLARE)
            query = engine.query("SELECT COUNT(*) AS n FROM s [RANGE 10 us] HOP BY 10 us")
            engine.push("s", {"ts": [12], "x": [1]})
            engine.advance(now)
        assert [ts for ts, *_ in rows_of(query.results())] == hops


def test_rows_held_for_slack_count() -> None:
    engine = penstock.Engine()
    engine.execute(
        "CREATE STREAM s (ts TIMESTAMP, x BIGINT, WATERMARK FOR ts AS ts - INTERVAL 9 MICROSECONDS)"
    )
    query = engine.query("SELECT COUNT(*) AS n FROM s [RANGE 10 us] HOP BY 10 us")
    engine.push("s", {"ts": [12, 25, 23], "x": [1, 1, 1]})
    engine.close()
    assert rows_of(query.results()) == [(20, 1), (30, 2)]


def test_without_rows_there_is_no_hop() -> None:
    for drain in (True, False):
        engine = penstock.Engine()
        engine.execute(DECLARE)
        query = engine.query("SELECT COUNT(*) AS n FROM s [RANGE 10 us] HOP BY 10 us")
        engine.push("o", {"ts": [95], "x": [1]})
        engine.close(drain=drain)
        assert query.results().num_rows == 0


@pytest.mark.parametrize("drain", [True, False])
def test_a_restored_engine_ends_alike(drain: bool, tmp_path: Path) -> None:
    """Also one that was closed in the meantime: that is no part of the checkpoint."""
    engine = penstock.Engine()
    engine.execute(DECLARE)
    for text, _ in KEPT:
        engine.query(f"{text.replace('{}', 'RANGE 25 SECONDS')} HOP BY 10 SECONDS")
    fill(engine)
    engine.checkpoint(tmp_path / "state")
    engine.close(drain=drain)
    again = penstock.Engine.restore(tmp_path / "state")
    again.close(drain=drain)
    for name, query in engine.queries.items():
        assert answers(query) == answers(again.queries[name]) != {}
    goes_on = penstock.Engine.restore(tmp_path / "state")
    goes_on.push("s", {"ts": [13 * SECOND], "x": [2]})
    goes_on.close()
    assert answers(goes_on.queries["q1"])[20] == [(1, 2), (2, 2)], "the hop that was open is answered whole"


@pytest.mark.parametrize(("options", "last"), [([], 20), (["--drain"], 40)])
def test_the_command_ends_alike(options: list[str], last: int, tmp_path: Path) -> None:
    queries, rows = tmp_path / "q.sql", tmp_path / "s.csv"
    queries.write_text(
        f"{DECLARE} CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 25 SECONDS] HOP BY 10 SECONDS"
    )
    rows.write_text("ts,x\n" + "".join(f"1970-01-01 00:00:{one:02},1\n" for one in (1, 11, 12)))
    shown = CliRunner().invoke(main, ["run", str(queries), "-i", f"s={rows}", "-q", *options])
    assert shown.exit_code == 0, shown.output
    hops = [line.split(":00:")[1][:2] for line in shown.output.splitlines()]
    assert hops == [str(hop) for hop in range(10, last + 1, 10)]


@pytest.mark.parametrize("drain", [False, True])
def test_an_engine_without_queries_can_be_closed(drain: bool) -> None:
    engine = penstock.Engine()
    engine.execute(DECLARE)
    fill(engine)
    engine.close(drain=drain)
    assert engine.stats()["streams"]["s"]["rows_in"] == 3

"""ALTER QUERY from every kind of window to RANGE and ROWS, for every kind of output, against DuckDB.

All of them stand in one engine, where they share what they can, or share nothing.

    a, b     1 1 2   4   5 6 6   | 9  10 10  12 ...     altered at |, exact at once or when windows are full
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from fuzz.ask import Drawn, Tree, joined
from fuzz.drive import EVER, Drive
from fuzz.entry import Declared
from fuzz.judge import Judge
from fuzz.script import Alter, Close, Push, Row, Script, Start, Step
from oracle import Reference, rows_of
from work_of import sub_plans_of

import penstock

BEFORE = {
    "range": Reference("", "", "range", 4),
    "now": Reference("", "", "range", 1),
    "unbounded": Reference("", ""),
    "rows": Reference("", "", "rows", 2),
    "partition": Reference("", "", "rows", 1, "k"),
}
AFTER = [("range", 5), ("rows", 3)]
LIVES = [f"SELECT k, v, ts, ets FROM life_{one} WHERE ts < ets" for one in "xy"]
SHAPES: dict[str, tuple[str, str | None]] = {
    "select": ("SELECT k, v FROM {x} WHERE v > 0", f"SELECT * FROM ({LIVES[0]}) AS z WHERE v > 0"),
    "join": (
        "SELECT p.k, q.v FROM (SELECT k, v FROM {x}) AS p JOIN (SELECT k, v FROM {y}) AS q ON p.k = q.k",
        joined("p.k, q.v", [("p", LIVES[0]), ("q", LIVES[1])], "p.k = q.k"),
    ),
    "union all": ("SELECT k, v FROM {x} UNION ALL SELECT k, v FROM {y}", " UNION ALL ".join(LIVES)),
    "aggregate": ("SELECT k, SUM(v) AS v FROM {x} GROUP BY k", None),
    "anti join": (
        "SELECT p.k, p.v FROM (SELECT k, v FROM {x}) AS p "
        "WHERE NOT EXISTS (SELECT * FROM (SELECT k, v FROM {y}) AS q WHERE p.k = q.k)",
        None,
    ),
}


def tree_of(shape: str, window: Reference) -> Tree:
    text, life = SHAPES[shape]
    both = {"x": replace(window, stream="a", alias="x"), "y": replace(window, stream="b", alias="y")}
    read = [one for name, one in both.items() if f"{{{name}}}" in text]
    sql = text.format(**{name: one.penstock for name, one in both.items()})
    return Tree(Drawn(sql, text.format(x="x", y="y"), life), read)


def rows(first: int, times: list[int]) -> list[Row]:
    return [(ts, first + i, i % 3, float(i % 4)) for i, ts in enumerate(times)]


@pytest.mark.parametrize(
    ("emit", "sharing"),
    [(emit, "auto") for emit in ("INSERTS", "CHANGES", "COMPLETE", "DELTA")] + [("INSERTS", "unshared")],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_from_every_kind_of_window_to_every_other_oracle(shape: str, emit: str, sharing: str) -> None:
    names = {f"{kind}_{to}_{size}": (kind, to, size) for kind in BEFORE for to, size in AFTER}
    steps: list[Step] = [
        Start(name, tree_of(shape, BEFORE[kind]), emit, 2) for name, (kind, _, _) in names.items()
    ]
    steps += [Push("a", rows(0, [1, 1, 2, 4, 5, 6, 6])), Push("b", rows(20, [1, 2, 2, 4, 5, 6]))]
    steps += [Alter(name, to, size) for name, (_, to, size) in names.items()]
    for ts in range(9, 18, 3):
        steps += [
            Push(stream, rows(100 * ts + 10 * at, [ts, ts + 1, ts + 1])) for at, stream in enumerate("ab")
        ]
    script = Script({"sharing": sharing}, {"a": Declared(0), "b": Declared(0)}, [*steps, Close(True)], seed=7)
    drive, judge = Drive(script), Judge(7, 3)
    drive.run(judge)
    assert all("UNBOUNDED" in reason for reason in drive.refused)
    altered = [one for one in drive.asked.values() if one.alters]
    assert len(altered) == len(names) - len(drive.refused)
    assert all(-EVER < one.spans[-1].since < 20 for one in altered)
    assert judge.looked >= 2 * len(altered)


@pytest.mark.parametrize("emit", ["INSERTS", "CHANGES"])
def test_a_plan_of_another_kind_takes_the_place_of_what_runs(emit: str) -> None:
    """The last row of each key, then all of three microseconds: nothing of the old plan is left at work."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM b (ts TIMESTAMP, id BIGINT, f BIGINT)")
    query = engine.query(f"SELECT id FROM b [PARTITION BY f ROWS 1] EMIT {emit}", "q")
    engine.execute("ALTER QUERY q SET WINDOW 3 SECONDS")
    engine.push("b", {"ts": [5] * 4, "id": [0, 1, 2, 3], "f": [1] * 4})
    assert [row[-1] for row in rows_of(query.results())] == [0, 1, 2, 3]
    assert query.complete_from is None
    assert "ROWS" not in engine.explain()
    assert "kind='rows'" not in str([one.plan for one in sub_plans_of(engine)])


def test_a_query_that_keeps_no_rows_any_more_does_not_go_over_with_others() -> None:
    """It stood alone with a window whose rows may be kept in common: others come after it was altered."""
    engine = penstock.Engine()
    engine.execute("CREATE STREAM b (ts TIMESTAMP, id BIGINT, f BIGINT)")
    query = engine.query("SELECT id FROM b [PARTITION BY f ROWS 1] EMIT INSERTS", "q")
    engine.push("b", {"ts": [1, 2], "id": [0, 1], "f": [1, 1]})
    engine.execute("ALTER QUERY q SET WINDOW 3 SECONDS")
    for number in range(2):
        engine.query(f"SELECT f, COUNT(*) AS n FROM b [PARTITION BY id ROWS {number + 1}] GROUP BY f")
    engine.push("b", {"ts": [5] * 4, "id": [2, 3, 4, 5], "f": [1] * 4})
    engine.close()
    assert [row[-1] for row in rows_of(query.results())][-4:] == [2, 3, 4, 5]
    assert not engine._runtime.is_replanned("q")

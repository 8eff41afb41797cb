"""Queries come, change and go where others have windows of the other kind: each has what it has alone.

joins        RANGE: r, RANGE 100 s          ROWS: s, ROWS 30
a            one row a second, v = 0, 1, 2, ...          b the same
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from joins_apart import CREATE

import penstock

TEXT = "SELECT a.v, b.v AS w FROM a, b WHERE a.k = b.k"
RANGE, ROWS = "WINDOW 100 SECONDS", "WINDOW 30 ROWS"
SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Scene:
    """An engine with streams of one row a second, and what has been pushed."""

    engine: penstock.Engine
    rows: int = 0

    def push(self, rows: int) -> None:
        """Both streams end at the same instant, which is not over."""
        numbers = range(self.rows, self.rows + rows)
        columns = {"ts": [n * SECOND for n in numbers], "k": [n % 5 for n in numbers], "v": list(numbers)}
        for stream in "ab":
            self.engine.push(stream, {**columns, "s": [f"{n % 10}" for n in numbers]})
        self.rows += rows
        self.engine._runtime._check()

    def compare(self, query: penstock.Query, text: str) -> None:
        """The query has from `complete_from` on what it has alone, and that is something."""
        alone = Scene(penstock.Engine())
        alone.engine.execute(CREATE)
        other = alone.engine.query(text)
        alone.push(self.rows)
        since = query.complete_from or EPOCH
        for one in (self.engine, alone.engine):
            one.close()
        mine, theirs = (rows_since(one, since) for one in (query, other))
        assert theirs and mine == theirs


def rows_since(query: penstock.Query, since: datetime) -> list[str]:
    rows = query.results().to_pylist()
    return sorted(str(row) for row in rows if row["_ts"].replace(tzinfo=UTC) >= since)


@pytest.fixture
def scene() -> Scene:
    """200 seconds have passed; a query of each kind is there."""
    engine = penstock.Engine()
    engine.execute(CREATE)
    for name, window in (("r", RANGE), ("s", ROWS)):
        engine.query(f"{TEXT} {window}", name=name)
    made = Scene(engine)
    made.push(200)
    return made


@pytest.mark.parametrize(
    "window", [f"WINDOW {size}" for size in ("20 SECONDS", "10 ROWS", "80 ROWS", "150 SECONDS", "150 ROWS")]
)
def test_a_newcomer(scene: Scene, window: str) -> None:
    late = scene.engine.query(f"{TEXT} {window}", name="late")
    scene.push(200)
    scene.compare(late, f"{TEXT} {window}")


def test_a_newcomer_finds_what_its_own_kind_has_kept(scene: Scene) -> None:
    """At once; of the other kind it finds nothing."""
    late = [scene.engine.query(f"{TEXT} WINDOW {size}") for size in ("20 SECONDS", "10 ROWS", "80 ROWS")]
    scene.push(150)
    at_once = EPOCH + timedelta(seconds=199, microseconds=1)
    assert [one.complete_from for one in late] == [at_once, at_once, EPOCH + timedelta(seconds=248)]


@pytest.mark.parametrize("window", ["WINDOW 20 ROWS", "WINDOW 8 SECONDS"])
def test_a_newcomer_that_reads_another_column(scene: Scene, window: str) -> None:
    text = f"SELECT a.s, b.v FROM a, b WHERE a.k = b.k {window}"
    late = scene.engine.query(text)
    scene.push(50)
    scene.compare(late, text)


def test_a_newcomer_with_a_window_of_each_kind(scene: Scene) -> None:
    text = "SELECT a.v, b.v AS w FROM a [RANGE 40 SECONDS], b [ROWS 25] WHERE a.k = b.k"
    late = scene.engine.query(text)
    scene.push(50)
    other = scene.engine.query(text.replace("25", "5"))
    scene.push(50)
    assert other.count
    scene.compare(late, text)


def test_a_newcomer_where_a_key_fails_on_a_row_that_waits() -> None:
    """Others have not looked at the row, as they do not need it."""
    scene = Scene(penstock.Engine())
    scene.engine.execute(CREATE)
    text = "SELECT a.v, b.v AS w FROM a, b WHERE CAST(a.s AS BIGINT) = b.k"
    for rest in ("AND a.v < 0 WINDOW 5 SECONDS", "WINDOW 40 ROWS"):
        scene.engine.query(f"{text} {rest}")
    scene.push(20)
    scene.engine.push("a", {"ts": [19 * SECOND], "k": [4], "v": [1_000], "s": ["x"]})
    scene.engine.query(f"{text} WINDOW 10 SECONDS")
    with pytest.raises(penstock.StoppedError, match="BIGINT"):
        scene.push(10)


@pytest.mark.parametrize("name", ["r", "s"])
def test_one_that_is_given_a_window_of_the_other_kind(scene: Scene, name: str) -> None:
    scene.engine.query(f"{TEXT} WINDOW 5 SECONDS")
    late = scene.engine.query("SELECT a.s, b.v FROM a, b WHERE a.k = b.k WINDOW 21 ROWS")
    scene.push(10)
    window = "WINDOW 70 ROWS" if name == "r" else "WINDOW 70 SECONDS"
    scene.engine.execute(f"ALTER QUERY {name} SET {window}")
    scene.push(150)
    assert late.count
    scene.compare(scene.engine.queries[name], f"{TEXT} {window}")


def test_one_that_is_given_another_window_of_the_same_kind(scene: Scene) -> None:
    scene.engine.execute("ALTER QUERY s SET WINDOW 70 ROWS")
    scene.push(100)
    scene.compare(scene.engine.queries["s"], f"{TEXT} WINDOW 70 ROWS")


@pytest.mark.parametrize("goes", ["r", "s"])
def test_who_is_left_goes_on(scene: Scene, goes: str) -> None:
    stays, window = ("s", ROWS) if goes == "r" else ("r", RANGE)
    scene.push(20)
    scene.engine.queries[goes].drop()
    scene.push(40)
    late = scene.engine.query(f"{TEXT} {RANGE if goes == 'r' else ROWS}", name="late")
    scene.push(110)
    scene.compare(scene.engine.queries[stays], f"{TEXT} {window}")
    assert late.count

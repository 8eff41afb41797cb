"""Queries come, change and go where others are apart by kind of windows: nobody else's join is touched.

joins        RANGE: r, RANGE 100 s          ROWS: s, ROWS 30
a            one row a second, v = 0, 1, 2, ...          b the same
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from joins_apart import CREATE, part_always

import penstock
from penstock.engine.join_forms import loose_form
from penstock.engine.join_forms.loose_form import LooseForm
from penstock.engine.joins import join as join_module
from penstock.engine.joins.join import WindowJoin
from penstock.query import NEVER

TEXT = "SELECT a.v, b.v AS w FROM a, b WHERE a.k = b.k"
RANGE, ROWS = "WINDOW 100 SECONDS", "WINDOW 30 ROWS"
SECOND = 1_000_000


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

    @property
    def form(self) -> LooseForm:
        (group,) = self.engine._runtime.groups.values()
        assert isinstance(group.form, LooseForm)
        return group.form

    @property
    def joins(self) -> list[WindowJoin]:
        self.form.refresh()
        return [one for one in self.form.operators if isinstance(one, WindowJoin)]

    def compare(self, query: penstock.Query, text: str) -> None:
        """The query has from `complete_from` on what it has alone."""
        alone = Scene(penstock.Engine())
        alone.engine.execute(CREATE)
        other = alone.engine.query(text)
        alone.push(self.rows)
        since = query.complete_from or datetime(1970, 1, 1, tzinfo=UTC)
        for one in (self.engine, alone.engine):
            one.close()
        mine, theirs = (rows_since(one, since) for one in (query, other))
        assert theirs and mine == theirs


def rows_since(query: penstock.Query, since: datetime) -> list[str]:
    rows = query.results().to_pylist()
    return sorted(str(row) for row in rows if row["_ts"].replace(tzinfo=UTC) >= since)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """200 seconds have passed, and members are apart."""
    part_always(monkeypatch, ["kinds"])
    engine = penstock.Engine()
    engine.execute(CREATE)
    for name, window in (("r", RANGE), ("s", ROWS)):
        engine.query(f"{TEXT} {window}", name=name)
    made = Scene(engine)
    made.push(200)
    assert len(made.joins) == 2
    return made


def at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


NEXT = at(199) + timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("window", "since"),
    [
        ("WINDOW 20 SECONDS", NEXT),  # its own kind has kept its rows
        ("WINDOW 10 ROWS", NEXT),
        ("WINDOW 80 ROWS", NEXT),  # the RANGE window has kept them
        ("WINDOW 150 SECONDS", at(249)),  # rows since 100 s are there
        ("WINDOW 150 ROWS", at(249)),
        ("WINDOW 30 SECONDS", NEXT),
    ],
)
def test_a_newcomer_finds_what_either_kind_has_kept(scene: Scene, window: str, since: datetime) -> None:
    before = scene.joins
    late = scene.engine.query(f"{TEXT} {window}", name="late")
    scene.push(150)
    assert scene.joins == before
    assert late.complete_from == since
    scene.compare(late, f"{TEXT} {window}")


@pytest.fixture
def kept_by_rows(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Only the join of ROWS windows has rows of a; those at 199 s, of two pushes, wait in its queue."""
    part_always(monkeypatch, ["kinds"])
    made = Scene(penstock.Engine())
    made.engine.execute(CREATE)
    made.engine.query(f"{TEXT} AND a.v < 0 WINDOW 5 SECONDS")
    made.engine.query(f"{TEXT} AND a.s <> 'nothing' WINDOW 40 ROWS", name="by_rows")
    made.push(200)
    made.engine.push("a", {"ts": [199 * SECOND], "k": [4], "v": [1_000], "s": ["7"]})
    assert [side.end for join in made.joins for side in join.sides] == [201, 200, 199, 199]
    return made


def test_a_range_query_finds_what_a_rows_query_has_kept(kept_by_rows: Scene) -> None:
    """Rows of the instant that is not over, too."""
    scene = kept_by_rows
    before = scene.joins
    late = scene.engine.query(f"{TEXT} AND a.s <> 'nothing' WINDOW 30 SECONDS")
    scene.push(10)
    assert scene.joins == before and late.complete_from == NEXT
    met = {row["v"] for row in late.results().to_pylist() if row["_ts"].replace(tzinfo=UTC) >= NEXT}
    assert met == {*range(175, 210), 1_000}


def test_rows_that_others_have_kept_lack_a_column_that_is_new(kept_by_rows: Scene) -> None:
    """Those that wait have it: row 198 is the last without."""
    scene = kept_by_rows
    before = scene.joins
    columns = "SELECT a.ts AS at, b.v FROM a, b WHERE a.k = b.k"
    late = scene.engine.query(f"{columns} AND a.s <> 'nothing' WINDOW 30 SECONDS")
    scene.push(50)
    assert scene.joins == before
    assert late.complete_from == at(228)
    found = [
        ((row["at"] - datetime(1970, 1, 1)) // timedelta(seconds=1), row["v"])
        for row in late.results().to_pylist()
        if row["_ts"].replace(tzinfo=UTC) >= at(228)
    ]
    rows = [*range(250), 199]  # of a; one more at 199 has the same key
    expected = [
        (i, j) for i in rows for j in range(250) if i % 5 == j % 5 and abs(i - j) < 30 and max(i, j) >= 228
    ]
    assert sorted(found) == sorted(expected)


def test_a_newcomer_whose_filter_fails_on_a_row_that_waits(kept_by_rows: Scene) -> None:
    """Who asks it from the start ends at that row."""
    scene = kept_by_rows
    scene.engine.push("a", {"ts": [199 * SECOND], "k": [3], "v": [1_001], "s": ["x"]})
    numbers = "a.s <> 'nothing' AND CAST(a.s AS BIGINT) >= 0"
    late = scene.engine.query(f"{TEXT} AND {numbers} WINDOW 30 SECONDS")
    scene.push(50)
    assert late.complete_from == at(229)
    assert late.count


def test_a_newcomer_where_a_key_fails_on_a_row_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have not looked at the row, as they do not need it."""
    part_always(monkeypatch, ["kinds"])
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


def test_of_copies_of_a_row_the_one_with_all_columns_is_taken(scene: Scene) -> None:
    """Row 199 came to the join of RANGE windows before `s` was stored, to that of ROWS windows after it."""
    text = "SELECT a.s, b.v FROM a, b WHERE a.k = b.k WINDOW 21 ROWS"
    late = scene.engine.query(text)
    assert len(scene.joins) == 2
    scene.engine.execute("ALTER QUERY r SET WINDOW 70 ROWS")
    scene.push(30)
    assert late.complete_from == at(219)
    scene.compare(late, text)


def test_what_a_newcomer_needs_may_be_kept_by_both_kinds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    part_always(monkeypatch, ["kinds"])
    scene = Scene(penstock.Engine())
    scene.engine.execute(CREATE)
    for window, where in (("60 SECONDS", "AND a.v % 2 = 0 AND a.v < 170"), ("60 ROWS", "AND a.v >= 150")):
        scene.engine.query(f"{TEXT} {where} WINDOW {window}")
    scene.engine.query(f"{TEXT} AND a.v < 170 WINDOW 60 SECONDS")
    scene.push(200)
    before = scene.joins
    text = f"{TEXT} AND a.v >= 100 WINDOW 50 SECONDS"
    late = scene.engine.query(text)
    scene.push(60)
    assert scene.joins == before and late.complete_from == NEXT
    scene.compare(late, text)


def test_a_newcomer_that_reads_another_column(scene: Scene) -> None:
    """All joins store it from then on, as rows go from one to another. Row 199 waited for ROWS windows."""
    before = scene.joins
    text = "SELECT a.s, b.v FROM a, b WHERE a.k = b.k WINDOW 20 ROWS"
    late = scene.engine.query(text)
    scene.push(10)
    assert scene.joins == before
    assert {tuple(join.left.columns) for join in before} == {tuple(before[0].left.columns)}
    other = scene.engine.query(text.replace("20 ROWS", "8 SECONDS"))
    scene.push(20)
    assert scene.joins == before
    assert (late.complete_from, other.complete_from) == (at(218), at(209) + timedelta(microseconds=1))
    scene.compare(other, text.replace("20 ROWS", "8 SECONDS"))
    assert late.count


def test_a_newcomer_with_windows_of_other_kinds_has_a_join_of_its_own(scene: Scene) -> None:
    before = scene.joins
    text = "SELECT a.v, b.v AS w FROM a [RANGE 40 SECONDS], b [ROWS 25] WHERE a.k = b.k"
    late = scene.engine.query(text)
    scene.push(50)
    assert scene.joins[:2] == before and len(scene.joins) == 3
    assert late.complete_from == NEXT
    scene.engine.query(text.replace("25", "5"))
    scene.push(10)
    assert len(scene.joins) == 3
    scene.compare(late, text)


def test_another_window_of_the_same_kind_leaves_the_joins_as_they_are(scene: Scene) -> None:
    before = scene.joins
    scene.engine.execute("ALTER QUERY s SET WINDOW 70 ROWS")
    scene.push(100)
    assert scene.joins == before
    altered = scene.engine.queries["s"]
    assert altered.complete_from == NEXT
    scene.compare(altered, f"{TEXT} WINDOW 70 ROWS")


def test_a_window_of_the_other_kind_brings_all_together(scene: Scene) -> None:
    scene.engine.query(f"{TEXT} WINDOW 5 SECONDS")
    scene.push(10)
    before = scene.joins
    scene.engine.execute("ALTER QUERY r SET WINDOW 70 ROWS")
    scene.push(100)
    assert not set(scene.joins) & set(before)
    scene.compare(scene.engine.queries["r"], f"{TEXT} WINDOW 70 ROWS")


@pytest.mark.parametrize("goes", ["r", "s"])
def test_who_is_left_goes_on_in_the_same_join(scene: Scene, goes: str) -> None:
    stays = "rs".replace(goes, "")
    scene.engine.query(f"{TEXT} {RANGE if stays == 'r' else 'WINDOW 3 ROWS'}", name="more")
    scene.push(20)
    (left,) = (
        one for one in scene.joins if scene.engine.queries[goes]._pipeline.joins[1][1] not in one.members
    )
    scene.engine.queries[goes].drop()
    count = scene.engine.queries[stays].count
    scene.push(40)
    assert scene.engine.queries[stays].count > count
    assert scene.joins == [left] and scene.form.parting == "one"
    assert left.sides[0].memory is None
    late = scene.engine.query(f"{TEXT} {ROWS if stays == 'r' else RANGE}", name="late")
    scene.push(110)
    scene.compare(scene.engine.queries[stays], f"{TEXT} {RANGE if stays == 'r' else ROWS}")
    assert late.count


@pytest.mark.parametrize(
    ("window", "since"), [("60 SECONDS", at(260)), ("180 SECONDS", at(380)), ("60 ROWS", NEVER)]
)
def test_a_newcomer_begins_after_the_last_stored_row_on_which_its_filter_fails(
    scene: Scene, window: str, since: datetime
) -> None:
    """A row of a at 200 s has an `s` that is no number; fewer than 60 have come after it."""
    rows = {"k": [0, 1], "v": [200, 200]}
    for size in ("70 SECONDS", "70 ROWS"):
        scene.engine.query(f"SELECT a.s FROM a, b WHERE a.k = b.k WINDOW {size}")
    for stream in "ab":
        for second, text in ((200, "x"), (201, "1")):
            scene.engine.push(stream, {"ts": [second * SECOND] * 2, **rows, "s": [text, "1"]})
    before = scene.joins
    late = scene.engine.query(f"{TEXT} AND CAST(a.s AS BIGINT) > 0 WINDOW {window}")
    for stream in "ab":
        scene.engine.push(stream, {"ts": [300 * SECOND] * 2, **rows, "s": ["1", "1"]})
    assert scene.joins == before
    assert late.complete_from == since


@pytest.mark.parametrize("does", ["comes", "goes"])
def test_who_comes_or_goes_puts_off_what_all_joins_think_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """One pause, not two."""
    scene.engine.query(f"{TEXT} WINDOW 7 ROWS", name="more")
    scene.push(20)
    monkeypatch.setattr(join_module, "QUIET_ROWS", 10)
    for join in scene.joins:
        join.reconsider(now=True)
    if does == "comes":
        scene.engine.query(f"{TEXT} WINDOW 20 SECONDS")
    else:
        scene.engine.queries["more"].drop()
    scene.push(2)
    assert len(scene.joins) == 2 and all(join._is_put_off for join in scene.joins)
    scene.push(10)
    scene.push(1)
    assert not any(join._is_put_off for join in scene.joins)


def test_staying_apart_is_thought_over_without_coming_together(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loose_form, "RETHINK", 1)
    scene.form._rethought_at = 1
    before = scene.joins
    for _ in range(4):
        scene.engine._adapter.look_at_plans()
        scene.push(20)
    assert scene.joins == before and scene.form._rethought_at > 1

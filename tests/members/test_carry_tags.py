"""Tags that are carried over say what tags made anew say, and nothing that was known is looked at again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from lineage_help import (
    ANY,
    FALLIBLE,
    ROWS,
    bounds,
    check_told,
    outcomes,
    predicates,
    row,
    sound_part,
    table,
    where,
)
from test_loose_form import part_always

import penstock
from penstock.engine.expressions.evaluate import Rows
from penstock.engine.expressions.expression import Column, Expression, conjunction, conjuncts
from penstock.engine.members import dimension as dimension_module
from penstock.engine.members.dimension import Dimension
from penstock.engine.members.lineage import Lineage, Tags
from penstock.engine.members.row_tags import RowTags, tags_of
from penstock.engine.rows.batch import Batch, concatenate
from penstock.engine.rows.types import SqlType
from penstock.engine.shelves import find_needed

Asked = list[Expression | None]


def sound_rows(asked: Asked, columns: list[pa.Array], is_past: bool) -> slice:
    """The rows before the first on which something fails; of the past, those after the last."""
    parts = [sound_part(outcomes(predicate, columns), is_past) for predicate in asked]
    starts, stops = (part.start for part in parts), (part.stop for part in parts)
    return slice(max(starts, default=0), min(stops, default=len(columns[0])))


def check_steps(sets: list[Asked], rows: list[tuple[Any, ...]], is_past: bool = False) -> None:
    """Predicates of one set after the other; rows on which one fails are not there when others come."""
    columns = table(*rows)
    lineage = Lineage(() if is_past else sets[0])
    tags, _ = lineage.tag(columns.__getitem__, len(columns[0]))
    for asked in sets if is_past else sets[1:]:
        sound = sound_rows(lineage.predicates, columns, is_past)
        columns, tags = [column[sound] for column in columns], tags.take(sound)
        before, lineage = lineage, Lineage(asked, lineage)
        tags, failures = lineage.carry(before, tags, columns.__getitem__, len(columns[0]), is_past)
        check_told(lineage, tags, failures, columns, is_past)


@st.composite
def series(draw: st.DrawFn, parts: st.SearchStrategy[Expression | None]) -> list[Asked]:
    """Sets of predicates, of which some stay, some go and some come."""
    sets: list[Asked] = [draw(st.lists(parts, max_size=4))]
    for _ in range(draw(st.integers(1, 4))):
        kept = [one for one in sets[-1] if draw(st.booleans())]
        sets.append(kept + draw(st.lists(parts, max_size=2)))
    return sets


@settings(max_examples=150)
@given(series(predicates(ANY)), ROWS, st.booleans())
def test_carried_over(sets: list[Asked], rows: list[tuple[Any, ...]], is_past: bool) -> None:
    check_steps(sets, rows, is_past)


LEFT_BY_ANOTHER = [  # the first is true of the outer rows; the second, which is left, fails on that between
    [[where("b = 1"), where("b = 2")], [where("b < 3")]],
    [row(a=1, b=1), row(a=0, b=0), row(a=1, b=1)],
]
LEFT_AND_NEEDED = [  # the same, but one who stays needs the bit of the last row
    [[where("b = 1"), where("a = 1")], [where("a = 1"), where("b < 3")]],
    [row(a=1, b=1), row(a=0, b=0), row(a=2, b=1), row(a=1, b=1)],
]


@settings(max_examples=60)
@given(st.sampled_from(FALLIBLE), series(predicates(bounds())), ROWS, st.booleans())
@example("10 // a > 1", *LEFT_BY_ANOTHER, False)
@example("10 // a > 1", *LEFT_BY_ANOTHER, True)
@example("10 // a > 1", *LEFT_AND_NEEDED, False)
@example("10 // a > 1", *LEFT_AND_NEEDED, True)
def test_one_rest_for_other_rows(
    rest: str, sets: list[Asked], rows: list[tuple[Any, ...]], is_past: bool
) -> None:
    """A rest that fails is asked only of rows that need it: one who needs others has them asked."""
    asked = [[conjunction((where(rest), *conjuncts(one))) for one in some] for some in sets]
    check_steps(asked, rows, is_past)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["s = 'a'"], ["s = 'a'", "s = 'ab'"]),
        (["s = 'a'"], ["s = 'a'", "s > 'ab'"]),
        (["s = 'a'", "s > 'ab'"], ["s = 'a'"]),
        (["s > 'ab'"], ["s = '12'"]),
        (["s = 'a'", "s = 'ab'"], ["s = 'ab'"]),
        (["s IS NOT NULL"], ["s IS NOT NULL", "s = 'a'"]),
        (["s < 'b'", "s >= 'a'"], ["s >= 'a'"]),
    ],
)
def test_texts(before: list[str], after: list[str]) -> None:
    rows = [row(s=text) for text in ("", "a", "a\0", "ab", "12", "b", "ä", None)]
    check_steps([list(map(where, before)), list(map(where, after))], rows)


def test_many_bits_come_and_go() -> None:
    """Bits of rests that stay are where they were, and those of others are free again."""
    rests: Asked = [where(f"a <> {i}") for i in range(200)]
    sets = [rests, rests[:130] + rests[131:], [*rests[3:40], where("a <> 500")], rests[38:42], rests]
    rows = [row(a=a) for a in (0, 1, 63, 64, 65, 130, 199, 500, None)]
    check_steps(sets, rows)
    many = Lineage(rests)
    assert many.words == 4
    assert Lineage(rests[1:], many).words == 4
    assert Lineage(rests[150:152], many).words == 1


def test_batches_that_know_their_tags() -> None:
    """Cut and put together, also with such as do not know theirs, or by another lineage."""
    columns = table(*(row(a=a, s="x" * (a % 3)) for a in range(12)))
    asked: Asked = [where("a > 3"), where("s <> 'x'")]
    lineage = Lineage(asked)
    later = Lineage([*asked, where("a > 7")], lineage)
    whole = Batch(np.arange(12), columns)
    parts = [whole.slice(0, 3), whole.slice(3, 7), whole.slice(7, 12)]
    parts[0].known = RowTags(lineage, lineage.tag(parts[0].column, 3)[0])
    parts[1].known = RowTags(later, later.tag(parts[1].column, 4)[0])
    joint = concatenate(parts)
    assert joint.known is not None and joint.known.lineage is later
    for batch in (joint, joint.slice(2, 9), joint.slice(9, 12)):
        expected = later.tag(batch.column, batch.length)[0]
        found = tags_of(batch, later)[0]
        assert found.leaves.tolist() == expected.leaves.tolist()
        assert found.words.tolist() == expected.words.tolist()


def test_what_fails_when_put_together_is_not_known() -> None:
    asked: Asked = [where("10 // a > 1")]
    lineage = Lineage(asked)
    one, two = (
        Batch(np.arange(2), table(row(a=1), row(a=2))),
        Batch(np.arange(2, 4), table(row(a=3), row(a=0))),
    )
    one.known = RowTags(lineage, lineage.tag(one.column, 2)[0])
    assert concatenate([one, two]).known is None


# What a join looks at

CREATE = """
CREATE STREAM x (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR);
CREATE STREAM y (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE, s VARCHAR)
"""
NAMES = ["ts", "id", "k", "v", "s"]
ID = Column(SqlType.BIGINT, 1, "id")
WAITING = 5  # rows of x for which y has not come far enough
APART = "apart"
SHARED = ["auto", APART, "mem-opt", "cpu-opt", "pull-up", "push-down", "chain", "chain-cpu"]


class Looks:
    """Which rows each condition, or expression that is compared with constants, has been looked at for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: defaultdict[str, Counter[int]] = defaultdict(Counter)
        find, truth = Dimension.find, Lineage._truth
        evaluate_predicate = find_needed.evaluate_predicate

        def find_too(dimension: Dimension, rows: Rows, leaves: Any) -> None:
            self.note(dimension.expression, rows)
            find(dimension, rows, leaves)

        def truth_too(lineage: Lineage, rest: Expression, users: Any, rows: Rows, *how: Any) -> Any:
            self.note(rest, rows)
            return truth(lineage, rest, users, rows, *how)

        def evaluate_too(predicate: Expression, column: Any, length: int) -> Any:
            for part in conjuncts(predicate):
                bound = dimension_module.read_bound(part)
                self.note(part if bound is None else bound.subject, Rows(column, length))
            return evaluate_predicate(predicate, column, length)

        patch.setattr(Dimension, "find", find_too)
        patch.setattr(Lineage, "_truth", truth_too)
        patch.setattr(find_needed, "evaluate_predicate", evaluate_too)

    def note(self, what: Expression, rows: Rows) -> None:
        ids = rows.value(ID).to_pylist() if rows.length else []
        if ids:
            name = NAMES[what.index] if isinstance(what, Column) else dimension_module.nameless_text(what)
            self.seen[f"{name} of {'xy'[ids[0] % 2]}"].update(ids)


class Scene:
    """An engine with two streams; rows of x have even ids, those of y odd ones."""

    def __init__(self, strategy: str) -> None:
        self.engine = penstock.Engine(sharing="auto" if strategy == APART else strategy)
        self.engine.execute(CREATE)
        self.came = 0
        self.values: list[float] = []
        """Of x."""
        self.rng = np.random.default_rng(5)

    def query(self, where: str, seconds: int, counting: bool = False) -> penstock.Query:
        text = f"SELECT x.id, y.id AS yid, x.v, y.v AS w, x.s FROM x, y WHERE x.k = y.k{where}"
        return self.engine.query(f"{text} WINDOW {seconds} SECONDS", count_only=counting)

    def push(self, rows: int) -> None:
        """Rows of both, x ahead of y by a few: those wait."""
        for odd, stream in enumerate("xy"):
            numbers = np.arange(rows) + self.came
            columns = {"ts": (numbers - WAITING * odd) * 100_000, "id": 2 * numbers + odd}
            drawn = {"k": self.rng.integers(0, 3, rows), "v": self.rng.integers(0, 100, rows) / 10}
            self.values += [] if odd else drawn["v"].tolist()
            texts = self.rng.choice(["a", "ab", "b"], rows).tolist()
            self.engine.push(stream, {**columns, **drawn, "s": texts})
        self.came += rows


@pytest.fixture(params=SHARED)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def looks(strategy: str) -> Iterator[Looks]:
    with pytest.MonkeyPatch.context() as patch:
        if strategy == APART:
            part_always(patch)
        yield Looks(patch)


FILTERS = [
    "", " AND x.v > 3", " AND x.v > 7", " AND x.v > 3 AND y.s LIKE 'a%'", " AND x.v BETWEEN 2 AND 6",
    " AND y.v < 5 AND x.s <> 'b'", " AND y.v < 5",
]  # fmt: skip


@pytest.mark.parametrize("counting", [False, True])
def test_nothing_is_looked_at_twice(strategy: str, looks: Looks, counting: bool) -> None:
    """However many queries ask for it, and whoever comes with what others ask for, goes, or is altered."""
    scene = Scene(strategy)
    queries = [scene.query(asked, 5 + i, counting) for i, asked in enumerate(FILTERS)]
    for rows in (40, 1, 60):
        scene.push(rows)
    assert set(map(len, looks.seen.values())) <= {101, 101 - WAITING}
    assert len(looks.seen) == 4
    for act in (
        lambda: queries.pop(2).drop(),
        lambda: scene.engine.execute(f"ALTER QUERY {queries[1].name} SET WINDOW 3 SECONDS"),
        lambda: scene.engine.execute(f"ALTER QUERY {queries[3].name} SET WINDOW 9 SECONDS"),
        lambda: queries.append(scene.query(" AND x.v > 3", 4, counting)),
        lambda: queries.pop(0).drop(),
        lambda: queries.append(scene.query(" AND y.v < 5 AND y.s LIKE 'a%'", 20, counting)),
        lambda: queries.pop(-2).drop(),
    ):
        act()
        scene.push(30)
        for what, ids in looks.seen.items():
            assert set(ids.values()) == {1}, what


def test_a_newcomer_has_its_own_looked_at(strategy: str, looks: Looks) -> None:
    """Rows between two constants of others that its own constant parts, and conditions that nobody had."""
    scene = Scene(strategy)
    for asked, seconds in ((" AND x.v > 3", 30), (" AND x.v > 7", 20), (" AND y.v < 5", 25)):
        scene.query(asked, seconds)
    scene.push(80)
    before = {what: Counter(ids) for what, ids in looks.seen.items()}
    scene.query(" AND x.v > 5 AND x.s LIKE 'a%'", 25)
    scene.push(10)
    again = {what: {i for i, times in ids.items() if times > 1} for what, ids in looks.seen.items()}
    parted = {2 * i for i, value in enumerate(scene.values) if 3 < value <= 7}
    stored = set(range(0, 2 * (80 - WAITING), 2))
    seen_again = again.pop("v of x")
    assert parted & stored <= seen_again <= parted
    (new,) = {what for what in looks.seen if what not in before}
    assert not again.pop(new), "rows that are kept once"
    assert not any(again.values()), "what others asked for"


def test_tags_take() -> None:
    tags = Tags(np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(3, dtype=np.int64).reshape(1, 3))
    assert [array.tolist() for array in tags.take(np.array([2, 0])).arrays] == [[2, 0], [5, 3], [2, 0]]
